"""The delivery gate: `agreed` lets pass what is ordered, `k` and `safe` wait until k or all members hold the cast and
what orders it.

Casts pass in the order in which the orderer delivered them. When the view ends, what is left passes with the level
`agreed` by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from isotone.model.records import Cast
from isotone.model.view import Level, View
from isotone.protocol.ordering.orderer import Evidence

Emit = Callable[[int, Cast, tuple[int, ...] | None, Level], None]


class Gate:
    """Holds ordered casts back until enough members hold them."""

    def __init__(self, view: View, emit: Emit) -> None:
        self.level = view.ordering.level
        self.need = view.need
        self._emit = emit
        self._queue: deque[tuple[int, Cast, tuple[int, ...] | None, Evidence | None]] = deque()
        self._frontier: Sequence[int] = [0] * len(view.members)

    def __len__(self) -> int:
        return len(self._queue)

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None) -> None:
        """The next cast in order."""
        if self.need <= 1:
            self._emit(sender, cast, position, self.level)
        else:
            self._queue.append((sender, cast, position, evidence))
            self.advance(self._frontier)

    def advance(self, frontier: Sequence[int]) -> None:
        """`frontier[s]` casts of each sender s are held by enough members: let pass what that allows."""
        self._frontier = frontier
        queue = self._queue
        while queue:
            sender, cast, position, evidence = queue[0]
            if frontier[sender] < cast.seq:
                return
            if evidence is not None and any(frontier[evidence[i]] < evidence[i + 1] for i in range(0, len(evidence), 2)):
                return
            queue.popleft()
            self._emit(sender, cast, position, self.level)

    def release(self) -> None:
        """Everybody holds what waits here."""
        while self._queue:
            sender, cast, position, _ = self._queue.popleft()
            self._emit(sender, cast, position, self.level)

    def open(self) -> None:
        """The view ends: no level above agreed is promised any more."""
        self.need = 1
        self.level = "agreed"
        self.release()
