"""`single_phase`: total and causal order from logical clocks in one phase (paper 003).

State and rules carry the paper's names: LCV is the logical clock vector (Definition 6), PMQ the queue of pending messages
(Definition 5), MRMT the timestamp most recently multicast (Definition 9). A batch has one timestamp, given when it enters the
stream, and the order is (timestamp, site, index). Option `protocol` 1 acknowledges every operation (§4.3), 2 only when
needed (§5); `sites = "dynamic"` uses f(site, ts) = (site + ts) mod N in every comparison (§3).

Definition 6 applies the clock rule UR2 to acknowledgements too, the listings of both protocols only to operations. Here
the listings hold: an acknowledgement only says what its sender's clock is. Safety rests on a site's stamps exceeding
every clock value that it has announced, which both readings give; the bounds are the listings' own (an acknowledgement
never has a larger timestamp than the operation that it answers or one that its sender knew, so it needs no answer).

Beyond the paper: a site that Definition 10 let keep silent catches up a moment later (`idle = "catch_up"`, see `clocks`), which
saves a quarter to a half of the acknowledgements on the way of a message in a quiet group. An operation still causes at most one
acknowledgement per site. `idle = "silent"` is Protocol 2 as printed. `acks = "gathered"` is Protocol 2 for point-to-point
networks, see `gathering`.

Stability (Definition 8) is one comparison: the smallest (timestamp, site) that any site may still use is the horizon, and what is
below it is stable. For i < m.site: m.ts < LCV[i] + 1, that is m.ts ≤ LCV[i]; for i > m.site: m.ts ≤ LCV[i] + 1.

The order is intrinsic: at the end of a view the rest is delivered sorted, except what depends on a cast that no member of this
component holds; components cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.clocks import ACK, Clocked
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.gathering import Claims, Collector
from isotone.protocol.ordering.orderer import Batch, Outbox

_MESSAGES = 0
_GATHERED = 2


class SinglePhase(Clocked):
    """A cast's stamp is [timestamp, *dependencies]; an acknowledgement's is [timestamp]."""

    name = "single_phase"
    options = {  # noqa: RUF012
        "protocol": (2, 1),
        "sites": ("static", "dynamic"),
        "idle": ("catch_up", "silent"),
        "acks": ("multicast", "gathered"),
    }
    packets = {ACK: "ack", _GATHERED: "gathered"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        self.dynamic = view.ordering.options.get("sites") == "dynamic"  # the keys depend on it
        super().__init__(outbox, view, rank, seed)
        self.always = self.option("protocol") == 1
        self.gathers = self.option("acks") == "gathered" and not self.always
        self.catches_up = self.option("idle") == "catch_up" and not self.gathers
        self.pmq: list[tuple[int, int, Cast]] = []
        self.owed = False  # Protocol 1: an operation came since the last acknowledgement
        self.dependencies = Dependencies(rank, self.count)
        self.claims = Claims(self.count)
        self.collector = Collector(rank, self.count)

    def _site(self, ts: int, site: int) -> int:
        return (site + ts) % self.count if self.dynamic else site

    def _key(self, ts: int, site: int) -> int:
        return ts * self.count + self._site(ts, site)

    def _clock(self, site: int, ts: int) -> None:
        self.lcv[site] = ts
        self.next_keys[site] = self._key(ts + 1, site) if self.dynamic else (ts + 1) * self.count + site

    def submit(self, batch: Batch, now: int) -> None:
        ts = self.lcv[self.rank] + 1  # UR1
        self._clock(self.rank, ts)
        cast = self.outbox.multicast(_MESSAGES, [ts, *self.dependencies.difference()], batch)
        self.mrmt = ts
        self.claims.seen[self.rank] = cast.seq
        heappush(self.pmq, (self._key(ts, self.rank), self.rank, cast))
        self._deliver_stable()

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        rank, lcv = self.rank, self.lcv
        last = lcv[sender]
        for cast in casts:
            stamp = cast.stamp
            if not stamp or stamp[0] <= last:
                raise RemoteProtocolError(f"timestamps of rank {sender} do not increase: {stamp[:1]} after {last}")
            if len(stamp) > 1:
                self.dependencies.check(stamp, 1, sender)
            last = stamp[0]
        for cast in casts:
            ts = cast.stamp[0]
            self._clock(sender, ts)
            if ts > lcv[rank]:
                self._clock(rank, ts)  # UR2
            if self.dynamic:
                key = self._key(ts, sender)
                before = key < self._key(ts, rank)
            else:
                key = ts * self.count + sender
                before = sender < rank
            need = ts - 1 if before else ts  # Definition 10
            if self.gathers:
                self.collector.operation((sender - 1) % self.count, key, need)
                claimed = self.claims.arrived(sender, cast.seq)
                if claimed > ts:
                    self._clock(sender, claimed)
            elif need > self.must:
                self.must = need
            heappush(self.pmq, (key, sender, cast))
        self.owed = True
        self._deliver_stable()

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp = record.stamp
        if record.kind == _GATHERED and self.gathers and len(stamp) == 2 * self.count and min(stamp) >= 0:
            self._gathered(sender, stamp)
        elif record.kind == ACK and len(stamp) == 1 and (self.gathers or stamp[0] >= self.lcv[sender]):
            if stamp[0] > self.lcv[sender]:
                self._clock(sender, stamp[0])
                self.collector.news = True
        else:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self._deliver_stable()

    def _gathered(self, sender: int, stamp: list[int]) -> None:
        """A collector tells what it knows of all clocks, of its own too."""
        for site in range(self.count):
            clock, casts = stamp[2 * site], stamp[2 * site + 1]
            if site == self.rank:
                self.mrmt = max(self.mrmt, min(clock, self.lcv[self.rank]))
            elif clock > self.lcv[site] and self.claims.ripe(site, clock, casts):
                self._clock(site, clock)

    def turn(self, now: int) -> None:
        """At most one acknowledgement per turn, with the final clock; a batch sent in this turn has said it already."""
        if self.gathers:
            self._turn_gathering()
        elif self.mrmt < self.must or (self.always and self.owed):
            self._say("acks")
        self.owed = False
        self._plan_catching_up(self.catches_up, now)

    def _turn_gathering(self) -> None:
        collector, clock = self.collector, self.lcv[self.rank]
        if collector.closed(min(self.next_keys), self.mrmt):
            collector.news = False
            self.mrmt = clock
            seen = self.claims.seen
            self.outbox.direct(_GATHERED, [value for pair in zip(self.lcv, seen, strict=True) for value in pair])
            self.outbox.note("gathered")
        for to in collector.to_tell(clock, self.mrmt):
            self.outbox.direct(ACK, [clock], to)
            self.outbox.note("acks")

    def _deliver_stable(self) -> None:
        pmq = self.pmq
        if not pmq:
            return
        horizon = min(self.next_keys)
        while pmq and pmq[0][0] < horizon:
            _, sender, cast = heappop(pmq)
            self._deliver(sender, cast)

    def _deliver(self, sender: int, cast: Cast) -> None:
        ts = cast.stamp[0]
        self.dependencies.delivered[sender] = cast.seq
        self.outbox.deliver(sender, cast, (0, ts, self._site(ts, sender)))

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        incomplete: set[int] = set()
        for _, sender, cast in sorted(self.pmq):
            if sender in incomplete or not self.dependencies.satisfied(cast.stamp, 1):
                incomplete.add(sender)
            else:
                self._deliver(sender, cast)
        self.pmq.clear()
        return []
