"""What one member sees of a group: who sends how much, how far away the others are, how much gets lost.

Deliveries are counted by sender, and the counts are noted once per period; delays and losses come from echoes, one to each
other member per period (the acknowledgements of a link wait for company, so its round trips say little on a fast network).
All numbers are integers, so that the same run looks the same on every machine.

How far back to look: few messages say little, since chance has its part in who sent them; many are of a load that may be over.
So an observation begins with the last few, and looks twice as far back for as long as the older half of what it sees could
be of the same load as the newer one (a χ² test of two counts per member). After a change it sees the new load alone, and the
longer that lasts, the more of it.

Invariant: nothing is kept that grows with the traffic: at most `PERIODS` notes, `ECHOES` outcomes of echoes, and per member a
count, `TRIPS` round trips and the echoes of `PATIENCE_NS`.
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
PERIODS = 48
"""An observation looks back over so many periods at most."""
ENOUGH = 24
"""It looks back at least as far as it takes to see so many batches."""
LEAST = 6
"""With fewer there is nothing to be said."""
TRIPS = 3
"""The delay is taken from so many round trips per member."""
PATIENCE_NS = SECOND
"""An echo that is not back by then counts as lost; far away is not lossy."""
ECHOES = 128
"""The loss is that among so many echoes."""
_DOUBT = 64
"""So many are taken to have come back before the first was sent: a single one that is lost says little."""


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

        With `doubt` it is the share that the member has at least, chance aside: a deviation of a binomial count less.
        """
        members, total, count = self.members, self.total, self.batches[rank]
        if doubt:
            count -= isqrt(count * (total - count) // total)
        return 1_000 * (members * count - total) // (total * (members - 1))

    def busier(self, one: int, other: int) -> bool:
        """Whether a member surely sends more than another: by more than two deviations of the difference of their counts."""
        more = self.batches[one] - self.batches[other]
        return more > 0 and more * more > 4 * (self.batches[one] + self.batches[other])


class Observer:
    """The eyes of the member that decides, for one view."""

    def __init__(self, members: tuple[ProcessId, ...], now: int) -> None:
        self._rank_of = {member: rank for rank, member in enumerate(members)}
        self._counts = [0] * len(members)
        self._notes: deque[tuple[int, tuple[int, ...]]] = deque([(now, tuple(self._counts))], maxlen=PERIODS + 1)
        self._trips: deque[int] = deque(maxlen=TRIPS * (len(members) - 1))
        self._asked: dict[ProcessId, deque[int]] = {member: deque() for member in members}
        self._lost: deque[bool] = deque([False] * _DOUBT, maxlen=ECHOES)

    def watch(self, hand_up: Callable[[Upcall], None]) -> Callable[[Upcall], None]:
        """The same way up, but batches that are delivered are counted."""
        counts, rank_of = self._counts, self._rank_of

        def counted(upcall: Upcall) -> None:
            if type(upcall) is DeliveryBatch:
                counts[rank_of[upcall.origin]] += 1
            hand_up(upcall)

        return counted

    def asked(self, peer: ProcessId, now: int) -> None:
        """An echo goes out."""
        asked = self._asked[peer]
        asked.append(now)
        while asked[0] < now - PATIENCE_NS:
            asked.popleft()
            self._lost.append(True)

    def answered(self, peer: ProcessId, at: int, now: int) -> None:
        """An echo of the time `at` came back."""
        asked = self._asked.get(peer, ())
        if at not in asked:
            return  # one that was given up, a repetition, or never sent
        self._asked[peer].remove(at)
        self._trips.append(now - at)
        self._lost.append(False)

    def note(self, now: int) -> None:
        """A period is over."""
        self._notes.append((now, tuple(self._counts)))

    def look(self) -> Observation | None:
        """What there is to see at the end of a period, if it is enough to say something."""
        periods = len(self._notes) - 1
        if not periods or not self._trips:
            return None
        back = next((back for back in range(1, periods) if sum(self._sent(back, 0)) >= ENOUGH), periods)
        while 2 * back <= periods and _alike(self._sent(2 * back, back), self._sent(back, 0)):
            back *= 2
        batches = self._sent(back, 0)
        span = self._notes[-1][0] - self._notes[-1 - back][0]
        if sum(batches) < LEAST or span <= 0:
            return None
        trips = sorted(self._trips)
        loss = 1_000 * sum(self._lost) // (2 * len(self._lost))
        return Observation(batches, span, max(1, trips[len(trips) // 2] // 2), loss)

    def _sent(self, first: int, last: int) -> tuple[int, ...]:
        """The batches of each member from `first` periods ago to `last` periods ago."""
        before, after = self._notes[-1 - first][1], self._notes[-1 - last][1]
        return tuple(count - old for count, old in zip(after, before, strict=True))


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two counts, over equal times, can be of the same load: χ² is within three deviations of its mean."""
    parts = [1_000 * (a - b) ** 2 // (a + b) for a, b in zip(one, other, strict=True) if a + b]
    return sum(parts) <= 1_000 * len(parts) + 3 * isqrt(2 * len(parts) * 1_000_000)
