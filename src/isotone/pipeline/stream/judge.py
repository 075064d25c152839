"""The judge: takes the chunks of one micro-batch into the state, and says where every check stands.

Each run is judged on its own. The checks and their meaning are the oracle's: which of them a run is held to follows from the
protocols its rows name. A verdict *violated* is final; *ok* speaks of what has been seen; *unknown* has a reason: rows that
the check needs have not come, or something was needed that had been forgotten (`doubt`).

The state is data only, so that it can be stored as it is; the same chunks in the same batches give the same state.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from isotone.pipeline.oracle import default_checks
from isotone.pipeline.stream.condense import KIND, Chunk, Quarantine, Rows
from isotone.pipeline.stream.follower import NO_VIEW, Follower, Part, View, message_name
from isotone.pipeline.stream.meter import Meter
from isotone.pipeline.stream.order import RETAIN, RETAIN_MAX, Order
from isotone.pipeline.stream.synchrony import Synchrony, Way

WATCHED: Final = ("duplication", "fifo", "total_pairwise", "total_global", "virtual_synchrony")
PATIENCE_S: Final = 10.0
REASONS_MAX: Final = 20
_VIEWS_SPARE: Final = 100

Verdict: TypeAlias = Literal["ok", "violated", "unknown"]


class Limits(msgspec.Struct, frozen=True):
    """What the state may hold."""

    retain: int = RETAIN
    retain_max: int = RETAIN_MAX
    patience_s: float = PATIENCE_S
    """How long rows behind a gap in the steps are held back."""


class Finding(msgspec.Struct):
    """What one check found in one run."""

    violations: int = 0
    witness: str | None = None
    doubt: str | None = None
    process: str | None = None
    step: int | None = None
    file: str | None = None


class Standing(msgspec.Struct, frozen=True):
    """Where a check stands; `process`, `step` and `file` are the place in the trace that decided it."""

    check: str
    verdict: Verdict
    violations: int
    witness: str | None
    run: str = ""
    process: str | None = None
    step: int | None = None
    file: str | None = None


class Run(msgspec.Struct):
    """All that is kept about one run."""

    name: str
    codes: dict[str, int] = {}
    """Origins by name, numbered in the order of their appearance."""
    followers: dict[str, Follower] = {}
    views: dict[str, View] = {}
    protocols: list[str] = []
    delivered: bool = False
    order: Order = msgspec.field(default_factory=Order)
    synchrony: Synchrony = msgspec.field(default_factory=Synchrony)
    meter: Meter = msgspec.field(default_factory=Meter)
    findings: dict[str, Finding] = {}


class State(msgspec.Struct):
    """What one watch knows after a batch."""

    batch: int = -1
    runs: dict[str, Run] = {}
    quarantined: int = 0
    reasons: list[str] = []
    """Why rows were set apart, the newest last."""
    changes: list[Standing] = []
    """Which verdicts this batch changed."""

    @property
    def events(self) -> int:
        return sum(follower.rows for run in self.runs.values() for follower in run.followers.values())

    @property
    def late(self) -> int:
        return sum(follower.late for run in self.runs.values() for follower in run.followers.values())

    @property
    def held(self) -> int:
        followers = [follower for run in self.runs.values() for follower in run.followers.values()]
        return sum(len(chunk.steps) for follower in followers for chunk in follower.held)


def take(state: State, batch: int, given: Sequence[Chunk | Quarantine], now: float, limits: Limits | None = None) -> None:
    """Take one batch into the state. `now` is any clock in seconds: it decides only how long gaps are waited for."""
    limits = limits or Limits()
    before = standings(state)
    by_process: dict[tuple[str, str], list[Chunk]] = {}
    for item in given:
        if isinstance(item, Chunk):
            by_process.setdefault((item.run, item.process), []).append(item)
        else:
            state.quarantined += item.count
            state.reasons = [*state.reasons, *(f"{item.file}: {reason}" for reason in item.reasons)][-REASONS_MAX:]
    for name, run in state.runs.items():  # whoever holds rows back is asked again, for its patience may be over
        for process, follower in run.followers.items():
            if follower.held:
                by_process.setdefault((name, process), [])
    for run_name in sorted({name for name, _ in by_process}):
        run = state.runs.setdefault(run_name, Run(run_name))
        mine = {process: chunks for (name, process), chunks in by_process.items() if name == run_name}
        _take_run(run, mine, now, limits)
    state.batch = batch
    known = {(standing.run, standing.check): standing.verdict for standing in before}
    state.changes = [standing for standing in standings(state) if known.get((standing.run, standing.check)) != standing.verdict]


def _take_run(run: Run, chunks: dict[str, list[Chunk]], now: float, limits: Limits) -> None:
    opened: list[tuple[Follower, Rows]] = []
    for process in sorted(chunks):
        follower = run.followers.setdefault(process, Follower(process))
        for chunk in follower.intake(chunks[process], now, limits.patience_s):
            run.protocols = sorted({*run.protocols, *chunk.protocols})
            rows = Rows(chunk, run.codes)
            run.meter.see(rows)
            opened.append((follower, rows))
    names = list(run.codes)
    ordered = "total_global" in default_checks(run.protocols)
    for follower, rows in opened:
        run.delivered = run.delivered or bool((rows.kind == KIND["deliver"]).any())
        hit = _Hits(run, follower.name, rows.file)
        for part in follower.follow(rows, names, hit):
            _take_part(run, follower, part, names, ordered, hit)
    run.meter.measure([rows for _, rows in opened])
    if ordered:
        _merge(run, names)
    if run.order.forget(lambda view: _holders(run, view), ordered=ordered, retain=limits.retain, retain_max=limits.retain_max):
        _doubt(run, "total_pairwise", "a cycle of more than two messages stayed too long to be kept whole")
    ids = {name: view.id for name, view in run.views.items()}
    run.synchrony.forget(ids)
    _forget_views(run)


class _Hits:
    """Notes violations found in the rows of one file; a name that begins with `?` is a doubt."""

    def __init__(self, run: Run, process: str, file: str) -> None:
        self._run, self._process, self._file = run, process, file

    def __call__(self, check: str, words: str, step: int) -> None:
        if check.startswith("?"):
            _doubt(self._run, check[1:], words)
            return
        finding = self._run.findings.setdefault(check, Finding())
        finding.violations += 1
        if finding.witness is None:
            finding.witness, finding.process, finding.step, finding.file = words, self._process, step, self._file


def _doubt(run: Run, check: str, reason: str) -> None:
    finding = run.findings.setdefault(check, Finding())
    finding.doubt = finding.doubt or reason


def _take_part(run: Run, follower: Follower, part: Part, names: list[str], ordered: bool, hit: _Hits) -> None:
    if part.keys:
        lost = run.order.append(follower.name, part.view, part.keys)
        if lost is not None and ordered:
            for check in ("total_pairwise", "total_global"):
                reason = f"{follower.name} delivers {message_name(lost, names)} after its place in the order was forgotten"
                _doubt(run, check, reason)
    if part.following is None:
        return
    known = run.views.setdefault(part.following.name, part.following)
    known.members = known.members if known.members is not None else part.following.members
    if part.ended is None:
        return
    other = run.synchrony.leave(follower.name, part.ended, run.views[part.ended.view].id, part.following.name)
    if isinstance(other, Way):
        way = f"from view {part.ended.view} to view {part.following.name}"
        hit("virtual_synchrony", _difference(run, follower.name, other, part, names, way), part.step)
    elif other is not None:
        _doubt(run, "virtual_synchrony", other)


def _difference(run: Run, process: str, other: Way, part: Part, names: list[str], way: str) -> str:
    """In words, what one delivered in a view and the other did not; by counts where the message is forgotten."""
    ended = part.ended
    assert ended is not None
    mine, theirs = (
        {key for segment in run.order.queues.get(name, []) if segment.view == ended.view for key in segment.keys}
        for name in (process, other.process)
    )
    for having, keys in ((process, mine - theirs), (other.process, theirs - mine)):
        if keys:
            return (
                f"{other.process} and {process} go together {way}, but only {having} delivers "
                f"{message_name(min(keys), names)} in view {ended.view}"
            )
    return (
        f"{other.process} and {process} go together {way}, but {other.process} delivers {other.count} messages in view "
        f"{ended.view} and {process} {ended.count}, and not the same ones"
    )


def _merge(run: Run, names: list[str]) -> None:
    for check, cycle in run.order.cycles():
        following = [*cycle[1:], cycle[0]]
        edges = [
            f"{process} delivers {message_name(message, names)} before {message_name(after, names)}"
            for (message, process), (after, _) in zip(cycle, following, strict=True)
        ]
        words = ", ".join(edges) if check == "total_pairwise" else f"a cycle of {len(cycle)} messages: {'; '.join(edges)}"
        process = cycle[-1][1]
        finding = run.findings.setdefault(check, Finding())
        finding.violations += 1
        if finding.witness is None:
            finding.witness, finding.process, finding.step = words, process, run.followers[process].last_step


def _holders(run: Run, view_name: str) -> set[str]:
    """Processes that may still deliver a message of this view for the first time."""
    view = run.views.get(view_name)
    alive = {name: follower for name, follower in run.followers.items() if not follower.ended}
    if view is None or view.members is None:
        return set(alive)
    passed = {name for name in view.members if name in alive and _has_passed(run, alive[name], view)}
    left_out = set(view.members)
    for name in view.members:
        if name in alive and name not in passed:
            left_out -= {other for other in view.members if other != name}
        elif name in alive:
            left_out -= set(run.views[alive[name].view].members or view.members)
    ended = {name for name, follower in run.followers.items() if follower.ended}
    return set(view.members) - passed - ended - (left_out if passed else set())


def _has_passed(run: Run, follower: Follower, view: View) -> bool:
    return follower.view != NO_VIEW and run.views[follower.view].id > view.id


def _forget_views(run: Run) -> None:
    used = {follower.view for follower in run.followers.values()} | {NO_VIEW}
    used |= {segment.view for queue in run.order.queues.values() for segment in queue}
    for ended, ways in run.synchrony.ways.items():
        used |= {ended, *ways}
    if len(run.views) > len(used) + _VIEWS_SPARE:
        run.views = {name: view for name, view in run.views.items() if name in used}


# --- where the checks stand -------------------------------------------------------------------------------------------


def standings(state: State) -> list[Standing]:
    """Every check that every run is held to."""
    return [_standing(run, check) for run in state.runs.values() for check in default_checks(run.protocols) if check in WATCHED]


def _standing(run: Run, check: str) -> Standing:
    finding = run.findings.get(check, Finding())
    lacking = None if run.delivered else "deliver rows"
    if lacking is None and check == "virtual_synchrony" and not run.views:
        lacking = "view rows that name their view"
    if finding.violations and lacking is None:
        verdict: Verdict = "violated"
        witness = finding.witness
    elif lacking is not None or finding.doubt is not None:
        verdict = "unknown"
        witness = f"undecided: the trace has no {lacking}" if lacking is not None else f"undecided: {finding.doubt}"
    else:
        verdict, witness = "ok", None
    return Standing(check, verdict, finding.violations, witness, run.name, finding.process, finding.step, finding.file)


def overall(state: State) -> Verdict:
    """Violated if any check is; unknown if a check is in doubt, or if none could be decided; else ok."""
    found = standings(state)
    if any(standing.verdict == "violated" for standing in found):
        return "violated"
    doubtful = any(finding.doubt is not None for run in state.runs.values() for finding in run.findings.values())
    return "ok" if not doubtful and any(standing.verdict == "ok" for standing in found) else "unknown"


def settled(state: State, limits: Limits | None = None) -> State:
    """The state as it would be if nothing more came: rows held back behind a gap are taken as they are."""
    if not state.held:
        return state
    final = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)
    given = limits or Limits()
    take(final, state.batch, [], 0.0, Limits(given.retain, given.retain_max, float("-inf")))
    return final


def summary(state: State) -> dict[str, Any]:
    """What the command prints from time to time, as one JSON object."""
    found = standings(state)
    runs: dict[str, Any] = {}
    for name, run in state.runs.items():
        newest = max((follower.last_time or 0 for follower in run.followers.values()), default=0)
        runs[name] = {
            "deliveries": run.meter.deliveries,
            "window": run.meter.window(),
            "unstable": run.order.kept,
            "processes": {
                process: {
                    "rows": follower.rows,
                    "held": sum(len(chunk.steps) for chunk in follower.held),
                    "view": follower.view or None,
                    "members": len(run.views[follower.view].members or ()) if follower.view else None,
                    "ended": follower.ended,
                    "lag_s": round((newest - follower.last_time) / 1e9, 3) if follower.last_time is not None else None,
                }
                for process, follower in sorted(run.followers.items())
            },
        }
    return {
        "verdict": overall(state),
        "batch": state.batch,
        "events": state.events,
        "quarantined": state.quarantined + state.late,
        "reasons": state.reasons[-5:],
        "held": state.held,
        "checks": [
            {"name": one.check, "run": one.run, "verdict": one.verdict, "violations": one.violations, "witness": one.witness}
            for one in found
        ],
        "runs": runs,
    }
