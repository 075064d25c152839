"""Verifies a history with Spark: one stage without a shuffle, then only what it could not certify.

1. Every task reads its sources with pyarrow and condenses them: to pieces for the checks of order (`kernels.chunk`), and
   to spans for the checks about views (`kernels.stretch`), whichever the chosen checks need.
2. Processes whose steps overlap between sources are read again, each as a whole by one task that sorts it.
3. The driver combines the pieces (`combine`) and spans (`visits`). Blocks whose fingerprints differ are confirmed message
   by message by a group-by of the rows of those blocks.
4. Small runs, and the suspect messages of large ones, are judged by the oracle inside tasks (`judge`), each case by itself.
5. Rows in islands and of suspect messages come to the driver, with the sends that belong to them, and the oracle judges
   them: its verdict and its witness are the report's.
6. Runs without a usable candidate order are decided as a whole by one task each, on integers (`whole`).

Invariants: verdicts are those of the oracle over the whole history; what the driver holds is bounded by `RESIDUE_MAX` rows
besides pieces and spans, whose size depends on processes, views, origins and blocks.
"""

import os
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError, TraceFormatError, unknown
from isotone.pipeline.combine import NUMBER_CHECKS, ORDER_CHECKS, RunState, combine, overlapping
from isotone.pipeline.confirm import confirm
from isotone.pipeline.doubts import BY_MESSAGE, FRAME_ONLY, suspects
from isotone.pipeline.judge import Background, Law, cases_of, judge, skeleton, split
from isotone.pipeline.kernels import semantic
from isotone.pipeline.kernels.chunk import Piece, once, summarise
from isotone.pipeline.kernels.compact import Message
from isotone.pipeline.kernels.extract import Wanted
from isotone.pipeline.kernels.keys import Salt
from isotone.pipeline.kernels.load import Rejects
from isotone.pipeline.kernels.parcel import Choice, opened, parcels
from isotone.pipeline.kernels.stretch import Span, spans
from isotone.pipeline.oracle.check import CHECKS, Expectation, undecided
from isotone.pipeline.oracle.history import History, index_runs
from isotone.pipeline.oracle.report import Finding, Report, Verdict, merge
from isotone.pipeline.oracle.witness import Witness
from isotone.pipeline.plan import ROWS_PER_SOURCE, Plan, make_plan
from isotone.pipeline.residue import as_whole, complete, fetch, rows_about
from isotone.pipeline.session import open_session, spark_errors
from isotone.pipeline.stage import Stage, Unit, payload, read, reunite
from isotone.pipeline.visits import Run, put_together
from isotone.pipeline.whole import decide_whole
from isotone.trace.reader import Quarantined

SCANNED: Final = ("integrity", "duplication", "fifo", "total_global", "position")
"""The checks that the pieces of a run without faults decide, and the benchmark measures."""
RESIDUE_MAX: Final = 500_000
SMALL_ROWS: Final = 20_000
BATCH_ROWS: Final = 100_000
BLOCK_BITS: Final = 12
BLOCKS_TARGET: Final = 65_536
_LACKS: Final = {
    "integrity": ("deliver", "send"),
    "causal": ("deliver", "send"),
    "semantic_causal": ("deliver", "send"),
    "position": ("deliver", "deliver.position"),
}
_FRAME_COLUMNS: Final = ("members", "time")
_ALSO: Final = {"uniform": ("level",), "resilience": ("level", "k", "detail")}
_Found = dict[str, dict[str, list[Finding]]]
"""Findings by run and check."""


@dataclass(slots=True)
class Outcome:
    """A report, what was set apart (counted in full, the first ones named), and the verdicts of each run."""

    report: Report
    quarantined: list[Quarantined]
    runs: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    """Counts of what was loaded: files, rows, runs, processes, quarantined rows and their reasons."""


def verify(
    paths: Sequence[str],
    checks: Sequence[str] | None = None,
    *,
    master: str | None = None,
    session: Any = None,
    strict: bool = False,
    conflicts: Conflicts | None = None,
    expected: Expectation | None = None,
    rows_per_source: int = ROWS_PER_SOURCE,
    residue_max: int = RESIDUE_MAX,
    small_rows: int = SMALL_ROWS,
) -> Outcome:
    """Check the traces at these paths, by default with the checks that their protocols promise.

    A run of at most `small_rows` rows is judged by the oracle inside a task; of a larger one at most `residue_max` rows come
    to the driver.
    """
    for name in checks or ():
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    plan = make_plan([str(path) for path in paths], rows_per_source=rows_per_source)
    spark = session if session is not None else open_session(master)
    given = expected or Expectation()
    law = Law(
        None if checks is None else list(dict.fromkeys(checks)),
        given if conflicts is None else replace(given, conflicts=conflicts),
    )
    with spark_errors(spark):
        return _Scan(Stage(spark, plan.sources), plan, law, residue_max, small_rows).run(strict)


