"""The contenders of `benchmarks/pipeline.py`: each is made from a directory and returns a function that judges it.

"duckdb obvious" says each check as one would first write it. "duckdb expert" trusts the order of the files, compares
fingerprints instead of messages, and looks at FIFO and at payloads in one file only, since the others have the same
fingerprint. "scipy components" knows the order check alone: it builds the graph of all direct precedences and searches
strongly connected components. A judgement is whether all is well, and a remark.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Judgement = tuple[bool, str]
Judge = Callable[[], Judgement]

KEY = "(view_epoch, view_proposer, position_0, position_1)"
OBVIOUS = {
    "integrity": """select count(*) from d left join s using (origin, number)
        where s.process is null or s.digest is distinct from d.digest""",
    "duplication": "select count(*) from (select 1 from d group by process, origin, number having count(*) > 1)",
    "fifo": """select count(*) from (select number <= lag(number) over (partition by process, origin order by step) as bad from d)
        where bad""",
    "increasing": """select count(*) from (select key <= lag(key) over (partition by process order by step) as bad from d)
        where bad""",
    "one position": """select count(*) from (select 1 from d group by origin, number
        having min(key) <> max(key))""",
    "unique": """select count(*) from (select 1 from d group by key
        having count(distinct (origin, number)) > 1)""",
}
EXPERT_FILE = """select count(*), sum(h), sum(coalesce((process = before_process and place <= before)::int, 0)) from (
    select process, hash(origin, number, digest, position_0, position_1) as h,
    position_0 * (1::hugeint << 62) + position_1 as place,
    lag(position_0 * (1::hugeint << 62) + position_1) over () as before, lag(process) over () as before_process
    from read_parquet('{file}') where kind = 'deliver')"""
EXPERT_ONCE = {
    "fifo": """select count(*) from (select number <= lag(number) over (partition by origin order by step) as bad
        from read_parquet('{file}') where kind = 'deliver') where bad""",
    "integrity": """select count(*) from (select sum(hash(origin, number, digest)) as h, count(*) as n from s) a,
        (select sum(hash(origin, number, digest)) as h, count(*) as n from read_parquet('{file}') where kind = 'deliver') b
        where a.h <> b.h or a.n <> b.n""",
}


def duckdb_session(directory: Path, cores: int, memory: int) -> Any:
    import duckdb

    base = duckdb.connect()
    base.execute(f"set threads = {cores}")
    base.execute(f"set memory_limit = '{memory >> 20}MiB'")
    base.execute(f"set temp_directory = '{directory.parent}/duckdb'")
    base.execute(f"create view t as select * from read_parquet('{directory}/*.parquet')")
    base.execute(f"create view d as select *, {KEY} as key from t where kind = 'deliver'")
    base.execute("create view s as select * from t where kind = 'send'")
    return base


def obvious(directory: Path, cores: int, memory: int) -> Judge:
    base = duckdb_session(directory, cores, memory)

    def judge() -> Judgement:
        bad = [name for name, query in OBVIOUS.items() if base.execute(query).fetchone()[0]]
        return not bad, ", ".join(bad)

    return judge


def expert(directory: Path, cores: int, memory: int) -> Judge:
    base = duckdb_session(directory, cores, memory)
    files = sorted(directory.glob("*.parquet"))

    def judge() -> Judgement:
        found = {tuple(base.execute(EXPERT_FILE.format(file=file)).fetchone()) for file in files}
        once = [base.execute(query.format(file=files[0])).fetchone()[0] == 0 for query in EXPERT_ONCE.values()]
        return len(found) == 1 and next(iter(found))[2] == 0 and all(once), ""

    return judge


def components(directory: Path, cores: int, memory: int) -> Judge:
    """One thread, and as much memory as it takes: there is no way to tell SciPy otherwise."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    def judge() -> Judgement:
        chains = []
        for file in sorted(directory.glob("*.parquet")):
            table = pq.read_table(file, columns=["kind", "origin", "number"])
            table = table.filter(pc.equal(table.column("kind"), "deliver"))
            origin = table.column("origin").unify_dictionaries().combine_chunks()
            number = np.asarray(table.column("number"))
            chains.append((np.asarray(origin.indices), origin.dictionary.to_pylist(), number))
        names = sorted({name for _, words, _ in chains for name in words})
        most = max(int(number.max()) for _, _, number in chains) + 1
        nodes = []
        for codes, words, number in chains:
            base = np.array([names.index(word) for word in words]) * most
            nodes.append((base[codes] + number).astype(np.int32))
        before, after = (np.concatenate([node[part] for node in nodes]) for part in (slice(None, -1), slice(1, None)))
        size = most * len(names)
        graph = coo_array((np.ones(len(before), dtype=np.int8), (before, after)), shape=(size, size)).tocsr()
        count = connected_components(graph, directed=True, connection="strong", return_labels=False)
        return count == size, ""

    return judge


def isotone(directory: Path, checks: Sequence[str], damaged: Sequence[str]) -> Judge:
    """The Spark session is started when this is called; a judgement is one call of `verify`.

    Every witness must name one of the damaged messages, or the judgement says so.
    """
    from isotone.pipeline.scan import verify
    from isotone.pipeline.session import open_session

    session = open_session()
    context = session.sparkContext
    calls = 0

    def judge() -> Judgement:
        nonlocal calls
        calls += 1
        context.setJobGroup(f"call {calls}", "benchmark")
        report = verify([str(directory)], checks, session=session).report
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(f"call {calls}")]
        stages = sum(len(job.stageIds) for job in jobs if job is not None)
        told = [check for check in report.checks if check.verdict != "ok"]
        shown = [f"{check.name} {check.verdict}: {check.witness}" for check in told]
        wrong = [check.name for check in told if not any(message in str(check.witness) for message in damaged)]
        stray = [f"WRONG WITNESS of {', '.join(wrong)}"] if wrong and report.verdict == "violated" else []
        return report.verdict == "ok", "\n".join([f"{len(jobs)} jobs, {stages} stages", *shown, *stray])

    return judge
