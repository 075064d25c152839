"""Whatever comes over the port or from the caller: one clear error, and the group is unharmed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

import isotone
from isotone.codec import WIRE_VERSION, Hello, encode_hello, encode_packet, frame
from isotone.codec.frames import HEADER_BYTES
from isotone.model.errors import ConfigError, LocalProtocolError
from isotone.model.records import Cast, Packet
from tests.codec.wire import head
from tests.runtime.helpers import members, run, take, together, until

pytestmark = pytest.mark.live


def hello(group: str = "test", process: str = "stranger#1", version: int = WIRE_VERSION) -> bytes:
    return frame(encode_hello(Hello(version, group, process, "127.0.0.1:9", 1024, 1 << 20)))


async def talk(address: str, *data: bytes, read: bool = True) -> bytes:
    """Connect, say this, and return what is answered until the connection is closed."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in data:
            writer.write(piece)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 10) if read else b""
    except ConnectionError:
        return b""
    finally:
        writer.close()


def farewell(answer: bytes) -> str:
    """The reason in the last frame of an answer."""
    texts = []
    while answer:
        end = HEADER_BYTES + int.from_bytes(answer[:4], "big")
        body = msgspec.msgpack.decode(answer[HEADER_BYTES:end])
        if body[0] == "bye":
            texts.append(body[1])
        answer = answer[end:]
    return texts[-1] if texts else ""


async def healthy(a: isotone.Group, b: isotone.Group) -> None:
    await a.send(b"still here")
    assert (await take(b, 1))[0].payload == b"still here"
    assert together(a, b)


GARBAGE: list[tuple[str, list[bytes], str]] = [
    ("http", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], "frame damaged: it begins with b'GET / HTTP'"),
    ("zeros", [bytes(10)], r"frame damaged: it begins with b'\x00\x00"),
    ("nothing", [head(0)], "frame of 0 bytes"),
    ("a long first frame", [head(4097)], "frame of 4097 bytes: must have 1 to 4096"),
    ("no msgpack", [frame(b"\xc1\xff\xff")], "malformed handshake"),
    ("no hello", [frame(msgspec.msgpack.encode({"a": 1}))], "malformed handshake"),
    ("another version", [frame(msgspec.msgpack.encode(["isotone", 7, "x"]))], "wire version 7"),
    ("another group", [hello(group="other")], "group 'other' is not group 'test'"),
    ("a bad process id", [hello(process="x")], "not a process id"),
    ("a bad packet", [hello(), frame(b"\x96\x01")], "malformed packet"),
    ("a negative counter", [hello(), frame(encode_packet(Packet(-1, "", 0, 0, [], [])))], "Expected `int` >= 0"),
    ("an oversized frame", [hello(), head(17 << 20)], "frame of 17825792 bytes"),
    ("a damaged length", [hello(), b"\0\x10" + frame(b"body")[2:]], r"frame damaged: it begins with b'\x00\x10"),
    ("a damaged body", [hello()[:-1] + b"\x01"], "frame damaged: a body of "),
]


