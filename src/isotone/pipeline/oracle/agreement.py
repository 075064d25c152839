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

from collections.abc import Iterator
from dataclasses import dataclass

from isotone.pipeline.oracle.history import NO_VIEW, Delivery, History, Log, Stretch
from isotone.pipeline.oracle.report import Finding, Tally


@dataclass(slots=True)
class _Visit:
    """A process in a view."""

    log: Log
    stretch: Stretch
    messages: set[int]

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
                tally.hit(
                    f"{having.log.name} and {visit.log.name} go together from {history.view(view)} to "
                    f"{history.view(following)}, but only {having.log.name} delivers {history.message(message)} "
                    f"in {history.view(view)}"
                )


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
                    by = next(v.log.name for v in group if v.log.correct and message in v.messages)
                    where = "stays in it" if visit.stays else f"goes on with it to {history.view(visit.goes_to)}"
                    tally.hit(
                        f"{by} is correct and delivers {history.message(message)} in {history.view(view)}; "
                        f"{visit.log.name} {where}, but does not deliver it"
                    )
    return tally.finding()


def uniform(history: History, settle_ns: int = 0) -> Finding:
    missing = history.lacks("deliver", "deliver.level", "view", "view.view_epoch", "stop")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for view, visits in _visits(history):
        safe: dict[int, tuple[Delivery, str]] = {}
        for visit in visits:
            for delivery in visit.stretch.deliveries:
                if delivery.level == "safe" and not delivery.transitional:
                    safe.setdefault(delivery.message, (delivery, visit.log.name))
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
                tally.hit(
                    f"{safe[message][1]} delivers {history.message(message)} as safe in {history.view(view)}; "
                    f"{visit.log.name} is correct and installs {history.view(view)}, but does not deliver it there"
                )
    return tally.finding()


def _first_times(visits: list[_Visit]) -> dict[int, int]:
    first: dict[int, int] = {}
    for visit in visits:
        for delivery in visit.stretch.deliveries:
            if delivery.time is not None:
                first[delivery.message] = min(delivery.time, first.get(delivery.message, delivery.time))
    return first


def _too_late(first_delivered: int | None, log: Log, settle_ns: int) -> bool:
    return first_delivered is not None and log.end_time is not None and first_delivered + settle_ns > log.end_time
