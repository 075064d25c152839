"""Measures the scan of `isotone.pipeline` next to DuckDB on the same files in the same run.

    python benchmarks/pipeline.py [--events 1000000] [--processes 5] [--fault none|swap|forge] [--repeat 3] [--dir DIR]

Generates a history of one view with a sequencer's positions, or with one fault hidden in the middle, and prints for each
contender the seconds of every repetition, delivery events per second (the best repetition) and the peak resident memory of
the process tree (shared pages counted in each process that maps them). Session start and first action are shown apart.

"duckdb obvious" says each check as one would first write it; "duckdb expert" trusts the order of the files and compares
fingerprints. Both must see the fault, or none if there is none; the benchmark fails if a verdict is wrong.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotone.trace.columns import arrow_schema
from isotone.trace.schema import parquet_columns

MEBIBYTE = 1 << 20
ROWS_PER_GROUP = 65_536
SENT_AHEAD = 20


class PeakMemory:
    """The largest sum of resident memory of this process and all below it, looked at ten times a second."""

    def __enter__(self) -> "PeakMemory":
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, _tree_bytes())
            if self._done.wait(0.1):
                return


def _tree_bytes() -> int:
    page = os.sysconf("SC_PAGE_SIZE")
    parent: dict[int, int] = {}
    size: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                size[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * page
            except (OSError, IndexError):
                continue  # it ended while we looked
    mine = {os.getpid()}
    grown = True
    while grown:
        below = {child for child, above in parent.items() if above in mine} - mine
        grown = bool(below)
        mine |= below
    return sum(size.get(process, 0) for process in mine)


def generate(directory: Path, events: int, processes: int, fault: str) -> int:
    """Write the files; returns how many delivery events there are."""
    messages = events // processes
    chance = np.random.default_rng(7)
    origin = chance.integers(0, processes, messages, dtype=np.int32)
    number = np.empty(messages, dtype=np.int64)
    for one in range(processes):
        mine = np.flatnonzero(origin == one)
        number[mine] = np.arange(1, len(mine) + 1)
    digest = chance.integers(0, 1 << 32, messages, dtype=np.int64)
    names = [f"p{one:03d}#1" for one in range(processes)]
    for one in range(processes):
        _write_process(directory, one, names, origin, number, digest, fault if one == processes // 2 else "none")
    return messages * processes


def _write_process(directory: Path, me: int, names: list[str], origin: Any, number: Any, digest: Any, fault: str) -> None:
    messages = len(origin)
    place = np.arange(messages)
    own = np.flatnonzero(origin == me)
    when = np.concatenate([place * 2 + 1, np.maximum(own - SENT_AHEAD, 0) * 2])
    which = np.concatenate([place, own])
    is_send = np.concatenate([np.zeros(messages, dtype=np.bool_), np.ones(len(own), dtype=np.bool_)])
    order = np.argsort(when, kind="stable")
    which, is_send = which[order], is_send[order]
    middle = np.flatnonzero(~is_send)[messages // 2]
    following = middle + 1 + int(np.argmin(is_send[middle + 1 :]))
    if fault == "swap":
        which[[middle, following]] = which[[following, middle]]
    payload = digest[which]
    if fault == "forge":
        payload[middle] ^= 1
    rows = len(which)
    texts = {
        "process": (np.full(rows, me, dtype=np.int32), names),
        "kind": (is_send.astype(np.int32), ["deliver", "send"]),
        "origin": (origin[which], names),
        "view_proposer": (np.zeros(rows, dtype=np.int32), names),
        "protocol": (np.zeros(rows, dtype=np.int32), ["sequencer"]),
    }
    integers = {"step": np.arange(1, rows + 1), "number": number[which], "digest": payload, "time": np.arange(rows) * 1_000}
    columns = {name: pa.array(values) for name, values in integers.items()}
    columns["view_epoch"] = pa.array(np.ones(rows, dtype=np.int64))
    columns["position_0"] = pa.array(np.zeros(rows, dtype=np.int64), mask=is_send)
    columns["position_1"] = pa.array(which.astype(np.int64), mask=is_send)
    for name, (codes, words) in texts.items():
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words))
    schema = arrow_schema()
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    kinds = parquet_columns()
    pq.write_table(
        pa.table(arrays, schema=schema),
        directory / f"p{me:03d}.parquet",
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name, kind in kinds.items() if "string" in kind],
        column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in kinds.items() if kind.startswith("int")},
    )


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


def duckdb_session(directory: Path, cores: int) -> Any:
    import duckdb

    base = duckdb.connect()
    base.execute(f"set threads = {cores}")
    base.execute(f"create view t as select * from read_parquet('{directory}/*.parquet')")
    base.execute(f"create view d as select *, {KEY} as key from t where kind = 'deliver'")
    base.execute("create view s as select * from t where kind = 'send'")
    return base


def obvious(base: Any) -> bool:
    return all(base.execute(query).fetchone()[0] == 0 for query in OBVIOUS.values())


def expert(base: Any, directory: Path) -> bool:
    files = sorted(directory.glob("*.parquet"))
    found = {tuple(base.execute(EXPERT_FILE.format(file=file)).fetchone()) for file in files}
    once = [base.execute(query.format(file=files[0])).fetchone()[0] == 0 for query in EXPERT_ONCE.values()]
    return len(found) == 1 and next(iter(found))[2] == 0 and all(once)


def measure(name: str, action: Callable[[], bool], repeat: int, events: int, clean: bool) -> None:
    times: list[float] = []
    with PeakMemory() as memory:
        for _ in range(repeat):
            start = time.perf_counter()
            right = action() == clean
            times.append(time.perf_counter() - start)
            if not right:
                sys.exit(f"{name}: wrong verdict")
    shown = " ".join(f"{seconds:.2f}" for seconds in times)
    rate, peak = events / min(times) / 1e6, memory.peak / MEBIBYTE
    print(f"{name:<22} {rate:7.2f} M events/s   s: {shown}   peak {peak:,.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=lambda text: int(float(text)), default=1_000_000, help="delivery events")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--fault", choices=("none", "swap", "forge"), default="none")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where to put the files; default: a temporary directory")
    parser.add_argument("--without", nargs="*", default=[], choices=("obvious", "expert"))
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=given.dir) as name:
        directory = Path(name)
        events = generate(directory, given.events, given.processes, given.fault)
        size = sum(file.stat().st_size for file in directory.iterdir()) / MEBIBYTE
        print(f"{events:,} delivery events, {given.processes} processes, fault {given.fault}, {size:,.0f} MiB, {cores} cores")
        clean = given.fault == "none"
        base = duckdb_session(directory, cores)
        if "expert" not in given.without:
            measure("duckdb expert", lambda: expert(base, directory), given.repeat, events, clean)
        if "obvious" not in given.without:
            measure("duckdb obvious", lambda: obvious(base), 1, events, clean)
        base.close()
        measure_spark(directory, given.repeat, events, clean)


def measure_spark(directory: Path, repeat: int, events: int, clean: bool) -> None:
    from isotone.pipeline.scan import SCANNED, verify
    from isotone.pipeline.session import open_session

    start = time.perf_counter()
    session = open_session()
    print(f"spark session start    {time.perf_counter() - start:.2f} s")
    witnesses: list[str] = []

    def scan() -> bool:
        report = verify([str(directory)], SCANNED, session=session).report
        witnesses[:] = [f"{check.name}: {check.witness}" for check in report.checks if check.verdict != "ok"]
        return report.verdict == "ok"

    measure("isotone, first action", scan, 1, events, clean)
    measure("isotone, warm", scan, repeat, events, clean)
    for witness in witnesses:
        print(f"  {witness}")
    session.stop()


if __name__ == "__main__":
    main()
