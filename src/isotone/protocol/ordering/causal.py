"""`causal`: a message is delivered after everything that its sender had delivered or sent before it (the CMS of paper 000)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox


class Causal(Orderer):
    """Vector clocks, sent as differences. A cast's stamp is its dependencies."""

    name = "causal"
    total = False

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.dependencies = Dependencies(rank, self.count)
        self.waiting: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.blocked = 0

    def submit(self, batch: Batch, now: int) -> None:
        cast = self.outbox.multicast(0, self.dependencies.difference(), batch)
        self._deliver(self.rank, cast)

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        queue = self.waiting[sender]
        for cast in casts:
            self.dependencies.check(cast.stamp, 0, sender)
        for cast in casts:
            if not queue and self.dependencies.satisfied(cast.stamp, 0):
                self._deliver(sender, cast)
            else:
                queue.append(cast)
                self.blocked += 1
        if self.blocked:
            self._advance()

    def _advance(self) -> None:
        progress = True
        while progress:
            progress = False
            for sender, queue in enumerate(self.waiting):
                while queue and self.dependencies.satisfied(queue[0].stamp, 0):
                    self._deliver(sender, queue.popleft())
                    self.blocked -= 1
                    progress = True

    def _deliver(self, sender: int, cast: Cast) -> None:
        self.dependencies.delivered[sender] = cast.seq
        self.outbox.deliver(sender, cast, None)

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        # What still waits depends on casts that no member of this component holds: it is not delivered here.
        return []
