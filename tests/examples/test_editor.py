"""The shared editor: replicas that deliver in different orders are equal in the end; Ctrl-C ends it without a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


def begin(example: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples" / example), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
    )  # fmt: skip


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_replicas_are_equal_although_messages_pass_each_other() -> None:
    process = begin("editor.py", "--processes", "3", "--edits", "60")
    out, err = end(process)
    assert process.returncode == 0, err
    lines = out.splitlines()
    assert lines[0] == "3 processes, 60 edits each"
    assert lines[-1] == "all replicas are equal"
    assert [line.partition(":")[0] for line in lines[1:-1]] == ["a", "b", "c"]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("example", "arguments", "sign"),
    [("editor.py", ["--edits", "30000"], "3 processes"), ("dictionary.py", ["--name", "a"], "# members: a#")],
)
def test_control_c_ends_an_example_without_a_traceback(example: str, arguments: list[str], sign: str) -> None:
    process = begin(example, *arguments)
    assert process.stdout is not None
    for line in iter(process.stdout.readline, ""):
        if line.startswith(sign):
            break
    process.send_signal(signal.SIGINT)
    _, err = end(process)
    assert "Traceback" not in err
    assert "Fatal" not in err
    assert process.returncode == 1
