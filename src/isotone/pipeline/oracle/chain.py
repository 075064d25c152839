"""Shortest causal chains: why one message precedes another.

A step leads from m to m' if the sender of m' had delivered m before it sent m', or had sent it before. With `by_number` the
second is read from the numbers of one sender, as causal order defines it; without, from the order of its send rows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from isotone.pipeline.oracle.history import History
from isotone.pipeline.oracle.witness import Edge

SEARCH_STEPS_MAX = 2_000_000
"""How many steps the search for the shortest of many chains may take; then the shortest one found so far is taken."""


class Step(NamedTuple):
    """`first` precedes `second`, because of what `process` did."""

    first: int
    second: int
    process: str
    delivered: bool
    """Whether the sender of the second delivered the first, or sent it itself."""


class Chains:
    """The index for searches in one history."""

    def __init__(self, history: History, by_number: bool) -> None:
        self._history = history
        self.steps = 0
        self._deliveries: dict[int, list[tuple[int, int]]] = {}  # message: (log, index among its events)
        self._sends: list[tuple[list[int], list[int]]] = []  # per log: keys that grow, and the messages sent
        self._own: dict[int, tuple[int, int]] = {}  # message: (log of its origin, its key there)
        self._by_number = by_number
        numbered: dict[int, list[int]] = {}
        for index, log in enumerate(history.logs):
            at: list[int] = []
            sent: list[int] = []
            seen: set[int] = set()
            for place, event in enumerate(log.events):
                message = event >> 1
                if event & 1:
                    at.append(place)
                    sent.append(message)
                    self._own[message] = index, place
                elif message not in seen:
                    seen.add(message)
                    self._deliveries.setdefault(message, []).append((index, place))
            self._sends.append((at, sent))
        if by_number:
            for message, origin in enumerate(history.origin):
                numbered.setdefault(origin, []).append(message)
        self._numbered = {
            origin: (sorted(history.number[m] for m in of), sorted(of, key=lambda m: history.number[m]))
            for origin, of in numbered.items()
        }

    def shortest(self, start: int, targets: Collection[int], shorter_than: int | None = None) -> list[Step]:
        """A chain with fewest steps from a message to one of the targets; empty if there is none that short."""
        parent: dict[int, Step] = {}
        read = [len(log.events) for log in self._history.logs]
        read_numbers: dict[int, int] = {}
        level = [start]
        length = 1
        while level and (shorter_than is None or length < shorter_than):
            further: list[int] = []
            for message in level:
                for step in self._from(message, read, read_numbers):
                    self.steps += 1
                    if step.second in targets:
                        return _back(start, step, parent)
                    if step.second != start and step.second not in parent:
                        parent[step.second] = step
                        further.append(step.second)
            level = further
            length += 1
        return []

    def smallest(self, candidates: Iterable[tuple[int, Collection[int]]]) -> tuple[int, list[Step]]:
        """Of searches from a start to its targets, the shortest chain of all, with the index of its search."""
        best: list[Step] = []
        chosen = 0
        for index, (start, targets) in enumerate(candidates):
            chain = self.shortest(start, targets, len(best) or None)
            if chain:
                best, chosen = chain, index
            if len(best) == 1 or (best and self.steps > SEARCH_STEPS_MAX):
                break
        return chosen, best

    def _from(self, message: int, read: list[int], read_numbers: dict[int, int]) -> Iterable[Step]:
        """Every step from a message that no message read before it has."""
        history = self._history
        if self._by_number:
            origin = history.origin[message]
            numbers, messages = self._numbered[origin]
            low = bisect_right(numbers, history.number[message])
            high = read_numbers.get(origin, len(messages))
            read_numbers[origin] = min(low, high)
            for later in messages[low:high]:
                yield Step(message, later, history.actors[origin], False)
        places = [(*place, True) for place in self._deliveries.get(message, ())]
        if not self._by_number and message in self._own:
            places.append((*self._own[message], False))
        for index, place, delivered in places:
            at, sent = self._sends[index]
            low, high = bisect_right(at, place), bisect_left(at, read[index])
            read[index] = min(read[index], place + 1)
            for later in sent[low:high]:
                yield Step(message, later, history.logs[index].name, delivered)


def _back(start: int, last: Step, parent: dict[int, Step]) -> list[Step]:
    chain = [last]
    while chain[-1].first != start:
        chain.append(parent[chain[-1].first])
    return chain[::-1]


def edges_of(history: History, chain: Sequence[Step]) -> list[Edge]:
    """The steps in words."""
    return [
        history.edge(
            step.first,
            step.second,
            step.process,
            f"{step.process} {'delivered' if step.delivered else 'sent'} {history.message(step.first)} "
            f"before it sent {history.message(step.second)}",
        )
        for step in chain
    ]
