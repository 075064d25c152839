"""The turn, seen by an endpoint that notes what is asked of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

import isotone
from isotone.model.errors import Closed, InvariantViolation
from isotone.model.events import DeliveryBatch, Ended, Upcall, ViewInstalled
from isotone.model.ids import ViewId
from isotone.model.records import Packet
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering, View
from isotone.runtime import driver
from tests.runtime.helpers import run, take, until

pytestmark = pytest.mark.live


class Effects:
    def __init__(self, upcalls: list[Upcall]) -> None:
        self.packets: list[tuple[str, Packet]] = []
        self.upcalls = upcalls
        self.drop: list[str] = []


class Fake:
    """Delivers what is submitted, to itself, at the end of the turn."""

    def __init__(self, config: EndpointConfig, recorder: Any) -> None:
        self.config = config
        self.closed = False
        self.view: View | None = None
        self.calls: list[tuple[str, Any]] = []
        self.upcalls: list[Upcall] = []
        self.next_deadline: int | None = None
        self.room = 10**9
        self.failing: BaseException | None = None
        self.number = 1

    def _note(self, what: str, now: int, detail: Any = None) -> None:
        assert now >= max((call[1][0] for call in self.calls), default=0)
        self.calls.append((what, (now, detail)))

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def start(self, now: int) -> None:
        self._note("start", now)
        self.view = View(ViewId(1, self.config.process), (self.config.process,), Ordering())
        self.upcalls.append(ViewInstalled(self.view, None, (self.config.process,)))

    def submit(self, payloads: Sequence[bytes], now: int, types: Any = None, items: Any = None) -> int:
        count = min(self.room, len(payloads))
        self.room -= count
        if count:
            self._note("submit", now, list(payloads[:count]))
            assert self.view is not None
            taken = list(payloads[:count])
            self.upcalls.append(DeliveryBatch(self.view, self.config.process, self.number, taken, (self.number,), "agreed"))
            self.number += count
        return count

    def writable(self) -> bool:
        return self.room > 0

    def receive(self, peer: str, packet: Packet, now: int) -> None:
        self._note("receive", now, peer)

    def connected(self, peer: str, address: str, now: int) -> None:
        self._note("connected", now, peer)

    def disconnected(self, peer: str, now: int) -> None:
        self._note("disconnected", now, peer)

    def wake(self, now: int) -> None:
        self._note("wake", now, self.next_deadline)
        self.next_deadline = None

    def deadline(self) -> int | None:
        return self.next_deadline

    def collect(self, now: int) -> Effects:
        if self.failing is not None:
            raise self.failing
        self._note("collect", now)
        upcalls, self.upcalls = self.upcalls, []
        return Effects(upcalls)

    def leave(self, now: int) -> None:
        self._note("leave", now)
        self.closed = True
        self.upcalls.append(Ended(None))

    def backlog(self, size: int, now: int) -> None:
        self._note("backlog", now, size)

    def address_of(self, peer: str) -> str | None:
        return None

    def status(self) -> dict[str, object]:
        return {}


def faked() -> tuple[isotone.Group, list[Fake]]:
    made: list[Fake] = []

    def factory(config: EndpointConfig, recorder: Any) -> Fake:
        made.append(Fake(config, recorder))
        return made[0]

    return isotone.join("test", name="a", _endpoint_factory=factory), made


def test_what_is_sent_in_one_turn_is_submitted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_QUIET_NS", 1 << 62)  # after a silence the first one would not wait for the others

    async def main() -> None:
        group, made = faked()
        async with group:
            fake = made[0]
            fake.calls.clear()
            for number in range(100):
                assert group.try_send(b"%d" % number)
            await until(lambda: "collect" in fake.names(), "the turn")
            assert fake.names() == ["submit", "collect"]
            assert len(fake.calls[0][1][1]) == 100

    run(main())


def test_the_timer_fires_when_it_must() -> None:
    async def main() -> None:
        group, made = faked()
        async with group:
            fake = made[0]
            for wait_ms in (30, 5, 60):
                fake.calls.clear()
                fake.next_deadline = due = time.monotonic_ns() + wait_ms * 1_000_000
                group.try_send(b"x")
                await until(lambda: "wake" in fake.names(), "the wake-up")
                woken = next(detail[0] for name, detail in fake.calls if name == "wake")
                assert due <= woken < due + 50_000_000

    run(main())


def test_what_is_due_at_once_comes_after_what_was_handed_over_and_waits_for_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LEAST_TIMER_S", 3600.0)
    order: list[str] = []

    async def main() -> None:
        group, made = faked()
        async with group:
            fake = made[0]
            wake = fake.wake

            def woken(now: int) -> None:
                order.append("wake")
                wake(now)

            fake.wake = woken  # type: ignore[method-assign]
            taking = asyncio.ensure_future(take(group, 1))
            taking.add_done_callback(lambda _: order.append("taken"))
            await asyncio.sleep(0.01)  # the next turn comes after a silence
            fake.next_deadline = time.monotonic_ns()
            group.try_send(b"x")
            await until(lambda: len(order) == 2, "the wake-up")

    run(main())
    assert order == ["taken", "wake"]


def test_what_stays_due_does_not_make_the_loop_spin() -> None:
    async def main() -> None:
        group, made = faked()
        async with group:
            fake = made[0]
            fake.wake = lambda now: fake._note("wake", now)  # type: ignore[method-assign] # and the deadline stays as it is
            await asyncio.sleep(0.01)
            fake.next_deadline = 1
            fake.calls.clear()
            began = time.monotonic()
            group.try_send(b"x")
            await until(lambda: fake.names().count("wake") >= 20, "twenty wake-ups")
            assert time.monotonic() - began > 0.005  # a spinning loop needs less than one
            fake.next_deadline = None

    run(main())


def test_a_lagging_application_is_reported_and_so_is_its_catching_up() -> None:
    async def main() -> None:
        group, made = faked()
        async with group:
            for _ in range(20):
                await group.send(bytes(1000))
                await asyncio.sleep(0)
            await until(lambda: group.status()["backlog_bytes"], "a backlog")
            await until(lambda: "backlog" in made[0].names(), "a report")
            seen = 0
            async for event in group:
                seen += isinstance(event, isotone.Delivery)
                if seen == 20:
                    break
            await until(lambda: made[0].calls and [d for n, d in made[0].calls if n == "backlog"][-1][1] == 0, "relief")

    run(main())


def test_leaving_waits_until_everything_accepted_is_submitted() -> None:
    async def main() -> None:
        group, made = faked()
        async with group:
            fake = made[0]
            fake.room = 0
            for number in range(5):
                group.try_send(b"%d" % number)
            leaving = asyncio.ensure_future(group.leave())
            await asyncio.sleep(0.02)
            assert "leave" not in fake.names()
            fake.room = 10
            assert group._driver is not None
            group._driver.schedule()
            await leaving
            assert [n for n in fake.names() if n in ("submit", "leave")] == ["submit", "leave"]
            payloads = [event.payload async for event in group if isinstance(event, isotone.Delivery)]
            assert payloads == [b"0", b"1", b"2", b"3", b"4"]

    run(main())


def test_leaving_is_bounded_in_time() -> None:
    async def main() -> None:
        group, made = faked()
        async with group:
            made[0].room = 0
            group.try_send(b"never taken")
            await group.leave(timeout=0.1)
            with pytest.raises(Closed):
                await group.send(b"x")

    run(main())


@pytest.mark.parametrize("error", [InvariantViolation("the order is broken"), ValueError("a bug")])
def test_a_failing_endpoint_is_not_hidden(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        group, made = faked()
        await group.start()
        made[0].failing = error
        group.try_send(b"x")
        with pytest.raises(type(error), match=str(error)):
            async for _ in group:
                pass
        with pytest.raises(type(error)):
            await group.send(b"y")
        try:
            await group.leave()
        except InvariantViolation:
            assert isinstance(error, InvariantViolation)
        assert "the endpoint failed" in caplog.text

    run(main())


def test_a_failing_endpoint_fails_the_join() -> None:
    def factory(config: EndpointConfig, recorder: Any) -> Fake:
        fake = Fake(config, recorder)
        fake.failing = InvariantViolation("from the beginning")
        return fake

    with pytest.raises(InvariantViolation, match="from the beginning"):
        run(isotone.join("test", name="a", _endpoint_factory=factory).start())
