"""Sending: order, back-pressure, cancellation, bad payloads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from isotone.model.errors import Closed, ConfigError, LocalProtocolError
from isotone.runtime.outgoing import Outgoing
from tests.runtime.helpers import run, until


class Window:
    """An endpoint that takes so many messages and no more until told."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[bytes] = []
        self.types: list[Any] = []
        self.items: list[Any] = []

    def submit(self, payloads: Sequence[bytes], now: int, types: Any = None, items: Any = None) -> int:
        count = min(self.room, len(payloads))
        self.room -= count
        self.taken += payloads[:count]
        self.types += types[:count] if types is not None else [None] * count
        self.items += items[:count] if items is not None else [None] * count
        return count

    def writable(self) -> bool:
        return self.room > 0


def outgoing(window: Window) -> Outgoing:
    """With turns that end at once."""
    loop = asyncio.get_running_loop()
    scheduled = False

    def turn() -> None:
        nonlocal scheduled
        scheduled = False
        out.flush(0)
        out.refresh()

    def schedule() -> None:
        nonlocal scheduled
        if not scheduled:
            scheduled = True
            loop.call_soon(turn)

    out = Outgoing(loop, window, 100, schedule)
    return out


def opened(out: Outgoing, window: Window, room: int) -> None:
    window.room += room
    out.flush(0)
    out.refresh()


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_messages_of_one_turn_go_together() -> None:
    async def main() -> None:
        window = Window(100)
        out = outgoing(window)
        for payload in numbered(10):
            assert out.try_send(payload)
        assert window.taken == []
        await asyncio.sleep(0)
        assert window.taken == numbered(10)

    run(main())


def test_back_pressure_and_order() -> None:
    async def main() -> None:
        window = Window(5)
        out = outgoing(window)

        async def send() -> None:
            for payload in numbered(40):
                await out.send(payload)

        task = asyncio.ensure_future(send())
        await until(lambda: len(window.taken) == 5)
        while not task.done() or out.buffer:
            opened(out, window, 3)
            await asyncio.sleep(0)
        assert window.taken == numbered(40)

    run(main())


def test_many_at_once_with_back_pressure() -> None:
    async def main() -> None:
        window = Window(7)
        out = outgoing(window)
        types = [f"t{n}" for n in range(50)]
        items = [[f"i{n}"] for n in range(50)]
        task = asyncio.ensure_future(out.send_many(numbered(50), types, items))
        while not task.done() or out.buffer:
            await asyncio.sleep(0)
            opened(out, window, 4)
        assert window.taken == numbered(50)
        assert window.types == types
        assert window.items == items

    run(main())


def test_types_and_plain_messages_mix() -> None:
    async def main() -> None:
        window = Window(100)
        out = outgoing(window)
        out.try_send(b"a")
        out.try_send(b"b", "t", ["x"])
        out.try_send(b"c")
        await asyncio.sleep(0)
        assert window.types == [None, "t", None]
        assert window.items == [None, ("x",), None]

    run(main())


@pytest.mark.parametrize(("type_", "items"), [(3, None), (["t"], None), (None, "xy"), (None, [3]), ("t", [["x"]])])
def test_what_is_no_text_is_the_callers_error(type_: Any, items: Any) -> None:
    async def main() -> None:
        window = Window(100)
        out = outgoing(window)
        with pytest.raises(ConfigError, match="must be a"):
            out.try_send(b"a", type_, items)
        out.try_send(b"b")
        await asyncio.sleep(0)
        assert window.taken == [b"b"]

    run(main())


def test_try_send_says_no_without_taking() -> None:
    async def main() -> None:
        window = Window(0)
        out = outgoing(window)
        assert out.try_send(b"1")  # fits into the buffer
        await asyncio.sleep(0)
        assert not out.try_send(b"2")
        assert out.try_send_many([b"3", b"4"]) == 0
        opened(out, window, 10)
        assert out.try_send_many([b"3", b"4"]) == 2
        assert window.taken == [b"1", b"3", b"4"]

    run(main())


def test_a_cancelled_send_was_not_accepted_and_wakes_the_next() -> None:
    async def main() -> None:
        window = Window(0)
        out = outgoing(window)
        out.try_send(b"first")
        await asyncio.sleep(0)
        sends = [asyncio.ensure_future(out.send(b"%d" % n)) for n in range(6)]
        await asyncio.sleep(0)
        sends[1].cancel()
        opened(out, window, 100)  # wakes the first of those that wait
        sends[0].cancel()
        await asyncio.wait(sends)
        await asyncio.sleep(0)
        out.flush(0)
        assert window.taken == [b"first", b"2", b"3", b"4", b"5"]

    run(main())


def test_waiting_ones_get_their_turns_in_order() -> None:
    async def main() -> None:
        window = Window(0)
        out = outgoing(window)
        out.try_send(b"first")
        await asyncio.sleep(0)
        sends = [asyncio.ensure_future(out.send(b"%d" % n)) for n in range(30)]
        while not all(send.done() for send in sends) or out.buffer:
            opened(out, window, 2)
            await asyncio.sleep(0)
        assert window.taken == [b"first", *numbered(30)]

    run(main())


def test_closing_ends_all_waits() -> None:
    async def main() -> None:
        window = Window(0)
        out = outgoing(window)
        out.try_send(b"first")
        await asyncio.sleep(0)
        waits = [asyncio.ensure_future(out.send(b"x")), asyncio.ensure_future(out.drain())]
        await asyncio.sleep(0)
        out.close(Closed("left"))
        for wait in waits:
            with pytest.raises(Closed, match="left"):
                await wait
        with pytest.raises(Closed):
            out.try_send(b"x")
        with pytest.raises(Closed):
            out.try_send_many([b"x"])
        window.room = 1
        out.last_flush(0)
        assert window.taken == [b"first"]  # what was accepted before still goes

    run(main())


def test_payloads() -> None:
    async def main() -> None:
        window = Window(100)
        out = outgoing(window)
        data = bytearray(b"mine")
        out.try_send(data)  # type: ignore[arg-type]
        out.try_send_many([memoryview(b"view"), b"x"])  # type: ignore[list-item]
        data[:] = b"gone"
        await asyncio.sleep(0)
        assert window.taken == [b"mine", b"view", b"x"]
        for bad in ("text", None, 7):
            with pytest.raises(LocalProtocolError, match="must be bytes"):
                out.try_send(bad)  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="must be bytes"):
                out.try_send_many([b"ok", bad])  # type: ignore[list-item]
        with pytest.raises(LocalProtocolError, match="101 bytes is over the limit of 100"):
            out.try_send(bytes(101))

    run(main())
