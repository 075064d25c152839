"""What `async for` over a group gives: one event per message, and everything else as the endpoint said it.

A `Delivery` is a view of one message of a batch: it is made per message, so it holds only what differs between messages,
and looks the rest up in the batch when asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import msgspec

from isotone.model.events import (
    Change,
    DeliveryBatch,
    Position,
    ReturnedBatch,
    SlowMember,
    StateLost,
    StateProgress,
    Suspicion,
)
from isotone.model.ids import ProcessId
from isotone.model.view import Level, View


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message, in the group's order."""

    payload: bytes
    batch: DeliveryBatch
    number: int
    """Counts the messages of `origin` from 1."""

    @property
    def origin(self) -> ProcessId:
        """Who sent it."""
        return self.batch.origin

    @property
    def view(self) -> View:
        """The view in which it is delivered."""
        return self.batch.view

    @property
    def level(self) -> Level:
        """What is guaranteed about the other members: `agreed`, `k` or `safe`."""
        return self.batch.level

    @property
    def position(self) -> Position | None:
        """The place in the view's total order; None where the order is not total."""
        batch = self.batch
        return None if batch.position is None else (*batch.position, self.number - batch.first)

    @property
    def type(self) -> str | None:
        """What a conflict relation looks at, as the sender gave it."""
        batch = self.batch
        return None if batch.types is None else batch.types[self.number - batch.first]

    @property
    def items(self) -> Sequence[str] | None:
        """What the message is about, as the sender gave it."""
        batch = self.batch
        return None if batch.items is None else batch.items[self.number - batch.first]


class Returned(msgspec.Struct, frozen=True, gc=False):
    """An own message that the ended view could not order here; another component may have delivered it."""

    payload: bytes
    batch: ReturnedBatch
    number: int

    @property
    def view(self) -> View:
        """The view that ended."""
        return self.batch.view


class StateRestored(msgspec.Struct, frozen=True):
    """The application's state has been replaced by the group's as of the beginning of `view`; deliveries go on from there."""

    view: View
    provider: ProcessId
    size: int


StateNews = StateProgress | StateRestored | StateLost
Batch = DeliveryBatch | ReturnedBatch | Change | Suspicion | SlowMember | StateNews
"""What `Group.batches()` yields."""

Event = Delivery | Returned | Change | Suspicion | SlowMember | StateNews
"""What iterating over a `Group` yields."""


def split(batch: Batch) -> Iterator[Event]:
    """The events of a batch, one per message, made one by one."""
    if isinstance(batch, DeliveryBatch):
        return map(Delivery, batch.payloads, repeat(batch), range(batch.first, batch.first + len(batch.payloads)))
    if isinstance(batch, ReturnedBatch):
        return map(Returned, batch.payloads, repeat(batch), range(batch.first, batch.first + len(batch.payloads)))
    return iter((batch,))
