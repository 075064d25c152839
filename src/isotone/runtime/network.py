"""All connections of one process: one listening port, one link per peer, dialling, handshakes, duplicates.

To the driver it is an unreliable packet service: a packet for a peer without a link is lost, and the peer is dialled in the
background. Everything is bounded: connections, what a connection may hold, what is remembered of peers that were
dropped. Invariants: at most one connection per peer is used for sending; of two that the two sides dialled at once,
both keep the one dialled by the smaller process id; a connection that became superfluous is still read from until
it closes, so nothing is lost by the choice.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from isotone.codec import FRAME_BYTES, WIRE_VERSION, Hello, PacketEncoder, Probe, Refused
from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.ids import ProcessId, name_of
from isotone.model.records import Packet
from isotone.runtime.addresses import format_address, is_wildcard, parse_address
from isotone.runtime.connection import Connection
from isotone.runtime.desk import Desk
from isotone.runtime.dialer import Dialer
from isotone.runtime.logs import RateLimited
from isotone.runtime.seeds import Seeds

CONNECT_S = 3.0
WRITE_BYTES = 4 * 1024 * 1024
FRAME_SLACK_BYTES = 256 * 1024
_TICK_S = 0.1
_LINGER_S = 1.0
_SILENCE_S = 4.0
_BACKLOG = 1024
_CONNECTIONS_MAX = 4096
_DROPPED_MAX = 4096


class Receiver(Protocol):
    """Who gets what arrives: the driver."""

    def connected(self, peer: ProcessId, address: str) -> None: ...
    def disconnected(self, peer: ProcessId) -> None: ...
    def received(self, peer: ProcessId, packet: Packet) -> None: ...


class Network:
    """See the module. `resolve(peer)` tells where a peer can be reached."""

    def __init__(
        self,
        group: str,
        process: ProcessId,
        payload_bytes: int,
        resolve: Callable[[ProcessId], str | None],
        frame_bytes: int = FRAME_BYTES,
        write_bytes: int = WRITE_BYTES,
    ) -> None:
        if payload_bytes + FRAME_SLACK_BYTES > frame_bytes:
            most = frame_bytes - FRAME_SLACK_BYTES
            raise ConfigError(f"limit payload_bytes is {payload_bytes}: frames of {frame_bytes} bytes hold at most {most}")
        self.hello = Hello(WIRE_VERSION, group, process, "", payload_bytes, frame_bytes)
        self.write_bytes = write_bytes
        self.seeds = Seeds(group, ())
        self.receiver: Receiver | None = None
        self.desk: Desk | None = None  # who answers probes, if anybody
        self._resolve = resolve
        self._encoder = PacketEncoder()
        self._dialer = Dialer(self._connect)
        self._links: dict[ProcessId, Connection] = {}
        self._all: set[Connection] = set()
        self._dropped: dict[ProcessId, None] = {}  # the oldest first
        self._blocked: frozenset[str] = frozenset()
        self._myself: set[str] = set()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._tick_due = 0.0
        self._warn = RateLimited(f"{group} {process}")
        self._closed = False
        self.lost_packets = 0

    # --- beginning and end -----------------------------------------------------------------------------------------

    async def listen(self, listen: str, advertise: str | None) -> str:
        """Open the port; returns the address that others dial."""
        host, port = parse_address(listen, "listen address", any_port=True)
        if advertise is None and is_wildcard(host):
            raise ConfigError(f"listen address {listen!r} is all interfaces: say with advertise= where others reach this one")
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(self._accept, host, port, backlog=_BACKLOG)
        except socket.gaierror as error:
            raise ConfigError(f"cannot listen on {listen}: {error.strerror or error}") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(f"cannot listen on {listen}: port {port} is in use") from None
            raise ConfigError(f"cannot listen on {listen}: {error.strerror or error}") from None
        self._server = server
        found, actual = server.sockets[0].getsockname()[:2]
        # A name of several interfaces gets a port of its own on each: then only one of them is right.
        address = advertise or format_address(host if port or len(server.sockets) == 1 else found, actual)
        parse_address(address, "advertised address")
        self.hello = Hello(
            WIRE_VERSION,
            self.hello.group,
            self.hello.process,
            address,
            self.hello.payload_bytes,
            self.hello.frame_bytes,
        )
        self._myself.add(address)
        return address

    def start(self, receiver: Receiver, seeds: Sequence[str]) -> None:
        """Begin to dial the seeds and to hand over what arrives."""
        self.receiver = receiver
        self.seeds = Seeds(self.hello.group, seeds)
        for address in self._myself:
            self.seeds.myself(address)
        self._tick_due = time.monotonic()
        self._tick()

    async def close(self) -> None:
        """Close the port and all connections; what was written is still sent, for a moment."""
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        await self._dialer.close()
        for connection in list(self._all):
            connection.close()
        deadline = time.monotonic() + 2 * _LINGER_S
        while self._all and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        for connection in list(self._all):
            connection.abort()

    # --- packets ---------------------------------------------------------------------------------------------------

    def send(self, packets: Sequence[tuple[ProcessId, Packet]]) -> None:
        """One frame to each peer; lost where there is no link."""
        frames, links, now = self._encoder.frames, self._links, time.monotonic()
        for peer, packet in packets:
            link = links.get(peer)
            if link is None:
                self.lost_packets += 1
                self._want(peer)
            elif not link.send(frames(packet, link.frame_bytes), now):
                self.lost_packets += 1
        self._encoder.end_turn()

    def drop(self, peer: ProcessId) -> None:
        """Close the link; the peer is not dialled again until it comes by itself."""
        self._dropped[peer] = None
        if len(self._dropped) > _DROPPED_MAX:
            del self._dropped[next(iter(self._dropped))]
        link = self._links.get(peer)
        if link is not None:
            link.close()

    def _want(self, peer: ProcessId) -> None:
        if self._closed or peer in self._dropped or name_of(peer) in self._blocked:
            return
        address = self._resolve(peer)
        if address and address not in self._myself:
            self._dialer.want(address)

    # --- connections -----------------------------------------------------------------------------------------------

    def _accept(self) -> Connection:
        connection = Connection(self, None)
        if len(self._all) >= _CONNECTIONS_MAX:
            asyncio.get_running_loop().call_soon(connection.abort)
        self._all.add(connection)
        return connection

    def opened(self, connection: Connection, hello: Hello) -> None:
        peer, own = hello.process, self.hello
        if self._closed or self.receiver is None:
            connection.close()
            return
        if peer == own.process:
            if connection.dialled is not None:
                self._myself.add(connection.dialled)
                self.seeds.myself(connection.dialled)
            connection.close()
            return
        if hello.group != own.group:
            raise Refused(f"group {hello.group!r} is not group {own.group!r}")
        if hello.payload_bytes + FRAME_SLACK_BYTES > own.frame_bytes:
            raise Refused(f"payloads of {hello.payload_bytes} bytes do not fit into frames of {own.frame_bytes}")
        if name_of(peer) in self._blocked or (connection.dialled is not None and peer in self._dropped):
            connection.abort()
            return
        connection.receive = self.receiver.received
        self._dropped.pop(peer, None)
        if connection.dialled is not None:
            self.seeds.reached(connection.dialled, peer)
        old = self._links.get(peer)
        if old is not None and not old.closing:
            if (old.dialled is None) != (connection.dialled is None):
                mine = own.process < peer
                if (old.dialled is not None) == mine:
                    self._retire(connection)
                else:
                    self._links[peer] = connection
                    self._retire(old)
                return
            self._retire(old)
        self._links[peer] = connection
        self.receiver.connected(peer, hello.address)

    def probed(self, connection: Connection, probe: Probe) -> None:
        if probe.group != self.hello.group:
            raise Refused(f"group {probe.group!r} is not group {self.hello.group!r}")
        if self._closed or self.desk is None:
            raise Refused("nobody answers probes here")
        self.desk.take(connection, probe.wanted)

    def lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection.asking and self.desk is not None:
            self.desk.lost(connection)
        peer, error = connection.peer, connection.error
        if error is not None and not self._closed:
            whom = peer or connection.dialled or "a caller"
            self._warn.warning(f"{whom} {type(error).__name__}", f"connection with {whom} closed: {error}")
        if connection.dialled is not None and error is not None:
            self._dialer.hold(connection.dialled)
            if isinstance(error, Refused):
                self.seeds.refused(connection.dialled, str(error))
        if peer is None or self._links.get(peer) is not connection:
            return
        for other in self._all:
            if other.peer == peer and not other.closing:
                self._links[peer] = other
                return
        del self._links[peer]
        if self.receiver is not None and not self._closed:
            self.receiver.disconnected(peer)

    def _retire(self, connection: Connection) -> None:
        asyncio.get_running_loop().call_later(_LINGER_S, self._close_retired, connection)

    def _close_retired(self, connection: Connection) -> None:
        if connection.peer is None or self._links.get(connection.peer) is not connection:
            connection.close()

    async def _connect(self, address: str) -> bool:
        """Dial once; says whether a peer is at the other end."""
        loop = asyncio.get_running_loop()
        connection = Connection(self, address)
        connection.done = loop.create_future()
        self._all.add(connection)
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: connection, host, port)
        except BaseException as error:
            self._all.discard(connection)
            if not isinstance(error, OSError | TimeoutError | ConfigError):
                raise
            self.seeds.unreachable(address)
            return False
        await connection.done
        if connection.error is not None and not isinstance(connection.error, Refused):
            self.seeds.unreachable(address)
        return not connection.closing

    # --- from time to time -----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = time.monotonic()
        late = now - self._tick_due
        self._tick_due = now + _TICK_S
        self._ticker = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        self.seeds.dial(self._links, self._dialer.want)
        for link in list(self._links.values()):
            if late > 1.0:
                link.heard = now  # this process was stopped, not its peers
            elif link.sent - link.heard > _SILENCE_S:
                # A way that was cut and healed would wait for TCP's own back-off: dial afresh.
                link.error = RemoteProtocolError(f"silent for {link.sent - link.heard:.1f} s")
                link.abort()

    # --- for tests and demonstrations ------------------------------------------------------------------------------

    def block(self, names: Iterable[str]) -> None:
        """Ignore processes of these names: packets from and to them are dropped, connections closed and not made."""
        self._blocked = frozenset(names)
        for connection in list(self._all):
            if connection.peer is not None and name_of(connection.peer) in self._blocked:
                connection.abort()

    def linked(self) -> list[ProcessId]:
        """The peers that a link leads to."""
        return sorted(self._links)

    def links(self) -> dict[ProcessId, dict[str, object]]:
        """The same in more detail, for people."""
        now = time.monotonic()
        return {
            peer: {
                "dialled_by": self.hello.process if link.dialled is not None else peer,
                "heard_ms_ago": round(1_000 * (now - link.heard), 1),
                "queued_bytes": link.queued,
            }
            for peer, link in sorted(self._links.items())
        }
