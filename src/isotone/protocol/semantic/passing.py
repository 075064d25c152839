"""What waits in `semantic_total`, and who may pass: rules (a), (b) and (c) of `total` for each cast that is here.

There are two ways of waiting. In *plain* times nobody has promised anything: all wait for the clocks alone, in one heap in the
order of keys, as in `single_phase`, and what a cast is nobody asks. At other times there is a queue per shape (see `waiting`).

Plain is sound since Definition 8 for all sites, which the horizon says, implies (a), (b) and (c): no cast with a smaller key can
come any more, but for free ones, which conflict with none of these, and what the sender had received has smaller keys. It is no
later than the queues as long as no promise lies ahead of a clock: then (c) is Definition 8. Free casts are not in the heap: they
are delivered where they come. So where there are any, (a) holds for all in the heap, or plain times end: a free one may follow
one of its sender that knows of something missing.

Invariants: in plain times the queues, `lone` and `unready` are empty, `ready` says nothing, no promise of another site reaches
beyond its clock and no own one beyond what this site has said; at other times the heap is empty.
"""

from __future__ import annotations

from collections import deque

from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.ordering.clocks import Clocked
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Evidence, Outbox
from isotone.protocol.semantic.leads import Lead
from isotone.protocol.semantic.shapes import Shape, Shapes
from isotone.protocol.semantic.truces import Truce
from isotone.protocol.semantic.waiting import KEY, Entry, Queue, Queues

BLOCK = 32
"""A block has so many bits of timestamps."""


class Passing(Clocked):
    """The casts that wait for their delivery, and what lets them go."""

    __slots__ = (  # they lie close together: a turn in a quiet group finds them cold
        "anyone", "gated", "heap", "horizon", "late", "lead_keys", "leads", "lone", "news", "own", "passed", "past", "plain",
        "promised", "queues", "ready", "received", "shapes", "simple", "tame", "truce_keys", "truces", "undelivered", "unready",
    )  # fmt: skip

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.shapes = Shapes(view.ordering.conflicts)
        self.gated = view.need > 1
        relation = self.shapes.relation
        self.simple = not self.gated and (relation is None or relation.by != "predicate")  # whether there may be plain times
        self.plain = self.simple
        self.heap: list[tuple[int, int, Cast]] = []  # in plain times: keys, sites, casts
        self.received = Dependencies(rank, self.count)
        self.ready = [0] * self.count  # (a) holds for so many casts of each site
        self.unready: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.late = 0  # so many are in these queues
        self.undelivered = 0
        self.own = 0  # so many of these are own ones
        self.lone: Entry | None = None  # the only one; if there are more, or it is free, all are in the queues
        self.passed = 0  # so many sites, from the first, are past it, and stay so
        self.queues = Queues(self.shapes)
        self.horizon = 0  # what waits, waits for the clock of the site that may still use this key …
        self.anyone = False  # … or for any site's
        self.news = True  # whether anything came since that may let something go
        self.tame = [self.shapes.frees] * self.count
        self.leads = [Lead(self.shapes) for _ in range(self.count)]
        self.lead_keys = [0] * self.count
        self.truces = [Truce(self.shapes) for _ in range(self.count)]
        self.truce_keys = [0] * self.count
        self.promised = False  # whether there may be keys of leads or truces ahead of clocks
        self.past: dict[tuple[int, int], Evidence] = {}  # what each sender had received; for levels above agreed

    def unfold(self) -> None:
        """Plain times are over: what waits is sorted by what it is, and (a) is asked again."""
        self.plain = False
        self.news = True
        self.ready = self.received.delivered[:]
        heap, self.heap = sorted(self.heap), []
        self.undelivered = 0
        for key, sender, cast in heap:
            unready = self.unready[sender]
            if unready or not self.received.satisfied(cast.stamp, 1):
                if not unready:
                    self.ready[sender] = cast.seq - 1
                unready.append(cast)
                self.late += 1
            self.wait((key, sender, cast, self.shapes.of_cast(cast)))

    def wait(self, entry: Entry) -> None:
        """A cast has to wait, not in plain times."""
        self.undelivered += 1
        if self.undelivered == 1 and not entry[3].free:
            self.lone = entry
            self.passed = 0
            self.anyone = False
            return
        if self.lone is not None:
            self._line_up()
        self.queues.put(entry)

    def _line_up(self) -> None:
        """The cast that was alone is so no more."""
        if self.lone is not None:
            self.queues.put(self.lone)
            self.lone = None

    def advance(self) -> None:
        """Deliver what can be, not in plain times; there is something that waits."""
        self.news = False
        lone = self.lone
        if self.late:
            self._find_ready()
        if lone is None:
            self._advance()
            return
        key, sender, cast, shape = lone
        if self.late and cast.seq > self.ready[sender]:
            self.horizon = 0
            return
        next_keys = self.next_keys
        if min(next_keys) < key:
            for site in range(self.passed, self.count):  # rule (c), as in `_limit`, up to the first site that is not past it
                if next_keys[site] > key or (self.lead_keys[site] > key and self.leads[site].covers(shape)):
                    continue
                if self.truce_keys[site] <= key or shape not in self.truces[site].shapes.all:
                    self.passed, self.horizon = site, next_keys[site]
                    return
        self.lone = None
        if self.gated:
            self._deliver(sender, cast)
            return
        self.undelivered = 0  # as `_deliver`, with a call less
        if sender == self.rank:
            self.own = 0
        self.outbox.deliver(sender, cast, (0, cast.stamp[0], sender))

    def _advance(self) -> None:
        self.horizon = past = best = min(self.next_keys)
        if self.promised:
            best = min(map(max, self.next_keys, self.lead_keys, self.truce_keys))  # promises end there
        self.anyone = best > past
        work = list(self.queues.of.values())
        while work:
            one = work.pop()
            shape, entries = one.shape, one.entries
            if not entries:
                continue
            if shape.free:
                self.anyone = True
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
                self._deliver(sender, cast, one.shape.free)
            elif self.shapes.conflict(one.shape, one.shape):
                break
            else:
                kept.append(entry)
            done += 1
        one.entries[:done] = kept
        return done > len(kept)

    def _deliver(self, sender: int, cast: Cast, free: bool = False) -> None:
        self.undelivered -= 1
        if sender == self.rank:
            self.own -= 1
        evidence = self.past.pop((sender, cast.seq)) if self.gated else None
        ts = cast.stamp[0]
        place = self.count * cast.seq + sender if free and not ts >> BLOCK else sender
        self.outbox.deliver(sender, cast, (0, ts, place), evidence)

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        if self.plain:
            self.unfold()
        self._find_ready()
        self._line_up()
        for _, sender, cast, shape in sorted((entry for one in self.queues.of.values() for entry in one.entries), key=KEY):
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast, shape.free)
        self.queues.of.clear()
        return []
