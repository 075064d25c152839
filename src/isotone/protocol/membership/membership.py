"""Membership: who should be in the view, and when to change it (000 §2, PROTOCOLS §1 and §2).

Every process keeps an *estimate* of who should be in its view: trusted members of the current one, and processes outside
it that it hears and that hear it. When the estimate differs from the view, the first process of the estimate proposes a round
(`Rounds`); the others step in, one after another, if it does not. Known processes outside the view are probed for ever, so
components that were separated meet again. With primary membership an estimate is proposed only if it has a majority of the view,
and outside it only fresh processes count (`Primary`).
"""

from __future__ import annotations

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import INITIAL_VIEW, ProcessId, ViewId, incarnation_of, is_process_id, name_of
from isotone.model.records import (
    Charter,
    Heartbeat,
    Install,
    Installed,
    Loose,
    Plan,
    Probe,
    Propose,
    Ready,
    Refuse,
    Reject,
    State,
    Vote,
)  # fmt: skip
from isotone.model.settings import EndpointConfig
from isotone.protocol.membership import plan
from isotone.protocol.membership.charter import Charters
from isotone.protocol.membership.detector import Detector
from isotone.protocol.membership.directory import Directory, Said
from isotone.protocol.membership.primary import Primary
from isotone.protocol.membership.rounds import Host, Rounds


