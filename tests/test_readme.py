"""The program of the README works as it stands: two of them find each other and deliver the same messages."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.mark.live
@pytest.mark.parametrize("document", ["README.md", "docs/live.md"])
def test_the_first_program(document: str) -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert program is not None
    first, second = free_ports(2)
    text = program[1].replace("7001", str(first)).replace("7002", str(second))
    other = text.replace('name="a"', 'name="b"').replace(f'listen="127.0.0.1:{first}"', f'listen="127.0.0.1:{second}"')
    processes = [
        subprocess.Popen([sys.executable, "-u", "-c", source], stdout=subprocess.PIPE, text=True) for source in (text, other)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert any("hello" in line for line in iter(process.stdout.readline, ""))
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.live
def test_the_program_of_state_transfer() -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "docs/state.md").read_text(), re.DOTALL)
    assert program is not None
    done = subprocess.run([sys.executable, "-c", program[1]], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert "restored: {'to': 2, 'be': 2, 'or': 1, 'not': 1}" in lines
    assert lines[-1].startswith("both:")
    assert "'that': 1" in lines[-1]
