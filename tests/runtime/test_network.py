"""Connections: duplicates, oneself, reconnecting, peers that do not read."""

from __future__ import annotations

import asyncio
import time

import pytest

import isotone
from isotone.model.records import Cast, Packet
from isotone.runtime.network import Network
from tests.runtime.helpers import members, run, take, together, until

pytestmark = pytest.mark.live


class Ear:
    """A receiver that notes what it hears."""

    def __init__(self) -> None:
        self.links: list[tuple[str, str]] = []
        self.gone: list[str] = []
        self.packets: list[tuple[str, Packet]] = []

    def connected(self, peer: str, address: str) -> None:
        self.links.append((peer, address))

    def disconnected(self, peer: str) -> None:
        self.gone.append(peer)

    def received(self, peer: str, packet: Packet) -> None:
        self.packets.append((peer, packet))


async def network(process: str, seeds: list[str], known: dict[str, str], write_bytes: int = 1 << 22) -> tuple[Network, Ear]:
    made = Network("g", process, 1 << 20, known.get, write_bytes=write_bytes)
    known[process] = await made.listen("127.0.0.1:0", None)
    ear = Ear()
    made.start(ear, seeds)
    return made, ear


def test_of_two_connections_both_keep_the_one_dialled_by_the_smaller_id() -> None:
    async def main() -> None:
        known: dict[str, str] = {}
        a, ear_a = await network("a#1", [], known)
        b, ear_b = await network("b#1", [], known)
        packet = Packet(0, "", 0, 0, [], [])
        a.send([("b#1", packet)])  # both dial at once
        b.send([("a#1", packet)])
        await until(lambda: ear_a.links and ear_b.links, "connections")
        await until(lambda: len(a._all) == len(b._all) == 1, "one connection")
        assert (a._links["b#1"].dialled, b._links["a#1"].dialled) == (known["b#1"], None)
        assert (len(ear_a.links), len(ear_b.links), ear_a.gone, ear_b.gone) == (1, 1, [], [])
        a.send([("b#1", packet)])
        await until(lambda: ear_b.packets, "a packet")
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_one_s_own_address_is_recognised() -> None:
    async def main() -> None:
        known: dict[str, str] = {}
        a, ear = await network("a#1", [], known)
        alias = known["a#1"].replace("127.0.0.1", "localhost")
        await a.close()
        a, ear = await network("a#1", [alias], known)
        alias = known["a#1"].replace("127.0.0.1", "localhost")
        assert not await a._connect(alias)
        assert (ear.links, a.linked()) == ([], [])
        assert alias in a._myself
        await a.close()

    run(main())


def test_a_lost_connection_is_made_again() -> None:
    async def main() -> None:
        known: dict[str, str] = {}
        a, ear_a = await network("a#1", [], known)
        b, ear_b = await network("b#1", [known["a#1"]], known)
        await until(lambda: ear_a.links and ear_b.links, "a connection")
        for round_ in range(1, 4):
            a._links["b#1"].abort()
            await until(lambda: len(ear_b.links) > round_ and len(ear_a.links) > round_, "another one")  # noqa: B023
        assert ear_b.gone == ["a#1"] * 3
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_a_dropped_peer_is_not_dialled_but_may_come_back() -> None:
    async def main() -> None:
        known: dict[str, str] = {}
        a, ear_a = await network("a#1", [], known)
        b, ear_b = await network("b#1", [], known)
        packet = Packet(0, "", 0, 0, [], [])
        a.send([("b#1", packet)])
        await until(lambda: ear_a.links and ear_b.links, "a connection")
        a.drop("b#1")
        await until(lambda: not a.linked() and not b.linked(), "its end")
        for _ in range(20):
            a.send([("b#1", packet)])
            await asyncio.sleep(0.01)
        assert not a.linked()
        b.send([("a#1", packet)])
        await until(lambda: a.linked() and b.linked(), "a new connection")
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_packets_for_a_peer_that_does_not_read_are_dropped_not_kept() -> None:
    async def main() -> None:
        known: dict[str, str] = {}
        a, ear_a = await network("a#1", [], known, write_bytes=300_000)
        b, ear_b = await network("b#1", [known["a#1"]], known)
        await until(lambda: ear_a.links and ear_b.links, "a connection")
        transport = b._links["a#1"]._transport
        assert transport is not None
        transport.pause_reading()
        for number in range(1, 400):
            a.send([("b#1", Packet(1, "a#1", number, 0, [Cast(number, 0, [], 1, [bytes(50_000)])], []))])
            await asyncio.sleep(0)
        own = a._links["b#1"]._transport
        assert own is not None
        assert own.get_write_buffer_size() < 500_000
        assert a.lost_packets > 100
        transport.resume_reading()
        await until(lambda: own.get_write_buffer_size() == 0, "the rest")
        a.send([("b#1", Packet(1, "a#1", 1000, 0, [], []))])
        await until(lambda: ear_b.packets[-1][1].first == 1000, "the next packet")
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_a_silent_connection_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.runtime.network._SILENCE_S", 0.3)

    async def main() -> None:
        known: dict[str, str] = {}
        a, ear_a = await network("a#1", [], known)
        b, ear_b = await network("b#1", [known["a#1"]], known)
        await until(lambda: ear_a.links and ear_b.links, "a connection")
        deadline = time.monotonic() + 10
        while len(ear_a.links) < 2 and time.monotonic() < deadline:
            a.send([("b#1", Packet(0, "", 0, 0, [], []))])  # and b never answers
            await asyncio.sleep(0.02)
        assert len(ear_a.links) >= 2
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_too_many_connections_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotone.runtime.network._CONNECTIONS_MAX", 5)

    async def main() -> None:
        known: dict[str, str] = {}
        a, _ = await network("a#1", [], known)
        host, port = known["a#1"].rsplit(":", 1)
        strangers = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            assert await asyncio.wait_for(reader.read(), 2) == b""
        except ConnectionError:
            pass
        for _, stranger in (*strangers, (reader, writer)):
            stranger.close()
        await until(lambda: not a._all, "all gone")
        b, ear = await network("b#1", [known["a#1"]], known)
        await until(lambda: ear.links, "a connection")
        await asyncio.gather(a.close(), b.close())

    run(main())


def test_listening_on_a_name() -> None:
    async def main() -> None:
        async with members("a", "b", listen="localhost:0") as (a, b):
            assert together(a, b)

    run(main())


def test_a_restart_with_a_larger_incarnation_comes_back() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            address = b.address
            assert b._network is not None
            assert b._driver is not None
            b._driver.stop()  # a crash, as far as the others can tell
            await b._network.close()
            async with isotone.join("test", name="b", listen=address, seeds=[a.address]) as again:
                await until(lambda: together(a, again), "a view with the new incarnation")
                await again.send(b"back")
                assert (await take(a, 1))[0].origin == again.process

    run(main())
