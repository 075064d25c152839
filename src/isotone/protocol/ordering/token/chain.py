"""The chain of hops: what the token numbered, who is known to hold it, and which of it counts (001 §3, §4.1; PROTOCOLS §6).

The token makes *hops*, counted from 1 over the whole view. Hop h is one cast of the member that held the token: it numbers
messages and names the next holder. A *ring* is a core of members and the first hop that is theirs; where ring r+1 starts,
ring r has ended, and hops of ring r from there on are void: their messages are numbered anew. Hops of different holders
travel on different links, so one may come before its predecessor; it waits until it can be linked.

Everything here follows from the casts that were taken in, in whatever order: members with the same casts have the same chain.

Invariants: hops 1 … `top` are linked, each by the member that the one before named (the first of a ring by the core's first);
`taken[s]` messages of s are numbered by them; a hop is delivered from only if it is `proven`: at least kk = min(k, |core|)
members of its ring held everything up to it before they froze the ring. The next ring is decided with the answers of
|core| − kk + 1 of them, so it starts after every proven hop, and no delivered hop is ever void.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from isotone.model.errors import require


class Ring(NamedTuple):
    """A core of members, in the order the token goes round, and the first hop that is theirs."""

    number: int
    start: int
    core: tuple[int, ...]


class Hop:
    """One hop: `seq` is its cast's, `runs` are (rank, count) not yet delivered, `upto` (rank, count) what it needs in all."""

    __slots__ = ("author", "hop", "next", "runs", "seq", "upto")

    def __init__(self, hop: int, author: int, seq: int, next_: int, runs: list[tuple[int, int]]) -> None:
        self.hop = hop
        self.author = author
        self.seq = seq
        self.next = next_
        self.runs = deque(runs)
        self.upto: list[tuple[int, int]] = []


class Chain:
    """The hops of one view as one member knows them."""

    def __init__(self, rank: int, count: int, lock: int) -> None:
        self.rank = rank
        self.lock = lock
        self.ring = Ring(0, 1, tuple(range(count)))
        self.older: list[Ring] = []  # rings whose hops are not all linked yet
        self.later: dict[int, Ring] = {}  # announced before the ring that they follow
        self.early: dict[tuple[int, int, int], Hop] = {}  # (ring, hop, author): hops that cannot be linked yet
        self.hops: deque[Hop] = deque()  # linked, and not delivered altogether
        self.top = 0
        self.holder = 0  # who makes the next hop
        self.have = [0] * count  # messages of each member that are here
        self.taken = [0] * count
        self.whole = 0  # all messages of hops 1 … whole are here
        self.last = [0] * count  # the last hop of each member in the current ring
        self.freezes: dict[int, dict[int, int]] = {}  # ring: member: up to which hop it held everything when it froze the ring
        self.void = 0  # hops that counted no more when the next ring was announced
        self.fresh: set[int] = set()  # who made a hop since the last one that numbered something, it included

    @property
    def kk(self) -> int:
        """How many members of the ring must hold what is delivered."""
        return min(self.lock, len(self.ring.core))

    @property
    def frozen(self) -> dict[int, int]:
        """The members that froze the current ring, and what they held then."""
        return self.freezes.get(self.ring.number, {})

    def complete(self) -> bool:
        """Whether the whole chain is linked as far as the current ring, and every message that it numbers is here."""
        return self.top + 1 >= self.ring.start and all(a <= b for a, b in zip(self.taken, self.have, strict=True))

    def unnumbered(self) -> list[int]:
        """Pairs (rank, count): what is here and nobody numbered."""
        pairs: list[int] = []
        for rank, (have, taken) in enumerate(zip(self.have, self.taken, strict=True)):
            if have > taken:
                pairs += (rank, have - taken)
        return pairs

    # What comes in

    def add(self, ring: int, hop: Hop) -> None:
        """A hop came."""
        known = self.older[0].number <= ring if self.older else ring == self.ring.number
        if ring > self.ring.number or (known and hop.hop > self.top):  # of a later ring, hops up to `top` may be void
            self.early[ring, hop.hop, hop.author] = hop
            self.link()

    def announce(self, ring: Ring) -> bool:
        """A ring was decided; whether the current ring is another one now."""
        if ring.number > self.ring.number:
            self.later[ring.number] = ring
        before = self.ring.number
        while (following := self.later.pop(self.ring.number + 1, None)) is not None:
            self._follow(following)
        if self.ring.number == before:
            return False
        self.link()
        return True

    def _follow(self, ring: Ring) -> None:
        self.freezes.pop(self.ring.number, None)
        self.older.append(self.ring)
        self.ring = ring
        self.last = [0] * len(self.last)
        self.fresh = set()
        while self.top >= ring.start:  # void
            require(bool(self.hops) and self.hops[-1].hop == self.top, "a void hop has been delivered")
            hop = self.hops.pop()
            for rank, count in hop.runs:
                self.taken[rank] -= count
            self.top -= 1
            self.void += 1
            self.holder = hop.author
        self.whole = min(self.whole, self.top)
        if self.top == ring.start - 1:
            self.holder = ring.core[0]

    def freeze(self, ring: int, rank: int, hop: int) -> None:
        """A member froze a ring when it held everything up to `hop`."""
        if ring >= self.ring.number:
            self.freezes.setdefault(ring, {}).setdefault(rank, hop)

    def link(self) -> None:
        """Link what can be linked."""
        early = self.early
        while True:
            number = self.top + 1
            ring = self.ring
            if number < ring.start:
                ring = next(one for one in reversed(self.older) if one.start <= number)
            elif self.older:
                self.older.clear()
                for key in [key for key in early if key[0] < ring.number]:
                    del early[key]
            hop = early.pop((ring.number, number, self.holder), None) if early else None
            if hop is None:
                return
            self._append(hop, ring is self.ring)

    def _append(self, hop: Hop, current: bool) -> None:
        taken = self.taken
        for rank, count in hop.runs:
            taken[rank] += count
            hop.upto.append((rank, taken[rank]))
        self.hops.append(hop)
        self.top = hop.hop
        self.holder = hop.next
        for ring in (*self.older, self.ring):
            if hop.hop == ring.start - 1:  # also of two that start here: the later one
                self.holder = ring.core[0]
        if current:
            self.last[hop.author] = hop.hop
            if hop.upto:
                self.fresh = set()
            self.fresh.add(hop.author)

    # What counts

    def held(self) -> int:
        """Up to which hop everything is here."""
        if self.hops:
            have = self.have
            for hop in self.hops:
                if hop.hop > self.whole:
                    if any(have[rank] < count for rank, count in hop.upto):
                        break
                    self.whole = hop.hop
        else:
            self.whole = self.top
        return self.whole

    def values(self, unfrozen: Iterable[int]) -> list[int]:
        """Up to which hop each member of the ring is known to have held everything before it froze; `unfrozen` hold all."""
        frozen = self.frozen
        last = self.last
        here = self.held()
        return [max(last[rank], frozen.get(rank, here if rank in unfrozen else 0)) for rank in self.ring.core]

    def proven(self, unfrozen: Iterable[int] | None = None) -> int:
        """The last hop that may be delivered from; without `unfrozen`, of the others only their own hops count."""
        kk = self.kk
        ended = self.ring.start - 1
        if kk == 1 and self.top > ended:
            return self.top
        values = self.values((self.rank,) if unfrozen is None else unfrozen)
        return max(ended, sorted(values)[len(values) - kk])
