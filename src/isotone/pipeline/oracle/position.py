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

from isotone.pipeline.oracle.chain import Chains, edges_of
from isotone.pipeline.oracle.history import Delivery, History, Log, Position
from isotone.pipeline.oracle.protocols import Strength, strength
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness

Key: TypeAlias = tuple[int, str, Position]
Past: TypeAlias = tuple[Key, int] | None
"""The largest key of what precedes, and its message."""

NOWHERE = (-1, "")


def position(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.position")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    keys: dict[int, tuple[Key, str]] = {}
    for log in history.logs:
        _along_process(history, tally, keys, log)
    _unique(history, tally, keys)
    if "send" in history.kinds:
        _respects_causality(history, tally, keys)
    return tally.finding()


def _along_process(history: History, tally: Tally, keys: dict[int, tuple[Key, str]], log: Log) -> None:
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
                tally.hit((2, 2), _unplaced, history, log, message)
            continue
        key = _key(history, delivery)
        if last is not None and key <= last:
            tally.hit((2, 1), _not_increasing, history, log, (last_message, last), (message, key))
        last, last_message = key, message
        known = keys.setdefault(message, (key, log.name))
        if known[0] != key:
            tally.hit((1, 2), _two_places, history, message, known, (key, log.name))


def _key(history: History, delivery: Delivery) -> Key:
    return (*(history.views[delivery.view] if delivery.view >= 0 else NOWHERE), delivery.position or ())


def _unique(history: History, tally: Tally, keys: dict[int, tuple[Key, str]]) -> None:
    owner: dict[Key, int] = {}
    for message, (key, _) in keys.items():
        other = owner.setdefault(key, message)
        if other != message:
            tally.hit((2, 2), _one_place, history, keys, other, message)


def _respects_causality(history: History, tally: Tally, keys: dict[int, tuple[Key, str]]) -> None:
    """Carry the largest key of everything that precedes along happened-before."""
    placed, circles = history.replay()
    before: dict[int, Past] = {}
    while True:  # once is enough unless messages precede themselves
        found, changed = _pass(history, placed, keys, before)
        if not changed or not circles:
            break
    if found:
        tally.hit((2, 3), _against_causality, history, keys, found)
        tally.count += len(found) - 1


def _pass(
    history: History, placed: list[tuple[Log, int]], keys: dict[int, tuple[Key, str]], before: dict[int, Past]
) -> tuple[list[tuple[int, int]], bool]:
    """One walk along all events: pairs of messages whose keys contradict, and whether `before` grew."""
    largest: dict[int, Past] = {log.actor: None for log in history.logs}
    found: list[tuple[int, int]] = []
    changed = False
    for log, event in placed:
        actor, message = log.actor, event >> 1
        past = largest[actor]
        key = keys[message][0] if message in keys else None
        if event & 1:
            if past is not None and before.get(message) != past:
                before[message] = past
                changed = True
            if past is not None and key is not None and key <= past[0] and past[1] != message:
                found.append((past[1], message))
        else:
            carried = before.get(message)
            if carried is not None and (past is None or carried[0] > past[0]):
                past = carried
        if key is not None and (past is None or key > past[0]):
            past = (key, message)
        largest[actor] = past
    return found, changed


def _unplaced(history: History, log: Log, message: int) -> Witness:
    text = f"{log.name} delivers {history.message(message)} in a total order without a position"
    processes, messages = history.a_delivery([], [], lambda delivery: delivery.position is not None)
    edge = Edge(history.message(message), "no position", log.name, text)
    return history.witness(text, [log.name, *processes], [message, *messages], [edge])


def _not_increasing(history: History, log: Log, first: tuple[int, Key], second: tuple[int, Key]) -> Witness:
    text = (
        f"{log.name} delivers {history.message(second[0])} at {_show(second[1])} "
        f"after {history.message(first[0])} at {_show(first[1])}"
    )
    return history.witness(text, [log.name], [first[0], second[0]], [history.edge(first[0], second[0], log.name, text)])


def _two_places(history: History, message: int, one: tuple[Key, str], two: tuple[Key, str]) -> Witness:
    name = history.message(message)
    text = f"{name} is at {_show(one[0])} for {one[1]} and at {_show(two[0])} for {two[1]}"
    edges = [Edge(name, _show(key), process, f"{process} delivers it at {_show(key)}") for key, process in (one, two)]
    return history.witness(text, [one[1], two[1]], [message], edges)


def _one_place(history: History, keys: dict[int, tuple[Key, str]], one: int, two: int) -> Witness:
    key = keys[one][0]
    text = f"{history.message(one)} (for {keys[one][1]}) and {history.message(two)} (for {keys[two][1]}) are both at {_show(key)}"
    edges = [
        Edge(history.message(message), _show(key), keys[message][1], f"{keys[message][1]} delivers it at {_show(key)}")
        for message in (one, two)
    ]
    return history.witness(text, [keys[one][1], keys[two][1]], [one, two], edges)


def _against_causality(history: History, keys: dict[int, tuple[Key, str]], found: list[tuple[int, int]]) -> Witness:
    chosen, chain = Chains(history, by_number=False).smallest((first, (second,)) for first, second in found)
    first, second = found[chosen]
    edges = edges_of(history, chain)
    text = (
        f"{history.message(first)} at {_show(keys[first][0])} causally precedes "
        f"{history.message(second)} at {_show(keys[second][0])}"
    )
    if len(chain) > 1:
        text += ": " + "; ".join(edge.why for edge in edges)
    processes = [step.process for step in chain] + [keys[first][1], keys[second][1]]
    against = history.edge(second, first, keys[second][1], "its position says that it comes first")
    return history.witness(text, processes, [first, *(step.second for step in chain)], [*edges, against])


def _show(key: Key) -> str:
    epoch, proposer, place = key
    where = f"{epoch}@{proposer} " if epoch >= 0 else ""
    return f"{where}({', '.join(map(str, place))})"
