"""`semantic_causal`: of messages that conflict, a cause is delivered before its effect (paper 002, §4.2 and §6).

The past of a cast is all that its sender had sent, had delivered, or knew to be in the past of that: counts of every member's
casts. It is more than what the sender has delivered, since a message may be delivered before one of its past that commutes with
it. A cast carries its past, and names the casts in it that it conflicts with (`Frontier`); what its sender never saw counts
as conflicting. It is delivered, also by its sender, also from behind a gap, when

- those that it names are delivered; with everything up to them where it says so, but for what is held here and does not conflict;
- nothing that is held here, is in its past and conflicts with it is undelivered.

Stamp: for each other member the count of its casts in the past; then pairs (rank, d) of what it names: d > 0 is the
cast d - 1 before the last one of that member's in the past, d < 0 everything up to that one.

Invariants: a cast is delivered only after everything in its past that conflicts with it (docs/protocols/semantic_causal.md);
`known` is the past of the next own cast; an undelivered cast waits for exactly one other one, and is looked at again when that
one comes in order or is delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast, Place
from isotone.model.view import View
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox
from isotone.protocol.semantic.frontier import MOST, Frontier, Known
from isotone.protocol.semantic.shapes import Shape, Shapes


class Waiting(Known):
    """A cast that is not delivered yet. `behind`: there is a gap before it in its sender's stream."""

    __slots__ = ("behind", "cast", "exact", "over", "upto")

    def __init__(self, known: Known, cast: Cast, exact: list[Place], upto: list[Place], behind: bool) -> None:
        super().__init__(known.rank, known.seq, known.shape, known.past)
        self.cast = cast
        self.exact = exact
        self.upto = upto
        self.behind = behind
        self.over = False


