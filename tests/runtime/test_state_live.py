"""State transfer between processes of the operating system; the provider is killed half-way."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.runtime.helpers import until
from tests.runtime.test_live import Member, live

pytestmark = pytest.mark.live

PADDING = 30_000_000


def said(member: Member, key: str) -> list[dict[str, Any]]:
    return [line for line in member.lines if key in line]


def states(member: Member) -> dict[int, str]:
    """The digest after so many messages."""
    return {line["count"]: line["digest"] for line in said(member, "digest")}


async def start(started: list[Member], name: str, **settings: Any) -> Member:
    seeds = [started[0].address] if started else []
    given = {"seeds": seeds, "padding": PADDING, "chunk": 4096, "interval": 0.01, **settings}
    member = await Member.start(name, module="tests.runtime.state_member", **given)
    started.append(member)
    return await member.joined()


def test_the_provider_is_killed_half_way() -> None:
    async def test(started: list[Member]) -> None:
        a = await start(started, "a")
        b = await start(started, "b")
        await until(lambda: said(b, "restored"), "the state of the second")
        await until(lambda: len(states(b)) > 20, "messages")
        c = await start(started, "c")
        await until(lambda: any(line["progress"] for line in said(c, "progress")), "half of the state")
        assert not said(c, "restored")
        provider = said(c, "progress")[-1]["provider"]
        gone, other = (a, b) if provider == a.id else (b, a)
        gone.signal(signal.SIGKILL)
        await until(lambda: said(c, "restored"), "the state from the other", timeout=30)
        assert said(c, "restored")[0]["provider"] == other.id
        resumed = [line for line in said(c, "progress") if line["provider"] == other.id]
        assert resumed[0]["progress"] > 0  # what had come was not asked for again
        begun = said(c, "restored")[0]["count"]
        assert begun > 0
        await until(lambda: max(states(c), default=0) > begun + 50, "messages of the new view")
        last = max(states(c))
        await until(lambda: max(states(other)) >= last, "the same messages")
        ours, theirs = states(c), states(other)
        assert all(theirs[count] == digest for count, digest in ours.items())
        assert min(ours) == begun + 1

    live(test)
