"""Loads traces as one typed history on Spark: a lazy DataFrame for checks, metrics and notebooks.

Tasks read their files with pyarrow (`plan`, `kernels.load`), so a path may be local or in any store that `pyarrow.fs` knows.
One survey of the columns asked for comes first: it counts rows, finds malformed ones and tells whether some process may have
a step twice. Only processes that do have one pay for a shuffle.

Invariants: every row of every file is in `Loaded.history` or in `Loaded.quarantine`, in exactly one of them; which rows these
are, and for what reason, is what `isotone.trace.read_trace` says of the same files, but that damage in a column that nobody
reads is not seen. All passes read the same columns, so they accept the same rows. What the driver holds grows with files, runs
and processes, not with rows.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from isotone.model.errors import TraceFormatError, unknown
from isotone.pipeline.kernels.load import Columns, Rejects, load
from isotone.pipeline.plan import Source, make_plan
from isotone.pipeline.session import spark_errors
from isotone.trace.columns import require_pyarrow
from isotone.trace.reader import STEP_BACK, Quarantined
from isotone.trace.schema import parquet_columns

BATCH_ROWS: Final = 65_536
TASKS_PER_CORE: Final = 4
_DDL: Final = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "list<string>": "array<string>",
    "map<string,string>": "map<string,string>",
}
_KEY: Final = ("run", "process", "step")
_PLACE: Final = {"place": "int64", "file": "string", "line": "int64"}
_QUARANTINE: Final = "file string, line bigint, reason string"
_REASONS: Final = (
    "broken JSON",
    "wrong type",
    "unknown kind",
    "missing column",
    "position with more",
    "unreadable Parquet file",
    "unreadable rows",
    "unfinished file",
)
Chain = tuple[str, str]
"""A run (empty if it has no name) and a process in it."""


@dataclass(slots=True)
class _Part:
    """The rows of one chain in one source."""

    chain: Chain
    rows: int
    first: int
    last: int
    distinct: bool
    """No step occurs twice."""


@dataclass(slots=True)
class _Survey:
    """What the first pass found out."""

    parts: list[_Part] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first_bad: Quarantined | None = None
    bad_sources: list[Source] = field(default_factory=list)

    def add(self, other: "_Survey") -> None:
        self.parts += other.parts
        self.kinds += other.kinds
        self.reasons += other.reasons
        both = [bad for bad in (self.first_bad, other.first_bad) if bad is not None]
        self.first_bad = min(both, key=lambda bad: (bad.file, bad.line), default=None)
        self.bad_sources += other.bad_sources

    def doubtful(self) -> set[Chain]:
        """Chains in which a step may occur twice."""
        spans: dict[Chain, list[tuple[int, int]]] = {}
        found = {part.chain for part in self.parts if not part.distinct}
        for part in self.parts:
            spans.setdefault(part.chain, []).append((part.first, part.last))
        return found | {chain for chain, some in spans.items() if any(b[0] <= a[1] for a, b in pairwise(sorted(some)))}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A history and what was set apart."""

    history: Any
    """A lazy DataFrame with the columns asked for, one row per event, in no particular order."""
    quarantine: Any
    """A lazy DataFrame (file, line, reason); line 0 is about a whole file."""
    _summary: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """Counts: files, rows, runs, processes, rows by kind, quarantined rows and files in all and by reason."""
        return dict(self._summary)


def history_schema(columns: Sequence[str] | None = None) -> str:
    """The schema of a history for Spark, as DDL."""
    kinds = parquet_columns()
    for name in columns or ():
        if name not in kinds:
            raise unknown("column", name, kinds)
    return ", ".join(f"`{name}` {_DDL[kinds[name]]}" for name in columns or kinds)