class _Scan:
    def __init__(self, stage: Stage, plan: Plan, law: Law, residue_max: int, small_rows: int) -> None:
        self._stage = stage
        self._law = law
        self._residue_max = residue_max
        self._small_rows = small_rows
        self._files = len({source.path for source in plan.sources} | {bad.file for bad in plan.quarantined})
        self._named = list(plan.quarantined)
        self._rejected = len(plan.quarantined)
        self._salt = Salt(os.urandom(32))
        self._shift = max(BLOCK_BITS, (plan.rows // BLOCKS_TARGET).bit_length())
        names = law.names if law.names is not None else CHECKS
        self._framed = any(name in FRAME_ONLY or name in BY_MESSAGE for name in names)
        self._labelled = "switching" in names
        relation = law.expectation.conflicts
        is_semantic = any(name.startswith("semantic") for name in names)
        self._described = is_semantic and relation is not None and relation.by != "everything"
        also = [column for name in names for column in _ALSO.get(name, ())]
        also += ["detail"] if is_semantic and relation is None else []
        also += [*(_FRAME_COLUMNS if self._framed else ()), *(semantic.COLUMNS if self._described else ())]
        self._also = tuple(dict.fromkeys(also))

    def run(self, strict: bool) -> Outcome:
        pieces, parts = self._condense(range(len(self._stage.units)), with_load=True)
        torn = overlapping(pieces)
        if torn:
            pieces, parts = self._repair(pieces, parts, torn)
        for piece in pieces:
            self._reject(piece.repeated)
        if strict and self._rejected:
            first = self._named[0]
            raise TraceFormatError(f"{self._rejected} malformed rows, the first in {first.file}:{first.line}: {first.reason}")
        sizes: Counter[str] = Counter()
        for piece in pieces:
            sizes[piece.run] += piece.rows
        small = {run for run, rows in sizes.items() if rows <= self._small_rows}
        states = combine((piece for piece in pieces if piece.run not in small), self._shift)
        runs = put_together((part for part in parts if part.run not in small), self._salt)
        self._confirm(states)
        judged = self._judge(pieces, small, sizes, states, runs)
        exact = self._exact(states, runs)
        whole = self._whole(states, runs)
        found: _Found = {run: {} for run in sizes}
        for run, name, finding in judged:
            found[run].setdefault(name, []).append(finding)
        for state in states:
            for name in self._law.chosen(state.protocols, state.relations.values()):
                some = [*found[state.run].get(name, ()), *filter(None, [whole.get((state.run, name))])]
                found[state.run][name] = [self._finding(name, state, runs.get(state.run), some, exact.get(state.run))]
        return self._outcome(found, sizes, len({(piece.run, piece.process) for piece in pieces}))

    def _outcome(self, found: _Found, sizes: Mapping[str, int], processes: int) -> Outcome:
        law = self._law
        report = Report(sum(sizes.values()), self._rejected, by_name=law.names is not None)
        per_check: dict[str, list[tuple[str, Finding]]] = {}
        for run, findings in sorted(found.items()):
            for name, [finding] in findings.items():
                per_check.setdefault(name, []).append((run, finding))
        names = [name for name in CHECKS if name in per_check] if law.names is None else law.names
        report.checks = [merge(name, per_check.get(name, [])) for name in names]
        verdicts: dict[str, dict[str, Verdict]] = {
            run: {name: finding.verdict for name, [finding] in findings.items()} for run, findings in sorted(found.items())
        }
        summary = {
            "files": self._files,
            "rows": report.events,
            "runs": len(found),
            "processes": processes,
            "quarantined": self._rejected,
            "reasons": dict(Counter(bad.reason.partition(":")[0] for bad in self._named)),
        }
        return Outcome(report, self._named, verdicts, summary)

    def _reject(self, rejects: Rejects) -> None:
        self._rejected += rejects.count
        self._named.extend(rejects.named)

    def _condense(self, units: Sequence[int], *, with_load: bool) -> tuple[list[Piece], list[Span]]:
        salt, shift, framed, also, labelled = self._salt, self._shift, self._framed, self._also, self._labelled
        described = self._described

        def work(number: int, unit: Unit) -> Iterator[Any]:
            rejects = Rejects()
            rows = read(unit, rejects, also=also, with_repeated=True)
            parts = spans(rows, number, shift, salt, labelled=labelled) if framed else []
            words = semantic.described(once(rows)) if described else set()
            yield payload(pickle.dumps((summarise(rows, number, shift, salt), parts, rejects, words)))

        pieces: list[Piece] = []
        parts: list[Span] = []
        for row in self._stage.map(units, work, "payload binary").collect() if units else ():
            some, others, rejects, words = pickle.loads(row.payload)
            if self._law.expectation.conflicts is not None:
                for type_, items in sorted(words, key=str):
                    try:
                        self._law.expectation.conflicts.validate(type_, items)
                    except ConfigError as error:
                        raise ConfigError(f"the conflict relation that was given is not one for this trace: {error}") from None
            pieces.extend(some)
            parts.extend(others)
            if with_load:
                self._reject(rejects)
        return pieces, parts

    def _repair(self, pieces: list[Piece], parts: list[Span], torn: set[tuple[str, str]]) -> tuple[list[Piece], list[Span]]:
        """Read processes whose pieces overlap once more, each as a whole."""
        new = reunite(self._stage.units, [piece for piece in pieces if (piece.run, piece.process) in torn])
        more, others = self._condense(new, with_load=False)
        kept = [piece for piece in pieces if (piece.run, piece.process) not in torn]
        return kept + more, [part for part in parts if (part.run, part.process) not in torn] + others

    def _confirm(self, states: list[RunState]) -> None:
        """Confirm blocks where that helps some chosen check."""
        chosen = {
            state.run: set(self._law.chosen(state.protocols, state.relations.values())) & set(ORDER_CHECKS) for state in states
        }
        confirm(self._stage, [state for state in states if chosen[state.run] - state.undecided.keys()], self._shift)

    def _judge(
        self, pieces: list[Piece], small: set[str], sizes: Mapping[str, int], states: list[RunState], runs: dict[str, Run]
    ) -> list[tuple[str, str, Finding]]:
        """Let the oracle judge small runs and suspect messages inside tasks."""
        choices: dict[str, Choice] = {}
        case, filled = 0, 0
        for name in sorted(small):
            if filled and filled + sizes[name] > BATCH_ROWS:
                case, filled = case + 1, 0
            filled += sizes[name]
            choices[name] = Choice(whole=case)
        backgrounds: dict[str, Background] = {}
        case += 1
        for state in states:
            run = runs.get(state.run)
            if run is None:
                continue
            chosen = self._law.chosen(state.protocols, state.relations.values())
            if "switching" in chosen and run.mixed():
                state.need_whole("instances of orderers are mixed", ["switching"])
            doubts = suspects(run, (name for name in chosen if name in BY_MESSAGE), state.back)
            if doubts.checks:
                ground = self._background(state, run)
                backgrounds[state.run] = Background(sorted(doubts.checks), run.frame, ground.kinds, ground.columns)
                choices[state.run] = split(run, doubts, len(state.pieces), case)
                case = max(cases_of(choices[state.run])) + 1
        if not choices:
            return []
        law = self._law

        def work(_: int, unit: Unit) -> Iterator[Any]:
            for one, content in parcels(read(unit, Rejects(), every_column=True), choices):
                yield payload(content, case=one)

        def settle(table: Any) -> Any:
            import pyarrow as pa

            packs = table.column("payload").to_pylist()
            findings = judge((row for pack in packs for row in opened(pack)), law, backgrounds)
            return pa.table({"payload": pa.array([pickle.dumps(findings)], type=pa.binary())})

        units = {piece.unit for piece in pieces if piece.run in choices and _may_hold(piece, choices[piece.run])}
        packs = self._stage.map(units, work, "case long, payload binary")
        done = packs.groupBy("case").applyInArrow(settle, "payload binary").collect()
        return [found for row in done for found in pickle.loads(row.payload)]

    def _background(self, state: RunState, run: Run) -> Background:
        columns = {found for found in run.columns if found[0] == "deliver"}
        if any(entry.view is not None for entries in run.sent.values() for entry in entries):
            columns.add(("send", "view_epoch"))
        return Background([], run.frame, state.kinds, columns)

    def _exact(self, states: list[RunState], runs: dict[str, Run]) -> dict[str, History]:
        """The histories that the oracle judges: whole runs where nothing less decides, else the suspect rows."""
        room = self._residue_max
        for state in states:
            state.keep(self._law.chosen(state.protocols, state.relations.values()))
            if state.undecided and state.rows <= room:
                room -= state.rows
                state.wanted = Wanted(everything=True)
        wanted = {state.run: state.wanted for state in states if state.wanted}
        if not wanted:
            return {}
        rows = fetch(self._stage, states, wanted, self._residue_max)
        if len(rows) > self._residue_max:
            for state in states:
                chosen = self._law.chosen(state.protocols, state.relations.values())
                state.need_whole(f"more than {self._residue_max} rows are suspect", [c for c in state.concerned if c in chosen])
            return {}
        for state in states:
            if state.wanted.everything:
                state.undecided.clear()
        rows = complete(self._stage, states, runs, rows)
        return {history.run: history for history in index_runs(rows)}

    def _whole(self, states: list[RunState], runs: dict[str, Run]) -> dict[tuple[str, str], Finding]:
        """Decide what is still open by one task per run; the oracle judges the messages that it finds, by run and check."""
        open_ = [state for state in states if state.undecided]
        found: dict[tuple[str, str], list[Message]] = {}
        judged: dict[tuple[str, str], Finding] = {}
        for state, decided in decide_whole(self._stage, open_, runs, self._law.expectation.conflicts) if open_ else ():
            state.wanted = Wanted()
            for name, messages in decided.items():
                del state.undecided[name]
                if isinstance(messages, ConfigError):
                    judged[state.run, name] = undecided(messages)
                    continue
                found[state.run, name] = messages
                for origin, number in messages:
                    state.want_message(origin, number)
        judged |= {key: Finding() for key, messages in found.items() if not messages}
        wanted = {state.run: state.wanted for state in open_ if state.wanted}
        rows = complete(self._stage, open_, runs, fetch(self._stage, open_, wanted)) if wanted else []
        for (run, name), messages in found.items():
            if messages:
                [history] = index_runs(rows_about(rows, run, set(messages), every_send=name == "integrity"))
                state = next(state for state in open_ if state.run == run)
                judged[run, name] = self._law.decide(name, as_whole(history, state))
        return judged

    def _finding(self, name: str, state: RunState, run: Run | None, found: list[Finding], exact: History | None) -> Finding:
        """The finding about one check: `found` are those of cases, and of the run as a whole."""
        if run is not None and (name in FRAME_ONLY or name in BY_MESSAGE):
            bare = self._law.decide(name, skeleton(run, self._background(state, run)))
            if name in FRAME_ONLY or bare.missing is not None:
                return bare
            if exact is not None and state.wanted.everything:
                found.append(self._law.decide(name, exact))
            worst = _worst([bare, *found])
            if worst.violations or worst.missing is not None:
                return worst
            if name not in state.undecided:
                return Finding(note=worst.note or _note(state))
        missing = _missing(name, state)
        if missing is not None and not (name == "duplication" and "returned" in state.kinds):
            return Finding(missing=missing)
        if exact is not None and not found:
            found.append(self._law.decide(name, as_whole(exact, state)))
        worst = _worst(found or [Finding()])
        if worst.violations or worst.missing is not None or worst.note is not None:
            return worst
        if name in state.undecided:
            reason = state.undecided[name]
            return Finding(witness=Witness(f"undecided: {reason}, and the run is too long for the exact check"), missing=reason)
        if missing is not None:
            return Finding(missing=missing)
        exactly = found or name in NUMBER_CHECKS or state.wanted.everything
        return Finding(note=None if exactly else _note(state))


def _worst(findings: Sequence[Finding]) -> Finding:
    """All findings about one check together: the smallest witness, the violations of all."""
    bad = [finding for finding in findings if finding.violations]
    if bad:
        best = min(bad, key=lambda finding: finding.witness.size if finding.witness is not None else 0)
        return Finding(sum(finding.violations for finding in bad), best.witness, None, best.note)
    open_ = [finding for finding in findings if finding.missing is not None]
    noted = [finding for finding in findings if finding.note is not None]
    return (open_ or noted or list(findings))[0]


def _note(state: RunState) -> str:
    return f"rests on fingerprints of {state.blocks} blocks; error at most {state.blocks} × 2⁻⁶⁴"


def _may_hold(piece: Piece, choice: Choice) -> bool:
    """Whether rows of a case may be in the unit of the piece."""
    if choice.whole is not None or piece.returned_count or "receive" in piece.kinds:
        return True
    for origin in choice.origins:
        ranges = [*choice.ranges.get(origin, ()), *choice.extra.get(origin, ())]
        spans_ = [(piece.delivered[origin].low, piece.delivered[origin].high)] if origin in piece.delivered else []
        if origin == piece.process and piece.sent is not None:
            spans_.append(piece.sent)
        if any(low <= last and first <= high for low, high, _ in ranges for first, last in spans_):
            return True
    return False


def _missing(name: str, state: RunState) -> str | None:
    for need in _LACKS.get(name, ("deliver",)):
        kind, _, column = need.partition(".")
        if kind not in state.kinds:
            return f"{kind} rows"
        if column and not state.placed:
            return f"column {column} on {kind} rows"
    return None
