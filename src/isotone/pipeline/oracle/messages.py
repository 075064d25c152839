"""Checks about single messages and single senders: integrity, duplication, fifo, validity.

- *integrity*: a process delivers only what its origin sent, after it was sent, with the payload that was sent.
- *duplication*: a process delivers a message at most once, and is not given back what it delivered.
- *fifo*: a process that delivers two messages of one sender delivers them in the order of their numbers.
- *validity*: a correct process delivers each message it sent, or has it returned.

Where a process was killed its trace may end before its last sends: a message numbered after the last one recorded by an
origin whose trace ends in neither `stop` nor `crash` is not called invented, it is left open. A log that knows no `stop`
and no `crash` at all is taken to be complete.
"""

from isotone.pipeline.oracle.chain import Chains, edges_of
from isotone.pipeline.oracle.history import Delivery, History, Log
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness


def integrity(history: History) -> Finding:
    missing = history.lacks("deliver", "send")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    last_sent = {log.actor: max(log.sends, key=lambda m: history.number[m], default=None) for log in history.logs}
    knows_ends = history.knows_ends
    absent: set[str] = set()
    cut = 0
    for log in history.logs:
        for message in log.foreign_sends:
            tally.hit((2, 2), _foreign, history, log, message)
        for delivery in log.deliveries:
            message = delivery.message
            if not history.sent[message]:
                sender = history.log_of.get(history.origin[message])
                last = None if sender is None else last_sent[sender.actor]
                if knows_ends and sender is None:
                    absent.add(history.actors[history.origin[message]])
                elif (
                    knows_ends
                    and sender is not None
                    and sender.end is None
                    and (last is None or history.number[message] > history.number[last])
                ):
                    cut += 1
                else:
                    tally.hit((2, 2), _invented, history, log, message, last)
                continue
            digest = history.send_digest[message]
            if digest is not None and delivery.digest is not None and digest != delivery.digest:
                tally.hit((1, 1), _damaged, history, log, delivery)
    for message in history.redefined:
        tally.hit((1, 2), _redefined, history, message)
    circles = history.replay()[1]
    if circles:
        tally.hit((1, 3), _circle, history, [message for _, message in circles])
        tally.count += len(circles) - 1
    if cut:
        tally.note = f"{cut} deliveries of messages beyond the cut end of their sender's trace"
    return tally.finding(missing=f"trace of {min(absent)}" if absent else None)


def _foreign(history: History, log: Log, message: int) -> Witness:
    text = f"{log.name} sends {history.message(message)}, which is not its own"
    processes, messages = history.a_delivery([log.name], [message])
    edge = Edge(history.message(message), history.message(message), log.name, text)
    return history.witness(text, [log.name, *processes], [message, *messages], [edge])


def _invented(history: History, log: Log, message: int, last: int | None) -> Witness:
    """The sender's last message shows that its sends are recorded, and that its trace goes further."""
    origin = history.actors[history.origin[message]]
    text = f"{log.name} delivers {history.message(message)}, which was never sent"
    edge = Edge(f"start of {origin}", history.message(message), log.name, text)
    sender = [origin] if history.origin[message] in history.log_of else []
    return history.witness(text, [log.name, *sender], [message, *([last] if last is not None else history.a_send())], [edge])


def _damaged(history: History, log: Log, delivery: Delivery) -> Witness:
    message = delivery.message
    text = (
        f"{log.name} delivers {history.message(message)} with payload digest {delivery.digest}, "
        f"but it was sent with {history.send_digest[message]}"
    )
    name = history.message(message)
    return history.witness(text, [log.name], [message], [Edge(f"send of {name}", f"delivery of {name}", log.name, text)])


def _redefined(history: History, message: int) -> Witness:
    text = f"{history.message(message)} was sent twice with different payloads"
    origin = history.actors[history.origin[message]]
    by = next((log.name for log in history.logs if message in log.delivered), None)
    processes, messages = ([by], []) if by is not None else history.a_delivery([], [])
    edge = Edge(f"send of {history.message(message)}", f"send of {history.message(message)}", origin, text)
    return history.witness(text, [origin, *processes], [message, *messages], [edge])


def _circle(history: History, premature: list[int]) -> Witness:
    """Messages each delivered by the sender of the next before it sent that, round to the first."""
    _, chain = Chains(history, by_number=False).smallest((message, (message,)) for message in premature)
    edges = edges_of(history, chain)
    first = chain[0]
    text = f"{first.process} delivers {history.message(first.first)} before it was sent (happened-before is a circle)"
    if len(edges) > 1:
        text += ": " + "; ".join(edge.why for edge in edges)
    return history.witness(text, [step.process for step in chain], [step.first for step in chain], edges)


def duplication(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing and "returned" not in history.kinds:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        if len(log.deliveries) > len(log.order):
            seen: set[int] = set()
            for delivery in log.deliveries:
                if delivery.message in seen:
                    tally.hit((1, 1), _twice, history, log, delivery.message, "delivers {} more than once")
                seen.add(delivery.message)
        back: set[int] = set()
        for message in log.returned:
            if message in log.delivered:
                tally.hit((1, 1), _twice, history, log, message, "delivers {} and has it returned too")
            elif message in back:
                tally.hit((1, 1), _twice, history, log, message, "has {} returned more than once")
            back.add(message)
    return tally.finding(missing)


def _twice(history: History, log: Log, message: int, words: str) -> Witness:
    name = history.message(message)
    text = f"{log.name} {words.format(name)}"
    return history.witness(text, [log.name], [message], [Edge(name, name, log.name, text)])


def fifo(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        _fifo_of(history, log, tally)
    return tally.finding()


def _fifo_of(history: History, log: Log, tally: Tally) -> None:
    newest: dict[int, int] = {}
    origins, numbers = history.origin, history.number
    for message in log.order:
        origin = origins[message]
        before = newest.get(origin)
        if before is not None and numbers[before] > numbers[message]:
            tally.hit((2, 1), out_of_order, history, log, before, message)
        else:
            newest[origin] = message


def out_of_order(history: History, log: Log, first: int, second: int, because: str = "") -> Witness:
    """Two messages of one sender that a process delivers against their numbers."""
    one, two = history.message(first), history.message(second)
    text = f"{log.name} delivers {one} before {two}{because}"
    edges = [
        history.edge(second, first, history.actors[history.origin[first]], f"{two} has the smaller number"),
        history.edge(first, second, log.name, text),
    ]
    return history.witness(text, [log.name], [first, second], edges)


def validity(history: History) -> Finding:
    missing = history.lacks("send", "stop")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        if not log.correct:
            continue
        returned = set(log.returned)
        for message in log.sends:
            if message not in log.delivered and message not in returned:
                tally.hit((1, 1), undelivered, history, log, message)
    return tally.finding()


def undelivered(history: History, log: Log, message: int) -> Witness:
    """A message that its sender neither delivers nor gets back."""
    name = history.message(message)
    text = f"{log.name} is correct and sent {name}, but neither delivers it nor has it returned"
    return history.witness(text, [log.name], [message], [Edge(f"send of {name}", f"stop of {log.name}", log.name, text)])
