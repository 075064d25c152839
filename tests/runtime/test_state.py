"""State transfer in live groups: the exact place, progress, failing applications, large states."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import isotone
from isotone.model.errors import LocalProtocolError
from tests.runtime.helpers import run, together, until

FAST = isotone.Timing(heartbeat_ns=50_000_000, soft_ns=300_000_000, hard_ns=900_000_000, closed_ns=200_000_000)


class Log:
    """A state: everything delivered, in order. `padding` makes it large."""

    def __init__(self, padding: int = 0) -> None:
        self.lines: list[str] = []
        self.events: list[Any] = []
        self.padding = padding
        self.snapshots = 0
        self.hook: Callable[[], None] = lambda: None

    def snapshot(self) -> bytes:
        self.snapshots += 1
        self.hook()
        return json.dumps(self.lines).encode() + b" " * self.padding

    def restore(self, data: bytes) -> Awaitable[None] | None:
        self.lines = json.loads(data)
        return None

    async def follow(self, group: isotone.Group) -> None:
        async for event in group:
            if isinstance(event, isotone.Delivery):
                self.lines.append(f"{event.origin} {event.number} {bytes(event.payload).decode()}")
            else:
                self.events.append(event)


class LazyLog(Log):
    """Copies its state at the exact place, and writes and reads it in the background."""

    def snapshot(self) -> Any:
        self.snapshots += 1
        lines = list(self.lines)

        async def write() -> bytes:
            await asyncio.sleep(0.05)
            return json.dumps(lines).encode()

        return write()

    async def restore(self, data: bytes) -> None:
        await asyncio.sleep(0.05)
        self.lines = json.loads(data)


class Stage:
    """Members in this process, each with a log and somebody who follows."""

    def __init__(self) -> None:
        self.groups: list[isotone.Group] = []
        self.logs: list[Any] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def join(self, name: str, log: Any = None, follow: bool = True, **settings: Any) -> isotone.Group:
        seeds = [self.groups[0].address] if self.groups else []
        log = log or Log()
        group = isotone.join("state", name=name, seeds=seeds, state=log, timing=FAST, **settings)
        await group.start()
        self.groups.append(group)
        self.logs.append(log)
        if follow:
            self.tasks.append(asyncio.ensure_future(log.follow(group)))
        return group

    async def chatter(self, group: isotone.Group, count: int = 10_000) -> None:
        for number in range(count):
            await group.send(f"m{number}".encode())
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        await asyncio.gather(*(group.leave(2.0) for group in self.groups))
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def staged(test: Callable[[Stage], Any], timeout: float = 40.0) -> None:
    async def main() -> None:
        stage = Stage()
        try:
            await test(stage)
        finally:
            await stage.close()

    run(main(), timeout=timeout)


def news(log: Log, kind: type) -> list[Any]:
    return [event for event in log.events if isinstance(event, kind)]


@pytest.mark.parametrize("kind", [Log, LazyLog])
def test_a_joiner_gets_the_state_while_the_others_send(kind: type[Log]) -> None:
    async def test(stage: Stage) -> None:
        a = await stage.join("a", kind())
        b = await stage.join("b", kind())
        await until(lambda: together(a, b))
        talking = [asyncio.ensure_future(stage.chatter(group)) for group in (a, b)]
        await until(lambda: len(stage.logs[0].lines) > 50)
        c = await stage.join("c", kind())
        await c.send(b"hello")
        await until(lambda: any("hello" in line for line in stage.logs[0].lines), "the joiner's message")
        await until(lambda: news(stage.logs[2], isotone.StateRestored), "the state")
        for task in talking:
            task.cancel()
        await until(lambda: stage.logs[0].lines == stage.logs[1].lines == stage.logs[2].lines, "equal states")
        restored = news(stage.logs[2], isotone.StateRestored)[0]
        assert restored.provider in (a.process, b.process)
        assert restored.size > 0
        order = [type(event) for event in stage.logs[2].events]
        assert order.index(isotone.ViewInstalled) < order.index(isotone.StateProgress) < order.index(isotone.StateRestored)
        status: Any = c.status()["state"]
        assert status["whole"]
        await until(lambda: not a.status()["state"]["providing"] and not b.status()["state"]["providing"], "snapshots freed")  # type: ignore[index]

    staged(test)


def test_the_place_is_that_of_the_events_taken_and_not_of_those_delivered() -> None:
    """The founder has not looked at its messages yet when the other joins: its snapshot comes when it has."""

    async def test(stage: Stage) -> None:
        a = await stage.join("a", follow=False)
        await a.send_many([f"m{number}".encode() for number in range(500)])
        b = await stage.join("b")
        await until(lambda: together(a, b))
        await a.send_many([f"n{number}".encode() for number in range(500)])
        await asyncio.sleep(0.2)
        assert stage.logs[0].snapshots == 0
        assert stage.logs[1].lines == []
        assert not news(stage.logs[1], isotone.StateRestored)
        stage.logs[0].hook = lambda: places.append(len(stage.logs[0].lines))
        places: list[int] = []
        stage.tasks.append(asyncio.ensure_future(stage.logs[0].follow(a)))
        await until(lambda: len(stage.logs[1].lines) == 1000, "everything")
        assert places == [500]
        assert stage.logs[0].lines == stage.logs[1].lines

    staged(test)


def test_an_application_that_fails_to_give_its_state_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise RuntimeError("no state today")

    async def test(stage: Stage) -> None:
        a, b = await stage.join("a"), await stage.join("b")
        await until(lambda: together(a, b))
        await a.send(b"x")
        await until(lambda: all(len(log.lines) == 1 for log in stage.logs))
        stage.logs[0].hook = stage.logs[1].hook = broken
        c = await stage.join("c")
        await until(lambda: together(a, b, c))
        await until(lambda: news(stage.logs[2], isotone.StateLost), "the loss")
        lost = news(stage.logs[2], isotone.StateLost)[0]
        assert lost.outcome == "waiting"
        assert "no state today" in lost.reason
        await b.send(b"y")
        await until(lambda: all(len(log.lines) == 2 for log in stage.logs[:2]), "deliveries go on")
        stage.logs[0].hook = stage.logs[1].hook = lambda: None
        await until(lambda: len(stage.logs[2].lines) == 2, "the state of a later view")

    staged(test)
    assert "no state today" in caplog.text


def test_an_application_that_fails_to_take_the_state_gets_it_again() -> None:
    class Refusing(Log):
        tries = 0

        def restore(self, data: bytes) -> None:
            self.tries += 1
            if self.tries == 1:
                raise ValueError("cannot read it")
            super().restore(data)

    async def test(stage: Stage) -> None:
        a = await stage.join("a")
        await a.send(b"x")
        await until(lambda: stage.logs[0].lines)
        log = Refusing()
        b = await stage.join("b", log, follow=False)
        with pytest.raises(ValueError, match="cannot read it"):
            await log.follow(b)
        stage.tasks.append(asyncio.ensure_future(log.follow(b)))
        await until(lambda: log.lines == stage.logs[0].lines, "the state")

    staged(test)


def test_a_large_state_comes_in_pieces_while_messages_are_delivered() -> None:
    async def test(stage: Stage) -> None:
        a = await stage.join("a", Log(padding=20_000_000))
        b = await stage.join("b", Log(padding=20_000_000))
        await until(lambda: news(stage.logs[1], isotone.StateRestored))
        talking = asyncio.ensure_future(stage.chatter(a))
        await stage.join("c")
        before = len(stage.logs[0].lines)
        await until(lambda: news(stage.logs[2], isotone.StateRestored), "the state")
        assert len(stage.logs[0].lines) > before  # deliveries went on
        talking.cancel()
        await until(lambda: stage.logs[0].lines == stage.logs[2].lines, "equal states")
        progress = news(stage.logs[2], isotone.StateProgress)
        assert progress[0].provider is None
        assert len(progress) >= 5
        assert [one.received for one in progress] == sorted(one.received for one in progress)
        assert b.status()["suspected"] == {}

    staged(test)


def test_components_that_merge_take_the_state_of_the_largest() -> None:
    async def test(stage: Stage) -> None:
        a, b, c = [await stage.join(name) for name in "abc"]
        await until(lambda: together(a, b, c))
        a.block(["c"])
        b.block(["c"])
        c.block(["a", "b"])
        await until(lambda: together(a, b) and together(c), "a partition")
        await a.send(b"many")
        await c.send(b"one")
        await until(lambda: all(log.lines for log in stage.logs))
        for group in (a, b, c):
            group.unblock()
        await until(lambda: together(a, b, c), "a merge")
        await c.send(b"after")
        await until(lambda: all(len(log.lines) == 2 for log in stage.logs), "the same state")
        assert stage.logs[0].lines == stage.logs[1].lines == stage.logs[2].lines
        assert stage.logs[0].lines[0].endswith("many")

    staged(test)


def test_who_keeps_no_state_is_never_asked() -> None:
    async def test(stage: Stage) -> None:
        a = await stage.join("a")
        plain = isotone.join("state", name="p", seeds=[a.address], timing=FAST)
        await plain.start()
        try:
            c = await stage.join("c")
            await until(lambda: together(a, plain, c))
            await until(lambda: news(stage.logs[1], isotone.StateRestored))
            assert news(stage.logs[1], isotone.StateRestored)[0].provider == a.process
            assert plain.status()["state"] is None
            with pytest.raises(LocalProtocolError):
                plain._running().endpoint.provide(a.view.id, b"", 0)  # type: ignore[union-attr]
        finally:
            await plain.leave(2.0)

    staged(test)
