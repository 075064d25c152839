"""What members tell each other about a switch.

Through the orderer in force, as casts without message numbers: a member's flag, ids of messages whose payload travels in the next
orderer. Beside all orderers, with the kind `READY` of the next instance: as casts, that the sender has come to the cut, and that
it knows that all have; as direct records, a member's wish, to the first member of the view, and that this one cannot grant it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import msgspec

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Count, Direct
from isotone.model.switch import Switch
from isotone.protocol.ordering.orderer import Batch
from isotone.protocol.switching.channel import BITS, KINDS

READY = KINDS
"""The kind that no orderer uses."""
_REACHED, _KNOWN = 1, 2
FIRST = 0
"""The rank of the member that says which of several wishes comes first."""


class Flag(msgspec.Struct, array_like=True, tag=2):
    """Everything that the sender sends from here on also travels in the next instance (`stop`: nothing does any more).

    It tells what was granted to whom: who gets the flag of anybody knows of the switch.
    """

    asker: Count
    switch: Switch


class Ids(msgspec.Struct, array_like=True, tag=3):
    """The messages `first`, …, `first + count − 1` of the sender, which are in the next instance."""

    first: Count
    count: Count


Control = Flag | Ids
_DECODER = msgspec.msgpack.Decoder(Control)
_WISHES = msgspec.msgpack.Decoder(Switch)
_ENCODER = msgspec.msgpack.Encoder()


def batch_of(control: Control) -> Batch:
    """What the orderer in force is given to multicast."""
    payload = _ENCODER.encode(control)
    return Batch([payload], None, None, len(payload), 0)


def control_of(cast: Cast) -> Control | None:
    """What a cast without a message number says; None if nobody says such a thing."""
    try:
        return _DECODER.decode(cast.payloads[0]) if len(cast.payloads) == 1 else None
    except msgspec.DecodeError:
        return None


class Told(NamedTuple):
    """What a member said of its own messages when it came to the cut: the numbers below `first` and those from `ranges[i]` up
    to `ranges[i + 1]` (i even) were delivered before it; those from `end` on were not sent yet. `resent`: the others
    between follow again after `seq`, the cast that says this."""

    seq: int
    first: int
    end: int
    resent: bool
    ranges: tuple[int, ...]

    @property
    def open(self) -> int:
        """How many messages the old orderer had not delivered."""
        return self.end - self.first - sum(self.ranges[1::2]) + sum(self.ranges[::2])

    def repeats(self, number: int, seq: int) -> bool:
        """Whether a cast of the next instance brings what need not be delivered (again)."""
        if number < self.first or (self.resent and number < self.end and seq < self.seq):
            return True
        return any(self.ranges[i] <= number < self.ranges[i + 1] for i in range(0, len(self.ranges), 2))


class Arrivals:
    """What was said about one switch: who wishes it, who is granted it, who has flagged it, who has come to its cut, and who
    knows that all have."""

    def __init__(self) -> None:
        self.wishes: dict[int, Switch] = {}
        self.refused = False  # what this member wished
        self.granted: tuple[int, Switch] | None = None
        self.flagged: set[int] = set()  # whose flag is here, delivered or not
        self.reached: dict[int, Told] = {}
        self.known: set[int] = set()
        self.last: dict[int, int] = {}  # of each member, the cast that said so last

    def standing(self, one_round: bool) -> tuple[Set[int], Set[int]]:
        """Who is willing, and who is bound (`ending`), in one round or in two."""
        return (self.flagged, self.reached.keys()) if one_round else (self.reached.keys(), self.known)

    def flag(self, sender: int, flag: Flag) -> None:
        """A member's flag is here."""
        self.flagged.add(sender)
        if self.granted is None:
            self.granted = flag.asker, flag.switch

    def direct(self, sender: int, record: Direct) -> None:
        """A `READY` record came that is no cast."""
        if sender == FIRST:
            self.refused = True
            return
        try:
            self.wishes[sender] = _WISHES.decode(bytes(record.stamp))
        except (msgspec.DecodeError, ValueError):
            raise RemoteProtocolError(f"rank {sender} asks for a switch that is none") from None

    def take(self, sender: int, cast: Cast) -> None:
        """A `READY` cast came."""
        stamp = cast.stamp
        if stamp == KNOWN and sender in self.reached:
            self.known.add(sender)
        elif len(stamp) >= 4 and stamp[0] == _REACHED and len(stamp) % 2 == 0 and sender not in self.reached and min(stamp) >= 0:
            self.reached[sender] = Told(cast.seq, stamp[1], stamp[2], bool(stamp[3]), tuple(stamp[4:]))
        else:
            raise RemoteProtocolError(f"rank {sender} tells of a cut in a way that nobody knows")
        self.last[sender] = cast.seq


def wish(switch: Switch) -> list[int]:
    """The stamp of a member that asks for a switch."""
    return list(_ENCODER.encode(switch))


REFUSED: list[int] = []
"""The stamp of the first member that cannot grant one."""


def reached(first: int, end: int, resent: bool, ranges: list[int]) -> list[int]:
    """The stamp of a member that has come to the cut."""
    return [_REACHED, first, end, int(resent), *ranges]


KNOWN = [_KNOWN]


def ready_kind(instance: int) -> int:
    """The kind of `READY` records for the switch to an instance."""
    return instance << BITS | READY
