"""What one member sees of a group: who sends how much, how far away the others are, how much gets lost.

Deliveries are counted by sender, and the counts are noted once per period; delays and losses come from echoes, one to each
other member per period (the acknowledgements of a link wait for company, so its round trips say little on a fast network).
All numbers are integers, so that the same run looks the same on every machine.

Invariant: nothing is kept that grows with the traffic: at most `PERIODS` notes, and per member a count and a round trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

from isotone.model.events import DeliveryBatch, Upcall
from isotone.model.ids import ProcessId
from isotone.model.settings import MS, SECOND

PERIOD_NS = 250 * MS
PERIODS = 24
"""An observation looks back over so many periods at most."""
ENOUGH = 24
"""It looks back no further than it takes to see so many batches."""
LEAST = 6
"""With fewer there is nothing to be said."""
_ECHOES = 1024
_DOUBT = 64
"""So many echoes are taken to have come back before the first was sent: a single one that is lost says little."""


class Observation(NamedTuple):
    """The load and the network during the last `span_ns`."""

    batches: tuple[int, ...]
    """How many batches of each member were delivered."""
    span_ns: int
    delay_ns: int
    """One way; the median over the other members."""
    loss: int
    """Lost packets in a thousand."""

    @property
    def members(self) -> int:
        """The size of the group."""
        return len(self.batches)

    @property
    def total(self) -> int:
        """The batches of all members."""
        return sum(self.batches)

    @property
    def busiest(self) -> int:
        """The rank of the member that sent most."""
        return max(range(self.members), key=lambda rank: self.batches[rank])

    @property
    def per_1000_s(self) -> int:
        """Batches of the whole group in a thousand seconds."""
        return self.total * 1_000 * SECOND // self.span_ns

    def skew(self, rank: int, doubt: bool = False) -> int:
        """How far a member's share is on the way from an even one (0) to all (1000); below 0 for one that sends less.

        With `doubt` it is the share that the member has at least, chance aside: n batches may stand for n − √n.
        """
        members, total, count = self.members, self.total, self.batches[rank]
        if doubt and count < total:
            count -= isqrt(count)
        return 1_000 * (members * count - total) // (total * (members - 1))


class Observer:
    """The eyes of the member that decides, for one view."""

    def __init__(self, members: tuple[ProcessId, ...], now: int) -> None:
        self._rank_of = {member: rank for rank, member in enumerate(members)}
        self._counts = [0] * len(members)
        self._notes: deque[tuple[int, tuple[int, ...]]] = deque([(now, tuple(self._counts))], maxlen=PERIODS + 1)
        self._trips: dict[ProcessId, int] = {}
        self._asked: dict[ProcessId, int] = {}  # when the last echo went to whom, until it comes back
        self._echoes = _DOUBT
        self._lost = 0

    def watch(self, hand_up: Callable[[Upcall], None]) -> Callable[[Upcall], None]:
        """The same way up, but batches that are delivered are counted."""
        counts, rank_of = self._counts, self._rank_of

        def counted(upcall: Upcall) -> None:
            if type(upcall) is DeliveryBatch:
                counts[rank_of[upcall.origin]] += 1
            hand_up(upcall)

        return counted

    def asked(self, peer: ProcessId, now: int) -> None:
        """An echo goes out; one that has not come back by now counts as lost."""
        self._echoes += 1
        if peer in self._asked:
            self._lost += 1
        self._asked[peer] = now
        if self._echoes > _ECHOES:  # what was long ago counts for less
            self._echoes //= 2
            self._lost //= 2

    def answered(self, peer: ProcessId, at: int, now: int) -> None:
        """An echo of the time `at` came back."""
        if self._asked.get(peer) != at:
            return  # an old one, or a repetition
        del self._asked[peer]
        trip = now - at
        known = self._trips.get(peer)
        self._trips[peer] = trip if known is None else known + (trip - known) // 4

    def note(self, now: int) -> None:
        """A period is over."""
        self._notes.append((now, tuple(self._counts)))

    def look(self) -> Observation | None:
        """What there is to see at the end of a period, if it is enough to say something."""
        if not self._trips:
            return None
        now, counts = self._notes[-1]
        batches: tuple[int, ...] = ()
        span = 0
        for then, before in list(self._notes)[-2::-1]:
            batches = tuple(count - old for count, old in zip(counts, before, strict=True))
            span = now - then
            if sum(batches) >= ENOUGH:
                break
        if sum(batches) < LEAST or span <= 0:
            return None
        trips = sorted(self._trips.values())
        return Observation(batches, span, max(1, trips[len(trips) // 2] // 2), 1_000 * self._lost // (2 * self._echoes))
