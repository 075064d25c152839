"""`all_ack` message by message, and what waiting instead of answering costs."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.settings import MS
from isotone.protocol.ordering.all_ack import AllAck
from tests.protocol.orderer_bench import Sites, batch, make

EXAMPLE = """
site 0: send       | clock 1 | heard - 0 0 | delivers       | says M1
site 2: send       | clock 1 | heard 0 0 - | delivers       | says M1
site 1: M1 of 2    | clock 2 | heard 0 - 1 | delivers       | says A2
site 2: A2 of 1    | clock 2 | heard 0 2 - | delivers       | says
site 0: M1 of 2    | clock 2 | heard - 0 1 | delivers       | says A2
site 2: M1 of 0    | clock 3 | heard 1 2 - | delivers 01    | says A3
site 2: A2 of 0    | clock 3 | heard 2 2 - | delivers 21    | says
site 1: M1 of 0    | clock 3 | heard 1 - 1 | delivers 01    | says A3
site 1: A2 of 0    | clock 3 | heard 2 - 1 | delivers 21    | says
site 0: A2 of 1    | clock 2 | heard - 2 1 | delivers 01 21 | says
site 0: A3 of 1    | clock 3 | heard - 3 1 | delivers       | says
site 0: A3 of 2    | clock 3 | heard - 3 3 | delivers       | says
site 0: send       | clock 4 | heard - 3 3 | delivers       | says M4
"""
"""`M t` is a message with timestamp t, `A t` an acknowledgement; `01` is delivered: the message of site 0 with timestamp 1."""


def test_a_worked_example() -> None:
    """0 and 2 send at the same time; 1 only answers. What 2 heard from 0, a message, says enough for 2's own."""
    sites = Sites("all_ack", 3)
    seen = [0, 0, 0]
    for line in EXAMPLE.strip().splitlines():
        event, clock, heard, delivers, says = (part.strip() for part in line.split("|"))
        rank, action = int(event[5]), event[8:]
        before = {way: len(queue) for way, queue in sites.queues.items()}
        if action == "send":
            sites.submit(rank)
        else:
            sites.pass_one(int(action[-1]), rank)
        site, bench = sites.sites[rank], sites.benches[rank]
        assert isinstance(site, AllAck)
        assert f"clock {site.clock}" == clock, line
        assert "heard " + " ".join("-" if i == rank else str(ts) for i, ts in enumerate(site.heard)) == heard, line
        told = [f"{sender}{cast.stamp[0]}" for sender, cast, _, _ in bench.delivered[seen[rank] :]]
        seen[rank] = len(bench.delivered)
        assert "delivers " + " ".join(told) == delivers.ljust(9), line
        other = (rank + 1) % 3
        said = sites.queues.get((rank, other), [])[before.get((rank, other), 0) :]
        names = [("M" if isinstance(record, Cast) else "A") + str(record.stamp[0]) for record in said]
        assert "says " + " ".join(names) == says.ljust(5), line
    assert [position for _, _, position, _ in sites.benches[1].delivered] == [(0, 1, 0), (0, 1, 2)]


def test_messages_are_answers() -> None:
    """When everybody sends in every turn there is nothing to acknowledge, and a message waits for the next of all others."""
    sites = Sites("all_ack", 3)
    for turn in range(4):
        for site, bench in zip(sites.sites, sites.benches, strict=True):
            for sender, other in enumerate(sites.benches):
                if sender != bench.rank and turn:
                    site.accept(sender, [other.casts[turn - 1]], 0)
            site.submit(batch(b"x"), 0)
            site.turn(0)
    assert [bench.directs for bench in sites.benches] == [[], [], []]
    for order in sites.orders():
        assert order[:6] == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]


def test_a_member_that_waits_says_its_clock_once_in_an_interval() -> None:
    site, bench = make("all_ack", 1, 2, silent="wait", interval_ms=20)
    site.submit(batch(b"own"), 5 * MS)
    site.turn(5 * MS)
    assert site.deadline() is None
    site.accept(0, [Cast(1, 0, [3], 1, [b"x"])], 7 * MS)
    site.turn(7 * MS)
    assert site.deadline() == 25 * MS
    site.accept(0, [Cast(2, 0, [4], 2, [b"x"])], 9 * MS)
    site.turn(9 * MS)
    assert bench.directs == []
    site.wake(25 * MS)
    assert bench.directs == [(None, Direct(1, [5]))]
    assert site.deadline() is None
    site.accept(0, [Cast(3, 0, [6], 3, [b"x"])], 60 * MS)
    site.turn(60 * MS)  # it has been silent for longer than the interval
    assert bench.directs[1:] == [(None, Direct(1, [7]))]


@pytest.mark.parametrize("stamp", [[], [0], [2, 7], [2, 9, 1]])
def test_a_cast_with_a_bad_stamp_is_the_peers_fault(stamp: list[int]) -> None:
    site, bench = make("all_ack", 1, 2)
    with pytest.raises(RemoteProtocolError):
        site.accept(0, [Cast(1, 0, [1], 1, [b"x"]), Cast(2, 0, stamp, 2, [b"y"])], 0)
    site.accept(0, [Cast(1, 0, [1], 1, [b"x"])], 0)
    assert len(bench.delivered) == 1


@pytest.mark.parametrize("record", [Direct(1, []), Direct(1, [2, 2]), Direct(1, [0]), Direct(2, [9])])
def test_a_malformed_acknowledgement_is_the_peers_fault(record: Direct) -> None:
    site, _ = make("all_ack", 1, 2)
    site.accept(0, [Cast(1, 0, [1], 1, [b"x"])], 0)
    with pytest.raises(RemoteProtocolError, match="malformed acknowledgement"):
        site.direct(0, record, 0)
