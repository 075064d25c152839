"""The replicated dictionary: a process is killed, comes back, and has everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


class Node:
    """A process of the example."""

    def __init__(self, name: str, *seeds: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, str(ROOT / "examples" / "dictionary.py"), "--name", name, "--seeds", *seeds]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
        )
        self.address = self.until("# " + name).split()[-1]

    def until(self, beginning: str) -> str:
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError(f"the process ended without {beginning!r}")

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def entries(self) -> dict[str, str]:
        self.say("all")
        found: dict[str, str] = json.loads(self.until("{"))
        return found

    def has(self, wanted: dict[str, str]) -> bool:
        deadline = time.monotonic() + 15
        while (found := self.entries()) != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return found == wanted

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def test_a_process_comes_back_and_has_everything() -> None:
    nodes = [Node("a")]
    try:
        nodes.append(Node("b", nodes[0].address))
        nodes[1].until("# 0 entries from a#")
        nodes[0].say("set x 1")
        nodes[1].say("set y 2")
        assert nodes[0].has({"x": "1", "y": "2"})
        assert nodes[1].has({"x": "1", "y": "2"})
        nodes[0].process.kill()
        nodes[1].say("set x 3")
        assert nodes[1].has({"x": "3", "y": "2"})
        nodes.append(Node("a", nodes[1].address))
        assert "# 2 entries from b#" in nodes[2].until("# 2 entries")
        nodes[1].say("delete y")
        assert nodes[2].has({"x": "3"})
        assert nodes[2].process.stdin is not None
        nodes[2].process.stdin.close()
        assert nodes[2].process.wait(timeout=15) == 0
    finally:
        for node in nodes:
            node.end()


def test_ctrl_c_leaves_the_group_without_a_traceback() -> None:
    nodes = [Node("a")]
    try:
        nodes.append(Node("b", nodes[0].address))
        nodes[1].until("# members: a#")
        nodes[1].process.send_signal(signal.SIGINT)
        assert nodes[1].process.wait(timeout=15) == 1  # its input stays open: the end of that would end it too
        assert nodes[1].process.stderr is not None
        assert nodes[1].process.stderr.read() == ""
        views = iter(lambda: nodes[0].until("# members: a#"), "")
        assert any("b#" in view for view in views)
        assert any("b#" not in view for view in views)
    finally:
        for node in nodes:
            node.end()
