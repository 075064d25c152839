"""Endpoints and a bag of packets between them: any packet may be delivered next, again, or never. No network, no engine."""

from __future__ import annotations

from isotone.model.events import DeliveryBatch, Ended, ReturnedBatch
from isotone.model.ids import process_id
from isotone.model.records import Packet
from isotone.model.settings import MS, EndpointConfig, Timing
from isotone.model.view import Ordering
from isotone.pipeline.oracle import Report, check_history
from isotone.protocol.endpoint import Endpoint
from isotone.trace.recorder import TraceRecorder

TIMING = Timing(
    heartbeat_ns=20 * MS, soft_ns=60 * MS, hard_ns=150 * MS, closed_ns=50 * MS, probe_ns=40 * MS, settle_ns=20 * MS,
    change_ns=150 * MS, resend_ns=30 * MS, ack_delay_ns=5 * MS, retransmit_ns=30 * MS, retransmit_max_ns=200 * MS,
)  # fmt: skip


class Bag:
    """A few processes, the packets between them, and time."""

    def __init__(self, count: int, ordering: Ordering, limit: int = 600) -> None:
        self.now = 0
        self.ordering = ordering
        self.limit = limit
        self.packets: list[tuple[str, str, Packet]] = []
        self.live: dict[str, Endpoint] = {}
        self.recorders: dict[str, TraceRecorder] = {}
        self.incarnations: dict[str, int] = {}
        self.cut: set[tuple[str, str]] = set()
        self.sent: dict[str, int] = {}
        self.received: dict[str, list[tuple[str, int]]] = {}
        for i in range(count):
            self.begin("abcdefgh"[i])

    def begin(self, name: str) -> None:
        """Start a process, or the next incarnation of one."""
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        process = process_id(name, self.incarnations[name])
        recorder = self.recorders[process] = TraceRecorder(process)
        config = EndpointConfig(process, name, ordering=self.ordering, timing=TIMING)
        endpoint = Endpoint(config, recorder)
        endpoint.start(self.now)
        self.sent[process] = 0
        self.received[process] = []
        for other in self.live.values():
            endpoint.connected(other.process, other.process, self.now)
            other.connected(process, process, self.now)
            self.collect(other)
        self.live[process] = endpoint
        self.collect(endpoint)

    def crash(self, process: str) -> None:
        """A process stops in the middle of whatever it did."""
        self.recorders[process].crash(self.now)
        del self.live[process]

    def collect(self, endpoint: Endpoint) -> None:
        """End a turn of one endpoint."""
        effects = endpoint.collect(self.now)
        for peer, packet in effects.packets:
            self.packets.append((endpoint.process, peer, packet))
        del self.packets[: max(0, len(self.packets) - self.limit)]
        for upcall in effects.upcalls:
            if isinstance(upcall, DeliveryBatch | ReturnedBatch):
                numbers = range(upcall.first, upcall.first + len(upcall.payloads))
                self.received[endpoint.process] += [(upcall.origin, number) for number in numbers]
            elif isinstance(upcall, Ended):
                assert upcall.error is None, upcall.error
                self.live.pop(endpoint.process, None)

    def submit(self, process: str, count: int) -> None:
        """The application of a process hands messages in."""
        endpoint = self.live[process]
        first = self.sent[process]
        payloads = [f"{process}/{first + i}".encode() for i in range(count)]
        self.sent[process] += endpoint.submit(payloads, self.now)
        self.collect(endpoint)

    def deliver(self, index: int, keep: bool = False) -> None:
        """The network delivers a packet; `keep` leaves a copy for later."""
        source, target, packet = self.packets[index] if keep else self.packets.pop(index)
        endpoint = self.live.get(target)
        if endpoint is not None and (source, target) not in self.cut:
            endpoint.receive(source, packet, self.now)
            self.collect(endpoint)

    def advance(self, step_ns: int) -> None:
        """Time passes; timers run at their deadlines."""
        end = self.now + step_ns
        while True:
            due = [(endpoint.deadline(), name) for name, endpoint in self.live.items()]
            times = [(deadline, name) for deadline, name in due if deadline is not None and deadline <= end]
            if not times:
                break
            time, name = min(times)
            self.now = max(self.now, time)
            self.live[name].wake(self.now)
            self.collect(self.live[name])
        self.now = end

    def settle(self, rounds: int = 400) -> bool:
        """A perfect network from here on: whether all live processes come to share one view and have delivered what it brought."""
        self.cut.clear()
        for _ in range(rounds):
            while self.packets:
                self.deliver(0)
            if self.quiet():
                return True
            self.advance(5 * MS)
        return False

    def quiet(self) -> bool:
        """One view, no change, everything sent and stable."""
        views = {endpoint.view.id if endpoint.view else None for endpoint in self.live.values()}
        if len(views) > 1 or None in views:
            return False
        for endpoint in self.live.values():
            epoch = endpoint.epoch
            if epoch is None or epoch.frozen or endpoint.pending or len(epoch.view.members) != len(self.live):
                return False
            if any(epoch.buffers) or len(epoch.gate):
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
