"""Experiments on live processes: groups of member processes on loopback, their traces checked on Spark and measured.

A run is one group: what each member sends, and which switches one of them asks for. Runs of one batch go on at the same time.
What was measured is kept in `live.json` and not run again; the traces are not kept.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from isotone.model.errors import GroupError
from isotone.pipeline.scan import verify
from isotone.pipeline.sweeps.cell import plain_schema
from isotone.reproduce.parts import Results, Verified, identity
from isotone.runtime.loop import run
from isotone.trace.columns import require_pyarrow

PATIENCE_S: Final = 40.0
SLACK_S: Final = 1.0
"""From the last send until the members leave, so that all is delivered before."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What one member sends: a message every interval, beginning after a part of it. It stops after so many seconds."""

    interval_s: float
    phase: float
    seconds: float
    size: int = 50


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A group and what happens in it."""

    name: str
    order: str
    members: Mapping[str, Sending]
    measure: Callable[[Any], dict[str, Any]]
    """Of the Arrow table of all its rows."""
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    switches: Mapping[str, Any] = field(default_factory=dict)
    """`strategy` and `period_s`: the first member asks for a fresh instance of the same order, again and again."""

    @property
    def seconds(self) -> float:
        """How long its members send."""
        return max(sending.seconds for sending in self.members.values())

    @property
    def key(self) -> str:
        """What tells it from runs that would measure something else."""
        told = {name: asdict(sending) for name, sending in self.members.items()}
        return identity({"name": self.name, "order": self.order, "members": told, "options": dict(self.options),
                         "limits": dict(self.limits), "switches": dict(self.switches)})  # fmt: skip


def measure_live(
    batches: Sequence[Sequence[LiveRun]], out: Path, spark: Any, progress: Callable[[int, int], None]
) -> tuple[Results, Verified]:
    """Run what is not finished; what was measured, by the names of the runs, and what the checks say about the traces."""
    kept = out / "live.json"
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    every = [one for batch in batches for one in batch]
    done = 0
    for batch in batches:
        progress(done, len(every))
        missing = [one for one in batch if one.key not in known]
        if missing:
            known.update(_measured(missing, out / "live", spark))
            kept.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        done += len(batch)
    progress(done, done)
    verified = Verified()
    rows = []
    for one in every:
        found = known[one.key]
        verified.runs += 1
        verified.events += found["events"]
        if found["verdict"] == "violated":
            verified.violated.append(f"live, {one.name}: {found['witness']}")
        elif found["verdict"] != "ok":
            verified.undecided += 1
        rows.append({**found["measures"], "point": identity({"live": one.name}), "error": None})
    return Results({one.name: {"live": one.name} for one in every}, rows), verified


def _measured(batch: Sequence[LiveRun], place: Path, spark: Any) -> dict[str, Any]:
    shutil.rmtree(place, ignore_errors=True)  # what an interrupted experiment left
    traces = [place / str(number) for number in range(len(batch))]
    run(_all(batch, traces))
    result = {}
    for one, trace in zip(batch, traces, strict=True):
        report = verify([str(trace)], session=spark).report
        bad = [f"{check.name}: {check.witness}" for check in report.checks if check.verdict == "violated"]
        found = {"events": report.events, "verdict": report.verdict, "witness": bad[0] if bad else None}
        result[one.key] = {**found, "measures": one.measure(table_of(trace))}
    shutil.rmtree(place, ignore_errors=True)
    return result


def table_of(trace: Path) -> Any:
    """All rows of a trace, as the measures want them."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.read_table(file).cast(plain_schema()) for file in sorted(trace.rglob("*.parquet"))])


async def _all(batch: Sequence[LiveRun], traces: Sequence[Path]) -> None:
    groups = [_Group(one, trace) for one, trace in zip(batch, traces, strict=True)]
    try:
        for group in groups:
            await group.form()
        await asyncio.gather(*(group.send() for group in groups))
        await asyncio.gather(*(group.end() for group in groups))
    finally:
        for group in groups:
            await group.kill()


class _Group:
    """The member processes of a run."""

    def __init__(self, run: LiveRun, trace: Path) -> None:
        self._run = run
        self._trace = trace
        self._processes: list[asyncio.subprocess.Process] = []

    async def form(self) -> None:
        """Start the members; the first founds the group, and all wait for the view with everybody."""
        seeds: list[str] = []
        for name in self._run.members:
            self._processes.append(await self._start(name, seeds))
            if not seeds:
                seeds.append((await self._answer(self._processes[0], "address", PATIENCE_S))["address"])
        for process in self._processes[1:]:
            await self._answer(process, "address", PATIENCE_S)
        for process in self._processes:
            await self._answer(process, "ready", PATIENCE_S)

    async def send(self) -> None:
        """Let all send, until they have sent everything."""
        for process in self._processes:
            self._tell(process)
        for process in self._processes:
            await self._answer(process, "done", self._run.seconds + PATIENCE_S)

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
        run = self._run
        settings = {
            "group": "live",
            "name": name,
            "seeds": seeds,
            "order": run.order,
            "options": dict(run.options),
            "limits": dict(run.limits),
            "trace": str(self._trace),
            "members": len(run.members),
            "sending": asdict(run.members[name]),
            "switches": dict(run.switches) if name == next(iter(run.members)) else {},
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
            raise GroupError(f"live run {self._run.name!r}: a member did not say {key!r} within {timeout:g} s") from None
        answer: dict[str, Any] = json.loads(line) if line else {}
        if key not in answer:
            raise GroupError(f"live run {self._run.name!r}: a member ended before it said {key!r}")
        return answer
