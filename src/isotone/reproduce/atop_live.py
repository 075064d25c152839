"""The first series of paper 000, §6.2, on live processes: the same load on real sockets, beside the simulated curves.

For each interval of the slow members three groups of six processes run at once, one per order; rates are low, so they hardly
disturb each other. Their traces are checked on Spark, and the latencies taken from them: of messages sent after the first third
and early enough to be delivered before the members leave.

Finished intervals are kept in `live.json` and not run again.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from isotone.model.errors import GroupError
from isotone.pipeline.scan import verify
from isotone.pipeline.sweeps.cell import plain_schema
from isotone.reproduce.atop_points import MEMBERS, ORDERS, QUICK_MS
from isotone.reproduce.measures import MS, Messages
from isotone.reproduce.parts import Verified
from isotone.reproduce.plots import Series
from isotone.runtime.loop import run
from isotone.trace.columns import require_pyarrow

LIVE_ORDERS: Final = ("all_ack", "even", "causal")
PATIENCE_S: Final = 40.0
SLACK_S: Final = 1.0


def live_intervals(quick: bool) -> list[float]:
    """The slow members' intervals, in ms."""
    return [500.0] if quick else [250.0, 1_000.0, 2_000.0]


def seconds_of(slow_ms: float) -> float:
    """How long the members send."""
    return max(6.0, 5.5 * slow_ms / 1000)


def measure_live(out: Path, quick: bool, spark: Any, progress: Callable[[int, int], None]) -> tuple[list[Series], Verified]:
    """Run what is not finished; the points of the plot, and what the checks say about the traces."""
    kept = out / "live.json"
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    stops = live_intervals(quick)
    verified = Verified()
    for place, slow_ms in enumerate(stops):
        progress(place, len(stops))
        key = f"{slow_ms:g} ms for {seconds_of(slow_ms):g} s"
        if key not in known:
            known[key] = _measured(out / "live", slow_ms, spark)
            kept.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        for found in known[key].values():
            verified.runs += 1
            verified.events += found["events"]
            if found["verdict"] == "violated":
                verified.violated.append(f"live, {key}: {found['witness']}")
            elif found["verdict"] != "ok":
                verified.undecided += 1
    progress(len(stops), len(stops))
    series = []
    for order in LIVE_ORDERS:
        name, paint = ORDERS[order]
        points = [(s / 1000, known[f"{s:g} ms for {seconds_of(s):g} s"][order]["mean_ms"]) for s in stops]
        series.append(Series(f"{name}, live processes", points, paint, live=True))
    return series, verified


def _measured(place: Path, slow_ms: float, spark: Any) -> dict[str, Any]:
    shutil.rmtree(place, ignore_errors=True)  # what an interrupted experiment left
    traces = {order: place / f"{order}-{slow_ms:g}" for order in LIVE_ORDERS}
    run(_groups(traces, slow_ms))
    result = {}
    for order, trace in traces.items():
        report = verify([str(trace)], session=spark).report
        bad = [f"{check.name}: {check.witness}" for check in report.checks if check.verdict == "violated"]
        found = {"events": report.events, "verdict": report.verdict, "witness": bad[0] if bad else None}
        result[order] = {**found, **latency_of(trace, slow_ms)}
    shutil.rmtree(place, ignore_errors=True)
    return result


def latency_of(trace: Path, slow_ms: float) -> dict[str, Any]:
    """The mean over all deliveries of the messages that count."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    tables = [pq.read_table(file).cast(plain_schema()) for file in sorted(trace.rglob("*.parquet"))]
    table = pa.concat_tables(tables)
    messages = Messages(table)
    done = messages.deliver
    sent = messages.send_time[done.message]
    counts = (sent >= messages.settled) & (sent <= messages.send_time.max() - int(1.2 * slow_ms * MS))
    took = (done.time - sent)[counts]
    return {"deliveries": len(took), "mean_ms": float(took.mean()) / MS}


async def _groups(traces: Mapping[str, Path], slow_ms: float) -> None:
    groups = [_Group(order, trace, slow_ms) for order, trace in traces.items()]
    try:
        for group in groups:
            await group.form()
        await asyncio.gather(*(group.go("done", seconds_of(slow_ms) + PATIENCE_S) for group in groups))
        await asyncio.gather(*(group.end() for group in groups))
    finally:
        for group in groups:
            await group.kill()


class _Group:
    """Six member processes with one order."""

    def __init__(self, order: str, trace: Path, slow_ms: float) -> None:
        self._order = order
        self._trace = trace
        self._slow_ms = slow_ms
        self._processes: list[asyncio.subprocess.Process] = []

    async def form(self) -> None:
        """Start the members; the first founds the group, and all wait for the view with everybody."""
        seeds: list[str] = []
        for name in MEMBERS:
            self._processes.append(await self._start(name, seeds))
            if not seeds:
                seeds.append((await self._answer(self._processes[0], "address", PATIENCE_S))["address"])
        for process in self._processes[1:]:
            await self._answer(process, "address", PATIENCE_S)
        for process in self._processes:
            await self._answer(process, "ready", PATIENCE_S)

    async def go(self, until: str, timeout: float) -> None:
        """Tell all to go on, and wait for what they say."""
        for process in self._processes:
            self._tell(process)
        for process in self._processes:
            await self._answer(process, until, timeout)

    async def end(self) -> None:
        """Wait a moment for what is under way, and let all leave."""
        await asyncio.sleep(SLACK_S)
        for process in self._processes:
            self._tell(process)
        async with asyncio.timeout(PATIENCE_S):
            for process in self._processes:
                await process.wait()

    async def kill(self) -> None:
        """End what is still running, after an error."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _start(self, name: str, seeds: list[str]) -> asyncio.subprocess.Process:
        options: dict[str, Any] = {}
        if self._order == "all_ack":
            options = {"silent": "wait", "interval_ms": int(1.5 * self._slow_ms)}
        elif self._order != "causal":
            options = {"slots": self._order}
        settings = {
            "group": f"live-{self._order}",
            "name": name,
            "seeds": seeds,
            "order": "atop" if self._order in ("even", "random") else self._order,
            "options": options,
            "trace": str(self._trace),
            "members": len(MEMBERS),
            "interval_s": QUICK_MS.get(name, self._slow_ms) / 1000,
            "phase": (MEMBERS.index(name) * 0.37 + 0.1) % 1,
            "seconds": seconds_of(self._slow_ms),
        }
        package = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "isotone.reproduce.live_member",
            json.dumps(settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )

    def _tell(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.write(b"go\n")

    async def _answer(self, process: asyncio.subprocess.Process, key: str, timeout: float) -> dict[str, Any]:
        if process.stdout is None:
            raise GroupError("a live member has no standard output")
        try:
            async with asyncio.timeout(timeout):
                line = await process.stdout.readline()
        except TimeoutError:
            raise GroupError(f"a live member of {self._order} did not say {key!r} within {timeout:g} s") from None
        answer: dict[str, Any] = json.loads(line) if line else {}
        if key not in answer:
            raise GroupError(f"a live member of {self._order} ended before it said {key!r}")
        return answer
