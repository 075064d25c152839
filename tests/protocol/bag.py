"""Endpoints and a bag of packets between them: any packet may be delivered next, again, or never. No network, no engine."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from isotone.model.events import DeliveryBatch, Ended, ReturnedBatch, Upcall
from isotone.model.ids import process_id
from isotone.model.records import Loose, Packet
from isotone.model.settings import MS, EndpointConfig, Limits, Timing
from isotone.model.view import Ordering
from isotone.pipeline.oracle import Report, check_history
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.ordering.all_ack import AllAck
from isotone.trace.recorder import TraceRecorder

TIMING = Timing(
    heartbeat_ns=20 * MS, soft_ns=60 * MS, hard_ns=150 * MS, closed_ns=50 * MS, probe_ns=40 * MS, settle_ns=20 * MS,
    change_ns=150 * MS, resend_ns=30 * MS, ack_delay_ns=5 * MS, retransmit_ns=30 * MS, retransmit_max_ns=200 * MS,
)  # fmt: skip
LIMITS = Limits()


class Fate(Enum):
    """What becomes of a packet that is not delivered now."""

    DROP = "drop"
    KEEP = "keep"


Rule = Callable[[str, str, Packet], Packet | Fate]
"""Given source, target and packet: the packet to deliver (that one, or an altered one), or its fate."""


def carries(packet: Packet, *kinds: type[Loose]) -> bool:
    """Whether a packet has a loose record of one of these kinds."""
    return any(isinstance(record, kinds) for record in packet.loose)


class Bag:
    """A few processes, the packets between them, and time."""

    def __init__(
        self, count: int, ordering: Ordering, limit: int = 600, limits: Limits = LIMITS, timing: Timing | None = None
    ) -> None:
        self.now = 0
        self.ordering = ordering
        self.limit = limit
        self.limits = limits
        self.timing = timing or TIMING
        self.packets: list[tuple[str, str, Packet]] = []
        self.live: dict[str, Endpoint] = {}
        self.asleep: dict[str, list[tuple[str, Packet]]] = {}  # what has come for processes that are not run
        self.recorders: dict[str, TraceRecorder] = {}
        self.incarnations: dict[str, int] = {}
        self.cut: set[tuple[str, str]] = set()
        self.apart: set[tuple[str, str]] = set()  # who has been told that the way to whom is gone
        self.sent: dict[str, int] = {}
        self.received: dict[str, list[tuple[str, int]]] = {}
        self.upcalls: dict[str, list[Upcall]] = {}
        self.refused: dict[str, str] = {}
        self.refusable: set[str] = set()  # processes that may end with an error
        for i in range(count):
            self.begin("abcdefgh"[i])

    # Processes

    def begin(self, name: str, **overrides: Any) -> str:
        """Start a process, or the next incarnation of one; `overrides` go to its `EndpointConfig`."""
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        process = process_id(name, self.incarnations[name])
        recorder = self.recorders[process] = TraceRecorder(process)
        settings = {"ordering": self.ordering, "timing": self.timing, "limits": self.limits, **overrides}
        endpoint = Endpoint(EndpointConfig(process, name, **settings), recorder)
        endpoint.start(self.now)
        self.sent[process] = 0
        self.received[process] = []
        self.upcalls[process] = []
        for other in list(self.live.values()):
            endpoint.connected(other.process, other.process, self.now)
            other.connected(process, process, self.now)
            self.collect(other)
        self.live[process] = endpoint
        self.collect(endpoint)
        return process

    def crash(self, process: str) -> None:
        """A process stops in the middle of whatever it did."""
        self.recorders[process].crash(self.now)
        self.asleep.pop(process, None)
        del self.live[process]

    def leave(self, process: str) -> None:
        """A process asks to leave."""
        endpoint = self.live[process]
        endpoint.leave(self.now)
        self.collect(endpoint)

    def pause(self, process: str) -> None:
        """A process is not run; what comes for it waits."""
        self.live[process].deadline()  # its driver has armed the timer
        self.asleep[process] = []

    def resume(self, process: str, timer_first: bool = False) -> None:
        """The process runs again and gets everything that waits in one turn, after or before its timer."""
        endpoint = self.live[process]
        waiting = self.asleep.pop(process)
        deadline = endpoint.deadline()
        late = deadline is not None and deadline <= self.now
        if late and timer_first:
            endpoint.wake(self.now)
            self.collect(endpoint)
        for source, packet in waiting:
            endpoint.receive(source, packet, self.now)
        if late and not timer_first:
            endpoint.wake(self.now)
        self.collect(endpoint)

    def disconnect(self, process: str, peer: str) -> None:
        """The connection from a process to a peer breaks: what is under way is lost, and the process hears of it."""
        self.packets = [entry for entry in self.packets if entry[:2] != (process, peer)]
        self.apart.add((process, peer))
        endpoint = self.live.get(process)
        if endpoint is not None:
            endpoint.disconnected(peer, self.now)
            self.collect(endpoint)

    def connect(self, process: str, peer: str) -> None:
        """There is a way from a process to a peer again."""
        self.apart.discard((process, peer))
        endpoint = self.live.get(process)
        if endpoint is not None and peer in self.live:
            endpoint.connected(peer, peer, self.now)
            self.collect(endpoint)

    def split(self, *components: str) -> None:
        """Cut the network: the processes of each component, given by names such as "ab", hear only each other."""
        place = {name: number for number, names in enumerate(components) for name in names}
        for source in self.live:
            for target in self.live:
                if place[source[0]] != place[target[0]]:
                    self.cut.add((source, target))

    def collect(self, endpoint: Endpoint) -> None:
        """End a turn of one endpoint."""
        effects = endpoint.collect(self.now)
        for peer, packet in effects.packets:
            self.packets.append((endpoint.process, peer, packet))
        del self.packets[: max(0, len(self.packets) - self.limit)]
        self.upcalls[endpoint.process] += effects.upcalls
        for upcall in effects.upcalls:
            if isinstance(upcall, DeliveryBatch | ReturnedBatch):
                numbers = range(upcall.first, upcall.first + len(upcall.payloads))
                self.received[endpoint.process] += [(upcall.origin, number) for number in numbers]
            elif isinstance(upcall, Ended):
                assert upcall.error is None or endpoint.process in self.refusable, upcall.error
                if upcall.error is not None:
                    self.refused[endpoint.process] = upcall.error
                self.live.pop(endpoint.process, None)
                self.asleep.pop(endpoint.process, None)

    def submit(self, process: str, count: int) -> int:
        """The application of a process hands messages in; returns how many were accepted."""
        endpoint = self.live[process]
        first = self.sent[process]
        payloads = [f"{process}/{first + i}".encode() for i in range(count)]
        accepted = endpoint.submit(payloads, self.now)
        self.sent[process] += accepted
        self.collect(endpoint)
        return accepted

    # The network and time

    def deliver(self, index: int, keep: bool = False) -> None:
        """The network delivers a packet; `keep` leaves a copy for later."""
        source, target, packet = self.packets[index] if keep else self.packets.pop(index)
        self._hand(source, target, packet)

    def hand_out(self) -> None:
        """The network delivers what is under way, and loses what comes of it: complaints about what is missing, say."""
        for _ in range(len(self.packets)):
            self.deliver(0)
        self.packets.clear()

    def _hand(self, source: str, target: str, packet: Packet) -> None:
        endpoint = self.live.get(target)
        if endpoint is None or (source, target) in self.cut:
            return
        if target in self.asleep:
            self.asleep[target].append((source, packet))
        else:
            endpoint.receive(source, packet, self.now)
            self.collect(endpoint)

    def advance(self, step_ns: int) -> None:
        """Time passes; timers run at their deadlines."""
        end = self.now + step_ns
        while True:
            due = [(endpoint.deadline(), name) for name, endpoint in self.live.items() if name not in self.asleep]
            times = [(deadline, name) for deadline, name in due if deadline is not None and deadline <= end]
            if not times:
                break
            time, name = min(times)
            self.now = max(self.now, time)
            endpoint = self.live[name]
            endpoint.wake(self.now)
            self.collect(endpoint)
        self.now = end

    def run(
        self, duration_ns: int, rule: Rule | None = None, until: Callable[[], bool] = lambda: False, step_ns: int = MS
    ) -> bool:
        """Deliver packets at once, in order, as `rule` says, while time passes; whether `until` came true, which ends it."""
        end = self.now + duration_ns
        while not until():
            index = 0
            while index < len(self.packets):
                source, target, packet = self.packets[index]
                fate = rule(source, target, packet) if rule is not None else packet
                if fate is Fate.KEEP:
                    index += 1
                    continue
                del self.packets[index]
                if not isinstance(fate, Fate):
                    self._hand(source, target, fate)
                    if until():
                        return True
            if self.now >= end:
                return until()
            self.advance(min(step_ns, end - self.now))
        return True

    def settle(self, rounds: int = 400) -> bool:
        """A perfect network from here on: whether all live processes come to share one view and deliver what it brought."""
        self.cut.clear()
        for process in list(self.asleep):
            self.resume(process)
        for pair in sorted(self.apart):
            self.connect(*pair)
        for _ in range(rounds):
            while self.packets:
                self.deliver(0)
            if self.quiet():
                return True
            self.advance(5 * MS)
        return False

    # What can be seen

    def quiet(self) -> bool:
        """One view, no change, no switch, nobody about to leave, everything sent, received and stable."""
        views = {endpoint.view.id if endpoint.view else None for endpoint in self.live.values()}
        if len(views) > 1 or None in views:
            return False
        for endpoint in self.live.values():
            epoch = endpoint.epoch
            if epoch is None or epoch.frozen or endpoint.pending or len(epoch.view.members) != len(self.live):
                return False
            if any(epoch.buffers) or len(epoch.gate) or endpoint._leave_wanted or epoch.switches:
                return False
            if any(link.fresh or link.unacked for _, link in epoch.links.peers):  # somebody may wait for an acknowledgement
                return False
            lanes = epoch.switching.lanes.of.values() if epoch.switching is not None else [epoch.orderer]
            if any(isinstance(lane, AllAck) and lane.owed for lane in lanes):  # it waits with its answer for something to send
                return False
        return True

    def report(self) -> Report:
        """The verdict of the oracle over everything that happened."""
        rows = []
        for process in sorted(self.recorders):
            if process in self.live:
                self.recorders[process].stop(self.now)
            rows += list(self.recorders[process].rows())
        return check_history(rows)
