"""The rounds of a view change: propose, collect what the participants hold, let each cohort recover, install (PROTOCOLS §1).

A round has a fresh id, which becomes the view's. Whoever promises it freezes its view and ignores all smaller rounds for
ever. When each cohort (the participants that come from one view) holds the same casts, the proposer installs the view. A proposer
that dies in between leaves some with the new view and some without: the next round takes both as what they are, cohorts of
different views.

With primary membership (`Primary`) a complete round is proposed to a consensus, and what that decides is entered.

Invariants: `promised` only grows and is at least the current view's id; a view is installed only while its id is the promised
one (or by a decision on the current view's successor, whose id is larger), so views grow at every process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from isotone.model.errors import InvariantViolation, RemoteProtocolError, require
from isotone.model.ids import INITIAL_VIEW, ProcessId, ViewId, is_process_id
from isotone.model.records import Cohort, Install, Installed, Loose, Plan, Propose, Ready, Reject, Share, State
from isotone.model.settings import EndpointConfig
from isotone.model.view import View
from isotone.protocol.epoch import Epoch
from isotone.protocol.membership import plan
from isotone.protocol.membership.change import COLLECT, DECIDE, RECOVER, Change, Farewell
from isotone.protocol.membership.charter import check_ordering
from isotone.protocol.membership.detector import Detector
from isotone.protocol.membership.directory import Directory

if TYPE_CHECKING:
    from isotone.protocol.membership.primary import Primary

_EPOCH_JUMP = 1 << 40


class Host(Protocol):
    """What membership needs of the endpoint around it."""

    epoch: Epoch | None
    holding: bool

    def send(self, peer: ProcessId, record: Loose) -> None: ...
    def install(self, view: View, cohort: Cohort | None, plan: Plan, now: int) -> None: ...
    def finish(self, cohort: Cohort | None, error: str | None, now: int, expelled: bool = False) -> None: ...
    def blockage(self, blocked: bool, reachable: tuple[ProcessId, ...], needed: int) -> None: ...
    def held_back(self, peer: ProcessId, holding: bool) -> None: ...
    def apart(self, peer: ProcessId, reason: str) -> None: ...
    def count(self, what: str) -> None: ...
    def share(self) -> Share | None: ...
    def wants_view(self, now: int) -> bool: ...


class Rounds:
    """The rounds that one process proposes and takes part in."""

    def __init__(self, config: EndpointConfig, host: Host, detector: Detector, directory: Directory) -> None:
        self.me = config.process
        self._config = config
        self._timing = config.timing
        self._host = host
        self._detector = detector
        self._directory = directory
        self.primary: Primary | None = None
        self.promised = INITIAL_VIEW
        self.top_epoch = 0
        self.change: Change | None = None
        self.farewell: Farewell | None = None
        self.leaving = False
        self.left = False
        self.proposed_at = -config.timing.settle_ns
        self.news = False  # something happened that the estimate has to hear of
        self.inside: frozenset[ProcessId] = frozenset()
        self._report: list[int] = []
        self._unresponsive: dict[ProcessId, tuple[int, int]] = {}
        self._discords: dict[ProcessId, int] = {}  # so many rounds in a row failed because of an outsider that does not fit

    def saw(self, view: ViewId) -> None:
        """Somebody uses this view id: own proposals must be larger."""
        if view.epoch > self.top_epoch + _EPOCH_JUMP:
            raise RemoteProtocolError(f"view {view} is too far ahead of epoch {self.top_epoch}")
        if view.epoch > self.top_epoch:
            self.top_epoch = view.epoch

    def excused(self, peer: ProcessId, now: int) -> bool:
        """Whether `peer` is left out of proposals for a while because it did not answer."""
        until = self._unresponsive.get(peer)
        return until is not None and now < until[0]

    def wake(self, now: int) -> None:
        """Repeat what has not been answered."""
        if self.change is not None and self.change.mine and now >= self.change.resend_at:
            self._resend(self.change, now)
        if self.farewell is not None and now >= self.farewell.resend_at:
            self._repeat_farewell(self.farewell, now)

    def turn(self, now: int) -> None:
        """The end of a turn: the flush may be complete."""
        change = self.change
        if change is not None and change.planned and not change.is_ready:
            self._check_ready(change, now)

    def deadline(self) -> int | None:
        """When something has to be repeated."""
        times = [] if self.farewell is None else [self.farewell.resend_at]
        if self.change is not None and self.change.mine:
            times.append(self.change.resend_at)
        return min(times, default=None)

    def forgive(self, late: int) -> None:
        """This process slept for so long: answers may be waiting to be read."""
        if self.change is not None:
            self.change.stage_began += late
            self.change.touched += late

    def abandon(self, now: int) -> None:
        """Give the current round up; the view stays frozen until another round."""
        if self.change is not None:
            self.change = None
            self._watch(now)
            self._host.count("changes_superseded")

    def still_good(self, now: int) -> bool:
        """Whether the current round can still succeed."""
        change = self.change
        if change is None:
            return False
        return self._supervise(change, now) if change.mine else self._believe(change, now)

    def _believe(self, change: Change, now: int) -> bool:
        """A participant goes on with a round while its proposer does."""
        proposer = change.round.proposer
        said = self._directory.said.get(proposer)
        if self._detector.is_hard(proposer):
            return False
        if said is not None and (said.promised > change.round or (said.view or INITIAL_VIEW) > change.round):
            return False
        return now - change.touched < 3 * self._timing.change_ns + self._timing.hard_ns

    def _supervise(self, change: Change, now: int) -> bool:
        """The proposer goes on while every participant can still answer."""
        timing = self._timing
        epoch = self._host.epoch
        members: tuple[ProcessId, ...] = epoch.view.members if epoch is not None else ()
        said = self._directory.said
        suspects = {peer: said[peer].suspects for peer in change.participants if peer in said}
        good = True
        kept = plan.clique(self.me, sorted(change.participants), suspects)
        if len(kept) != len(change.participants):
            good = False
            for peer in sorted(set(change.participants).difference(kept, members)):
                self._disagree(peer, len(change.participants), now)
        overdue = now - change.stage_began >= timing.change_ns
        for peer in change.missing():
            if peer == self.me or self._detector.is_hard(peer):
                continue
            silent = now - self._detector.heard.get(peer, now) >= timing.soft_ns
            deaf = overdue and not silent and change.stage == COLLECT  # it speaks, but does not answer
            if deaf or (silent and peer not in members):  # an outsider must not hold the view up
                self._excuse(peer, now)
                good = False
        if change.stage in (RECOVER, DECIDE) and now - max(change.stage_began, change.touched) >= 4 * timing.change_ns:
            good = False
        return good and not any(self._detector.is_hard(peer) for peer in change.participants)

    def _disagree(self, peer: ProcessId, count: int, now: int) -> None:
        """A round failed since an outsider cannot be in it with all others. It says so in rounds only: leave it out for a while.

        The first time it may just not have heard of all yet. At last it is so long that proposers whose turn comes later can try.
        """
        times = self._discords[peer] = self._discords.get(peer, 0) + 1
        if times > 1:
            change_ns = self._timing.change_ns
            self._unresponsive[peer] = (now + min(change_ns << min(times - 2, 16), (2 + count) * change_ns), 1)

    def excuse(self, peer: ProcessId) -> None:
        """`peer` cannot be in the current round."""
        self._excuse(peer, self.change.stage_began if self.change is not None else 0)

    def _excuse(self, peer: ProcessId, now: int) -> None:
        """Leave a process that does not answer out of proposals for a while."""
        times = self._unresponsive.get(peer, (0, 0))[1]
        self._unresponsive[peer] = (now + (self._timing.change_ns << min(times, 3)), times + 1)

    # Rounds: the proposer

    def propose(self, participants: tuple[ProcessId, ...], now: int) -> None:
        """Begin a round of one's own."""
        self.proposed_at = now
        self.top_epoch = max(self.top_epoch, self.promised.epoch) + 1
        round_ = ViewId(self.top_epoch, self.me)
        change = Change(round_, participants, True, now, now + self._timing.resend_ns)
        self._begin(change, now)
        change.states[self.me] = self._state(round_)
        self._send_proposal(change, change.missing())
        self._advance(change, now)

    def _begin(self, change: Change, now: int) -> None:
        """Promise a round: freeze the view, watch the participants."""
        require(change.round > self.promised, "a round is promised that is not larger than the last")
        self.promised = change.round
        self.change = change
        self.news = True
        epoch = self._host.epoch
        if epoch is not None and not epoch.frozen:
            self._report = epoch.freeze(now)
        self._watch(now)

    def _watch(self, now: int) -> None:
        epoch = self._host.epoch
        inside: set[ProcessId] = set(epoch.view.members) if epoch is not None else set()
        if self.change is not None:
            inside.update(self.change.participants)
        inside.discard(self.me)
        self.inside = frozenset(inside)
        self._detector.watch(self.inside, now)

    def _state(self, round_: ViewId) -> State:
        epoch = self._host.epoch
        share = self._host.share()
        if epoch is None:
            return State(round_, None, [], [], [], self.leaving, self._config.ordering, share)
        view = epoch.view
        ordering, switches = epoch.regime
        held, early = list(epoch.held), epoch.flush.still_ahead()
        return State(round_, view.id, list(view.members), held, self._report, self.leaving, ordering, share, early, switches)

    def _send_proposal(self, change: Change, to: Iterable[ProcessId]) -> None:
        addresses = [self._address(peer) for peer in change.participants]
        record = Propose(change.round, list(change.participants), addresses)
        for peer in to:
            self._host.send(peer, record)

    def _address(self, process: ProcessId) -> str:
        return self._config.address if process == self.me else self._directory.addresses.get(process, "")

    def _resend(self, change: Change, now: int) -> None:
        change.resend_at = now + self._timing.resend_ns
        missing = [peer for peer in change.missing() if peer != self.me]
        if change.stage == COLLECT:
            self._send_proposal(change, missing)
        elif change.plan is not None:
            for peer in missing:
                self._host.send(peer, change.plan)

    def on_state(self, peer: ProcessId, record: State, now: int) -> None:
        """A participant says what it holds."""
        change = self.change
        if change is None or not change.mine or record.round != change.round or change.stage != COLLECT:
            return
        if peer not in change.participants:
            raise RemoteProtocolError(f"{peer} answers a proposal that was not made to it")
        plan.check_state(peer, record, change.states.values())
        check_ordering(self._config, peer, record.ordering)
        self._unresponsive.pop(peer, None)
        change.states[peer] = record
        self._advance(change, now)

    def _advance(self, change: Change, now: int) -> None:
        """Go to the next stage when the current one is complete."""
        if change.stage == COLLECT and not change.missing():
            if self.primary is not None and not self.primary.fits(change.states):
                self.abandon(now)
                self.news = True
                return
            change.plan = Plan(change.round, plan.cohorts(change.states), *plan.shares(change.states))
            change.stage = RECOVER
            change.stage_began = now
            change.resend_at = now + self._timing.resend_ns
            for peer in change.participants:
                if peer != self.me:
                    self._host.send(peer, change.plan)
            self._take_plan(change, change.plan, now)
        elif change.stage == RECOVER and not change.missing():
            self._complete(change, now)

    def on_ready(self, peer: ProcessId, record: Ready, now: int) -> None:
        """A participant holds its cohort's common set."""
        change = self.change
        if change is None or not change.mine or record.round != change.round or change.stage != RECOVER:
            return
        if peer in change.participants:
            change.ready.add(peer)
            change.touched = now
            self._advance(change, now)

    def _complete(self, change: Change, now: int) -> None:
        states = change.states
        members = tuple(peer for peer in change.participants if not states[peer].leaving)
        view = View(change.round, members, plan.choose_ordering(states))
        addresses = [self._address(peer) for peer in members]
        if self.primary is not None:
            self.primary.complete(change, view, addresses, now)
            return
        install = Install(change.round, view, addresses)
        others = {peer for peer in change.participants if peer != self.me}
        for peer in sorted(others):
            self._host.send(peer, install)
        if others:
            until = now + 10 * self._timing.resend_ns
            self.farewell = Farewell(install, view.id, others, now + self._timing.resend_ns, until)
        self._enter(change, view, now)

    def _repeat_farewell(self, farewell: Farewell, now: int) -> None:
        epoch = self._host.epoch
        if now >= farewell.until:
            # A member that lacks the view waits for it as long as its proposer lives: go on while this is the view.
            if epoch is None or epoch.view.id != farewell.round:
                self.farewell = None
                return
            farewell.waiting.intersection_update(epoch.view.members)
            if not farewell.waiting:
                self.farewell = None
                return
        farewell.resend_at = now + self._timing.resend_ns
        for peer in sorted(farewell.waiting):
            self._host.send(peer, farewell.install)

    def on_installed(self, peer: ProcessId, record: Installed, now: int) -> None:
        """A participant has the view."""
        self.confirmed(peer, record.round)

    def confirmed(self, peer: ProcessId, view: ViewId) -> None:
        """`peer` has installed `view`."""
        if self.farewell is not None and view == self.farewell.round:
            self.farewell.waiting.discard(peer)
            if not self.farewell.waiting:
                self.farewell = None

    def on_reject(self, peer: ProcessId, record: Reject, now: int) -> None:
        """A participant has promised a larger round."""
        self.saw(record.promised)
        change = self.change
        if change is not None and change.mine and record.round == change.round and record.promised > change.round:
            self.abandon(now)
            self.news = True

    # Rounds: the participants

    def on_propose(self, peer: ProcessId, record: Propose, now: int) -> None:
        """Another process proposes a view."""
        round_ = record.round
        if round_.proposer != peer or len(record.participants) != len(record.addresses):
            raise RemoteProtocolError(f"{peer} sends a malformed proposal")
        if not all(is_process_id(member) for member in record.participants):
            raise RemoteProtocolError(f"{peer} proposes members that are no process ids")
        self.saw(round_)
        change = self.change
        if change is not None and round_ == change.round:
            self._host.send(peer, self._state(round_))
            return
        if self.me not in record.participants or (self.primary is not None and not self.primary.admits(peer, record)):
            return
        if round_ <= self.promised:
            self._host.send(peer, Reject(round_, self.promised))
            return
        if change is not None:
            self._host.count("changes_superseded")
        self.farewell = None
        for member, address in zip(record.participants, record.addresses, strict=True):
            self._directory.learn(member, address, now)
        participants = tuple(sorted(record.participants))
        self._begin(Change(round_, participants, False, now, now + self._timing.resend_ns), now)
        self._host.send(peer, self._state(round_))

    def on_plan(self, peer: ProcessId, record: Plan, now: int) -> None:
        """The proposer says what each cohort has to recover."""
        change = self.change
        if change is None or change.mine or record.round != change.round or peer != change.round.proposer:
            return
        change.touched = now
        if change.planned:
            if change.is_ready:
                self._host.send(peer, Ready(change.round))
            return
        self._take_plan(change, record, now)

    def _take_plan(self, change: Change, record: Plan, now: int) -> None:
        epoch = self._host.epoch
        if epoch is not None:
            own = [cohort for cohort in record.cohorts if cohort.view == epoch.view.id and self.me in cohort.present]
            if len(own) != 1:
                raise RemoteProtocolError(f"the plan of {change.round} has no cohort for {self.me}")
            plan.check_cohort(self.me, own[0], epoch.view.members, epoch.held, epoch.accepted, epoch.flush.ahead, self._report)
            change.cohort = own[0]
            epoch.relay(self.me, own[0])
        if self._host.share() is not None and self.me not in record.sharing:
            raise RemoteProtocolError(f"the plan of {change.round} leaves out what {self.me} has of the state")
        change.plan = record
        change.planned = True
        self._check_ready(change, now)

    def _check_ready(self, change: Change, now: int) -> None:
        epoch = self._host.epoch
        if epoch is not None and change.cohort is not None and not epoch.flush.complete(change.cohort):
            return
        change.is_ready = True
        if self.primary is not None:
            self.primary.ready(change)
        if change.mine:
            change.ready.add(self.me)
            self._advance(change, now)
        else:
            self._host.send(change.round.proposer, Ready(change.round))

    def on_install(self, peer: ProcessId, record: Install, now: int) -> None:
        """The proposer installs the view."""
        change = self.change
        epoch = self._host.epoch
        if self.primary is not None:
            raise RemoteProtocolError(f"{peer} installs a view in a group with primary membership")
        if epoch is not None and record.round == epoch.view.id:
            self._host.send(peer, Installed(record.round))
            return
        if change is None or change.mine or record.round != change.round or peer != change.round.proposer:
            return
        members = record.view.members
        if not change.is_ready or record.view.id != change.round or not set(members) <= set(change.participants):
            raise RemoteProtocolError(f"{peer} installs a view that was not agreed on in round {record.round}")
        if self.me not in members and not self.leaving:
            raise RemoteProtocolError(f"{peer} installs a view without {self.me}, which is not leaving")
        check_ordering(self._config, peer, record.view.ordering)
        for member, address in zip(record.view.members, record.addresses, strict=False):
            self._directory.learn(member, address, now)
        self._host.send(peer, Installed(record.round))
        self._enter(change, record.view, now)

    def _enter(self, change: Change, view: View, now: int) -> None:
        """The round is complete: end the old view and begin the new one, or leave."""
        require(self.promised == change.round == view.id, "a view is installed that was not promised")
        if change.plan is None:
            raise InvariantViolation("a view is installed without a plan")
        self._switch(view, change.cohort, change.plan, set(change.participants) - set(view.members), now)

    def entered(self, view: View, cohort: Cohort | None, plan: Plan, now: int) -> None:
        """A view was decided: end the old one and begin it, or leave."""
        self.promised = max(self.promised, view.id)
        self._switch(view, cohort, plan, set(cohort.present) - set(view.members) if cohort is not None else set(), now)

    def expelled(self, error: str, now: int) -> None:
        """The group goes on without this process."""
        self.change = self.farewell = None
        self.left = True
        self._host.count("expelled")
        self._host.finish(None, error, now, expelled=True)

    def _switch(self, view: View, cohort: Cohort | None, plan: Plan, left: set[ProcessId], now: int) -> None:
        self.change = None
        if self.me in view.members:
            self._host.install(view, cohort, plan, now)
            for peer in sorted(left):
                self._directory.forget(peer)
            for peer in view.members:
                self._unresponsive.pop(peer, None)
                self._discords.pop(peer, None)
            self._watch(now)
        else:
            self.left = True
            self._host.finish(cohort, None, now)
        self.news = True