@pytest.mark.parametrize(("data", "reason"), [(data, reason) for _, data, reason in GARBAGE], ids=[g[0] for g in GARBAGE])
def test_strangers_are_told_and_dropped(data: list[bytes], reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            for _ in range(5):
                assert reason in farewell(await talk(a.address, *data))
            await healthy(a, b)
        assert caplog.text.count(reason) == 1  # the log does not repeat itself

    run(main())


def test_a_slow_stranger_is_dropped_in_time() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            assert farewell(await talk(a.address, hello()[:10])) == ""
            await healthy(a, b)

    run(main())


def test_random_bytes_and_damaged_frames() -> None:
    async def main() -> None:
        source = random.Random(7)
        async with members("a", "b") as (a, b):
            packet = frame(encode_packet(Packet(3, a.process, 1, 1, [Cast(1, 0, [1], 1, [b"x" * 40])], [])))
            for number in range(150):
                data = bytearray(hello(process=f"s{number}#1") + packet * 3 if number % 2 else source.randbytes(200))
                data[source.randrange(len(data))] ^= 1 << source.randrange(8)
                await talk(a.address, bytes(data[: source.randint(1, len(data))]), read=False)
            await healthy(a, b)

    run(main())


def test_a_member_that_sends_nonsense_only_loses_its_connection() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            network = b._network
            assert network is not None
            link = network._links[a.process]
            assert link._transport is not None
            link._transport.write(frame(b"\xc1"))
            await until(lambda: network._links.get(a.process) not in (None, link), "a new connection")
            await healthy(a, b)

    run(main())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hello(group="other"), "group 'other' is not group 'test'"),
        (frame(msgspec.msgpack.encode(["isotone", 2])), "wire version 2, this process speaks version 1"),
        (frame(msgspec.msgpack.encode(["bye", "we are full"])), "we are full"),
    ],
)
def test_when_all_seeds_refuse_joining_fails(answer: bytes, reason: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConfigError) as caught:
            await isotone.join("test", name="a", seeds=[address]).start()
        assert str(caught.value) == f"cannot join group 'test': seed {address}: {reason}"
        # As long as another seed may help, it keeps trying.
        with pytest.raises(TimeoutError):
            await isotone.join("test", name="a", seeds=[address, "127.0.0.1:1"], timeout=1).start()
        server.close()

    run(main())


def test_a_joiner_of_another_group_is_told_by_the_group() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            with pytest.raises(ConfigError, match="group 'test' is not group 'other'"):
                await isotone.join("other", name="c", seeds=[a.address, b.address]).start()
            await healthy(a, b)

    run(main())


def test_the_port_is_in_use() -> None:
    async def main() -> None:
        async with isotone.join("test", name="a") as a:
            port = a.address.rsplit(":", 1)[1]
            with pytest.raises(ConfigError, match=f"cannot listen on {a.address}: port {port} is in use"):
                await isotone.join("test", name="b", listen=a.address).start()

    run(main())


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"seeds": ["nonsense"]}, "seed 'nonsense': write HOST:PORT"),
    ({"seeds": ["h:0"]}, "port must be between 1 and 65535"),
    ({"listen": "127.0.0.1"}, "listen address '127.0.0.1': write HOST:PORT"),
    ({"advertise": "x"}, "advertised address 'x'"),
    ({"name": "a b"}, "process name 'a b'"),
    ({"name": ""}, "process name ''"),
    ({"incarnation": 0}, "incarnation 0"),
    ({"order": "single_fase"}, "unknown order 'single_fase': did you mean 'single_phase'"),
    ({"level": "saef"}, "unknown level 'saef': did you mean 'safe'"),
    ({"options": {"nonsense": 1}}, "nonsense"),
]


@pytest.mark.parametrize(("settings", "reason"), SETTINGS)
def test_wrong_settings_are_found_at_once(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        isotone.join("test", **{"name": "a", **settings})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listen": "0.0.0.0:0"}, "say with advertise="),
        ({"listen": "no.such.host.invalid:1"}, "cannot listen on no.such.host.invalid:1"),
        ({"limits": isotone.Limits(payload_bytes=20 << 20, pending_bytes=40 << 20)}, "limit payload_bytes is 20971520"),
    ],
)
def test_wrong_settings_that_only_the_network_shows(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        run(isotone.join("test", name="a", **settings).start())


def test_payloads_over_the_limit() -> None:
    async def main() -> None:
        async with members("a", "b", limits=isotone.Limits(payload_bytes=1000)) as (a, b):
            with pytest.raises(LocalProtocolError, match="1001 bytes is over the limit of 1000"):
                await a.send(bytes(1001))
            with pytest.raises(LocalProtocolError, match="1001 bytes is over the limit of 1000"):
                await a.send_many([b"x", bytes(1001)])
            await healthy(a, b)

    run(main())
