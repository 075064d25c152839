"""The checks of total order.

- *total_pairwise*: two messages that two processes both deliver are in the same order at both.
- *total_global*: the union of all delivery orders has no cycle.

Both speak of the first delivery of a message at a process, over all views and components of the run. All orders are merged
by taking, again and again, a message that is next at every process that still has to deliver it; if that ends with
nothing left, there is no cycle, of two messages or of more. Only what is left over is searched.

`violations` of total_pairwise counts, per pair of processes, the places where one's order goes back in the other's; of
total_global, the knots (strongly connected components) of the union.
"""

from itertools import combinations, pairwise

from isotone.pipeline.oracle.history import History
from isotone.pipeline.oracle.report import Finding, Tally

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
                first, second = history.message(last_message), history.message(message)
                tally.hit(
                    f"{history.logs[one].name} delivers {first} before {second}, "
                    f"{history.logs[other].name} delivers {second} before {first}"
                )
            last, last_message = at, message
    return tally.finding()


def total_global(history: History) -> Finding:
    missing = history.lacks("deliver")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    chains = leftover([log.order for log in history.logs])
    if chains:
        names = [log.name for log in history.logs]
        for knot in knots(chains):
            inside = [[message for message in chain if message in knot] for chain in chains]
            if tally.witness is None:
                tally.witness = _describe(history, names, shortest_cycle(inside))
            tally.count += 1
    return tally.finding()


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


def knots(chains: Chains) -> list[set[int]]:
    """The strongly connected components with more than one message, smallest first (Tarjan, without recursion)."""
    after: dict[int, list[int]] = {}
    for chain in chains:
        for first, second in pairwise(chain):
            after.setdefault(first, []).append(second)
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


def _describe(history: History, names: list[str], cycle: list[tuple[int, int]]) -> str:
    nexts = [*cycle[1:], cycle[0]]
    edges = [
        f"{names[chain]} delivers {history.message(message)} before {history.message(following)}"
        for (message, chain), (following, _) in zip(cycle, nexts, strict=True)
    ]
    return f"a cycle of {len(cycle)} messages: " + "; ".join(edges)
