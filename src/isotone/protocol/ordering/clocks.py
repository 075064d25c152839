"""Logical clocks and acknowledgements, as the orders of paper 003 and those built on them share them.

LCV is the logical clock vector (Definition 6), MRMT the timestamp most recently multicast (Definition 9). `must` is what the
casts received ask for: the smallest MRMT with which no acknowledgement is owed (Definition 10).

Catching up is beyond the paper: a site that was allowed to keep silent says its clock a moment later. Nobody waits for that, and
the next cast of a smaller site then finds a clock that needs no answer.
"""

from __future__ import annotations

from isotone.model.view import View
from isotone.protocol.ordering.orderer import Orderer, Outbox

ACK = 1
CATCH_UP_NS = 2_000_000


class Clocked(Orderer):
    """An orderer whose members tell each other their clocks; an acknowledgement's stamp is [clock]."""

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.lcv = [0] * self.count
        self.mrmt = 0
        self.must = 0
        self.next_keys = [self._key(1, site) for site in range(self.count)]  # the smallest that each site may still use
        self.catch_up_at: int | None = None

    def _key(self, ts: int, site: int) -> int:
        """(ts, site) as one number that sorts the same way (Definition 3)."""
        return ts * self.count + site

    def _clock(self, site: int, ts: int) -> None:
        self.lcv[site] = ts
        self.next_keys[site] = (ts + 1) * self.count + site

    def _say(self, what: str) -> None:
        """Tell all the own clock."""
        self.mrmt = self.lcv[self.rank]
        self.outbox.direct(ACK, [self.mrmt])
        self.outbox.note(what)

    def _plan_catching_up(self, wanted: bool, now: int) -> None:
        """The end of a turn: whether there is something left to be said later."""
        if self.mrmt >= self.lcv[self.rank]:
            self.catch_up_at = None
        elif wanted and self.catch_up_at is None:
            self.catch_up_at = now + CATCH_UP_NS

    def deadline(self) -> int | None:
        return self.catch_up_at

    def wake(self, now: int) -> None:
        """Nothing was sent for a while: say what the clock is, so that the next cast of a smaller site needs no answer."""
        self.catch_up_at = None
        if self.mrmt < self.lcv[self.rank]:
            self._say("catch_ups")
