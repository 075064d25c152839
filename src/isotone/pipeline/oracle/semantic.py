"""The checks of semantic orders: only messages that conflict have to keep an order (paper 002, §4.2).

With a conflict relation on messages (`isotone.model.conflicts`; without one everything conflicts):

- *semantic_fifo*: a process that delivers two conflicting messages of one sender delivers them in the order of their numbers.
- *semantic_causal*: a process that delivers two conflicting messages, of which one causally precedes the other, delivers that
  one first. Which message precedes which is the paper's happened-before between their sends, not a relation among conflicting
  messages alone: the chain from one to the other may lead through messages that conflict with neither, and that
  the process never delivers. It is the relation of the check `causal`.
- *semantic_total*: the precedence graph is acyclic: messages are its nodes, and an edge leads from m to m' if they
  conflict and some process delivers m before m'. A cycle may have any length; two processes that deliver two conflicting
  messages in opposite orders are one of length two. Edges are not transitive, since conflicts are not.

All speak of the first delivery of a message at a process, over all views and components of a run. `violations` counts, for the
first two, deliveries that come too late, for the third the knots (strongly connected components) of the graph.

A message's type and items are those of its send row. A type that the relation does not declare, or an item without a name, is an
error (`ConfigError`), not a verdict: the relation does not belong to the trace.

Messages of equal type and items form a class; each check keeps what it needs per class, so that the work is the number of
events times the number of classes.
"""

from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle.causal import Late, explain, precedes, vectors_of
from isotone.pipeline.oracle.history import History, Log
from isotone.pipeline.oracle.messages import out_of_order
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.total import SEARCH_STEPS_MAX, Chains, describe_cycle, knots, leftover, smallest_cycle

WHY = ", and they conflict"


class Classes:
    """Messages by type and items, and which classes conflict."""

    def __init__(self, history: History, conflicts: Conflicts) -> None:
        numbered: dict[tuple[str | None, tuple[str, ...] | None], int] = {}
        self.of: list[int] = []
        """Of each message."""
        for message, description in enumerate(zip(history.type, history.items, strict=True)):
            number = numbered.get(description)
            if number is None:
                try:
                    conflicts.validate(*description)
                except ConfigError as error:
                    raise ConfigError(f"message {history.message(message)}: {error}") from None
                number = numbered[description] = len(numbered)
            self.of.append(number)
        described = list(numbered)
        self.conflicting = [[other for other, two in enumerate(described) if conflicts.conflict(*one, *two)] for one in described]
        """Of each class, those that conflict with it."""

    def conflict(self, one: int, two: int) -> bool:
        """Whether two messages conflict."""
        return self.of[two] in self.conflicting[self.of[one]]


def semantic_fifo(history: History, conflicts: Conflicts) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    classes = Classes(history, conflicts)
    tally = Tally()
    for log in history.logs:
        newest: dict[tuple[int, int], int] = {}  # of an origin and a class, the largest number so far
        for message in log.order:
            origin, number = history.origin[message], history.number[message]
            for class_ in classes.conflicting[classes.of[message]]:
                before = newest.get((origin, class_))
                if before is not None and history.number[before] > number:
                    tally.hit((2, 1), out_of_order, history, log, before, message, WHY)
                    break
            mine = (origin, classes.of[message])
            if mine not in newest or history.number[newest[mine]] < number:
                newest[mine] = message
    return tally.finding()


