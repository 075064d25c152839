"""The checks of total order.

- *total_pairwise*: two messages that two processes both deliver are in the same order at both.
- *total_global*: the union of all delivery orders has no cycle.

Both speak of the first delivery of a message at a process, over all views and components of the run. All orders are merged
by taking, again and again, a message that is next at every process that still has to deliver it; if that ends with
nothing left, there is no cycle, of two messages or of more. Only what is left over is searched.

`violations` of total_pairwise counts, per pair of processes, the places where one's order goes back in the other's; of
total_global, the knots (strongly connected components) of the union.
"""

from collections.abc import Callable
from itertools import combinations, pairwise

from isotone.pipeline.oracle.history import History, Log
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness

KNOTS_MAX = 1_000
"""In how many knots, the smallest first, the shortest cycle is looked for."""
SEARCH_STEPS_MAX = 2_000_000
"""How many steps the search for the shortest cycle may take; then the shortest one found so far is the witness."""

Chains = list[list[int]]


def total_pairwise(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    if not leftover([log.order for log in history.logs]):
        return tally.finding()
    place = [{message: index for index, message in enumerate(log.order)} for log in history.logs]
    for one, other in combinations(range(len(history.logs)), 2):
        there = place[other]
        last, last_message = -1, -1
        for message in history.logs[one].order:
            at = there.get(message)
            if at is None:
                continue
            if at < last:
                tally.hit((2, 2), _swapped, history, (history.logs[one], history.logs[other]), last_message, message)
            last, last_message = at, message
    return tally.finding()


def total_global(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    chains = leftover([log.order for log in history.logs])
    if chains:
        found = knots(_neighbours(chains))
        tally.count = len(found)
        tally.witness = describe_cycle(history, smallest_cycle(chains, found, shortest_cycle))
    return tally.finding()


def smallest_cycle(
    chains: Chains, found: list[set[int]], search: Callable[[Chains], list[tuple[int, int]]]
) -> list[tuple[int, int]]:
    """The shortest cycle of all knots; `search` finds the shortest of one, given the chains within it."""
    knot_of = {message: index for index, knot in enumerate(found) for message in knot}
    inside: list[Chains] = [[[] for _ in chains] for _ in found]
    for at, chain in enumerate(chains):
        for message in chain:
            if message in knot_of:
                inside[knot_of[message]][at].append(message)
    best: list[tuple[int, int]] = []
    for part in inside[:KNOTS_MAX]:
        cycle = search(part)
        if not best or len(cycle) < len(best):
            best = cycle
        if len(best) == 2:
            break
    return best


def leftover(chains: Chains) -> Chains:
    """What no merge can place: empty if the union of the chains is acyclic, else the rest of each chain."""
    holders: dict[int, int] = {}
    for chain in chains:
        for message in chain:
            holders[message] = holders.get(message, 0) + 1
    following: dict[int, list[int]] = {}
    at = [0] * len(chains)
    ready = list(range(len(chains)))
    while ready:
        index = ready.pop()
        chain = chains[index]
        here = at[index]
        while here < len(chain):
            message = chain[here]
            if holders[message] > 1:  # others still have to reach it
                holders[message] -= 1
                following.setdefault(message, []).append(index)
                break
            for other in following.pop(message, ()):
                at[other] += 1
                ready.append(other)
            here += 1
        at[index] = here
    if not following:
        return []
    return [chain[here:] for chain, here in zip(chains, at, strict=True)]


def _neighbours(chains: Chains) -> dict[int, list[int]]:
    after: dict[int, list[int]] = {}
    for chain in chains:
        for first, second in pairwise(chain):
            after.setdefault(first, []).append(second)
    return after


def knots(after: dict[int, list[int]]) -> list[set[int]]:
    """The strongly connected components with more than one node, smallest first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[set[int]] = []
    for root in after:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(after[root]))]
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(after.get(successor, ()))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    knot: set[int] = set()
                    while node not in knot:
                        member = stack.pop()
                        on_stack.discard(member)
                        knot.add(member)
                    if len(knot) > 1:
                        found.append(knot)
    return sorted(found, key=len)


def shortest_cycle(chains: Chains) -> list[tuple[int, int]]:
    """A cycle of fewest messages, each given with the chain in which it precedes the next one."""
    place = [{message: index for index, message in enumerate(chain)} for chain in chains]
    holding: dict[int, list[int]] = {}
    for index, chain in enumerate(chains):
        for message in chain:
            holding.setdefault(message, []).append(index)
    best: list[tuple[int, int]] = []
    budget = SEARCH_STEPS_MAX
    for start in holding:
        cycle, steps = _cycle_through(start, chains, place, holding, len(best) or len(holding) + 1)
        budget -= steps
        if cycle:
            best = cycle
        if len(best) == 2 or (best and budget < 0):
            break
    return best


def _cycle_through(
    start: int, chains: Chains, place: list[dict[int, int]], holding: dict[int, list[int]], shorter_than: int
) -> tuple[list[tuple[int, int]], int]:
    """Breadth first from a message along all chains; each chain is read at most once, from where it was reached first."""
    reached_from = [len(chain) for chain in chains]
    parent: dict[int, tuple[int, int]] = {}
    level = [start]
    length = 1
    steps = 0
    while level and length < shorter_than:
        further: list[int] = []
        for message in level:
            for index in holding[message]:
                here = place[index][message]
                home = place[index].get(start)
                if length > 1 and home is not None and here < home:
                    cycle = [(message, index)]
                    while message != start:
                        message, by = parent[message]
                        cycle.append((message, by))
                    return cycle[::-1], steps
                for later in chains[index][here + 1 : reached_from[index]]:
                    steps += 1
                    if later not in parent and later != start:
                        parent[later] = (message, index)
                        further.append(later)
                reached_from[index] = min(reached_from[index], here + 1)
        level = further
        length += 1
    return [], steps


def describe_cycle(history: History, cycle: list[tuple[int, int]], because: str = "") -> Witness:
    """A witness for messages that each precede the next at a process, given by its index."""
    nexts = [*cycle[1:], cycle[0]]
    edges: list[Edge] = []
    for (message, chain), (following, _) in zip(cycle, nexts, strict=True):
        name = history.logs[chain].name
        why = f"{name} delivers {history.message(message)} before {history.message(following)}"
        edges.append(history.edge(message, following, name, why))
    text = f"a cycle of {len(cycle)} {because}messages: " + "; ".join(edge.why for edge in edges)
    return history.witness(text, [edge.process for edge in edges], [message for message, _ in cycle], edges)


def _swapped(history: History, logs: tuple[Log, Log], first: int, second: int) -> Witness:
    edges = [
        history.edge(before, after, log.name, f"{log.name} delivers {history.message(before)} before {history.message(after)}")
        for log, before, after in ((logs[0], first, second), (logs[1], second, first))
    ]
    return history.witness(", ".join(edge.why for edge in edges), [log.name for log in logs], [first, second], edges)
