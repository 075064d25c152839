"""Workloads: when a member sends, how much, and of which type. Described by data, driven by the engine.

A phase has arrivals (periodic, Poisson or bursty), each of which hands in `burst` messages; payloads begin with the
sender's name and a count, so no two are equal. What the endpoint does not take is kept and handed in later, so that a load
catches up after a pause; but a phase with `waits` leaves arrivals out while the endpoint takes nothing, and does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Literal

import msgspec

from isotone.model.errors import ConfigError
from isotone.sim.engine import Engine
from isotone.sim.latency import MS, nanoseconds
from isotone.sim.process import Process
from isotone.sim.rand import between, pick, sample, stream


class Phase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sending by some members during some time. `stop_ms` 0 is the end of the run, `count` 0 no bound."""

    kind: Literal["periodic", "poisson", "bursty"] = "periodic"
    members: list[str] = []
    start_ms: float = 0.0
    stop_ms: float = 0.0
    interval_ms: float = 10.0
    spread: bool = True
    on_ms: float = 100.0
    off_ms: float = 400.0
    burst: int = 1
    count: int = 0
    waits: bool = False
    size_min: int = 64
    size_max: int = 64
    types: list[str] = []
    items: list[str] = []
    items_per_message: int = 1

    def __post_init__(self) -> None:
        if self.interval_ms * MS < 1 or self.on_ms <= 0 or self.off_ms < 0:
            raise ConfigError("workload interval_ms and on_ms must be positive, off_ms must not be negative")
        if self.burst < 1 or self.count < 0:
            raise ConfigError("workload burst must be at least 1, count must not be negative")
        if not 0 <= self.size_min <= self.size_max:
            raise ConfigError("workload sizes must satisfy 0 <= size_min <= size_max")
        if self.stop_ms and self.stop_ms < self.start_ms:
            raise ConfigError("workload stop_ms must not be before start_ms")
        if not 1 <= self.items_per_message <= max(1, len(self.items)):
            raise ConfigError("workload items_per_message must be from 1 to the number of items")


class Source:
    """One member's part of a phase, at one process instance."""

    __slots__ = (
        "_engine",
        "_interval",
        "_left",
        "_off",
        "_on",
        "_phase",
        "_process",
        "_rng",
        "_serial",
        "_start",
        "_stop",
    )

    def __init__(self, engine: Engine, process: Process, phase: Phase, serial: list[int], rng: Random) -> None:
        self._engine = engine
        self._process = process
        self._phase = phase
        self._serial = serial  # counts this process's payloads over all its phases
        self._rng = rng
        self._interval = nanoseconds(phase.interval_ms)
        self._on, self._off = nanoseconds(phase.on_ms), nanoseconds(phase.off_ms)
        self._start = max(engine.now, nanoseconds(phase.start_ms))
        self._stop = nanoseconds(phase.stop_ms) if phase.stop_ms else 1 << 62
        self._left = phase.count or 1 << 62

    def begin(self) -> None:
        """Schedule the first arrival."""
        first = self._start
        if self._phase.kind == "poisson":
            first += self._gap()
        elif self._phase.spread:
            first += int(self._rng.random() * self._interval)
        self._schedule(first)

    def _gap(self) -> int:
        if self._phase.kind == "poisson":
            return 1 - int(math.log(1.0 - self._rng.random()) * self._interval)
        return self._interval

    def _schedule(self, time: int) -> None:
        if self._phase.kind == "bursty" and self._off:
            within = (time - self._start) % (self._on + self._off)
            if within >= self._on:
                time += self._on + self._off - within
        if time < self._stop and self._left > 0:
            self._engine.at(time, Source._fire, self)

    def _fire(self) -> None:
        process = self._process
        if process.state == "running":
            self._send()
        elif process.paused:
            self._engine.feed(process, self._send)
        else:
            return
        self._schedule(self._engine.now + self._gap())

    def _send(self) -> None:
        phase, rng, process = self._phase, self._rng, self._process
        amount = min(phase.burst, self._left)
        if process.ctx is None or amount <= 0 or (phase.waits and not process.endpoint.writable()):
            return
        self._left -= amount
        payloads = [self._payload() for _ in range(amount)]
        if not phase.types and not phase.items:
            process.ctx.send(payloads)
            return
        types: list[str | None] | None = [pick(rng, phase.types) for _ in payloads] if phase.types else None
        items: list[Sequence[str] | None] | None = None
        if phase.items:
            items = [sample(rng, phase.items, phase.items_per_message) for _ in payloads]
        process.ctx.send(payloads, types, items)

    def _payload(self) -> bytes:
        phase = self._phase
        size = phase.size_min
        if phase.size_max > size:
            size = between(self._rng, size, phase.size_max)
        self._serial[0] += 1
        return f"{self._process.pid} {self._serial[0]} ".encode().ljust(size, b".")[: max(size, 1)]


def start_sources(engine: Engine, process: Process, phases: Sequence[Phase], seed: int) -> None:
    """Let a process send its part of every phase that names it."""
    serial = [0]
    for index, phase in enumerate(phases):
        if not phase.members or process.name in phase.members:
            if phase.stop_ms and nanoseconds(phase.stop_ms) <= engine.now:
                continue
            Source(engine, process, phase, serial, stream(seed, "workload", index, process.pid)).begin()
