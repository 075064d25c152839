"""A small endpoint for the engine's own tests: best-effort FIFO multicast to whoever is connected, logging its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.model.errors import Closed
from isotone.model.events import DeliveryBatch, Ended, Upcall, ViewInstalled
from isotone.model.ids import ViewId
from isotone.model.records import Cast, Packet
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering, View


class FakeEffects:
    """Columns of effects."""

    def __init__(self) -> None:
        self.packets: list[tuple[str, Packet]] = []
        self.upcalls: list[Upcall] = []
        self.drop: list[str] = []


class FakeEndpoint:
    """Sends what is submitted to all connected peers and delivers at once what it gets; `window` bounds one submit."""

    heartbeat_ns = 0

    def __init__(self, config: EndpointConfig, recorder: Any = None) -> None:
        self.config = config
        self.process = config.process
        self.recorder = recorder
        self.view: View | None = View(ViewId(1, config.process), (config.process,), Ordering())
        self.closed = False
        self.window = 1 << 30
        self.peers: dict[str, None] = {}
        self.effects = FakeEffects()
        self.queue: list[bytes] = []
        self.number = 0
        self.next = 0
        self.log: list[tuple[Any, ...]] = []

    def start(self, now: int) -> None:
        self.log.append((now, "start"))
        if self.heartbeat_ns:
            self.next = now + self.heartbeat_ns
        if self.recorder is not None:
            self.recorder.start(now, {})
        assert self.view is not None
        self.effects.upcalls.append(ViewInstalled(self.view, None, (self.process,)))

    def submit(self, payloads: Sequence[bytes], now: int, types: Any = None, items: Any = None) -> int:
        if self.closed:
            raise Closed("left")
        taken = min(len(payloads), self.window)
        self.window -= taken
        self.queue.extend(payloads[:taken])
        return taken

    def writable(self) -> bool:
        return self.window > 0

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        self.log.append((now, "receive", peer, packet.first))
        for record in packet.records:
            assert isinstance(record, Cast)
            self._deliver(peer, record.number, record.payloads, now)

    def _deliver(self, origin: str, first: int, payloads: Sequence[bytes], now: int) -> None:
        assert self.view is not None
        self.effects.upcalls.append(DeliveryBatch(self.view, origin, first, payloads, None, "agreed"))
        if self.recorder is not None:
            self.recorder.deliver(now, self.view.id, origin, first, payloads, None, "fake", "agreed")

    def connected(self, peer: str, address: str, now: int) -> None:
        self.log.append((now, "connected", peer, address))
        self.peers[peer] = None

    def disconnected(self, peer: str, now: int) -> None:
        self.log.append((now, "disconnected", peer))
        self.peers.pop(peer, None)

    def wake(self, now: int) -> None:
        self.log.append((now, "wake"))
        if self.heartbeat_ns and now >= self.next:
            self.next = now + self.heartbeat_ns
            for peer in self.peers:
                self.effects.packets.append((peer, Packet(0, "", 0, 0, [], [])))

    def deadline(self) -> int | None:
        return self.next or None

    def collect(self, now: int) -> FakeEffects:
        if self.queue:
            first = self.number + 1
            self.number += len(self.queue)
            if self.recorder is not None and self.view is not None:
                self.recorder.send(now, self.view.id, first, self.queue)
            packet = Packet(0, "", first, 0, [Cast(first, 0, [], first, self.queue)], [])
            self._deliver(self.process, first, self.queue, now)
            self.queue = []
            for peer in self.peers:
                self.effects.packets.append((peer, packet))
        effects, self.effects = self.effects, FakeEffects()
        return effects

    def provide(self, cut: object, data: bytes | None, now: int, problem: str = "") -> None:
        """It has no state."""

    def switch(self, switch: object, now: int) -> None:
        """It orders in one way."""

    def leave(self, now: int) -> None:
        self.closed = True
        self.effects.upcalls.append(Ended(None))
        if self.recorder is not None:
            self.recorder.stop(now)

    def address_of(self, peer: str) -> str | None:
        return peer.partition("#")[0]


class Silent(FakeEndpoint):
    """For measuring the engine: as little work as an endpoint can do."""

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        pass

    def deadline(self) -> int | None:
        return None

    def collect(self, now: int) -> FakeEffects:
        if self.queue:
            packet = Packet(0, "", 1, 0, [], [])
            self.queue = []
            effects = FakeEffects()
            effects.packets = [(peer, packet) for peer in self.peers]
            return effects
        return NOTHING


NOTHING = FakeEffects()
