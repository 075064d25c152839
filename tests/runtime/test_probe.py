"""Probes: asking a live process how it is, and making its group switch, without being a member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

import isotone
from isotone.codec import (
    WIRE_VERSION,
    Hello,
    Probe,
    Refused,
    StatusWanted,
    SwitchTold,
    SwitchWanted,
    encode_answer,
    encode_hello,
    encode_probe,
    frame,
)
from isotone.model.errors import ConfigError, NotSwitched, RemoteProtocolError
from isotone.runtime import desk
from isotone.runtime.connection import Connection
from isotone.runtime.desk import PROBES_MAX, Desk, is_loopback
from isotone.runtime.probe import status, switch
from tests.runtime.helpers import members, run, take, together, until
from tests.runtime.test_bad_input import farewell, talk

pytestmark = pytest.mark.live


def question(group: str = "test", wanted: StatusWanted | SwitchWanted | None = None, version: int = WIRE_VERSION) -> bytes:
    return frame(encode_probe(Probe(version, group, wanted or StatusWanted())))


async def healthy(a: isotone.Group, b: isotone.Group) -> None:
    await a.send(b"still here")
    assert (await take(b, 1))[0].payload == b"still here"
    assert together(a, b)


# --- what it shows ---------------------------------------------------------------------------------------------------


def test_a_member_tells_its_status() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            await a.send_many([b"x"] * 5)
            await take(b, 5)
            found = await status(b.address, group="test")
            assert (found["group"], found["process"], found["address"]) == ("test", b.process, b.address)
            assert found["members"] == [a.process, b.process]
            assert found["view"] == str(b.view.id) if b.view else None
            assert (found["order"], found["level"], found["k"], found["switch"]) == ("single_phase", "agreed", 1, None)
            assert (found["sent"], found["delivered"], found["control"]) == (0, 5, False)
            assert (await status(a.address))["sent"] == 5
            assert found["suspected"] == {}
            assert found["addresses"][a.process] == a.address
            assert list(found["links"]) == [a.process]
            assert found["links"][a.process]["heard_ms_ago"] < 10_000
            await healthy(a, b)

    run(main())


def test_a_process_that_has_no_view_yet_answers_too() -> None:
    async def main() -> None:
        joining = isotone.join("test", name="a", seeds=["127.0.0.1:1"])
        starting = asyncio.ensure_future(joining.start())
        await until(lambda: joining.address, "its port")
        found = await status(joining.address)
        assert (found["view"], found["members"]) == (None, [])
        starting.cancel()
        await asyncio.wait([starting])

    run(main())


def test_a_probe_is_no_member() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            before = a.view
            for _ in range(50):
                await status(a.address)
            assert a.view == before
            assert a.status()["linked"] == [b.process]
            network = a._network
            assert network is not None
            await until(lambda: len(network._all) == 1, "the probes' connections to be gone")
            await healthy(a, b)

    run(main())


# --- switching -------------------------------------------------------------------------------------------------------


def test_the_answer_comes_when_the_switch_is_in_force_there() -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            told = await switch(b.address, "atop", level="safe", options={"policy": "least_variance"}, strategy="dual")
            assert b.view is not None
            assert (b.view.ordering.order, b.view.ordering.level) == ("atop", "safe")
            assert b.view.ordering.options == {"policy": "least_variance"}
            assert (told.process, told.before) == (b.process, "single_phase agreed")
            assert told.after == "atop safe policy=least_variance"
            assert told.view == str(b.view.id)
            assert 0 < told.seconds < 25
            await until(lambda: a.view is not None and a.view.ordering.order == "atop", "atop at a")
            await switch(a.address, "token")
            with pytest.raises(NotSwitched, match="token is in force already"):
                await switch(a.address, "token")
            await switch(a.address, "token", fresh=True)
            assert (await status(a.address))["instance"] == 3
            await switch(a.address, "fifo")  # by stop, the only way
            await healthy(a, b)

    run(main())


def test_without_control_nobody_switches() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            with pytest.raises(Refused, match=r"not controlled from outside: join\(control=True\)"):
                await switch(a.address, "atop")
            assert a.view is not None
            assert a.view.ordering.order == "single_phase"
            await healthy(a, b)

    run(main())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"order": "atopp"}, "unknown order 'atopp': did you mean 'atop'?"),
        ({"order": "atop", "strategy": "dul"}, "unknown strategy 'dul': did you mean 'dual'?"),
        ({"order": "atop", "level": "saef"}, "unknown level 'saef': did you mean 'safe'?"),
        ({"order": "atop", "k": 3}, "k is 3, but the level is 'agreed'"),
        ({"order": "atop", "rule": "al"}, "unknown rule 'al': did you mean 'all'?"),
        ({"order": "atop", "options": {"polcy": "x"}}, "polcy"),
        ({"order": "x" * 5_000}, "the question has 5"),
    ],
)
def test_a_wrong_wish_is_told(settings: dict[str, Any], reason: str) -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            with pytest.raises(ConfigError) as caught:
                await switch(a.address, **settings)
            assert reason in str(caught.value)
            await healthy(a, b)

    run(main())


def test_a_switch_that_takes_long_is_not_known_and_may_still_come() -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            a.block(["b"])
            b.block(["a"])
            with pytest.raises(TimeoutError, match=rf"no answer from {a.address} within 0.2 s"):
                await switch(a.address, "atop", timeout=0.2)
            await until(lambda: a.view is not None and a.view.members == (a.process,), "a alone")
            await until(lambda: a.view is not None and a.view.ordering.order == "atop", "atop after all")
            a.unblock()
            b.unblock()

    run(main())


def test_a_second_request_is_refused_while_the_first_is_under_way() -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            a.block(["b"])
            b.block(["a"])
            first = asyncio.ensure_future(switch(a.address, "atop"))
            while (await status(a.address))["switch"] is None:
                await asyncio.sleep(0.01)
            with pytest.raises(NotSwitched, match="has asked for another switch already"):
                await switch(a.address, "token")
            assert (await first).after == "atop agreed"
            a.unblock()
            b.unblock()

    run(main())


# --- who is there ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def saying(answer: bytes, silent: bool = False) -> AsyncIterator[str]:
    """A port where somebody says this to everybody."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if silent:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


