"""Frames that are damaged on the way cost a connection and nothing else; in test_live the same with processes and proxies."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import isotone
from isotone.codec import (
    WIRE_VERSION,
    Probe,
    StatusTold,
    StatusWanted,
    encode_answer,
    encode_bye,
    encode_packet,
    encode_probe,
    frame,
)
from isotone.codec.frames import HEADER_BYTES
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Packet
from isotone.runtime.probe import status
from tests.runtime.helpers import members, run, until
from tests.runtime.test_bad_input import farewell, healthy, hello, talk
from tests.runtime.test_probe import saying

pytestmark = pytest.mark.live

HELLO, TOLD = hello(), frame(encode_answer(StatusTold({"a": 1})))


def changed(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


@pytest.mark.parametrize("where", ["length", "check", "body", "farewell"])
def test_a_member_whose_frame_is_damaged_on_the_way_is_not_left_out(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """Behind the damage this would acknowledge what was never sent, and who does that is never let in again."""

    async def main() -> None:
        async with members("a", "b") as (a, b):
            network, view = b._network, a.view
            assert network is not None
            assert view is not None
            assert a._driver is not None
            link = network._links[a.process]
            assert link._transport is not None
            packet = Packet(view.id.epoch, view.id.proposer, 0, 77, [], [])
            meant, said = frame(encode_packet(msgspec.structs.replace(packet, ack=0))), frame(encode_packet(packet))
            match where:
                case "length":
                    said = b"\0\x7f" + meant[2:]
                case "check":
                    said = changed(meant, 5)
                case "body":
                    said = meant[:HEADER_BYTES] + said[HEADER_BYTES:]
                case "farewell":
                    said = changed(frame(encode_bye("so long")), -1)
            link._transport.write(said)
            await until(lambda: network._links.get(a.process) not in (None, link), "a new connection")
            await healthy(a, b)
            assert a.view == view
            assert not a._driver.endpoint.membership._banned
        assert "closed: frame damaged: " in caplog.text

    run(main())


def test_damage_on_the_way_is_no_refusal() -> None:
    """A seed that got a damaged handshake says so; the next one will be better, so joining goes on."""
    dialled = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        writer.write(frame(encode_bye("frame damaged: a body of 50 bytes does not match its check")))
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(TimeoutError):
            await isotone.join("test", name="a", seeds=[address], timeout=1).start()
        server.close()
        assert dialled > 1

    run(main())


@pytest.mark.parametrize("at", [0, 5, 9, -1])
def test_a_probe_says_that_an_answer_is_damaged(at: int) -> None:
    async def main() -> None:
        async with saying(changed(HELLO, at) + TOLD) as address:
            with pytest.raises(RemoteProtocolError, match=f"^{address} is no port of an Isotone process: frame damaged: "):
                await status(address)
        async with saying(HELLO + changed(TOLD, at)) as address:
            with pytest.raises(RemoteProtocolError, match=f"^{address}: frame damaged: "):
                await status(address)
        async with saying(HELLO + TOLD) as address:
            assert await status(address) == {"a": 1}

    run(main())


def test_a_probe_is_told_that_its_question_is_damaged() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            question = frame(encode_probe(Probe(WIRE_VERSION, "test", StatusWanted())))
            for at in range(len(question)):
                assert farewell(await talk(a.address, changed(question, at))).startswith("frame damaged: ")
            await healthy(a, b)

    run(main())
