"""One process of a group as a deterministic machine; a driver owns time, bytes and randomness.

Input comes through one door (`start`, `submit`, `receive`, `connected`, `disconnected`, `wake`, `leave`, `backlog`, `provide`),
output is collected once per turn as columns (`Effects`). The driver is an unreliable packet service: a packet may be
lost, repeated or reordered. Layers call each other directly: link and orderer live in the `Epoch` of the current view,
`Membership` moves from view to view.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.model.columns import Items, Types, described
from isotone.model.conflicts import named
from isotone.model.errors import Blocked, Closed, LocalProtocolError, RemoteProtocolError
from isotone.model.events import Apart, Blockage, Ended, SlowMember, Suspicion, SwitchRefused, Upcall, ViewInstalled
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Cast, Cohort, Direct, Echo, Loose, Packet, Plan, Sequenced, Share, Transferred
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch, check_names
from isotone.model.view import View
from isotone.protocol.epoch import Epoch
from isotone.protocol.membership.detector import Detector
from isotone.protocol.membership.membership import Membership
from isotone.protocol.ordering import registry
from isotone.protocol.pending import Pending
from isotone.protocol.recorder import Recorder
from isotone.protocol.switching.policy import Controller, concrete
from isotone.protocol.transfer.transfer import Transfer

_EARLY_LIMIT = 1024


class Effects(msgspec.Struct):
    """What one turn produced: packets, upcalls in order, peers whose connections should be closed."""

    packets: list[tuple[ProcessId, Packet]]
    upcalls: list[Upcall]
    drop: list[ProcessId]


class Endpoint:
    """The protocol stack of one process."""

    def __init__(self, config: EndpointConfig, recorder: Recorder | None = None) -> None:
        registry.validate(config.ordering)
        config = msgspec.structs.replace(config, ordering=concrete(config.ordering))
        self.config = config
        self.process = config.process
        self.recorder = recorder
        self.epoch: Epoch | None = None
        self.holding = False
        self.closed = False
        self.blocked: str | None = None  # why nothing can be submitted, with primary membership
        self.counters: dict[str, int] = {}
        self.detector = Detector(config.timing)
        self.membership = Membership(config, self, self.detector)
        self.pending = Pending(config.limits)
        self.transfer = Transfer(config, self) if config.state else None
        self.controller: Controller | None = None  # at the first member of a view that is under a policy
        self._governed: View | None = None
        self._backlog = 0
        self._leave_wanted = False
        relation = config.ordering.relation
        self._named = relation is not None and relation.by_name
        self._conflicts = relation if relation is not None and relation.by != "item" else None  # or items are all it looks at
        by_types = self._conflicts is not None and self._conflicts.by == "operation"
        self._types_known = self._conflicts.table if self._conflicts is not None and by_types else {}
        self._next_number = 1
        self._wanted: Switch | None = None  # asked for by the application, and not yet by this process
        self._upcalls: list[Upcall] = []
        self._loose: dict[ProcessId, list[Loose]] = {}
        self._drop: list[ProcessId] = []
        self._early: dict[tuple[ProcessId, int], Packet] = {}
        self._early_of: ViewId | None = None
        self._early_bytes = 0

    @property
    def view(self) -> View | None:
        """The installed view."""
        return self.epoch.view if self.epoch is not None else None

    # Input

    def start(self, now: int) -> None:
        """The process begins."""
        if self.recorder is not None:
            ordering = self.config.ordering
            detail = {"order": ordering.order, "level": ordering.level}
            if registry.find(ordering.order).semantic:
                detail["conflicts"] = named(ordering.conflicts)
            self.recorder.start(now, detail)
        self.membership.start(now)

    def submit(
        self,
        payloads: Sequence[bytes],
        now: int,
        types: Sequence[str | None] | None = None,
        items: Sequence[Sequence[str] | None] | None = None,
    ) -> int:
        """Take messages of the application; returns how many, from the first, were accepted.

        One that the conflict relation does not know is a `ConfigError`, and nothing is taken.
        """
        if self.closed or self._leave_wanted:
            raise Closed(f"{self.process} has left the group")
        if self.blocked is not None:
            raise Blocked(self.blocked)
        columns: tuple[Types | None, Items | None] = (None, None)
        if payloads and (types is not None or items is not None):
            columns = described(len(payloads), types, items, self._named)
        if self._conflicts is not None and not (types and len(payloads) == 1 and types[0] in self._types_known):
            self._conflicts.validate_all(len(payloads), *columns)
        accepted, size = self.pending.add(payloads, *columns)
        if accepted and self.recorder is not None:
            self.recorder.submit(now, self.epoch.view.id if self.epoch else None, accepted, size)
        return accepted

    def switch(self, switch: Switch, now: int) -> None:
        """Ask the group to order its messages in another way; `Switched`, a view or `SwitchRefused` tells what came of it.

        Without a view, or while one ends, the request waits for the next.
        """
        registry.validate(switch.ordering)
        ordering = concrete(switch.ordering)
        if registry.find(ordering.order).semantic and ordering.conflicts is None:
            ordering = msgspec.structs.replace(ordering, conflicts=self.config.ordering.conflicts)
        registry.validate(ordering)
        switch = msgspec.structs.replace(switch, ordering=ordering)
        check_names(switch.strategy, switch.rule)
        if self.closed or self._leave_wanted:
            raise Closed(f"{self.process} has left the group")
        if self.blocked is not None:
            raise Blocked(self.blocked)
        if self._wanted is not None:
            raise LocalProtocolError("a switch has been asked for already")
        self._wanted = switch

    def writable(self) -> bool:
        """Whether `submit` would accept something now."""
        return not self.closed and self.blocked is None and self.pending.room()

    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None:
        """A packet came from `peer`. One that breaks its stream in the view, which cannot go on then, is left out of the next."""
        if self.closed and self.membership.rounds.farewell is None:
            return
        if self.detector.hear(peer, now):
            self._awake(now)
        session = packet.epoch
        if session:
            epoch = self.epoch
            if epoch is not None and session == epoch.view.id.epoch and packet.proposer == epoch.view.id.proposer:
                if not self.closed:
                    try:
                        epoch.receive(peer, packet, now)
                    except RemoteProtocolError:
                        self.membership.ban(peer)
                        raise
            else:
                self._receive_early(peer, packet)
        if packet.loose:
            for record in packet.loose:
                if type(record) is Echo:
                    self._echo(peer, record, now)
                elif not isinstance(record, Transferred):
                    self.membership.handle(peer, record, now)
                elif self.transfer is not None and not self.closed:
                    self.transfer.handle(peer, record, now)

    def _echo(self, peer: ProcessId, echo: Echo, now: int) -> None:
        if echo.seen is not None:
            if self.controller is not None:
                self.controller.observer.answered(peer, echo.at, echo.seen, now)
        elif self.epoch is not None:
            self.send(peer, Echo(echo.at, self.epoch.seen()))

    def _receive_early(self, peer: ProcessId, packet: Packet) -> None:
        """A packet of the view that is being installed here can come before the view does."""
        change = self.membership.rounds.change
        if change is None or change.round != (packet.epoch, packet.proposer):
            return
        if self._early_of != change.round:
            self._early_of = change.round
            self._early = {}
            self._early_bytes = 0
        if not packet.records or (peer, packet.first) in self._early:
            return
        self._early_bytes += sum(len(r.payloads[0]) * len(r.payloads) for r in packet.records if type(r) is Cast and r.payloads)
        limit = self.config.limits.window_bytes * len(change.participants)
        if len(self._early) < _EARLY_LIMIT and self._early_bytes <= limit:
            self._early[peer, packet.first] = packet

    def connected(self, peer: ProcessId, address: str, now: int) -> None:
        """There is a way to `peer` (again)."""
        if self.closed:
            return
        self._awake(now)
        self.detector.opened(peer)
        self.membership.connected(peer, address, now)
        if self.epoch is not None and peer in self.epoch.rank_of:
            rank = self.epoch.rank_of[peer]
            link = self.epoch.links.of[rank]
            if link is not None:
                link.reconnect()
                self.epoch.links.dirty.add(rank)

    def disconnected(self, peer: ProcessId, now: int) -> None:
        """The way to `peer` is gone."""
        self._awake(now)
        self.detector.closed(peer, now)

    def wake(self, now: int) -> None:
        """The deadline has come."""
        self._awake(now)
        if not self.closed and self.epoch is not None:
            self.epoch.wake(now)
            if self.transfer is not None:
                self.transfer.wake(now)
            self._decide(now)
        self.membership.wake(now)

    def _decide(self, now: int) -> None:
        """Let the policy of the group look, and ask for what it wants."""
        controller, epoch = self.controller, self.epoch
        if controller is None or epoch is None or now < controller.due:
            return
        wanted = controller.wake(epoch.view.ordering, epoch.seen(), now)
        free = (
            not epoch.frozen and not epoch.switches and self._wanted is None and self.blocked is None and not self._leave_wanted
        )
        if wanted is not None and free:
            self.switch(Switch(wanted), now)

    def _govern(self, epoch: Epoch, now: int) -> None:
        """The view, or its ordering, is another one: its first member follows the policy that it names."""
        self._governed = epoch.view
        policy = epoch.view.ordering.policy if epoch.rank == 0 else ""
        if self.controller is not None and (self.controller.view != epoch.view.id or self.controller.policy.name != policy):
            self.controller = None
        if policy and self.controller is None:
            self.controller = Controller(epoch.view, now, self.send)

    def leave(self, now: int) -> None:
        """Leave when what was submitted has been sent; before the first view nothing can be, and it is dropped."""
        if self.closed:
            raise Closed(f"{self.process} has left the group")
        self._leave_wanted = True

    def backlog(self, size: int, now: int) -> None:
        """The application has `size` bytes of deliveries before it: above the limit the senders of the group are held back."""
        self._backlog = size
        limit = self.config.limits.backlog_bytes
        holding = size > limit or (self.holding and size > limit // 2) or (self.transfer is not None and self.transfer.full)
        if holding == self.holding:
            return
        self.holding = holding
        if self.epoch is not None and not self.closed:
            self.epoch.hold(self.epoch.rank, holding)
            self.membership.heartbeat(now)

    def provide(self, cut: ViewId, data: bytes | None, now: int, problem: str = "") -> None:
        """The application's answer to `SnapshotWanted`: its state at that place of the stream, or None and why there is none."""
        if self.transfer is None:
            raise LocalProtocolError(f"{self.process} takes no part in state transfer")
        if not self.closed:
            self.transfer.snapshots.provide(cut, data, problem, now)

    def _awake(self, now: int) -> None:
        late = self.detector.lag(now)
        if late > self.config.timing.heartbeat_ns:
            self.membership.rounds.forgive(late)
            self.counters["lags"] = self.counters.get("lags", 0) + 1

    # The end of a turn

    def collect(self, now: int) -> Effects:
        """End the turn: send what was submitted, let every layer finish, and hand over the effects."""
        if not self.closed:
            self._finish_turn(now)
        epoch = self.epoch
        packets = self._packets(now) if self._loose or (epoch is not None and epoch.links.dirty) else []
        if self.detector.changes:
            self._publish_suspicions(now)
        upcalls = self._upcalls.copy()  # the epoch appends to this very list
        self._upcalls.clear()
        drop, self._drop = self._drop, []
        return Effects(packets, upcalls, drop)

    def _finish_turn(self, now: int) -> None:
        membership = self.membership
        if membership.dirty or membership.rounds.news or membership.rounds.change is not None:
            membership.turn(now)
        epoch = self.epoch
        pending = self.pending
        if epoch is not None and not self.closed:
            if epoch.view is not self._governed:
                self._govern(epoch, now)
            if self._wanted is not None and not epoch.frozen and self.blocked is None:
                wanted, self._wanted = self._wanted, None
                epoch.ask(wanted, now)
            if epoch.stability.changed and pending.count:
                epoch.settle(now)
            while pending.count and self.blocked is None and epoch.window_open(self._leave_wanted):
                epoch.submit(pending.take(), now)
            report = epoch.settle(now)
            if self.transfer is not None and self.transfer.full != self.holding:
                self.backlog(self._backlog, now)
            if report:
                membership.heartbeat(now)
        if self._leave_wanted and not self.closed and not self.membership.rounds.leaving and self._may_leave():
            self.membership.leave()
            if epoch is None:
                self.membership.end(None, now)
            else:
                self.membership.heartbeat(now)
                self.membership.turn(now)

    def _may_leave(self) -> bool:
        return not self.pending or self.epoch is None

    def _packets(self, now: int) -> list[tuple[ProcessId, Packet]]:
        packets: list[tuple[ProcessId, Packet]] = []
        loose = self._loose
        epoch = self.epoch
        if epoch is not None and epoch.links.dirty and not self.closed:
            members = epoch.view.members
            number, proposer = epoch.view.id
            packet: Packet | None = None
            for rank, first, ack, records, again in epoch.packets(now):
                peer = members[rank]
                own = loose.pop(peer, []) if loose else []
                # A multicast is one packet for all.
                same = packet is not None and packet.first == first and packet.ack == ack and packet.again is again
                if packet is None or not same or own or packet.loose or packet.records != records:
                    packet = Packet(number, proposer, first, ack, records, own, again)
                packets.append((peer, packet))
        if loose:
            for peer, records_ in loose.items():
                packets.append((peer, self._loose_packet(peer, records_, now)))
            self._loose = {}
        if self.recorder is not None and packets and not self.closed:
            self._count_packets(packets, now)
        return packets

    def _loose_packet(self, peer: ProcessId, records: list[Loose], now: int) -> Packet:
        """Loose records alone also tell how far the view's link is, in both directions."""
        epoch = self.epoch
        rank = epoch.rank_of.get(peer) if epoch is not None else None
        if epoch is None or rank is None:
            return Packet(0, "", 0, 0, [], records)
        return Packet(epoch.view.id.epoch, epoch.view.id.proposer, *epoch.links.say(rank, now), [], records)

    def _publish_suspicions(self, now: int) -> None:
        changes, self.detector.changes = self.detector.changes, []
        view = self.epoch.view.id if self.epoch is not None else None
        for peer, level, suspected in changes:
            self._upcalls.append(Suspicion(peer, level, suspected))
            if not suspected:
                self.count("suspicions_withdrawn")
            if self.recorder is not None:
                (self.recorder.suspect if suspected else self.recorder.trust)(now, view, peer, level)
            if self.epoch is not None:
                self.epoch.opinion(peer, level, suspected, now)
            self.membership.dirty = True

    def deadline(self) -> int | None:
        """When `wake` must be called."""
        if self.closed:
            return self.membership.deadline()
        deadline = self.membership.deadline()
        if self.epoch is not None:
            other = self.epoch.deadline()
            if other is not None and (deadline is None or other < deadline):
                deadline = other
        if self.transfer is not None:
            other = self.transfer.deadline()
            if other is not None and (deadline is None or other < deadline):
                deadline = other
        if self.controller is not None and (deadline is None or self.controller.due < deadline):
            deadline = self.controller.due
        self.detector.expected = deadline
        return deadline

    # What the layers ask of the endpoint

    def send(self, peer: ProcessId, record: Loose) -> None:
        """Send a loose record with this turn's packet for `peer`."""
        records = self._loose.get(peer)
        if records is None:
            self._loose[peer] = [record]
        else:
            records.append(record)

    def count(self, what: str) -> None:
        """Count an event, for people and tests."""
        self.counters[what] = self.counters.get(what, 0) + 1

    def held_back(self, peer: ProcessId, holding: bool) -> None:
        """A member's application lags, or has caught up."""
        self._upcalls.append(SlowMember(peer, holding))

    def apart(self, peer: ProcessId, reason: str) -> None:
        """Another component is there that this one cannot merge with."""
        self.count("apart")
        self._upcalls.append(Apart(peer, reason))

    def blockage(self, blocked: bool, reachable: tuple[ProcessId, ...], needed: int) -> None:
        """Too few members of the view are there to go on, or enough again."""
        upcall = Blockage(blocked, reachable, needed)
        self.blocked = f"{self.process} is {upcall.reason}" if blocked else None
        if blocked:
            self.count("blocked")
        self._upcalls.append(upcall)

    def share(self) -> Share | None:
        """What this process has of the application's state."""
        return self.transfer.share() if self.transfer is not None else None

    def wants_view(self, now: int) -> bool:
        """Whether there should be another view of the same members."""
        return self.transfer is not None and self.transfer.wants_view(now)

    def install(self, view: View, cohort: Cohort | None, plan: Plan, now: int) -> None:
        """End the current view with its common set and begin `view`."""
        previous = self.epoch
        if previous is not None and cohort is not None:
            previous.conclude(cohort, now)
            self._next_number = previous.next_number
            for peer in previous.broken:
                self.membership.ban(peer)
                self._drop.append(peer)
            asked = previous.asked
            if asked is not None and asked.ordering != view.ordering:
                self._upcalls.append(SwitchRefused(asked.ordering, "the view ended first"))
        together = tuple(p for p in cohort.present if p in view.members) if cohort is not None else (self.process,)
        hand_up = self._upcalls.append if self.transfer is None else self.transfer.hand_up
        self.epoch = Epoch(view, self.config, self._next_number, hand_up, self.recorder, self.counters, now)
        installed = ViewInstalled(view, previous.view.id if previous is not None else None, together)
        if self.transfer is None:
            self._upcalls.append(installed)
        else:
            self.transfer.install(installed, plan, now)
        if self.recorder is not None:
            ordering = view.ordering
            self.recorder.view(now, view.id, view.members, ordering.order, ordering.level, self.epoch.gate.need)
        self.count("views")
        if self.holding:
            self.epoch.hold(self.epoch.rank, True)
        for peer, level in self.detector.levels.items():
            self.epoch.opinion(peer, level, True, now)
        early, self._early, of = self._early, {}, self._early_of
        self._early_of = None
        if of == view.id:
            for (peer, _), packet in early.items():
                try:
                    self.epoch.receive(peer, packet, now)
                except RemoteProtocolError:
                    self.membership.ban(peer)
                    self._drop.append(peer)

    def emit(self, upcall: Upcall) -> None:
        """Hand up."""
        self._upcalls.append(upcall)

    def finish(self, cohort: Cohort | None, error: str | None, now: int, expelled: bool = False) -> None:
        """The end: after a graceful leave with the last view's common set, or with an error."""
        if self.closed:
            return
        if self.epoch is not None and cohort is not None:
            self.epoch.conclude(cohort, now)
        if self.transfer is not None:
            self.transfer.close()
        self.closed = True
        self._upcalls.append(Ended(error, expelled))
        if self.recorder is not None and error is None:
            self.recorder.stop(now)

    # For people

    def address_of(self, peer: ProcessId) -> str | None:
        """Where a peer can be reached."""
        return self.membership.directory.addresses.get(peer) or None

    def status(self) -> dict[str, object]:
        """The state in words and numbers."""
        epoch = self.epoch
        ordering = epoch.view.ordering if epoch else self.config.ordering
        return {
            "process": self.process,
            "closed": self.closed,
            "membership": self.config.membership,
            "blocked": self.blocked,
            "obstacle": self.membership.obstacle,
            "view": str(epoch.view.id) if epoch else None,
            "members": list(epoch.view.members) if epoch else [],
            "core": [epoch.view.members[rank] for rank in sorted(epoch.orderer.core)] if epoch else [],
            "external": [m for rank, m in enumerate(epoch.view.members) if rank not in epoch.orderer.core] if epoch else [],
            "order": ordering.order,
            "level": ordering.level,
            "k": ordering.k,
            "options": dict(ordering.options),
            "policy": ordering.policy,
            "instance": epoch.switching.current if epoch and epoch.switching else 0,
            "switch": self._under_way(epoch),
            "changing": str(self.membership.rounds.promised) if self.membership.rounds.change is not None else None,
            "sent": (epoch.next_number if epoch else self._next_number) - 1,
            "pending": len(self.pending),
            "unstable_casts": sum(len(buffer) for buffer in epoch.buffers) if epoch else 0,
            "unstable_bytes": epoch.store.unstable_bytes if epoch else 0,
            "held_back_by": [epoch.view.members[rank] for rank in sorted(epoch.window_closed_by)] if epoch else [],
            "suspected": dict(sorted(self.detector.levels.items())),
            "state": self.transfer.status() if self.transfer is not None else None,
            "counters": dict(sorted(self.counters.items())),
        }

    def _under_way(self, epoch: Epoch | None) -> dict[str, object] | None:
        """The switch that is going on, or was asked for here."""
        change = epoch.switching.change if epoch is not None and epoch.switching is not None else None
        asked = self._wanted or (epoch.asked if epoch is not None else None)
        switch = change.switch if change is not None else asked
        if switch is None:
            return None
        phase = "asked for" if change is None else "cut" if change.said else "request"
        return {"to": switch.ordering.order, "level": switch.ordering.level, "strategy": switch.strategy, "phase": phase}

    def _count_packets(self, packets: list[tuple[ProcessId, Packet]], now: int) -> None:
        """Trace rows for control records: one per turn, kind and number of receivers."""
        copies: dict[int, tuple[Sequenced | Loose, int]] = {}
        for _, packet in packets:
            for record in (*packet.loose, *packet.records):
                if type(record) is not Cast or not record.number:
                    copies[id(record)] = (record, copies[id(record)][1] + 1 if id(record) in copies else 1)
        switching = self.epoch.switching if self.epoch is not None else None
        names = self.epoch.orderer.packets if self.epoch is not None else {}
        totals: dict[tuple[str, int, int], tuple[int, int]] = {}
        for record, fanout in copies.values():
            switch = 0
            if type(record) is Cast or type(record) is Direct:
                kind = "switch" if type(record) is Cast and record.payloads else names.get(record.kind, "control")
                if switching is not None:
                    switch = switching.costs(record)
            else:
                kind = type(record).__name__.lower()
            key = (kind, fanout, switch)
            count, size = totals.get(key, (0, 0))
            totals[key] = (count + 1, size + fanout * len(msgspec.msgpack.encode(record)))
        view = self.epoch.view.id if self.epoch is not None else None
        if self.recorder is not None:
            for (kind, fanout, switch), (count, size) in sorted(totals.items()):
                self.recorder.packet(now, view, kind, fanout, count, size, switch)
