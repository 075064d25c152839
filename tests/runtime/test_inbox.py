"""The queue between driver and application: order, cancellation, backlog, fairness."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isotone.model.errors import Closed, InvariantViolation, LocalProtocolError
from isotone.model.events import DeliveryBatch, Ended, SlowMember
from isotone.model.ids import ViewId
from isotone.model.view import Ordering, View
from isotone.runtime.events import Delivery
from isotone.runtime.inbox import Inbox
from tests.runtime.helpers import run

VIEW = View(ViewId(1, "a#1"), ("a#1",), Ordering())


def batch(first: int, count: int = 1, size: int = 10) -> DeliveryBatch:
    return DeliveryBatch(VIEW, "a#1", first, [bytes(size)] * count, (first,), "agreed", ["t"] * count, [["i"]] * count)


def inbox(consumed: Any = lambda: None) -> Inbox:
    return Inbox(asyncio.get_running_loop(), consumed)


def test_one_stream_by_messages() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1, 3), SlowMember("a#1", True), batch(4), Ended(None)])
        events = [event async for event in box.events()]
        numbers = [event.number if isinstance(event, Delivery) else event for event in events]
        assert numbers == [1, 2, 3, SlowMember("a#1", True), 4]
        first, second = events[0], events[1]
        assert isinstance(first, Delivery)
        assert isinstance(second, Delivery)
        assert (first.position, second.position) == ((1, 0), (1, 1))
        assert (first.origin, first.view, first.level, first.type, first.items) == ("a#1", VIEW, "agreed", "t", ["i"])
        assert [event async for event in box.events()] == []  # it stays at its end

    run(main())


def test_positions_types_and_items_may_be_missing() -> None:
    delivery = Delivery(b"x", DeliveryBatch(VIEW, "a#1", 1, [b"x"], None, "agreed"), 1)
    assert (delivery.position, delivery.type, delivery.items) == (None, None, None)


def test_an_abandoned_iteration_loses_nothing() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1, 100), batch(101, 100)])
        seen: list[int] = []
        while len(seen) < 200:
            async for event in box.events():
                assert isinstance(event, Delivery)
                seen.append(event.number)
                if len(seen) % 7 == 0:
                    break
                if len(seen) == 200:
                    break
        assert seen == list(range(1, 201))

    run(main())


def test_an_exception_in_the_loop_body_loses_nothing() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1, 3)])

        async def fail() -> None:
            async for _ in box.events():
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async for event in box.events():
            assert isinstance(event, Delivery)
            assert event.number == 2
            break

    run(main())


def test_a_cancelled_iteration_loses_nothing() -> None:
    async def main() -> None:
        box = inbox()

        async def one() -> Any:
            return await anext(box.batches())

        for number in range(1, 60):
            task = asyncio.ensure_future(one())
            await asyncio.sleep(0)
            task.cancel()
            if number % 2:
                box.put([batch(number)])  # the wake-up and the cancellation meet
            with pytest.raises(asyncio.CancelledError):
                await task
            if not number % 2:
                box.put([batch(number)])
            event = await one()
            assert event.first == number

    run(main())


def test_two_iterations_at_once() -> None:
    async def main() -> None:
        box = inbox()
        first = asyncio.ensure_future(anext(box.events()))
        await asyncio.sleep(0)
        with pytest.raises(LocalProtocolError, match="already"):
            await anext(box.batches())
        box.put([batch(1, 2)])
        event = await first
        assert isinstance(event, Delivery)
        assert event.number == 1

    run(main())


def test_a_newer_iteration_takes_over_from_one_that_is_not_waiting() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1), batch(2), batch(3)])
        old, new = box.batches(), box.batches()
        assert (await anext(old)) == batch(1)
        assert (await anext(new)) == batch(2)
        with pytest.raises(LocalProtocolError, match="another iteration"):
            await anext(old)
        assert (await anext(new)) == batch(3)

    run(main())


def test_batches_inside_a_batch() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1, 2), batch(3)])
        async for _ in box.events():
            break
        with pytest.raises(LocalProtocolError, match="inside a batch"):
            await anext(box.batches())
        async for event in box.events():
            assert isinstance(event, Delivery)
            assert event.number == 2
            break
        assert await anext(box.batches()) == batch(3)  # the batch was at its end

    run(main())


@pytest.mark.parametrize("error", [Closed("expelled"), InvariantViolation("broken")])
def test_an_error_ends_every_iteration(error: BaseException) -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1)])
        box.end(error)
        stream = box.batches()
        assert await anext(stream) == batch(1)
        with pytest.raises(type(error), match=str(error)):
            await anext(stream)
        with pytest.raises(type(error)):
            await anext(box.events())

    run(main())


def test_ended_with_an_error_raises_closed() -> None:
    async def main() -> None:
        box = inbox()
        waiting = asyncio.ensure_future(anext(box.events()))
        await asyncio.sleep(0)
        box.put([Ended("the name is taken")])
        with pytest.raises(Closed, match="the name is taken"):
            await waiting

    run(main())


def test_the_backlog_is_measured_when_the_application_lags() -> None:
    async def main() -> None:
        calls: list[int] = []
        box = inbox(lambda: calls.append(1))
        box.put([batch(1, 10, 100)])
        assert box.backlog == 0  # one turn: not worth counting
        box.put([batch(11, 10, 100)])
        assert box.backlog == 20 * 140
        stream = box.batches()
        await anext(stream)
        assert (box.backlog, len(calls)) == (10 * 140, 1)
        await anext(stream)
        assert box.backlog == 0
        box.put([batch(21)])
        await anext(stream)
        assert box.backlog == 0

    run(main())


def test_iterating_lets_the_event_loop_run() -> None:
    async def main() -> None:
        box = inbox()
        box.put([batch(1, 1000)])
        box.end(None)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(beat())
        loop = asyncio.get_running_loop()
        async for _ in box.events():
            busy = loop.time() + 0.0002
            while loop.time() < busy:
                pass
        task.cancel()
        assert beats > 5

    run(main(), uv=False)