def read_history(session: Any, paths: Sequence[str], *, columns: Sequence[str] | None = None, strict: bool = False) -> Loaded:
    """The traces at these paths as one history: directories with all below them, globs and files, Parquet and JSON Lines.

    `columns` names the columns to read, by default all of `isotone.trace.schema.parquet_columns()`; what a file lacks is
    null. With `strict` a malformed row is an error.
    """
    ddl = history_schema(columns)
    names = list(columns or parquet_columns())
    plan = make_plan([str(path) for path in paths])
    with spark_errors(session):
        survey = _survey(session, plan.sources, names)
        survey.add(_apart(plan.quarantined))
        repeated = _steps_back(session, plan.sources, names, survey.doubtful())
        if repeated:
            late = _numbered(session, plan.sources, names, repeated, [*_KEY, "kind"]).where("rank > 1")
            back = Counter({row["kind"]: row["count"] for row in late.groupBy("kind").count().collect()})
            survey.kinds -= back
            survey.reasons["step goes back"] += back.total()
        if strict and survey.reasons.total():
            raise TraceFormatError(_complaint(session, plan.sources, names, survey, repeated))
        history = _frame(session, plan.sources, names, ddl, repeated)
        quarantine = _quarantine(session, plan.sources, names, plan.quarantined, survey.bad_sources, repeated)
    chains = {part.chain for part in survey.parts}
    summary = {
        "files": len({source.path for source in plan.sources} | {bad.file for bad in plan.quarantined}),
        "rows": survey.kinds.total(),
        "runs": sorted({run for run, _ in chains}),
        "processes": len(chains),
        "kinds": dict(sorted(survey.kinds.items())),
        "quarantined": survey.reasons.total(),
        "reasons": {reason: count for reason, count in sorted(survey.reasons.items()) if count},
    }
    return Loaded(history, quarantine, summary)


def _apart(quarantined: Sequence[Quarantined]) -> _Survey:
    reasons = Counter(_category(bad.reason) for bad in quarantined)
    return _Survey(reasons=reasons, first_bad=next(iter(quarantined), None))


def _category(reason: str) -> str:
    return next((known for known in _REASONS if reason.startswith(known)), "other")


def spread(session: Any, sources: Sequence[Source], work: Callable[[Source], Iterator[Any]], ddl: str) -> Any:
    """A lazy frame of the Arrow batches that `work` yields for each source, the largest sources first."""
    wide = TASKS_PER_CORE * int(session.sparkContext.defaultParallelism)
    tasks = max(1, min(wide, len(sources)))
    ordered = sorted(sources, key=lambda source: -source.rows)
    shares = [ordered[task::tasks] for task in range(tasks)]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for source in shares[index]:
                    yield from work(source)

    return session.range(0, tasks, 1, tasks).mapInArrow(run, ddl)


def _survey(session: Any, sources: Sequence[Source], names: Sequence[str]) -> _Survey:
    def work(source: Source) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.record_batch([pa.array([pickle.dumps(_look(source, names))], type=pa.binary())], names=["payload"])

    survey = _Survey()
    for row in spread(session, sources, work, "payload binary").collect() if sources else ():
        survey.add(pickle.loads(row.payload))
    return survey


def _look(source: Source, names: Sequence[str]) -> _Survey:
    rejects = Rejects()
    rows = load([source], rejects, also=names)
    found = _Survey(first_bad=rejects.named[0] if rejects.named else None)
    if rejects.count:
        found.bad_sources.append(source)
        found.reasons.update(_category(bad.reason) for bad in rejects.named)
    if rejects.count > len(rejects.named):  # the first ones are named, all must be counted
        rejects = Rejects(named_max=None)
        load([source], rejects, also=names)
        found.reasons = Counter(_category(bad.reason) for bad in rejects.named)
    for code, count in enumerate(np.bincount(rows.codes["kind"], minlength=len(rows.words["kind"]))):
        found.kinds[rows.words["kind"][code]] += int(count)
    for chain, mine in _chains(rows):
        step = rows.ints["step"][mine]
        distinct = bool((step[1:] > step[:-1]).all()) or len(np.unique(step)) == len(step)
        found.parts.append(_Part(chain, len(step), int(step.min()), int(step.max()), distinct))
    return found


def _chains(rows: Columns) -> Iterator[tuple[Chain, Any]]:
    """Each chain with the indices of its rows."""
    if not len(rows):
        return
    run, process = rows.codes["run"].astype(np.int64), rows.codes["process"].astype(np.int64)
    together = run * (len(rows.words["process"]) + 1) + process
    names: dict[Chain, list[Any]] = {}
    for one in np.unique(together):
        mine = np.flatnonzero(together == one)
        at = int(mine[0])
        name = rows.words["run"][run[at]] if run[at] >= 0 else "", rows.words["process"][process[at]]
        names.setdefault(name, []).append(mine)
    for name, parts in names.items():
        yield name, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _frame(session: Any, sources: Sequence[Source], names: list[str], ddl: str, repeated: set[Chain]) -> Any:
    def work(source: Source) -> Iterator[Any]:
        yield from _typed(_other(load([source], Rejects(), also=names), repeated), names, source)

    frame = spread(session, sources, work, ddl)
    if not repeated:
        return frame
    from pyspark.sql import functions as F

    needed = list(dict.fromkeys([*names, *_KEY]))
    ranked = _numbered(session, sources, names, repeated, needed)
    return frame.unionByName(ranked.where(F.col("rank") == 1).select(*names))


