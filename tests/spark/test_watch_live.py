"""`isotone watch` as a process, next to a real group on the loopback interface: killed in the middle, started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.trace import read_trace
from tests.runtime.helpers import members, run, until
from tests.spark.watching import oracle_verdicts

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0


class Watcher:
    """A watch in a process of its own, and what it said."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        command = [sys.executable, "-m", "isotone", "watch", *arguments, "--master", "local[1]", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.said: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def heard(self, event: str) -> bool:
        return any(line["event"] == event for line in self.said)

    def end(self) -> tuple[int, dict[str, Any]]:
        status = self.process.wait(PATIENCE_S)
        self._reader.join()
        return status, self.said[-1]


def test_a_live_group_is_watched_through_a_kill(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    first = Watcher(str(trace))

    async def scene() -> None:
        import asyncio

        await until(lambda: first.heard("note"), "the watch to wait for the directory", PATIENCE_S)
        async with members("a", "b", "c", trace=trace) as groups:

            async def send(group: Any) -> None:
                while True:
                    await group.send(b"x" * 20)
                    await asyncio.sleep(0.005)

            sending = [asyncio.ensure_future(send(group)) for group in groups]
            await until(lambda: first.heard("change"), "a first verdict", PATIENCE_S)
            began = time.monotonic()
            await until(lambda: time.monotonic() - began > 1.0, "some batches more")
            first.process.send_signal(signal.SIGKILL)
            await groups[2].leave()
            await until(lambda: time.monotonic() - began > 2.5, "traffic that nobody watches")
            for task in sending:
                task.cancel()

    run(scene(), timeout=2 * PATIENCE_S)
    assert first.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert {line["verdict"] for line in first.said if line["event"] == "change"} == {"ok"}
    second = Watcher(str(trace), "--until-idle", "2")
    status, last = second.end()
    found = read_trace([trace])
    resumed = second.said[0]["resumed"]
    assert 0 < resumed["events"] < len(found.rows)
    assert (last["event"], last["events"], last["quarantined"], last["held"]) == ("end", len(found.rows), 0, 0)
    assert last["runs"][""]["deliveries"] == sum(row["kind"] == "deliver" for row in found.rows)
    assert {check["name"]: check["verdict"] for check in last["checks"]} == oracle_verdicts(found.rows)  # type: ignore[arg-type]
    assert (status, last["verdict"]) == (0, "ok")
    assert last["runs"][""]["window"]["latency_ms"]["p50"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{path}/nowhere", "--once"], "no trace at {path}/nowhere: there is no such directory"),
        (["{path}/file"], "{path}/file is a file"),
        (["{path}", "--once", "--until-idle", "3"], "exclude each other"),
        (["s3://bucket/trace"], "say with --checkpoint"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "file").write_text("")
    given = [argument.format(path=tmp_path) for argument in arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "isotone", "watch", *given]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert words.format(path=tmp_path) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
