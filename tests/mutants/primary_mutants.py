"""Deliberate faults of primary membership; see `mutants`."""

from __future__ import annotations

from typing import Any

from isotone.model.ids import INITIAL_VIEW, ProcessId
from isotone.model.records import Cohort, Decision
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.epoch import Epoch
from isotone.protocol.membership import primary
from isotone.protocol.membership.consensus import NONE, Consensus
from isotone.protocol.membership.membership import Membership
from isotone.protocol.membership.primary import Primary
from isotone.protocol.membership.rounds import Rounds
from tests.mutants.mutants import Mutant, Patch


def coordinator_says_so(patch: Patch) -> None:
    """Who proposes a round installs it when all are ready, without a consensus."""

    def complete(self: Primary, change: Any, view: Any, addresses: list[str], now: int) -> None:
        previous = change.cohort.view if change.cohort is not None else INITIAL_VIEW
        self._enter(Decision(previous, view, addresses, change.cohort, [], []), now)

    patch.setattr(Primary, "complete", complete)


def minority_goes_on(patch: Patch) -> None:
    """Any component goes on, as if its own members were all there are."""
    _no_majority(patch)
    begin = Consensus.__init__

    def alone(self: Consensus[Any], rank: int, count: int, retry_ns: int, seed: int) -> None:
        begin(self, rank, count, retry_ns, seed)
        self.majority = 1

    patch.setattr(Consensus, "__init__", alone)


def _no_majority(patch: Patch) -> None:
    needed, fits = Membership._needed, Primary.fits

    def always(self: Membership, estimate: list[ProcessId], now: int) -> bool:
        self_primary, epoch = self.primary, self._host.epoch
        if epoch is not None:
            self.primary = None
        try:
            return needed(self, estimate, now)
        finally:
            self.primary = self_primary

    def fit(self: Primary, states: Any) -> bool:
        return True if self._host.epoch is not None else fits(self, states)

    patch.setattr(Membership, "_needed", always)
    patch.setattr(Primary, "fits", fit)


def blocked_multicasts(patch: Patch) -> None:
    """A blocked process tells the application, and sends all the same."""
    blockage = Endpoint.blockage

    def careless(self: Endpoint, blocked: bool, reachable: tuple[ProcessId, ...], needed: int) -> None:
        blockage(self, blocked, reachable, needed)
        self.blocked = None

    patch.setattr(Endpoint, "blockage", careless)


def expelled_goes_on(patch: Patch) -> None:
    """A process that was left out stays as it is."""
    patch.setattr(Rounds, "expelled", lambda self, error, now: None)


def decisions_kept_to_oneself(patch: Patch) -> None:
    """Only the one who decides tells, once."""

    def spread(self: Primary, decision: Decision, now: int) -> None:
        for peer in decision.view.members:
            if peer != self.me:
                self._host.send(peer, primary._told(decision))

    patch.setattr(Primary, "hear", lambda self, peer, view: None)
    patch.setattr(Primary, "answer", lambda self, peer, record: None)
    patch.setattr(Primary, "_tell", lambda self, peer: None)
    patch.setattr(Primary, "_spread", spread)


def everything_held_is_delivered(patch: Patch) -> None:
    """A view ends with what a member holds by now, not with the decided common set."""
    conclude = Epoch.conclude

    def end(self: Epoch, cohort: Cohort, now: int) -> None:
        conclude(self, Cohort(cohort.view, cohort.members, cohort.present, list(self.held), [], []), now)

    patch.setattr(Epoch, "conclude", end)


def part_of_the_founders(patch: Patch) -> None:
    """The founders that are there do not wait for the others."""
    fits, needed = Primary.fits, Membership._needed

    def fit(self: Primary, states: Any) -> bool:
        return all(state.view is None for state in states.values()) if self._host.epoch is None else fits(self, states)

    def need(self: Membership, estimate: list[ProcessId], now: int) -> bool:
        if self._host.epoch is None:
            return len(estimate) > 1 or len(self._config.founders) == 1
        return needed(self, estimate, now)

    patch.setattr(Primary, "fits", fit)
    patch.setattr(Membership, "_needed", need)


def votes_forgotten(patch: Patch) -> None:
    """A member forgets what it accepted when another ballot begins."""
    promise = Consensus._promise

    def forgetful(self: Consensus[Any], number: int) -> Any:
        self._accepted, self._value = NONE, None
        return promise(self, number)

    patch.setattr(Consensus, "_promise", forgetful)


def proposed_before_ready(patch: Patch) -> None:
    """A decision is proposed before its members hold the common set."""
    take_plan = Rounds._take_plan

    def hasty(self: Rounds, change: Any, record: Any, now: int) -> None:
        take_plan(self, change, record, now)
        if change.mine and self.change is change and change.missing():
            change.ready.update(change.participants)
            self._advance(change, now)

    patch.setattr(Rounds, "_take_plan", hasty)


CHAIN = ("chain",)
PRIMARY_MUTANTS = [
    Mutant("minority_goes_on", minority_goes_on, CHAIN),
    Mutant("blocked_multicasts", blocked_multicasts, ("blocked",)),
    Mutant("expelled_goes_on", expelled_goes_on, ("liveness",)),
    Mutant("decisions_kept_to_oneself", decisions_kept_to_oneself, ("liveness",)),
    Mutant("everything_held_is_delivered", everything_held_is_delivered, ("virtual_synchrony", "agreement")),
    Mutant("part_of_the_founders", part_of_the_founders, CHAIN),
    Mutant("proposed_before_ready", proposed_before_ready, ("InvariantViolation",)),
]
CUT_OFF_MUTANTS = [
    Mutant("coordinator_says_so", coordinator_says_so, CHAIN),
    Mutant("votes_forgotten", votes_forgotten, CHAIN),
]
"""Caught where the proposer is cut off at the instant of the decision."""
