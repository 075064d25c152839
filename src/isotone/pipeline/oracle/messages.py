"""Checks about single messages and single senders: integrity, duplication, fifo, validity.

- *integrity*: a process delivers only what its origin sent, after it was sent, with the payload that was sent.
- *duplication*: a process delivers a message at most once, and is not given back what it delivered.
- *fifo*: a process that delivers two messages of one sender delivers them in the order of their numbers.
- *validity*: a correct process delivers each message it sent, or has it returned.

Where a process was killed its trace may end before its last sends: a message numbered after the last one recorded by an
origin whose trace ends in neither `stop` nor `crash` is not called invented, it is left open. A log that knows no `stop`
and no `crash` at all is taken to be complete.
"""

from isotone.pipeline.oracle.history import History, Log
from isotone.pipeline.oracle.report import Finding, Tally


def integrity(history: History) -> Finding:
    missing = history.lacks("deliver", "send")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    last_sent = {log.actor: max((history.number[m] for m in log.sends), default=0) for log in history.logs}
    knows_ends = not history.kinds.isdisjoint(("stop", "crash"))
    absent: set[str] = set()
    cut = 0
    for log in history.logs:
        for message in log.foreign_sends:
            tally.hit(f"{log.name} sends {history.message(message)}, which is not its own")
        for delivery in log.deliveries:
            message = delivery.message
            if not history.sent[message]:
                sender = history.log_of.get(history.origin[message])
                if knows_ends and sender is None:
                    absent.add(history.actors[history.origin[message]])
                elif (
                    knows_ends and sender is not None and sender.end is None and history.number[message] > last_sent[sender.actor]
                ):
                    cut += 1
                else:
                    tally.hit(f"{log.name} delivers {history.message(message)}, which was never sent")
                continue
            digest = history.send_digest[message]
            if digest is not None and delivery.digest is not None and digest != delivery.digest:
                tally.hit(
                    f"{log.name} delivers {history.message(message)} with payload digest {delivery.digest}, "
                    f"but it was sent with {digest}"
                )
    for message in history.redefined:
        tally.hit(f"{history.message(message)} was sent twice with different payloads")
    for log, message in history.replay()[1]:
        tally.hit(f"{log.name} delivers {history.message(message)} before it was sent (happened-before is a circle)")
    if cut:
        tally.note = f"{cut} deliveries of messages beyond the cut end of their sender's trace"
    return tally.finding(missing=f"trace of {min(absent)}" if absent else None)


def duplication(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        if len(log.deliveries) > len(log.order):
            seen: set[int] = set()
            for delivery in log.deliveries:
                if delivery.message in seen:
                    tally.hit(f"{log.name} delivers {history.message(delivery.message)} more than once")
                seen.add(delivery.message)
        back: set[int] = set()
        for message in log.returned:
            if message in log.delivered:
                tally.hit(f"{log.name} delivers {history.message(message)} and has it returned too")
            elif message in back:
                tally.hit(f"{log.name} has {history.message(message)} returned more than once")
            back.add(message)
    return tally.finding()


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
            tally.hit(f"{log.name} delivers {history.message(before)} before {history.message(message)}")
        else:
            newest[origin] = message


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
                tally.hit(
                    f"{log.name} is correct and sent {history.message(message)}, but neither delivers it nor has it returned"
                )
    return tally.finding()
