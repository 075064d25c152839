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

A site acknowledges a cast unless (c) holds without that everywhere. After one that it had to acknowledge it acknowledges the next
ones too, a moment later: nobody waits for that, and the next one that conflicts finds the clocks nearly where they would be in
`single_phase`. With the same clocks it is delivered no later, since Definition 8 implies (a), (b) and (c). Only what jumps over a
promise may be. A batch may be parted into several casts (see `shapes`), a large one only while nothing of its sender waits.

Why it is right: conflicting casts are delivered in the order of their keys wherever both are. Let x conflict with m, have the
smaller key, and come to a process that has delivered m. If (c) held for x's site j by its clock, x had come before, since streams
are FIFO and stamps exceed every clock said before. If it held by a lead, x comes after the lead in its stream with a timestamp
within it, so its shape is one of the lead's, or free and m not wild: it does not conflict with m. If by a truce, x comes after
that and within it: it does not conflict with m's shape. If m is free, x is wild, and the first such of j: its block is after that
of every clock that j said before, and so after m's. So x had come, and (b) let it go first. Keys respect causality, also through
messages that conflict with neither of two: there is one clock, and receiving moves it.

Invariants: whether (a) holds for a cast depends on the casts that are here alone, and nobody delivers one without it, in a
view or at its end; so members with the same casts end a view alike. Above the level `agreed` what (a) asks for is evidence: who
holds a cast that was delivered as safe must be able to deliver it. Positions need not increase where messages passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.clocks import ACK, CATCH_UP_NS, Clocked
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Evidence, Outbox
from isotone.protocol.semantic.leads import Lead, Leader, Numbers
from isotone.protocol.semantic.shapes import LOOKED_AT_MAX, Shape, Shapes
from isotone.protocol.semantic.truces import NAMES_MAX, Truce
from isotone.protocol.semantic.waiting import Entry, Queue, Queues

_MESSAGES = 0
_LEAD = 2
_TRUCE = 3
CONTESTED = 512
"""After a cast that needs an acknowledgement, so many others get one too."""
POLITE_NS = 50_000
"""So late, since nobody waits for it: the cast is handed over first."""
_PATIENCE = 3
BLOCK = 32
"""A block has so many bits of timestamps."""


