"""A channel: the private stream of one orderer inside the streams of a view.

Several orderers can live in one view. Each sends through a channel of its own, which tags the kinds of its records with the
orderer's *instance* in the view and takes the tag off again; the orderer knows nothing of it. Instance 0 needs no channel:
its records look as they do in a view with one orderer. Casts keep the sequence numbers of the view: an orderer sees its
casts with growing numbers that have gaps, and what it says about numbers (evidence, who holds what, what is missing) needs
no translation. But orderers that take casts early count a member's casts from 1 without gaps: for them a channel translates
the numbers (`Counted`).

Positions begin with the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isotone.model.errors import InvariantViolation
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


EarlySink = Callable[[int, int, Cast], bool]
"""As `Outbox.deliver_early`, with the instance before the sender."""


def untagged_direct(record: Direct) -> Direct:
    """The record as its orderer knows it."""
    return record if record.kind <= KINDS else Direct(record.kind & KINDS, record.stamp)


class Channel:
    """The outbox of one instance."""

    def __init__(self, host: Outbox, instance: int, sink: Sink, early_sink: EarlySink) -> None:
        self.instance = instance
        self.timing = host.timing
        self.held = host.held
        self._host = host
        self._tag = instance << BITS
        self._sink = sink
        self._early_sink = early_sink
        self._in_force = False
        self._core: tuple[tuple[int, ...], int] | None = None  # what is to be told of it when the instance is in force

    @property
    def freed(self) -> list[int]:
        return self._host.freed

    def begin(self) -> None:
        """The instance is in force from here on."""
        self._in_force = True
        if self._core is not None:
            self._host.core(*self._core)

    def inward(self, sender: int, cast: Cast) -> Cast:
        """A cast of the view as the orderer knows it."""
        return untagged(cast)

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        return untagged(self._host.multicast(self._tag | kind, stamp, batch))

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        self._host.direct(self._tag | kind, stamp, to)

    def deliver(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None = None) -> None:
        if position is not None:
            position = (self.instance, *position[1:])
        self._sink(self.instance, sender, cast, position, evidence)

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        raise InvariantViolation("an orderer that takes no casts early delivers one")

    def holds(self, member: int, sender: int, seq: int) -> None:
        self._host.holds(member, sender, seq)

    def supply(self, to: int, held: Sequence[int]) -> None:
        self._host.supply(to, held)

    def core(self, core: tuple[int, ...], ring: int) -> None:
        if self._in_force:
            self._host.core(core, ring)
        else:
            self._core = core, ring

    def note(self, what: str) -> None:
        self._host.note(what)


class Counted(Channel):
    """The outbox of an instance whose orderer counts the casts of each member from 1, without gaps.

    Such orders are no total ones: `stop` alone switches to and from them, so a member's casts of the instance follow each other
    in its stream without any other between. Where the first of them is, everybody sees when it comes in order.
    """

    def __init__(self, host: Outbox, instance: int, sink: Sink, early_sink: EarlySink, rank: int) -> None:
        super().__init__(host, instance, sink, early_sink)
        self._rank = rank
        self._before: list[int | None] = [None] * len(host.held)  # casts of each member that precede the instance

    @property
    def freed(self) -> list[int]:
        counts = zip(self._host.freed, self._before, strict=True)
        return [0 if before is None else max(0, freed - before) for freed, before in counts]

    def begun(self, sender: int) -> bool:
        """Whether the first cast of a sender has come, so that one behind a gap can be numbered."""
        return self._before[sender] is not None

    def inward(self, sender: int, cast: Cast) -> Cast:
        before = self._before[sender]
        if before is None:
            before = self._before[sender] = cast.seq - 1
        return Cast(cast.seq - before, cast.kind & KINDS, cast.stamp, cast.number, cast.payloads, cast.types, cast.items)

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        return self.inward(self._rank, self._host.multicast(self._tag | kind, stamp, batch))

    def _outward(self, sender: int, cast: Cast) -> Cast:
        seq = self._counted(sender, cast.seq)
        return Cast(seq, self._tag | cast.kind, cast.stamp, cast.number, cast.payloads, cast.types, cast.items)

    def _counted(self, sender: int, seq: int) -> int:
        return seq + (self._before[sender] or 0)

    def deliver(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None = None) -> None:
        if evidence is not None:
            pairs = zip(evidence[::2], evidence[1::2], strict=True)
            evidence = tuple(value for rank, seq in pairs for value in (rank, self._counted(rank, seq)))
        super().deliver(sender, self._outward(sender, cast), position, evidence)

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        return self._early_sink(self.instance, sender, self._outward(sender, cast))

    def holds(self, member: int, sender: int, seq: int) -> None:
        self._host.holds(member, sender, self._counted(sender, seq))

    def supply(self, to: int, held: Sequence[int]) -> None:
        raise InvariantViolation("an orderer that counts its casts asks the others for none")
