"""Members as processes of the operating system: killed, stopped, behind a proxy that loses and cuts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from isotone.protocol.ordering import registry
from tests.runtime.helpers import run, until
from tests.runtime.proxy import Faults, Proxy

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
TIMING = {"heartbeat_ns": 50_000_000, "soft_ns": 300_000_000, "hard_ns": 900_000_000, "closed_ns": 400_000_000}


class Member:
    """A member process and what it said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, name: str, *, module: str = "tests.runtime.member", **settings: Any) -> Member:
        given = {"name": name, "interval": 0.005, "timing": TIMING, "seeds": [], **settings}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        command = [sys.executable, "-m", module, json.dumps(given)]
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment, cwd=ROOT))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self.lines.append(json.loads(line))

    def order(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def joined(self) -> Member:
        await until(lambda: self.lines or self._process.returncode is not None, "joining")
        assert self.lines, f"status {self._process.returncode}"
        return self

    @property
    def id(self) -> str:
        return str(self.lines[0]["joined"])

    @property
    def address(self) -> str:
        return str(self.lines[0]["address"])

    @property
    def delivered(self) -> list[tuple[str, int]]:
        return [tuple(line["deliver"]) for line in self.lines if "deliver" in line]

    def delivered_in(self, view: str) -> list[tuple[str, int]]:
        return [tuple(line["deliver"]) for line in self.lines if "deliver" in line and line["view"] == view]

    @property
    def members(self) -> list[str]:
        views = [line["members"] for line in self.lines if "members" in line]
        return views[-1] if views else []

    async def leave(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(20):
            await self._reading
            return await self._process.wait()

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._reading.cancel()


def live(test: Callable[[list[Member]], Any], timeout: float = 60.0) -> None:
    """Run a test; whatever happens, no process is left behind."""

    async def main() -> None:
        started: list[Member] = []
        try:
            await test(started)
        finally:
            await asyncio.gather(*(member.end() for member in started))

    run(main(), timeout=timeout)


async def three(started: list[Member], **settings: Any) -> tuple[Member, Member, Member]:
    """Three members in one view."""
    a = await Member.start("a", **settings)
    started.append(a)
    await a.joined()
    for name in "bc":
        started.append(await Member.start(name, seeds=[a.address], **settings))
    for member in started:
        await member.joined()
    await until(lambda: all(len(member.members) == 3 for member in started), "a view of three")
    return a, started[1], started[2]


@asynccontextmanager
async def behind_proxies(started: list[Member]) -> AsyncIterator[list[Proxy]]:
    """Three members in one view, each of which the others reach through a proxy only."""
    ports: list[tuple[str, Proxy]] = []
    for number in range(3):
        probe = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        inner = f"127.0.0.1:{probe.sockets[0].getsockname()[1]}"
        probe.close()
        ports.append((inner, Proxy(inner, Faults(), seed=number)))
    outer = [await proxy.start() for _, proxy in ports]
    try:
        for name, (inner, _), shown in zip("abc", ports, outer, strict=True):
            started.append(await Member.start(name, listen=inner, advertise=shown, seeds=outer))
        for member in started:
            await member.joined()
        everybody = sorted(member.id for member in started)
        await until(lambda: all(member.members == everybody for member in started), "a view of three", 20)
        yield [proxy for _, proxy in ports]
    finally:
        await asyncio.gather(*(proxy.close() for _, proxy in ports))


def assert_pairwise_order(*members: Member) -> None:
    """Any two messages that two processes delivered have the same order at both; nothing comes twice."""
    for one in members:
        assert len(set(one.delivered)) == len(one.delivered)
        for other in members:
            common = set(one.delivered) & set(other.delivered)
            assert [m for m in one.delivered if m in common] == [m for m in other.delivered if m in common]


def progress(member: Member, by: int) -> Callable[[], bool]:
    aim = len(member.delivered) + by
    return lambda: len(member.delivered) >= aim


@pytest.mark.parametrize(
    "settings",
    [{"order": order} for order in registry.names() if registry.find(order).total]
    + [{"order": "auto"}, {"order": "token", "level": "k", "k": 2}, {"order": "atop", "level": "safe"}],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_a_killed_member_is_left_behind(settings: dict[str, Any]) -> None:
    async def test(started: list[Member]) -> None:
        a, b, c = await three(started, **settings)
        await until(progress(a, 200), "traffic")
        c.signal(signal.SIGKILL)
        await until(lambda: a.members == b.members == sorted((a.id, b.id)), "a view without it")
        await until(progress(a, 100), "traffic")
        for member in (a, b):
            member.order("stop")
        await until(lambda: all("stopped" in str(m.lines) for m in (a, b)), "silence")
        assert [await a.leave(), await b.leave()] == [0, 0]
        ended = {line["view"] for line in a.lines if line.get("members") in (sorted((a.id, b.id, c.id)), [a.id, b.id])}
        assert len(ended) >= 2
        for view in ended:  # who goes on together has delivered the same
            assert a.delivered_in(view) == b.delivered_in(view)
        assert_pairwise_order(a, b, c)

    live(test)


def test_a_stopped_member_is_excluded_and_comes_back() -> None:
    async def test(started: list[Member]) -> None:
        a, b, c = await three(started)
        await until(progress(a, 100), "traffic")
        b.signal(signal.SIGSTOP)
        await until(lambda: a.members == c.members == sorted((a.id, c.id)), "a view without it")
        await until(progress(a, 100), "traffic")
        b.signal(signal.SIGCONT)
        everybody = sorted((a.id, b.id, c.id))
        await until(lambda: a.members == b.members == c.members == everybody, "a view of all", 20)
        await until(progress(b, 100), "traffic")
        statuses = [await member.leave() for member in (a, b, c)]
        assert statuses == [0, 0, 0]
        assert_pairwise_order(a, b, c)

    live(test)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(lose=0.05, repeat=0.05),
        Faults(cut=0.01, stall=0.01),
        Faults(lose=0.02, repeat=0.02, cut=0.005, damage=0.005),
    ],
    ids=["lose", "cut", "all"],
)
def test_a_network_that_loses_cuts_and_damages(faults: Faults) -> None:
    async def test(started: list[Member]) -> None:
        async with behind_proxies(started) as proxies:
            a, b, c = started
            everybody = sorted(member.id for member in started)
            for proxy in proxies:
                proxy.faults = faults
            await asyncio.wait([asyncio.ensure_future(until(progress(m, 300), "traffic", 10)) for m in started])
            for proxy in proxies:
                proxy.faults = Faults()
            await until(lambda: a.members == b.members == c.members == everybody, "a view of three again", 20)
            await until(progress(a, 100), "traffic")
            for what in ("lose", "repeat", "cut", "damage", "stall"):
                struck = sum(proxy.counts[what] for proxy in proxies)
                assert struck or not getattr(faults, what), f"{what} never happened"
            assert [await member.leave() for member in started] == [0, 0, 0]
            assert_pairwise_order(a, b, c)

    live(test)


def test_nobody_is_left_out_because_frames_are_damaged_on_the_way() -> None:
    """Damage may look like another order of the messages, or like what no member may say; nothing of it is believed."""

    async def test(started: list[Member]) -> None:
        async with behind_proxies(started) as proxies:
            a, b, c = started
            everybody = sorted(member.id for member in started)
            for proxy in proxies:
                proxy.faults = Faults(damage=0.05)
            await until(lambda: sum(proxy.counts["damage"] for proxy in proxies) >= 60, "damage", 20)
            for proxy in proxies:
                proxy.faults = Faults()
            await until(lambda: a.members == b.members == c.members == everybody, "a view of three again", 20)
            await asyncio.gather(*(until(progress(member, 100), "traffic") for member in started))
            for member in started:
                member.order("stop")
            await until(lambda: all("stopped" in str(m.lines) for m in started), "silence")
            view = next(line["view"] for line in reversed(a.lines) if "members" in line)
            await until(lambda: len({len(m.delivered_in(view)) for m in started}) == 1, "the last messages")
            assert a.delivered_in(view) == b.delivered_in(view) == c.delivered_in(view) != []
            assert [await member.leave() for member in started] == [0, 0, 0]
            assert_pairwise_order(a, b, c)

    live(test)
