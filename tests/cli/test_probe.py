"""`isotone probe`: what it prints, and its exit statuses; one clear line for whatever is wrong."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import isotone
from isotone.cli.main import main
from isotone.codec import WIRE_VERSION, Hello, encode_hello, frame
from tests.runtime.helpers import together, until

pytestmark = pytest.mark.live

Captured = pytest.CaptureFixture[str]
GREETING = frame(encode_hello(Hello(WIRE_VERSION, "test", "a#1", "127.0.0.1:9", 1024, 1 << 20)))


class Living:
    """Two members in a thread of their own; the first is controlled from outside."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.processes: list[str] = []
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()

    async def live(self) -> None:
        async with (
            isotone.join("test", name="a", control=True) as a,
            isotone.join("test", name="b", seeds=[a.address]) as b,
        ):
            readers = [asyncio.ensure_future(self.read(group)) for group in (a, b)]
            await until(lambda: together(a, b), "a common view")
            self.addresses, self.processes = [a.address, b.address], [a.process, b.process]
            self.ready.set()
            while not self.over.is_set():
                await b.send(b"x")
                await asyncio.sleep(0.005)
            for reader in readers:
                reader.cancel()

    @staticmethod
    async def read(group: isotone.Group) -> None:
        async for _ in group:
            pass


@pytest.fixture(scope="module")
def group() -> Iterator[Living]:
    living = Living()
    thread = threading.Thread(target=lambda: living.loop.run_until_complete(living.live()))
    thread.start()
    assert living.ready.wait(30)
    yield living
    living.loop.call_soon_threadsafe(living.over.set)
    thread.join(30)
    living.loop.close()


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """A port where somebody says this, and nothing more."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)
                while connection.recv(4096):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def probe(captured: Captured, *arguments: str) -> tuple[int, str, str]:
    captured.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["probe", *arguments])
    out, error = captured.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, error


def one_line(captured: Captured, status: int, *arguments: str) -> str:
    """Run a probe that must fail with this status and one line."""
    found, out, error = probe(captured, *arguments)
    assert (found, out) == (status, ""), (found, out, error)
    assert len(error.splitlines()) == 1, error
    assert error.startswith("isotone: ")
    return error


def test_status_for_people(group: Living, capsys: Captured) -> None:
    code, out, error = probe(capsys, group.addresses[1])
    assert (code, error) == (0, "")
    a, b = group.processes
    lines = out.splitlines()
    assert lines[0].startswith(f"{b} of group test at {group.addresses[1]}, up ")
    assert any(line.startswith(f"  member    {a}  {group.addresses[0]}, heard ") for line in lines)
    assert f"  member    {b}  this one" in lines
    for words in ("view ", "2 members", "order ", "sent and ", " delivered a second", "backlog ", "probes may only look"):
        assert words in out, words
    assert "probes may switch the order" in probe(capsys, group.addresses[0])[1]


def test_status_as_json(group: Living, capsys: Captured) -> None:
    code, out, error = probe(capsys, group.addresses[0], "--json", "--group", "test")
    assert (code, error) == (0, "")
    found: dict[str, Any] = json.loads(out)
    assert found["members"] == group.processes
    assert found["rates"]["delivered_per_s"] > 0
    assert found["rates"]["sent_per_s"] == 0
    assert found["control"] is True


def test_switch(group: Living, capsys: Captured) -> None:
    code, out, error = probe(capsys, group.addresses[0], "switch", "token", "--level", "k", "--k", "2", "--strategy", "dual")
    assert (code, error) == (0, "")
    assert " → token k 2: in force at " in out
    assert f"in force at {group.processes[0]} in view " in out
    more = ["--option", "policy=least_variance", "--level", "agreed"]
    code, out, _ = probe(capsys, group.addresses[0], "switch", "atop", *more, "--json")
    told = json.loads(out)
    assert (code, told["switched"], told["reason"]) == (0, True, None)
    assert (told["before"], told["after"]) == ("token k 2", "atop agreed policy=least_variance")
    assert told["seconds"] > 0
    status = json.loads(probe(capsys, group.addresses[0], "--json")[1])
    assert (status["order"], status["options"]) == ("atop", {"policy": "least_variance"})


def test_a_node_on_the_terminal_is_switched_from_another_one(capsys: Captured) -> None:
    command = [sys.executable, "-m", "isotone", "node", "--name", "a", "--group", "terminal", "--control"]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        address = node.stdout.readline().split()[-1]
        assert probe(capsys, address, "switch", "sequencer")[0] == 0
        lines = iter(node.stdout.readline, "")
        assert any(line == "# switched from single_phase to sequencer (dual_ids)\n" for line in lines)
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.communicate()


def test_a_refused_switch_has_its_own_status(group: Living, capsys: Captured) -> None:
    assert probe(capsys, group.addresses[0], "switch", "all_ack", "--fresh")[0] == 0
    assert "all_ack is in force already" in one_line(capsys, 1, group.addresses[0], "switch", "all_ack")
    code, out, error = probe(capsys, group.addresses[0], "switch", "all_ack", "--json")
    told = json.loads(out)
    assert (code, error, told["switched"]) == (1, "", False)
    assert "in force already" in told["reason"]


def test_a_group_without_control(group: Living, capsys: Captured) -> None:
    assert "isotone node --control" in one_line(capsys, 2, group.addresses[1], "switch", "atop")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["switch", "atopp"], "unknown order 'atopp': did you mean 'atop'?"),
        (["switch", "atop", "--strategy", "dul"], "unknown strategy 'dul': did you mean 'dual'?"),
        (["switch", "atop", "--option", "nonsense"], "nonsense"),
        (["switch"], "switch to which order?"),
        (["swich", "atop"], "unknown action 'swich': did you mean 'switch'?"),
        (["--level", "safe"], "--level belongs to: isotone probe HOST:PORT switch ORDER"),
        (["--group", "other"], "group 'other' is not group 'test'"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_bad_input(group: Living, capsys: Captured, arguments: list[str], words: str) -> None:
    assert words in one_line(capsys, 2, group.addresses[0], *arguments)


@pytest.mark.parametrize("more", [[], ["switch", "atop"]])
def test_nobody_who_could_answer_is_there(capsys: Captured, more: list[str]) -> None:
    assert "cannot reach 127.0.0.1:1: Connection refused" in one_line(capsys, 2, "127.0.0.1:1", *more)
    assert "write HOST:PORT" in one_line(capsys, 2, "nonsense", *more)
    with saying(b"HTTP/1.1 400 Bad Request\r\n") as address:
        assert "is no port of an Isotone process" in one_line(capsys, 2, address, *more)
    with saying(frame(b"\x92\xa7isotone\x07")) as address:
        assert "wire version 7, this process speaks version 1" in one_line(capsys, 2, address, *more)
    with saying(b"") as address:
        assert "no answer from " in one_line(capsys, 2, address, "--timeout", "0.2", *more)


def test_an_answer_that_does_not_come_is_unknown(capsys: Captured) -> None:
    with saying(GREETING) as address:
        assert f"no answer from {address} within 0.2 s" in one_line(capsys, 3, address, "--timeout", "0.2")
    with saying(GREETING) as address:
        assert "the group may still switch" in one_line(capsys, 3, address, "switch", "atop", "--timeout", "0.2")
    with saying(GREETING) as address:
        code, out, error = probe(capsys, address, "switch", "atop", "--timeout", "0.2", "--json")
        assert (code, error, json.loads(out)["switched"]) == (3, "", None)
