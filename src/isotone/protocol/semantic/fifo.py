"""`semantic_fifo`: of one sender, messages that conflict are delivered in the order they were sent (paper 002, §4.2 and §6).

A cast names the own casts that precede it and conflict with it (`Frontier`), as distances: d for the cast d before, -d for
everything up to that one. One that arrives behind a gap is delivered as soon as these are: what is missing in between commutes
with it.

Invariants: everything that `accept` brought is delivered; a cast is delivered early only if all casts of its sender that precede
it and conflict with it are delivered here.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox
from isotone.protocol.semantic.frontier import MOST, Frontier, Known
from isotone.protocol.semantic.shapes import Shapes


class SemanticFifo(Orderer):
    """Delivers what is in order on receipt, and what is not if its sender says that nothing before it conflicts."""

    name = "semantic_fifo"
    total = False
    semantic = True
    takes_early = True

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.shapes = Shapes(view.ordering.conflicts)
        self.frontier = Frontier(self.shapes, 1)
        self.sent = 0
        self.top = [0] * self.count  # so many casts of each member came in order
        self.ahead: list[set[int]] = [set() for _ in range(self.count)]  # delivered beyond that
        self.behind: list[dict[int, Cast]] = [{} for _ in range(self.count)]  # offered and not delivered

    def submit(self, batch: Batch, now: int) -> None:
        for part in self.shapes.split(batch):
            shape = self.shapes.of_batch(part)
            freed = [self.outbox.freed[self.rank]]
            seq = self.sent + 1
            exact, upto = self.frontier.before(shape, freed, (), {})
            cast = self.outbox.multicast(0, [seq - one for _, one in exact] + [one - seq for _, one in upto], part)
            self.sent = seq
            self.frontier.add(Known(0, seq, shape, (seq - 1,)), freed)
            self.outbox.deliver(self.rank, cast, None)

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            self._check(cast)
        ahead, behind = self.ahead[sender], self.behind[sender]
        for cast in casts:
            self.top[sender] = cast.seq
            if ahead and cast.seq in ahead:
                ahead.remove(cast.seq)
                continue
            if behind:
                behind.pop(cast.seq, None)
            self.outbox.deliver(sender, cast, None)
        if behind:
            self._advance(sender)

    def early(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            self._check(cast)
        for cast in casts:
            if cast.seq > self.top[sender] and cast.seq not in self.ahead[sender]:
                self.behind[sender].setdefault(cast.seq, cast)
        self._advance(sender)

    def _check(self, cast: Cast) -> None:
        stamp = cast.stamp
        if len(stamp) > MOST + 1 or not all(0 < abs(distance) < cast.seq for distance in stamp):
            raise RemoteProtocolError(f"cast {cast.seq} does not follow what it says: {stamp[:4]}")

    def _advance(self, sender: int) -> None:
        """A cast names smaller ones only: one pass in their order finds all that can be delivered."""
        behind, ahead = self.behind[sender], self.ahead[sender]
        for seq in sorted(behind):
            cast = behind[seq]
            if self._ready(sender, cast):
                if not self.outbox.deliver_early(sender, cast):
                    return
                del behind[seq]
                ahead.add(seq)

    def _ready(self, sender: int, cast: Cast) -> bool:
        top, ahead = self.top[sender], self.ahead[sender]
        for distance in cast.stamp:
            last = cast.seq - abs(distance)
            if last > top and (last not in ahead or (distance < 0 and any(one not in ahead for one in range(top + 1, last)))):
                return False
        return True

    def freeze(self, now: int) -> list[int]:
        for behind in self.behind:
            behind.clear()  # only what is in the common set may be delivered from here on
        return []

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        return []