def _other(rows: Columns, repeated: set[Chain]) -> Columns:
    """Without the rows of the given chains."""
    if not repeated or not len(rows):
        return rows
    keep = np.ones(len(rows), dtype=np.bool_)
    for chain, mine in _chains(rows):
        keep[mine] = chain not in repeated
    return rows if keep.all() else rows.take(keep)


def _numbered(session: Any, sources: Sequence[Source], read: Sequence[str], chains: set[Chain], names: list[str]) -> Any:
    """Columns of the given chains with the rows' places; `rank` is 1 for the first row with its step, as files are read."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = {path: place for place, path in enumerate(dict.fromkeys(source.path for source in sources))}

    def work(source: Source) -> Iterator[Any]:
        rows = load([source], Rejects(), also=read, numbered=True)
        keep = np.zeros(len(rows), dtype=np.bool_)
        for chain, mine in _chains(rows):
            keep[mine] = chain in chains
        yield from _typed(rows.take(keep), [*names, *_PLACE], source, order[source.path])

    ddl = ", ".join([history_schema(names), *(f"{name} {_DDL[kind]}" for name, kind in _PLACE.items())])
    frame = spread(session, sources, work, ddl)
    same = Window.partitionBy(F.coalesce("run", F.lit("")), "process", "step").orderBy("place", "line")
    return frame.withColumn("rank", F.row_number().over(same))


def _typed(rows: Columns, names: Sequence[str], source: Source, place: int = 0) -> Iterator[Any]:
    """The table behind the rows as batches with exactly the columns and types of the schema."""
    pa = require_pyarrow()
    kinds = {**parquet_columns(), **_PLACE}
    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "list<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    table = rows.table
    same = {"place": place, "file": source.path}
    columns: dict[str, Any] = {}
    for name in names:
        kind = types[kinds[name]]
        if name in table.column_names:
            columns[name] = table.column(name).cast(kind)
        else:
            columns[name] = pa.repeat(pa.scalar(same.get(name), kind), table.num_rows)
    yield from pa.table(columns).to_batches(max_chunksize=BATCH_ROWS)


def _steps_back(session: Any, sources: Sequence[Source], read: Sequence[str], doubtful: set[Chain]) -> set[Chain]:
    """Which of the doubtful chains do have a step twice."""
    if not doubtful:
        return set()
    from pyspark.sql import functions as F

    def work(source: Source) -> Iterator[Any]:
        rows = load([source], Rejects(), also=read)
        keep = np.zeros(len(rows), dtype=np.bool_)
        for chain, mine in _chains(rows):
            keep[mine] = chain in doubtful
        yield from _typed(rows.take(keep), _KEY, source)

    frame = spread(session, sources, work, history_schema(_KEY))
    run = F.coalesce("run", F.lit("")).alias("run")
    often = frame.groupBy(run, "process", "step").count().where("count > 1")
    return {(row["run"], row["process"]) for row in often.select("run", "process").distinct().collect()}


def _quarantine(
    session: Any,
    sources: Sequence[Source],
    read: Sequence[str],
    whole: Sequence[Quarantined],
    bad: Sequence[Source],
    repeated: set[Chain],
) -> Any:
    from pyspark.sql import functions as F

    def work(source: Source) -> Iterator[Any]:
        import pyarrow as pa

        rejects = Rejects(named_max=None)
        load([source], rejects, also=read)
        rows = [(found.file, found.line, found.reason) for found in rejects.named]
        files, lines, reasons = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"file": pa.array(files, pa.string()), "line": pa.array(lines, pa.int64())}
        yield from pa.table({**columns, "reason": pa.array(reasons, pa.string())}).to_batches(max_chunksize=BATCH_ROWS)

    frame = session.createDataFrame([(found.file, found.line, found.reason) for found in whole], _QUARANTINE)
    if bad:
        frame = frame.union(spread(session, bad, work, _QUARANTINE))
    if repeated:
        ranked = _numbered(session, sources, read, repeated, [*_KEY]).where("rank > 1")
        frame = frame.union(ranked.select("file", "line", F.format_string(STEP_BACK, "step", "process")))
    return frame


def _complaint(session: Any, sources: Sequence[Source], read: Sequence[str], survey: _Survey, repeated: set[Chain]) -> str:
    first = survey.first_bad
    if first is None:
        row = _quarantine(session, sources, read, (), (), repeated).orderBy("file", "line").first()
        first = Quarantined(row["file"], row["line"], row["reason"])
    return f"{survey.reasons.total()} malformed rows, the first in {first.file}:{first.line}: {first.reason}"
