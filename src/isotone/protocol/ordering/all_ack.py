"""`all_ack`: symmetric total order from Lamport clocks, the non-adaptive protocol that paper 000 compares with (§6.2).

A message is stamped with its sender's clock and delivered, in the order (timestamp, rank), when something later has come
from every other member. In the paper only the members' own messages say how late it is, so a message waits for the
slowest of them: one delay and its sending interval. A library must not wait for ever for a member that has nothing to
send, so it answers. Option `silent` says how:

- "acknowledge": at once. A message is delivered two delays after it was sent, for n − 1 acknowledgements by multicast.
- "wait": a member says its clock at most once in `interval_ms`, counted from the last time that it said anything. With an
  interval longer than those of the senders this is the paper's baseline.

Own messages sent in the same turn are the answer. Acknowledgements are not answered, so an idle group is quiet.

Invariants: the stamps of a member exceed everything that it has announced or received before; a cast that is not yet here is
therefore later than the last thing heard from its sender. The order is intrinsic: at the end of a view the rest is delivered
sorted, except what depends on a cast that no member of this component holds; components cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox

_MESSAGES = 0
_ACK = 1
_MS = 1_000_000


class AllAck(Orderer):
    """A cast's stamp is [timestamp, *dependencies]; an acknowledgement's is [timestamp]."""

    name = "all_ack"
    options = {"silent": ("acknowledge", "wait")}  # noqa: RUF012
    numbers = {"interval_ms": (10, 1, 60_000)}  # noqa: RUF012
    packets = {_ACK: "ack"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.interval = self.integer("interval_ms") * _MS if self.option("silent") == "wait" else 0
        self.clock = 0
        self.heard = [0] * self.count  # the last timestamp from each other member
        self.waiting: list[tuple[int, int, Cast]] = []
        self.spoke_at: int | None = None
        self.owed = False  # whether something came that no own record is later than
        self.dependencies = Dependencies(rank, self.count)

    def _key(self, ts: int, sender: int) -> int:
        """(ts, sender) as one number that sorts the same way."""
        return ts * self.count + sender

    def submit(self, batch: Batch, now: int) -> None:
        self.clock += 1
        cast = self.outbox.multicast(_MESSAGES, [self.clock, *self.dependencies.difference()], batch)
        self._said(now)
        heappush(self.waiting, (self._key(self.clock, self.rank), self.rank, cast))
        self._advance()

    def _said(self, now: int) -> None:
        self.spoke_at = now
        self.owed = False

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        last = self.heard[sender]
        for cast in casts:
            stamp = cast.stamp
            if not stamp or stamp[0] <= last:
                raise RemoteProtocolError(f"timestamps of rank {sender} do not increase: {stamp[:1]} after {last}")
            self.dependencies.check(stamp, 1, sender)
            last = stamp[0]
        for cast in casts:
            heappush(self.waiting, (self._key(cast.stamp[0], sender), sender, cast))
        self.heard[sender] = last
        self.clock = max(self.clock, last) + 1
        self.owed = True
        self._advance()

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp = record.stamp
        if record.kind != _ACK or len(stamp) != 1 or stamp[0] < self.heard[sender]:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self.heard[sender] = stamp[0]
        self.clock = max(self.clock, stamp[0])
        self._advance()

    def turn(self, now: int) -> None:
        """At most one acknowledgement per turn; a batch sent after the last cast came has said it already."""
        deadline = self.deadline()
        if self.owed and (deadline is None or deadline <= now):
            self._acknowledge(now)

    def _acknowledge(self, now: int) -> None:
        self._said(now)
        self.outbox.direct(_ACK, [self.clock])
        self.outbox.note("acks")

    def deadline(self) -> int | None:
        if not self.owed or self.spoke_at is None or not self.interval:
            return None
        return self.spoke_at + self.interval

    def wake(self, now: int) -> None:
        self._acknowledge(now)

    def _advance(self) -> None:
        """Deliver what is not later than the last thing heard from anybody."""
        waiting = self.waiting
        if not waiting:
            return
        horizon = min(
            (self._key(ts, member) for member, ts in enumerate(self.heard) if member != self.rank),
            default=self._key(self.clock, self.rank),
        )
        while waiting and waiting[0][0] <= horizon:
            _, sender, cast = heappop(waiting)
            self._deliver(sender, cast)

    def _deliver(self, sender: int, cast: Cast) -> None:
        self.dependencies.delivered[sender] = cast.seq
        self.outbox.deliver(sender, cast, (0, cast.stamp[0], sender))

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        incomplete: set[int] = set()
        for _, sender, cast in sorted(self.waiting):
            if sender in incomplete or not self.dependencies.satisfied(cast.stamp, 1):
                incomplete.add(sender)
            else:
                self._deliver(sender, cast)
        self.waiting.clear()
        return []
