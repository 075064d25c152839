"""One member as a process of its own, for live tests: `python -m tests.runtime.member SETTINGS`.

It sends a message every few milliseconds and prints a JSON line for every event, until its standard input is closed;
then it stops sending, waits for what is still to come, and leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any

import isotone


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def serve(settings: dict[str, Any]) -> None:
    interval = settings.pop("interval")
    timing = isotone.Timing(**settings.pop("timing"))
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with isotone.join("live", timing=timing, **settings) as group:
        say(joined=group.process, address=group.address)

        async def send() -> None:
            number = 0
            while True:
                number += 1
                with contextlib.suppress(isotone.Blocked):
                    await group.send(f"{group.process} {number}".encode())
                await asyncio.sleep(interval)

        async def listen() -> None:
            async for event in group:
                if isinstance(event, isotone.Delivery):
                    say(deliver=[event.origin, event.number], view=str(event.view.id), position=event.position)
                elif isinstance(event, isotone.Blockage):
                    say(blocked=event.blocked, needed=event.needed)
                elif isinstance(event, isotone.ViewInstalled):
                    say(members=list(event.view.members), view=str(event.view.id))

        listening, sending = loop.create_task(listen()), loop.create_task(send())
        while order := await orders.readline():
            match order.split():
                case [b"stop"]:
                    sending.cancel()
                    say(stopped=True)
                case [b"send", payload]:
                    await group.send(payload)
                    say(sent=payload.decode())
        sending.cancel()
        await group.leave()
        await listening
    say(left=True)


if __name__ == "__main__":
    isotone.run(serve(json.loads(sys.argv[1])))
