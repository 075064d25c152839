"""The check of positions: every delivery in a total order carries a place that tells the whole truth about the order.

The key of a delivery is `(view id, position)`. Over the whole run, partitions included:

- a message has the same key wherever it is delivered;
- no two messages have the same key;
- keys increase along the deliveries of each process;
- keys respect causality: if m causally precedes m', then m's key is smaller, also where no process delivers both.

A delivery whose row names a total protocol and no position breaks the first rule; where the row names no protocol, a missing
position is passed over.
"""

from typing import TypeAlias

from isotone.pipeline.oracle.history import History, Position
from isotone.pipeline.oracle.protocols import Strength, strength
from isotone.pipeline.oracle.report import Finding, Tally

Key: TypeAlias = tuple[int, str, Position]


def position(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.position")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    keys: dict[int, tuple[Key, str]] = {}
    _along_processes(history, tally, keys)
    _unique(history, tally, keys)
    if "send" in history.kinds:
        _respects_causality(history, tally, {message: key for message, (key, _) in keys.items()})
    return tally.finding()


def _along_processes(history: History, tally: Tally, keys: dict[int, tuple[Key, str]]) -> None:
    nowhere = (-1, "")
    for log in history.logs:
        last: Key | None = None
        last_message = -1
        seen: set[int] = set()
        for delivery in log.deliveries:
            message = delivery.message
            if message in seen:
                continue
            seen.add(message)
            if delivery.position is None:
                if delivery.protocol is not None and strength(delivery.protocol) is Strength.TOTAL:
                    tally.hit(f"{log.name} delivers {history.message(message)} in a total order without a position")
                continue
            epoch, proposer = history.views[delivery.view] if delivery.view >= 0 else nowhere
            key = (epoch, proposer, delivery.position)
            if last is not None and key <= last:
                tally.hit(
                    f"{log.name} delivers {history.message(message)} at {_show(key)} "
                    f"after {history.message(last_message)} at {_show(last)}"
                )
            last, last_message = key, message
            known = keys.setdefault(message, (key, log.name))
            if known[0] != key:
                tally.hit(f"{history.message(message)} is at {_show(known[0])} for {known[1]} and at {_show(key)} for {log.name}")


def _unique(history: History, tally: Tally, keys: dict[int, tuple[Key, str]]) -> None:
    owner: dict[Key, int] = {}
    for message, (key, name) in keys.items():
        other = owner.setdefault(key, message)
        if other != message:
            tally.hit(
                f"{history.message(other)} (for {keys[other][1]}) and {history.message(message)} (for {name}) "
                f"are both at {_show(key)}"
            )


def _respects_causality(history: History, tally: Tally, keys: dict[int, Key]) -> None:
    """Carry the largest key of everything that precedes along happened-before."""
    largest: dict[int, tuple[Key, int] | None] = {log.actor: None for log in history.logs}
    before: dict[int, tuple[Key, int] | None] = {}
    for log, event in history.replay()[0]:
        actor, message = log.actor, event >> 1
        past = largest[actor]
        key = keys.get(message)
        if event & 1:
            before[message] = past
            if past is not None and key is not None and key <= past[0] and past[1] != message:
                tally.hit(
                    f"{history.message(past[1])} at {_show(past[0])} causally precedes {history.message(message)} at {_show(key)}"
                )
        else:
            carried = before.get(message)
            if carried is not None and (past is None or carried[0] > past[0]):
                past = carried
        if key is not None and (past is None or key > past[0]):
            past = (key, message)
        largest[actor] = past


def _show(key: Key) -> str:
    epoch, proposer, place = key
    where = f"{epoch}@{proposer} " if epoch >= 0 else ""
    return f"{where}({', '.join(map(str, place))})"
