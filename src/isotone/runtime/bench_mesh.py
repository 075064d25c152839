"""The raw bound of the benchmark: a plain TCP mesh that orders nothing.

Every process is connected with every other one. A pack is a length of four bytes and, up to 64 KiB, messages each
preceded by their length; every process splits every pack in a Python loop, its own too. No acknowledgement, no
retransmission, no order, no views: what a plain Python program on the same event loop reaches if it handles messages
one by one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from struct import Struct
from typing import cast

PACK_BYTES = 64 * 1024
_LENGTH = Struct(">I")
_HIGH_BYTES = 1024 * 1024


def pack(messages: Sequence[bytes]) -> bytes:
    """Messages as a pack, with its own length in front."""
    length = _LENGTH.pack
    body = b"".join([length(len(message)) + message for message in messages])
    return length(len(body)) + body


def split(body: bytes) -> list[bytes]:
    """The messages of a pack's body."""
    messages: list[bytes] = []
    add, length, at, end = messages.append, _LENGTH.unpack_from, 0, len(body)
    while at < end:
        begin = at + 4
        at = begin + length(body, at)[0]
        add(body[begin:at])
    return messages


class MeshLink(asyncio.Protocol):
    """One connection of the mesh."""

    def __init__(self, deliver: Callable[[list[bytes]], None]) -> None:
        self._deliver = deliver
        self._buffer = b""
        self.transport: asyncio.Transport | None = None
        self.open = asyncio.Event()
        self.open.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HIGH_BYTES)

    def pause_writing(self) -> None:
        self.open.clear()

    def resume_writing(self) -> None:
        self.open.set()

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        at, end = 0, len(data)
        while end - at >= 4:
            begin = at + 4
            after = begin + _LENGTH.unpack_from(data, at)[0]
            if after > end:
                break
            self._deliver(split(data[begin:after]))
            at = after
        self._buffer = data[at:]


class Mesh:
    """One process of the mesh; the smaller rank dials."""

    def __init__(self) -> None:
        self.deliver: Callable[[list[bytes]], None] = lambda messages: None
        self._links: list[MeshLink] = []
        self._server: asyncio.Server | None = None

    def _new(self) -> MeshLink:
        link = MeshLink(self._received)
        self._links.append(link)
        return link

    def _received(self, messages: list[bytes]) -> None:
        self.deliver(messages)

    async def listen(self) -> int:
        """Open a port."""
        self._server = await asyncio.get_running_loop().create_server(self._new, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def connect(self, ports: Sequence[int], rank: int) -> None:
        """Dial the larger ranks and wait for the smaller ones."""
        for port in ports[rank + 1 :]:
            await asyncio.get_running_loop().create_connection(self._new, "127.0.0.1", port)
        deadline = time.monotonic() + 10
        while len(self._links) < len(ports) - 1 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    def write(self, data: bytes) -> None:
        """The same bytes to everybody."""
        for link in self._links:
            if link.transport is not None:
                link.transport.write(data)

    async def drain(self) -> None:
        """Wait while one of the connections is congested; lets the event loop run in any case."""
        await asyncio.sleep(0)
        for link in self._links:
            await link.open.wait()

    def close(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for link in self._links:
            if link.transport is not None:
                link.transport.close()
