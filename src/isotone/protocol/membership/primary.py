"""Primary membership: the views form one chain; a majority of each decides by consensus what follows it (001 §4, Algorithm 1).

A round collects and recovers as in partitionable membership, among members of one view and fresh processes that join. When all
are ready, its proposer proposes (members, common set) to the consensus among the members of that view, and the view that is
decided is installed, whoever proposed it. Everybody who knows the decision passes it on to who is behind.

The first view has no predecessor. All founders, each without a view, are in its round, and the proposer alone decides: a second
first view needs every founder anew, so every founder in the former one has ended (`_may_enter` refuses what is still under way).

Invariants: a decision is proposed only when all its members hold its common set; a process enters a view only by a decision on
its current one, or as a fresh process; who is in a view and hears of a later one that it cannot enter was *expelled* and ends.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from isotone.model.errors import InvariantViolation, RemoteProtocolError, require
from isotone.model.ids import INITIAL_VIEW, ProcessId, ViewId, name_of
from isotone.model.records import Decision, Installed, Plan, Propose, State, Vote
from isotone.model.settings import EndpointConfig
from isotone.model.view import View
from isotone.protocol.membership.change import DECIDE as DECIDING
from isotone.protocol.membership.change import Change, Farewell
from isotone.protocol.membership.charter import check_ordering
from isotone.protocol.membership.consensus import DECIDE, Ballot, Consensus
from isotone.protocol.membership.directory import Directory
from isotone.protocol.membership.rounds import Host, Rounds

_DECISIONS = 4
"""How many of the last decisions are kept for those that ask."""


class Primary:
    """One process's part in the chain of views."""

    def __init__(self, config: EndpointConfig, host: Host, rounds: Rounds, directory: Directory) -> None:
        self.me = config.process
        self.founders = frozenset(config.founders)
        self.blocked = False
        self._config = config
        self._host = host
        self._rounds = rounds
        self._directory = directory
        self._instance: Consensus[Decision] | None = None
        self._decisions: dict[ViewId, Decision] = {}  # by the view that they follow, the last few
        self._last: Decision | None = None  # the one that led to the current view
        self._ready = INITIAL_VIEW  # the largest round that this process, fresh, was ready for …
        self._ready_with: frozenset[ProcessId] = frozenset()  # … and its participants
        self._ready_after: dict[ViewId, ViewId] = {}  # the largest of them by the view that it follows

    # What the rounds ask

    def admits(self, peer: ProcessId, record: Propose) -> bool:
        """Whether to answer a proposal: within a view, only to its members; others are told where the group is."""
        epoch = self._host.epoch
        if epoch is None or peer in epoch.rank_of:
            return True
        self._tell(peer)
        return False

    def fits(self, states: Mapping[ProcessId, State]) -> bool:
        """Whether a round with these states can lead to a decision."""
        epoch = self._host.epoch
        if epoch is None:
            fresh = all(state.view is None for state in states.values())
            return fresh and {name_of(peer) for peer in states} == self.founders and len(states) == len(self.founders)
        mine = epoch.view.id
        good = True
        for peer, state in states.items():
            if state.view is not None and state.view != mine:
                self._rounds.excuse(peer)
                good = False
        together = sum(state.view == mine for state in states.values())
        return good and 2 * together > len(epoch.view)

    def ready(self, change: Change) -> None:
        """This process says that it is ready for a round."""
        if self._host.epoch is None and change.round > self._ready:
            self._ready = change.round
            self._ready_with = frozenset(change.participants)
            cohorts = change.plan.cohorts if change.plan is not None else []
            self._ready_after[cohorts[0].view if cohorts else INITIAL_VIEW] = change.round

    def complete(self, change: Change, view: View, addresses: list[str], now: int) -> None:
        """All participants of an own round are ready: have it decided."""
        cohort, plan = change.cohort, change.plan
        if plan is None:
            raise InvariantViolation("a round is complete without a plan")
        if cohort is None:
            self._enter(Decision(INITIAL_VIEW, view, addresses, None, plan.sharing, plan.shares), now)
            return
        change.stage = DECIDING
        change.stage_began = now
        short = msgspec.structs.replace(cohort, holders=[], held=[], ahead=[])
        instance = self._instance
        if instance is None:
            raise InvariantViolation("a view without its consensus")
        instance.propose(Decision(cohort.view, view, addresses, short, plan.sharing, plan.shares), now)
        self._flush(now)

    # Messages

    def on_vote(self, peer: ProcessId, record: Vote, now: int) -> None:
        """A message of a consensus."""
        epoch = self._host.epoch
        if record.phase == DECIDE:
            if record.value is None or record.value.previous != record.instance:
                raise RemoteProtocolError(f"{peer} tells a decision that is none")
            self._learn(peer, record.value, now)
        elif epoch is not None and record.instance == epoch.view.id:
            rank = epoch.rank_of.get(peer)
            if rank is None or self._instance is None:
                raise RemoteProtocolError(f"{peer} votes in view {record.instance}, of which it is no member")
            self._instance.receive(rank, Ballot(record.phase, record.number, record.accepted, record.value), now)
            self._flush(now)
        else:
            self.answer(peer, record)

    def answer(self, peer: ProcessId, record: Vote) -> None:
        """A vote on what has been decided."""
        known = self._decisions.get(record.instance)
        if known is not None:
            self._host.send(peer, _told(known))
        elif self._last is not None and record.instance < self._last.view.id:
            self._host.send(peer, _told(self._last))

    def hear(self, peer: ProcessId, view: ViewId | None) -> None:
        """`peer` says which view it is in: it may have missed the way to this one."""
        epoch = self._host.epoch
        if epoch is not None and (view or INITIAL_VIEW) < epoch.view.id and (view is not None or peer in epoch.rank_of):
            self._tell(peer)

    def _tell(self, peer: ProcessId) -> None:
        if self._last is not None:
            self._host.send(peer, _told(self._last))

    def wake(self, now: int) -> None:
        """Repeat what was not answered."""
        if self._instance is not None:
            self._instance.wake(now)
            self._flush(now)

    def deadline(self) -> int | None:
        """When `wake` is wanted."""
        return self._instance.deadline() if self._instance is not None else None

    def _flush(self, now: int) -> None:
        """Send what the consensus has to say, and act on what it has decided here."""
        epoch, instance = self._host.epoch, self._instance
        if epoch is None or instance is None:
            return
        members = epoch.view.members
        for to, ballot in instance.take():
            if ballot.phase == DECIDE:
                continue  # `_spread` tells more of them, and until they have it
            record = Vote(epoch.view.id, ballot.phase, ballot.number, ballot.accepted, ballot.value)
            for peer in members if to is None else (members[to],):
                if peer != self.me:
                    self._host.send(peer, record)
        if instance.outbid:
            self._host.count("duels")
            instance.outbid = 0
        if instance.decided is not None:
            self._enter(instance.decided, now)

    # Decisions

    def _learn(self, peer: ProcessId, decision: Decision, now: int) -> None:
        epoch = self._host.epoch
        view = decision.view
        self._rounds.saw(view.id)
        check_ordering(self._config, peer, view.ordering)
        if epoch is None:
            if self.me in view.members and self._may_enter(peer, decision):
                self._enter(decision, now, peer)
            return
        mine = epoch.view.id
        if view.id == mine:
            self._host.send(peer, Installed(mine))
        elif decision.previous == mine:
            if peer != view.id.proposer:
                self._host.count("decisions_second_hand")
            self._enter(decision, now, peer)
        elif view.id > mine:
            self._expelled(view, now)

    def _may_enter(self, peer: ProcessId, decision: Decision) -> bool:
        """Whether a fresh process can enter a view without harm to a later round that it was ready for.

        A later round may lead to another view with this process in it; not one that follows the same view, of which one is
        decided. A later round to found the group does not if one of
        its participants is in this view.
        """
        rival = max((one for after, one in self._ready_after.items() if after != decision.previous), default=INITIAL_VIEW)
        if decision.view.id >= self._ready or (decision.cohort is not None and decision.view.id >= rival):
            return True
        return decision.cohort is None and peer in self._ready_with and peer in decision.view.members

    def _enter(self, decision: Decision, now: int, teller: ProcessId | None = None) -> None:
        """Go on to the decided view, or leave with it, or end because it is without this process."""
        epoch, rounds, view, cohort = self._host.epoch, self._rounds, decision.view, decision.cohort
        previous = epoch.view if epoch is not None else None
        present = cohort is not None and self.me in cohort.present
        if previous is not None and not (present and (self.me in view.members or rounds.leaving)):
            self._expelled(view, now)
            return
        if epoch is None or cohort is None:
            require(self.me in view.members and epoch is None, "a process enters a view that does not follow its own")
            cohort = None
        else:
            fits = tuple(cohort.members) == epoch.view.members and len(cohort.target) == len(epoch.held)
            fits = fits and len(cohort.delivered) in (0, len(epoch.held))
            if not fits or not view.id > epoch.view.id:
                raise RemoteProtocolError(f"the decision on {view.id} does not follow view {epoch.view.id}")
            require(epoch.frozen and epoch.flush.complete(cohort), "a view was decided before its members held the common set")
            if rounds.change is not None and rounds.change.mine and rounds.change.round != view.id:
                self._host.count("decisions_adopted")
        self._remember(decision)
        if teller is not None:
            self._host.send(teller, Installed(view.id))
        else:
            self._spread(decision, now)
        for member, address in zip(view.members, decision.addresses, strict=True):
            self._directory.learn(member, address, now)
        self._instance = None
        if self.me in view.members:
            rank = view.members.index(self.me)
            self._instance = Consensus(rank, len(view), self._config.timing.resend_ns, self._config.seed)
        cohorts = [decision.cohort] if decision.cohort is not None else []
        rounds.entered(view, cohort, Plan(view.id, cohorts, decision.sharing, decision.shares), now)

    def _remember(self, decision: Decision) -> None:
        self._last = self._decisions[decision.previous] = decision
        while len(self._decisions) > _DECISIONS:
            del self._decisions[min(self._decisions)]

    def _spread(self, decision: Decision, now: int) -> None:
        """Tell the members of both views until they have it, as a proposer does with a view."""
        present = decision.cohort.present if decision.cohort is not None else []
        others = {*present, *decision.view.members} - {self.me}
        resend = self._config.timing.resend_ns
        record = _told(decision)
        for peer in sorted(others):
            self._host.send(peer, record)
        if others:
            self._rounds.farewell = Farewell(record, decision.view.id, others, now + resend, now + 10 * resend)

    def _expelled(self, view: View, now: int) -> None:
        self._rounds.expelled(f"{self.me} was left out of primary view {view.id}: join again", now)

    # Being blocked

    def look(self, reachable: tuple[ProcessId, ...]) -> None:
        """So many members of the view are there: is that a majority?"""
        epoch = self._host.epoch
        count = len(epoch.view) if epoch is not None else 1
        blocked = epoch is not None and 2 * len(reachable) <= count
        if blocked != self.blocked:
            self.blocked = blocked
            self._host.blockage(blocked, reachable, count // 2 + 1)


def _told(decision: Decision) -> Vote:
    return Vote(decision.previous, DECIDE, 0, -1, decision)
