"""Acknowledgements by way of a collector: how many, and that clocks do not overtake casts."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Direct
from tests.protocol.orderer_bench import Sites, make

COUNT = 5


def network_of(acks: str, count: int = COUNT) -> Sites:
    return Sites("single_phase", count, acks=acks, idle="silent")


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_an_isolated_operation_takes_a_linear_number_of_packets(count: int) -> None:
    for sender in range(count):
        gathered, multicast = network_of("gathered", count), network_of("multicast", count)
        for network in (gathered, multicast):
            network.submit(sender)
            network.settle()
            assert network.orders() == [[(sender, 1)]] * count
        assert gathered.packets <= 3 * (count - 1) - 1
        assert multicast.packets == (count - 1) * (1 + sender)


@pytest.mark.parametrize("acks", ["gathered", "multicast"])
def test_everybody_delivers_the_same_whoever_sends_when(acks: str) -> None:
    network = network_of(acks)
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
    network = network_of("gathered")
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
