"""Acknowledgements of `single_phase` for point-to-point networks, the future work of paper 003.

Where a multicast is n − 1 packets, acknowledging by multicast costs up to (n − 1)² of them for one operation. Here every
operation (ts, site) has a *collector*, the site before its own. Who must acknowledge the operation tells the collector
alone; when the operation is stable there, the collector tells everybody what it knows of all clocks, once.

Packets: an operation makes each of the n − 2 sites that are neither its own nor its collector tell the collector at most
once, and the collector tell the n − 1 others at most once: at most 2 n − 3 packets besides its own n − 1, whatever else is
under way. That is fewer than (n − 1)² from three sites on.

Delay: with d(a, b) the delay from a to b, D the largest and c the collector of an operation of site i, c knows all clocks
after max over k of d(i, k) + d(k, c), and tells them. At another site the clock of k also waits for the casts of k that c
had seen; they had been sent by then, so they come within D too. A site k does not tell c if its clock is public: then it
is on its way to everybody when the operation comes to k, and arrives within D of that. So an operation is stable
everywhere after at most max over k of (d(i, k) + d(k, c)) + D ≤ 3 D from its sending. With equal delays that is 2 D
from its receipt, and D at the collector; it is D everywhere if acknowledgements are multicast.

A site's clock that comes from the collector may overtake casts which that site sent before it. So a *claim* about a site has
its count of casts with it, and counts only when those casts are here: all later ones have larger timestamps.

Invariants: a clock in `Claims` is applied only when `seen` has reached its count; a site is *public* up to a value that
everybody has heard from it, or will hear from a collector.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Claims:
    """What a receiver was told of other sites' clocks, and may not use yet."""

    def __init__(self, count: int) -> None:
        self.seen = [0] * count
        self._waiting: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # casts and clock; a heap

    def ripe(self, site: int, clock: int, casts: int) -> bool:
        """Whether the clock may be used now; otherwise it waits."""
        if self.seen[site] >= casts:
            return True
        heappush(self._waiting[site], (casts, clock))
        return False

    def arrived(self, site: int, seq: int) -> int:
        """A cast came: the clock that may be used from here on, 0 if none waited for it."""
        self.seen[site] = seq
        waiting = self._waiting[site]
        clock = 0
        while waiting and waiting[0][0] <= seq:
            clock = heappop(waiting)[1]
        return clock


class Collector:
    """What one site owes to the collectors of others' operations, and what it collects itself."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.told = [0] * count
        self.owes = [0] * count
        self.news = False
        """Whether somebody told this site alone what the others do not know."""
        self._open: list[tuple[int, int]] = []  # key of an operation, and the own clock that it needs

    def operation(self, collector: int, key: int, need: int) -> None:
        """An operation came that needs this site's clock to be at least `need`."""
        if collector == self.rank:
            heappush(self._open, (key, need))
        elif need > self.owes[collector]:
            self.owes[collector] = need

    def to_tell(self, clock: int, public: int) -> list[int]:
        """The collectors that must hear the clock now."""
        due = [to for to, need in enumerate(self.owes) if need > public and need > self.told[to]]
        for to in due:
            self.told[to] = clock
        return due

    def closed(self, horizon: int, public: int) -> bool:
        """Whether operations collected here became stable and others wait for what this site knows."""
        stable = False
        need = 0
        while self._open and self._open[0][0] < horizon:
            need = max(need, heappop(self._open)[1])
            stable = True
        return stable and (self.news or need > public)
