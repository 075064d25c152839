"""Deliberate faults of `semantic_fifo` and `semantic_causal`, and of the early hand-over beneath them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isotone.model.records import Cohort, Place
from isotone.protocol.epoch import Epoch
from isotone.protocol.flush import Flush
from isotone.protocol.membership import plan
from isotone.protocol.semantic.causal import SemanticCausal, Waiting
from isotone.protocol.semantic.fifo import SemanticFifo
from isotone.protocol.semantic.frontier import Frontier, Known
from isotone.protocol.semantic.shapes import Shape
from tests.mutants.mutants import Mutant, Patch

BOTH = ("semantic_fifo", "semantic_causal")
CAUSAL = ("semantic_causal",)
SPLIT = ("virtual_synchrony", "agreement", "InvariantViolation")


def only_what_was_delivered_is_known(patch: Patch) -> None:
    """A clock per class and no more: what a message of another class knew is forgotten (PROTOCOLS §7)."""
    delivered = SemanticCausal._delivered

    def forget(self: SemanticCausal, one: Waiting) -> None:
        known = self.known.copy()
        delivered(self, one)
        self.known = known
        self.known[one.rank] = max(known[one.rank], one.seq)

    patch.setattr(SemanticCausal, "_delivered", forget)


def the_unknown_commutes(patch: Patch) -> None:
    """What a sender never saw of its past counts as if it did not conflict."""
    undelivered = SemanticCausal._undelivered
    patch.setattr(SemanticCausal, "_undelivered", lambda self, shape: (undelivered(self, shape)[0], {}))


def own_messages_do_not_wait(patch: Patch) -> None:
    """A sender delivers what it sends at once."""
    obstacle = SemanticCausal._obstacle
    patch.setattr(SemanticCausal, "_obstacle", lambda self, one: None if one.rank == self.rank else obstacle(self, one))


def early_ones_not_reported(patch: Patch) -> None:
    """A member does not say what it has delivered from behind a gap."""
    patch.setattr(Flush, "still_ahead", lambda self: [])
    patch.setattr(plan, "check_cohort", lambda *_: None)


def early_ones_not_in_the_common_set(patch: Patch) -> None:
    """The proposer forgets them."""

    def forgetful(target: Sequence[int], ahead: Iterable[Iterable[Place]]) -> list[Place]:
        return []

    patch.setattr(plan, "beyond", forgetful)
    patch.setattr(plan, "check_cohort", lambda *_: None)


def early_ones_not_concluded(patch: Patch) -> None:
    """A view ends with the streams alone."""
    conclude = Epoch.conclude

    def end(self: Epoch, cohort: Cohort, now: int) -> None:
        conclude(self, Cohort(cohort.view, cohort.members, cohort.present, cohort.target, cohort.holders, cohort.held), now)

    patch.setattr(Epoch, "conclude", end)


def early_ones_waited_for_by_nobody(patch: Patch) -> None:
    """Nobody passes them on, and nobody misses them."""
    patch.setattr(Flush, "_pass_on", lambda self, rank, place: False)
    conclude = Epoch.conclude

    def end(self: Epoch, cohort: Cohort, now: int) -> None:
        here = [place for place in cohort.early if place in self.flush.early or place[1] <= self.held[place[0]]]
        conclude(self, Cohort(cohort.view, cohort.members, cohort.present, cohort.target, [], [], here), now)

    patch.setattr(Epoch, "conclude", end)
    patch.setattr(
        Flush, "complete", lambda self, cohort: all(a >= b for a, b in zip(self._store.held, cohort.target, strict=True))
    )


def the_one_before_is_named(patch: Patch) -> None:
    """Instead of the last one that conflicts, a cast names the one before it."""
    before = Frontier.before

    def earlier(self: Frontier, *args: Any) -> tuple[list[Place], list[Place]]:
        exact, upto = before(self, *args)
        return [(rank, seq - 1) for rank, seq in exact if seq > 1], upto

    patch.setattr(Frontier, "before", earlier)


def the_last_of_a_shape_is_enough(patch: Patch) -> None:
    """Of casts that commute with each other only the last is remembered: no update waits for all increments."""
    add = Frontier.add

    def one(self: Frontier, cast: Known, freed: Sequence[int]) -> None:
        self._known.pop(cast.shape, None)
        add(self, cast, freed)

    patch.setattr(Frontier, "add", one)


def several_items_count_as_their_first(patch: Patch) -> None:
    """Shapes conflict only if their first items are the same."""

    def conflict(self: Frontier, one: Shape, two: Shape) -> bool:
        return bool(one.descriptions) and [d[1] and d[1][:1] for d in one.descriptions] == [
            d[1] and d[1][:1] for d in two.descriptions
        ]

    init = Frontier.__init__

    def begin(self: Frontier, *args: Any) -> None:
        init(self, *args)
        self.conflict = lambda one, two: conflict(self, one, two)  # type: ignore[method-assign]

    patch.setattr(Frontier, "__init__", begin)


def names_ignored(patch: Patch) -> None:
    """What is behind a gap is delivered as it comes."""
    patch.setattr(SemanticFifo, "_ready", lambda self, sender, cast: True)


def delivered_again_in_order(patch: Patch) -> None:
    """What was delivered early is delivered again when its gap closes."""
    accept = SemanticFifo.accept

    def again(self: SemanticFifo, sender: int, casts: Any, now: int) -> None:
        self.ahead[sender].clear()
        accept(self, sender, casts, now)

    patch.setattr(SemanticFifo, "accept", again)


WEAK_MUTANTS = [
    Mutant("only_what_was_delivered_is_known", only_what_was_delivered_is_known, ("semantic_causal",), CAUSAL),
    Mutant("the_unknown_commutes", the_unknown_commutes, ("semantic_causal",), CAUSAL),
    Mutant("own_messages_do_not_wait", own_messages_do_not_wait, ("semantic_causal",), CAUSAL),
    Mutant("early_ones_not_reported", early_ones_not_reported, SPLIT, BOTH, first=35),
    Mutant("early_ones_not_in_the_common_set", early_ones_not_in_the_common_set, SPLIT, BOTH, first=35),
    Mutant("early_ones_not_concluded", early_ones_not_concluded, SPLIT, BOTH, first=35),
    Mutant("early_ones_waited_for_by_nobody", early_ones_waited_for_by_nobody, SPLIT, BOTH, first=35),
    Mutant("the_one_before_is_named", the_one_before_is_named, ("semantic_fifo",), ("semantic_fifo",)),
    Mutant("the_last_of_a_shape_is_enough", the_last_of_a_shape_is_enough, ("semantic_fifo",), ("semantic_fifo",), 23),
    Mutant("several_items_count_as_their_first", several_items_count_as_their_first, ("semantic_fifo",), ("semantic_fifo",)),
    Mutant("names_ignored", names_ignored, ("semantic_fifo",), ("semantic_fifo",)),
    Mutant("delivered_again_in_order", delivered_again_in_order, ("duplication",), ("semantic_fifo",)),
]
