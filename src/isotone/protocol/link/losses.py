"""What a receiver finds out about the network from the holes in a stream: how late packets may be, and how many got lost.

What was missing and comes by itself was late. What a repetition brings (packets say that they are one) was lost, unless it comes
all the same within the time-out of a repetition: then it was late too. A hole that a repetition filled by the way, younger than
what is late may be, says nothing. A hole of any length is one loss, and so is what was missing at the end.

Invariant: at most `_HOLES` holes are remembered, and as many runs as the stash of the link has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import NamedTuple

_HOLES = 64


class _Filled(NamedTuple):
    """A hole from `begin` to before `end` that was there from `since` on and was filled by a repetition at `at`."""

    begin: int
    end: int
    since: int
    at: int


class Losses:
    """Of one link."""

    __slots__ = ("_came", "_end", "_filled", "_lost", "_patience", "late")

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._came: dict[int, int] = {}  # when each run in the stash came
        self._filled: list[_Filled] = []
        self._lost = 0
        self._end = 0, 0  # where what was missing at the end ended, and how many packets had come that were no repetitions
        self.late = 0
        """For how long something was missing, lately, that was not lost; and a quarter more."""

    def stashed(self, first: int, now: int) -> None:
        """A run came early."""
        self._came.setdefault(first, now)

    def unstashed(self, first: int) -> None:
        """It is in order now."""
        del self._came[first]

    def since(self) -> int:
        """When something behind the first hole came."""
        return min(self._came.values())

    def came(self, last: int, stash: Mapping[int, Sized], now: int) -> None:
        """What was missing, up to `last`, came without being repeated."""
        if last + 1 == min(stash):
            self._learn(now - self.since())

    def repaired(self, first: int, count: int, stash: Mapping[int, Sized], packets: int, now: int) -> None:
        """The next records are here, `count` from `first` on, by a repetition; so many packets came that were none."""
        self.late -= self.late // 64  # or it would stay for ever where nothing is late any more
        reached, end = first, first + count
        for start, run in sorted(stash.items()):
            if start > reached:
                if start > end or reached >= end:
                    return  # what is left of it is a part of a hole
                if now - self._came[start] >= self.late:
                    self._lack(_Filled(reached, start, self._came[start], now))
            reached = max(reached, start + len(run))
        if reached < end:
            if self._filled and self._end == (reached, packets):  # it goes on
                self._filled[-1] = _Filled(self._filled[-1].begin, end, now, now)
            else:
                self._lack(_Filled(reached, end, now, now))
            self._end = end, packets

    def late_after_all(self, first: int, count: int, now: int) -> None:
        """A packet came that is known already, and is no repetition."""
        for index, hole in enumerate(self._filled):
            if hole.begin < first + count and first < hole.end:
                self._learn(now - hole.since)
                del self._filled[index]
                return

    def lost(self, now: int) -> int:
        """How many packets got lost, until a while ago."""
        while self._filled and now - self._filled[0].at >= self._patience:
            self._lose()
        return self._lost

    def _lack(self, hole: _Filled) -> None:
        self._filled.append(hole)
        if len(self._filled) > _HOLES:
            self._lose()

    def _lose(self) -> None:
        """The oldest hole was a loss."""
        del self._filled[0]
        self._lost += 1

    def _learn(self, lasted: int) -> None:
        lasted = min(lasted, self._patience)
        self.late = lasted + lasted // 4 if lasted > self.late else self.late - (self.late - lasted) // 16
