"""Running coroutines with a bound on time, and waiting for conditions."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import isotone
from isotone.runtime.loop import loop_factory

PATIENCE_S = 25.0


def run(main: Coroutine[Any, Any, Any], *, uv: bool = True, timeout: float = PATIENCE_S) -> Any:
    """Run a test's coroutine on uvloop or on asyncio's own loop."""

    async def bounded() -> Any:
        async with asyncio.timeout(timeout):
            return await main

    with asyncio.Runner(loop_factory=loop_factory() if uv else None) as runner:
        return runner.run(bounded())


async def until(fact: Callable[[], object], what: str = "the condition", timeout: float = 15.0) -> None:
    """Wait until `fact` holds."""
    deadline = time.monotonic() + timeout
    while not fact():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        await asyncio.sleep(0.005)


def together(*groups: isotone.Group) -> bool:
    """Whether these groups are members of one view, and nobody else is."""
    everybody = tuple(sorted(group.process for group in groups))
    views = {group.view.id for group in groups if group.view is not None}
    return len(views) == 1 and all(g.view is not None and g.view.members == everybody for g in groups)


@asynccontextmanager
async def members(*names: str, **settings: Any) -> AsyncIterator[list[isotone.Group]]:
    """A group of several members in this process; the first one founds it."""
    groups: list[isotone.Group] = []
    try:
        for name in names:
            seeds = [groups[0].address] if groups else []
            groups.append(await isotone.join("test", name=name, seeds=seeds, **settings).start())
        await until(lambda: together(*groups), "a common view")
        yield groups
    finally:
        await asyncio.gather(*(group.leave(2.0) for group in groups))


async def take(group: isotone.Group, count: int) -> list[isotone.Delivery]:
    """The next `count` deliveries."""
    found: list[isotone.Delivery] = []
    if count:
        async for event in group:
            if isinstance(event, isotone.Delivery):
                found.append(event)
                if len(found) == count:
                    break
    return found


def free_addresses(count: int) -> list[str]:
    """Loopback addresses that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses
