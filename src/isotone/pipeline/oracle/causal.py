"""The check of causal order.

A message m *causally precedes* m' if the sender of m' had sent or delivered m before it sent m', or if m causally
precedes a message that causally precedes m'. Violated: a process delivers m' and later m. The chain from m to m' may lead
through messages the process itself never delivers. A process that never delivers m breaks nothing here: under partition
it may have to do without.

Each message carries the vector of what precedes it: per origin the largest number, which says all, because whoever knows
a sender's n-th message knows those before it. A process that delivers m finds m in the past of something it delivered
before exactly if the maximum of the vectors it has delivered reaches m's number.
"""

from collections.abc import Callable, Collection

from isotone.pipeline.oracle.chain import Chains, edges_of
from isotone.pipeline.oracle.history import History, Log
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Witness

Vectors = list[list[int] | None]
Late = list[tuple[Log, int]]
"""Processes and messages that they deliver too late."""


def causal(history: History) -> Finding:
    missing = history.lacks("deliver", "send")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    _, late = vectors_of(history)
    if late:
        tally.count = len(late)
        tally.witness = explain(history, late, lambda log, message: set(log.order[: log.order.index(message)]))
    return tally.finding()


def vectors_of(history: History) -> tuple[Vectors, Late]:
    """Of each message sent, what precedes it; and deliveries that come after something they precede."""
    placed, circles = history.replay()
    vectors: Vectors = [None] * len(history.origin)
    while True:  # once is enough unless messages precede themselves
        changed, late = _pass(history, placed, vectors, bool(circles))
        if not changed or not circles:
            return vectors, late


def _pass(history: History, placed: list[tuple[Log, int]], vectors: Vectors, circles: bool) -> tuple[bool, Late]:
    width = len(history.actors)
    origins, numbers = history.origin, history.number
    nothing = min(numbers, default=0) - 1  # other people count from 0, or as they like
    known = {log.actor: [nothing] * width for log in history.logs}  # all that precedes something delivered, and itself
    delivered: dict[int, set[int]] = {actor: set() for actor in known}
    late: Late = []
    changed = False
    for log, event in placed:
        actor, message = log.actor, event >> 1
        vector = known[actor]
        origin, number = origins[message], numbers[message]
        if event & 1:
            if vectors[message] != vector:
                changed = True
                vectors[message] = vector.copy()  # what it sent itself before is known from the number alone
        elif message not in delivered[actor]:
            delivered[actor].add(message)
            if vector[origin] >= number:
                late.append((log, message))
                if not circles:
                    continue
            carried = vectors[message]
            if carried is not None and (circles or origin != actor):
                vector = known[actor] = list(map(max, vector, carried))
            vector[origin] = max(vector[origin], number)
    return changed, late


def precedes(history: History, vectors: Vectors, first: int, second: int) -> bool:
    """Whether the first message causally precedes the second."""
    origin, number = history.origin[first], history.number[first]
    if history.origin[second] == origin and number < history.number[second]:
        return True
    vector = vectors[second]
    return vector is not None and vector[origin] >= number


def explain(history: History, late: Late, before: Callable[[Log, int], Collection[int]], because: str = "") -> Witness:
    """The late delivery with the shortest chain of steps; `before` are the messages that it should not come after."""
    chains = Chains(history, by_number=True)
    chosen, chain = chains.smallest((message, before(log, message)) for log, message in late)
    log, message = late[chosen]
    name = history.message
    early = chain[-1].second
    edges = edges_of(history, chain)
    wrong = f"{log.name} delivers {name(early)} before {name(message)}"
    messages = [message, *(step.second for step in chain)]
    return history.witness(
        f"{wrong}, which causally precedes it{because}: " + "; ".join(edge.why for edge in edges),
        [log.name, *(step.process for step in chain)],
        messages + history.a_send(messages),
        [*edges, history.edge(early, message, log.name, wrong)],
    )
