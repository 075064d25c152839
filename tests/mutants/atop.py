"""Deliberate faults of `atop`. Invariants that would notice some of them at once are switched off: the checks must see them."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.records import Cast
from isotone.model.view import View
from isotone.protocol.epoch import Epoch
from isotone.protocol.ordering.atop import mechanism
from isotone.protocol.ordering.atop.distribution import Distribution
from isotone.protocol.ordering.atop.mechanism import Atop
from isotone.protocol.ordering.orderer import Batch, Outbox
from tests.mutants.mutants import TOTAL, Mutant, Patch


def _unnoticed(patch: Patch) -> None:
    patch.setattr(mechanism, "require", lambda fact, text: None)


def slots_not_waited_for(patch: Patch) -> None:
    """Figure 6(2): a slot is skipped although its owner may still use it."""
    _unnoticed(patch)
    patch.setattr(Atop, "_is_given_up", lambda self: True)


def promises_broken(patch: Patch) -> None:
    """A member gives up one slot more than it leaves unused, and nobody looks."""
    _unnoticed(patch)
    direct, check = Epoch.direct, Atop._check

    def one_more(self: Epoch, kind: int, stamp: list[int], to: int | None = None) -> None:
        skip = Atop.packets.get(kind) == "skip"
        direct(self, kind, [stamp[0], stamp[1] + 1] if skip else stamp, to)

    def lenient(self: Atop, sender: int, casts: Sequence[Cast]) -> dict[int, Distribution]:
        self.index[sender] = 0
        return check(self, sender, casts)

    patch.setattr(Epoch, "direct", one_more)
    patch.setattr(Atop, "_check", lenient)


def given_up_ahead_and_used(patch: Patch) -> None:
    """What a member gives up before it is asked it uses nevertheless, and nobody looks."""
    _unnoticed(patch)
    turn, check = Atop.turn, Atop._check

    def forgetful(self: Atop, now: int) -> None:
        rank, own = self.rank, self.own
        state = self.dist[rank], self.index[rank]
        asked = own <= self.seen
        turn(self, now)
        if not asked and self.dist[rank] == state[0] and self.own > own:
            self.index[rank] = state[1]

    def lenient(self: Atop, sender: int, casts: Sequence[Cast]) -> dict[int, Distribution]:
        self.index[sender] = 0
        return check(self, sender, casts)

    patch.setattr(Atop, "turn", forgetful)
    patch.setattr(Atop, "_check", lenient)


def distribution_changed_too_early(patch: Patch) -> None:
    """Figure 4(3): messages of the ordering distribution may still come."""
    _unnoticed(patch)
    patch.setattr(Atop, "_have_all_left", lambda self: True)


def sequences_differ(patch: Patch) -> None:
    """Every member draws its own slots."""
    begin = Atop.__init__

    def own(self: Atop, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        begin(self, outbox, view, rank, seed)
        self.ordering._slots = None
        self.ordering.kind = "random"
        self.ordering.seed += rank

    patch.setattr(Atop, "__init__", own)


def weights_forgotten(patch: Patch) -> None:
    """Who learns of a distribution from others takes equal weights for it; its injector knows better."""

    def equal(self: Atop, sender: int, dist: int, weights: list[int], learned: dict[int, Distribution]) -> None:
        if dist not in self.known:
            learned[dist] = Distribution(dist, (1,) * self.count, self.kind, self.view.id)

    patch.setattr(Atop, "_check_weights", equal)


def rest_unsorted(patch: Patch) -> None:
    """At the end of a view the rest is delivered sender by sender."""

    def by_sender(self: Atop, present: frozenset[int], now: int) -> list[Cast]:
        for _, slot, sender, cast in sorted(self.pending, key=lambda entry: (-entry[2], entry[3].seq)):
            self._deliver(slot, sender, cast)
        return []

    patch.setattr(Atop, "conclude", by_sender)


def silence(patch: Patch) -> None:
    """A member with nothing to send says nothing."""
    patch.setattr(Atop, "turn", lambda self, now: None)


def no_dummies(patch: Patch) -> None:
    """A member with nothing to send does not say that it has come to a new distribution."""
    turn = Atop.turn

    def stay(self: Atop, now: int) -> None:
        if self.dist[self.rank] == self.sending.id:
            turn(self, now)

    patch.setattr(Atop, "turn", stay)


def index_restarts(patch: Patch) -> None:
    """Two messages of one sender get the same slot when a distribution was announced by a dummy."""
    submit = Atop.submit

    def again(self: Atop, batch: Batch, now: int) -> None:
        if self.last_cast[self.rank] != self.sending.id:
            self.index[self.rank] = 0
        submit(self, batch, now)

    patch.setattr(Atop, "submit", again)
    patch.setattr(mechanism, "RemoteProtocolError", _Ignored)


class _Ignored(Exception):
    """Not what an endpoint expects of a peer's mistake."""


ORDER = ("atop",)
ATOP_MUTANTS = [
    Mutant("atop_slots_not_waited_for", slots_not_waited_for, TOTAL, ORDER),
    Mutant("atop_promises_broken", promises_broken, TOTAL, ORDER),
    Mutant("atop_given_up_ahead_and_used", given_up_ahead_and_used, TOTAL, ORDER),
    Mutant("atop_distribution_changed_too_early", distribution_changed_too_early, TOTAL, ORDER),
    Mutant("atop_sequences_differ", sequences_differ, TOTAL, ORDER),
    Mutant("atop_weights_forgotten", weights_forgotten, TOTAL, ORDER),
    Mutant("atop_rest_unsorted", rest_unsorted, TOTAL, ORDER),
    Mutant("atop_silence", silence, ("liveness",), ORDER),
    Mutant("atop_no_dummies", no_dummies, ("liveness",), ORDER),
    Mutant("atop_index_restarts", index_restarts, ("_Ignored", "liveness"), ORDER),
]
