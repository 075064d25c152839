"""The simulated network: one link per direction between two names, with delay, bandwidth, loss, cuts and clogs.

A packet arrives if its link is open when it is sent and when it arrives. Without reordering a link is FIFO, whatever
its delays are; a duplicate follows its original. A clogged link holds packets, in front of all the rest, until it is
unclogged. Names, not incarnations, have links: a restarted process finds the network as it is.

With a bandwidth, packets are clocked out one after another: on a wire of their own link (`interface = "pair"`: a mesh), on the
only interface of their node (`node`: point to point, one copy after the other), or on the ports of a switch that multicasts
(`multicast`): a record that a node sends to several others in one turn crosses the node's own port once, and then every
receiver's port, where what comes from different senders queues up. Each packet's own counters ride along.

Links that need no decision per packet (`plain`: open, constant delay, nothing else) are short-cut by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from isotone.model.errors import ConfigError
from isotone.model.records import Cast, Direct, Loose, Packet, Piece, Relay, Sequenced
from isotone.sim.latency import Constant, Latency, check_latency, constant_ns, nanoseconds, sampler
from isotone.sim.rand import below, shuffled, stream

Release = Literal["fifo", "lifo", "shuffle"]
Interface = Literal["pair", "node", "multicast"]
PACKET_BYTES = 66  # what Ethernet, IP and TCP add to the data of one frame
SECOND_BITS = 8 * 1_000_000_000


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of links. `bandwidth_bps` 0 is unlimited; `queue_ms` 0 lets the queue before the wire grow."""

    latency: Latency = Constant()
    bandwidth_bps: int = 0
    queue_ms: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_ms: float = 10.0

    def __post_init__(self) -> None:
        check_latency(self.latency)
        for name in ("loss", "duplicate", "reorder"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"network {name} must be a probability, from 0 to 1")
        for name in ("bandwidth_bps", "queue_ms", "reorder_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(f"network {name} must not be negative")


class Wire:
    """What packets are clocked out on, one after another: a link's own, or a node's only interface."""

    __slots__ = ("busy", "carried", "turn")

    def __init__(self) -> None:
        self.busy = 0
        self.turn = -1  # the instant that `carried` belongs to
        self.carried: dict[int, tuple[object, int]] = {}  # multicast: records by identity, and when they have left


class Link:
    """One direction between two names."""

    __slots__ = (
        "delay",
        "draw",
        "held",
        "last",
        "open",
        "plain",
        "queue_ns",
        "reorder_ns",
        "rng",
        "settings",
        "source",
        "target",
        "wire",
    )

    def __init__(self, source: str, target: str, settings: LinkSettings, wire: Wire, seed: int) -> None:
        self.source = source
        self.target = target
        self.rng = stream(seed, "link", source, target)
        self.wire = wire
        self.open = True
        self.held: list[tuple[object, Packet | bytes]] | None = None
        self.last = 0  # latest arrival so far, of packets that keep their order
        self.plain = False
        self.delay = 0
        self.configure(settings, 0)

    def configure(self, settings: LinkSettings, now: int) -> None:
        """Use other parameters from now on."""
        self._remember(now)
        self.settings = settings
        self.draw = sampler(settings.latency, self.rng)
        self.queue_ns = nanoseconds(settings.queue_ms)
        self.reorder_ns = nanoseconds(settings.reorder_ms)
        self.delay = constant_ns(settings.latency) or 0
        self.refresh(now)

    def refresh(self, now: int) -> None:
        """Find out whether packets need a decision each."""
        self._remember(now)
        settings = self.settings
        decisions = settings.bandwidth_bps or settings.loss or settings.duplicate or settings.reorder
        steady = isinstance(settings.latency, Constant) and self.last <= now + self.delay
        self.plain = self.open and self.held is None and steady and not decisions

    def _remember(self, now: int) -> None:
        """While a link is plain nobody keeps `last`: catch up before it may matter."""
        if self.plain:
            self.last = max(self.last, now + self.delay)
            self.plain = False


class Counters:
    """What became of the packets."""

    __slots__ = ("bytes", "clogged", "cut", "duplicated", "full", "lost", "reordered", "sent", "shared", "unconnected")

    def __init__(self) -> None:
        self.sent = self.lost = self.cut = self.full = self.duplicated = self.reordered = self.clogged = 0
        self.unconnected = self.bytes = self.shared = 0

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def packet_bytes(packet: Packet | bytes) -> int:
    """How long the packet is on the wire: exactly, if it is encoded, else about."""
    if isinstance(packet, bytes):
        return PACKET_BYTES + len(packet)
    return PACKET_BYTES + 16 + sum(map(record_bytes, packet.loose)) + sum(map(record_bytes, packet.records))


def record_bytes(record: Sequenced | Loose) -> int:
    """About how long a record is on the wire."""
    if isinstance(record, Relay):
        record = record.cast
    if isinstance(record, Cast):
        return 12 + 3 * len(record.stamp) + sum(map(len, record.payloads)) + 3 * len(record.payloads)
    if isinstance(record, Direct):
        return 6 + 3 * len(record.stamp)
    return 24 + (len(record.data) if isinstance(record, Piece) else 0)


class Network:
    """All links, and what is wrong with them. `deliver(time, connection, packet)` is the engine's, and `at(time, function,
    argument)`, which only a network with receivers' ports (`multicast`) needs."""

    def __init__(
        self,
        seed: int,
        deliver: Callable[[int, object, Packet | bytes], None],
        defaults: LinkSettings,
        interface: Interface = "pair",
        at: Callable[[int, Callable[[Any], None], Any], None] | None = None,
    ) -> None:
        self.counters = Counters()
        self._seed = seed
        self._deliver = deliver
        self._defaults = defaults
        self._at = at
        self.interface = interface
        self._special: dict[tuple[str, str], LinkSettings] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._wires: dict[str, Wire] = {}
        self._ports: dict[str, Wire] = {}
        self._component: dict[str, int] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._clogs: set[tuple[str, str]] = set()
        self._rng = stream(seed, "network")

    def link(self, source: str, target: str) -> Link:
        """The link from one name to another, made when it is first asked for."""
        key = (source, target)
        link = self._links.get(key)
        if link is None:
            wire = Wire() if self.interface == "pair" else self._wires.setdefault(source, Wire())
            link = Link(source, target, self._special.get(key, self._defaults), wire, self._seed)
            link.open = self._is_open(key)
            link.held = [] if key in self._clogs else None
            link.refresh(0)
            self._links[key] = link
        return link

    def is_open(self, source: str, target: str) -> bool:
        """Whether a packet sent now would not be cut off or clogged."""
        return self._is_open((source, target)) and (source, target) not in self._clogs

    def _is_open(self, key: tuple[str, str]) -> bool:
        component = self._component
        return component.get(key[0], -1) == component.get(key[1], -1) and key not in self._cuts

    def configure(self, pairs: Iterable[tuple[str, str]], changes: dict[str, object], now: int) -> None:
        """Change parameters of links."""
        for key in pairs:
            settings = msgspec.structs.replace(self._special.get(key, self._defaults), **changes)
            self._special[key] = settings
            if key in self._links:
                self._links[key].configure(settings, now)

    def partition(self, groups: Iterable[Iterable[str]], now: int) -> None:
        """Let only members of the same group reach each other; names in no group make up one more."""
        self._component = {name: index for index, group in enumerate(groups) for name in group}
        self._refresh(now)

    def cut(self, pairs: Iterable[tuple[str, str]], now: int) -> None:
        """Close single directions."""
        self._cuts.update(pairs)
        self._refresh(now)

    def heal(self, pairs: Iterable[tuple[str, str]] | None, now: int) -> None:
        """Open the given directions that were cut; or, for None, everything that was cut or partitioned."""
        if pairs is None:
            self._component.clear()
            self._cuts.clear()
        else:
            self._cuts.difference_update(pairs)
        self._refresh(now)

    def _refresh(self, now: int) -> None:
        for key, link in self._links.items():
            is_open = self._is_open(key)
            if is_open != link.open:
                link.open = is_open
                link.refresh(now)

    def clog(self, pairs: Iterable[tuple[str, str]], now: int) -> None:
        """Hold what is sent from now on."""
        for key in pairs:
            self._clogs.add(key)
            link = self._links.get(key)
            if link is not None and link.held is None:
                link.held = []
                link.refresh(now)

    def unclog(self, pairs: Iterable[tuple[str, str]] | None, release: Release, now: int) -> None:
        """Send what was held: in order, the last first, or shuffled."""
        for key in sorted(self._clogs) if pairs is None else pairs:
            self._clogs.discard(key)
            link = self._links.get(key)
            if link is None or link.held is None:
                continue
            held = link.held
            link.held = None
            if release == "lifo":
                held.reverse()
            elif release == "shuffle":
                held = shuffled(self._rng, held)
            for connection, packet in held:
                self.send(link, connection, packet, now)
            link.refresh(now)

    def send(self, link: Link, connection: object, packet: Packet | bytes, now: int, plain: Packet | None = None) -> None:
        """Send a packet over a link that needs decisions (a plain one takes it too); `plain` is an encoded packet as it was."""
        counters = self.counters
        if not link.open:
            counters.cut += 1
            return
        if link.held is not None:
            counters.clogged += 1
            link.held.append((connection, packet))
            return
        settings = link.settings
        rng = link.rng
        leaves = now
        if settings.bandwidth_bps:
            wire = link.wire
            begins = wire.busy if wire.busy > now else now
            if link.queue_ns and begins - now > link.queue_ns:
                counters.full += 1
                return
            content = packet if isinstance(packet, Packet) else plain
            if self.interface == "multicast" and content is not None:
                leaves = self._multicast(link, content, begins, now)
            else:
                size = packet_bytes(packet)
                counters.bytes += size
                leaves = wire.busy = begins + size * SECOND_BITS // settings.bandwidth_bps
        if settings.loss and rng.random() < settings.loss:
            counters.lost += 1
            return
        copies = 1
        if settings.duplicate and rng.random() < settings.duplicate:
            counters.duplicated += 1
            copies = 2
        for _ in range(copies):
            arrives = leaves + link.draw()
            if settings.reorder and rng.random() < settings.reorder:
                counters.reordered += 1
                arrives += below(rng, link.reorder_ns + 1)
            elif arrives < link.last:
                arrives = link.last
            else:
                link.last = arrives
            if self._at is not None and settings.bandwidth_bps and self.interface == "multicast":
                self._at(arrives, self._reaches_port, (link, connection, packet, arrives))
            else:
                self._deliver(arrives, connection, packet)

    def _multicast(self, link: Link, packet: Packet, begins: int, now: int) -> int:
        """When the packet has left its node: what the node sent in this turn already to somebody else need not go again."""
        wire = link.wire
        if wire.turn != now:
            wire.turn = now
            wire.carried.clear()
        leaves, fresh, size = now, [], 0
        for record in (*packet.records, *packet.loose):
            known = wire.carried.get(id(record))
            if known is None:
                fresh.append(record)
                size += record_bytes(record)
            elif known[1] > leaves:
                leaves = known[1]
        if not fresh and leaves > now:
            self.counters.shared += 1
            return leaves
        size += PACKET_BYTES + 16
        self.counters.bytes += size
        wire.busy = begins + size * SECOND_BITS // link.settings.bandwidth_bps
        wire.carried.update((id(record), (record, wire.busy)) for record in fresh)  # they stay alive, so ids stay theirs
        return wire.busy

    def _reaches_port(self, arrival: tuple[Link, object, Packet | bytes, int]) -> None:
        """The packet stands before its receiver's port, which carries one after another."""
        link, connection, packet, now = arrival
        port = self._ports.setdefault(link.target, Wire())
        begins = max(port.busy, now)
        if link.queue_ns and begins - now > link.queue_ns:
            self.counters.full += 1
            return
        bandwidth = link.settings.bandwidth_bps
        port.busy = begins + (packet_bytes(packet) * SECOND_BITS // bandwidth if bandwidth else 0)
        self._deliver(port.busy, connection, packet)
