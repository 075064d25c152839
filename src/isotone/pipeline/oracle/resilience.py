"""The check of delivery levels: what is delivered at level k (or safe) is held by k (or all) members of the view.

A process *holds* a message once it has sent, received or delivered it. A delivery at level `k` asks that k members of its view
hold the message (all of them, if the view has fewer than k), one at level `safe` that all do; both only before the transitional
signal of the view. A delivery at level `agreed`, or without a level, asks nothing.

With a virtual clock (start rows say `clock=virtual`) they must hold it when it is delivered. Clocks of a live trace are not
compared: then the weaker reading, that so many members hold it at some time of their logs, is checked and the note says so.

What is not seen:

- Without `receive` rows holding is seen late. If the sends and deliveries show enough holders, it is ok; otherwise it is
  *unknown* for want of `receive` rows. It is violated only, with a virtual clock, if too few members are left besides those
  that had ended (`stop` or `crash`) before the message was sent: they can not have held it.
- A member without any trace may hold anything: *unknown*. One whose trace was cut (it ends in neither `stop` nor `crash`,
  in a history that knows them) may have received the message too; that is left open and noted.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from isotone.pipeline.oracle.history import Delivery, History, Log
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness

WEAKER = "clocks of live processes are not compared: k members hold each message at some time, not when it is delivered"


Held: TypeAlias = dict[int, dict[str, int | None]]
"""Per message, since when each process is seen to hold it; None if the row has no time."""


class _Seen(Enum):
    """Whether a member holds a message, as far as the trace tells."""

    YES = "holds it"
    NO = "does not hold it"
    SILENT = "no receive rows"
    CUT = "its trace is cut"
    ABSENT = "no trace"


@dataclass(slots=True)
class _Demand:
    """A delivery that asks for holders."""

    log: Log
    delivery: Delivery
    members: frozenset[str]
    wanted: int


def resilience(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.level", "view", "view.view_epoch", "view.members")
    if missing:
        return Finding(missing=missing)
    demands, missing = _demands(history)
    tally = Tally()
    held = _held(history, {demand.delivery.message for demand in demands})
    logs = {log.name: log for log in history.logs}
    open_ = 0
    for demand in demands:
        holders = _holders(history, held, demand)
        if len(holders) >= demand.wanted:
            continue
        seen = {name: _Seen.YES if name in holders else _sees(history, held, logs.get(name), demand) for name in demand.members}
        doubts = {what for what in seen.values() if what not in (_Seen.YES, _Seen.NO)}
        if sum(what is not _Seen.NO for what in seen.values()) < demand.wanted:
            tally.hit((1, len(demand.members)), _witness, history, demand, seen)
        elif _Seen.SILENT in doubts:
            missing = missing or "receive rows"
        elif _Seen.ABSENT in doubts:
            missing = missing or f"trace of {min(name for name, what in seen.items() if what is _Seen.ABSENT)}"
        else:
            open_ += 1
    notes = [f"{open_} deliveries whose holders may be among processes whose trace is cut"] if open_ else []
    if demands and not history.virtual:
        notes.insert(0, WEAKER)
    tally.note = "; ".join(notes) or None
    return tally.finding(missing)


def _demands(history: History) -> tuple[list[_Demand], str | None]:
    members: dict[int, frozenset[str]] = {}
    for log in history.logs:
        for install in log.installs:
            if install.members is not None:
                members.setdefault(install.view, install.members)
    demands: list[_Demand] = []
    missing: str | None = None
    for log in history.logs:
        for delivery in log.deliveries:
            if delivery.level not in ("k", "safe") or delivery.transitional:
                continue
            inside = members.get(delivery.view)
            if inside is None:
                missing = missing or f"members of {history.view(delivery.view)}"
            elif delivery.level == "safe":
                demands.append(_Demand(log, delivery, inside, len(inside)))
            elif delivery.k is None:
                missing = missing or "column k on deliver rows"
            else:
                demands.append(_Demand(log, delivery, inside, min(delivery.k, len(inside))))
    return demands, missing


def _held(history: History, messages: set[int]) -> Held:
    """When each process first held each of the messages."""
    held: Held = {message: {} for message in messages}

    def hold(name: str, message: int, time: int | None) -> None:
        if message in held:
            known = held[message].get(name, time)
            held[message][name] = time if known is None else known if time is None else min(time, known)

    for log in history.logs:
        for message in log.sends:
            hold(log.name, message, history.send_time[message])
        for message, time in log.received.items():
            hold(log.name, message, time)
        for delivery in log.deliveries:
            hold(log.name, delivery.message, delivery.time)
    return held


def _holders(history: History, held: Held, demand: _Demand) -> set[str]:
    """The members that are seen to hold the message in time."""
    mine = held[demand.delivery.message]
    time = demand.delivery.time if history.virtual else None
    return {name for name, since in mine.items() if name in demand.members and (time is None or since is None or since <= time)}


def _sees(history: History, held: Held, log: Log | None, demand: _Demand) -> _Seen:
    """What the trace tells of a member that is not among the holders."""
    if log is None:
        return _Seen.ABSENT
    sent = history.send_time[demand.delivery.message]
    if history.virtual and log.end is not None and log.end_time is not None and sent is not None and log.end_time < sent:
        return _Seen.NO
    if "receive" not in history.kinds:
        return _Seen.SILENT
    if history.knows_ends and log.end is None and log.name not in held[demand.delivery.message]:
        return _Seen.CUT
    return _Seen.NO


def _witness(history: History, demand: _Demand, seen: dict[str, _Seen]) -> Witness:
    delivery, log = demand.delivery, demand.log
    name, view = history.message(delivery.message), history.view(delivery.view)
    lacking = sorted(member for member, what in seen.items() if what is _Seen.NO)
    level = "as safe" if delivery.level == "safe" else f"at level k={delivery.k}"
    when = "then" if history.virtual else "ever"
    text = (
        f"{log.name} delivers {name} {level} in {view}, but only {len(seen) - len(lacking)} of its {len(seen)} members "
        f"hold it {when}: not {', '.join(lacking)}"
    )
    edges = [
        Edge(f"delivery of {name} at {log.name}", f"{name} at {member}", member, f"{member} does not hold it {when}")
        for member in lacking
    ]
    installer = next(other.name for other in history.logs if any(i.view == delivery.view and i.members for i in other.installs))
    processes = [log.name, *(member for member in sorted(seen) if seen[member] is not _Seen.ABSENT), installer]
    messages = [delivery.message]
    receivers = [other for other in history.logs if other.received]
    same = next((other.name for other in receivers if delivery.message in other.received), None)
    if same is not None:  # the trace has receive rows, and so must the witness
        processes.append(same)
    elif receivers:
        processes.append(receivers[0].name)
        messages.append(next(iter(receivers[0].received)))
    return history.witness(text, processes, messages, edges, [delivery.view])
