"""Verifies a history with Spark: one stage without a shuffle, then only what it could not certify.

1. Every task reads its sources with pyarrow and condenses them to pieces (`kernels.chunk`).
2. Processes whose files are not in the order of their steps are read again, each by one task that sorts it.
3. The driver combines the pieces (`combine`). Blocks whose fingerprints differ are confirmed message by message: the
   only shuffle, of the rows of those blocks.
4. Rows in islands and of suspect messages come to the driver, with the sends that belong to them, and the oracle judges
   them: its verdict and its witness are the report's.

Invariants: verdicts are those of the oracle over the whole history; what the driver holds is bounded by `RESIDUE_MAX` rows
besides the pieces; a check that would need more is *unknown*, with the reason.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from isotone.model.errors import TraceFormatError, unknown
from isotone.pipeline.combine import Confirmed, RunState, combine, overlapping, take_confirmed
from isotone.pipeline.kernels.chunk import Piece, summarise
from isotone.pipeline.kernels.extract import Wanted, in_blocks, pick
from isotone.pipeline.kernels.keys import Key, Salt
from isotone.pipeline.kernels.load import NOTHING, Rejects, load
from isotone.pipeline.oracle.check import CHECKS, Expectation, default_checks
from isotone.pipeline.oracle.history import History, index_runs
from isotone.pipeline.oracle.report import Finding, Report, merge
from isotone.pipeline.plan import ROWS_PER_SOURCE, Plan, Source, make_plan
from isotone.pipeline.session import open_session, spark_errors
from isotone.trace.reader import Quarantined

SCANNED: Final = ("integrity", "duplication", "fifo", "total_global", "position")
"""The checks that the scan knows."""
RESIDUE_MAX: Final = 500_000
CONFIRMED_MAX: Final = 10_000
BLOCK_BITS: Final = 12
BLOCKS_TARGET: Final = 65_536
_LACKS: Final = {
    "integrity": ("deliver", "send"),
    "duplication": ("deliver",),
    "fifo": ("deliver",),
    "total_global": ("deliver",),
    "position": ("deliver", "deliver.position"),
}
_BLOCK_SCHEMA: Final = (
    "run string, origin string, number long, process string, sent boolean, digest long, "
    "epoch long, proposer string, p0 long, p1 long, p2 long, p3 long"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """What one call of a kernel reads; with `only`, the rows of one run and process."""

    sources: tuple[Source, ...]
    only: tuple[str, str] | None = None


@dataclass(slots=True)
class Outcome:
    """A report, and what was set apart (counted in full, the first ones named)."""

    report: Report
    quarantined: list[Quarantined]


def verify(
    paths: Sequence[str],
    checks: Sequence[str] | None = None,
    *,
    master: str = "local[*]",
    session: Any = None,
    strict: bool = False,
    rows_per_source: int = ROWS_PER_SOURCE,
    residue_max: int = RESIDUE_MAX,
) -> Outcome:
    """Check the traces at these paths. `checks` are of `SCANNED`; by default those that the protocols promise."""
    for name in checks or ():
        if name not in SCANNED:
            raise unknown("check", name, SCANNED)
    plan = make_plan([str(path) for path in paths], rows_per_source=rows_per_source)
    spark = session if session is not None else open_session(master)
    with spark_errors(spark):
        return _Scan(spark, plan, residue_max, strict).run(checks)


class _Scan:
    def __init__(self, spark: Any, plan: Plan, residue_max: int, strict: bool) -> None:
        self._spark = spark
        self._strict = strict
        self._residue_max = residue_max
        self._units = [Unit((source,)) for source in plan.sources]
        self._named = list(plan.quarantined)
        self._rejected = len(plan.quarantined)
        self._salt = Salt(os.urandom(32))
        self._shift = max(BLOCK_BITS, (plan.rows // BLOCKS_TARGET).bit_length())

    def run(self, checks: Sequence[str] | None) -> Outcome:
        pieces = self._pieces(range(len(self._units)), with_load=True)
        torn = overlapping(pieces)
        if torn:
            pieces = self._repair(pieces, torn)
        for piece in pieces:
            self._reject(piece.repeated)
        if self._strict and self._rejected:
            first = self._named[0]
            raise TraceFormatError(f"{self._rejected} malformed rows, the first in {first.file}:{first.line}: {first.reason}")
        states = combine(pieces, self._shift)
        self._confirm(states)
        exact = self._exact(states)
        findings: dict[str, list[tuple[str, Finding]]] = {}
        for state in states:
            chosen = [name for name in default_checks(state.protocols) if name in SCANNED] if checks is None else checks
            for name in dict.fromkeys(chosen):
                findings.setdefault(name, []).append((state.run, _finding(name, state, exact.get(state.run))))
        report = Report(sum(state.rows for state in states), self._rejected, by_name=checks is not None)
        names = [name for name in CHECKS if name in findings] if checks is None else list(dict.fromkeys(checks))
        report.checks = [merge(name, findings.get(name, [])) for name in names]
        return Outcome(report, self._named)

    def _reject(self, rejects: Rejects) -> None:
        self._rejected += rejects.count
        self._named.extend(rejects.named)

    def _map(self, units: Sequence[int], work: Callable[[int, Unit], Any], schema: str) -> Any:
        """A frame of what `work` yields (Arrow batches) for the units, largest first over few tasks."""
        wide = 2 * int(self._spark.sparkContext.defaultParallelism)
        every = self._units
        ordered = sorted(units, key=lambda unit: -sum(source.rows for source in every[unit].sources))
        shares = [[(unit, every[unit]) for unit in ordered[task :: max(1, wide)]] for task in range(min(wide, len(ordered)))]

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    for number, unit in shares[index]:
                        yield from work(number, unit)

        return self._spark.range(0, len(shares), 1, max(1, len(shares))).mapInArrow(task, schema)

    def _pieces(self, units: Sequence[int], *, with_load: bool) -> list[Piece]:
        salt, shift = self._salt, self._shift

        def work(number: int, unit: Unit) -> Iterator[Any]:
            rejects = Rejects()
            rows = _read(unit, rejects)
            yield _payload(pickle.dumps((summarise(rows, number, shift, salt), rejects)))

        pieces: list[Piece] = []
        for row in self._map(units, work, "payload binary").collect() if units else ():
            found, rejects = pickle.loads(row.payload)
            pieces.extend(found)
            if with_load:
                self._reject(rejects)
        return pieces

    def _repair(self, pieces: list[Piece], torn: set[tuple[str, str]]) -> list[Piece]:
        """Read processes whose pieces overlap once more, each as a whole."""
        first = len(self._units)
        for name in sorted(torn):
            units = dict.fromkeys(piece.unit for piece in pieces if (piece.run, piece.process) == name)
            self._units.append(Unit(tuple(source for unit in units for source in self._units[unit].sources), name))
        kept = [piece for piece in pieces if (piece.run, piece.process) not in torn]
        return kept + self._pieces(range(first, len(self._units)), with_load=False)

    def _confirm(self, states: list[RunState]) -> None:
        """Compare the messages of suspect blocks exactly."""
        suspects = {state.run: state.suspects for state in states if state.suspects}
        if not suspects:
            return
        shift = self._shift

        def work(_: int, unit: Unit) -> Iterator[Any]:
            return iter(in_blocks(_read(unit, Rejects()), suspects, shift).to_batches())

        sets = {run: {origin: set(blocks) for origin, blocks in origins.items()} for run, origins in suspects.items()}
        units = {piece.unit for state in states for piece in state.each() if _touches(piece, sets.get(state.run, {}))}
        frame = self._map(sorted(units), work, _BLOCK_SCHEMA)
        found = _remarkable(frame).limit(CONFIRMED_MAX + 1).collect()
        for state in states:
            mine = [_confirmed(row) for row in found if row.run == state.run]
            if len(found) > CONFIRMED_MAX:
                state.need_whole(f"more than {CONFIRMED_MAX} messages are remarkable", ("integrity", "position", "total_global"))
            take_confirmed(state, sorted(mine, key=lambda message: (message.origin, message.number)))

    def _exact(self, states: list[RunState]) -> dict[str, History]:
        """The histories that the oracle judges: whole runs where nothing less decides, else the suspect rows."""
        room = self._residue_max
        for state in states:
            if state.undecided and state.rows <= room:
                room -= state.rows
                state.undecided.clear()
                state.wanted = Wanted(everything=True)
        wanted = {state.run: state.wanted for state in states if state.wanted}
        if not wanted:
            return {}
        rows = self._rows(states, wanted)
        if len(rows) > self._residue_max:
            for state in states:
                if state.wanted:
                    reason = f"more than {self._residue_max} rows are suspect"
                    state.need_whole(reason, SCANNED)
            return {}
        sends: dict[str, Wanted] = {}
        for state in states:
            if not state.wanted or state.wanted.everything:
                continue
            about: dict[str, set[int]] = {}
            for row in rows:
                if (row.get("run") or "") == state.run and "origin" in row:
                    about.setdefault(row["origin"], set()).add(row["number"])
            for process, chain in state.pieces.items():  # how far an origin's sends go decides what counts as cut off
                about.setdefault(process, set()).update([piece.sent[1] for piece in chain if piece.sent][-1:])
            sends[state.run] = Wanted(sends={origin: sorted(numbers) for origin, numbers in about.items()})
        if sends:
            rows.extend(self._rows(states, sends))
        rows = _once(rows) + [row for state in states if state.run in sends for row in _frame_of(state)]
        return {history.run: history for history in index_runs(rows)}

    def _rows(self, states: list[RunState], wanted: Mapping[str, Wanted]) -> list[dict[str, Any]]:
        def work(_: int, unit: Unit) -> Iterator[Any]:
            picked = pick(_read(unit, Rejects(), every_column=True), wanted)
            for start in range(0, len(picked), 1_000):
                yield _payload(msgspec.json.encode(picked[start : start + 1_000]))

        units = {piece.unit for state in states for piece in state.each() if _concerns(piece, wanted.get(state.run))}
        if not units:
            return []
        frame = self._map(sorted(units), work, "payload binary")
        packs = frame.limit(self._residue_max // 1_000 + len(units) + 1).collect()
        return [row for pack in packs for row in msgspec.json.decode(pack.payload)]


def _read(unit: Unit, rejects: Rejects, *, every_column: bool = False) -> Any:
    rows = load(unit.sources, rejects, every_column=every_column)
    if unit.only is None or not len(rows):
        return rows
    run, process = unit.only
    mine = rows.codes["process"] == rows.code("process", process)
    here = rows.codes["run"] == rows.code("run", run)
    return rows.take(mine & (here | (rows.codes["run"] == -1) if run == "" else here))


def _payload(content: bytes) -> Any:
    import pyarrow as pa

    return pa.record_batch([pa.array([content], type=pa.binary())], names=["payload"])


def _touches(piece: Piece, suspects: Mapping[str, set[int]]) -> bool:
    return any(block.block in suspects.get(block.origin, ()) for block in (*piece.blocks, *piece.sent_blocks))


def _concerns(piece: Piece, wish: Wanted | None) -> bool:
    """Whether wanted rows may be in the unit of the piece."""
    if wish is None or wish.everything:
        return wish is not None
    low, high = piece.key_low, piece.key_high
    if low is not None and high is not None and any(low <= island[1] and island[0] <= high for island in wish.islands):
        return True
    for (process, origin), intervals in wish.numbers.items():
        near = piece.delivered.get(origin) if process == piece.process else None
        if near is not None and any(near.low <= last and first <= near.high for first, last in intervals):
            return True
    for origin, numbers in wish.messages.items():
        spans = piece.delivered.get(origin)
        if spans is not None and any(spans.low <= number <= spans.high for number in numbers):
            return True
    mine = {*wish.messages.get(piece.process, ()), *wish.sends.get(piece.process, ())}
    if piece.sent is not None and any(piece.sent[0] <= number <= piece.sent[1] for number in mine):
        return True
    return piece.returned_count > 0 and bool(wish.messages)


def _remarkable(frame: Any) -> Any:
    """Messages with unequal digests or keys, without a send, not delivered by their origin, or sharing a key."""
    from pyspark.sql import functions as F

    key = F.struct("epoch", "proposer", "p0", "p1", "p2", "p3")
    deliver = ~F.col("sent")
    digest = F.when(deliver, F.col("digest"))
    per_message = frame.groupBy("run", "origin", "number").agg(
        F.max(F.col("sent") & (F.col("process") == F.col("origin"))).alias("sent"),
        F.max(deliver).alias("delivered"),
        F.max(deliver & (F.col("process") == F.col("origin"))).alias("own"),
        F.min(digest).alias("digest_low"),
        F.max(digest).alias("digest_high"),
        F.min(F.when(F.col("sent"), F.col("digest"))).alias("digest_sent"),
        F.min(F.when(deliver, key)).alias("low"),
        F.max(F.when(deliver, key)).alias("high"),
    )
    differs = F.coalesce(F.col("digest_low") != F.col("digest_sent"), F.lit(False)) | F.coalesce(
        F.col("digest_high") != F.col("digest_sent"), F.lit(False)
    )
    judged = per_message.where("delivered").withColumn("unequal", differs | ~F.col("sent"))
    twice = judged.where(F.col("low.p0") != F.lit(NOTHING)).groupBy("run", "low").agg(F.count("*").alias("n"))
    shared = twice.where("n > 1").select("run", "low", F.lit(True).alias("shared"))
    marked = judged.join(shared, ["run", "low"], "left").withColumn("shared", F.coalesce("shared", F.lit(False)))
    own = judged.where("own").select("run", "origin", F.col("number").alias("after"), F.col("low").alias("key"))
    orphans = judged.where("sent and not own").select("run", "origin", "number").join(own, ["run", "origin"])
    next_own = F.min(F.when(F.col("after") > F.col("number"), F.col("key"))).alias("later")
    bounds = orphans.groupBy("run", "origin", "number").agg(next_own)
    marked = marked.join(bounds, ["run", "origin", "number"], "left")
    return marked.where(F.col("unequal") | F.col("shared") | ~F.col("own") | (F.col("low") != F.col("high")))


def _confirmed(row: Any) -> Confirmed:
    later = None if row.later is None else _key(row.later)
    return Confirmed(row.origin, row.number, row.sent, row.own, row.unequal, row.shared, _key(row.low), _key(row.high), later)


def _key(key: Any) -> Key:
    return key.epoch, key.proposer, tuple(part for part in (key.p0, key.p1, key.p2, key.p3) if part != NOTHING)


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row once, by run, process and step."""
    return list({(row.get("run") or "", row["process"], row["step"]): row for row in rows}.values())