HELLO = frame(encode_hello(Hello(WIRE_VERSION, "test", "a#1", "127.0.0.1:9", 1024, 1 << 20)))


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", RemoteProtocolError, "is no port of an Isotone process"),
        (b"SSH-2.0-OpenSSH_9.2\r\n" * 100_000, RemoteProtocolError, "is no port of an Isotone process"),
        (frame(b"\xc1garbage"), RemoteProtocolError, "is no port of an Isotone process"),
        (question(), RemoteProtocolError, "is no port of an Isotone process"),
        (b"", RemoteProtocolError, "closed the connection without a word"),
        (HELLO, RemoteProtocolError, "closed the connection without a word"),
        (frame(msgspec.msgpack.encode(["isotone", 7, "all", "else", "differs"])), Refused, "wire version 7, this process speaks"),
        (frame(msgspec.msgpack.encode(["bye", "we are\nfull"])), Refused, "refuses: we are full"),
        (HELLO + frame(msgspec.msgpack.encode(["bye", "no"])), Refused, "refuses: no"),
        (HELLO + frame(b"\x92\xc1\xc1"), RemoteProtocolError, "malformed answer"),
        (HELLO + frame(encode_answer(SwitchTold("a#1", "1@a#1", "x", "y", 1.0))), RemoteProtocolError, "another question"),
        (HELLO + frame(bytes(5 << 20)), RemoteProtocolError, "frame of 5242880 bytes"),
    ],
)
def test_somebody_else_answers(answer: bytes, error: type[Exception], reason: str) -> None:
    async def main() -> None:
        async with saying(answer) as address:
            with pytest.raises(error) as caught:
                await status(address)
            assert reason in str(caught.value)
            assert address in str(caught.value) or "malformed" in reason
            assert "\n" not in str(caught.value)

    run(main())


def test_nobody_answers() -> None:
    with pytest.raises(ConfigError, match=r"^cannot reach 127.0.0.1:1: Connection refused$"):
        run(status("127.0.0.1:1"))
    with pytest.raises(ConfigError, match=r"cannot reach no.such.host.invalid:1"):
        run(status("no.such.host.invalid:1"))
    with pytest.raises(ConfigError, match=r"write HOST:PORT"):
        run(status("nonsense"))

    async def main() -> None:
        async with saying(b"", silent=True) as address:
            with pytest.raises(ConfigError, match="no answer"):
                await status(address, timeout=0.1)
        async with saying(HELLO, silent=True) as address:  # who has understood the question may still do something
            with pytest.raises(TimeoutError, match="no answer"):
                await status(address, timeout=0.1)

    run(main())


# --- whom it is told -------------------------------------------------------------------------------------------------


