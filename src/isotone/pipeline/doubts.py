"""Which messages the checks about views, single messages and senders doubt, given the condensed history (`visits`).

Processes that must have delivered the same are compared entry by entry; views are compared as intervals of numbers. What
differs is a range of numbers of one origin: only the rows about those messages, with the frame, have to be judged exactly.

Invariant: a check of `BY_MESSAGE` is violated by the whole history if and only if it is violated by the frame together with
all rows about the suspect messages (up to the error of fingerprints): outside the suspect ranges everything that the
definition compares is equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from isotone.pipeline.kernels.chunk import Interval
from isotone.pipeline.kernels.stretch import Entry, Label, Labelled, ViewId
from isotone.pipeline.visits import Place, Run, Sum, Visit, by_block, summed

FRAME_ONLY: Final = ("view_identity", "initial_view", "view_monotony", "self_inclusion")
"""Checks that rows about messages cannot change."""


@dataclass(slots=True)
class Suspects:
    """Messages in doubt, as ranges of numbers by origin, and the checks that doubt them."""

    ranges: dict[str, list[Interval]] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)

    def add(self, check: str, origin: str, *ranges: Interval) -> None:
        if ranges:
            self.ranges.setdefault(origin, []).extend(ranges)
            self.checks.add(check)


def suspects(run: Run, checks: Iterable[str], back: Mapping[tuple[str, str], list[Interval]]) -> Suspects:
    """What the checks (of `BY_MESSAGE`) doubt. `back`: by process and origin, intervals where numbers go back."""
    found = Suspects()
    for check in checks:
        if check == "reliable_fifo":
            for origin, ranges in _gaps(run, back):
                found.add(check, origin, *ranges)
        else:
            for origin, ranges in _DOUBTS[check](run):
                found.add(check, origin, *ranges)
    found.ranges = {origin: _merged(ranges) for origin, ranges in found.ranges.items()}
    return found


def _unequal(run: Run, group: list[Visit]) -> Iterator[tuple[str, list[Interval]]]:
    first = group[0].delivered
    for visit in group[1:]:
        for place in first.keys() | visit.delivered.keys():
            yield place[0], run.differences(first.get(place), visit.delivered.get(place))


def virtual_synchrony(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visits in run.in_views():
        groups: dict[ViewId, list[Visit]] = {}
        for visit in visits:
            if visit.next_view is not None:
                groups.setdefault(visit.next_view, []).append(visit)
        for group in groups.values():
            yield from _unequal(run, group)


def agreement(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visits in run.in_views():
        groups: dict[Any, list[Visit]] = {}
        for visit in visits:
            if visit.next_view is not None or visit.stays:
                groups.setdefault(visit.next_view if visit.together is None else visit.together, []).append(visit)
        for group in groups.values():
            if any(visit.correct for visit in group):
                yield from _unequal(run, group)


def uniform(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visits in run.in_views():
        holders: dict[Place, Visit] = {}
        for visit in visits:
            for place, found in visit.delivered.items():
                if found.safe:
                    holders.setdefault(place, visit)
        for place, holder in holders.items():
            first = holder.delivered[place]
            for visit in visits:
                here = visit.delivered.get(place)
                if visit.correct or (here is not None and here.safe):
                    yield place[0], run.differences(first, here)


def validity(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for process, end in run.ends.items():
        if not end.correct:
            continue
        own = {place: found for place, found in run.everything(process).items() if place[0] == process}
        back = run.returned.get(process, {})
        for place, sent in by_block(run.sent[process]).items():
            given, returned = own.get(place), back.get(place)
            both = given.plus(returned) if given is not None and returned is not None else given or returned
            if both is None or (sent.size, sent.ids) != (both.size, both.ids):
                yield process, run.differences(sent, given)


def liveness(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for sender, end in run.ends.items():
        sent = by_block(entry for entry in run.sent[sender] if entry.view == end.view and end.view is not None)
        for place, found in sent.items():
            for other in run.ends.values():
                if other.view == end.view and other.correct:
                    yield sender, run.differences(found, other.delivered.get(place))


def sending_view(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visit in run.visits:
        for entry in visit.named:
            if visit.view is not None and entry.view not in (None, visit.view):
                yield entry.origin, [(entry.low, entry.low)]
    sent = _hulls(entry for entries in run.sent.values() for entry in entries)
    for place, delivered in _delivered_hulls(run).items():
        yield place[0], _overlaps(delivered, sent.get(place, {}))


def same_view(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for place, delivered in _delivered_hulls(run).items():
        yield place[0], _overlaps(delivered, delivered)


def sender_in_view(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visit in run.visits:
        for entry in visit.named:
            if entry.view in run.members and entry.origin not in run.members[entry.view]:
                yield entry.origin, [(entry.low, entry.low)]


def resilience(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    for visit in run.visits:
        for entry in visit.named:
            if entry.asked:
                yield entry.origin, [(entry.low, entry.high)]


def switching(run: Run) -> Iterator[tuple[str, list[Interval]]]:
    if not run.switched:
        return
    yield from validity(run)
    hulls: dict[tuple[str, int, ViewId | None], dict[Label, Interval]] = {}
    for visit in run.visits:
        for entry in visit.named:
            if entry.view in run.switched:
                mine = hulls.setdefault((entry.origin, entry.block, entry.view), {})
                low, high = mine.get(entry.label, (entry.low, entry.high))
                mine[entry.label] = (min(low, entry.low), max(high, entry.high))
    for (origin, _, _), labels in hulls.items():
        yield origin, _overlaps(labels, labels)
    for sequence in run.sequences():
        newest: Labelled | None = None
        for stretch in sequence:
            if stretch.label[0] is not None:
                if newest is not None and newest.label[0] is not None and stretch.label[0] < newest.label[0]:
                    for origin, number in (newest.last, stretch.first):
                        yield origin, [(number, number)]
                newest = stretch


def _delivered_hulls(run: Run) -> dict[Place, dict[ViewId, Interval]]:
    return _hulls(entry for visit in run.visits for entry in visit.named)


def _gaps(run: Run, back: Mapping[tuple[str, str], list[Interval]]) -> Iterator[tuple[str, list[Interval]]]:
    """Reliable FIFO: in every view what a process delivers of a sender is the beginning of what that sent."""
    for (_, origin), intervals in back.items():
        yield origin, intervals
    tidy = {origin: _by_view(entries) for origin, entries in run.sent.items() if origin not in run.wild}
    delivered: dict[tuple[str, str], list[Entry]] = {}
    for visit in run.visits:
        for entry in visit.named:
            delivered.setdefault((visit.process, entry.origin), []).append(entry)
    for (_, origin), entries in delivered.items():
        views = tidy.get(origin)
        if views is None and origin in run.sent:
            yield origin, [(entry.low, entry.high) for entry in (*run.sent[origin], *entries)]
        elif views is not None:
            yield origin, list(_not_first(run, views, entries))


def _not_first(run: Run, views: Mapping[ViewId, list[Entry]], entries: list[Entry]) -> Iterator[Interval]:
    places: dict[int, list[tuple[ViewId, int]]] = {}
    for view, sent in views.items():
        for index, entry in enumerate(sent):
            places.setdefault(entry.block, []).append((view, index))
    found: dict[ViewId, dict[int, Sum]] = {}
    for entry in entries:
        near = [(v, i) for v, i in places.get(entry.block, ()) if views[v][i].low <= entry.high and entry.low <= views[v][i].high]
        if len(near) > 1:
            yield entry.low, entry.high
        for view, index in near:
            mine = found.setdefault(view, {})
            mine[index] = mine[index].plus(entry) if index in mine else summed(entry)
    for view, mine in found.items():
        sent, last = views[view], max(mine)
        for index in range(last):
            here = mine.get(index)
            if here is None or (here.size, here.ids) != (sent[index].size, sent[index].ids):
                yield sent[index].low, sent[index].high
                if index + 1 in mine:
                    yield mine[index + 1].low, mine[index + 1].low
        newest, own = mine[last], sent[last]
        whole = (newest.size, newest.ids) == (own.size, own.ids)
        if not whole and not (newest.low == own.low and run.dense(newest) and run.dense(own) and newest.high <= own.high):
            yield own.low, max(own.low, newest.high)


def _hulls(entries: Iterable[Entry]) -> dict[Place, dict[ViewId, Interval]]:
    hulls: dict[Place, dict[ViewId, Interval]] = {}
    for entry in entries:
        if entry.view is not None:
            views = hulls.setdefault((entry.origin, entry.block), {})
            low, high = views.get(entry.view, (entry.low, entry.high))
            views[entry.view] = (min(low, entry.low), max(high, entry.high))
    return hulls


def _overlaps(one: Mapping[Any, Interval], two: Mapping[Any, Interval]) -> list[Interval]:
    """Numbers that one may have in a view (or under a label) and the other in another."""
    found = []
    for view, (low, high) in one.items():
        for other, (first, last) in two.items():
            if view != other and low <= last and first <= high:
                found.append((max(low, first), min(high, last)))
    return found


def _by_view(entries: list[Entry]) -> dict[ViewId, list[Entry]] | None:
    """What was sent in each view in the order of numbers; None if the views are mixed."""
    views: dict[ViewId, list[Entry]] = {}
    last: ViewId | None = None
    for entry in sorted(entries, key=lambda entry: entry.low):
        if entry.view is None or (entry.view in views and entry.view != last):
            return None
        if last is not None and views[last][-1].high >= entry.low:
            return None
        last = entry.view
        views.setdefault(entry.view, []).append(entry)
    return views


def _merged(ranges: list[Interval]) -> list[Interval]:
    """Overlapping and neighbouring ranges joined."""
    merged: list[Interval] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


_DOUBTS: Final = {
    "sending_view": sending_view,
    "same_view": same_view,
    "sender_in_view": sender_in_view,
    "virtual_synchrony": virtual_synchrony,
    "agreement": agreement,
    "validity": validity,
    "uniform": uniform,
    "liveness": liveness,
    "resilience": resilience,
    "switching": switching,
}
BY_MESSAGE: Final = (*_DOUBTS, "reliable_fifo")
"""Checks that are decided message by message, or (the last) sender by sender."""