def _frame_of(state: RunState) -> Iterator[dict[str, Any]]:
    """Rows that say which processes there are and how their traces end; they stand before and after all others."""
    for process, chain in state.pieces.items():
        row: dict[str, Any] = {"process": process, "step": chain[0].first_step - 1, "kind": "start"}
        if state.run:
            row["run"] = state.run
        yield row
        if chain[-1].last_kind in ("stop", "crash"):
            yield {**row, "step": chain[-1].last_step, "kind": chain[-1].last_kind}


def _missing(name: str, state: RunState) -> str | None:
    for need in _LACKS[name]:
        kind, _, column = need.partition(".")
        if kind not in state.kinds:
            return f"{kind} rows"
        if column and not state.placed:
            return f"column {column} on {kind} rows"
    return None


def _finding(name: str, state: RunState, exact: History | None) -> Finding:
    missing = _missing(name, state)
    if missing is not None:
        return Finding(missing=missing)
    if exact is not None and exact.lacks(*_LACKS[name]) is None:
        found = CHECKS[name](exact, Expectation())
        if found.violations or found.missing or found.note:
            return found
    if name in state.undecided:
        reason = state.undecided[name]
        return Finding(witness=f"undecided: {reason}, and the run is too long for the exact check", missing=reason)
    note = None
    if name in ("integrity", "total_global", "position") and not state.wanted.everything:
        note = f"rests on fingerprints of {state.blocks} blocks; error at most {state.blocks} × 2⁻⁶⁴"
    return Finding(note=note)
