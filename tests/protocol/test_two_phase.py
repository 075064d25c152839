"""`two_phase` message by message, and the four cases of its end of a view."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.events import DeliveryBatch
from isotone.model.records import Cast, Direct, Packet
from isotone.model.settings import MS
from isotone.model.view import Ordering
from isotone.protocol.ordering.two_phase import TwoPhase
from tests.protocol.bag import Bag, Fate
from tests.protocol.orderer_bench import Sites, batch, make

EXAMPLE = """
site 0: send    | clock 1 | delivers    | says 0.1
site 2: send    | clock 1 | delivers    | says 2.1
site 1: from 0  | clock 1 | delivers    | says 0.1?1
site 1: from 2  | clock 2 | delivers    | says 2.1?2
site 2: from 0  | clock 2 | delivers    | says 0.1?2
site 0: from 2  | clock 2 | delivers    | says 2.1?2
site 0: from 1  | clock 2 | delivers    | says
site 0: from 2  | clock 2 | delivers 01 | says 0.1=2
site 2: from 0  | clock 2 | delivers    | says
site 2: from 1  | clock 2 | delivers    | says 2.1=2
site 1: from 2  | clock 2 | delivers    | says
site 1: from 0  | clock 2 | delivers 01 21 | says
site 2: from 0  | clock 2 | delivers 01 21 | says
site 0: from 2  | clock 2 | delivers 21 | says
site 1: send    | clock 3 | delivers    | says 1.1
"""
"""`0.1` is the first cast of site 0, `0.1?2` a proposal for it and `0.1=2` its final; `01` is delivered."""


def _words(rank: int, record: Cast | Direct, to: int) -> list[str]:
    if isinstance(record, Cast) and record.kind == 0:
        return [f"{rank}.{record.seq}"]
    pairs = zip(record.stamp[::2], record.stamp[1::2], strict=True)
    if isinstance(record, Cast):
        return [f"{rank}.{seq}={ts}" for seq, ts in pairs]
    return [f"{to}.{seq}?{ts}" for seq, ts in pairs]


def test_a_worked_example() -> None:
    """0 and 2 send at the same time and get the same final; the rank decides. 1 has 2's final first, and waits for that of 0."""
    sites = Sites("two_phase", 3)
    seen = [0, 0, 0]
    for line in EXAMPLE.strip().splitlines():
        event, clock, delivers, says = (part.strip() for part in line.split("|"))
        rank, action = int(event[5]), event[8:]
        before = {way: len(queue) for way, queue in sites.queues.items()}
        if action == "send":
            sites.submit(rank)
        else:
            sites.pass_one(int(action[-1]), rank)
        site, bench = sites.sites[rank], sites.benches[rank]
        assert isinstance(site, TwoPhase)
        assert f"clock {site.clock}" == clock, line
        told = [f"{sender}{cast.seq}" for sender, cast, _, _ in bench.delivered[seen[rank] :]]
        seen[rank] = len(bench.delivered)
        assert "delivers " + " ".join(told) == delivers.ljust(9), line
        said: list[str] = []
        for to in range(3):
            for record in sites.queues.get((rank, to), [])[before.get((rank, to), 0) :]:
                said += [word for word in _words(rank, record, to) if word not in said]
        assert "says " + " ".join(said) == says.ljust(5), line
    for bench in sites.benches:
        assert [(position, evidence) for _, _, position, evidence in bench.delivered] == [
            ((0, 0, 6), (0, 2)),
            ((0, 0, 8), (2, 2)),
        ]


def test_a_message_takes_three_records_per_other_member() -> None:
    sites = Sites("two_phase", 5)
    sites.submit(3)
    sites.settle()
    assert sites.packets == 3 * 4
    assert sites.orders() == [[(3, 1)]] * 5


def test_the_proposals_and_the_finals_of_a_turn_are_one_record() -> None:
    site, bench = make("two_phase", 1, 2)
    site.accept(0, [Cast(1, 0, [], 1, [b"x"]), Cast(2, 0, [], 2, [b"y"])], 0)
    site.accept(0, [Cast(3, 0, [], 3, [b"z"])], 0)
    site.turn(0)
    assert bench.directs == [(0, Direct(2, [1, 1, 2, 2, 3, 3]))]
    sender, bench = make("two_phase", 0, 2)
    for _ in range(3):
        sender.submit(batch(b"x"), 0)
    sender.direct(1, Direct(2, [1, 1, 2, 5, 3, 6]), 0)
    sender.turn(0)
    assert [cast.stamp for cast in bench.casts[3:]] == [[1, 1, 2, 5, 3, 6]]
    assert [cast.seq for _, cast, _, _ in bench.delivered] == [1, 2, 3]


