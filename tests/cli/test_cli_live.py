"""Live commands: two nodes that talk over loopback, and the demo from beginning to end."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("source", ["/dev/null", "file", "closed"])
def test_a_node_lives_whatever_its_standard_input_is(source: str, tmp_path: Path) -> None:
    """Without a terminal or a pipe (nohup, systemd, a container) there may be nothing to send, and much to receive."""
    (tmp_path / "file").write_text("from a file\n")
    redirect = {"/dev/null": "</dev/null", "file": f"<{tmp_path / 'file'}", "closed": "<&-"}[source]
    command = f"exec {sys.executable} -m isotone node --name a {redirect}"
    process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        expected = "from a file" if source == "file" else "# view"
        assert any(expected in line for line in iter(process.stdout.readline, ""))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_line_over_the_limit_is_refused_in_one_line_and_the_next_is_sent() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "isotone", "node", "--name", "a"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("x" * 2_000_000 + "\nafter\n")
        process.stdin.flush()
        assert any(line.endswith(" after\n") for line in iter(process.stdout.readline, ""))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert [line for line in errors.splitlines() if "over the limit" in line]
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.wait()


def test_the_demo_tells_a_story_that_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "isotone", "demo", "--out", str(tmp_path / "traces"), "--report", str(tmp_path / "demo.html")],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("kill -9", "is cut", "heals", "leaves", "Who saw which view when", "latency", "ok: "):
        assert text in done.stdout
    assert "switches from single_phase to atop while messages flow: isotone probe 127.0.0.1:" in done.stdout
    assert re.search(r"in force at a after [\d.]+ ms, at all of them after [\d.]+ ms", done.stdout)
    assert re.search(r"^  switching +ok$", done.stdout, re.MULTILINE)
    assert "What the switch from single_phase to atop (dual_ids) cost:" in done.stdout
    assert re.search(r"^  [\d.,]+ .?s was the longest time without a delivery", done.stdout, re.MULTILINE)
    assert re.search(r"^  [\d,]+ extra bytes were sent, by all 5 processes together$", done.stdout, re.MULTILINE)
    assert "a b share a view" in done.stdout
    assert done.stdout.splitlines()[-1].endswith((tmp_path / "demo.html").as_uri())
    assert "Views over time" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert done.stderr == ""


@pytest.mark.parametrize("level", ["agreed", "k"])
def test_bench_prints_one_object(level: str) -> None:
    short = ("--members", "2", "--seconds", "0.2", "--repeats", "1")
    done = subprocess.run(
        [sys.executable, "-m", "isotone", "bench", *short, "--level", level, "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["members"], result["level"], result["identical"]) == (2, level, True)
