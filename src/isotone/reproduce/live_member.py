"""A member process of a live experiment: `python -m isotone.reproduce.live_member SETTINGS`, driven by its pipes.

SETTINGS is JSON. It says on standard output when it listens, when its view is complete, and when it has sent everything; lines on
standard input (`start`, `leave`) let it go on. Its trace is what the experiment is measured by.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from isotone.model.settings import Limits
from isotone.runtime.group import Group, join
from isotone.runtime.loop import run


def say(**fields: object) -> None:
    """One line for the experiment."""
    print(json.dumps(fields), flush=True)


async def consume(group: Group) -> None:
    """Take everything; the trace has it."""
    async for _ in group.batches():
        pass


async def send(group: Group, interval_s: float, phase: float, seconds: float, size: int) -> None:
    """Send at a steady rate, beginning after a part of the interval. While the group takes no more the rate stands still too."""
    begin = time.monotonic()
    due = begin + interval_s * phase
    number = 0
    while due < begin + seconds:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        number += 1
        handed = time.monotonic()
        await group.send(f"{group.process} {number} ".encode().ljust(size, b"."))
        due += interval_s + time.monotonic() - handed
    await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))


async def switch(group: Group, order: str, strategy: str, period_s: float) -> None:
    """Ask for a fresh instance of the same order, period after period, for ever."""
    due = time.monotonic() + period_s / 2
    while True:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        due += period_s
        await group.switch(order, strategy=strategy, fresh=True)  # type: ignore[arg-type]


async def main(settings: dict[str, Any]) -> None:
    """Join, wait, send, wait, leave."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    joining = join(
        settings["group"],
        name=settings["name"],
        seeds=settings["seeds"],
        order=settings["order"],
        options=settings["options"],
        limits=Limits(**settings["limits"]),
        trace=settings["trace"],
    )
    async with joining as group:
        say(address=group.address)
        taking = asyncio.create_task(consume(group))
        while group.view is None or len(group.view) != settings["members"]:
            await asyncio.sleep(0.02)
        say(ready=True)
        if await lines.readline():
            switching = (
                asyncio.create_task(switch(group, settings["order"], **settings["switches"])) if settings["switches"] else None
            )
            await send(group, **settings["sending"])
            if switching is not None:
                if switching.done():
                    await switching  # it ends only with an error
                switching.cancel()
            say(done=True)
            await lines.readline()
        await group.leave()
        await taking


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