def _three(present: set[int]) -> list[tuple[int, int, tuple[int, ...] | None]]:
    """Member 1 of 4 ends a view: 0's first cast has a final, its second none; 2's first has one, its second none; 3 as 2."""
    site, bench = make("two_phase", 1, 4)
    for sender in (0, 2, 3):
        site.accept(sender, [Cast(1, 0, [], 1, [b"x"]), Cast(2, 0, [], 2, [b"y"])], 0)
    site.turn(0)
    site.accept(3, [Cast(3, 1, [1, 9])], 0)
    site.accept(2, [Cast(3, 1, [1, 8])], 0)
    site.accept(0, [Cast(3, 1, [1, 7])], 0)
    assert bench.delivered == []  # the second of 0 may get a final as small as 2
    assert site.conclude(frozenset(present), 0) == []
    return [(sender, cast.seq, position) for sender, cast, position, _ in bench.delivered]


def test_the_end_of_a_view_delivers_finals_and_what_present_senders_left_without() -> None:
    finals = [(0, 1, (0, 0, 28)), (2, 1, (0, 0, 34)), (3, 1, (0, 0, 39))]
    assert _three({1}) == finals
    assert _three({1, 2}) == [*finals, (2, 2, (0, 3, 2))]
    assert _three({0, 1, 2, 3}) == [*finals, (0, 2, (0, 1, 2)), (2, 2, (0, 3, 2)), (3, 2, (0, 4, 2))]


def test_what_depends_on_a_message_without_a_final_is_left_out() -> None:
    """3 had delivered 2's cast before it sent; 2's final is missing here, and both are elsewhere."""
    site, bench = make("two_phase", 1, 4)
    site.accept(2, [Cast(1, 0, [], 1, [b"x"])], 0)
    site.accept(3, [Cast(1, 0, [2, 1], 1, [b"y"]), Cast(2, 0, [], 2, [b"z"])], 0)
    site.accept(0, [Cast(1, 0, [], 1, [b"w"])], 0)
    site.turn(0)
    site.accept(3, [Cast(3, 1, [1, 6, 2, 7])], 0)
    site.accept(0, [Cast(2, 1, [1, 8])], 0)
    site.conclude(frozenset({0, 1}), 0)
    assert [(sender, cast.seq) for sender, cast, _, _ in bench.delivered] == [(0, 1)]


@pytest.mark.parametrize(
    ("kind", "stamp"), [(1, [1]), (1, [2, 5]), (1, [1, 0]), (1, [1, 5, 1, 6]), (3, [1, 5]), (0, [7, 1]), (0, [1])]
)
def test_a_malformed_cast_is_the_peers_fault(kind: int, stamp: list[int]) -> None:
    site, bench = make("two_phase", 1, 3)
    site.accept(0, [Cast(1, 0, [], 1, [b"x"])], 0)
    with pytest.raises(RemoteProtocolError):
        site.accept(0, [Cast(2, kind, stamp)], 0)
    site.accept(0, [Cast(2, 1, [1, 3])], 0)
    with pytest.raises(RemoteProtocolError):
        site.accept(0, [Cast(3, 1, [1, 4])], 0)
    assert len(bench.delivered) == 1


@pytest.mark.parametrize("stamp", [[1], [2, 1], [1, 0], [1, 3, 1, 4]])
def test_a_malformed_proposal_is_the_peers_fault(stamp: list[int]) -> None:
    site, _ = make("two_phase", 0, 3)
    site.submit(batch(b"x"), 0)
    for record in (Direct(2, stamp), Direct(0, [1, 3])):
        with pytest.raises(RemoteProtocolError, match="malformed proposal"):
            site.direct(1, record, 0)
    site.direct(1, Direct(2, [1, 3]), 0)
    with pytest.raises(RemoteProtocolError, match="malformed proposal"):
        site.direct(1, Direct(2, [1, 3]), 0)


def test_safe_waits_until_all_hold_the_final() -> None:
    """Everybody holds the message of b, but c lacks its final: nobody delivers."""
    bag = Bag(3, Ordering("two_phase", "safe"))
    assert bag.settle()
    bag.submit("b#1", 1)

    def no_finals(source: str, target: str, packet: Packet) -> Packet | Fate:
        finals = any(isinstance(record, Cast) and record.kind == 1 for record in packet.records)
        return Fate.DROP if target == "c#1" and finals else packet

    def told() -> list[int]:
        return [sum(isinstance(upcall, DeliveryBatch) for upcall in bag.upcalls[process]) for process in bag.live]

    bag.run(300 * MS, no_finals)
    assert told() == [0, 0, 0]
    assert bag.settle()
    assert told() == [1, 1, 1]
