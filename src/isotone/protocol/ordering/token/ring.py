"""Core changes: the ring of the token is made anew without a view change (001 §4.1, Algorithm 2, mended as PROTOCOLS §6 says).

As printed, Algorithm 2 loses the sequence: a suspected holder may have numbered messages that were delivered, and the new ring
gives the same numbers to others. So a change of ring r goes like this:

1. A member of the core softly suspects another one, or has trusted one outside the core for long enough, and *freezes* the
   ring: from here on it makes no hop in ring r. It says so in a cast, with the last hop up to which it held everything. Whoever
   hears that freezes the ring too, also members outside the core.
2. With the answers of a majority of the view and of |core| − kk + 1 of the core (kk members are what a delivery needs, so one of
   them is among these), a member proposes where the next ring starts, after the last hop that any answer names, and its core:
   those who answered and are trusted. Consensus among all members of the view decides.
3. The decision is announced in a cast, and only that cast counts: members that hold the same casts know the same rings.

Without the answers the change waits: if they do not come, the hard threshold of the detector ends the view. Nobody begins a
change that the trusted members cannot finish. So with kk = 1, where all of the core must answer, there are no core changes.

A member that left the core is taken back after a delay that doubles each time: one that flaps stays outside, unless a core would
be less than a majority of the view without it.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.model.errors import RemoteProtocolError
from isotone.model.settings import Timing
from isotone.protocol.membership.consensus import Ballot, Consensus
from isotone.protocol.ordering.orderer import Outbox
from isotone.protocol.ordering.token.chain import Chain, Ring

FREEZE = 2
RING = 3
BALLOT = 4
_DOUBLINGS = 10
_INSTANCES = 4  # decisions about rings that are not announced here yet

Take = Callable[[int, list[int]], None]
"""Multicast a cast of a kind with a stamp, and take it in as if it had come."""


def check_ring(stamp: list[int], count: int) -> None:
    """Raise `RemoteProtocolError` unless `stamp` is [start, *core]."""
    core = stamp[1:]
    if not core or stamp[0] < 1 or len(set(core)) != len(core) or not all(0 <= rank < count for rank in core):
        raise RemoteProtocolError("a ring is not a start and a core of different members")


class Changes:
    """One member's part in the core changes of a view."""

    def __init__(self, chain: Chain, count: int, timing: Timing, outbox: Outbox, take: Take, seed: int) -> None:
        self.chain = chain
        self.rank = chain.rank
        self.count = count
        self.majority = count // 2 + 1
        self.outbox = outbox
        self.soft: dict[int, int] = {}  # members that are suspected, since when
        self.at: int | None = None  # when there may be something to do
        self._patience = timing.heartbeat_ns
        self._return_ns = timing.soft_ns
        self._take = take
        self._seed = seed
        self._trusted = [0] * count  # since when
        self._exits = [0] * count  # how often each member has left the core, or failed to come back
        self._kept = [0] * count  # how often a ring kept a member that is suspected here
        self._frozen_at = 0
        self._decisions: dict[int, Consensus[list[int]]] = {}
        self._proposed = False
        self._decided_at: int | None = None

    def suspect(self, peer: int, now: int) -> None:
        """A member is suspected."""
        self.soft.setdefault(peer, now)
        self.at = now

    def trust(self, peer: int, now: int) -> None:
        """It is trusted again."""
        if self.soft.pop(peer, None) is not None:
            self._trusted[peer] = now
        self.at = now

    def entered(self, old: Ring, now: int) -> None:
        """A ring was announced, and is the current one."""
        ring = self.chain.ring
        late = set(old.core) - set(ring.core)
        if set(old.core) == set(ring.core):  # somebody was to come back, and was gone again
            late = {rank for rank in range(self.count) if rank not in ring.core and self._back_at(rank) <= now}
        for rank in late:
            self._exits[rank] += 1
            self._trusted[rank] = max(self._trusted[rank], now)
        for rank in self.soft.keys() & set(ring.core):  # the others trust it: do not ask again at once
            self.soft[rank] = now + (self._return_ns << min(self._kept[rank], _DOUBLINGS))
            self._kept[rank] += 1
        self._decisions = {number: one for number, one in self._decisions.items() if number >= ring.number}
        self._proposed = False
        self._decided_at = None
        self.at = now
        self.outbox.core(ring.core, ring.number)

    def ballot(self, sender: int, stamp: list[int], now: int) -> None:
        """A message of the consensus about the ring after `stamp[0]`."""
        if len(stamp) < 4 or stamp[0] < 0:
            raise RemoteProtocolError(f"malformed ballot from rank {sender}")
        ring, phase, number, accepted, *value = stamp
        if value:
            check_ring(value, self.count)
        if ring < self.chain.ring.number or (ring not in self._decisions and len(self._decisions) >= _INSTANCES):
            return
        self._decision(ring).receive(sender, Ballot(phase, number, accepted, value or None), now)
        self.at = now

    def _decision(self, ring: int) -> Consensus[list[int]]:
        decision = self._decisions.get(ring)
        if decision is None:
            seed = self._seed + ring
            decision = self._decisions[ring] = Consensus(self.rank, self.count, 2 * self._patience, seed)
        return decision

    def wake(self, now: int) -> None:
        """The deadline has come."""
        decision = self._decisions.get(self.chain.ring.number)
        if decision is not None:
            decision.wake(now)

    def turn(self, now: int) -> None:
        """Do what is due, and say when to look again."""
        chain = self.chain
        if self.at is None and not chain.frozen:
            return
        times: list[int] = []
        if self.rank not in chain.frozen:
            wanted = now if chain.frozen else self._wanted_at(now)
            if wanted is not None and wanted <= now:
                self._frozen_at = now
                self._take(FREEZE, [chain.ring.number, chain.held()])
                self.outbox.note("ring_freezes")
            elif wanted is not None:
                times.append(wanted)
        if self.rank in chain.frozen:
            times += self._change(now)
        for number, decision in self._decisions.items():
            for to, ballot in decision.take():
                self.outbox.direct(BALLOT, [number, ballot.phase, ballot.number, ballot.accepted, *(ballot.value or ())], to)
            deadline = decision.deadline()
            if deadline is not None and number == chain.ring.number:
                times.append(deadline)
        self.at = min(times, default=None)

    def _place(self) -> int:
        """Whose turn it is to act: the trusted members of the core one after another, then the others."""
        core = self.chain.ring.core
        order = [rank for rank in core if rank not in self.soft or rank == self.rank]
        return order.index(self.rank) if self.rank in order else len(core) + self.rank

    def _back_at(self, rank: int) -> int:
        """When a trusted member may be in the core again."""
        exits = self._exits[rank]
        return self._trusted[rank] + (self._return_ns << min(exits, _DOUBLINGS)) if exits else self._trusted[rank]

    def _wanted_at(self, now: int) -> int | None:
        """When this member should begin a change; None if none is wanted or the trusted members could not finish it."""
        chain, soft = self.chain, self.soft
        core = chain.ring.core
        trusted = [rank for rank in core if rank not in soft]
        if self.rank not in core or len(trusted) < len(core) - chain.kk + 1 or self.count - len(soft) < self.majority:
            return None
        times = [soft[rank] for rank in core if rank in soft]
        times += [self._back_at(rank) for rank in range(self.count) if rank not in core and rank not in soft]
        if not times:
            return None
        return min(times) + self._place() * 2 * self._patience

    def _change(self, now: int) -> list[int]:
        """Bring the change of a frozen ring forward; returns when to look again."""
        chain = self.chain
        number = chain.ring.number
        decision = self._decisions.get(number)
        if decision is not None and decision.decided is not None:
            if self._decided_at is None:
                self._decided_at = now
            at = self._decided_at if self._proposed else self._decided_at + (1 + self._place()) * 2 * self._patience
            if now < at:
                return [at]
            self._take(RING, [number + 1, *decision.decided])
            self.outbox.note("core_changes")
            return []
        if self._proposed:
            return []
        at = self._frozen_at + self._place() * 4 * self._patience
        if now < at:
            return [at]
        value = self._value(now)
        if value is None:
            return [now + self._patience]
        self._proposed = True
        decision = self._decision(number)
        decision.propose(value, now)
        return [now] if decision.decided is not None else []

    def _value(self, now: int) -> list[int] | None:
        """The next ring, if the answers suffice."""
        chain, soft = self.chain, self.soft
        answers = chain.frozen
        core = chain.ring.core
        old = sum(rank in answers for rank in core)
        trusted = [rank for rank in sorted(answers) if rank not in soft]
        new = [rank for rank in trusted if rank in core or self._back_at(rank) <= now]
        later = sorted(set(trusted).difference(new), key=lambda rank: (self._back_at(rank), rank))
        new = sorted(new + later[: max(0, self.majority - len(new))])
        silent = [rank for rank in range(self.count) if rank not in answers and rank not in soft]
        if old < len(core) - chain.kk + 1 or len(answers) < self.majority or len(new) < self.majority:
            return None
        if silent and now < self._frozen_at + 2 * self._patience:
            return None
        top = max(chain.ring.start - 1, *answers.values())
        first = next((place for place, rank in enumerate(new) if answers[rank] == top), 0)  # it can begin at once
        return [top + 1, *new[first:], *new[:first]]
