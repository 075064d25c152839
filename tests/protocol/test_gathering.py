"""Acknowledgements by way of a collector: how many, and that clocks do not overtake casts."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from tests.protocol.orderer_bench import Bench, batch, make

COUNT = 5


class Network:
    """Sites of one view; records wait in queues per direction."""

    def __init__(self, acks: str, count: int = COUNT) -> None:
        made = [make("single_phase", rank, count, acks=acks, idle="silent") for rank in range(count)]
        self.sites = [site for site, _ in made]
        self.benches: list[Bench] = [bench for _, bench in made]
        self.queues: dict[tuple[int, int], list[Cast | Direct]] = {}
        self.packets = 0

    def _collect(self, rank: int) -> None:
        bench = self.benches[rank]
        others = [peer for peer in range(len(self.sites)) if peer != rank]
        for cast in bench.casts:
            for peer in others:
                self.queues.setdefault((rank, peer), []).append(cast)
        for to, record in bench.directs:
            for peer in others if to is None else [to]:
                self.queues.setdefault((rank, peer), []).append(record)
        bench.casts.clear()
        bench.directs.clear()

    def submit(self, rank: int) -> None:
        self.sites[rank].submit(batch(b"x"), 0)
        self.sites[rank].turn(0)
        self._collect(rank)

    def pass_one(self, source: int, target: int) -> None:
        record = self.queues[source, target].pop(0)
        self.packets += 1
        site = self.sites[target]
        if isinstance(record, Cast):
            site.accept(source, [record], 0)
        else:
            site.direct(source, record, 0)
        site.turn(0)
        self._collect(target)

    def settle(self) -> None:
        while waiting := [way for way, queue in self.queues.items() if queue]:
            for source, target in waiting:
                self.pass_one(source, target)

    def orders(self) -> list[list[tuple[int, int]]]:
        return [[(sender, cast.seq) for sender, cast, _, _ in bench.delivered] for bench in self.benches]


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_an_isolated_operation_takes_a_linear_number_of_packets(count: int) -> None:
    for sender in range(count):
        gathered, multicast = Network("gathered", count), Network("multicast", count)
        for network in (gathered, multicast):
            network.submit(sender)
            network.settle()
            assert network.orders() == [[(sender, 1)]] * count
        assert gathered.packets <= 3 * (count - 1) - 1 + (count == 2)
        assert multicast.packets == (count - 1) * (1 + sender)


@pytest.mark.parametrize("acks", ["gathered", "multicast"])
def test_everybody_delivers_the_same_whoever_sends_when(acks: str) -> None:
    network = Network(acks)
    for turn in range(60):
        network.submit(turn * 7 % COUNT)
        ways = sorted(way for way, queue in network.queues.items() if queue)
        for way in ways[turn % 3 :: 2]:
            network.pass_one(*way)
    network.settle()
    orders = network.orders()
    assert orders == [orders[0]] * COUNT
    assert len(orders[0]) == 60


def test_a_clock_does_not_overtake_the_casts_before_it() -> None:
    """Site 0 sends; its cast to 3 is late. Site 2 sends, 1 collects and tells 3 that 0's clock is far enough: 3 must wait."""
    network = Network("gathered")
    network.submit(0)
    for target in (1, 2, 4):
        network.pass_one(0, target)
    late = network.queues.pop((0, 3))
    network.submit(2)
    while waiting := [way for way, queue in network.queues.items() if queue and way != (0, 3)]:
        network.pass_one(*waiting[0])
    assert network.orders()[1] == [(0, 1), (2, 1)]
    assert network.orders()[3] == []
    network.queues[0, 3] = late + network.queues.get((0, 3), [])
    network.settle()
    assert network.orders() == [[(0, 1), (2, 1)]] * COUNT


def test_a_malformed_gathering_is_the_peers_fault() -> None:
    site, _ = make("single_phase", 1, 3, acks="gathered")
    for stamp in ([1, 2], [1, 1, 1, 1, 1, -1]):
        with pytest.raises(RemoteProtocolError, match="malformed acknowledgement"):
            site.direct(0, Direct(2, stamp), 0)
    plain, _ = make("single_phase", 1, 3)
    with pytest.raises(RemoteProtocolError, match="malformed acknowledgement"):
        plain.direct(0, Direct(2, [1, 1, 1, 1, 1, 1]), 0)
