"""Cases: parts of a history that one call of the oracle decides, and that call as a worker makes it.

A case is a batch of whole small runs, or some suspect messages of a large run. The latter is judged together with the frame
of its run (`visits`) and with what is known about the whole run: which kinds of rows and columns there are. So a check never
calls undecided what only this part lacks.

Invariant: a finding that is *violated* is true of the whole run: its witness consists of rows of that run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isotone.pipeline.doubts import Suspects
from isotone.pipeline.kernels.chunk import Interval
from isotone.pipeline.kernels.parcel import Choice
from isotone.pipeline.oracle.check import CHECKS, Expectation, default_checks
from isotone.pipeline.oracle.history import History, index_runs
from isotone.pipeline.oracle.protocols import promised
from isotone.pipeline.oracle.report import Finding
from isotone.pipeline.visits import Run

ROWS_PER_CASE: Final = 50_000
CUTS_MAX: Final = 64
"""Into so many cases one range of numbers is cut at most: ranges may be far wider than what they hold."""


@dataclass(slots=True)
class Background:
    """What a case of a large run does not hold itself."""

    checks: list[str]
    frame: list[dict[str, Any]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    columns: set[tuple[str, str]] = field(default_factory=set)
    """Those on sends and deliveries; the frame shows the others."""


@dataclass(frozen=True, slots=True)
class Law:
    """How histories are judged: by the named checks, or by those that the protocols promise."""

    names: Sequence[str] | None
    expectation: Expectation

    def chosen(self, protocols: Iterable[str], relations: Collection[str]) -> list[str]:
        if self.names is not None:
            return list(dict.fromkeys(self.names))
        given = self.expectation
        return default_checks(
            promised(protocols, relations) if given.conflicts is None else protocols,
            with_liveness=given.components is not None or given.settled_by_ns is not None,
            with_relation=given.conflicts is not None,
        )

    def decide(self, name: str, history: History) -> Finding:
        return CHECKS[name](history, self.expectation)


def skeleton(run: Run, background: Background) -> History:
    """The run without its messages, as the oracle sees it."""
    [history] = index_runs(run.frame)
    return _grounded(history, background)


def judge(rows: Iterable[dict[str, Any]], law: Law, backgrounds: Mapping[str, Background]) -> list[tuple[str, str, Finding]]:
    """Run, check and finding for everything in one case; each of its rows is given once, in any order."""
    mine = list(rows)
    for run in {row.get("run") or "" for row in mine} & backgrounds.keys():
        mine.extend(backgrounds[run].frame)
    found: list[tuple[str, str, Finding]] = []
    for history in index_runs(mine):
        background = backgrounds.get(history.run)
        if background is None:
            names = law.chosen(history.protocols, history.relations.values())
        else:
            names = background.checks
            _grounded(history, background)
        found.extend((history.run, name, law.decide(name, history)) for name in names)
    return found


def _grounded(history: History, background: Background) -> History:
    history.kinds = set(background.kinds)
    history.columns = {found for found in history.columns if found[0] == "view"} | background.columns
    return history


def split(run: Run, doubts: Suspects, processes: int, first_case: int) -> Choice:
    """Cases of about equal size for the suspect messages of a run."""
    choice = Choice()
    room = max(1, ROWS_PER_CASE // (processes + 1))
    case, filled = first_case, 0
    used: dict[int, None] = {}
    for origin, ranges in sorted(doubts.ranges.items()):
        for low, high in _cut(ranges, room):
            if filled and filled + high - low + 1 > room:
                case, filled = case + 1, 0
            filled += high - low + 1
            used[case] = None
            choice.ranges.setdefault(origin, []).append((low, high, case))
            if "reliable_fifo" in doubts.checks:
                choice.extra.setdefault(origin, []).extend((*found, case) for found in run.before(origin, low))
    for origin, number in run.examples():
        choice.extra.setdefault(origin, []).extend((number, number, one) for one in used)
    return choice


def cases_of(choice: Choice) -> set[int]:
    whole = set() if choice.whole is None else {choice.whole}
    return whole | {case for ranges in choice.ranges.values() for _, _, case in ranges}


def _cut(ranges: Iterable[Interval], room: int) -> Iterator[Interval]:
    for low, high in ranges:
        width = max(room, -(-(high - low + 1) // CUTS_MAX))
        for start in range(low, high + 1, width):
            yield start, min(high, start + width - 1)
