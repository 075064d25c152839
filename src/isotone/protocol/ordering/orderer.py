"""The contract between an orderer and the view that it lives in.

An orderer lives for exactly one epoch with fixed members. It gets every member's casts in the order they were sent (own casts
come back from `Outbox.multicast` at once: that is their place), and says through the outbox what to multicast and what to
deliver. `freeze` ends its sending. `conclude` comes after the flush has given all members that go on together the same set of
casts: it delivers the rest by a rule that depends on that set alone, and returns the own casts that it must not order.

The numbers `seq` of a member's casts grow; there are gaps where casts of another instance are (`switching`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import msgspec

from isotone.model.columns import Items, Types
from isotone.model.errors import ConfigError, RemoteProtocolError, unknown
from isotone.model.records import Cast, Direct
from isotone.model.settings import Timing
from isotone.model.view import View


class Batch(msgspec.Struct, frozen=True):
    """Messages submitted together; they travel and are ordered as one unit. `types` and `items` describe them."""

    payloads: list[bytes]
    types: Types | None
    items: Items | None
    size: int
    number: int | None = None
    """The number of the first message if it has one already; 0 for what is no message of the application."""


Evidence = tuple[int, ...]
"""Casts that fixed a place: rank, seq, rank, seq, …"""


class Outbox(Protocol):
    """What an orderer may do."""

    timing: Timing
    held: list[int]

    @property
    def freed(self) -> list[int]:
        """So many casts of each member are held by all."""

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        """Send a cast to all members; covered by the flush. Returned as if just received from oneself."""

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        """Send a record to the member of rank `to`, or to all others; not covered by the flush."""

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        """The cast's messages are next. `evidence` names the casts (rank, seq, …) that fixed its place, if it is others."""

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        """As `deliver`, for a cast that came by `early`. False: too many are out, and it has to wait for its gap to close."""

    def holds(self, member: int, sender: int, seq: int) -> None:
        """The orderer's own records prove that `member` holds the casts of `sender` up to `seq`."""

    def supply(self, to: int, held: Sequence[int]) -> None:
        """Pass on some of the casts that the member of rank `to` lacks, which has so many of each member."""

    def core(self, core: tuple[int, ...], ring: int) -> None:
        """The members that the view rests on are others now (two-level membership)."""

    def note(self, what: str) -> None:
        """Count an event of the protocol."""


class Orderer:
    """Base of all orderers. `total` says whether deliveries carry positions, `semantic` whether it takes a conflict relation
    (other total orders deliver nothing before all that precedes it, and a member's casts in the order sent), `looks` whether it
    refuses messages that the relation does not know, `overtakes` whether a cast may come before direct
    records that its sender sent earlier: it was fetched from another member.

    `options` are what a user may set, with their values; `numbers` are options that are integers, as (default, least,
    most). In both the first is the default. `texts` are options of which the orderer itself knows what they may be.
    `packets` names the kinds of records without messages, for the trace. `takes_early` asks for `early`.
    """

    name: ClassVar[str]
    total: ClassVar[bool] = True
    semantic: ClassVar[bool] = False
    looks: ClassVar[bool] = False
    takes_early: ClassVar[bool] = False
    overtakes: ClassVar[bool] = False
    options: ClassVar[dict[str, tuple[int | str | bool, ...]]] = {}
    numbers: ClassVar[dict[str, tuple[int, int, int]]] = {}
    texts: ClassVar[tuple[str, ...]] = ()
    packets: dict[int, str] = {}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        self.outbox = outbox
        self.view = view
        self.rank = rank
        self.count = len(view.members)
        self.seed = seed

    def option(self, name: str) -> int | str | bool:
        """The value of an option of this view; the first value listed is the default."""
        return self.view.ordering.options.get(name, self.options[name][0])

    def integer(self, name: str) -> int:
        """The value of an option that is an integer."""
        return int(self.view.ordering.options.get(name, self.numbers[name][0]))

    @property
    def proves(self) -> bool:
        """Whether the orderer says by `Outbox.holds` who holds what, so that levels above agreed need no reports per turn."""
        return False

    @property
    def core(self) -> tuple[int, ...]:
        """The members that the view rests on; the others are external (two-level membership)."""
        return tuple(range(self.count))

    @classmethod
    def check_options(cls, options: Mapping[str, int | str | bool]) -> None:
        """Raise `ConfigError` unless a view can be run with these options."""
        known = {**cls.options, **cls.numbers, **dict.fromkeys(cls.texts, ())}
        for name, value in options.items():
            if name not in known:
                if not known:
                    raise ConfigError(f"order {cls.name!r} has no options, got {name!r}")
                raise unknown(f"option of {cls.name}", name, known)
            if name in cls.texts:
                if not isinstance(value, str):
                    raise ConfigError(f"option {name} of {cls.name} is {value!r}: must be a text")
            elif name in cls.numbers:
                _, least, most = cls.numbers[name]
                if type(value) is not int or not least <= value <= most:
                    raise ConfigError(f"option {name} of {cls.name} is {value!r}: must be an integer from {least} to {most}")
            elif value not in cls.options[name]:
                raise unknown(f"value of option {name}", str(value), (str(v) for v in cls.options[name]))

    def submit(self, batch: Batch, now: int) -> None:
        """Multicast a batch of own messages: one cast, or in a semantic order a few."""
        raise NotImplementedError

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """Casts of another member, in the order sent. Takes all of them, or none and raises `RemoteProtocolError`."""
        raise NotImplementedError

    def early(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """Casts of another member that came before some that it sent earlier, in the order sent; `accept` brings them again.

        What `freeze` finds undelivered of them is forgotten. Then, before `conclude`, those come that belong to the common set.
        """
        raise NotImplementedError

    def direct(self, sender: int, record: Direct, now: int) -> None:
        """A direct record of another member, in its place among the sender's casts."""
        raise RemoteProtocolError(f"{self.name} knows no direct records, got kind {record.kind}")

    def turn(self, now: int) -> None:
        """The end of a turn: what can be said once for all its input."""

    def suspect(self, peer: int, level: str, now: int) -> None:
        """A member is suspected."""

    def trust(self, peer: int, level: str, now: int) -> None:
        """A suspicion is withdrawn."""

    def wake(self, now: int) -> None:
        """The deadline has come."""

    def deadline(self) -> int | None:
        """When `wake` is wanted."""
        return None

    def freeze(self, now: int) -> list[int]:
        """No multicast from here on. What is returned is reported to the proposer of the next view."""
        return []

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        """Deliver the rest of the common set; `present` are the ranks that go on together. Returns own casts not ordered."""
        raise NotImplementedError
