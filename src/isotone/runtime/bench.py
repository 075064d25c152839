"""The live benchmark behind `isotone bench`: members as processes on the loopback interface, against a raw TCP mesh.

Throughput (T): every member sends as fast as it can and takes everything, in one order, which is compared. Latency (L):
every member sends a few messages per second. Each variant is measured several times, interleaved with the others in
the same processes; figures are medians. Every message is counted once, though each member takes it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from isotone.model.errors import ConfigError, GroupError
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry
from isotone.runtime.loop import run

_START_DELAY_S = 0.1
_EXACT_QUOTA = 5_000
_FIRST_QUOTA_BYTES = 2_000_000
_SETTLE_S = 30.0
_VARIANTS = ("mesh", "batches", "events")


class _Process:
    """One member process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, settings: dict[str, Any]) -> _Process:
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH", ""))))
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "isotone.runtime.bench_member",
                msgspec.json.encode(settings).decode(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 26,
                env=environment,
            )
        )

    def order(self, what: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"do": what, **arguments}) + b"\n")

    async def answer(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise GroupError(f"a member of the benchmark did not answer within {timeout:g} s") from None
        if not line:
            raise GroupError(f"a member of the benchmark ended with status {await self._process.wait()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer

    async def end(self) -> None:
        """Let it leave; kill it if it does not."""
        try:
            self.order("end")
            async with asyncio.timeout(10):
                await self._process.wait()
        except (TimeoutError, ConnectionError, RuntimeError):  # uvloop: the pipe is closed
            pass
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Bench:
    """A running group of member processes; `async with`."""

    def __init__(self, members: int, settings: Mapping[str, Any]) -> None:
        self._members = members
        self._settings = dict(settings)
        self._processes: list[_Process] = []

    async def __aenter__(self) -> Bench:
        try:
            answers: list[dict[str, Any]] = []
            for rank in range(self._members):
                seeds = [answers[0]["address"]] if answers else []
                self._processes.append(await _Process.start({**self._settings, "rank": rank, "seeds": seeds}))
                if not answers:
                    answers.append(await self._processes[0].answer(_SETTLE_S))
            for process in self._processes[1:]:
                answers.append(await process.answer(_SETTLE_S))
            await self.all("peers", _SETTLE_S, ports=[answer["port"] for answer in answers])
            await self.all("view", _SETTLE_S, members=self._members)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(process.end() for process in self._processes))

    async def all(self, what: str, timeout: float, **arguments: Any) -> list[dict[str, Any]]:
        """Give everybody the same order and collect the answers."""
        for process in self._processes:
            process.order(what, **arguments)
        return list(await asyncio.gather(*(process.answer(timeout) for process in self._processes)))

    async def each(self, what: str, timeout: float, arguments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give everybody an order of their own and collect the answers."""
        for process, own in zip(self._processes, arguments, strict=True):
            process.order(what, **own)
        return list(await asyncio.gather(*(process.answer(timeout) for process in self._processes)))

    async def throughput(self, via: str, size: int, quota: int) -> dict[str, Any]:
        """One round: messages per second, CPU per message, and whether all saw the same."""
        start = time.monotonic() + _START_DELAY_S
        answers = await self.all(
            "throughput", 120, via=via, size=size, quota=quota, members=self._members, start=start
        )  # fmt: skip
        total = quota * self._members
        seconds = max(answer["end"] for answer in answers) - start
        return {
            "messages": total,
            "messages_per_s": total / seconds,
            "cpu_us_per_message": sum(answer["cpu"] for answer in answers) / total * 1e6,
            "identical": len({answer["digest"] for answer in answers}) == 1,
        }

    async def latency(self, via: str, size: int, rate: float, seconds: float) -> list[int]:
        """One round: the delays of all messages at all members, in nanoseconds."""
        start = time.monotonic() + _START_DELAY_S
        answers = await self.all(
            "latency",
            seconds + 60,
            via=via,
            size=size,
            rate=rate,
            count=max(1, round(rate * seconds)),
            members=self._members,
            start=start,
        )
        return [delay for answer in answers for delay in answer["latencies"]]


def _percentiles(delays: list[int]) -> dict[str, float]:
    ordered = sorted(delays)
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e6, 3)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def _median_percentiles(rounds: list[list[int]]) -> dict[str, float]:
    each = [_percentiles(delays) for delays in rounds]
    return {name: round(statistics.median(one[name] for one in each), 3) for name in ("p50", "p99")}


async def _quota(bench: Bench, via: str, size: int, members: int, seconds: float) -> int:
    """How many messages per member take about so many seconds."""
    quota = max(50, _FIRST_QUOTA_BYTES // size // members)
    for _ in range(3):
        result = await bench.throughput(via, size, quota)
        took = quota * members / result["messages_per_s"]
        quota = max(50, int(quota * min(seconds / took, 50)))
        if took > seconds / 3:
            break
    return quota


async def _bench(
    members: int, size: int, settings: dict[str, Any], seconds: float, repeats: int, rate: float, latency_s: float
) -> dict[str, Any]:
    async with Bench(members, settings) as bench:
        quotas = {via: await _quota(bench, via, size, members, seconds) for via in _VARIANTS}
        results: dict[str, list[dict[str, Any]]] = {via: [] for via in _VARIANTS}
        exact: list[dict[str, Any]] = []  # not timed: every message is hashed
        delays: dict[str, list[list[int]]] = {"mesh": [], "group": []}
        for _ in range(repeats):
            for via in _VARIANTS:
                results[via].append(await bench.throughput(via, size, quotas[via]))
            exact.append(await bench.throughput("exact", size, min(quotas["events"], _EXACT_QUOTA)))
            for via in delays:
                delays[via].append(await bench.latency(via, size, rate, latency_s))

    def median(via: str, what: str) -> float:
        return float(statistics.median(result[what] for result in results[via]))

    bound = median("mesh", "messages_per_s")
    latency, mesh_latency = _median_percentiles(delays["group"]), _median_percentiles(delays["mesh"])
    return {
        "order": settings["order"],
        "level": settings["level"],
        "members": members,
        "size": size,
        "repeats": repeats,
        "messages": quotas["batches"] * members,
        "messages_per_s": round(median("batches", "messages_per_s")),
        "bound_messages_per_s": round(bound),
        "ratio": round(median("batches", "messages_per_s") / bound, 3),
        "identical": all(one["identical"] for one in (*results["batches"], *results["events"], *exact)),
        "cpu_us_per_message": round(median("batches", "cpu_us_per_message"), 3),
        "latency_ms": latency,
        "latency_ratio": round(latency["p50"] / mesh_latency["p50"], 2),
        "async_for": {
            "messages": quotas["events"] * members,
            "messages_per_s": round(median("events", "messages_per_s")),
            "ratio": round(median("events", "messages_per_s") / bound, 3),
            "cpu_us_per_message": round(median("events", "cpu_us_per_message"), 3),
        },
        "mesh": {"cpu_us_per_message": round(median("mesh", "cpu_us_per_message"), 3), "latency_ms": mesh_latency},
    }


def _settings(
    members: int,
    size: int,
    order: str,
    level: str,
    k: int,
    options: Mapping[str, Any],
    limits: Mapping[str, int],
    trace: str | None,
) -> dict[str, Any]:
    if not 2 <= members <= 64:
        raise ConfigError(f"{members} members: a benchmark has 2 to 64")
    if not 16 <= size <= 512 * 1024:
        raise ConfigError(f"size {size}: a benchmark has messages of 16 to 524288 bytes")
    registry.validate(Ordering(order, level, k, dict(options)))  # type: ignore[arg-type]
    return {
        "order": order,
        "level": level,
        "k": k,
        "options": dict(options),
        "limits": dict(limits),
        "trace": trace,
    }


def run_bench(
    members: int = 5,
    size: int = 50,
    order: str = "single_phase",
    level: str = "agreed",
    *,
    k: int = 1,
    options: Mapping[str, Any] | None = None,
    limits: Mapping[str, int] | None = None,
    trace: str | None = None,
    seconds: float = 1.0,
    repeats: int = 5,
    rate: float = 20.0,
    latency_s: float = 1.5,
) -> dict[str, Any]:
    """Measure throughput and latency; `seconds` and `latency_s` are the lengths of one round of each."""
    settings = _settings(members, size, order, level, k, options or {}, limits or {}, trace)
    return run(_bench(members, size, settings, seconds, repeats, rate, latency_s))


async def _soak(members: int, size: int, settings: dict[str, Any], seconds: float, pause: float) -> dict[str, Any]:
    async with Bench(members, settings) as bench:
        orders = [
            {"size": size, "seconds": seconds, "slow": rank == members - 1, "pause": pause} for rank in range(members)
        ]
        answers = await bench.each("soak", seconds + 60, orders)
    warm = max(1, int(seconds // 4))
    growth = [max(answer["memory"][warm:]) - answer["memory"][warm] for answer in answers]
    return {
        "order": settings["order"],
        "members": members,
        "size": size,
        "seconds": seconds,
        "sent": sum(answer["sent"] for answer in answers),
        "taken": [answer["taken"] for answer in answers],
        "view_members": [answer["members"] for answer in answers],
        "resident_mib": [round(max(answer["memory"]) / 2**20, 1) for answer in answers],
        "growth_mib": [round(one / 2**20, 1) for one in growth],
        "max_growth_mib": round(max(growth) / 2**20, 1),
    }


def run_slow_consumer(
    members: int = 5,
    size: int = 50,
    order: str = "single_phase",
    level: str = "agreed",
    *,
    seconds: float = 60.0,
    pause: float = 0.005,
    k: int = 1,
    options: Mapping[str, Any] | None = None,
    limits: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """All but one send as fast as they may; the last one takes a batch every `pause` seconds. Memory must stay flat."""
    settings = _settings(members, size, order, level, k, options or {}, limits or {}, None)
    return run(_soak(members, size, settings, seconds, pause))
