"""`semantic_total`: conflicting messages in one total and causal order, others as soon as possible (papers 002 and 003).

The order is that of `single_phase`: one logical clock for all messages whatever they are, keys (timestamp, site),
acknowledgements by Protocol 2. Only what holds a cast m back is less. It is delivered when

(a) everything that its sender had received before it is here (stamps say so as differences, like those of `causal`),
(b) no cast is here, undelivered, that conflicts with it and has a smaller key,
(c) every other site j is past it: Definition 8 holds for j's clock, or j has a lead (see `leads`) that reaches m's timestamp
    and whose shapes do not conflict with m.

A site acknowledges a cast unless its own lead covers it. A batch may be parted into several casts (see `shapes`). Above the
level `agreed`, what (a) asks for must be held by as many members as the cast: who lacks it cannot deliver the cast.

Why it is right: conflicting casts are delivered in the order of their keys wherever both are. Let x conflict with m, have the
smaller key, and come to a process that has delivered m. If (c) held for x's site by its clock, x had come before, since streams
are FIFO and stamps exceed every clock said before. If it held by a lead, x comes after the lead in its stream with a timestamp
within it, so its shape is one of the lead's and does not conflict with m. So x had come, and (b) let it go first. Keys
respect causality, also through messages that conflict with neither of two: there is one clock, and receiving moves it.

Invariants: whether (a) holds for a cast depends on the casts that are here alone, and nobody delivers one without it, in a
view or at its end; so members with the same casts end a view alike. Positions need not increase where messages passed.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast, Direct, Place
from isotone.model.view import View
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer, Outbox
from isotone.protocol.semantic.leads import Lead, Leader, Numbers
from isotone.protocol.semantic.shapes import Shape, Shapes

_MESSAGES = 0
_ACK = 1
_LEAD = 2
_CATCH_UP_NS = 2_000_000
_CONTESTED_NS = 1_000_000_000
_PATIENCE = 3

Queue = list[tuple[int, int, Cast]]
"""Key, site and cast, sorted."""


class SemanticTotal(Orderer):
    """A cast's stamp is [timestamp, *casts received]; an acknowledgement's [clock], a lead's [clock, end, *numbers of shapes]."""

    name = "semantic_total"
    semantic = True
    packets = {_ACK: "ack", _LEAD: "lead"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.shapes = Shapes(view.ordering.conflicts)
        self.lcv = [0] * self.count
        self.next_keys = [self.count + site for site in range(self.count)]
        self.mrmt = 0
        self.must = 0  # the smallest MRMT with which no acknowledgement is owed
        self.catch_up_at: int | None = None
        self.contested_at: int | None = None  # when a cast came that the own lead does not cover
        self.received = Dependencies(rank, self.count)
        self.ready = [0] * self.count  # (a) holds for so many casts of each site
        self.unready: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.leveled = view.need > 1
        self.past: list[dict[int, int]] = [{} for _ in range(self.count)]  # what (a) asks for of each site's last ready cast
        self.evidence: dict[Place, Evidence] = {}  # and of each that is undelivered
        self.queues: dict[Shape, Queue] = {}  # what is undelivered, by shape; none is empty
        self.rivals: dict[Shape, list[Shape]] = {}  # of these, which conflict with which other
        self.appeared = [Numbers() for _ in range(self.count)]
        self.leader = Leader(self.shapes, _PATIENCE * self.count)
        self.leads = [self.leader.lead if site == rank else Lead() for site in range(self.count)]
        self.lead_keys = [0] * self.count

    def _clock(self, site: int, ts: int) -> None:
        self.lcv[site] = ts
        self.next_keys[site] = (ts + 1) * self.count + site

    # Sending

    def submit(self, batch: Batch, now: int) -> None:
        for part in self.shapes.split(batch):
            self._send(part)

    def _send(self, batch: Batch) -> None:
        shape = self.shapes.of(len(batch.payloads), batch.types, batch.items)
        ts = self.leader.stamp(shape, self.lcv[self.rank] + 1)
        if ts > self.lcv[self.rank] + 1:
            self.outbox.note("jumps")
        self._clock(self.rank, ts)
        self.mrmt = ts
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.received.difference()], batch)
        self.ready[self.rank] = self.received.delivered[self.rank] = cast.seq
        if self.leveled:
            self._witness(self.rank, cast)
        self._queue(self.rank, cast, shape)

    def turn(self, now: int) -> None:
        """Deliver what can be; say at most one thing: a lead, which tells the clock too, or an acknowledgement that is owed."""
        self._advance()
        clock = self.lcv[self.rank]
        lead = self.leader.announce(clock, self.appeared[self.rank])
        if lead is not None:
            self.mrmt = clock
            self.outbox.direct(_LEAD, [clock, *lead])
            self.outbox.note("leads")
        elif self.mrmt < self.must:
            self.mrmt = clock
            self.outbox.direct(_ACK, [clock])
            self.outbox.note("acks")
        if self.mrmt >= clock:
            self.catch_up_at = None
        elif self.catch_up_at is None and self.contested_at is not None and now - self.contested_at < _CONTESTED_NS:
            self.catch_up_at = now + _CATCH_UP_NS

    def deadline(self) -> int | None:
        return self.catch_up_at

    def wake(self, now: int) -> None:
        """Nothing was sent for a while: say what the clock is, so that the next cast of a smaller site needs no answer."""
        self.catch_up_at = None
        if self.mrmt < self.lcv[self.rank]:
            self.mrmt = self.lcv[self.rank]
            self.outbox.direct(_ACK, [self.mrmt])
            self.outbox.note("catch_ups")

    # Receiving

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        shapes = self._check(sender, casts)
        rank, lcv, leader, unready = self.rank, self.lcv, self.leader, self.unready[sender]
        for cast, shape in zip(casts, shapes, strict=True):
            ts = cast.stamp[0]
            if not leader.covers(shape, ts):
                self.must = max(self.must, ts - 1 if sender < rank else ts)  # Definition 10
                if not lcv[rank] < leader.lead.end < ts:  # it has not jumped
                    self.contested_at = now
            self._clock(sender, ts)
            if ts > lcv[rank]:
                self._clock(rank, ts)  # UR2
            self.received.delivered[sender] = cast.seq
            unready.append(cast)
            self._queue(sender, cast, shape)

    def _check(self, sender: int, casts: Sequence[Cast]) -> list[Shape]:
        """The shapes of casts that keep their sender's promises; `RemoteProtocolError` otherwise."""
        last, lead = self.lcv[sender], self.leads[sender]
        shapes: list[Shape] = []
        for cast in casts:
            stamp = cast.stamp
            if not stamp or stamp[0] <= last:
                raise RemoteProtocolError(f"timestamps of rank {sender} do not increase: {stamp[:1]} after {last}")
            if len(stamp) > 1:
                self.received.check(stamp, 1)
            try:
                shape = self.shapes.of(len(cast.payloads), cast.types, cast.items)
            except ConfigError as error:
                raise RemoteProtocolError(f"a message of rank {sender} is none of this group: {error}") from None
            last = stamp[0]
            if last <= lead.end and shape not in lead.shapes:
                raise RemoteProtocolError(f"rank {sender} has promised up to {lead.end} what it breaks at {last}")
            shapes.append(shape)
        return shapes

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp = record.stamp
        if record.kind not in self.packets or not stamp or stamp[0] < self.lcv[sender]:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        if record.kind == _LEAD:
            self._follow(sender, stamp)
        elif len(stamp) != 1:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self._clock(sender, stamp[0])

    def _follow(self, sender: int, stamp: list[int]) -> None:
        """Another site leads."""
        lead = self.leads[sender]
        shapes = frozenset(shape for number in stamp[2:] if (shape := self.appeared[sender].shape(number)) is not None)
        if len(stamp) < 2 or len(shapes) != len(stamp) - 2 or not max(stamp[0], lead.end) <= stamp[1]:
            raise RemoteProtocolError(f"malformed lead from rank {sender}")
        if lead.end > stamp[0] and not shapes <= lead.shapes:
            raise RemoteProtocolError(f"rank {sender} takes back what it has promised up to {lead.end}")
        lead.end, lead.shapes = stamp[1], shapes
        self.lead_keys[sender] = (lead.end + 1) * self.count + sender

    def _queue(self, sender: int, cast: Cast, shape: Shape) -> None:
        if shape is not self.shapes.whole:
            self.appeared[sender].see(shape)
        queue = self.queues.get(shape)
        if queue is None:
            rivals = [other for other in self.queues if self.shapes.conflict(shape, other)]
            for other in rivals:
                self.rivals[other].append(shape)
            self.rivals[shape] = rivals
            queue = self.queues[shape] = []
        insort(queue, (cast.stamp[0] * self.count + sender, sender, cast))

    # Delivering

    def _advance(self) -> None:
        if not self.queues:
            return
        self._find_ready()
        past = min(self.next_keys)  # every site's clock is past the keys below
        best = min(map(max, self.next_keys, self.lead_keys))  # no lead covers keys from here on
        limits: dict[Shape, int] = {}
        progress = True
        while progress:
            progress = False
            for shape in list(self.queues):
                queue = self.queues[shape]
                if queue[0][0] >= best:
                    continue
                limit = limits.get(shape)
                if limit is None:
                    limit = limits[shape] = self._limit(shape) if best > past else past
                for other in self.rivals[shape]:
                    limit = min(limit, self.queues[other][0][0])
                if queue[0][0] < limit and self._release(shape, queue, limit):
                    progress = len(self.queues) > 0

    def _find_ready(self) -> None:
        """Rule (a). A site's casts become ready in the order it sent them, since what it has received does not become less."""
        ready, satisfied = self.ready, self.received.satisfied
        for sender, queue in enumerate(self.unready):
            while queue and satisfied(queue[0].stamp, 1):
                cast = queue.popleft()
                ready[sender] = cast.seq
                if self.leveled:
                    self._witness(sender, cast)

    def _witness(self, sender: int, cast: Cast) -> None:
        """Stamps are differences: all that a site's casts up to this one say of what it had received."""
        stamp, past = cast.stamp, self.past[sender]
        past.update(zip(stamp[1::2], stamp[2::2], strict=True))
        self.evidence[sender, cast.seq] = tuple(number for pair in past.items() for number in pair)

    def _limit(self, shape: Shape) -> int:
        """Rule (c) for all casts of a shape: the smallest key that may still come and conflict with them."""
        limit = 1 << 200
        conflict = self.shapes.conflict
        for key, lead_key, lead in zip(self.next_keys, self.lead_keys, self.leads, strict=True):
            if lead_key > key and not any(conflict(one, shape) for one in lead.shapes):
                key = lead_key
            limit = min(limit, key)
        return limit

    def _release(self, shape: Shape, queue: Queue, limit: int) -> bool:
        """Deliver the ready casts of a shape below a key; in their order if they conflict with each other."""
        ordered = self.shapes.conflict(shape, shape)
        kept: Queue = []
        done = 0
        for entry in queue:
            key, sender, cast = entry
            if key >= limit:
                break
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast)
            elif ordered:
                break
            else:
                kept.append(entry)
            done += 1
        queue[:done] = kept
        if not queue:
            del self.queues[shape]
            for other in self.rivals.pop(shape):
                self.rivals[other].remove(shape)
        return done > len(kept)

    def _deliver(self, sender: int, cast: Cast) -> None:
        self.outbox.deliver(sender, cast, (0, cast.stamp[0], sender), self.evidence.pop((sender, cast.seq), None))

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        self._find_ready()
        for _, sender, cast in sorted(entry for queue in self.queues.values() for entry in queue):
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast)
        self.queues.clear()
        return []
