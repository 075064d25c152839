"""Chooses which part of a run a space-time diagram shows: around a witness, in a range the caller names, or the liveliest.

The messages, views and processes of a witness are found in its words by the names that the run really holds. A cut-out is
never larger than its limit: what lies nearest to the events in question stays.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from isotone.pipeline.oracle import CheckResult
from isotone.report.stats import show_moment
from isotone.report.story import Event, MessageId, Story, show_view

LIMIT = 2_000
CONTEXT = 60
SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class CutOut:
    """A part of one run."""

    title: str
    why: str
    events: list[Event]
    messages: list[MessageId] = field(default_factory=list)
    """Those that the witness names, in the order of its words."""
    focus: tuple[int, int] = (0, 0)
    """First and last index into `events` of what the diagram should show at first."""
    left_out: int = 0
    """Events between the first and the last that the limit kept out."""


@dataclass(frozen=True, slots=True)
class Named:
    """What the words of a witness are about."""

    messages: tuple[MessageId, ...]
    views: tuple[str, ...]
    processes: tuple[str, ...]


def find_named(text: str, story: Story) -> Named:
    """The messages (`a#1:17`), views (`3@a#1`) and processes (`a#1`) in a text."""
    origins = {event.message[0] for event in story.events if event.message is not None} | set(story.processes)
    if not origins:
        return Named((), (), ())
    names = "|".join(re.escape(name) for name in sorted(origins, key=lambda name: (-len(name), name)))
    known = {event.message for event in story.events}
    views = {band.view for band in story.bands}
    messages: dict[MessageId, None] = {}
    found_views: dict[str, None] = {}
    processes: dict[str, None] = {}
    for match in re.finditer(rf"(?<![\w#])(?:(\d+)@)?({names})(?::(\d+))?(?![\w#])", text):
        epoch, name, number = match.groups()
        if number is not None and (name, int(number)) in known:
            messages[(name, int(number))] = None
        elif epoch is not None and f"{epoch}@{name}" in views:
            found_views[f"{epoch}@{name}"] = None
        elif epoch is None:
            processes[name] = None
    return Named(tuple(messages), tuple(found_views), tuple(name for name in processes if name in story.processes))


def choose_cutouts(
    story: Story, checks: Sequence[CheckResult], span: tuple[int, int] | None = None, limit: int = LIMIT
) -> list[CutOut]:
    """One cut-out per set of messages that witnesses name; the caller's range; or else the most eventful second."""
    cuts: list[CutOut] = []
    grouped: dict[object, list[tuple[CheckResult, Named]]] = {}
    for check in checks:
        if check.verdict == "violated" and check.witness and _is_about(check.witness, story):
            named = find_named(check.witness, story)
            key = frozenset(named.messages) or (named.views, named.processes)
            grouped.setdefault(key, []).append((check, named))
    for group in _merge_parts(grouped):
        cut = _around_witness(story, [check for check, _ in group], group[0][1], limit)
        if cut is not None:
            cuts.append(cut)
    if span is not None:
        cuts.append(_in_range(story, span, limit))
    if not cuts and story.events:
        cuts.append(_liveliest(story, limit))
    return cuts


def _merge_parts(grouped: dict[object, list[tuple[CheckResult, Named]]]) -> list[list[tuple[CheckResult, Named]]]:
    """A witness whose messages all belong to a larger one needs no diagram of its own."""
    merged: list[list[tuple[CheckResult, Named]]] = []
    for group in sorted(grouped.values(), key=lambda group: -len(group[0][1].messages)):
        mine = set(group[0][1].messages)
        home = next((other for other in merged if mine and mine <= set(other[0][1].messages)), None)
        if home is None:
            merged.append(list(group))
        else:
            home.extend(group)
    return merged


def _is_about(witness: str, story: Story) -> bool:
    """With several runs a witness begins with its run's name."""
    return not witness.startswith("run ") or witness.startswith(f"run {story.run}: ")


def _around_witness(story: Story, checks: list[CheckResult], named: Named, limit: int) -> CutOut | None:
    if named.messages:
        wanted = set(named.messages)
        core = [index for index, event in enumerate(story.events) if event.message in wanted]
    elif named.views:
        core = [i for i, event in enumerate(story.events) if event.kind == "view" and show_view(event.row) in named.views]
    else:
        lanes = {story.processes.index(name) for name in named.processes}
        core = [i for i, event in enumerate(story.events) if event.lane in lanes and event.kind in ("view", "stop", "crash")]
    if not core:
        return None
    title = ", ".join(check.name for check in checks)
    words = [check.witness or "" for check in checks]
    if len(checks) > 1:
        words = [f"{check.name}: {check.witness}" for check in checks]
    return _cut(story, title, "\n".join(words), core, limit, list(named.messages))


def _cut(story: Story, title: str, why: str, core: list[int], limit: int, messages: list[MessageId]) -> CutOut:
    """The events from the first of the core to the last, with some context; the nearest to the core if they are too many."""
    first, last = max(0, core[0] - CONTEXT), min(len(story.events) - 1, core[-1] + CONTEXT)
    chosen: Sequence[int] = range(first, last + 1)
    if len(chosen) > limit:
        chosen = sorted(sorted(chosen, key=lambda index: (_distance(index, core), index))[:limit])
    events = [story.events[index] for index in chosen]
    margin = 6
    focus = (
        max(0, bisect_left(chosen, core[0]) - margin),
        min(len(events) - 1, bisect_right(chosen, core[-1]) - 1 + margin),
    )
    return CutOut(title, why, events, messages, focus, last + 1 - first - len(events))


def _distance(index: int, core: list[int]) -> int:
    place = bisect_left(core, index)
    return min(abs(index - core[near]) for near in (place - 1, place) if 0 <= near < len(core))


def _in_range(story: Story, span: tuple[int, int], limit: int) -> CutOut:
    start, end = span
    inside = [event for event in story.events if start <= event.time <= end]
    why = f"from {show_moment(start, story.timed)} to {show_moment(end, story.timed)}, as asked for"
    return _middle("The chosen range", why, inside, limit)


def _liveliest(story: Story, limit: int) -> CutOut:
    """The second (or the tenth of a run without clocks) that begins with an event and holds the most of them."""
    width = SECOND_NS if story.timed else max(1, story.duration // 10)
    times = [event.time for event in story.events]
    best = first = 0
    for index, time in enumerate(times):
        count = bisect_left(times, time + width) - index
        if count > best:
            best, first = count, index
    inside = story.events[first : first + best]
    what = "second" if story.timed else "stretch"
    why = f"from {show_moment(times[first], story.timed)} on"
    return _middle(f"The most eventful {what}", why, inside, limit)


def _middle(title: str, why: str, inside: list[Event], limit: int) -> CutOut:
    start = max(0, (len(inside) - limit) // 2)
    events = inside[start : start + limit]
    return CutOut(title, why, events, focus=(0, max(0, len(events) - 1)), left_out=len(inside) - len(events))