def semantic_causal(history: History, conflicts: Conflicts) -> Finding:
    missing = history.lacks("deliver", "send")
    if missing:
        return Finding(missing=missing)
    classes = Classes(history, conflicts)
    vectors, anyhow = vectors_of(history)
    suspects = {id(log) for log, _ in anyhow}  # who keeps causal order keeps it among conflicting messages
    tally = Tally()
    late: Late = []
    for log in history.logs:
        if id(log) not in suspects:
            continue
        known: dict[int, list[int]] = {}  # per class: per origin the largest number that it or its past reaches
        for message in log.order:
            origin, number = history.origin[message], history.number[message]
            if any(known[c][origin] >= number for c in classes.conflicting[classes.of[message]] if c in known):
                late.append((log, message))
            vector = known.setdefault(classes.of[message], [0] * len(history.actors))
            carried = vectors[message]
            if carried is not None:
                vector = known[classes.of[message]] = list(map(max, vector, carried))
            vector[origin] = max(vector[origin], number)
    if late:

        def before(log: Log, message: int) -> set[int]:
            earlier = log.order[: log.order.index(message)]
            return {m for m in earlier if classes.conflict(message, m) and precedes(history, vectors, message, m)}

        tally.count = len(late)
        tally.witness = explain(history, late, before, WHY)
    return tally.finding()


def semantic_total(history: History, conflicts: Conflicts) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    classes = Classes(history, conflicts)
    tally = Tally()
    chains = leftover([log.order for log in history.logs])  # outside of it not even all messages together have a cycle
    if chains:
        found = knots(_precedence(chains, classes))
        found = [knot for knot in ({node for node in knot if node >= 0} for knot in found) if len(knot) > 1]
        if found:
            tally.count = len(found)
            cycle = smallest_cycle(chains, sorted(found, key=len), lambda inside: _shortest_cycle(inside, classes))
            tally.witness = describe_cycle(history, cycle, "conflicting ")
    return tally.finding()


def _precedence(chains: Chains, classes: Classes) -> dict[int, list[int]]:
    """The precedence graph with few edges: per process and class a chain of nodes between, which are negative."""
    after: dict[int, list[int]] = {}
    fresh = -1
    for chain in chains:
        last: dict[int, int] = {}  # per class, the node behind its last message
        for message in chain:
            class_ = classes.of[message]
            for other in classes.conflicting[class_]:
                if other in last:
                    after.setdefault(last[other], []).append(message)
            if class_ in last:
                after.setdefault(last[class_], []).append(fresh)
            after.setdefault(message, []).append(fresh)
            last[class_] = fresh
            fresh -= 1
    return after


def _shortest_cycle(chains: Chains, classes: Classes) -> list[tuple[int, int]]:
    """A cycle of fewest messages, each given with the chain in which it precedes and conflicts with the next one."""
    place = [{message: index for index, message in enumerate(chain)} for chain in chains]
    holding: dict[int, list[int]] = {}
    for index, chain in enumerate(chains):
        for message in chain:
            holding.setdefault(message, []).append(index)
    best: list[tuple[int, int]] = []
    budget = SEARCH_STEPS_MAX
    for start in holding:
        cycle, steps = _cycle_through(start, chains, place, holding, classes, len(best) or len(holding) + 1)
        budget -= steps
        best = cycle or best
        if len(best) == 2 or (best and budget < 0):
            break
    return best


def _cycle_through(
    start: int,
    chains: Chains,
    place: list[dict[int, int]],
    holding: dict[int, list[int]],
    classes: Classes,
    shorter_than: int,
) -> tuple[list[tuple[int, int]], int]:
    """Breadth first from a message; each chain is read at most once per class, from where that class reached it first."""
    parent: dict[int, tuple[int, int]] = {}
    read: dict[tuple[int, int], int] = {}
    level, length, steps = [start], 1, 0
    while level and length < shorter_than:
        further: list[int] = []
        for message in level:
            class_ = classes.of[message]
            for index in holding[message]:
                here, home = place[index][message], place[index].get(start)
                if length > 1 and home is not None and here < home and classes.conflict(message, start):
                    return _back(start, message, index, parent), steps
                known = read.get((index, class_), len(chains[index]))
                read[index, class_] = min(known, here + 1)
                for later in chains[index][here + 1 : known]:
                    steps += 1
                    if later != start and later not in parent and classes.of[later] in classes.conflicting[class_]:
                        parent[later] = (message, index)
                        further.append(later)
        level, length = further, length + 1
    return [], steps


def _back(start: int, message: int, chain: int, parent: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    cycle = [(message, chain)]
    while message != start:
        message, by = parent[message]
        cycle.append((message, by))
    return cycle[::-1]
