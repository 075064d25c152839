"""`semantic_total`: conflicting messages in one total and causal order, others as soon as possible (papers 002 and 003).

The order is that of `single_phase`: one logical clock for all messages whatever they are, keys (timestamp, site),
acknowledgements by Protocol 2. Only what holds a cast m back is less. It is delivered when

(a) everything that its sender had received before it is here (stamps say so as differences, like those of `causal`),
(b) no cast is here, undelivered, that conflicts with it and has a smaller key,
(c) every other site j is past it: Definition 8 holds for j's clock, or j has a lead (see `leads`) that reaches m's timestamp
    and covers m, or a truce (see `truces`) that reaches it and spares m, or m is free, j is tame, and j's clock is in the block
    of m's timestamp or a later one.

Free casts conflict with nothing but wild ones (see `shapes`). Timestamps are parted into blocks; a site is tame until it sends
its first wild cast, for which it goes to the next block. So all members promise from the start what free casts need.

In *plain* times, while no promise lies ahead of what its giver has said, (a), (b) and (c) are Definition 8, and nobody looks at
what a cast is but to see that it is one of this group (see `passing`). They end before anybody gives a promise or follows one:
then all that came is numbered first, so that members mean the same shapes. They begin again when nothing waits.

A site acknowledges as in `single_phase`, at once if somebody may wait for that, otherwise when it has handed over what came. So
the next cast that conflicts finds the clocks where they would be there. With the same clocks it is delivered no later, since
Definition 8 implies (a), (b) and (c). Only what jumps over a promise may be. A batch may be parted into several casts (see
`shapes`), a large one only while nothing of its sender waits.

Why it is right: conflicting casts are delivered in the order of their keys wherever both are. Let x conflict with m, have the
smaller key, and come to a process that has delivered m. If (c) held for x's site j by its clock, x had come before, since streams
are FIFO and stamps exceed every clock said before; or x is quiet, and then m is wild, so in a later block than x, and j had said
at least the last clock of the first block, with which nobody is quiet. If it held by a lead, x comes after the lead in its stream
with a timestamp within it, so its shape is one of the lead's, or free and m not wild: it does not conflict with m. If by a truce,
x comes after that and within it: it does not conflict with m's shape. If m is free, x is wild, and the first such of j: its block
is after that of every clock that j said before, and so after m's. So x had come, and (b) let it go first. Keys of casts that
conflict respect causality, also through messages that conflict with neither of two: there is one clock, all casts say it, and
receiving moves it. Among quiet casts, which share a timestamp, keys say nothing of causality.

A cast's position is (timestamp, site); that of a free one of the first block (timestamp, N · its number + its site), behind all
others of that timestamp, since quiet ones share it.

Invariants: whether (a) holds for a cast depends on the casts that are here alone, and nobody delivers one without it, in a
view or at its end; so members with the same casts end a view alike. Above the level `agreed` what (a) asks for is evidence: who
holds a cast that was delivered as safe must be able to deliver it. Positions need not increase where messages passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.clocks import ACK, CATCH_UP_NS
from isotone.protocol.ordering.orderer import Batch, Outbox
from isotone.protocol.semantic.leads import SOON, Leader, Numbers
from isotone.protocol.semantic.passing import BLOCK, Passing
from isotone.protocol.semantic.shapes import LOOKED_AT_MAX, Shape, Sketch
from isotone.protocol.semantic.truces import NAMES_MAX

_MESSAGES = 0
_LEAD = 2
_TRUCE = 3
_PATIENCE = 3
BUSY = 307
"""Where more is under way than this, 0.3 casts, free ones move the clock. Times 1024."""


class SemanticTotal(Passing):
    """A cast's stamp is [timestamp, *casts received]; an acknowledgement's [clock].

    A lead's is [clock, end, *numbers of shapes], a truce's [clock, end, *(site, number of a shape in its stream)].
    """

    name = "semantic_total"
    semantic = True
    looks = True
    packets = {ACK: "ack", _LEAD: "lead", _TRUCE: "truce"}  # noqa: RUF012
    __slots__ = (
        "appeared", "at_leisure", "calm", "crowd", "crowded", "idle", "known", "leader", "log", "polite", "study_at", "under_way",
    )  # fmt: skip

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.idle = False  # nothing but acknowledgements came since the last turn
        self.at_leisure = False  # the next turn was made by the deadline for learning
        self.study_at: int | None = None
        self.polite = 0  # what casts ask for that the own promises cover, as `must`
        self.under_way = 0  # of how many casts that are here the senders of others did not know yet, the mean, times 1024
        self.crowd = 0  # the mean of what waits over the last turns, times 32
        self.crowded = False  # whether it was large, and has not become small since
        self.appeared = [Numbers() for _ in range(self.count)]
        self.leader = Leader(self.shapes, _PATIENCE * self.count, self.appeared, self.truces, rank)
        self.log = self.leader.log
        self.leads[rank], self.truces[rank] = self.leader.lead, self.leader.truce
        self.calm = 1 << BLOCK if self.shapes.frees and not self.gated else 0  # (b) and (c) hold for free casts before this
        self.known = [[0] * self.count for _ in range(self.count)]  # what each site had received before its last cast

    # Sending

    def submit(self, batch: Batch, now: int) -> None:
        count = len(batch.payloads)
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
        self.idle = False
        rank, shapes = self.rank, self.shapes
        shape = shapes.of_batch(batch)
        clock = self.lcv[rank]
        ts = clock + 1
        if not shape.free:
            if shape.wild and self.tame[rank]:
                ts = (clock >> BLOCK) + 1 << BLOCK
            ts = self.leader.stamp(shape, ts)
            if ts > clock + 1:
                self.outbox.note("jumps")
        elif ts < self.calm and self.under_way < BUSY:
            ts = clock
        self.lcv[rank] = self.mrmt = ts
        self.next_keys[rank] = (ts + 1) * self.count + rank
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.received.difference()], batch)
        self.ready[rank] = self.received.delivered[rank] = cast.seq
        if shape.free and ts < self.calm:
            self.outbox.deliver(rank, cast, (0, ts, self.count * cast.seq + rank))
        else:
            self._queue(rank, cast, shape)

    def turn(self, now: int) -> None:
        """Deliver what can be, and say what somebody waits for.

        Few calls: in a quiet group every function that a turn finds cold costs as much as its work. So what can wait until a cast
        has gone its way everywhere is done in a later turn (see `_study`).
        """
        waits = self.undelivered
        if waits and self.news:
            if self.plain:
                self.news = False
                self.horizon = past = min(self.next_keys)
                heap = self.heap
                while heap and heap[0][0] < past:
                    _, sender, cast = heappop(heap)
                    self._deliver(sender, cast)
            else:
                self.advance()
        if self.idle:
            return
        leader, clock, mean = self.leader, self.lcv[self.rank], self.crowd >> 5
        heard = len(self.log)
        if self.at_leisure or heard >= leader.most:
            self._study(clock)
        elif self.study_at is None and (
            heard >= leader.room
            or heard >= SOON
            or leader.stirred
            or (not self.promised and not self.plain and self._may_be_plain())
        ):
            self.study_at = now
        if waits or mean:
            self.crowd += self.undelivered - mean
            if mean > 1 or self.crowded:
                self._look_at_crowd(mean)
        if self.mrmt < self.must:
            self._say("acks")
        if self.mrmt >= clock:
            self.catch_up_at = None
        elif self.mrmt < self.polite:
            self.catch_up_at = now  # as soon as what came is handed over
        elif self.catch_up_at is None:
            self.catch_up_at = now + CATCH_UP_NS
        self.idle = self.crowd < 64

    def _look_at_crowd(self, mean: int) -> None:
        """So many have waited on average over some turns, or did until now; one or less is no crowd."""
        leader = self.leader
        if mean > 1:
            leader.patience = max(_PATIENCE * self.count, mean >> 1)  # a jump holds up what is under way
            self.crowded = self.crowded or mean >= self.count
        else:
            self.crowded = False
            if self.plain:  # it has dispersed by itself: what was learned from it says little about quiet times
                leader.learn()
                leader.forget()

    def deadline(self) -> int | None:
        if self.study_at is None or (self.catch_up_at is not None and self.catch_up_at < self.study_at):
            return self.catch_up_at
        return self.study_at

    def wake(self, now: int) -> None:
        if self.study_at is not None and self.study_at <= now:
            self.study_at = None
            self.at_leisure = True
            self.idle = False
            if self.catch_up_at is None or now < self.catch_up_at:
                return
        super().wake(now)

    def _study(self, clock: int) -> None:
        """Learn from what came, promise something if that is worth while; and see whether plain times begin."""
        leader = self.leader
        self.at_leisure = False
        leader.learn()
        if leader.stirred:
            leader.stirred = False
            if leader.due(clock) and (lead := leader.announce(clock)) is not None:
                self._promise(_LEAD, lead, "leads")
            elif leader.truce_due(clock) and (truce := leader.announce_truce(clock)) is not None:
                self._promise(_TRUCE, truce, "truces")
        if not self.plain:
            self.promised = list(map(max, self.next_keys, self.lead_keys, self.truce_keys)) != self.next_keys
            if not self.promised and self._may_be_plain():
                self.plain = True
                self.anyone = False

    def _may_be_plain(self) -> bool:
        """Whether plain times may begin, unless others have promised something: nothing waits, and own promises are over."""
        ends = max(self.leader.lead.end, self.leader.truce.end)
        return self.simple and not self.undelivered and self.mrmt >= ends

    def _promise(self, kind: int, what: list[int], note: str) -> None:
        if self.plain:
            self.unfold()
        self.mrmt = self.lcv[self.rank]
        self.outbox.direct(kind, [self.mrmt, *what])
        self.outbox.note(note)

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
        if column is None or not cast.number or len(column.values) != 1 or not stamp or self.gated or self.unready[sender]:
            return False
        shape, ts = shapes.known.get(column.values[0]), stamp[0]
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

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp = record.stamp
        if not stamp or stamp[0] < self.lcv[sender]:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        if record.kind != ACK:
            self._hear(sender, record)
        elif len(stamp) != 1:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self.lcv[sender] = stamp[0]
        if self.undelivered and (self.anyone or self.next_keys[sender] == self.horizon):  # or others hold up what waits
            self.news = True
        self.next_keys[sender] = (stamp[0] + 1) * self.count + sender

    def _hear(self, sender: int, record: Direct) -> None:
        """Another site promises something."""
        self.idle = False
        self.news = True
        self.leader.learn()  # whoever speaks of a number finds the same ones as all others
        if self.plain:
            self.unfold()
        if record.kind == _LEAD:
            self._follow(sender, record.stamp)
        elif record.kind == _TRUCE:
            self._agree(sender, record.stamp)
        else:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")

    def _follow(self, sender: int, stamp: list[int]) -> None:
        """Another site leads."""
        lead = self.leads[sender]
        shapes = {shape: None for number in stamp[2:] if (shape := self.appeared[sender].shape(number)) is not None}
        if len(stamp) < 2 or len(shapes) != len(stamp) - 2 or not max(stamp[0], lead.end) <= stamp[1]:
            raise RemoteProtocolError(f"malformed lead from rank {sender}")
        if lead.end > stamp[0] and not all(shape in lead.shapes.all for shape in shapes):
            raise RemoteProtocolError(f"rank {sender} takes back what it has promised up to {lead.end}")
        lead.give(stamp[1], shapes)
        self.lead_keys[sender] = (lead.end + 1) * self.count + sender
        self.promised = True

    def _agree(self, sender: int, stamp: list[int]) -> None:
        """Another site promises a truce."""
        truce, names = self.truces[sender], list(zip(stamp[2::2], stamp[3::2], strict=False))
        if len(stamp) < 4 or len(stamp) % 2 or len(names) > NAMES_MAX or not max(stamp[0], truce.end) <= stamp[1]:
            raise RemoteProtocolError(f"malformed truce from rank {sender}")
        if not all(0 <= site < self.count and site != sender and number > 0 for site, number in names):
            raise RemoteProtocolError(f"rank {sender} spares what is nobody's")
        if truce.end > stamp[0] and not truce.names.keys() <= set(names):
            raise RemoteProtocolError(f"rank {sender} no longer spares what it has promised to up to {truce.end}")
        truce.give(stamp[1], {name: truce.names.get(name) or self.appeared[name[0]].shape(name[1]) for name in names})
        self.truce_keys[sender] = (truce.end + 1) * self.count + sender
        self.promised = True

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