def test_who_answers_no_probes_says_so() -> None:
    async def main() -> None:
        async with members("a", "b", probes="none", control=True) as (a, b):
            with pytest.raises(Refused, match="this process answers no probes"):
                await status(a.address)
            with pytest.raises(Refused, match="this process answers no probes"):
                await switch(a.address, "atop")
            await healthy(a, b)

    run(main())


def test_other_machines_are_answered_only_if_the_application_says_so() -> None:
    class Elsewhere:
        host = "192.0.2.7"

        def answer(self, body: bytes) -> None:
            self.body = body

    async def main() -> None:
        far = cast(Connection, Elsewhere())
        with pytest.raises(Refused, match=r"of its own machine only, not of others: join\(probes=\"all\"\)"):
            Desk("local", dict, None).take(far, StatusWanted())
        Desk("all", dict, None).take(far, StatusWanted())
        await until(lambda: hasattr(far, "body"), "the answer")

    run(main())


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("::ffff:10.0.0.1", False),
     ("10.0.0.1", False), ("fe80::1%eth0", False), ("", False), ("localhost", False)],
)  # fmt: skip
def test_what_is_this_machine(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_a_wrong_choice_is_found_at_once() -> None:
    with pytest.raises(ConfigError, match="unknown probes 'lokal': did you mean 'local'"):
        isotone.join("test", name="a", probes="lokal")  # type: ignore[arg-type]


# --- what a bad one costs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (question(version=7), "wire version 7"),
        (question(group="other"), "group 'other' is not group 'test'"),
        (frame(msgspec.msgpack.encode(["probe"])), "malformed handshake"),
        (frame(msgspec.msgpack.encode(["probe", 1, "test", ["reboot"]])), "malformed handshake"),
        (frame(msgspec.msgpack.encode(["probe", 1, "test", ["switch", 5]])), "malformed handshake"),
        (frame(msgspec.msgpack.encode(["probe", 1, "test", ["switch", "atop", None, None, {"a": [1]}]])), "malformed handshake"),
        (question() * 2, "a probe asks once"),
        (frame(bytes(5_000)), "frame of 5000 bytes: must have 1 to 4096"),
    ],
)
def test_a_bad_probe_costs_its_own_connection(data: bytes, reason: str) -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            for _ in range(5):
                assert reason in farewell(await talk(a.address, data))
            await healthy(a, b)
            assert (await status(a.address))["process"] == a.process

    run(main())


def test_a_bounded_number_of_probes_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            go_on = asyncio.Event()

            async def slowly(wanted: SwitchWanted) -> SwitchTold:
                await go_on.wait()
                return SwitchTold(a.process, "", "", wanted.order, 0.0)

            monkeypatch.setattr(a._desk, "_switch", slowly)
            waiting = [asyncio.ensure_future(switch(a.address, "atop")) for _ in range(PROBES_MAX)]
            await until(lambda: len(a._desk._tasks) == PROBES_MAX, "all of them to wait")
            with pytest.raises(Refused, match=f"{PROBES_MAX} probes wait for an answer already"):
                await status(a.address)
            await healthy(a, b)  # the view path does not wait for them
            waiting.pop().cancel()
            await until(lambda: len(a._desk._tasks) < PROBES_MAX, "one to be gone")
            assert (await status(a.address))["process"] == a.process
            go_on.set()
            assert {told.after for told in await asyncio.gather(*waiting)} == {"atop"}
            assert not a._desk._tasks

    run(main())


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            monkeypatch.setattr(desk, "SWITCH_S", 0.05)
            a.block(["b"])
            b.block(["a"])
            with pytest.raises(TimeoutError, match="it may still come"):
                await switch(a.address, "atop")
            a.unblock()
            b.unblock()

    run(main())


def test_an_error_in_the_answer_is_told_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            monkeypatch.setattr(a._desk, "_status", lambda: 1 / 0)
            with pytest.raises(NotSwitched, match="ZeroDivisionError"):
                await status(a.address)
            await healthy(a, b)

    run(main())


def test_who_waits_when_the_process_leaves_is_told() -> None:
    async def main() -> None:
        async with members("a", "b", control=True) as (a, b):
            a.block(["b"])
            b.block(["a"])
            waiting = asyncio.ensure_future(switch(a.address, "atop"))
            await until(lambda: a._desk._tasks, "the question")
            await a.leave(0.2)
            with pytest.raises((NotSwitched, RemoteProtocolError)):
                await waiting

    run(main())
