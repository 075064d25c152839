"""The addresses given as seeds: which of them answer, who is behind them, and what to tell a person who waits.

Seeds that are not connected are dialled again for ever, so that groups separated for long find each other. A
process that is still joining learns when every seed has refused it, and says now and then what it is waiting for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence

from isotone.model.ids import ProcessId
from isotone.runtime.logs import logger

_FIRST_REPORT_S = 2.0
_LAST_REPORT_S = 60.0


class _Seed:
    __slots__ = ("myself", "process", "refusal")

    def __init__(self) -> None:
        self.process: ProcessId | None = None
        self.refusal: str | None = None
        self.myself = False


class Seeds:
    """The state of every seed."""

    def __init__(self, group: str, addresses: Sequence[str]) -> None:
        self._group = group
        self._seeds = {address: _Seed() for address in addresses}
        self._began = time.monotonic()
        self._report_s = _FIRST_REPORT_S
        self._next_report = self._began + _FIRST_REPORT_S

    def dial(self, linked: Container[ProcessId], want: Callable[[str], None]) -> None:
        """Want every seed that nobody is connected to."""
        for address, seed in self._seeds.items():
            if not seed.myself and (seed.process is None or seed.process not in linked):
                want(address)

    def reached(self, address: str, process: ProcessId) -> None:
        """`process` answered at `address`."""
        if address in self._seeds:
            seed = self._seeds[address]
            seed.process, seed.refusal = process, None

    def refused(self, address: str, reason: str) -> None:
        """Who answered at `address` does not want this process, or cannot be wanted."""
        if address in self._seeds:
            self._seeds[address].refusal = reason

    def unreachable(self, address: str) -> None:
        """Nobody answered at `address`."""
        if address in self._seeds:
            self._seeds[address].refusal = None

    def myself(self, address: str) -> None:
        """This very process answered at `address`."""
        if address in self._seeds:
            self._seeds[address].myself = True

    def verdict(self) -> str | None:
        """Why no seed will ever let this process in, or None as long as one may."""
        others = {address: seed for address, seed in self._seeds.items() if not seed.myself}
        if not others or any(seed.refusal is None for seed in others.values()):
            return None
        return "; ".join(f"seed {address}: {seed.refusal}" for address, seed in others.items())

    def report(self, linked: Container[ProcessId], hint: str) -> None:
        """Say what is missing, at growing intervals; to be called while this process waits for its first view."""
        now = time.monotonic()
        if now < self._next_report:
            return
        self._report_s = min(self._report_s * 2, _LAST_REPORT_S)
        self._next_report = now + self._report_s
        missing = [a for a, s in self._seeds.items() if not s.myself and (s.process is None or s.process not in linked)]
        waited = f"{now - self._began:.0f} s"
        if missing and len(missing) == sum(not seed.myself for seed in self._seeds.values()):
            logger.warning("%s: no seed answers (%s) for %s; still trying", self._group, ", ".join(missing), waited)
        else:
            logger.warning("%s: seeds answer, but no view for %s; still trying (%s)", self._group, waited, hint)
