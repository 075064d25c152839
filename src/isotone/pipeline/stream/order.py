"""Total order over what is not yet stable: the delivery orders of all processes, merged again with every batch.

Each process has a queue of messages it delivered first there and that are still kept. The union of the queues is merged by
taking, again and again, a message that is next wherever it occurs; what cannot be placed lies on a cycle, of two
messages or more, or behind one. The graph of what has been seen is part of the final one, so a cycle is final. Positions
are not needed: the definitions of `total_pairwise` and `total_global` do not speak of them.

*Forgetting.* A message is complete when every member of its view has delivered it, or has ended, left the view, or was left
out of the views of all the others. A complete message that is next wherever it occurs can be on no future cycle: nothing
that precedes it can be delivered anew. About `RETAIN` deliveries are kept all the same, for what comes late. If a member
that is still in the view is silent, its messages stay until `RETAIN_MAX`; then the oldest are forgotten too.
Forgetting decides nothing: if somebody does deliver a forgotten message later, total order is *unknown*, with that reason.

Where the order is not total (fifo, causal) the queues are kept only to name messages in witnesses, in the same bounds.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

import msgspec

from isotone.pipeline.oracle.total import leftover, shortest_cycle
from isotone.pipeline.stream.condense import NUMBER_BITS
from isotone.pipeline.stream.numbers import Numbers

RETAIN: Final = 20_000
RETAIN_MAX: Final = 200_000
CYCLES_PER_BATCH_MAX: Final = 8
_NUMBER: Final = (1 << NUMBER_BITS) - 1


class Segment(msgspec.Struct):
    """Messages that a process delivered in one view."""

    view: str
    keys: list[int]


class Order(msgspec.Struct):
    """See the module."""

    queues: dict[str, list[Segment]] = {}
    began: dict[str, int] = {}
    """How many messages each process has delivered, forgotten ones included."""
    forgotten: dict[int, Numbers] = {}
    violated: list[str] = []
    """Which of the two checks have been violated."""

    @property
    def kept(self) -> int:
        """Deliveries held."""
        return sum(len(segment.keys) for queue in self.queues.values() for segment in queue)

    def append(self, process: str, view: str, keys: list[int]) -> int | None:
        """Add what a process delivered next; a forgotten message among it that leaves the order open, if there is one."""
        doubtful: int | None = None
        if self._may_be_forgotten(keys):
            kept: list[int] = []
            for place, key in enumerate(keys):
                gone = self.forgotten.get(key >> NUMBER_BITS)
                if gone is None or gone.has(key & _NUMBER) is False:
                    kept.append(key)
                elif place or self.began.get(process):
                    doubtful = key if doubtful is None else doubtful
            fresh = kept
        else:
            fresh = keys
        self.began[process] = self.began.get(process, 0) + len(keys)
        queue = self.queues.setdefault(process, [])
        if queue and queue[-1].view == view:
            queue[-1].keys.extend(fresh)
        elif fresh:
            queue.append(Segment(view, fresh))
        return doubtful

    def _may_be_forgotten(self, keys: list[int]) -> bool:
        if not self.forgotten:
            return False
        lowest: dict[int, int] = {}
        for key in keys:
            origin = key >> NUMBER_BITS
            if origin not in lowest or key < lowest[origin]:
                lowest[origin] = key
        for origin, key in lowest.items():
            gone = self.forgotten.get(origin)
            if gone is not None and gone.last is not None and (key & _NUMBER) <= gone.last:
                return True
        return False

    # --- cycles ----------------------------------------------------------------------------------------------------

    def cycles(self) -> Iterator[tuple[str, list[tuple[int, str]]]]:
        """New contradictions: the check, and messages that each precede the next at the process named with them."""
        for _ in range(CYCLES_PER_BATCH_MAX):
            names = list(self.queues)
            chains = [self._chain(name) for name in names]
            if _agree(chains):
                return
            chains = leftover(chains)
            if not chains:
                return
            pair = _inversion(chains)
            if pair is not None:
                (one, first), (other, second) = pair
                cycle = [(first, names[one]), (second, names[other])]
                self._note("total_pairwise")
                yield "total_pairwise", cycle
            elif "total_global" in self.violated:
                return  # the cycle is known; it stays until a pair contradicts, too, or the limit is reached
            else:
                cycle = [(message, names[chain]) for message, chain in shortest_cycle(chains)]
            self._note("total_global")
            yield "total_global", cycle
            if pair is None:
                return
            self._remove({message for message, _ in cycle})
        self._clear_leftover()

    def _note(self, check: str) -> None:
        if check not in self.violated:
            self.violated.append(check)

    def _chain(self, process: str) -> list[int]:
        return [key for segment in self.queues[process] for key in segment.keys]

    def _remove(self, gone: set[int]) -> None:
        """Take messages out, for instance those of a cycle that has been reported: what is left keeps its order."""
        for name, queue in self.queues.items():
            for segment in queue:
                if not gone.isdisjoint(segment.keys):
                    segment.keys = [key for key in segment.keys if key not in gone]
            self.queues[name] = [segment for segment in queue if segment.keys]

    def _clear_leftover(self) -> None:
        """Too many contradictions in one batch: the verdict stands, what cannot be merged is let go."""
        chains = leftover([self._chain(name) for name in self.queues])
        self._remove({key for chain in chains for key in chain})

    # --- forgetting ------------------------------------------------------------------------------------------------

    def forget(self, holders: Callable[[str], set[str]], *, ordered: bool, retain: int, retain_max: int) -> bool:
        """Keep the state within bounds; whether a known cycle had to be given up for it.

        `holders` says which processes may still deliver messages of a view for the first time.
        """
        if self.kept <= 2 * retain:
            return False
        self._release(self._incomplete(holders), ordered, retain)
        if self.kept <= retain_max:
            return False
        self._release(set(), ordered, retain)
        if self.kept <= retain_max:
            return False
        self._clear_leftover()
        return True

    def _incomplete(self, holders: Callable[[str], set[str]]) -> set[int]:
        """Messages that somebody may still have to deliver."""
        incomplete: set[int] = set()
        having = {name: set(self._chain(name)) for name in self.queues}
        nothing: set[int] = set()
        by_view: dict[str, set[str]] = {}
        for queue in self.queues.values():
            for segment in queue:
                if segment.view not in by_view:
                    by_view[segment.view] = holders(segment.view)
                for name in by_view[segment.view]:
                    incomplete |= set(segment.keys) - having.get(name, nothing)
        return incomplete

    def _release(self, incomplete: set[int], ordered: bool, retain: int) -> None:
        excess = self.kept - retain
        if ordered:
            gone = self._placeable(incomplete, excess)
        else:
            gone = set()
            for name in self.queues:
                for key in self._chain(name):
                    if len(gone) * max(1, len(self.queues)) >= excess:
                        break
                    if key not in incomplete:
                        gone.add(key)
        for key in sorted(gone):
            numbers = self.forgotten.setdefault(key >> NUMBER_BITS, Numbers())
            if numbers.has(key & _NUMBER) is False:
                numbers.add(key & _NUMBER, key & _NUMBER)
        self._remove(gone)

    def _placeable(self, incomplete: set[int], excess: int) -> set[int]:
        """Complete messages in the order of the merge, until so many deliveries are gone."""
        chains = [self._chain(name) for name in self.queues]
        if _agree(chains):
            longest = max(chains, key=len)
            ready_keys = next((place for place, key in enumerate(longest) if key in incomplete), len(longest))
            return set(longest[: min(ready_keys, -(-excess // len(chains)))])
        occurs: dict[int, int] = {}
        for chain in chains:
            for key in chain:
                occurs[key] = occurs.get(key, 0) + 1
        waiting: dict[int, list[int]] = {}
        at = [0] * len(chains)
        ready = list(range(len(chains)))
        gone: set[int] = set()
        while ready:
            index = ready.pop(0)
            chain = chains[index]
            while at[index] < len(chain) and excess > 0:
                key = chain[at[index]]
                if key in incomplete:
                    break
                waiting.setdefault(key, []).append(index)
                if len(waiting[key]) < occurs[key]:
                    break
                gone.add(key)
                excess -= occurs[key]
                for other in waiting.pop(key):
                    at[other] += 1
                    if other != index:
                        ready.append(other)
        return gone


def _agree(chains: list[list[int]]) -> bool:
    """Whether every chain is a piece of the longest one: the common case, and proof enough that there is no cycle."""
    longest = max(chains, key=len, default=[])
    for chain in chains:
        if chain:
            begin = longest.index(chain[0]) if chain[0] in longest else -1
            if begin < 0 or longest[begin : begin + len(chain)] != chain:
                return False
    return True


def _inversion(chains: list[list[int]]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Two chains that have two messages in opposite orders: each chain with the message that comes first in it."""
    for one, other in combinations(range(len(chains)), 2):
        place = {message: index for index, message in enumerate(chains[other])}
        last, last_message = -1, -1
        for message in chains[one]:
            at = place.get(message)
            if at is None:
                continue
            if at < last:
                return (one, last_message), (other, message)
            last, last_message = at, message
    return None
