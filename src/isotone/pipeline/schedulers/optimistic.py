"""The optimistic scheduler of paper 002, §7.3: it tests the precedence graph and aborts instead of waiting.

It keeps the precedence graph of all sites together. An arrival is delivered at once unless its edges would close a cycle; then
its message is aborted: it is taken out of the graph, the sites that have delivered it undo it, and further arrivals of it are
dropped. So nothing is ever delayed, and what is left is in the class. What an application built on an undone message is not
looked at.

The cycle test is incremental: the nodes are kept in an order in which every edge leads upwards, and a new edge that
leads downwards is looked into only between its two ends (Pearce and Kelly, 2006). A message that is delivered everywhere and
has no predecessor can be on no cycle any more, and leaves the graph: it holds only what is under way.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from isotone.pipeline.schedulers.classes import Relation, members
from isotone.pipeline.schedulers.minimal import Arrival


class Outcome(NamedTuple):
    """What came of a run of arrivals."""

    schedules: dict[int, list[int]]
    """Per site, what it delivered and did not undo."""
    aborted: list[int]
    undone: int
    """Deliveries that were taken back."""
    largest: int
    """The most messages in the graph at a time."""


def optimistic(relation: Relation, arrivals: Sequence[Arrival]) -> Outcome:
    """Deliver every arrival, or abort its message."""
    schedules: dict[int, list[int]] = {site: [] for site in sorted({site for site, _ in arrivals})}
    graph = Graph()
    live = known = aborted = largest = 0  # live: in the graph; known: arrived somewhere
    done = [0] * len(relation.sends)
    seen = dict.fromkeys(schedules, 0)
    lost: list[int] = []

    def retire(candidates: list[int]) -> None:
        nonlocal live
        while candidates:
            message = candidates.pop()
            if done[message] < len(schedules) or not live >> message & 1:
                continue
            if not graph.before[message] and not relation.sends[message] & ~known:
                candidates += graph.after[message]
                graph.remove(message)
                live &= ~(1 << message)

    for site, message in arrivals:
        bit = 1 << message
        if aborted & bit:
            continue
        edges = seen[site] & relation.receives[message] & live
        if not done[message]:
            graph.add(message)
            live |= bit
            known |= bit
            largest = max(largest, len(graph.place))
            edges |= relation.sends[message] & live
            for later in members(live & relation.receives[message]):
                if relation.sends[later] & bit:  # a message overtook one that was sent before it
                    graph.link(message, later)
        if all(graph.link(earlier, message) for earlier in members(edges)):
            schedules[site].append(message)
            seen[site] |= bit
            done[message] += 1
            retire([message])
        else:
            followers = list(graph.after[message])
            graph.remove(message)
            live &= ~bit
            aborted |= bit
            lost.append(message)
            retire(followers)
    undone = sum(done[message] for message in lost)
    left = {site: [m for m in schedule if not aborted >> m & 1] for site, schedule in schedules.items()}
    return Outcome(left, lost, undone, largest)


class Graph:
    """A graph that stays acyclic."""

    def __init__(self) -> None:
        self.place: dict[int, int] = {}
        """Of each node; every edge leads to a larger one."""
        self.before: dict[int, set[int]] = {}
        self.after: dict[int, set[int]] = {}
        self._next = 0

    def add(self, node: int) -> None:
        """A node without edges."""
        self.place[node] = self._next
        self._next += 1
        self.before[node], self.after[node] = set(), set()

    def remove(self, node: int) -> None:
        """A node and its edges."""
        for other in self.before.pop(node):
            self.after[other].discard(node)
        for other in self.after.pop(node):
            self.before[other].discard(node)
        del self.place[node]

    def link(self, source: int, target: int) -> bool:
        """Add an edge; False, and no edge, if it would close a cycle."""
        place = self.place
        if place[source] > place[target]:
            above = self._reached(target, self.after, lambda node: place[node] <= place[source])
            if source in above:
                return False
            below = self._reached(source, self.before, lambda node: place[node] >= place[target])
            nodes = sorted(below, key=place.__getitem__) + sorted(above, key=place.__getitem__)
            for node, where in zip(nodes, sorted(place[node] for node in nodes), strict=True):
                place[node] = where
        self.after[source].add(target)
        self.before[target].add(source)
        return True

    @staticmethod
    def _reached(start: int, along: dict[int, set[int]], within: Callable[[int], bool]) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            for node in along[waiting.pop()]:
                if node not in found and within(node):
                    found.add(node)
                    waiting.append(node)
        return found
