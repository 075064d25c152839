"""Switching in live groups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import isotone
from isotone.pipeline.oracle import check_history
from isotone.trace import read_trace
from tests.runtime.helpers import members, run, take, together, until

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


def test_the_trace_of_a_live_group_tells_of_a_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with members("a", "b", "c", trace=tmp_path, trace_form="jsonl") as groups:
            readers = [asyncio.create_task(take(group, 300)) for group in groups]
            for number in range(100):
                await asyncio.gather(*(group.send(b"x") for group in groups))
                if number == 50:
                    await groups[1].switch("atop", strategy="dual")
            await asyncio.gather(*readers)

    run(main())
    rows = [dict(row) for row in read_trace([tmp_path]).rows]
    for process in {row["process"] for row in rows}:
        told = [row for row in rows if row["process"] == process and row["kind"] == "switch"]
        assert [row["detail"]["phase"] for row in told] == ["request", "cut", "done"]
        assert [row["protocol"] for row in told] == ["single_phase", "single_phase", "atop"]
        paid = [row for row in rows if row["process"] == process and row.get("packet") == "switch"]
        assert {row["detail"]["switch"] for row in paid} == {"1"}
    report = check_history(rows)
    assert report.verdict == "ok"
    assert {check.name: check.verdict for check in report.checks}["switching"] == "ok"
