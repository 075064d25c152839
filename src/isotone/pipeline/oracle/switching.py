"""The check of switches from one orderer to another within a view: nothing is lost, repeated or reordered.

A delivery belongs to an *instance* of an orderer: the first component of its position where that has several, besides the
name in its `protocol` column. In every view in which some process records a `switch`:

- *forward*: along the deliveries of a process the instance never decreases;
- *one instance*: a message is delivered under the same instance, and the same protocol, wherever it is delivered;
- *not repeated*: no process delivers a message under two instances;
- *not reordered*: if a process delivers m and later m' under another instance or protocol, nobody delivers m' before m;
- *not lost*: what a correct process sent in the view it delivers, or has it returned.

The order of messages under one instance is the business of the check of that order; what others than the sender
must deliver that of virtual_synchrony and agreement. Without any `switch` row the check is *unknown*. Rows that name no view
belong to the view installed. Without positions, instances are told apart by protocol only, so that going back is not seen.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import NamedTuple

from isotone.pipeline.oracle.history import Delivery, History, Log
from isotone.pipeline.oracle.messages import undelivered
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness


class _Label(NamedTuple):
    """Under what a message was delivered."""

    instance: int | None
    protocol: str | None

    def __str__(self) -> str:
        parts = [] if self.instance is None else [f"instance {self.instance}"]
        return " ".join([*parts, *([self.protocol] if self.protocol else [])]) or "nothing named"


def switching(history: History) -> Finding:
    missing = history.lacks("switch", "deliver")
    if missing:
        return Finding(missing=missing)
    switched: dict[int, str] = {}
    for log in history.logs:
        for switch in log.switches:
            switched.setdefault(switch.view, log.name)
    tally = Tally()
    for view, by in switched.items():
        logs = {log.name: [delivery for delivery in log.deliveries if delivery.view == view] for log in history.logs}
        _one_instance(history, tally, logs, by)
        for one, other in permutations([name for name in logs if logs[name]], 2):
            _reordered(history, tally, logs, one, other, by)
    for log in history.logs:
        returned = set(log.returned)
        for message in log.sends if log.correct else ():
            by = switched.get(history.send_view[message], "")
            if by and message not in log.delivered and message not in returned:
                elsewhere = any(message in other.delivered for other in history.logs)
                tally.hit((1 if elsewhere else 2, 3), _lost, history, log, message, by)
    return tally.finding()


def _label(delivery: Delivery) -> _Label:
    several = delivery.position is not None and len(delivery.position) > 1
    return _Label(delivery.position[0] if several and delivery.position else None, delivery.protocol)


def _one_instance(history: History, tally: Tally, logs: Mapping[str, list[Delivery]], by: str) -> None:
    first: dict[int, tuple[_Label, str]] = {}
    for name, deliveries in logs.items():
        last: tuple[int, int] | None = None
        mine: dict[int, _Label] = {}
        for delivery in deliveries:
            message, label = delivery.message, _label(delivery)
            if label.instance is not None:
                if last is not None and label.instance < last[0]:
                    tally.hit((2, 2), _back, history, name, (last[1], last[0]), (message, label.instance), by)
                last = (label.instance, message)
            known = mine.setdefault(message, label)
            if known != label:
                tally.hit((1, 2), _two, history, message, (known, name), (label, name), by)
                continue
            there = first.setdefault(message, (label, name))
            if there[0] != label:
                tally.hit((1, 3), _two, history, message, there, (label, name), by)


def _reordered(history: History, tally: Tally, logs: Mapping[str, list[Delivery]], one: str, other: str, by: str) -> None:
    """Walk along one process: what it delivered before under another label must come before at the other process too."""
    place: dict[int, int] = {}
    for index, delivery in enumerate(logs[other]):
        place.setdefault(delivery.message, index)
    furthest: dict[_Label, tuple[int, int]] = {}
    for delivery in logs[one]:
        at, mine = place.get(delivery.message), _label(delivery)
        if at is None:
            continue
        for label, (index, earlier) in furthest.items():
            if label != mine and index > at:
                tally.hit((2, 3), _opposite, history, (one, other), earlier, delivery.message, (label, mine), by)
        if mine not in furthest or furthest[mine][0] < at:
            furthest[mine] = (at, delivery.message)


def _back(history: History, name: str, one: tuple[int, int], two: tuple[int, int], by: str) -> Witness:
    text = (
        f"{name} delivers {history.message(one[0])} under instance {one[1]} and then {history.message(two[0])} "
        f"under instance {two[1]}"
    )
    return history.witness(text, [name, by], [one[0], two[0]], [history.edge(one[0], two[0], name, text)])


def _two(history: History, message: int, one: tuple[_Label, str], two: tuple[_Label, str], by: str) -> Witness:
    name = history.message(message)
    text = f"{one[1]} delivers {name} under {one[0]}, {two[1]} under {two[0]}"
    edges = [Edge(name, str(label), process, f"{process} delivers it under {label}") for label, process in (one, two)]
    return history.witness(text, [one[1], two[1], by], [message], edges)


def _opposite(
    history: History, names: tuple[str, str], first: int, second: int, labels: tuple[_Label, _Label], by: str
) -> Witness:
    one, two = history.message(first), history.message(second)
    text = (
        f"{names[0]} delivers {one} (under {labels[0]}) before {two} (under {labels[1]}), {names[1]} delivers {two} before {one}"
    )
    edges = [
        history.edge(first, second, names[0], f"{names[0]} delivers {one} before {two}"),
        history.edge(second, first, names[1], f"{names[1]} delivers {two} before {one}"),
    ]
    return history.witness(text, [*names, by], [first, second], edges)


def _lost(history: History, log: Log, message: int, by: str) -> Witness:
    alone = undelivered(history, log, message)
    processes, messages = history.a_delivery([log.name, by], [message])
    text = f"{alone.text}, in {history.view(history.send_view[message])}, where {by} switches"
    return history.witness(text, [log.name, by, *processes], [message, *messages], alone.edges)
