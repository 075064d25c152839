"""The casts of `semantic_total`: how they get their timestamps, and what is made of those that come.

For each of both there is a way for plain times and one for others (see `passing`), and short ways for casts of one kind that come
alone: in a quiet group all are like this, and every function that finds the caches cold costs as much as its work.

Invariants: of the casts that come together all are taken or none; a site's clock never decreases, and exceeds the timestamps of
all casts that it has, or equals them (rule UR2 of paper 003); what is sent keeps the promises of its sender, and what comes is
refused if it breaks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.ordering.orderer import Batch, Outbox
from isotone.protocol.semantic.leads import SOON, Leader, Numbers
from isotone.protocol.semantic.passing import BLOCK, Passing
from isotone.protocol.semantic.shapes import LOOKED_AT_MAX, Shape, Sketch

_MESSAGES = 0
PATIENCE = 3
"""So many casts for each member a promise waits for; see `leads`."""
BUSY = 307
"""Where more is under way than this, 0.3 casts, free ones move the clock. Times 1024."""


class Casting(Passing):
    """Sends casts, and takes those of others."""

    __slots__ = ("appeared", "calm", "idle", "known", "leader", "log", "polite", "under_way")

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.idle = False  # nothing came since the last turn that it would do more for than to deliver
        self.polite = 0  # what casts ask for that the own promises cover, as `must`
        self.under_way = 0  # of how many casts that are here the senders of others did not know yet, the mean, times 1024
        self.appeared = [Numbers() for _ in range(self.count)]
        self.leader = Leader(self.shapes, PATIENCE * self.count, self.appeared, self.truces, rank)
        self.log = self.leader.log
        self.leads[rank], self.truces[rank] = self.leader.lead, self.leader.truce
        self.calm = 1 << BLOCK if self.shapes.frees and not self.gated else 0  # (b) and (c) hold for free casts before this
        self.known = [[0] * self.count for _ in range(self.count)]  # what each site had received before its last cast

    # Sending

    def submit(self, batch: Batch, now: int) -> None:
        count = len(batch.payloads)
        if count == 1 and not self.plain:
            self._send_among_promises(batch)
            return
        if count == 1 or (self.own and count > LOOKED_AT_MAX):  # who sends so much has to wait for itself anyhow
            self._send(batch)
            return
        for part in self.shapes.split(batch):
            self._send(part)

    def _send(self, batch: Batch) -> None:
        if not self.plain:
            self._send_among_promises(batch)
            return
        rank, shapes, types = self.rank, self.shapes, batch.types
        known = shapes.known.get(types.values[0]) if shapes.by_types and types is not None and len(types.values) == 1 else None
        if known is not None and batch.number != 0:  # without a call: most are like this
            what: Sketch = known
        else:
            what = shapes.glance(len(batch.payloads), types, batch.items) if batch.number != 0 else shapes.whole
        ts = self.lcv[rank] + 1
        free = False
        if shapes.frees and type(what) is Shape:
            free = what.free
            if what.wild or (free and ts >= self.calm):
                self.unfold()
                self._send_among_promises(batch)
                return
            if free and self.under_way < BUSY:
                ts -= 1
        self.lcv[rank] = self.mrmt = ts
        self.next_keys[rank] = (ts + 1) * self.count + rank
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.received.difference()], batch)
        self.received.delivered[rank] = cast.seq
        if free:
            self.outbox.deliver(rank, cast, (0, ts, self.count * cast.seq + rank))
            return
        self.idle = False
        self.log.append((rank, ts, what, False))
        heappush(self.heap, (ts * self.count + rank, rank, cast))
        self.undelivered += 1
        self.own += 1
        self.news = True

    def _send_among_promises(self, batch: Batch) -> None:
        """`_send`, not in plain times."""
        rank, shapes, leader = self.rank, self.shapes, self.leader
        column = batch.items if shapes.by_items else batch.types if shapes.by_types else None
        shape = None
        if column is not None and len(column.values) == 1 and batch.number != 0:  # without a call: most are like this
            shape = shapes.known.get(column.values[0])
        if shape is None:
            shape = shapes.of_batch(batch)
        clock = self.lcv[rank]
        ts = clock + 1
        if not shape.free:
            if shape.wild and self.tame[rank]:
                ts = (clock >> BLOCK) + 1 << BLOCK
            self.log.append((rank, ts, shape, False))
            if (ts <= leader.truce.end or ts <= leader.lead.end) and leader.minds(shape, ts):
                self.idle = False
                ts = leader.jump(shape, ts)
            if ts > clock + 1:
                self.outbox.note("jumps")
        elif ts < self.calm and self.under_way < BUSY:
            ts = clock
        self.lcv[rank] = self.mrmt = ts
        self.next_keys[rank] = (ts + 1) * self.count + rank
        self.catch_up_at = None
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.received.difference()], batch)
        self.ready[rank] = self.received.delivered[rank] = cast.seq
        if shape.free and ts < self.calm:
            self.outbox.deliver(rank, cast, (0, ts, self.count * cast.seq + rank))
            return
        if shape.wild or shape.free or self.gated or self.undelivered:
            self._queue(rank, cast, shape)
        else:  # a call less
            self.own = self.undelivered = 1
            self.lone, self.passed, self.anyone = (ts * self.count + rank, rank, cast, shape), 0, False
        self.news = True
        if len(self.log) >= SOON:
            self.idle = False

    # Receiving

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        if not self.plain:
            if len(casts) != 1 or not self._take_among_promises(sender, casts[0]):
                self._accept_among_promises(sender, casts)
            return
        rank, count, lcv, shapes = self.rank, self.count, self.lcv, self.shapes
        last, by_types = lcv[sender], shapes.by_types
        if len(casts) == 1 and shapes.frees and self._take(sender, casts[0]):
            return
        self.idle = False
        taken: list[Sketch] = []
        for cast in casts:  # all or none of them
            stamp = cast.stamp
            ts = stamp[0] if stamp else -1
            types = cast.types
            known = shapes.known.get(types.values[0]) if by_types and types is not None and len(types.values) == 1 else None
            if known is not None and cast.number:  # without a call: most are like this
                what: Sketch = known
            else:
                try:
                    what = shapes.glance(len(cast.payloads), types, cast.items) if cast.number else shapes.whole
                except ConfigError as error:
                    raise RemoteProtocolError(f"a message of rank {sender} is none of this group: {error}") from None
            if ts <= last:
                self._check_increase(sender, ts, last, what)
            last = ts
            if shapes.frees:
                if not self._calm(sender, stamp, what):
                    self.unfold()
                    self._accept_among_promises(sender, casts)
                    return
            elif len(stamp) > 1:
                self.received.missed(stamp, 1, sender)
            taken.append(what)
        self.news = True
        for cast, what in zip(casts, taken, strict=True):
            ts = cast.stamp[0]
            lcv[sender] = ts
            self.next_keys[sender] = (ts + 1) * count + sender
            if ts > lcv[rank]:  # UR2
                lcv[rank] = ts
                self.next_keys[rank] = (ts + 1) * count + rank
            self.received.delivered[sender] = cast.seq
            needed = ts - 1 if sender < rank else ts  # Definition 10
            if shapes.frees and type(what) is Shape and what.free:
                if needed > self.polite:
                    self.polite = needed
                self.outbox.deliver(sender, cast, (0, ts, count * cast.seq + sender))
                continue
            if needed > self.must:
                self.must = needed
            self.log.append((sender, ts, what, False))
            heappush(self.heap, (ts * count + sender, sender, cast))
            self.undelivered += 1

    def _take(self, sender: int, cast: Cast) -> bool:
        """`accept`, in plain times, for a cast of one type that came alone; False if it is none, or if they may end with it.

        Free ones are what is faster than all others, so what is computed for them is seen: it is as little as can be. Others
        are rare where there are free ones: what is run for them finds the caches cold.
        """
        types, stamp, lcv = cast.types, cast.stamp, self.lcv
        if types is None or not cast.number or len(types.values) != 1 or not self.shapes.by_types:
            return False
        what = self.shapes.known.get(types.values[0])
        if what is None or what.wild or not stamp or not lcv[sender] + (not what.free) <= stamp[0] < self.calm - 1:
            return False
        if len(stamp) > 1:  # as `_met`, with a call less
            missed = self.received.missed(stamp, 1, sender)
            if missed < 0:
                return False
            self.under_way += (missed << 5) - (self.under_way >> 5)
        ts, count, rank = stamp[0], self.count, self.rank
        lcv[sender] = ts
        self.next_keys[sender] = (ts + 1) * count + sender
        if ts > lcv[rank]:  # UR2
            lcv[rank] = ts
            self.next_keys[rank] = (ts + 1) * count + rank
            self.idle = False
        self.received.delivered[sender] = cast.seq
        needed = ts - 1 if sender < rank else ts  # Definition 10
        self.news = True
        if what.free:
            if needed > self.polite:
                self.polite = needed
                self.idle = False
            self.outbox.deliver(sender, cast, (0, ts, count * cast.seq + sender))
            return True
        if needed > self.must:
            self.must = needed
        self.idle = False
        self.log.append((sender, ts, what, False))
        heappush(self.heap, (ts * count + sender, sender, cast))
        self.undelivered += 1
        return True

    def _check_increase(self, sender: int, ts: int, last: int, what: Sketch) -> None:
        """Raise `RemoteProtocolError` unless a cast may have this timestamp after `last`."""
        still = isinstance(what, Shape) and what.free and ts + 1 < 1 << BLOCK
        if ts < last or not still:
            raise RemoteProtocolError(f"timestamps of rank {sender} do not increase: {ts} after {last}")

    def _met(self, sender: int, stamp: list[int]) -> bool:
        """Whether (a) holds for a cast that comes and names something; learns how much is under way."""
        missed = self.received.missed(stamp, 1, sender)
        if missed >= 0:
            self.under_way += (missed << 5) - (self.under_way >> 5)
        return missed >= 0

    def _calm(self, sender: int, stamp: list[int], what: Sketch) -> bool:
        """Whether plain times go on with this cast, where there are free ones.

        Then these are delivered where they come, so nothing must be missing that they or earlier casts of their sender know of.
        """
        met = len(stamp) == 1 or self._met(sender, stamp)
        return met and not (isinstance(what, Shape) and (what.wild or (what.free and stamp[0] >= self.calm)))

    def _take_among_promises(self, sender: int, cast: Cast) -> bool:
        """`accept`, not in plain times, for a cast of one kind that came alone and lacks nothing; False if it is none.

        In a quiet group every cast is like this, and those that conflict find the caches cold: see `_take`.
        """
        shapes, stamp, lcv = self.shapes, cast.stamp, self.lcv
        column = cast.items if shapes.by_items else cast.types if shapes.by_types else None
        if column is None or self.gated or self.late or not stamp or not cast.number or len(column.values) != 1:
            return False
        what, ts = column.values[0], stamp[0]
        shape = shapes.known.get(what)
        if shape is None and isinstance(what, tuple) and len(what) == 1 and what[0]:  # a new item
            shape = shapes.of_item(what)
        if shape is None or shape.free or shape.wild or ts <= lcv[sender]:
            return False
        lead, truce = self.leads[sender], self.truces[sender]
        if (ts <= lead.end and shape not in lead.shapes.all) or (ts <= truce.end and not truce.permits(shape)):
            return False  # its sender breaks a promise
        if len(stamp) > 1:  # as `_met`; where no types are free nobody asks how much is under way
            missed = self.received.missed(stamp, 1, sender)
            if missed < 0:
                return False
            if shapes.frees:
                self.under_way += (missed << 5) - (self.under_way >> 5)
        self.idle = False
        rank, count = self.rank, self.count
        needed, leader = ts - 1 if sender < rank else ts, self.leader  # Definition 10
        if (ts <= leader.truce.end or ts <= leader.lead.end) and leader.covers(shape, ts, sender):
            self.log.append((sender, ts, shape, True))
            if needed > self.polite:
                self.polite = needed
        else:
            self.log.append((sender, ts, shape, False))
            if leader.near < leader.room:
                leader.room = leader.near
            if needed > self.must:
                self.must = needed
        lcv[sender] = ts
        self.next_keys[sender] = (ts + 1) * count + sender
        if ts > lcv[rank]:  # UR2
            lcv[rank] = ts
            self.next_keys[rank] = (ts + 1) * count + rank
        self.received.delivered[sender] = self.ready[sender] = cast.seq
        self.news = True
        if self.undelivered:
            self.wait((ts * count + sender, sender, cast, shape))
        else:  # a call less
            self.undelivered = 1
            self.lone, self.passed, self.anyone = (ts * count + sender, sender, cast, shape), 0, False
        return True

    def _accept_among_promises(self, sender: int, casts: Sequence[Cast]) -> None:
        """`accept`, not in plain times."""
        self.idle = False
        rank, lcv, shapes = self.rank, self.lcv, self.shapes
        last, tame = lcv[sender], self.tame[sender]
        taken: list[tuple[Cast, Shape, bool]] = []
        for cast in casts:  # all or none of them
            stamp = cast.stamp
            try:
                shape = shapes.of_cast(cast)
            except ConfigError as error:
                raise RemoteProtocolError(f"a message of rank {sender} is none of this group: {error}") from None
            ts = stamp[0] if stamp else -1
            if ts <= last or self.promised or shape.wild:
                self._check(sender, ts, shape, last, tame)
                tame = tame and not shape.wild
            last = ts
            taken.append((cast, shape, len(stamp) == 1 or self._met(sender, stamp)))
        unready = self.unready[sender]
        for cast, shape, met in taken:
            ts = cast.stamp[0]
            if shape.free:
                covered = self.tame[rank] and ts >> BLOCK <= self.mrmt >> BLOCK
            else:
                covered = self.leader.covers(shape, ts, sender)
                self.log.append((sender, ts, shape, covered))
                if not covered:
                    self.leader.room = min(self.leader.room, self.leader.near)
            needed = ts - 1 if sender < rank else ts  # Definition 10
            if covered:
                if needed > self.polite:
                    self.polite = needed
            elif needed > self.must:
                self.must = needed
            lcv[sender] = ts
            self.next_keys[sender] = (ts + 1) * self.count + sender
            if ts > lcv[rank]:  # UR2
                lcv[rank] = ts
                self.next_keys[rank] = (ts + 1) * self.count + rank
            self.received.delivered[sender] = cast.seq
            if not met or unready:
                unready.append(cast)
                self.late += 1
            else:
                self.ready[sender] = cast.seq
                if shape.free and ts < self.calm:
                    self.news = True
                    self.outbox.deliver(sender, cast, (0, ts, self.count * cast.seq + sender))
                    continue
            self._queue(sender, cast, shape)

    def _check(self, sender: int, ts: int, shape: Shape, last: int, tame: bool) -> None:
        """Raise `RemoteProtocolError` unless a cast keeps its sender's promises and follows the timestamp `last`."""
        if ts <= last:
            self._check_increase(sender, ts, last, shape)
        if shape.wild and tame and ts >> BLOCK <= last >> BLOCK:
            raise RemoteProtocolError(f"rank {sender} sends its first wild cast at {ts}, in the block of {last}")
        lead, truce = self.leads[sender], self.truces[sender]
        if ts <= lead.end and shape not in lead.shapes.all and not shape.free:
            raise RemoteProtocolError(f"rank {sender} has promised up to {lead.end} what it breaks at {ts}")
        if ts <= truce.end and not truce.permits(shape):
            raise RemoteProtocolError(f"rank {sender} has promised to spare up to {truce.end} what it meets at {ts}")

    def _queue(self, sender: int, cast: Cast, shape: Shape) -> None:
        if shape.wild:
            self.tame[sender] = False
            self.calm = 0
            self.simple = self.simple and not self.shapes.frees
        if self.gated:
            known = self.known[sender]
            for i in range(1, len(cast.stamp), 2):
                known[cast.stamp[i]] = cast.stamp[i + 1]
            self.past[sender, cast.seq] = tuple(value for pair in enumerate(known) if pair[1] for value in pair)
        self.news = True
        if sender == self.rank:
            self.own += 1
        self.wait((cast.stamp[0] * self.count + sender, sender, cast, shape))
