"""Chooses checks, runs them over every run of a history and reports.

With `checks=None` the choice follows what the trace says was promised: a history in which some view ran `fifo` is held
to no causal and no total order, one with `causal` to no total order and no positions, one with a semantic order to
none of these but to the semantic orders that its name promises (to the plain order if its processes say that everything
conflicts); the weakest protocol that occurs decides for the whole run. A log that names no protocol is held to everything;
if a conflict relation is given, to the semantic orders in the place of the others. `liveness` speaks of the end of a run,
which must have been given time to settle, so it is chosen only if the caller names it or says what to expect. A check named
explicitly is always run.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from isotone.model.conflicts import Conflicts, from_name
from isotone.model.errors import ConfigError, unknown
from isotone.pipeline.oracle import (
    agreement,
    causal,
    liveness,
    messages,
    position,
    resilience,
    semantic,
    switching,
    total,
    views,
)
from isotone.pipeline.oracle.history import History, index_runs
from isotone.pipeline.oracle.protocols import Strength, promised, weakest, weakest_of_conflicting
from isotone.pipeline.oracle.report import Finding, Report, merge
from isotone.pipeline.oracle.witness import RowLike, Witness


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the caller knows and the trace does not say."""

    components: Sequence[Collection[str]] | None = None
    """Who must be together at the end, by process (`a#1`) or name (`a`)."""
    settled_by_ns: int | None = None
    """When, at the latest, the last views must have been installed."""
    settle_ns: int = 0
    """How long before its own end a process must have been offered a message to owe its delivery."""
    conflicts: Conflicts | None = None
    """Which messages conflict, for the semantic checks; None: those of which the trace says so, and all if it says nothing."""


Check = Callable[[History, Expectation], Finding]


def _related(check: Callable[[History, Conflicts], Finding], history: History, expected: Expectation) -> Finding:
    """A relation that the caller gives and that does not fit is the caller's error; one that the trace names leaves it open."""
    if expected.conflicts is not None:
        return check(history, expected.conflicts)
    try:
        text = history.relation()
        return check(history, Conflicts() if text is None else from_name(text))
    except ConfigError as error:
        return undecided(error)


def undecided(error: ConfigError) -> Finding:
    """A finding of a semantic check that cannot apply the relation which the trace names."""
    return Finding(witness=Witness(f"undecided: {error}"), missing="usable conflict relation")


CHECKS: Final[Mapping[str, Check]] = {
    "integrity": lambda history, _: messages.integrity(history),
    "duplication": lambda history, _: messages.duplication(history),
    "fifo": lambda history, _: messages.fifo(history),
    "causal": lambda history, _: causal.causal(history),
    "total_pairwise": lambda history, _: total.total_pairwise(history),
    "total_global": lambda history, _: total.total_global(history),
    "position": lambda history, _: position.position(history),
    "view_identity": lambda history, _: views.view_identity(history),
    "view_monotony": lambda history, _: views.view_monotony(history),
    "self_inclusion": lambda history, _: views.self_inclusion(history),
    "initial_view": lambda history, _: views.initial_view(history),
    "sending_view": lambda history, _: views.sending_view(history),
    "same_view": lambda history, _: views.same_view(history),
    "sender_in_view": lambda history, _: views.sender_in_view(history),
    "reliable_fifo": lambda history, _: views.reliable_fifo(history),
    "virtual_synchrony": lambda history, _: agreement.virtual_synchrony(history),
    "agreement": lambda history, expected: agreement.agreement(history, expected.settle_ns),
    "validity": lambda history, _: messages.validity(history),
    "uniform": lambda history, expected: agreement.uniform(history, expected.settle_ns),
    "resilience": lambda history, _: resilience.resilience(history),
    "liveness": lambda history, expected: liveness.liveness(history, expected.components, expected.settled_by_ns),
    "semantic_fifo": lambda history, expected: _related(semantic.semantic_fifo, history, expected),
    "semantic_causal": lambda history, expected: _related(semantic.semantic_causal, history, expected),
    "semantic_total": lambda history, expected: _related(semantic.semantic_total, history, expected),
    "switching": lambda history, _: switching.switching(history),
}
"""Every check by its name, in the order of reports."""

_NEEDS_STRENGTH: Final = {
    "fifo": Strength.FIFO,
    "reliable_fifo": Strength.FIFO,
    "causal": Strength.CAUSAL,
    "total_pairwise": Strength.TOTAL,
    "total_global": Strength.TOTAL,
    "position": Strength.TOTAL,
}
_SEMANTIC: Final = {
    "semantic_fifo": Strength.FIFO,
    "semantic_causal": Strength.CAUSAL,
    "semantic_total": Strength.TOTAL,
}


def default_checks(protocols: Iterable[str], *, with_liveness: bool = False, with_relation: bool = False) -> list[str]:
    """The checks that a history with these protocols is held to."""
    named = list(protocols)
    strongest = weakest(named)
    if with_relation and not named:
        strongest = Strength.SEMANTIC
    among_conflicting = weakest_of_conflicting(named)
    chosen: list[str] = []
    for name in CHECKS:
        if name in _SEMANTIC:
            wanted = strongest is Strength.SEMANTIC and among_conflicting >= _SEMANTIC[name]
        elif name == "liveness":
            wanted = with_liveness
        else:
            wanted = strongest >= _NEEDS_STRENGTH.get(name, Strength.SEMANTIC)
        if wanted:
            chosen.append(name)
    return chosen


def check_history(
    rows: Iterable[RowLike],
    checks: Sequence[str] | None = None,
    *,
    expected: Expectation | None = None,
    quarantined: int = 0,
) -> Report:
    """Check a history, every run of it on its own; see `report` for the verdict on the whole."""
    for name in checks or ():
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    expectation = expected or Expectation()
    wants_liveness = expectation.components is not None or expectation.settled_by_ns is not None
    findings: dict[str, list[tuple[str, Finding]]] = {}
    histories = index_runs(rows)
    for history in histories:
        chosen = checks
        if chosen is None:
            with_relation = expectation.conflicts is not None
            protocols = promised(history.protocols, history.relations.values()) if not with_relation else history.protocols
            chosen = default_checks(protocols, with_liveness=wants_liveness, with_relation=with_relation)
        for name in dict.fromkeys(chosen):
            findings.setdefault(name, []).append((history.run, CHECKS[name](history, expectation)))
    report = Report(sum(history.rows for history in histories), quarantined, by_name=checks is not None)
    names = [name for name in CHECKS if name in findings] if checks is None else list(dict.fromkeys(checks))
    report.checks = [merge(name, findings.get(name, [])) for name in names]
    return report
