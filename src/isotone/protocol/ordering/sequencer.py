"""`sequencer`: one member numbers all casts, the one that the option `at` names or that of rank 0; all deliver in its numbers.

The order is extrinsic: a cast's place comes from another record. Order records travel as casts of the sequencer, so the
flush covers them. When the view ends there are two cases. If the sequencer goes on with this component, all its order
records are here, no other component can know a place that this one does not, and the rest is delivered sorted. If it
does not, another component may have order records that are missing here: only what the records here order is delivered,
and own casts that are left are returned (000 §1.2.2 shows what happens otherwise). The option `fallback = "classical"`
delivers the rest in a sorted order also then; it exists to show the contradiction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import name_of
from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox

_MESSAGES = 0
_ORDER = 1


class Sequencer(Orderer):
    """An order record's stamp is a list of pairs (rank, count): the next `count` casts of that member are next.

    Positions are (0, 0, number) for what the sequencer numbered and (0, 1 + rank, seq) for the sorted rest.
    """

    name = "sequencer"
    options = {"fallback": ("returned", "classical")}  # noqa: RUF012
    texts = ("at",)
    packets = {_ORDER: "order"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.bodies: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.runs: deque[tuple[int, int, int]] = deque()  # rank, count, seq of the order record
        self.unordered: list[int] = []  # at the sequencer: pairs (rank, count) for the next order record
        self.number = 0
        at = view.ordering.options.get("at", "")
        self.seat = next((rank for rank, member in enumerate(view.members) if name_of(member) == at), 0)

    def submit(self, batch: Batch, now: int) -> None:
        cast = self.outbox.multicast(_MESSAGES, [], batch)
        self.bodies[self.rank].append(cast)
        if self.rank == self.seat:
            self._count(self.rank, 1)

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            self._check(sender, cast)
        bodies = 0
        for cast in casts:
            if cast.kind == _MESSAGES:
                self.bodies[sender].append(cast)
                bodies += 1
            else:
                self._ordered(cast)
        if self.rank == self.seat and bodies:
            self._count(sender, bodies)
        self._advance()

    def _count(self, sender: int, count: int) -> None:
        unordered = self.unordered
        if unordered and unordered[-2] == sender:
            unordered[-1] += count
        else:
            unordered += (sender, count)

    def _check(self, sender: int, cast: Cast) -> None:
        if cast.kind == _MESSAGES:
            return
        if cast.kind != _ORDER or sender != self.seat:
            raise RemoteProtocolError(f"cast of kind {cast.kind} from rank {sender}, which is not the sequencer")
        stamp = cast.stamp
        if len(stamp) % 2 or min(stamp, default=0) < 0 or max(stamp[::2], default=0) >= self.count or 0 in stamp[1::2]:
            raise RemoteProtocolError("an order record is not a list of (rank, count)")

    def _ordered(self, cast: Cast) -> None:
        stamp = cast.stamp
        for i in range(0, len(stamp), 2):
            self.runs.append((stamp[i], stamp[i + 1], cast.seq))

    def turn(self, now: int) -> None:
        if self.unordered:
            cast = self.outbox.multicast(_ORDER, self.unordered, None)
            self.unordered = []
            self._ordered(cast)
            self._advance()

    def _advance(self) -> None:
        runs = self.runs
        while runs:
            sender, count, seq = runs[0]
            bodies = self.bodies[sender]
            while count and bodies:
                self.number += 1
                self.outbox.deliver(sender, bodies.popleft(), (0, 0, self.number), (self.seat, seq))
                count -= 1
            if count:
                runs[0] = (sender, count, seq)
                return
            runs.popleft()

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        self._advance()
        if self.seat not in present and self.option("fallback") == "returned":
            return list(self.bodies[self.rank])
        # Nobody has delivered any of these, so the only order among them is each sender's own. Their positions must not
        # depend on how many there are: members that end this view in another round may have more or fewer.
        for sender, bodies in enumerate(self.bodies):
            for cast in bodies:
                self.outbox.deliver(sender, cast, (0, 1 + sender, cast.seq))
        return []
