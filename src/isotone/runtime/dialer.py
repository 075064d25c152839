"""Dialling with back-off: one attempt per address at a time, each failure doubling the pause before the next.

The dialer has no will of its own: somebody says `want(address)` as often as they like, and it decides whether now is the time.
Invariant: addresses that nobody has wanted for a minute are forgotten, so the table is bounded by what is wanted.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

_FIRST_S = 0.05
_LAST_S = 1.0
_FORGET_S = 60.0
_TARGETS_MAX = 4096


class _Target:
    """One address: how often it failed in a row, and when to try again."""

    __slots__ = ("failures", "not_before", "task", "wanted")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0
        self.wanted = 0.0
        self.task: asyncio.Task[None] | None = None


class Dialer:
    """Calls `connect(address)`, which returns whether it worked, never twice at once for one address."""

    def __init__(self, connect: Callable[[str], Awaitable[bool]]) -> None:
        self._connect = connect
        self._targets: dict[str, _Target] = {}
        self._closed = False

    def want(self, address: str) -> None:
        """Dial `address`, unless that is going on or failed a moment ago."""
        now = time.monotonic()
        target = self._targets.get(address)
        if target is None:
            if self._closed or (len(self._targets) >= _TARGETS_MAX and not self._forget(now)):
                return
            target = self._targets[address] = _Target()
        target.wanted = now
        if target.task is None and now >= target.not_before and not self._closed:
            target.task = asyncio.get_running_loop().create_task(self._dial(address, target))

    def hold(self, address: str) -> None:
        """Count a failure that shows only after the connection was made."""
        target = self._targets.get(address)
        if target is not None:
            self._failed(target)

    async def _dial(self, address: str, target: _Target) -> None:
        try:
            worked = await self._connect(address)
        finally:
            target.task = None
        if worked:
            target.failures = 0
            target.not_before = time.monotonic() + _FIRST_S
        else:
            self._failed(target)

    def _failed(self, target: _Target) -> None:
        pause = min(_FIRST_S * 2**target.failures, _LAST_S)
        target.failures = min(target.failures + 1, 16)
        target.not_before = time.monotonic() + pause * random.uniform(0.5, 1.5)

    def _forget(self, now: float) -> bool:
        """Make room; says whether there is some now."""
        old = [a for a, t in self._targets.items() if t.task is None and now - t.wanted > _FORGET_S]
        for address in old:
            del self._targets[address]
        return bool(old)

    async def close(self) -> None:
        """Stop dialling; returns when no attempt is under way."""
        self._closed = True
        tasks = [target.task for target in self._targets.values() if target.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
