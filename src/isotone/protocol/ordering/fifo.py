"""`fifo`: every member's messages in the order they were sent; the lower bound of what ordering costs."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.records import Cast
from isotone.protocol.ordering.orderer import Batch, Orderer


class Fifo(Orderer):
    """Delivers on receipt: the view's streams are FIFO already."""

    name = "fifo"
    total = False

    def submit(self, batch: Batch, now: int) -> None:
        self.outbox.deliver(self.rank, self.outbox.multicast(0, [], batch), None)

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            self.outbox.deliver(sender, cast, None)

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        return []
