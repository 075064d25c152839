"""`token`: a moving sequencer. The member that holds the token numbers the messages, in one cast that also passes it on (001).

Messages are multicast as they are. The holder numbers those that it has and that nobody numbered; the cast that says so
names the next holder, so the flush covers the order and the token alike. A member takes the token only when it holds
every message numbered so far (§3), so the token's path proves who holds what: the levels `k` and `safe` need no reports
(§4.2). An idle ring is quiet: the token rests where it is once enough members have taken it, and since messages come to its
holder directly it is awake at once.

The order is extrinsic. When the view ends, members deliver the hops that no other component can have declared void; the
unnumbered rest is delivered sorted only if nobody elsewhere can have numbered it or will: no other ring can have been
decided, and the member that would make the next hop is here. Otherwise own messages are returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox
from isotone.protocol.ordering.token.chain import Chain, Hop, Ring
from isotone.protocol.ordering.token.ring import BALLOT, FREEZE, RING, Changes, check_ring

_MESSAGES = 0
_TOKEN = 1
_FETCH = 5
_PATIENCE = 2
_ORDERED = 4096


class Token(Orderer):
    """A hop's stamp is [ring, hop, next holder, *pairs (rank, count)]: the next `count` messages of that member are next.

    Positions are (0, 0, number) for what was numbered and (0, 1 + rank, seq) for the sorted rest.
    """

    name = "token"
    overtakes = True
    packets = {_TOKEN: "token", FREEZE: "freeze", RING: "ring", BALLOT: "ballot", _FETCH: "fetch"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.need = view.need
        # What is delivered as safe somewhere must be delivered by all, who may not know who else holds it: every hop counts.
        self.chain = Chain(rank, self.count, 1 if view.ordering.level == "safe" else self.need)
        self.bodies: list[deque[Cast]] = [deque() for _ in range(self.count)]
        self.number = 0
        self.now = 0
        self.fetch_at: int | None = None
        self.asked = 0
        self.state = (0, 0)
        self.passes: list[int] = []  # rank, seq, … of the hops that numbered nothing since the last that did
        self.ordered: deque[tuple[int, int, int, int, int]] = deque()  # hop, sender, seq, author, seq of the hop's cast
        self.first = 0  # how many have left `ordered`
        self.told = [0] * self.count  # how many of all ordered each member is known to hold
        self.changes = Changes(self.chain, self.count, outbox.timing, outbox, self._say, seed)

    @property
    def proves(self) -> bool:
        return len(self.chain.ring.core) >= self.need

    @property
    def core(self) -> tuple[int, ...]:
        return self.chain.ring.core

    def submit(self, batch: Batch, now: int) -> None:
        self.bodies[self.rank].append(self.outbox.multicast(_MESSAGES, [], batch))
        self.chain.have[self.rank] += 1

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            if cast.kind != _MESSAGES:
                self._check(sender, cast)
        bodies, have = self.bodies[sender], self.chain.have
        for cast in casts:
            if cast.kind == _MESSAGES:
                bodies.append(cast)
                have[sender] += 1
            else:
                self._take(sender, cast, now)
        self._advance()

    def _check(self, sender: int, cast: Cast) -> None:
        stamp = cast.stamp
        if cast.kind == RING and len(stamp) > 2 and stamp[0] > 0:
            check_ring(stamp[1:], self.count)
            return
        if cast.kind == FREEZE and len(stamp) == 2 and min(stamp) >= 0:
            return
        if cast.kind != _TOKEN:
            raise RemoteProtocolError(f"cast of kind {cast.kind} from rank {sender}")
        if len(stamp) < 3 or len(stamp) % 2 == 0 or stamp[0] < 0 or stamp[1] < 1 or not 0 <= stamp[2] < self.count:
            raise RemoteProtocolError(f"rank {sender} passes the token in a way that nobody knows")
        if not all(0 <= stamp[i] < self.count and stamp[i + 1] > 0 for i in range(3, len(stamp), 2)):
            raise RemoteProtocolError("a hop does not number a list of (rank, count)")
        ring = self.chain.ring
        if stamp[0] == ring.number and (sender not in ring.core or stamp[2] not in ring.core or stamp[1] <= self.chain.top):
            raise RemoteProtocolError(f"rank {sender} passes a token of ring {ring.number} that it cannot have")

    def _take(self, sender: int, cast: Cast, now: int) -> None:
        stamp = cast.stamp
        chain = self.chain
        if cast.kind == _TOKEN:
            runs = [(stamp[i], stamp[i + 1]) for i in range(3, len(stamp), 2)]
            chain.add(stamp[0], Hop(stamp[1], sender, cast.seq, stamp[2], runs))
        elif cast.kind == FREEZE:
            chain.freeze(stamp[0], sender, stamp[1])
        else:
            old, void = chain.ring, chain.void
            if chain.announce(Ring(stamp[0], stamp[1], tuple(stamp[2:]))):
                self.changes.entered(old, now)
            for _ in range(chain.void - void):
                self.outbox.note("void_hops")

    def _say(self, kind: int, stamp: list[int]) -> None:
        self._take(self.rank, self.outbox.multicast(kind, stamp, None), self.now)
        self._advance()

    def direct(self, sender: int, record: Direct, now: int) -> None:
        if record.kind == BALLOT:
            self.changes.ballot(sender, record.stamp, now)
        elif record.kind == _FETCH:
            self.outbox.supply(sender, record.stamp)
        else:
            raise RemoteProtocolError(f"direct record of kind {record.kind} from rank {sender}")

    def suspect(self, peer: int, level: str, now: int) -> None:
        self.changes.suspect(peer, now)

    def trust(self, peer: int, level: str, now: int) -> None:
        self.changes.trust(peer, now)

    def wake(self, now: int) -> None:
        self.changes.wake(now)
        if self.fetch_at is not None and now >= self.fetch_at:
            self._fetch(now)

    def deadline(self) -> int | None:
        at = self.changes.at
        return at if self.fetch_at is None or (at is not None and at < self.fetch_at) else self.fetch_at

    def _fetch(self, now: int) -> None:
        """Something has been missing for a while: ask a member of the core for it, the one that made the last hop first."""
        core = [rank for rank in self.core if rank != self.rank and rank not in self.changes.soft]
        if core:
            last = max(core, key=lambda rank: self.chain.last[rank])
            to = core[(core.index(last) + self.asked) % len(core)]
            self.outbox.direct(_FETCH, list(self.outbox.held), to)
            self.asked += 1
        self.fetch_at = now + _PATIENCE * self.outbox.timing.heartbeat_ns

    def _watch(self, now: int) -> None:
        """Note whether a hop or a message is missing, and since when nothing has come."""
        chain = self.chain
        if not chain.early and chain.complete():
            self.fetch_at = None
            self.asked = 0
            return
        state = (chain.top, sum(map(min, chain.taken, chain.have)))
        if self.fetch_at is None or state != self.state:
            self.state = state
            self.fetch_at = now + _PATIENCE * self.outbox.timing.heartbeat_ns

    def turn(self, now: int) -> None:
        self.now = now
        self.changes.turn(now)
        self._watch(now)
        chain = self.chain
        if chain.holder != self.rank or self.rank in chain.frozen or not chain.complete():
            return
        pairs = chain.unnumbered()
        if pairs or (len(chain.fresh) < min(self.need, len(chain.ring.core)) and (chain.top or chain.ring.number)):
            stamp = [chain.ring.number, chain.top + 1, self._next(), *pairs]
            self._say(_TOKEN, stamp)
            self.outbox.note("hops")

    def _next(self) -> int:
        """The next member of the ring, without those that are suspected while there are enough others."""
        core = self.chain.ring.core
        place = core.index(self.rank)
        round_ = core[place + 1 :] + core[: place + 1]
        trusted = [rank for rank in round_ if rank not in self.changes.soft]
        return (trusted if len(trusted) >= self.need else round_)[0]

    def _advance(self, limit: int | None = None) -> bool:
        """Deliver what is proven and here; whether nothing of it is missing."""
        complete = self._order(self.chain.proven() if limit is None else limit)
        if self.need > 1:
            self._tell()
        return complete

    def _order(self, limit: int) -> bool:
        hops = self.chain.hops
        while hops and hops[0].hop <= limit:
            hop = hops[0]
            runs = hop.runs
            while runs:
                sender, count = runs[0]
                bodies = self.bodies[sender]
                while count and bodies:
                    self._deliver(sender, bodies.popleft(), hop)
                    count -= 1
                if count:
                    runs[0] = (sender, count)
                    return False
                runs.popleft()
            hops.popleft()
            if not hop.upto and self.need > 1:
                self.passes += (hop.author, hop.seq)
                self.ordered.append((hop.hop, hop.author, hop.seq, hop.author, hop.seq))
        return not hops

    def _deliver(self, sender: int, cast: Cast, hop: Hop) -> None:
        self.number += 1
        if self.need > 1:
            self.ordered.append((hop.hop, sender, cast.seq, hop.author, hop.seq))
        self.outbox.deliver(sender, cast, (0, 0, self.number), (hop.author, hop.seq, *self.passes))
        self.passes.clear()

    def _tell(self) -> None:
        """Say who holds what was ordered: whoever made a hop held everything up to it."""
        ordered, last, end = self.ordered, self.chain.last, self.first + len(self.ordered)
        for rank in self.chain.ring.core:
            place = max(self.told[rank], self.first)
            if place == end or rank == self.rank or last[rank] < ordered[place - self.first][0]:
                continue
            counts: dict[int, int] = {}
            while place < end and ordered[place - self.first][0] <= last[rank]:
                _, sender, seq, author, record = ordered[place - self.first]
                counts[sender] = max(seq, counts.get(sender, 0))
                counts[author] = max(record, counts.get(author, 0))
                place += 1
            self.told[rank] = place
            for sender, seq in counts.items():
                self.outbox.holds(rank, sender, seq)
        least = min((self.told[rank] for rank in self.chain.ring.core if rank != self.rank), default=end)
        while self.first < least or len(ordered) > _ORDERED:  # a member that does not get on is known by its reports
            ordered.popleft()
            self.first += 1

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        chain = self.chain
        unfrozen = [rank for rank in chain.ring.core if rank in present and rank not in chain.frozen]
        final = len(unfrozen) >= chain.kk or len(present) == self.count  # no other ring can have been decided elsewhere
        gapless = self._advance(chain.top if final else chain.proven(unfrozen))
        if not final or not gapless or chain.holder not in present or chain.top + 1 < chain.ring.start:
            return list(self.bodies[self.rank])
        # Nobody has numbered any of these and nobody will, see `sequencer` for their positions.
        for sender, bodies in enumerate(self.bodies):
            for cast in bodies:
                self.outbox.deliver(sender, cast, (0, 1 + sender, cast.seq))
        return []