class Membership:
    """The view changes of one process."""

    def __init__(self, config: EndpointConfig, host: Host, detector: Detector) -> None:
        self.me = config.process
        self._config = config
        self._timing = config.timing
        self._host = host
        self.detector = detector
        self.directory = Directory(self.me, config.timing, config.limits)
        self.rounds = Rounds(config, host, detector, self.directory)
        self.primary: Primary | None = None
        if config.membership == "primary":
            self.primary = self.rounds.primary = Primary(config, host, self.rounds, self.directory)
        self._charters = Charters(config)
        self._apart: set[ProcessId] = set()  # members of components that this one cannot merge with
        self.dirty = True
        self._started = 0
        self._tick_at = 0
        self._probe_tick_at = 0
        self._view: ViewId | None = None
        self._departed: set[ProcessId] = set()
        self._wanted: tuple[ProcessId, ...] | None = None
        self._wanted_at = 0
        self._needed_at = 0
        self._act_at: int | None = None
        self._refused_at: int | None = None
        self.obstacle: str | None = None  # why this process has no view yet, where somebody is there that it cannot be with
        self._stranded = False  # a member has frozen the view for an own round that another one's decision ended
        self._refused_last = 0
        self._stranger: ProcessId | None = None  # heard before any view, and cannot be in a group with this process
        self._stranger_at = -(1 << 62)  # when it was
        self._banned: set[ProcessId] = set()
        self._ended = False
        rounds = self.rounds
        self._handlers = {
            Heartbeat: self._on_heartbeat, Probe: self._on_probe, Refuse: self._on_refuse, Propose: rounds.on_propose,
            Reject: rounds.on_reject, State: rounds.on_state, Plan: rounds.on_plan, Ready: rounds.on_ready,
            Install: rounds.on_install, Installed: rounds.on_installed, Vote: self._on_vote, Charter: self._charters.learn,
        }  # fmt: skip

    # Input

    def start(self, now: int) -> None:
        """The process begins."""
        self._started = now
        self._tick_at = now
        self._probe_tick_at = now

    def handle(self, peer: ProcessId, record: Loose, now: int) -> None:
        """A loose record came from `peer`."""
        if self._over():
            if type(record) is Install and self.rounds.promised == record.round:
                self._host.send(peer, Installed(record.round))
            elif type(record) is Installed:
                self.rounds.on_installed(peer, record, now)
            elif type(record) is Vote and self.primary is not None:
                self.primary.answer(peer, record)
            return
        self._handlers[type(record)](peer, record, now)  # type: ignore[operator]

    def connected(self, peer: ProcessId, address: str, now: int) -> None:
        """There is a way to `peer`."""
        self.directory.learn(peer, address, now)
        self.directory.probe_soon(peer, now)
        self._probe_tick_at = min(self._probe_tick_at, now)

    def ban(self, peer: ProcessId) -> None:
        """A process broke the protocol: no view with it any more. A new incarnation may come."""
        if len(self._banned) < self._config.limits.contacts:
            self._banned.add(peer)
            self.dirty = True

    def leave(self) -> None:
        """This process wants to be out of the next view."""
        self.rounds.leaving = True
        self.dirty = True

    def turn(self, now: int) -> None:
        """The end of a turn: act on what it brought."""
        self.rounds.turn(now)
        while self.dirty or self.rounds.news:
            self.dirty = self.rounds.news = False
            self._evaluate(now)

    def wake(self, now: int) -> None:
        """Heartbeats, probes, repetitions, decisions that are due."""
        self.rounds.wake(now)
        if self._over():
            return
        if self.primary is not None:
            self.primary.wake(now)
            if self._over():
                return
        if now >= self._tick_at:
            self._tick_at = now + self._timing.heartbeat_ns
            self.detector.check(now)
            self.heartbeat(now)
            self.dirty = True
            if self.obstacle is not None and not self._is_refused(now):
                self.obstacle = None
        if now >= self._probe_tick_at:
            self._probe_tick_at = now + self._timing.probe_ns // 2
            for peer in self.directory.due(self.rounds.inside - self._departed, now):
                self._send_probe(peer, now)
        if self._act_at is not None and now >= self._act_at:
            self.dirty = True

    def deadline(self) -> int | None:
        """When `wake` is wanted."""
        rounds = self.rounds
        deadline = None if rounds.change is None and rounds.farewell is None else rounds.deadline()
        if self._ended or rounds.left:
            return deadline
        earliest = self._tick_at if self._tick_at < self._probe_tick_at else self._probe_tick_at
        if self.primary is not None:
            earliest = min(earliest, self.primary.deadline() or earliest)
        if deadline is not None and deadline < earliest:
            earliest = deadline
        if self._act_at is not None and self._act_at < earliest:
            earliest = self._act_at
        return earliest

    def _over(self) -> bool:
        return self._ended or self.rounds.left

    # Signs of life

    def heartbeat(self, now: int) -> None:
        """Tell the members and participants how far this process is."""
        epoch = self._host.epoch
        held = epoch.report() if epoch is not None else []
        rounds = self.rounds
        if not rounds.inside or self._over():
            return
        inside = sorted(rounds.inside)
        suspects = [peer for peer in inside if peer not in self._departed and self.detector.is_hard(peer)]
        suspects += self.directory.unheard(rounds.inside, now)
        suspects += sorted(self._banned | self._lost())
        view = epoch.view.id if epoch is not None else INITIAL_VIEW
        stable = epoch.store.stable if epoch is not None else 0
        record = Heartbeat(view, rounds.promised, held, stable, self._host.holding, rounds.leaving, suspects)
        for peer in inside:
            self._host.send(peer, record)

    def _on_heartbeat(self, peer: ProcessId, record: Heartbeat, now: int) -> None:
        rounds = self.rounds
        rounds.saw(record.promised)
        if self.primary is not None:
            self.primary.hear(peer, record.view if record.view != INITIAL_VIEW else None)
        if peer not in rounds.inside:
            return  # late, or from one that still believes in an old view: its probes will tell
        said = self.directory.heartbeat(peer, record, now)
        epoch = self._host.epoch
        change = rounds.change
        if change is not None and peer == change.round.proposer and record.promised == change.round:
            change.touched = now
        if epoch is not None and record.view == epoch.view.id:
            rank = epoch.rank_of.get(peer)
            if rank is None:
                raise RemoteProtocolError(f"{peer} says that it is in view {record.view}, of which it is no member")
            epoch.stability.report(rank, record.held)
            epoch.store.stable_for(rank, record.stable)
            if epoch.hold(rank, record.hold):
                self._host.held_back(peer, record.hold)
            if record.promised > epoch.view.id and record.promised.proposer == self.me and not epoch.frozen:
                self._stranded = self.dirty = True
        else:
            self._notice_departure(peer, said.view, said.promised)
        if said.leaving or said.suspects:
            self.dirty = True
        rounds.confirmed(peer, record.view)

    def _notice_departure(self, peer: ProcessId, view: ViewId | None, promised: ViewId) -> None:
        """A member of the current view that is in a later view, or will never enter this one, has gone."""
        epoch = self._host.epoch
        if epoch is None or peer not in epoch.rank_of or peer in self._departed:
            return
        mine = epoch.view.id
        theirs = view or INITIAL_VIEW
        if self.primary is not None:  # who is behind is told the decision; who is fresh may have to come in anew
            if view is None and mine < promised:
                self._departed.add(peer)
                self.dirty = True
            return
        if (theirs > mine and theirs != self.rounds.promised) or (theirs < mine < promised):
            self._departed.add(peer)
            self.dirty = True

    def _send_probe(self, peer: ProcessId, now: int) -> None:
        epoch = self._host.epoch
        members: list[ProcessId] = list(epoch.view.members) if epoch is not None else []
        own = self._config.address
        contacts = self.directory.contacts(members, now)
        addresses = [own if contact == self.me else self.directory.addresses.get(contact, "") for contact in contacts]
        hears = self.directory.hears(peer, now)
        view = epoch.view.id if epoch is not None else None
        rounds = self.rounds
        founder = self._config.founder
        record = Probe(own, view, rounds.promised, members, contacts, addresses, hears, founder, rounds.leaving)
        if self._charters.own is not None:
            self._host.send(peer, self._charters.own)
        self._host.send(peer, record)

    def _on_vote(self, peer: ProcessId, record: Vote, now: int) -> None:
        if self.primary is None:
            raise RemoteProtocolError(f"{peer} votes in a group with partitionable membership")
        self.primary.on_vote(peer, record, now)

    def _other_kind(self, peer: ProcessId, record: Probe, now: int) -> bool:
        """Whether `peer` cannot be in one group with this process. Who is in none yet hears why; two components both say it."""
        reason = self._charters.difference(peer)
        if reason is None:
            return False
        if self._host.epoch is not None:
            if record.view is None:
                self._host.send(peer, Refuse(reason, True))
            elif self._apart.isdisjoint(record.members) and len(self._apart) < self._config.limits.contacts:
                self._apart.update(record.members, (peer,))  # once for all its members
                self._host.apart(peer, reason)
        elif record.view is not None:
            self.end(reason, now)
        else:  # neither founds a group beside the other's: both end, unless one of them goes away
            self._stranger, self._stranger_at = peer, now
            self.directory.met(peer, now)  # or each would forget between two probes that the other is there
            self._refused(reason, now)
            if self._ended:
                self._host.send(peer, Refuse(reason, False))
        return True

    def _on_probe(self, peer: ProcessId, record: Probe, now: int) -> None:
        if not all(is_process_id(process) for process in (*record.members, *record.contacts)):
            raise RemoteProtocolError(f"{peer} names members that are no process ids")
        if self._other_kind(peer, record, now):
            return
        news = not self.directory.hears(peer, now) or not record.hears_you
        if self.primary is not None:
            self.primary.hear(peer, record.view)
        self.rounds.saw(record.promised)
        said = self.directory.probe(peer, record, now)
        if said is None:
            return
        if news:
            self.directory.probe_soon(peer, now)
            self._probe_tick_at = now
        if news or peer not in self.rounds.inside:
            self.dirty = True
        self._notice_departure(peer, said.view, said.promised)
        self._same_name(peer, record, now)

    def _same_name(self, peer: ProcessId, record: Probe, now: int) -> None:
        """Of two processes of one name the later wins if it is in a group already; else it waits for the first to end."""
        epoch = self._host.epoch
        if epoch is None:
            return
        for member in epoch.view.members:
            if member == peer or name_of(member) != name_of(peer) or self.detector.is_hard(member):
                continue
            if incarnation_of(member) > incarnation_of(peer):
                self._host.send(peer, Refuse(f"the name {name_of(peer)!r} has been taken over by {member}", True))
            elif record.view is None:
                self._host.send(peer, Refuse(f"the name {name_of(peer)!r} is in use in this group, by {member}", False))
            elif member == self.me:
                self.end(f"the name {name_of(peer)!r} has been taken over by {peer}", now)

    def _on_refuse(self, peer: ProcessId, record: Refuse, now: int) -> None:
        if record.final:
            self.end(record.reason, now)
        elif self._host.epoch is None and peer == self._stranger:
            self.end(record.reason, now)  # as that one has: it did not go away to make room
        elif self._host.epoch is None:
            self._refused(record.reason, now)

    def _refused(self, reason: str, now: int) -> None:
        """Somebody is there with whom this process cannot be in a group: end, unless that passes."""
        if self._refused_at is None or not self._is_refused(now):
            self._refused_at = now
        self._refused_last = now
        self.obstacle = reason
        if now - self._refused_at >= self._timing.name_conflict_ns:
            self.end(reason, now)

    def _is_refused(self, now: int) -> bool:
        return self._refused_at is not None and now - self._refused_last <= 8 * self._timing.probe_ns

    def end(self, error: str | None, now: int) -> None:
        """Stop without a last view: refused, or leaving before there was one."""
        self.rounds.change = None
        self._ended = True
        self._host.finish(None, error, now)

    def _lost(self) -> set[ProcessId]:
        """Members of the current view that lack casts which are gone; they can join the next one."""
        epoch = self._host.epoch
        if epoch is None or not epoch.store.lost:
            return set()
        lost = {epoch.view.members[rank] for rank in epoch.store.lost} - self._departed
        if self.primary is not None and 2 * len(set(self._reachable()) - lost) <= len(epoch.view):
            return set()  # nobody can go on without them, and what they lack is still here
        return lost

    # When to change, and with whom

    def _estimate(self, now: int) -> list[ProcessId]:
        epoch = self._host.epoch
        members: tuple[ProcessId, ...] = epoch.view.members if epoch is not None else ()
        candidates: set[ProcessId] = {self.me}
        suspects: dict[ProcessId, frozenset[ProcessId]] = {}
        lost = self._lost()
        known = members if self.rounds.leaving else sorted(set(members) | set(self.directory.said))
        for peer in known:  # who leaves does not look for others any more
            said = self.directory.said.get(peer)
            if peer == self.me or peer in self._banned or peer in lost or self.rounds.excused(peer, now):
                continue
            if peer in members and peer not in self._departed:
                if self.detector.is_hard(peer) or (said is not None and not said.hears_me):
                    continue
            elif said is None or said.leaving or not said.hears_me or not self.directory.hears(peer, now):
                continue
            elif not all(member == self.me or member in members or self.directory.hears(member, now) for member in said.members):
                continue  # its view would be torn apart: wait until all of it is heard, or it has changed
            elif epoch is None and any(name_of(member) == name_of(self.me) for member in said.members):
                continue  # an earlier process of this name is still there: wait
            elif self.primary is not None and not self._fresh(peer, said):
                continue
            candidates.add(peer)
            if said is not None:
                suspects[peer] = said.suspects
        names = {name_of(member) for member in members if member in candidates}
        newcomers = {
            peer
            for peer in candidates
            if peer not in members and name_of(peer) in names and self.directory.said[peer].view is None
        }
        candidates = plan.newest(candidates - newcomers)
        if self.me not in candidates:
            return [self.me]
        return plan.clique(self.me, sorted(candidates, key=lambda peer: (peer not in members, peer)), suspects)

    def _fresh(self, peer: ProcessId, said: Said) -> bool:
        """Primary: whether `peer` can come into the next view from outside; without a view, only founders count."""
        founders = self._config.founders
        return said.view is None and (self._host.epoch is not None or name_of(peer) in founders)

    def _reachable(self) -> tuple[ProcessId, ...]:
        """Primary: the members of the view that are with this process."""
        epoch = self._host.epoch
        said = self.directory.said
        gone = self._departed | self._banned
        return tuple(
            peer
            for peer in (epoch.view.members if epoch is not None else ())
            if peer == self.me
            or (peer not in gone and not self.detector.is_hard(peer) and (peer not in said or said[peer].hears_me))
        )

    def _needed(self, estimate: list[ProcessId], now: int) -> bool:
        epoch = self._host.epoch
        if self.primary is not None:
            if epoch is None:
                heard = [said for peer, said in self.directory.said.items() if self.directory.hears(peer, now)]
                waiting = now - self._started < self._config.found_after_ns or any(said.view is not None for said in heard)
                waiting = waiting or self._is_refused(now)
                return not waiting and {name_of(peer) for peer in estimate} == self.primary.founders
            if 2 * len(set(estimate) & set(epoch.view.members) - self._departed) <= len(epoch.view):
                return False
        if epoch is None:
            said = [self.directory.said[peer] for peer in estimate if peer != self.me]
            if any(other.view is not None for other in said):
                return True
            if now - self._started < self._config.found_after_ns or now - self._stranger_at <= 8 * self._timing.probe_ns:
                return False
            return self._config.founder or any(other.founder for other in said)
        if epoch.frozen or self.rounds.leaving or self._departed or set(estimate) != set(epoch.view.members):
            return True
        if self._stranded or self._host.wants_view(now):
            return True
        return any(self.directory.said[peer].leaving for peer in estimate if peer in self.directory.said)

    def _evaluate(self, now: int) -> None:
        if self._over():
            return
        epoch = self._host.epoch
        if epoch is not None and epoch.view.id != self._view:
            self._entered(epoch.view.id, now)
        if self.primary is not None:
            self.primary.look(self._reachable())
        if self.rounds.change is not None:
            self._wanted = None
            self._act_at = None
            if self.rounds.still_good(now):
                return
            self.rounds.abandon(now)
        estimate = self._estimate(now)
        if not self._needed(estimate, now):
            self._wanted = None
            waiting = epoch is None and now - self._started < self._config.found_after_ns
            self._act_at = self._started + self._config.found_after_ns if waiting else None
            return
        wanted = tuple(estimate)
        if self._wanted is None:
            self._needed_at = now
        if wanted != self._wanted:
            self._wanted = wanted
            self._wanted_at = now
        self._act_at = max(
            self._needed_at + self._patience(estimate),
            min(self._wanted_at + self._delay(estimate), self._needed_at + 4 * self._timing.change_ns),
            self.rounds.proposed_at + self._timing.settle_ns,
        )
        if now >= self._act_at:
            self.rounds.propose(wanted, now)

    def _entered(self, view: ViewId, now: int) -> None:
        """A view was installed: begin afresh, and tell the others at once."""
        self._view = view
        self._departed.clear()
        self._refused_at = self.obstacle = None
        self._wanted = None
        self._stranded = False
        self._tick_at = now

    def _leaving(self, estimate: list[ProcessId]) -> set[ProcessId]:
        said = self.directory.said
        leaving = {peer for peer in estimate if peer in said and said[peer].leaving}
        return leaving | {self.me} if self.rounds.leaving else leaving

    def _patience(self, estimate: list[ProcessId]) -> int:
        """How long this process waits for those whose turn to propose is before its own."""
        leaving = self._leaving(estimate)
        order = [peer for peer in estimate if peer not in leaving] or estimate
        place = order.index(self.me) if self.me in order else len(order)
        return self._timing.change_ns + place * (self._timing.change_ns // 2) if place else 0

    def _delay(self, estimate: list[ProcessId]) -> int:
        """How long an estimate has to last before it is proposed."""
        epoch = self._host.epoch
        if (epoch is not None and epoch.frozen) or len(estimate) == 1 or self._leaving(estimate):
            return 0
        return self._timing.settle_ns
