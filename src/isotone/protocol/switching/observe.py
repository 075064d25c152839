"""What one member sees of a group: who sends how much, how far away the others are, how much gets lost.

It sends an echo to each other member once per period: the round trips are the delays (the acknowledgements of a link wait for
company, so its round trips say little on a fast network), and with its answer a member tells how much it has sent, and how
many packets its links have heard and missed. What is delivered would say less of the load: where a packet is lost it stands
still, and then it comes all at once. Where there is little traffic the echoes themselves tell of losses: one is lost if a later
one is answered first. A member that pauses answers late, but in order: that is no loss. Whatever got lost on end, on a link or of
the echoes, counts once: it was one mishap. All numbers are integers, so that the same run looks the same on every machine.

How far back to look: few messages say little, since chance has its part in who sent them; many are of a load that may be over.
So an observation begins with the last few, and looks twice as far back for as long as the older half of what it sees could
be of the same load as the newer one (a χ² test of two counts per member, and one of their sums). After a change it sees the
new load alone, and the longer that lasts, the more of it. It looks at the losses in the same way, but for itself: they change
with the network.

Invariant: nothing is kept that grows with the traffic: at most `PERIODS` notes, and per member some counts, `TRIPS` round trips
and `PERIODS` echoes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import isqrt
from typing import NamedTuple

from isotone.model.ids import ProcessId
from isotone.model.records import Seen
from isotone.model.settings import MS, SECOND

PERIOD_NS = 125 * MS
PERIODS = 96
"""An observation looks back over so many periods at most."""
ENOUGH = 8
"""It looks back at least as far as it takes to see so many batches."""
LEAST = 6
"""With fewer there is nothing to be said."""
REPAIRS = 8
"""A link repairs its losses several at once, and counts them then: of losses it looks back over so many periods at least."""
LATE = 4
"""A loss is counted when it is repaired, and when a time-out later nothing else has come: so many periods after its packet."""
RARE = 5
"""So many deviations are no chance: it is asked several times a second, and what is rarer than that still happens."""
UNEVEN = 3
"""Answers come unevenly: in less time than so many delays somebody's may be missing, and it looks back at least as far."""
SILENT = 2
"""A member whose answers are missing is taken to go on as before for so many periods."""
BEFORE = 4
"""As before: as in so many periods."""
TRIPS = 2
"""The delay is taken from so many round trips per member."""


