"""Parts of a run that a space-time diagram shows: which rows to fetch around a witness, and the events they become.

A cut-out is bounded: some steps on either side of every event in question, at each process that has one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isotone.pipeline.oracle import CheckResult
from isotone.pipeline.oracle.witness import Witness
from isotone.report.story import Event, MessageId, RowLike, Story, tell_story

CONTEXT = 120
"""So many steps around the events in question are shown, of all processes together, on either side."""
CONTEXT_LEAST = 4
WHOLE = 400
"""Events in question that lie no further apart than this are shown with all that lies between them."""


@dataclass(slots=True)
class CutOut:
    """A part of one run."""

    title: str
    why: str
    story: Story
    messages: list[MessageId] = field(default_factory=list)
    """Those that the witness names, in its order."""
    sent: dict[MessageId, int] = field(default_factory=dict)
    """When messages were sent whose sends are outside the cut-out."""
    focus: tuple[int, int] = (0, 0)
    """First and last index into the events of what the diagram should show at first."""
    whole: bool = True
    """Whether nothing had to be left out."""

    @property
    def events(self) -> list[Event]:
        return self.story.events


@dataclass(slots=True)
class Group:
    """Checks whose witnesses are about the same messages of a run, or some of them: they share a diagram."""

    run: str
    checks: list[CheckResult]
    messages: list[MessageId]
    views: list[tuple[int, str]]
    processes: list[str]

    @property
    def title(self) -> str:
        return ", ".join(check.name for check in self.checks)

    @property
    def words(self) -> str:
        if len(self.checks) == 1:
            return str(self.checks[0].witness or "")
        return "\n".join(f"{check.name}: {check.witness}" for check in self.checks)


def group_witnesses(checks: Iterable[CheckResult], only_run: str) -> list[Group]:
    """Groups of violated checks, those with most messages first. A witness that names no run is about the only one."""
    groups: list[Group] = []
    found: list[tuple[CheckResult, Witness]] = [
        (check, check.witness) for check in checks if check.verdict == "violated" and check.witness is not None
    ]
    for check, witness in sorted(found, key=lambda pair: -len(pair[1].messages)):
        run = only_run if witness.run is None else witness.run
        mine, views, people = set(witness.messages), set(witness.views), set(witness.processes)
        for group in groups:
            inside = mine <= set(group.messages) if mine else not group.messages and views <= set(group.views)
            if group.run == run and inside and (mine or people <= set(group.processes)):
                group.checks.append(check)
                group.processes = list(dict.fromkeys((*group.processes, *witness.processes)))
                break
        else:
            groups.append(Group(run, [check], list(witness.messages), list(witness.views), list(witness.processes)))
    return groups


def spans_around(anchors: Iterable[RowLike]) -> dict[str, list[tuple[int, int]]]:
    """By process: the ranges of steps to fetch around the rows in question."""
    steps: dict[str, list[int]] = {}
    for row in anchors:
        steps.setdefault(row["process"], []).append(row["step"])
    context = max(CONTEXT_LEAST, CONTEXT // max(1, len(steps)))
    found: dict[str, list[tuple[int, int]]] = {}
    for process, mine in steps.items():
        spans: list[tuple[int, int]] = []
        for step in sorted(mine):
            if spans and step - context <= spans[-1][1] + WHOLE // max(1, len(steps)):
                spans[-1] = (spans[-1][0], step + context)
            else:
                spans.append((step - context, step + context))
        found[process] = spans
    return found


def cut_around(
    group: Group, anchors: Sequence[RowLike], rows: Sequence[RowLike], zeros: Mapping[str, int], whole: bool
) -> CutOut:
    """The cut-out of a group: the rows in question, and what was fetched around them."""
    together = {(row["process"], row["step"]): row for row in (*anchors, *rows)}
    story = tell_story(together.values(), zeros)
    wanted = {(row["process"], row["step"]) for row in anchors}
    core = [at for at, event in enumerate(story.events) if (story.processes[event.lane], event.step) in wanted]
    return CutOut(group.title, group.words, story, group.messages, focus=_focus(core, len(story.events)), whole=whole)


def _focus(core: Sequence[int], count: int, margin: int = 6) -> tuple[int, int]:
    if not core:
        return 0, max(0, count - 1)
    return max(0, core[0] - margin), min(count - 1, core[-1] + margin)


def cut_range(title: str, why: str, rows: Sequence[RowLike], zeros: Mapping[str, int], whole: bool) -> CutOut:
    """The cut-out of a range that no witness is about."""
    story = tell_story(rows, zeros)
    return CutOut(title, why, story, focus=(0, max(0, len(story.events) - 1)), whole=whole)


def unsent(cut: CutOut) -> dict[str, list[int]]:
    """By origin: messages of the cut-out whose sends are not in it."""
    inside = {event.message for event in cut.events if event.kind == "send"}
    found: dict[str, set[int]] = {}
    for event in cut.events:
        if event.message is not None and event.message not in inside:
            found.setdefault(event.message[0], set()).add(event.message[1])
    return {origin: sorted(numbers) for origin, numbers in sorted(found.items())}
