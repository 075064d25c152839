"""One view at one process: its links, the casts that are not yet stable (`store`), its orderer and its gate.

An epoch begins when a view is installed and ends when the next one is. While it is *open* casts flow both ways;
`freeze` stops the own stream and the orderer, while casts of others are still stored for the flush (`flush`); `conclude` hands
the orderer the common set and delivers the rest.

Invariants: of each sender the orderer has accepted the casts that are held, until the view is frozen, when they are
`accepted[s]`; nothing is multicast or delivered between `freeze` and `conclude`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from isotone.model.columns import full
from isotone.model.errors import ConfigError, InvariantViolation, RemoteProtocolError, require
from isotone.model.events import CoreChanged, DeliveryBatch, ReturnedBatch, Switched, SwitchRefused, Transitional, Upcall
from isotone.model.ids import ProcessId
from isotone.model.records import Cast, Cohort, Direct, Packet, Relay, Seen, Sequenced
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch
from isotone.model.view import Level, Ordering, View
from isotone.protocol.flush import Flush
from isotone.protocol.link.links import NEVER, Links, Outgoing
from isotone.protocol.link.peer_link import ACK_EVERY, PeerLink
from isotone.protocol.membership.gate import Gate
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.ordering.registry import find
from isotone.protocol.recorder import Recorder
from isotone.protocol.store import Store
from isotone.protocol.switching.channel import KINDS
from isotone.protocol.switching.switching import Switching

Counters = dict[str, int]
_SUPPLY = 32


class Epoch:
    """The state of one view. It is the outbox of the view's orderer."""

    def __init__(
        self,
        view: View,
        config: EndpointConfig,
        next_number: int,
        upcall: Callable[[Upcall], None],
        recorder: Recorder | None,
        counters: Counters,
        now: int,
    ) -> None:
        self.view = view
        self.rank = view.members.index(config.process)
        self.rank_of = {member: rank for rank, member in enumerate(view.members)}
        self.next_number = next_number
        self.now = now
        self.began = now
        self.counters = counters
        self._config = config
        self.timing = config.timing
        self._upcall = upcall
        self._batches = 0
        self._recorder = recorder
        count = len(view.members)
        self.store = Store(self.rank, count, config)
        self.stability = self.store.stability
        self.held = self.store.held
        self.freed = self.store.freed
        self.buffers = self.store.buffers
        self.links = Links(self.rank, count, config.timing, config.limits.link_records)
        self.flush = Flush(self.store, self.links, self.rank_of)
        self.unreported = 0
        self.window_closed_by: set[int] = set()  # ranks whose applications lag
        self.frozen = False
        self.broken: list[ProcessId] = []  # members whose late casts the orderer refused at the end
        self.accepted: list[int] = []
        self._fetched = [0] * count  # casts of each sender up to here may have come from another member
        self.gate = Gate(view, self._emit)
        self._eager = self.gate.need > 1 or count == 1
        self.progress = [0] * count  # the last cast of each sender that the orderer in force has delivered
        self.own: dict[int, Cast] = {}  # own messages that the orderer has not delivered, by number
        self.suspected: dict[int, str] = {}
        self.orderer: Orderer = find(view.ordering.order)(self, view, self.rank, config.seed)
        self.switching: Switching | None = None  # in the orderer's place from the first sign of a switch on
        self.relation = config.ordering.relation
        self._conflicts = view.ordering.relation
        self._offers = self.orderer.takes_early and self.gate.need <= 1  # a higher level waits for the gap anyhow
        self._gossip_at = config.limits.window_bytes // 4
        self._gossip_casts = max(1, config.limits.window_casts // 4)
        self._unreported_casts = 0

    # What the orderer may do

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        if self.frozen:
            raise InvariantViolation("a frozen view multicasts")
        seq = self.held[self.rank] + 1
        if batch is None:
            cast = Cast(seq, kind, stamp)
        else:
            number = self.next_number if batch.number is None else batch.number
            cast = Cast(seq, kind, stamp, number, batch.payloads, batch.types, batch.items)
            if batch.number is None:
                self.own[number] = cast
                if self._recorder is not None:
                    types, items = full(batch.types, len(batch.payloads)), full(batch.items, len(batch.payloads))
                    self._recorder.send(self.now, self.view.id, number, batch.payloads, types, items)
                self.next_number += len(batch.payloads)
            elif number:
                self._sent_again(cast)
        self.store.sent(cast, batch.size if batch is not None else 0)
        if self._eager:
            self.stability.changed = True
        lost = self.store.lost
        for peer, link in self.links.peers:
            if peer not in lost:
                link.fresh.append(cast)
        self.links.dirty |= self.links.others
        return cast

    def _sent_again(self, cast: Cast) -> None:
        """Own messages travel a second time, in another instance: that is a cost of the switch."""
        if self._recorder is not None and self.switching is not None:
            fanout = sum(peer not in self.store.lost for peer, _ in self.links.peers)
            size = fanout * len(msgspec.msgpack.encode(cast))
            self._recorder.packet(self.now, self.view.id, "again", fanout, 1, size, self.switching.wanted[1])

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        if self.frozen:
            raise InvariantViolation("a frozen view sends")
        record = Direct(kind, stamp)
        lost = self.store.lost
        for rank, _ in self.links.peers:
            if (to is None or rank == to) and (rank not in lost or self._overtakes(kind)):
                self.links.give(rank, record)

    def _overtakes(self, kind: int) -> bool:
        """Whether records of this kind may come without the casts before them, which a member that was given up does not get."""
        return self.orderer.overtakes if self.switching is None else self.switching.lanes.overtakes(kind)

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        if self.switching is not None or not cast.number:
            self.begin_switching().delivered(0, sender, cast, position, evidence)
            return
        self.progress[sender] = cast.seq
        if sender == self.rank:
            self.own.pop(cast.number, None)
        if self.gate.need <= 1:
            self._emit(sender, cast, position, self.gate.level)
        else:
            self.gate.deliver(sender, cast, position, evidence)

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        if not self.frozen:
            if not self.flush.takes(sender, cast):
                self.note("casts_early_refused")
                return False
            self.note("casts_early")
        self.gate.deliver(sender, cast, None, None)
        return True

    def holds(self, member: int, sender: int, seq: int) -> None:
        row = self.stability.matrix[member]
        if row[sender] < seq:
            row[sender] = seq
            self.stability.changed = True

    def supply(self, to: int, held: Sequence[int]) -> None:
        if len(held) != len(self.held) or to == self.rank:
            raise RemoteProtocolError(f"{self.view.members[to]} asks for casts with {len(held)} counts")
        for sender, count in enumerate(held):
            if sender not in (to, self.rank) and self.freed[sender] <= count < self.held[sender]:
                for cast in self.store.casts(sender, count, min(count + _SUPPLY, self.held[sender])):
                    self.links.give(to, Relay(sender, cast))
                    self.note("casts_supplied")

    def core(self, core: tuple[int, ...], ring: int) -> None:
        members = tuple(self.view.members[rank] for rank in core)
        self._upcall(CoreChanged(self.view, members, ring))
        if self._recorder is not None:
            self._recorder.core(self.now, self.view.id, members, {"ring": str(ring)})

    # What a switch may do besides

    def begin_switching(self) -> Switching:
        """Let several orderers follow each other from here on."""
        if self.switching is None:
            self.orderer = self.switching = Switching(self, self.view, self.rank, self._config.seed, self.orderer)
        return self.switching

    def admit(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None) -> None:
        if sender == self.rank:
            self.own.pop(cast.number, None)
        self.gate.deliver(sender, cast, position, evidence)

    def passed(self, switch: Switch, instance: int) -> None:
        before = self.view.ordering
        self.gate.release()
        self.view = View(self.view.id, self.view.members, switch.ordering)
        self.gate = Gate(self.view, self._emit)
        self._eager = self.gate.need > 1 or len(self.held) == 1
        self._offers = find(switch.ordering.order).takes_early and self.gate.need <= 1
        if self.frozen:
            self.gate.open()
        for sender, row in enumerate(self.stability.matrix):
            row[sender] = max(row[sender], self.held[sender])
        self.stability.changed = True
        self.note("switches")
        self._upcall(Switched(self.view, before, switch.strategy, instance))
        self.phase(switch, instance, "done", before.order)

    def phase(self, switch: Switch, instance: int, phase: str, before: str = "") -> None:
        if self._recorder is not None:
            ordering = self.view.ordering
            detail = {
                "strategy": switch.strategy, "phase": phase, "from": before or ordering.order, "to": switch.ordering.order,
                "instance": str(instance), "rule": switch.rule,
            }  # fmt: skip
            self._recorder.switch(self.now, self.view.id, ordering.order, ordering.level, self.gate.need, detail)

    def refused(self, switch: Switch, reason: str) -> None:
        self.note("switches_refused")
        self._upcall(SwitchRefused(switch.ordering, reason))

    def note(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    def _emit(self, sender: int, cast: Cast, position: tuple[int, ...] | None, level: Level) -> None:
        origin = self.view.members[sender]
        payloads = cast.payloads
        types: Sequence[str | None] | None = None
        items: Sequence[tuple[str, ...] | None] | None = None
        if cast.types is not None or cast.items is not None:
            types, items = full(cast.types, len(payloads)), full(cast.items, len(payloads))
        self._upcall(DeliveryBatch(self.view, origin, cast.number, payloads, position, level, types, items))
        if self._recorder is not None:
            ordering = self.view.ordering
            self._recorder.deliver(
                self.now, self.view.id, origin, cast.number, payloads, position,
                ordering.order, level, self.gate.need, types, items,
            )  # fmt: skip

    @property
    def regime(self) -> tuple[Ordering, int]:
        """The ordering that the next view should have, and how many switches were agreed on in this one."""
        if self.switching is None:
            return self.view.ordering, 0
        switch, count = self.switching.wanted
        return switch.ordering if switch is not None else self.view.ordering, count

    # Input

    def submit(self, batch: Batch, now: int) -> None:
        """Send a batch of own messages; the window has admitted it."""
        self.now = now
        self._batches += 1
        self.orderer.submit(batch, now)

    def ask(self, switch: Switch, now: int) -> None:
        """This process wants another ordering."""
        self.now = now
        self.begin_switching().ask(switch, now)

    @property
    def switches(self) -> bool:
        """Whether a switch is under way."""
        return self.switching is not None and (self.switching.change is not None or self.switching.wishes.own is not None)

    def seen(self) -> Seen:
        """What this process can tell about the load and the network."""
        return Seen(self._batches, *self.links.heard(self.now))

    @property
    def asked(self) -> Switch | None:
        """What this process asked for, unless it is granted or refused."""
        return self.switching.wishes.own if self.switching is not None else None

    def window_open(self, leaving: bool = False) -> bool:
        """Whether the group can take another batch of this process. Applications that lag do not keep it from leaving."""
        return (
            not self.frozen
            and (self.switching is None or not self.switching.stopped)
            and (leaving or not self.window_closed_by)
            and self.store.window_open()
        )

    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None:
        """A packet of this view's link."""
        self.now = now
        rank = self.rank_of.get(peer)
        link = self.links.of[rank] if rank is not None else None
        if rank is None or link is None:
            raise RemoteProtocolError(f"{peer} sends in view {self.view.id}, of which it is no member")
        records = link.receive(packet, now)
        if link.fresh or link.owed >= ACK_EVERY or link.complaint:
            self.links.dirty.add(rank)
        links, resend_at, ack_at = self.links, link.resend_at, link.ack_at
        if ack_at is not None and ack_at < links.alarm:
            links.alarm = ack_at
        if resend_at is not None and resend_at < links.alarm:
            links.alarm = resend_at
        if not records:
            if self._offers and packet.records:
                self._offer(rank, link, packet, now)
            return
        if len(records) == 1 and not self.frozen:
            record = records[0]
            if type(record) is Cast:
                if self._store(rank, record):
                    try:
                        self.orderer.accept(rank, (record,), now)
                    except RemoteProtocolError:
                        self._forget(rank, 1)
                        raise
                return
            if type(record) is Direct:
                if record.kind > KINDS:
                    self.begin_switching()
                self.orderer.direct(rank, record, now)
                return
        self._receive_run(rank, records, now)

    def _offer(self, rank: int, link: PeerLink, packet: Packet, now: int) -> None:
        """The link keeps a packet until a gap before it is closed: show the orderer what is in it."""
        if self.frozen or link.stash.get(packet.first) is not packet.records:
            return
        held = self.held[rank]
        casts: list[Cast] = []
        for most, record in enumerate(packet.records, held + packet.first - link.received):
            if type(record) is Cast and record.payloads and not record.number:
                break  # about a switch: what is behind it waits for it
            if type(record) is Cast and record.seq > held:
                if record.seq > most:
                    raise RemoteProtocolError(f"cast {record.seq} of {self.view.members[rank]} can at most be its cast {most}")
                self._check_described(rank, record)
                casts.append(record)
        if casts:
            self.orderer.early(rank, casts, now)

    def _receive_run(self, rank: int, records: Sequence[Sequenced], now: int) -> None:
        casts: list[Cast] = []
        for record in records:
            if type(record) is Cast:
                if self.frozen:
                    self._store_late(rank, record)
                    continue
                try:
                    fresh = self._store(rank, record)
                except RemoteProtocolError:
                    if casts:  # they are held, so the orderer has to have them
                        self._accept(rank, casts, now)
                    raise
                if fresh:
                    casts.append(record)
            elif type(record) is Direct:
                if not self.frozen:
                    if casts:
                        self._accept(rank, casts, now)
                        casts = []
                    if record.kind > KINDS:
                        self.begin_switching()
                    self.orderer.direct(rank, record, now)
            elif type(record) is Relay and self.frozen and 0 <= record.sender < len(self.held):
                self._store_relayed(record.sender, record.cast)
                self.note("relays_received")
            elif type(record) is Relay and record.sender in self.links.others:
                if casts:
                    self._accept(rank, casts, now)
                    casts = []
                self._fetch(record.sender, record.cast, now)
            else:
                if casts:
                    self._accept(rank, casts, now)
                raise RemoteProtocolError(f"unexpected {type(record).__name__} from {self.view.members[rank]}")
        if casts:
            self._accept(rank, casts, now)

    def _accept(self, rank: int, casts: Sequence[Cast], now: int) -> None:
        """Hand casts to the orderer. It takes all of them or none; what it refuses is not held either."""
        try:
            self.orderer.accept(rank, casts, now)
        except RemoteProtocolError:
            good = 0
            with contextlib.suppress(RemoteProtocolError):
                for cast in casts:
                    self.orderer.accept(rank, [cast], now)
                    good += 1
            self._forget(rank, len(casts) - good)
            raise

    def _forget(self, rank: int, count: int) -> None:
        """The last casts of a member are not held after all."""
        for _ in range(count):
            self.buffers[rank].pop()
        self.held[rank] -= count

    def _fetch(self, sender: int, cast: Cast, now: int) -> None:
        """A cast that this member asked another one for; its sender's link will bring it again."""
        if cast.seq == self.held[sender] + 1:
            self._store(sender, cast)
            if self.switching is None or not self.switching.lanes.postpone(sender, cast):
                self._accept(sender, [cast], now)
            self._fetched[sender] = cast.seq
            self.note("casts_fetched")

    def _store(self, sender: int, cast: Cast) -> bool:
        """Keep a cast; False if it came before, from another member."""
        if cast.seq <= self._fetched[sender]:
            if self.switching is not None:
                self.switching.arrived(sender, cast.seq)
            return False
        if cast.seq != self.held[sender] + 1:
            raise RemoteProtocolError(f"cast {cast.seq} of {self.view.members[sender]} follows {self.held[sender]}")
        if self._conflicts is not None and not self.orderer.looks:
            self._check_described(sender, cast)
        if cast.kind > KINDS or (not cast.number and cast.payloads):
            self.begin_switching()
        self.held[sender] = cast.seq
        if self._eager:
            row = self.stability.matrix[sender]
            row[sender] = max(row[sender], cast.seq)  # a sender holds what it sent
            self.stability.changed = True
        self.buffers[sender].append(cast)
        self._unreported_casts += 1
        if cast.payloads:
            self.unreported += len(cast.payloads[0]) * len(cast.payloads)  # an estimate decides when to report
            if cast.number and self._recorder is not None and self._config.trace_receives:
                origin = self.view.members[sender]
                self._recorder.receive(self.now, self.view.id, origin, cast.number, len(cast.payloads), origin)
        return True

    def _check_described(self, sender: int, cast: Cast) -> None:
        """Raise `RemoteProtocolError` for types that the conflict relation does not know, unless the orderer does it."""
        if self._conflicts is not None and cast.number and not self.orderer.looks:
            try:
                self._conflicts.validate_types(cast.types)
            except ConfigError as error:
                raise RemoteProtocolError(f"{self.view.members[sender]} breaks its conflict relation: {error}") from None

    def _store_late(self, sender: int, cast: Cast) -> None:
        """During the flush a cast may come from its sender and from a relay."""
        if cast.seq <= self.held[sender]:
            return
        self._store(sender, cast)

    def _store_relayed(self, sender: int, cast: Cast) -> None:
        """What another member passes on continues the stream, or is a cast that somebody has delivered beyond a gap."""
        if not self.orderer.takes_early or cast.seq <= self.held[sender] + 1:
            self._store_late(sender, cast)
            return
        self._check_described(sender, cast)
        self.flush.keep_beyond(sender, cast)

    def hold(self, rank: int, holding: bool) -> bool:
        """The application of a member lags, or has caught up. Whether that is news."""
        if holding == (rank in self.window_closed_by):
            return False
        if holding:
            self.window_closed_by.add(rank)
        else:
            self.window_closed_by.discard(rank)
        return True

    def opinion(self, peer: ProcessId, level: str, suspected: bool, now: int) -> None:
        """The detector changed its mind about somebody; the orderer hears of members."""
        rank = self.rank_of.get(peer)
        if rank is not None and not self.frozen:
            self.now = now
            if suspected:
                self.suspected[rank] = level
            else:
                self.suspected.pop(rank, None)
            (self.orderer.suspect if suspected else self.orderer.trust)(rank, level, now)

    # The end of a turn

    def settle(self, now: int) -> bool:
        """Free what is stable, let the gate advance, give the orderer its turn.

        Returns whether the others should hear now how far this member is: waiting deliveries or windows depend on it.
        """
        self.now = now
        stability = self.stability
        if not self.frozen:
            self.orderer.turn(now)
        if stability.changed and not self.frozen:
            stability.changed = False
            for rank in self.store.free(self.orderer.core):
                link = self.links.of[rank]
                if link is not None:
                    link.fresh = []
                self.note("externals_expelled")
            if self.gate.need > 1:
                self.gate.advance(stability.frontier(self.gate.need))
        if self.gate.need > 1 and self._unreported_casts and not self.orderer.proves:
            return True
        return self._unreported_casts >= self._gossip_casts or self.unreported >= self._gossip_at

    def report(self) -> list[int]:
        """How many casts of each member are held here, to be told to the others.

        What a frozen view receives late does not count: the common set may have been fixed without it, and a cast that is
        reported as held must be delivered here.
        """
        self.unreported = 0
        self._unreported_casts = 0
        return list(self.accepted if self.frozen else self.held)

    def packets(self, now: int) -> list[Outgoing]:
        """What every link that has something to say sends."""
        result, repeated = self.links.packets(now)
        if repeated:
            self.counters["retransmissions"] = self.counters.get("retransmissions", 0) + repeated
            if now - self.began < 1_000_000_000 and self.view.id.epoch > 1:
                self.note("retransmissions_first_second_of_view")
        return result

    def wake(self, now: int) -> None:
        """A deadline of a link or of the orderer may have come."""
        self.now = now
        self.links.wake(now)
        if not self.frozen:
            deadline = self.orderer.deadline()
            if deadline is not None and deadline <= now:
                self.orderer.wake(now)

    def deadline(self) -> int | None:
        """When a link or the orderer may want to act; early at times, never late."""
        alarm = self.links.alarm
        if not self.frozen:
            deadline = self.orderer.deadline()
            if deadline is not None and deadline < alarm:
                return deadline
        return alarm if alarm != NEVER else None

    # The end of the view

    def freeze(self, now: int) -> list[int]:
        """Stop the own stream and the orderer; returns the orderer's report."""
        require(not self.frozen, "a view is frozen twice")
        self.now = now
        self.frozen = True
        self.accepted = list(self.held)
        self.flush.freeze()
        if self._recorder is not None:
            self._recorder.flush(now, self.view.id)
        return self.orderer.freeze(now)

    def relay(self, process: ProcessId, cohort: Cohort) -> None:
        """Pass on what others of the cohort lack, where this process was chosen to."""
        for _ in range(self.flush.relay(process, cohort)):
            self.note("relays_sent")

    def _accept_late(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """What came during the flush. The view ends, so what the orderer refuses is left out, with all that follows it."""
        try:
            if casts:
                self.orderer.accept(sender, casts, now)
        except RemoteProtocolError:
            self.broken.append(self.view.members[sender])
            with contextlib.suppress(RemoteProtocolError):
                for cast in casts:
                    self.orderer.accept(sender, [cast], now)

    def conclude(self, cohort: Cohort, now: int) -> None:
        """Deliver the rest of the common set, in the orderer's way, and hand back what cannot be ordered."""
        require(self.frozen and self.flush.complete(cohort), "a view ends before its common set is complete")
        self.now = now
        together = tuple(cohort.present)
        self._upcall(Transitional(self.view, together))
        if self._recorder is not None:
            self._recorder.transitional(now, self.view.id, together)
        self.gate.open()
        for sender, target in enumerate(cohort.target):
            if sender != self.rank:
                self._accept_late(sender, self.store.casts(sender, self.accepted[sender], target), now)
        for place in cohort.early:
            self.note("casts_early_common")
            try:
                self.orderer.early(place[0], [self.flush.at(place)], now)
            except RemoteProtocolError:
                self.broken.append(self.view.members[place[0]])
        if self.switching is not None:
            self.switching.farthest = cohort.delivered
        present = frozenset(self.rank_of[member] for member in together)
        for cast in self.orderer.conclude(present, now):
            origin, payloads = self.view.members[self.rank], cast.payloads
            types, items = full(cast.types, len(payloads)), full(cast.items, len(payloads))
            self._upcall(ReturnedBatch(self.view, origin, cast.number, payloads, types, items))
            if self._recorder is not None:
                self._recorder.returned(now, self.view.id, origin, cast.number, payloads, types, items)
