"""A member with a state as a process of its own: `python -m tests.runtime.state_member SETTINGS`.

Its state is a digest of all it has delivered, how many messages that are, and `padding` bytes. It prints a JSON line for every
event of interest, until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from typing import Any

import isotone


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Chain:
    """The state."""

    def __init__(self, padding: int) -> None:
        self.padding = padding
        self.count = 0
        self.digest = b""

    def snapshot(self) -> bytes:
        return json.dumps([self.count, self.digest.hex()]).encode() + b" " * self.padding

    def restore(self, data: bytes) -> None:
        self.count, digest = json.loads(data)
        self.digest = bytes.fromhex(digest)

    def take(self, delivery: isotone.Delivery) -> None:
        self.count += 1
        text = f"{delivery.origin} {delivery.number} ".encode()
        self.digest = hashlib.blake2b(self.digest + text + delivery.payload, digest_size=8).digest()


async def serve(settings: dict[str, Any]) -> None:
    interval = settings.pop("interval")
    timing = isotone.Timing(**settings.pop("timing"))
    limits = isotone.Limits(state_chunk_bytes=settings.pop("chunk"))
    chain = Chain(settings.pop("padding"))
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with isotone.join("state", timing=timing, limits=limits, state=chain, **settings) as group:
        say(joined=group.process, address=group.address)

        async def send() -> None:
            while interval:
                await group.send(b"x" * 50)
                await asyncio.sleep(interval)

        async def listen() -> None:
            async for event in group:
                if isinstance(event, isotone.Delivery):
                    chain.take(event)
                    say(count=chain.count, digest=chain.digest.hex())
                elif isinstance(event, isotone.StateProgress):
                    say(progress=event.received, total=event.total, provider=event.provider)
                elif isinstance(event, isotone.StateRestored):
                    say(restored=event.size, provider=event.provider, count=chain.count)
                elif isinstance(event, isotone.ViewInstalled):
                    say(members=list(event.view.members), view=str(event.view.id))

        listening, sending = loop.create_task(listen()), loop.create_task(send())
        while await orders.readline():
            pass
        sending.cancel()
        await group.leave()
        await listening


if __name__ == "__main__":
    isotone.run(serve(json.loads(sys.argv[1])))
