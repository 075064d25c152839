"""Groups of several members in one event loop, over real connections on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import isotone
from isotone.model.errors import Closed, LocalProtocolError
from isotone.trace import read_trace
from tests.runtime.helpers import members, run, take, together, until

pytestmark = pytest.mark.live


@pytest.mark.parametrize("uv", [True, False])
@pytest.mark.parametrize("order", ["single_phase", "sequencer"])
def test_all_members_see_one_order(uv: bool, order: str) -> None:
    async def main() -> None:
        async with members("a", "b", "c", order=order) as groups:

            async def send(group: isotone.Group) -> None:
                for number in range(200):
                    await group.send(f"{group.process} {number}".encode())
                    if not number % 20:
                        await asyncio.sleep(0.001)

            *_, one, two, three = await asyncio.gather(*map(send, groups), *(take(group, 600) for group in groups))
            assert [d.payload for d in one] == [d.payload for d in two] == [d.payload for d in three]
            assert [d.position for d in one] == [d.position for d in two] == sorted(d.position for d in one)  # type: ignore[type-var]
            for group in groups:
                own = [d.number for d in one if d.origin == group.process]
                assert own == list(range(1, 201))

    run(main(), uv=uv)


def test_batches_types_items_and_large_payloads() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            big = bytes(range(256)) * 4000
            await a.send_many([b"1", b"2", big], types=["x", None, "y"], items=[["i"], None, []])
            await b.send(b"3", type="z")
            got: dict[bytes, Any] = {}
            async for batch in b.batches():
                if isinstance(batch, isotone.DeliveryBatch):
                    got.update(zip(batch.payloads, batch.types or [], strict=True))
                if len(got) == 4:
                    break
            assert got == {b"1": "x", b"2": None, big: "y", b"3": "z"}
            deliveries = await take(a, 4)
            assert [d.items for d in deliveries if d.origin == a.process] == [("i",), None, ()]

    run(main())


def test_the_first_event_is_the_first_view() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            first = await anext(aiter(b))
            assert isinstance(first, isotone.ViewInstalled)
            assert b.process in first.view
            assert a.status()["address"] == a.address
            assert a.status()["linked"] == [b.process]

    run(main())


def test_leaving_ends_the_iteration_after_the_last_event() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            for number in range(10):
                await b.send(b"%d" % number)
            await b.leave()
            payloads = [event.payload async for event in b if isinstance(event, isotone.Delivery)]
            assert payloads == [b"%d" % number for number in range(10)]
            assert [d.payload for d in await take(a, 10)] == payloads
            with pytest.raises(Closed, match="left"):
                await b.send(b"late")
            with pytest.raises(Closed):
                b.try_send(b"late")
            with pytest.raises(Closed):
                await b.drain()
            await b.leave()  # again: nothing to do
            await until(lambda: together(a), "a view without the one that left")

    run(main())


def test_an_error_in_the_block_leaves_the_group_and_is_raised() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):

            async def fail() -> None:
                async with isotone.join("test", name="c", seeds=[a.address]) as c:
                    await until(lambda: together(a, b, c), "three members")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            await until(lambda: together(a, b), "the others among themselves")
            await a.send(b"healthy")
            assert [d.payload for d in await take(b, 1)] == [b"healthy"]

    run(main())


def test_an_error_in_the_iteration_harms_nobody() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            await a.send_many([b"1", b"2", b"3"])

            async def fail() -> None:
                async for event in b:
                    if isinstance(event, isotone.Delivery):
                        raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            assert [d.payload for d in await take(b, 2)] == [b"2", b"3"]
            assert [d.payload for d in await take(a, 3)] == [b"1", b"2", b"3"]

    run(main())


def test_cancelled_iterations_lose_nothing() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            seen: list[bytes] = []

            async def collect() -> None:
                async for event in b:
                    if isinstance(event, isotone.Delivery):
                        seen.append(event.payload)

            for number in range(300):
                await a.send(b"%d" % number)
                if not number % 10:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.001):
                            await collect()
            task = asyncio.ensure_future(collect())
            await until(lambda: len(seen) >= 300, "all messages")
            task.cancel()
            assert seen == [b"%d" % number for number in range(300)]

    run(main())


def test_joining_can_be_cancelled_and_timed_out() -> None:
    async def main() -> None:
        nowhere = ["127.0.0.1:1"]
        with pytest.raises(TimeoutError, match=r"no view of group 'test' within 0.3 s \(seeds: 127.0.0.1:1\)"):
            await isotone.join("test", name="a", seeds=nowhere, timeout=0.3).start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await isotone.join("test", name="a", seeds=nowhere).start()
        task = asyncio.ensure_future(isotone.join("test", name="a", seeds=nowhere).start())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1  # nothing is left behind

    run(main())


def test_unreachable_seeds_are_named_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with isotone.join("test", name="a") as a:
            port = a.address
        task = asyncio.ensure_future(isotone.join("test", name="b", seeds=[port, "127.0.0.1:1"]).start())
        await until(lambda: "no seed answers" in caplog.text, "a line in the log")
        assert f"{port}, 127.0.0.1:1" in caplog.text
        assert not task.done()
        async with isotone.join("test", name="a", listen=port) as a:
            b = await task
            await until(lambda: together(a, b), "a common view")
            await b.leave()

    run(main())


def test_seeds_that_name_each_other_found_one_group() -> None:
    async def main() -> None:
        ports: list[str] = []
        for _ in range(3):
            async with isotone.join("test", name="probe") as probe:
                ports.append(probe.address)
        joins = [isotone.join("test", name=n, listen=p, seeds=ports) for n, p in zip("abc", ports, strict=True)]
        groups = await asyncio.gather(*(join.start() for join in joins))
        await until(lambda: together(*groups), "one group")
        for group in groups:
            assert group.view is not None
        await asyncio.gather(*(group.leave() for group in groups))

    run(main())


def test_a_slow_consumer_holds_the_senders_back_and_loses_nothing() -> None:
    async def main() -> None:
        limits = isotone.Limits(
            backlog_bytes=50_000, window_bytes=50_000, pending_bytes=50_000, payload_bytes=10_000, batch_bytes=5_000
        )
        async with members("a", "b", limits=limits) as (a, b):
            sent = 0

            async def produce() -> None:
                nonlocal sent
                while True:
                    await a.send(sent.to_bytes(4, "big") + bytes(996))
                    sent += 1

            async def own() -> None:
                async for _ in a.batches():
                    pass

            tasks = [asyncio.ensure_future(produce()), asyncio.ensure_future(own())]
            before = -1
            while before != sent:  # until the sender stands still
                before = sent
                await asyncio.sleep(0.5)
            assert 50 < sent < 1000
            assert 0 < int(str(b.status()["backlog_bytes"])) < 400_000
            got = [int.from_bytes(d.payload[:4], "big") for d in await take(b, 3000)]
            assert got == list(range(3000))
            for task in tasks:
                task.cancel()

    run(main())


def test_block_makes_a_partition_and_unblock_heals_it() -> None:
    async def main() -> None:
        timing = isotone.Timing(hard_ns=600_000_000)
        async with members("a", "b", "c", timing=timing) as (a, b, c):
            a.block(["c"])
            b.block(["c"])
            c.block(["a", "b"])
            await until(lambda: together(a, b) and together(c), "two components")
            await a.send(b"apart")
            await c.send(b"alone")
            for group in (a, b, c):
                group.unblock()
            await until(lambda: together(a, b, c), "one component again")
            await c.send(b"again")
            assert [d.payload for d in await take(b, 2)] == [b"apart", b"again"]
            assert [d.payload for d in await take(c, 2)] == [b"alone", b"again"]

    run(main())


def test_two_processes_of_one_name() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            other = isotone.join("test", name="b", seeds=[a.address], timeout=20)
            joining = asyncio.ensure_future(other.start())
            await until(lambda: b.status()["closed"] or (joining.done() and joining.exception()), "a decision")
            # One of the two is told so and ends; the group goes on with the other.
            if b.status()["closed"]:
                with pytest.raises(Closed, match="name 'b'"):
                    await take(b, 1)
                survivor = await joining
            else:
                with pytest.raises(Closed, match="name 'b'"):
                    await joining
                survivor = b
            await until(lambda: together(a, survivor), "the group goes on")
            await survivor.leave()

    run(main())


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_trace_is_written(tmp_path: Path, form: Any) -> None:
    async def main() -> None:
        async with members("a", "b", trace=tmp_path, trace_form=form) as (a, b):
            for number in range(500):
                await a.send(b"%d" % number)
            await asyncio.gather(take(a, 500), take(b, 500))

    run(main())
    trace = read_trace([tmp_path])
    assert trace.quarantined == []
    for name in "ab":
        rows = [row for row in trace.rows if row["process"].startswith(name)]
        kinds = [row["kind"] for row in rows if row["kind"] != "packet"]
        assert (kinds[0], kinds[-1]) == ("start", "stop")
        assert [row["number"] for row in rows if row["kind"] == "deliver"] == list(range(1, 501))


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(isotone.TraceFormatError, match="cannot write"):
            await isotone.join("test", name="a", trace=tmp_path / "file" / "below").start()

    run(main())


def test_use_before_and_after() -> None:
    async def main() -> None:
        group = isotone.join("test", name="a")
        with pytest.raises(LocalProtocolError, match="enter the group first"):
            group.try_send(b"x")
        async with group:
            with pytest.raises(LocalProtocolError, match="entered already"):
                await group.start()

    run(main())


def test_run_sets_no_policy() -> None:
    before = asyncio.get_event_loop_policy()

    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert isotone.run(main()).startswith("uvloop")
    assert asyncio.get_event_loop_policy() is before
