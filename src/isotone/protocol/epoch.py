"""One view at one process: its links, the casts that are not yet stable, its orderer and its gate.

An epoch begins when a view is installed and ends when the next one is. While it is *open* casts flow both ways;
`freeze` stops the own stream and the orderer, while casts of others are still stored for the flush; `conclude` hands
the orderer the common set and delivers the rest.

Invariants: `held[s]` counts the casts of s without a gap; a cast stays in `buffers` until every member of the view is
known to hold it, but for members outside the orderer's core that were given up (`lost`); the orderer has accepted
exactly the first `accepted[s]` casts; nothing is multicast or delivered between `freeze` and `conclude`.

Orderers that ask for it (`takes_early`) are offered what lies behind a gap in a sender's stream, and may deliver it. `early`
holds what they delivered so; of it, `ahead` is what was beyond the held prefix when the view was frozen. The common set contains
it (ADR 0011).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence

from isotone.model.columns import full
from isotone.model.errors import ConfigError, InvariantViolation, RemoteProtocolError, require
from isotone.model.events import CoreChanged, DeliveryBatch, ReturnedBatch, Switched, SwitchRefused, Transitional, Upcall
from isotone.model.ids import ProcessId
from isotone.model.records import EARLY, Cast, Cohort, Direct, Packet, Place, Relay, Sequenced
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch
from isotone.model.view import Level, Ordering, View
from isotone.protocol.link.peer_link import ACK_EVERY, PeerLink
from isotone.protocol.membership.gate import Gate
from isotone.protocol.membership.stability import Stability
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.ordering.registry import find
from isotone.protocol.recorder import Recorder
from isotone.protocol.switching.channel import KINDS
from isotone.protocol.switching.switching import Switching

Counters = dict[str, int]
NEVER = 1 << 62
_SUPPLY = 32
_RECOUNT = 64


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
        self._recorder = recorder
        count = len(view.members)
        self.stability = Stability(self.rank, count)
        self.held = self.stability.held
        self.freed = [0] * count
        self.buffers: list[deque[Cast]] = [deque() for _ in range(count)]
        self.links: list[PeerLink | None] = [
            None if rank == self.rank else PeerLink(config.timing, config.limits.link_records) for rank in range(count)
        ]
        self.peers = [(rank, link) for rank, link in enumerate(self.links) if link is not None]
        self.dirty: set[int] = set()  # ranks that have something to be sent
        self.alarm = NEVER  # no link has a deadline before
        self._others = frozenset(rank for rank, _ in self.peers)
        self.unreported = 0
        self.unstable_bytes = 0
        self._own_sizes: deque[int] = deque()  # of the own casts in the window
        self.stable = 0  # own casts that all members hold
        self._released = 0  # own casts that have left the window
        self._kept = (0, 0)  # how many casts were kept for external members at the last count, and their bytes
        self.lost: set[int] = set()  # external members that lack what was freed: they must leave the view
        self._keeps_all = config.membership == "primary"  # there a majority may need them back before the next view is decided
        self.window_closed_by: set[int] = set()  # ranks whose applications lag
        self.frozen = False
        self.broken: list[ProcessId] = []  # members whose late casts the orderer refused at the end
        self.accepted: list[int] = []
        self._fetched = [0] * count  # casts of each sender up to here may have come from another member
        self._relayed: dict[tuple[int, int], int] = {}  # (peer, sender): what earlier rounds have passed on already
        self.early: dict[Place, Cast] = {}  # delivered behind a gap; some gaps may have closed since
        self.ahead: list[Place] = []  # those of them that are reported to the proposer of the next view
        self._beyond: dict[Place, Cast] = {}  # delivered so by others, and passed on for the common set
        self._passed: set[tuple[int, Place]] = set()  # to whom this member has passed what of that
        self.gate = Gate(view, self._emit)
        self._eager = self.gate.need > 1 or count == 1
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
        rank = self.rank
        seq = self.held[rank] + 1
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
            self.unstable_bytes += batch.size
        self._own_sizes.append(batch.size if batch is not None else 0)
        self.held[rank] = seq
        if self._eager:
            self.stability.changed = True
        self.buffers[rank].append(cast)
        for peer, link in self.peers:
            if peer not in self.lost:
                link.fresh.append(cast)
        self.dirty |= self._others
        return cast

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        if self.frozen:
            raise InvariantViolation("a frozen view sends")
        record = Direct(kind, stamp)
        for rank, link in self.peers:
            if to is None or rank == to:
                link.fresh.append(record)
                self.dirty.add(rank)

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        if self.switching is not None or not cast.number:
            self.begin_switching().delivered(0, sender, cast, position, evidence)
            return
        if sender == self.rank:
            self.own.pop(cast.number, None)
        self.gate.deliver(sender, cast, position, evidence)

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        if not self.frozen:
            early = self.early
            if len(early) >= EARLY:
                early = self.early = {place: one for place, one in early.items() if place[1] > self.held[place[0]]}
                if len(early) >= EARLY:
                    self.note("casts_early_refused")
                    return False
            early[sender, cast.seq] = cast
            self.note("casts_early")
        self.gate.deliver(sender, cast, None, None)
        return True

    def holds(self, member: int, sender: int, seq: int) -> None:
        row = self.stability.matrix[member]
        if row[sender] < seq:
            row[sender] = seq
            self.stability.changed = True

    def supply(self, to: int, held: Sequence[int]) -> None:
        link = self.links[to]
        if len(held) != len(self.held) or link is None:
            raise RemoteProtocolError(f"{self.view.members[to]} asks for casts with {len(held)} counts")
        for sender, count in enumerate(held):
            if sender not in (to, self.rank) and self.freed[sender] <= count < self.held[sender]:
                for cast in self.casts(sender, count, min(count + _SUPPLY, self.held[sender])):
                    link.fresh.append(Relay(sender, cast))
                    self.note("casts_supplied")
                self.dirty.add(to)

    def core(self, core: tuple[int, ...], ring: int) -> None:
        members = tuple(self.view.members[rank] for rank in core)
        self._upcall(CoreChanged(self.view, members, ring))
        if self._recorder is not None:
            self._recorder.core(self.now, self.view.id, members, {"ring": str(ring)})

    # What a switch may do besides

    def begin_switching(self) -> Switching:
        """Let several orderers follow each other from here on."""
        if self.switching is None:
            self._offers = False  # the request, or what it leads to, has been offered to nobody
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
        self.orderer.submit(batch, now)

    def ask(self, switch: Switch, now: int) -> None:
        """This process wants another ordering."""
        self.now = now
        self.begin_switching().ask(switch, now)

    @property
    def switches(self) -> bool:
        """Whether a switch is under way."""
        return self.switching is not None and (self.switching.change is not None or self.switching.asked is not None)

    def watch(self, watcher: Callable[[Callable[[Upcall], None]], Callable[[Upcall], None]]) -> None:
        """Let everything that goes up pass by a watcher."""
        self._upcall = watcher(self._upcall)

    @property
    def asked(self) -> Switch | None:
        """What this process asked for, unless it is granted or refused."""
        return self.switching.asked if self.switching is not None else None

    def window_open(self, leaving: bool = False) -> bool:
        """Whether the group can take another batch of this process. Applications that lag do not keep it from leaving."""
        limits = self._config.limits
        return (
            not self.frozen
            and (self.switching is None or not self.switching.stopped)
            and (leaving or not self.window_closed_by)
            and self.unstable_bytes < limits.window_bytes
            and len(self._own_sizes) < limits.window_casts
        )

    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None:
        """A packet of this view's link."""
        self.now = now
        rank = self.rank_of.get(peer)
        link = self.links[rank] if rank is not None else None
        if rank is None or link is None:
            raise RemoteProtocolError(f"{peer} sends in view {self.view.id}, of which it is no member")
        records = link.receive(packet, now)
        if link.fresh or link.owed >= ACK_EVERY:
            self.dirty.add(rank)
        if link.ack_at is not None and link.ack_at < self.alarm:
            self.alarm = link.ack_at
        if not records:
            if self._offers and packet.records:
                self._offer(rank, link, packet, now)
            return
        if len(records) == 1 and not self.frozen:
            record = records[0]
            if type(record) is Cast:
                if self._store(rank, record):
                    self._accept(rank, [record], now)
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
            elif type(record) is Relay and record.sender in self._others:
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
            for _ in casts[good:]:
                self.buffers[rank].pop()
            self.held[rank] -= len(casts) - good
            raise

    def _fetch(self, sender: int, cast: Cast, now: int) -> None:
        """A cast that this member asked another one for; its sender's link will bring it again."""
        if cast.seq == self.held[sender] + 1:
            self._store(sender, cast)
            if self.switching is None or not self.switching.postpone(sender, cast):
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
        self._check_described(sender, cast)
        if cast.kind > KINDS:
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
        if len(self._beyond) >= EARLY * len(self.held):
            raise RemoteProtocolError(f"more than {EARLY * len(self.held)} early casts are passed on in view {self.view.id}")
        self._check_described(sender, cast)
        self._beyond[sender, cast.seq] = cast

    def stable_for(self, sender: int, count: int) -> None:
        """A sender knows that every member holds so many of its casts."""
        for row in self.stability.matrix:
            if row[sender] < count <= self.held[sender]:
                row[sender] = count

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

    def settle(self, now: int) -> None:
        """Free what is stable, let the gate advance, give the orderer its turn."""
        self.now = now
        if self.frozen:
            return
        self.orderer.turn(now)
        stability = self.stability
        if stability.changed:
            stability.changed = False
            self._stabilise()
            if self.gate.need > 1:
                self.gate.advance(stability.frontier(self.gate.need))

    def _stabilise(self) -> None:
        """Free what all members hold; the window needs the core only, and external members are waited for within bounds."""
        matrix, core = self.stability.matrix, self.orderer.core
        stable = self.stability.frontier(len(self.held))
        self.stable = stable[self.rank]
        if len(core) == len(self.held) and not self.lost:
            self._release(self.stable)
            self._free(stable)
            return
        ready = [min(column) for column in zip(self.held, *(matrix[rank] for rank in core), strict=True)]
        self._release(ready[self.rank])
        if self.rank in core and self._keeps_too_much(ready):
            self._expel(ready)
        if self.lost and not self._keeps_all:
            rows = [row for rank, row in enumerate(matrix) if rank not in self.lost]
            stable = [min(column) for column in zip(*rows, strict=True)]
        self._free(stable)

    def _keeps_too_much(self, ready: list[int]) -> bool:
        limits = self._config.limits
        kept = sum(count - freed for count, freed in zip(ready, self.freed, strict=True) if count > freed)
        counted, size = self._kept
        if not counted <= kept < counted + _RECOUNT:
            size = 0
            for sender, count in enumerate(ready):
                size += sum(sum(map(len, cast.payloads)) for cast in self.casts(sender, self.freed[sender], count))
            self._kept = (kept, size)
        return kept > limits.keep_casts or size > limits.keep_bytes

    def _expel(self, ready: list[int]) -> None:
        """Give up the external members that lack most: they come back by joining."""
        matrix, core = self.stability.matrix, self.orderer.core
        lag = {
            rank: sum(max(0, count - have) for count, have in zip(ready, matrix[rank], strict=True))
            for rank in range(len(ready))
            if rank not in core and rank not in self.lost
        }
        for rank, missing in lag.items():
            link = self.links[rank]
            if missing and 2 * missing >= max(lag.values()) and link is not None:
                self.lost.add(rank)
                link.fresh = []
                self.note("externals_expelled")

    def _release(self, count: int) -> None:
        """The first `count` own casts need no room in the window any more."""
        for _ in range(count - self._released):
            self.unstable_bytes -= self._own_sizes.popleft()
        self._released = max(count, self._released)

    def _free(self, stable: list[int]) -> None:
        freed = self.freed
        if stable == freed:
            return
        for sender, count in enumerate(stable):
            surplus = count - freed[sender]
            if surplus:
                buffer = self.buffers[sender]
                for _ in range(surplus):
                    buffer.popleft()
        self.freed = stable

    def wants_report(self) -> bool:
        """Whether the others should hear now how far this member is: waiting deliveries or windows depend on it."""
        if self.gate.need > 1 and self._unreported_casts and not self.orderer.proves:
            return True
        return self.unreported >= self._gossip_at or self._unreported_casts >= self._gossip_casts

    def report(self) -> list[int]:
        """How many casts of each member are held here, to be told to the others.

        What a frozen view receives late does not count: the common set may have been fixed without it, and a cast that is
        reported as held must be delivered here.
        """
        self.unreported = 0
        self._unreported_casts = 0
        return list(self.accepted if self.frozen else self.held)

    def packets(self, now: int) -> list[tuple[int, int, int, list[Sequenced]]]:
        """(rank, first, ack, records) of every link that has something to say; ack 0 says nothing."""
        result: list[tuple[int, int, int, list[Sequenced]]] = []
        if not self.dirty:
            return result
        for rank in sorted(self.dirty):
            link = self.links[rank]
            if link is None:
                continue
            resend_at = link.resend_at
            if link.connected_again or (resend_at is not None and now >= resend_at):
                again = link.retransmit(now)
                if again is not None:
                    self.counters["retransmissions"] = self.counters.get("retransmissions", 0) + len(again[1])
                    if now - self.began < 1_000_000_000 and self.view.id.epoch > 1:
                        self.note("retransmissions_first_second_of_view")
                    result.append((rank, again[0], link.acknowledge(now), again[1]))
            packet = link.next_packet(now)
            if packet is not None:
                result.append((rank, *packet))
            resend_at = link.resend_at
            if resend_at is not None and resend_at < self.alarm:
                self.alarm = resend_at
        self.dirty.clear()
        return result

    def wake(self, now: int) -> None:
        """A deadline of a link or of the orderer may have come."""
        self.now = now
        if now >= self.alarm:
            self.alarm = NEVER
            for rank, link in self.peers:
                deadline = link.deadline()
                if deadline is None:
                    continue
                if deadline <= now:
                    self.dirty.add(rank)
                elif deadline < self.alarm:
                    self.alarm = deadline
        if not self.frozen:
            deadline = self.orderer.deadline()
            if deadline is not None and deadline <= now:
                self.orderer.wake(now)

    def deadline(self) -> int | None:
        """When a link or the orderer may want to act; early at times, never late."""
        alarm = self.alarm
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
        self.ahead = sorted((sender, seq) for sender, seq in self.early if seq > self.held[sender])
        if self._recorder is not None:
            self._recorder.flush(now, self.view.id)
        return self.orderer.freeze(now)

    def relay(self, process: ProcessId, cohort: Cohort) -> None:
        """Pass on what others of the cohort lack, where this process was chosen to."""
        for sender, holder in enumerate(cohort.holders):
            if holder != process:
                continue
            for peer, held in zip(cohort.present, cohort.held, strict=True):
                rank = self.rank_of[peer]
                link = self.links[rank]
                if link is None or held[sender] >= cohort.target[sender] or (rank in self.lost and not self._keeps_all):
                    continue
                require(held[sender] >= self.freed[sender], "a cast that a member lacks was freed")
                done = self._relayed.get((rank, sender), 0)
                for cast in self.casts(sender, max(held[sender], done), cohort.target[sender]):
                    link.fresh.append(Relay(sender, cast))
                    self.note("relays_sent")
                self._relayed[rank, sender] = max(done, cohort.target[sender])
                self.dirty.add(rank)
        for place in cohort.early:
            bearers = [peer for peer, places in zip(cohort.present, cohort.ahead, strict=True) if place in places]
            if bearers[0] == process:
                for peer in cohort.present:
                    if peer not in bearers:
                        self._pass_on(self.rank_of[peer], place)

    def _pass_on(self, rank: int, place: Place) -> None:
        """An early cast for a member that has not delivered it, once."""
        link = self.links[rank]
        if link is not None and (rank, place) not in self._passed:
            self._passed.add((rank, place))
            link.fresh.append(Relay(place[0], self._at(place)))
            self.note("relays_sent")
            self.dirty.add(rank)

    def _at(self, place: Place) -> Cast:
        """A cast of the common set beyond the target; its gap may have closed since."""
        sender, seq = place
        if seq <= self.held[sender]:
            return self.casts(sender, seq - 1, seq)[0]
        return self.early[place] if place in self.early else self._beyond[place]

    def still_ahead(self) -> list[Place]:
        """What was delivered beyond a gap that has not closed."""
        return [(sender, seq) for sender, seq in self.ahead if seq > self.held[sender]]

    def casts(self, sender: int, after: int, upto: int) -> list[Cast]:
        """The buffered casts of a sender with `after` < seq ≤ `upto`."""
        buffer = self.buffers[sender]
        base = self.freed[sender]
        return [buffer[i - base] for i in range(max(after, base), upto)]

    def complete(self, cohort: Cohort) -> bool:
        """Whether everything of the common set is here."""
        held = self.held
        if any(have < want for have, want in zip(held, cohort.target, strict=True)):
            return False
        return all(seq <= held[rank] or (rank, seq) in self.early or (rank, seq) in self._beyond for rank, seq in cohort.early)

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
        require(self.frozen and self.complete(cohort), "a view ends before its common set is complete")
        self.now = now
        together = tuple(cohort.present)
        self._upcall(Transitional(self.view, together))
        if self._recorder is not None:
            self._recorder.transitional(now, self.view.id, together)
        self.gate.open()
        for sender, target in enumerate(cohort.target):
            if sender != self.rank:
                self._accept_late(sender, self.casts(sender, self.accepted[sender], target), now)
        for place in cohort.early:
            self.note("casts_early_common")
            try:
                self.orderer.early(place[0], [self._at(place)], now)
            except RemoteProtocolError:
                self.broken.append(self.view.members[place[0]])
        present = frozenset(self.rank_of[member] for member in together)
        for cast in self.orderer.conclude(present, now):
            origin, payloads = self.view.members[self.rank], cast.payloads
            types, items = full(cast.types, len(payloads)), full(cast.items, len(payloads))
            self._upcall(ReturnedBatch(self.view, origin, cast.number, payloads, types, items))
            if self._recorder is not None:
                self._recorder.returned(now, self.view.id, origin, cast.number, payloads, types, items)
