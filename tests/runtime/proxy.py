"""A TCP proxy that loses frames, cuts connections, stalls and damages them: in front of a member that advertises it.

It understands frames, so it can lose or repeat whole ones (which a packet service may do) apart from damaging the
stream (after which the connection must end). The first frame of a connection, the handshake, passes unless it is cut.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from isotone.codec.frames import HEADER_BYTES


@dataclass
class Faults:
    """Probabilities per frame; may be changed while the proxy runs."""

    lose: float = 0.0
    repeat: float = 0.0
    cut: float = 0.0
    damage: float = 0.0
    stall: float = 0.0
    closed: bool = False


class Proxy:
    """Forwards connections from its own port to `target`."""

    def __init__(self, target: str, faults: Faults, seed: int) -> None:
        self._host, port = target.rsplit(":", 1)
        self._port = int(port)
        self.faults = faults
        self._source = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts = dict.fromkeys(("lose", "repeat", "cut", "damage", "stall"), 0)

    async def start(self, port: int = 0) -> str:
        """Open the port; returns the address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Close the port and everything that runs over it."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.faults.closed:
                return
            inner_reader, inner_writer = await asyncio.open_connection(self._host, self._port)
            try:
                ways = [
                    asyncio.ensure_future(self._forward(reader, inner_writer)),
                    asyncio.ensure_future(self._forward(inner_reader, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                inner_writer.transport.abort()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    def _strikes(self, what: str, probability: float) -> bool:
        if self._source.random() < probability:
            self.counts[what] += 1
            return True
        return False

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = True
        try:
            while True:
                head = await reader.readexactly(HEADER_BYTES)
                data = head + await reader.readexactly(int.from_bytes(head[:4], "big"))
                faults = self.faults
                if faults.closed or self._strikes("cut", faults.cut):
                    return
                if not first:
                    if self._strikes("lose", faults.lose):
                        continue
                    if self._strikes("repeat", faults.repeat):
                        data += data
                    if self._strikes("stall", faults.stall):
                        await asyncio.sleep(self._source.uniform(0.05, 0.4))
                    if self._strikes("damage", faults.damage):
                        at = self._source.randrange(len(data))
                        data = data[:at] + self._source.randbytes(1) + data[at + 1 :]
                first = False
                writer.write(data)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            return
