"""The casts of one view that this process holds, and who else holds them.

Invariants: `held[s]` counts the casts of s without a gap; a cast stays in `buffers` until every member of the view is known to
hold it, but for members outside the orderer's core that were given up (`lost`); `freed[s]` counts those that were let go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.records import Cast
from isotone.model.settings import EndpointConfig
from isotone.protocol.membership.stability import Stability

_RECOUNT = 64


class Store:
    """Buffers, the window of the own casts, and what is kept for external members."""

    def __init__(self, rank: int, count: int, config: EndpointConfig) -> None:
        self.rank = rank
        self.limits = config.limits
        self.stability = Stability(rank, count)
        self.held = self.stability.held
        self.freed = [0] * count
        self.buffers: list[deque[Cast]] = [deque() for _ in range(count)]
        self.unstable_bytes = 0
        self.own_sizes: deque[int] = deque()  # of the own casts in the window
        self.stable = 0  # own casts that all members hold
        self.released = 0  # own casts that have left the window
        self.lost: set[int] = set()  # external members that lack what was freed: they must leave the view
        self.keeps_all = config.membership == "primary"  # there a majority may need them back before the next view is decided
        self._kept = (0, 0)  # how many casts were kept for external members at the last count, and their bytes

    def sent(self, cast: Cast, size: int) -> None:
        """An own cast, which takes so much room in the window."""
        self.unstable_bytes += size
        self.own_sizes.append(size)
        self.held[self.rank] = cast.seq
        self.buffers[self.rank].append(cast)

    def casts(self, sender: int, after: int, upto: int) -> list[Cast]:
        """The buffered casts of a sender with `after` < seq ≤ `upto`."""
        buffer = self.buffers[sender]
        base = self.freed[sender]
        return [buffer[i - base] for i in range(max(after, base), upto)]

    def window_open(self) -> bool:
        """Whether there is room for another own cast."""
        return self.unstable_bytes < self.limits.window_bytes and len(self.own_sizes) < self.limits.window_casts

    def stable_for(self, sender: int, count: int) -> None:
        """A sender knows that every member holds so many of its casts."""
        for row in self.stability.matrix:
            if row[sender] < count <= self.held[sender]:
                row[sender] = count

    def free(self, core: Sequence[int]) -> list[int]:
        """Free what all members hold; the window needs the core only, and external members are waited for within bounds.

        Returns the external members that are given up: they come back by joining.
        """
        matrix = self.stability.matrix
        expelled: list[int] = []
        stable = self.stability.frontier(len(self.held))
        self.stable = stable[self.rank]
        if len(core) == len(self.held) and not self.lost:
            self._release(self.stable)
            self._free(stable)
            return expelled
        ready = [min(column) for column in zip(self.held, *(matrix[rank] for rank in core), strict=True)]
        self._release(ready[self.rank])
        if self.rank in core and self._keeps_too_much(ready):
            expelled = self._most_missing(core, ready)
            self.lost.update(expelled)
        if self.lost and not self.keeps_all:
            rows = [row for rank, row in enumerate(matrix) if rank not in self.lost]
            stable = [min(column) for column in zip(*rows, strict=True)]
        self._free(stable)
        return expelled

    def _keeps_too_much(self, ready: list[int]) -> bool:
        kept = sum(count - freed for count, freed in zip(ready, self.freed, strict=True) if count > freed)
        counted, size = self._kept
        if not counted <= kept < counted + _RECOUNT:
            size = 0
            for sender, count in enumerate(ready):
                size += sum(sum(map(len, cast.payloads)) for cast in self.casts(sender, self.freed[sender], count))
            self._kept = (kept, size)
        return kept > self.limits.keep_casts or size > self.limits.keep_bytes

    def _most_missing(self, core: Sequence[int], ready: list[int]) -> list[int]:
        """The external members that lack most."""
        lag = {
            rank: sum(max(0, count - have) for count, have in zip(ready, self.stability.matrix[rank], strict=True))
            for rank in range(len(ready))
            if rank not in core and rank not in self.lost
        }
        most = max(lag.values(), default=0)
        return [rank for rank, missing in lag.items() if missing and 2 * missing >= most]

    def _release(self, count: int) -> None:
        """The first `count` own casts need no room in the window any more."""
        for _ in range(count - self.released):
            self.unstable_bytes -= self.own_sizes.popleft()
        self.released = max(count, self.released)

    def _free(self, stable: list[int]) -> None:
        freed = self.freed
        if stable == freed:
            return
        for sender, count in enumerate(stable):
            surplus = count - freed[sender]
            if surplus:
                buffer = self.buffers[sender]
                for _ in range(surplus):
                    buffer.popleft()
        self.freed[:] = stable
