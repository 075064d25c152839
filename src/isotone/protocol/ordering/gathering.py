"""Acknowledgements of `single_phase` for point-to-point networks, the future work of paper 003.

Where a multicast is n − 1 packets, acknowledging by multicast costs up to (n − 1)² of them for one operation. Here every
operation (ts, site) has a *collector*, the site before its own. Who must acknowledge the operation tells the collector
alone; when the operation is stable there, the collector tells everybody what it knows of all clocks, once. That is at most
(n − 1) + (n − 2) + (n − 1) packets for an isolated operation, and three delays instead of two.

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
        self._waiting: dict[int, tuple[int, int]] = {}

    def ripe(self, site: int, clock: int, casts: int) -> bool:
        """Whether the clock may be used now; otherwise it waits."""
        if self.seen[site] >= casts:
            return True
        if casts >= self._waiting.get(site, (0, 0))[0]:
            self._waiting[site] = (casts, clock)
        return False

    def arrived(self, site: int, seq: int) -> int:
        """A cast came: the clock that may be used from here on, 0 if none waited for it."""
        self.seen[site] = seq
        if not self._waiting:
            return 0
        casts, clock = self._waiting.get(site, (0, 0))
        if not casts or casts > seq:
            return 0
        del self._waiting[site]
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
