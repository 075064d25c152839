"""Switching in live groups."""

from __future__ import annotations

import asyncio

import pytest

import isotone
from tests.runtime.helpers import run, together, until

pytestmark = pytest.mark.live


def test_a_live_group_switches_under_load() -> None:
    async def main() -> None:
        async with isotone.join("switch", name="a") as a, isotone.join("switch", name="b", seeds=[a.address]) as b:
            await until(lambda: together(a, b), "a common view")
            got: dict[str, list[tuple[str, int]]] = {"a": [], "b": []}
            events: list[object] = []

            async def consume(name: str, group: isotone.Group) -> None:
                async for event in group:
                    if isinstance(event, isotone.Delivery):
                        got[name].append((event.origin, event.number))
                    elif isinstance(event, isotone.Switched):
                        events.append((name, event.view.ordering.order))

            async def load(group: isotone.Group, count: int) -> None:
                for i in range(count):
                    await group.send(b"%d" % i)
                    await asyncio.sleep(0)

            readers = [asyncio.create_task(consume("a", a)), asyncio.create_task(consume("b", b))]
            for order in ("atop", "sequencer"):
                loads = [asyncio.create_task(load(group, 300)) for group in (a, b)]
                await a.switch(order)
                assert a.view is not None
                assert a.view.ordering.order == order
                await asyncio.gather(*loads)
            await until(lambda: len(got["a"]) == len(got["b"]) == 1200, "all messages")
            assert got["a"] == got["b"]
            assert [order for name, order in events if name == "a"] == ["atop", "sequencer"]
            with pytest.raises(isotone.NotSwitched, match="in force already"):
                await b.switch("sequencer")
            with pytest.raises(isotone.ConfigError, match="unknown order"):
                await b.switch("nonsense")
            await b.switch("fifo")
            await until(lambda: a.view is not None and a.view.ordering.order == "fifo", "fifo at a")
            for reader in readers:
                reader.cancel()

    run(main())
