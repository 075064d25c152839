"""Live commands: two nodes that talk over loopback, and the demo from beginning to end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.live


class Node:
    """An `isotone node` whose lines are read as they come."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "isotone", "node", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait(self, condition: Callable[[list[str]], bool], timeout: float = 30) -> None:
        """Wait for a condition on the lines printed so far."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.lines), timeout), self.lines

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    @property
    def messages(self) -> list[str]:
        return [line for line in self.lines if not line.startswith("#")]


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Nodes that are ended after the test, whatever happens."""
    started: list[Node] = []
    yield started
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
        node.process.wait()


def test_two_nodes_deliver_the_same_lines_in_the_same_order(nodes: list[Node]) -> None:
    first = Node("--name", "a", "--group", "talk")
    nodes.append(first)
    first.wait(lambda lines: any(" at " in line for line in lines))
    address = next(line.split(" at ")[1] for line in first.lines if " at " in line)
    second = Node("--name", "b", "--group", "talk", "--seed", address)
    nodes.append(second)
    for node in nodes:
        node.wait(lambda lines: any(re.search(r"view .*: a#\d+ b#\d+", line) for line in lines))
    for number in range(10):
        nodes[number % 2].say(f"line {number}")
    for node in nodes:
        node.wait(lambda lines: sum(not line.startswith("#") for line in lines) == 10)
    assert first.messages == second.messages
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(30) == 0
    first.wait(lambda lines: bool(re.search(r"view .*: a#\d+$", lines[-1])))


def test_the_demo_tells_a_story_that_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "isotone", "demo", "--out", str(tmp_path / "traces")],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("kill -9", "is cut", "heals", "leaves", "Who saw which view when", "latency", "ok: "):
        assert text in done.stdout
    assert "a b share a view" in done.stdout
    assert done.stderr == ""