class SemanticTotal(Clocked):
    """A cast's stamp is [timestamp, *casts received]; an acknowledgement's [clock].

    A lead's is [clock, end, *numbers of shapes], a truce's [clock, end, *(site, number of a shape in its stream)].
    """

    name = "semantic_total"
    semantic = True
    looks = True
    packets = {ACK: "ack", _LEAD: "lead", _TRUCE: "truce"}  # noqa: RUF012
    __slots__ = (  # they lie close together: a turn in a quiet group finds them cold
        "appeared", "calm", "contested", "crowd", "gated", "horizon", "known", "late", "lead_keys", "leader", "leads", "lone",
        "news", "own", "past", "polite", "promised", "queues", "ready", "received", "shapes", "tame", "truce_keys", "truces",
        "undelivered", "unready",
    )  # fmt: skip

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.shapes = Shapes(view.ordering.conflicts)
        self.contested = 0  # so many casts to come are acknowledged though the own promises cover them
        self.polite = 0  # what these ask for, as `must`
        self.received = Dependencies(rank, self.count)
        self.ready = [0] * self.count  # (a) holds for so many casts of each site
        self.unready: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.late = 0  # so many are in these queues
        self.undelivered = 0
        self.own = 0  # so many of these are own ones
        self.lone: Entry | None = None  # the only one; if there are more, all are in the queues
        self.queues = Queues(self.shapes)
        self.horizon = 0  # every site's clock is past the keys below this, and up to it everything is delivered that can be …
        self.news = True  # … unless something came since
        self.crowd = 0  # the mean of that over the last turns, times 32
        self.tame = [self.shapes.frees] * self.count
        self.appeared = [Numbers(site) for site in range(self.count)]
        self.leader = Leader(self.shapes, _PATIENCE * self.count, self.appeared, rank)
        self.leads = [self.leader.lead if site == rank else Lead(self.shapes) for site in range(self.count)]
        self.lead_keys = [0] * self.count
        self.truces = [self.leader.truce if site == rank else Truce(self.shapes) for site in range(self.count)]
        self.truce_keys = [0] * self.count
        self.promised = False  # whether there may be keys of leads or truces ahead of clocks
        self.gated = view.need > 1
        self.calm = 1 << BLOCK if self.shapes.frees and not self.gated else 0  # (b) and (c) hold for free casts before this
        self.known = [[0] * self.count for _ in range(self.count)]  # what each site had received before its last cast
        self.past: dict[tuple[int, int], Evidence] = {}  # and before each that is undelivered; for levels above agreed

    # Sending

    def submit(self, batch: Batch, now: int) -> None:
        count = len(batch.payloads)
        if count == 1 or (self.own and count > LOOKED_AT_MAX):  # who sends so much has to wait for itself anyhow
            self._send(batch)
            return
        for part in self.shapes.split(batch):
            self._send(part)

    def _send(self, batch: Batch) -> None:
        rank, shapes = self.rank, self.shapes
        column = batch.items if shapes.by_items else batch.types
        shape = None
        if column is not None and len(column.values) == 1 and batch.number != 0:
            shape = shapes.known.get(column.values[0])
        if shape is None:
            shape = shapes.of(len(batch.payloads), batch.types, batch.items) if batch.number != 0 else shapes.whole
        clock = self.lcv[rank]
        ts = clock + 1
        if not shape.free:
            if shape.wild and self.tame[rank]:
                ts = (clock >> BLOCK) + 1 << BLOCK
            ts = self.leader.stamp(shape, ts)
            if ts > clock + 1:
                self.outbox.note("jumps")
        self.lcv[rank] = self.mrmt = ts
        self.next_keys[rank] = (ts + 1) * self.count + rank
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.received.difference()], batch)
        self.ready[rank] = self.received.delivered[rank] = cast.seq
        if shape.free and ts < self.calm:
            self.outbox.deliver(rank, cast, (0, ts, rank))
        else:
            self._queue(rank, cast, shape)

    def turn(self, now: int) -> None:
        """Deliver what can be; say at most one thing: a lead, which tells the clock too, or an acknowledgement that is owed.

        Few calls: in a quiet group every function that a turn finds cold costs as much as its work.
        """
        if self.news and self.undelivered:
            lone = self.lone
            if lone is None or self.promised or self.late or lone[3].free:
                self._advance()
            else:
                self.news = False
                self.horizon = past = min(self.next_keys)
                if lone[0] < past:
                    self.lone = None
                    self._deliver(lone[1], lone[2])
        leader, clock, mean = self.leader, self.lcv[self.rank], self.crowd >> 5
        if self.undelivered or mean:
            self.crowd += self.undelivered - mean
            if mean > 1:
                leader.patience = max(_PATIENCE * self.count, mean >> 1)  # a jump holds up what is under way
        if leader.stirred:
            self._consider(clock)
        if self.mrmt < self.must:
            self._say("acks")
        if self.mrmt >= clock:
            self.catch_up_at = None
        elif self.mrmt < self.polite:
            if self.catch_up_at is None or self.catch_up_at > now + POLITE_NS:
                self.catch_up_at = now + POLITE_NS
        elif self.contested and self.catch_up_at is None:
            self.catch_up_at = now + CATCH_UP_NS

    def _consider(self, clock: int) -> None:
        """Promise something if that is worth while."""
        leader = self.leader
        if leader.due(clock) and (lead := leader.announce(clock)) is not None:
            self._promise(_LEAD, lead, "leads")
        elif leader.truce_due(clock) and (truce := leader.announce_truce(clock)) is not None:
            self._promise(_TRUCE, truce, "truces")
        leader.stirred = False

    def _promise(self, kind: int, what: list[int], note: str) -> None:
        self.mrmt = self.lcv[self.rank]
        self.contested = 0  # what came before this could not be covered
        self.outbox.direct(kind, [self.mrmt, *what])
        self.outbox.note(note)

    # Receiving

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        rank, lcv, shapes = self.rank, self.lcv, self.shapes
        last, tame = lcv[sender], self.tame[sender]
        taken: list[tuple[Cast, Shape, bool]] = []
        for cast in casts:  # all or none of them
            stamp = cast.stamp
            column = cast.items if shapes.by_items else cast.types
            shape = shapes.known.get(column.values[0]) if column is not None and len(column.values) == 1 and cast.number else None
            if shape is None:
                try:
                    shape = shapes.of(len(cast.payloads), cast.types, cast.items) if cast.number else shapes.whole
                except ConfigError as error:
                    raise RemoteProtocolError(f"a message of rank {sender} is none of this group: {error}") from None
            ts = stamp[0] if stamp else 0
            if ts <= last or self.promised or shape.wild:
                self._check(sender, ts, shape, last, tame)
                tame = tame and not shape.wild
            last = ts
            taken.append((cast, shape, len(stamp) == 1 or self.received.met(stamp, 1)))
        unready = self.unready[sender]
        for cast, shape, met in taken:
            ts = cast.stamp[0]
            if shape.free:
                covered = self.tame[rank] and ts >> BLOCK <= self.mrmt >> BLOCK
            else:
                covered = self.leader.covers(shape, ts, sender)
            needed = ts - 1 if sender < rank else ts  # Definition 10
            if covered:
                if self.contested:
                    self.contested -= 1
                    self.polite = max(self.polite, needed)
            else:
                if needed > self.must:
                    self.must = needed
                if not (lcv[rank] < self.leader.lead.end < ts or lcv[rank] < self.leader.truce.end < ts):  # it has not jumped
                    self.contested = CONTESTED
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
                    self.outbox.deliver(sender, cast, (0, ts, sender))
                    continue
            self._queue(sender, cast, shape)

    def _check(self, sender: int, ts: int, shape: Shape, last: int, tame: bool) -> None:
        """Raise `RemoteProtocolError` unless a cast keeps its sender's promises and follows the timestamp `last`."""
        if ts <= last:
            raise RemoteProtocolError(f"timestamps of rank {sender} do not increase: {ts} after {last}")
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
        if record.kind == _LEAD:
            self._follow(sender, stamp)
        elif record.kind == _TRUCE:
            self._agree(sender, stamp)
        elif record.kind != ACK or len(stamp) != 1:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self.lcv[sender] = stamp[0]
        if self.promised or self.next_keys[sender] == self.horizon:  # or others hold up what waits
            self.news = True
        self.next_keys[sender] = (stamp[0] + 1) * self.count + sender

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
        numbers = self.appeared[sender]
        if shape is not numbers.last and not shape.free and shape is not self.shapes.whole:
            now = self.promised or self.leader.truce.names  # a truce may have named it
            if now or not numbers.later(shape):
                self._appear(sender, shape)
        if self.gated:
            known = self.known[sender]
            for i in range(1, len(cast.stamp), 2):
                known[cast.stamp[i]] = cast.stamp[i + 1]
            self.past[sender, cast.seq] = tuple(value for pair in enumerate(known) if pair[1] for value in pair)
        self.news = True
        entry = cast.stamp[0] * self.count + sender, sender, cast, shape
        self.undelivered += 1
        if sender == self.rank:
            self.own += 1
        if self.undelivered == 1:
            self.lone = entry
            return
        if self.lone is not None:
            self._line_up()
        self.queues.put(entry)

    def _appear(self, sender: int, shape: Shape) -> None:
        """A shape comes in the stream of a site, and gets its number."""
        numbers, spared = self.appeared[sender], self.leader.truce.names
        number = numbers.see(shape)
        if number and (self.promised or spared):
            for truce in self.truces:
                if truce.names:
                    truce.appears((sender, number), shape)
            if (sender, numbers.forgotten) in spared:
                self.must = max(self.must, self.lcv[self.rank])  # who gets the truce only now does not find it

    def _line_up(self) -> None:
        """The cast that was alone is so no more."""
        if self.lone is not None:
            self.queues.put(self.lone)
            self.lone = None

    # Delivering

    def _advance(self) -> None:
        self.horizon = past = min(self.next_keys)
        best = past
        if self.promised:
            keys = list(map(max, self.next_keys, self.lead_keys, self.truce_keys))  # promises end there
            best, self.promised = min(keys), keys != self.next_keys
        self.news = False
        if self.late:
            self._find_ready()
        if self.lone is None:
            self._advance_all(past, best)
            return
        key, sender, cast, shape = self.lone
        if shape.free:
            self.news = True  # the horizon is not all that counts
        if shape.free:
            past = self._limit(shape)
        elif past <= key < best and self._passed(shape, key):
            past = best
        if key < past and cast.seq <= self.ready[sender]:
            self.lone = None
            self._deliver(sender, cast)

    def _advance_all(self, past: int, best: int) -> None:
        work = list(self.queues.of.values())
        while work:
            one = work.pop()
            shape, entries = one.shape, one.entries
            if not entries:
                continue
            if shape.free:
                self.news = True  # the horizon is not all that counts
            elif entries[0][0] >= best:
                continue
            limit = self._limit(shape) if best > past or shape.free else past
            for rival in one.rivals.values():
                if rival.entries and rival.entries[0][0] < limit:
                    limit = rival.entries[0][0]
            if entries[0][0] < limit and self._release(one, limit):
                work += one.rivals.values()

    def _find_ready(self) -> None:
        """Rule (a). A site's casts become ready in the order it sent them, since what it has received does not become less."""
        for sender, queue in enumerate(self.unready):
            while queue and self.received.satisfied(queue[0].stamp, 1):
                self.ready[sender] = queue.popleft().seq
                self.late -= 1

    def _passed(self, shape: Shape, key: int) -> bool:
        """Rule (c) for one cast that is not free."""
        for site, clock in enumerate(self.next_keys):
            if clock > key:
                continue
            if self.lead_keys[site] > key and self.leads[site].covers(shape):
                continue
            if self.truce_keys[site] <= key or shape not in self.truces[site].shapes.all:
                return False
        return True

    def _limit(self, shape: Shape) -> int:
        """Rule (c) for all casts of a shape: the smallest key that may still come and conflict with them."""
        limit = 1 << 200
        for site, key in enumerate(self.next_keys):
            if shape.free and self.tame[site]:
                key = ((self.lcv[site] >> BLOCK) + 1 << BLOCK) * self.count + site
            if self.lead_keys[site] > key and self.leads[site].covers(shape):
                key = self.lead_keys[site]
            if self.truce_keys[site] > key and shape in self.truces[site].shapes.all:
                key = self.truce_keys[site]
            limit = min(limit, key)
        return limit

    def _release(self, one: Queue, limit: int) -> bool:
        """Deliver the ready casts of a shape below a key; in their order if they conflict with each other."""
        kept: list[Entry] = []
        done = 0
        for entry in one.entries:
            key, sender, cast, _ = entry
            if key >= limit:
                break
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast)
            elif self.shapes.conflict(one.shape, one.shape):
                break
            else:
                kept.append(entry)
            done += 1
        one.entries[:done] = kept
        return done > len(kept)

    def _deliver(self, sender: int, cast: Cast) -> None:
        self.undelivered -= 1
        if sender == self.rank:
            self.own -= 1
        evidence = self.past.pop((sender, cast.seq)) if self.gated else None
        self.outbox.deliver(sender, cast, (0, cast.stamp[0], sender), evidence)

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        self._find_ready()
        self._line_up()
        for _, sender, cast, _ in sorted(entry for one in self.queues.of.values() for entry in one.entries):
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast)
        self.queues.of.clear()
        return []
