"""Primary membership, live: blocked without a majority, expelled and back, refused with another kind of membership."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import isotone
from isotone.runtime.probe import status, switch
from tests.runtime.helpers import free_addresses, run, together, until
from tests.runtime.test_live import Member

pytestmark = pytest.mark.live

NAMES = ("a", "b", "c")
MS = 1_000_000
TIMING = isotone.Timing(
    heartbeat_ns=50 * MS, soft_ns=200 * MS, hard_ns=600 * MS, closed_ns=300 * MS, change_ns=400 * MS, probe_ns=100 * MS
)  # fmt: skip


def joining(name: str, addresses: list[str], **settings: Any) -> isotone.Group:
    given = {"membership": "primary", "founders": NAMES, "timing": TIMING, "control": True, **settings}
    return isotone.join("primary", name=name, listen=addresses[NAMES.index(name)], seeds=addresses, **given)


@asynccontextmanager
async def founders() -> AsyncIterator[list[isotone.Group]]:
    addresses = free_addresses(3)
    groups = [joining(name, addresses) for name in NAMES]
    await asyncio.gather(*(group.start() for group in groups))
    try:
        await until(lambda: together(*groups), "a common view")
        yield groups
    finally:
        for group in groups:
            group.unblock()
        await asyncio.gather(*(group.leave(1.0) for group in groups))


async def listen(group: isotone.Group, heard: list[Any]) -> None:
    async for event in group:
        heard.append(event)


def test_a_minority_is_blocked_expelled_and_back() -> None:
    async def main() -> None:
        async with founders() as groups:
            a, b, c = groups
            heard: list[Any] = []
            listening = asyncio.ensure_future(listen(c, heard))
            before = c.process
            a.block(["c"])
            b.block(["c"])
            c.block(["a", "b"])
            await until(lambda: together(a, b), "a view of the majority")
            await until(lambda: c.status()["blocked"], "c being blocked")
            with pytest.raises(isotone.Blocked, match="blocked: it reaches 1 of its view's members and needs 2"):
                await c.send(b"lost")
            await a.send(b"while c is away")
            for group in groups:
                group.unblock()
            await until(lambda: together(*groups), "c being back")
            assert c.process != before
            assert (await status(c.address))["process"] == c.process  # the new incarnation answers probes too
            await c.send(b"c is back")
            await until(lambda: any(getattr(event, "payload", None) == b"c is back" for event in heard), "its message")
            listening.cancel()
            kinds = [type(event).__name__ for event in heard if not isinstance(event, isotone.Suspicion)]
            assert kinds.index("Blockage") < kinds.index("Expulsion") < kinds.index("Delivery")
            expulsion = next(event for event in heard if isinstance(event, isotone.Expulsion))
            assert expulsion.process == before
            assert "was left out of primary view" in expulsion.reason
            assert all(event.payload != b"while c is away" for event in heard if isinstance(event, isotone.Delivery))

    run(main())


def test_without_a_majority_nobody_goes_on_until_they_meet() -> None:
    async def main() -> None:
        async with founders() as groups:
            view = groups[0].view
            for group, name in zip(groups, NAMES, strict=True):
                group.block([other for other in NAMES if other != name])
            for group in groups:
                await until(lambda group=group: group.status()["blocked"], "all being blocked")
            with pytest.raises(isotone.NotSwitched, match="blocked"):
                await switch(groups[0].address, "atop")
            assert {group.view.id for group in groups if group.view is not None} == {view.id if view else None}
            for group in groups:
                group.unblock()
            going_on = lambda: together(*groups) and not any(group.status()["blocked"] for group in groups)  # noqa: E731
            await until(going_on, "a common view in which all go on")
            for group in groups:
                await group.send(b"on we go")
            stayed = {group.process for group in groups} & set(view.members if view else ())
            assert 2 * len(stayed) > len(groups)  # the two that meet first may go on, and the third comes back as a new process

    run(main())


def test_another_kind_of_membership_is_refused_in_one_line() -> None:
    async def main() -> None:
        async with founders() as groups:
            stranger = isotone.join("primary", name="x", seeds=[groups[0].address], timing=TIMING)
            with pytest.raises(isotone.Closed, match="primary membership with founders a, b, c"):
                await stranger.start()

    run(main())


def test_founders_that_differ_found_nothing_and_are_told_why() -> None:
    async def test() -> None:
        timing = msgspec.structs.replace(TIMING, name_conflict_ns=2_000 * MS)
        addresses = free_addresses(2)
        groups = [joining(name, addresses, founders=[name], timing=timing) for name in "ab"]
        for outcome in await asyncio.gather(*(group.start() for group in groups), return_exceptions=True):
            assert isinstance(outcome, isotone.Closed)
            assert "primary membership with founders a" in str(outcome)
            assert "primary membership with founders b" in str(outcome)

    run(test())


def test_wrong_settings_are_said_at_once() -> None:
    with pytest.raises(isotone.ConfigError, match="needs founders"):
        isotone.join("g", name="a", membership="primary")
    with pytest.raises(isotone.ConfigError, match="founders belong to primary"):
        isotone.join("g", name="a", founders=["a"])
    with pytest.raises(isotone.ConfigError, match="unknown membership 'primry': did you mean 'primary'"):
        isotone.join("g", name="a", membership="primry")  # type: ignore[arg-type]


def test_killed_members() -> None:
    """Of five, two are killed: the others go on. Of the three, two are killed: the last is blocked."""

    async def main() -> None:
        names = "abcde"
        addresses = free_addresses(5)
        common = {"membership": "primary", "founders": list(names), "seeds": addresses, "interval": 0.02}
        members = [await Member.start(name, listen=address, **common) for name, address in zip(names, addresses, strict=True)]
        try:
            for member in members:
                await member.joined()
            await until(lambda: all(len(member.members) == 5 for member in members), "a view of five")
            for member in members[:2]:
                member.signal(signal.SIGKILL)
            await until(lambda: all(len(member.members) == 3 for member in members[2:]), "a view of three")
            count = len(members[4].delivered)
            await until(lambda: len(members[4].delivered) > count + 20, "messages")
            for member in members[2:4]:
                member.signal(signal.SIGKILL)
            await until(lambda: {"blocked": True, "needed": 2} in members[4].lines, "the last one being blocked")
            assert len(members[4].members) == 3
        finally:
            members[4].signal(signal.SIGKILL)

    run(main(), timeout=40)
