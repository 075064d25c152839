"""A channel: the private stream of one orderer inside the streams of a view.

Several orderers can live in one view. Each sends through a channel of its own, which tags the kinds of its records with the
orderer's *instance* in the view and takes the tag off again; the orderer knows nothing of it. Instance 0 needs no channel: its
records look as they do in a view with one orderer. Casts keep the sequence numbers of the view: an orderer sees its casts with
growing numbers that have gaps, and what it says about numbers (evidence, who holds what, what is missing) needs no translation.

Positions begin with the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.orderer import Batch, Evidence, Outbox

BITS = 8
"""Kinds of records of an orderer are below 2^8."""
KINDS = (1 << BITS) - 1

Position = tuple[int, ...]
Sink = Callable[[int, int, Cast, Position | None, Evidence | None], None]
"""Takes what an instance delivers: instance, sender, cast, position, evidence."""


def untagged(cast: Cast) -> Cast:
    """The cast as its orderer knows it."""
    if cast.kind <= KINDS:
        return cast
    return Cast(cast.seq, cast.kind & KINDS, cast.stamp, cast.number, cast.payloads, cast.types, cast.items)


def untagged_direct(record: Direct) -> Direct:
    """The record as its orderer knows it."""
    return record if record.kind <= KINDS else Direct(record.kind & KINDS, record.stamp)


class Channel:
    """The outbox of one instance."""

    def __init__(self, host: Outbox, instance: int, sink: Sink) -> None:
        self.instance = instance
        self.timing = host.timing
        self.held = host.held
        self._host = host
        self._tag = instance << BITS
        self._sink = sink

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        return untagged(self._host.multicast(self._tag | kind, stamp, batch))

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        self._host.direct(self._tag | kind, stamp, to)

    def deliver(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None = None) -> None:
        if position is not None:
            position = (self.instance, *position[1:])
        self._sink(self.instance, sender, cast, position, evidence)

    def holds(self, member: int, sender: int, seq: int) -> None:
        self._host.holds(member, sender, seq)

    def supply(self, to: int, held: Sequence[int]) -> None:
        self._host.supply(to, held)

    def core(self, core: tuple[int, ...], ring: int) -> None:
        self._host.core(core, ring)

    def note(self, what: str) -> None:
        self._host.note(what)
