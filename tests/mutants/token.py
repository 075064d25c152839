"""Deliberate faults of the `token` orderer: its chain, its delivery rule, its core changes and the end of its views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isotone.model.records import Cast
from isotone.protocol.epoch import Epoch
from isotone.protocol.ordering.token.chain import Chain, Ring
from isotone.protocol.ordering.token.ring import Changes
from isotone.protocol.ordering.token.token import Token
from tests.mutants.mutants import TOTAL, Mutant, Patch

BROKEN = (*TOTAL, "virtual_synchrony", "agreement", "InvariantViolation", "duplication", "causal")


def as_printed(patch: Patch) -> None:
    """Algorithm 2 as printed: any majority answers, and the new ring goes on from what its proposer happens to know."""

    def value(self: Changes, now: int) -> list[int] | None:
        new = [rank for rank in sorted(self.chain.frozen) if rank not in self.soft]
        return [self.chain.held() + 1, *new] if len(new) >= self.majority else None

    patch.setattr(Changes, "_value", value)


def no_ring_quorum(patch: Patch) -> None:
    """The start of the next ring is the largest that is answered, but any majority of the view may answer."""
    original = Changes._value

    def value(self: Changes, now: int) -> list[int] | None:
        lock, self.chain.lock = self.chain.lock, len(self.chain.ring.core)
        try:
            return original(self, now)
        finally:
            self.chain.lock = lock

    patch.setattr(Changes, "_value", value)


def frozen_members_go_on(patch: Patch) -> None:
    """A member that has answered a change goes on numbering in the old ring."""
    turn = Token.turn

    def deaf(self: Token, now: int) -> None:
        frozen, mine = self.chain.frozen, self.chain.frozen.get(self.rank)
        self.now = now
        self.changes.turn(now)
        if mine is None:
            turn(self, now)
            return
        del frozen[self.rank]
        self.changes.turn, kept = (lambda now: None), self.changes.turn  # type: ignore[method-assign]
        try:
            turn(self, now)
        finally:
            self.changes.turn = kept  # type: ignore[method-assign]
            frozen.setdefault(self.rank, mine)

    patch.setattr(Token, "turn", deaf)


def frozen_members_count(patch: Patch) -> None:
    """What a member receives after it has answered a change counts as held by it in the old ring."""

    def values(self: Chain, unfrozen: Iterable[int]) -> list[int]:
        here = self.held()
        return [max(self.last[rank], here if rank in unfrozen or rank in self.frozen else 0) for rank in self.ring.core]

    patch.setattr(Chain, "values", values)


def void_hops_stay(patch: Patch) -> None:
    """The hops of an old ring beyond its end are linked as if they counted."""

    def follow(self: Chain, ring: Ring) -> None:
        self.freezes.pop(self.ring.number, None)
        self.older.append(self.ring)
        self.ring = Ring(ring.number, max(ring.start, self.top + 1), ring.core)
        self.last = [0] * len(self.last)
        self.fresh = set()
        if self.top == self.ring.start - 1:
            self.holder = ring.core[0]

    patch.setattr(Chain, "_follow", follow)


def token_taken_without_messages(patch: Patch) -> None:
    """A member takes the token although it lacks messages that were numbered: its hops prove nothing."""
    patch.setattr(Chain, "complete", lambda self: True)


def rest_always_sorted(patch: Patch) -> None:
    """When the view ends the rest is delivered sorted, whoever may have numbered it elsewhere."""

    def conclude(self: Token, present: frozenset[int], now: int) -> list[Cast]:
        self._advance(self.chain.top)
        for sender, bodies in enumerate(self.bodies):
            for cast in bodies:
                self.outbox.deliver(sender, cast, (0, 1 + sender, cast.seq))
        return []

    patch.setattr(Token, "conclude", conclude)


def safe_like_k(patch: Patch) -> None:
    """For `safe` a hop counts only when all are proven to hold it, which another component may know and this one not."""
    init = Token.__init__

    def all_of_them(self: Token, *args: Any) -> None:
        init(self, *args)
        self.chain.lock = self.need

    patch.setattr(Token, "__init__", all_of_them)


def token_goes_round_and_round(patch: Patch) -> None:
    """A token of an old ring is passed on as one of the new ring by whoever gets it."""
    add = Chain.add
    patch.setattr(Chain, "add", lambda self, ring, hop: add(self, max(ring, self.ring.number), hop))


def fetched_twice(patch: Patch) -> None:
    """A cast that was fetched from another member is taken again when its sender's link brings it."""
    store = Epoch._store

    def again(self: Epoch, sender: int, cast: Cast) -> bool:
        if cast.seq <= self._fetched[sender] and not self.frozen:
            return True
        return store(self, sender, cast)

    patch.setattr(Epoch, "_store", again)


ONLY = ("token",)
TOKEN_MUTANTS = [
    Mutant("as_printed", as_printed, BROKEN, ONLY, 45),
    Mutant("no_ring_quorum", no_ring_quorum, BROKEN, ONLY, 1968),
    Mutant("frozen_members_go_on", frozen_members_go_on, BROKEN, ONLY),
    Mutant("frozen_members_count", frozen_members_count, BROKEN, ONLY, 36),
    Mutant("void_hops_stay", void_hops_stay, BROKEN, ONLY, 36),
    Mutant("token_taken_without_messages", token_taken_without_messages, (*BROKEN, "uniform"), ONLY),
    Mutant("rest_always_sorted", rest_always_sorted, BROKEN, ONLY),
    Mutant("safe_like_k", safe_like_k, ("uniform",), ONLY, 75),
    Mutant("token_goes_round_and_round", token_goes_round_and_round, (*BROKEN, "liveness"), ONLY),
    Mutant("fetched_twice", fetched_twice, (*BROKEN, "reliable_fifo"), ONLY),
]