class SemanticCausal(Orderer):
    """Waits for the conflicting part of a cast's past."""

    name = "semantic_causal"
    total = False
    semantic = True
    looks = True
    takes_early = True

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        count = self.count
        self.shapes = Shapes(view.ordering.conflicts)
        self.frontier = Frontier(self.shapes, count)
        self.known = [0] * count
        self.top = [0] * count  # so many casts of each member came in order
        self.done = [0] * count  # so many of each member's first casts are delivered …
        self.ahead: list[set[int]] = [set() for _ in range(count)]  # … and these beyond them
        self.held: list[dict[int, Waiting]] = [{} for _ in range(count)]  # came in order, undelivered, in that order
        self.behind: list[dict[int, Waiting]] = [{} for _ in range(count)]  # behind a gap, undelivered
        self.wakes: dict[Place, list[Waiting]] = {}

    def submit(self, batch: Batch, now: int) -> None:
        rank = self.rank
        for part in self.shapes.split(batch):
            shape = self.shapes.of_batch(part)
            past = self.known.copy()
            exact, upto = self.frontier.before(shape, self.outbox.freed, *self._undelivered(shape))
            stamp = past[:rank] + past[rank + 1 :]
            for other, seq in exact:
                stamp += (other, past[other] + 1 - seq)
            for other, seq in upto:
                stamp += (other, seq - past[other] - 1)
            cast = self.outbox.multicast(0, stamp, part)
            self.known[rank] = self.top[rank] = cast.seq
            one = self.held[rank][cast.seq] = Waiting(Known(rank, cast.seq, shape, past), cast, exact, upto, False)
            self._deliver_ready([one])

    def _undelivered(self, shape: Shape) -> tuple[list[Known], dict[int, int]]:
        """What is in the past of the next own cast and not delivered: casts that conflict, and up to where some are not here."""
        found: list[Known] = []
        unknown: dict[int, int] = {}
        for sender, known in enumerate(self.known):
            done = self.done[sender]
            if known == done:
                continue
            ahead, held, behind = self.ahead[sender], self.held[sender], self.behind[sender]
            for seq in range(known, done, -1):
                if seq in ahead:
                    continue
                one = held.get(seq) or behind.get(seq)
                if one is None:
                    unknown[sender] = seq
                    break
                if self.shapes.conflict(shape, one.shape):
                    found.append(one)
        return found, unknown

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        read = [self._read(sender, cast, False) for cast in casts]
        ready: list[Waiting] = []
        for one in read:
            self.top[sender] = one.seq
            if one.seq in self.ahead[sender] or one.seq <= self.done[sender]:
                continue
            earlier = self.behind[sender].pop(one.seq, None)
            if earlier is not None:
                earlier.behind = False
                one = earlier
            self.held[sender][one.seq] = one
            ready.append(one)
        if self.wakes:
            for one in read:
                ready += self.wakes.pop((sender, one.seq), ())
        self._deliver_ready(ready)

    def early(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        read = [self._read(sender, cast, True) for cast in casts]
        ready: list[Waiting] = []
        behind = self.behind[sender]
        last = max(self.top[sender], self.done[sender])
        for one in read:
            if one.seq > last and one.seq not in self.ahead[sender] and one.seq not in behind:
                behind[one.seq] = one
                ready.append(one)
        self._deliver_ready(ready)

    def _read(self, sender: int, cast: Cast, behind: bool) -> Waiting:
        """A cast with its stamp in full."""
        stamp, count = cast.stamp, self.count
        past = [*stamp[:sender], cast.seq - 1, *stamp[sender : count - 1]]
        if len(past) != count or min(past) < 0 or past[self.rank] > self.top[self.rank]:
            raise RemoteProtocolError(f"cast {cast.seq} of rank {sender} has an impossible past")
        if (len(stamp) - count + 1) % 2 or len(stamp) > count - 1 + 2 * (MOST + count):
            raise RemoteProtocolError(f"cast {cast.seq} of rank {sender} names {len(stamp) - count + 1} numbers")
        exact: list[Place] = []
        upto: list[Place] = []
        for i in range(count - 1, len(stamp), 2):
            rank, distance = stamp[i], stamp[i + 1]
            if not 0 <= rank < count or not 0 < abs(distance) <= past[rank]:
                raise RemoteProtocolError(f"cast {cast.seq} of rank {sender} names what is not in its past")
            (exact if distance > 0 else upto).append((rank, past[rank] + 1 - abs(distance)))
        try:
            shape = self.shapes.of_cast(cast)
        except ConfigError as error:
            raise RemoteProtocolError(f"cast {cast.seq} of rank {sender} is not of this view's relation: {error}") from None
        return Waiting(Known(sender, cast.seq, shape, past), cast, exact, upto, behind)

    def _deliver_ready(self, ones: Iterable[Waiting]) -> None:
        """Deliver those that can be, and what waited for them; note of the others what they wait for."""
        queue = deque(ones)
        while queue:
            one = queue.popleft()
            if one.over:
                continue
            place = self._obstacle(one)
            if place is None and one.behind and not self.outbox.deliver_early(one.rank, one.cast):
                place = (one.rank, self.top[one.rank] + 1)
            if place is not None:
                self.wakes.setdefault(place, []).append(one)
                continue
            if not one.behind:
                # What it names was delivered before it. What lies before an `upto` may only be held: nobody can do without it.
                evidence = tuple(number for place in one.upto for number in place) if one.upto else None
                self.outbox.deliver(one.rank, one.cast, None, evidence)
            self._delivered(one)
            queue += self.wakes.pop((one.rank, one.seq), ())

    def _obstacle(self, one: Waiting) -> Place | None:
        """The first cast that this one has to wait for."""
        for rank, seq in one.exact:
            if seq > self.done[rank] and seq not in self.ahead[rank]:
                return rank, seq
        for rank, last in one.upto:
            ahead, held = self.ahead[rank], self.held[rank]
            for seq in range(self.done[rank] + 1, last + 1):
                if seq not in ahead:
                    other = held.get(seq)
                    if other is None or self.shapes.conflict(one.shape, other.shape):
                        return rank, seq
        for rank, held in enumerate(self.held):
            last = one.past[rank]
            for seq, other in held.items():
                if seq > last:
                    break
                if self.shapes.conflict(one.shape, other.shape):
                    return rank, seq
        return None

    def _delivered(self, one: Waiting) -> None:
        rank, seq = one.rank, one.seq
        one.over = True
        del (self.behind if one.behind else self.held)[rank][seq]
        done, ahead = self.done[rank], self.ahead[rank]
        if seq == done + 1:
            done = seq
            while done + 1 in ahead:
                done += 1
                ahead.remove(done)
            self.done[rank] = done
        else:
            ahead.add(seq)
        known, past = self.known, one.past
        for other, count in enumerate(past):
            if count > known[other]:
                known[other] = count
        if seq > known[rank]:
            known[rank] = seq
        self.frontier.add(Known(rank, seq, one.shape, past), self.outbox.freed)

    def freeze(self, now: int) -> list[int]:
        # Only what is in the common set may be delivered from here on, or help to tell what may be.
        for behind in self.behind:
            for one in behind.values():
                one.over = True
            behind.clear()
        return []

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        # What still waits depends on casts that no member of this component has: nobody delivers it here.
        return [one.cast for one in self.held[self.rank].values()]
