"""Checks that compare processes over whole views: virtual_synchrony, agreement, uniform.

The messages of a view at a process are those it delivers between installing that view and installing the next.

- *virtual_synchrony*: processes that go from one view to the same next view deliver the same messages in the first.
- *agreement*: what a correct process delivers in a view is delivered in it by every process that ends the view with it. The
  transitional signal says who that is, leavers included; without one it is those that go on to the same next view, or, for a
  process that ends in this view, all correct ones that do. A process of another component, or one that crashed in
  the view, owes nothing.
- *uniform*: what any process, even one that crashed later, delivers at level `safe` in a view before its transitional
  signal is delivered in that view by every correct process that installs it, wherever that goes next.

A process that ends in the view does not owe what was first delivered (anywhere, by the `time` column) less than `settle_ns`
before its own end: a message can be on its way when somebody leaves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from isotone.pipeline.oracle.history import NO_VIEW, History, Log, Stretch
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness


@dataclass(slots=True, eq=False)
class _Visit:
    """A process in a view."""

    log: Log
    stretch: Stretch
    messages: set[int]
    _times: dict[int, int] | None = None

    @property
    def times(self) -> dict[int, int]:
        """When it first delivers each message, as far as rows tell."""
        if self._times is None:
            self._times = _first_times([self])
        return self._times

    @property
    def goes_to(self) -> int:
        return self.stretch.next_view

    @property
    def stays(self) -> bool:
        """Ended in this view, and on purpose."""
        return self.goes_to == NO_VIEW and self.log.correct


def _visits(history: History) -> Iterator[tuple[int, list[_Visit]]]:
    """Per view, the processes that installed it."""
    visits: dict[int, list[_Visit]] = {}
    for log in history.logs:
        for stretch in log.stretches:
            messages = {delivery.message for delivery in stretch.deliveries}
            visits.setdefault(stretch.view, []).append(_Visit(log, stretch, messages))
    yield from visits.items()


def virtual_synchrony(history: History) -> Finding:
    missing = history.lacks("deliver", "view", "view.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for view, visits in _visits(history):
        together: dict[int, list[_Visit]] = {}
        for visit in visits:
            if visit.goes_to != NO_VIEW:
                together.setdefault(visit.goes_to, []).append(visit)
        for following, group in together.items():
            _compare(history, tally, view, following, group)
    return tally.finding()


def _compare(history: History, tally: Tally, view: int, following: int, group: list[_Visit]) -> None:
    if all(visit.messages == group[0].messages for visit in group):
        return
    union = set().union(*(visit.messages for visit in group))
    for message in sorted(union):
        having = next(visit for visit in group if message in visit.messages)
        for visit in group:
            if message not in visit.messages:
                text = (
                    f"{having.log.name} and {visit.log.name} go together from {history.view(view)} to "
                    f"{history.view(following)}, but only {having.log.name} delivers {history.message(message)} "
                    f"in {history.view(view)}"
                )
                tally.hit((1, 2), _lacking, history, text, message, (view, following), visit, [having])


def agreement(history: History, settle_ns: int = 0) -> Finding:
    missing = history.lacks("deliver", "view", "view.view_epoch", "stop")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for view, visits in _visits(history):
        groups: dict[int | frozenset[str], list[_Visit]] = {}
        for visit in visits:
            if visit.goes_to != NO_VIEW or visit.stays:
                together = visit.stretch.together
                groups.setdefault(visit.goes_to if together is None else together, []).append(visit)
        for group in groups.values():
            owed = set().union(*(visit.messages for visit in group if visit.log.correct))
            if all(owed <= visit.messages for visit in group):
                continue
            first = _first_times(visits)
            for visit in group:
                for message in sorted(owed - visit.messages):
                    if visit.stays and _too_late(first.get(message), visit.log, settle_ns):
                        continue
                    having = [v for v in group if v.log.correct and message in v.messages]
                    early = _early(visits, visit, message, settle_ns)
                    by = next((v for v in having if v in early), having[0])
                    where = "stays in it" if visit.stays else f"goes on with it to {history.view(visit.goes_to)}"
                    text = (
                        f"{by.log.name} is correct and delivers {history.message(message)} in {history.view(view)}; "
                        f"{visit.log.name} {where}, but does not deliver it"
                    )
                    holders = [by] if by in early else [by, early[0]]
                    tally.hit((1, 1 + len(holders)), _lacking, history, text, message, (view,), visit, holders)
    return tally.finding()


def uniform(history: History, settle_ns: int = 0) -> Finding:
    missing = history.lacks("deliver", "deliver.level", "view", "view.view_epoch", "stop")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for view, visits in _visits(history):
        safe: dict[int, _Visit] = {}
        for visit in visits:
            for delivery in visit.stretch.deliveries:
                if delivery.level == "safe" and not delivery.transitional:
                    safe.setdefault(delivery.message, visit)
        if not safe:
            continue
        owed = set(safe)
        for visit in visits:
            if not visit.log.correct or owed <= visit.messages:
                continue
            first = _first_times(visits)
            for message in sorted(owed - visit.messages):
                if visit.stays and _too_late(first.get(message), visit.log, settle_ns):
                    continue
                by = safe[message]
                text = (
                    f"{by.log.name} delivers {history.message(message)} as safe in {history.view(view)}; "
                    f"{visit.log.name} is correct and installs {history.view(view)}, but does not deliver it there"
                )
                early = _early(visits, visit, message, settle_ns)
                holders = [by] if by in early else [by, early[0]]
                tally.hit((1, 1 + len(holders)), _lacking, history, text, message, (view,), visit, holders)
    return tally.finding()


def _lacking(history: History, text: str, message: int, views: Iterable[int], visit: _Visit, holders: list[_Visit]) -> Witness:
    """One process does not deliver what others do; the last of those shows that it was early enough."""
    name, lacking = history.message(message), visit.log.name
    view = history.view(next(iter(views)))
    edges = [Edge(name, view, by.log.name, f"{by.log.name} delivers it in {view}") for by in holders]
    edges.append(Edge(view, name, lacking, f"{lacking} ends {view} without it"))
    return history.witness(text, [*(by.log.name for by in holders), lacking], [message], edges, views)


def _early(visits: list[_Visit], visit: _Visit, message: int, settle_ns: int) -> list[_Visit]:
    """Those whose delivery of a message came early enough for a process to owe it too."""
    having = [other for other in visits if message in other.messages]
    if not visit.stays:
        return having
    return [other for other in having if not _too_late(other.times.get(message), visit.log, settle_ns)]


def _first_times(visits: list[_Visit]) -> dict[int, int]:
    first: dict[int, int] = {}
    for visit in visits:
        for delivery in visit.stretch.deliveries:
            if delivery.time is not None:
                first[delivery.message] = min(delivery.time, first.get(delivery.message, delivery.time))
    return first


def _too_late(first_delivered: int | None, log: Log, settle_ns: int) -> bool:
    return first_delivered is not None and log.end_time is not None and first_delivered + settle_ns > log.end_time