class Observation(NamedTuple):
    """The load and the network during the last `span_ns`."""

    batches: tuple[int, ...]
    """How many batches each member has sent."""
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

    def skew(self, rank: int, deviations: int = 0) -> int:
        """How far a member's share is on the way from an even one (0) to all (1000); below 0 for one that sends less.

        With `deviations` of a binomial count: if it was by chance that the member sent so much more, or less.
        """
        members, total, count = self.members, self.total, self.batches[rank]
        chance = isqrt(deviations * deviations * count * (total - count) // total)
        count = min(total, count + chance) if deviations > 0 else max(0, count - chance)
        return 1_000 * (members * count - total) // (total * (members - 1))

    def busier(self, one: int, other: int) -> bool:
        """Whether a member surely sends more than another: by more than two deviations of the difference of their counts."""
        more = self.batches[one] - self.batches[other]
        return more > 0 and more * more > 4 * (self.batches[one] + self.batches[other])


class _Note(NamedTuple):
    """What had been counted when a period was over."""

    at: int
    batches: tuple[int, ...]
    packets: int
    lost: int


class Observer:
    """The eyes of the member that decides, for one view."""

    def __init__(self, members: tuple[ProcessId, ...], now: int) -> None:
        self._rank_of = {member: rank for rank, member in enumerate(members)}
        self._batches = [0] * len(members)
        self._packets = 0
        self._lost = 0
        self._notes: deque[_Note] = deque([_Note(now, tuple(self._batches), 0, 0)], maxlen=PERIODS + 1)
        self._trips: deque[int] = deque(maxlen=TRIPS * (len(members) - 1))
        self._asked: dict[ProcessId, deque[int]] = {member: deque(maxlen=PERIODS) for member in members}
        self._told: dict[ProcessId, Seen] = {}
        self._heard: set[ProcessId] = set()  # in this period
        self._silent = [0] * len(members)  # periods on end

    def asked(self, peer: ProcessId, now: int) -> None:
        """An echo goes out."""
        self._asked[peer].append(now)

    def answered(self, peer: ProcessId, at: int, seen: Seen, now: int) -> None:
        """An echo of the time `at` came back."""
        asked = self._asked.get(peer)
        if asked is None or at not in asked:
            return  # of somebody else, one that was given up, a repetition, or never sent
        self._lost += asked[0] != at
        while asked.popleft() != at:
            pass
        self._packets += 2
        self._trips.append(now - at)
        self.told(peer, seen)

    def told(self, member: ProcessId, seen: Seen) -> None:
        """What a member has seen since its view began; less than it told before is of another view."""
        before = self._told.get(member)
        self._told[member] = seen
        self._heard.add(member)
        if before is not None and all(new >= old for new, old in zip(seen, before, strict=True)):
            self._batches[self._rank_of[member]] += seen.batches - before.batches
            self._packets += seen.packets - before.packets
            self._lost += seen.lost - before.lost

    def note(self, now: int) -> None:
        """A period is over."""
        batches = tuple(self._count(member, rank) for member, rank in self._rank_of.items())
        self._notes.append(_Note(now, batches, self._packets, self._lost))
        self._heard.clear()

    def _count(self, member: ProcessId, rank: int) -> int:
        """The batches of a member until now. One whose answer is missing is taken to go on as before, for a while."""
        noted = self._notes[-1].batches[rank]
        count = max(self._batches[rank], noted)
        self._silent[rank] = 0 if member in self._heard else self._silent[rank] + 1
        back = min(BEFORE, len(self._notes) - 1)
        if not back or not 0 < self._silent[rank] <= SILENT:
            return count
        return count + (noted - self._notes[-1 - back].batches[rank]) // back

    def look(self) -> Observation | None:
        """What there is to see at the end of a period, if it is enough to say something."""
        periods = len(self._notes) - 1
        if not periods or not self._trips:
            return None
        delay = max(1, sorted(self._trips)[len(self._trips) // 2] // 2)
        least = min(periods, 1 + UNEVEN * delay // PERIOD_NS)
        back = next((back for back in range(least, periods) if sum(self._sent(back, 0)) >= ENOUGH), periods)
        while 2 * back <= periods and _alike(self._sent(2 * back, back), self._sent(back, 0)):
            back *= 2
        batches = self._sent(back, 0)
        span = self._notes[-1].at - self._notes[-1 - back].at
        if sum(batches) < LEAST or span <= 0:
            return None
        return Observation(batches, span, delay, self._loss(periods))

    def _loss(self, periods: int) -> int:
        """Of a thousand packets."""
        back = min(REPAIRS, periods)
        while 2 * back <= periods and _alike_lossy(self._missed(2 * back, back), self._missed(back, 0)):
            back *= 2
        packets, lost = self._missed(back, 0)
        return 1_000 * lost // max(1, packets)

    def _missed(self, first: int, last: int) -> tuple[int, int]:
        """The packets, and the losses among them, from `first` periods ago to `last` periods ago."""
        notes, oldest = self._notes, len(self._notes)
        came = notes[-min(1 + last + LATE, oldest)].packets - notes[-min(1 + first + LATE, oldest)].packets
        return came, notes[-1 - last].lost - notes[-1 - first].lost

    def _sent(self, first: int, last: int) -> tuple[int, ...]:
        """The batches of each member from `first` periods ago to `last` periods ago."""
        before, after = self._notes[-1 - first].batches, self._notes[-1 - last].batches
        return tuple(count - old for count, old in zip(after, before, strict=True))


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two counts, over equal times, can be of the same load: χ² of the members, and of their sums, is as by chance."""
    return _as_by_chance([(sum(one), sum(other))]) and _as_by_chance(zip(one, other, strict=True))


def _as_by_chance(pairs: Iterable[tuple[int, int]]) -> bool:
    """Whether χ² of counts that should be equal is within some deviations of its mean."""
    parts = [1_000 * (a - b) ** 2 // (a + b) for a, b in pairs if a + b]
    return sum(parts) <= _chance(len(parts))


def _alike_lossy(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """The same of the losses among two numbers of packets."""
    (packets, lost), (packets_, lost_) = one, other
    parts = packets * packets_ * (lost + lost_)
    return not parts or 1_000 * (lost * packets_ - lost_ * packets) ** 2 // parts <= _chance(1)


def _chance(counts: int) -> int:
    """How large χ² becomes by chance, in thousandths: `RARE` deviations above its mean."""
    return 1_000 * counts + RARE * isqrt(2 * counts * 1_000_000)
