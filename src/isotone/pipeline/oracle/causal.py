"""The check of causal order.

A message m *causally precedes* m' if the sender of m' had sent or delivered m before it sent m', or if m causally
precedes a message that causally precedes m'. Violated: a process delivers m' and later m. The chain from m to m' may lead
through messages the process itself never delivers. A process that never delivers m breaks nothing here: under partition
it may have to do without.

Each message carries the vector of what precedes it: per origin the largest number, which says all, because whoever knows
a sender's n-th message knows those before it. A process that delivers m finds m in the past of something it delivered
before exactly if the maximum of the vectors it has delivered reaches m's number.
"""

from isotone.pipeline.oracle.history import History, Log
from isotone.pipeline.oracle.report import Finding, Tally

Vectors = list[list[int] | None]


def causal(history: History) -> Finding:
    missing = history.lacks("deliver", "send")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    width = len(history.actors)
    origins, numbers = history.origin, history.number
    vectors: Vectors = [None] * len(origins)
    known = {log.actor: [0] * width for log in history.logs}  # all that precedes something delivered, and itself
    delivered: dict[int, set[int]] = {actor: set() for actor in known}
    late: list[tuple[Log, int]] = []
    for log, event in history.replay()[0]:
        actor, message = log.actor, event >> 1
        vector = known[actor]
        origin, number = origins[message], numbers[message]
        if event & 1:
            vectors[message] = vector.copy()  # what it sent itself before is known from the number alone
        elif message not in delivered[actor]:
            delivered[actor].add(message)
            if vector[origin] >= number:
                late.append((log, message))
                continue
            carried = vectors[message]
            if carried is not None and origin != actor:
                vector = known[actor] = list(map(max, vector, carried))
            vector[origin] = number
    for log, message in late:
        tally.hit(_explain(history, vectors, log, message) if tally.witness is None else "")
    return tally.finding()


def precedes(history: History, vectors: Vectors, first: int, second: int) -> bool:
    """Whether the first message causally precedes the second."""
    origin, number = history.origin[first], history.number[first]
    if history.origin[second] == origin:
        return number < history.number[second]
    vector = vectors[second]
    return vector is not None and vector[origin] >= number


def _explain(history: History, vectors: Vectors, log: Log, message: int) -> str:
    """Which delivery came too early, and a chain of steps that makes it so."""
    name = history.message
    early = next(other for other in log.order if other != message and precedes(history, vectors, message, other))
    steps: list[str] = []
    target = early
    visited = {early}
    while target != message:
        sender = history.log_of.get(history.origin[target])
        via, how = _step_back(history, vectors, sender, message, target)
        steps.append(f"{history.actors[history.origin[target]]} {how} {name(via)} before it sent {name(target)}")
        if via in visited:  # only where messages are delivered before they were sent; integrity reports that
            break
        visited.add(via)
        target = via
    chain = "; ".join(reversed(steps))
    return f"{log.name} delivers {name(early)} before {name(message)}, which causally precedes it: {chain}"


def _step_back(history: History, vectors: Vectors, sender: Log | None, message: int, target: int) -> tuple[int, str]:
    """A message its sender knew when it sent the target: the searched one, or one that the searched one precedes."""
    found: tuple[int, str] | None = None
    for event in sender.events if sender is not None else ():
        known = event >> 1
        if event & 1 and known == target:
            break
        how = "sent" if event & 1 else "delivered"
        if known == message:
            return known, how
        if found is None and precedes(history, vectors, message, known):
            found = known, how
    return found if found is not None else (message, "sent")
