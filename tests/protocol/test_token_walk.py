"""The token's walk, record by record: 001 Figure 2, the k of §4.2, quiet when idle, nonsense of peers."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from tests.protocol.token_sites import Sites

TOKEN = 1


def test_the_walk_of_figure_2() -> None:
    """The holder numbers, and the numbers travel with the token; to take it a member must have all messages before."""
    walk = Sites(3)
    walk.submit(1, b"x")  # p1 multicasts; p0 holds the token
    assert walk.said == []
    walk.bring(1, 0)
    assert walk.said == [(0, TOKEN, [0, 1, 1, 1, 1])]  # ring 0, hop 1, next p1: the next 1 message of p1 is number 1
    assert walk.delivered(0) == [(b"x", 1)]
    walk.bring(0, 2)  # the token's record overtakes the message: p2 knows the number, and waits
    assert walk.delivered(2) == []
    walk.bring(1, 2)
    assert walk.delivered(2) == [(b"x", 1)]
    walk.submit(2, b"y")
    walk.submit(0, b"z")  # p0 has passed the token on
    assert len(walk.said) == 1
    walk.bring(2, 1)
    assert len(walk.said) == 1  # p1 does not hold it yet
    walk.bring(0, 1)
    assert walk.said[1:] == [(1, TOKEN, [0, 2, 2, 2, 1])]  # it had y when it took the token, not z
    assert walk.delivered(1) == [(b"x", 1), (b"y", 2)]
    walk.bring(1, 2)
    assert walk.said[2:] == []  # p2 holds the token: it has everything that is numbered, and nothing to number
    walk.bring(0, 2)
    assert walk.said[2:] == [(2, TOKEN, [0, 3, 0, 0, 1])]
    walk.settle()
    for rank in range(3):
        assert walk.delivered(rank) == [(b"x", 1), (b"y", 2), (b"z", 3)]


def test_the_token_is_not_taken_without_the_messages() -> None:
    walk = Sites(3)
    walk.submit(2, b"x")
    walk.bring(2, 0)
    walk.submit(1, b"y")
    walk.bring(0, 1)  # p1 is named, and has a message of its own to number, but lacks x
    assert [rank for rank, _, _ in walk.said] == [0]
    walk.bring(2, 1)
    assert walk.said[1:] == [(1, TOKEN, [0, 2, 2, 1, 1])]


def test_an_idle_ring_is_quiet_and_awake_at_once() -> None:
    walk = Sites(3)
    walk.submit(0, b"x")
    walk.settle()
    walk.wait(10_000_000_000)
    assert len(walk.said) == 1
    assert [site.deadline() for site in walk.sites] == [None, None, None]
    walk.submit(2, b"y")
    walk.bring(2, 1)  # the holder numbers it in the turn in which it comes
    assert walk.said[1:] == [(1, TOKEN, [0, 2, 2, 2, 1])]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_the_token_makes_its_remaining_hops_when_the_ring_falls_idle(k: int) -> None:
    """One message: the token goes on until k members have had it, and rests."""
    walk = Sites(5, "k", k)
    walk.submit(3, b"x")
    walk.settle()
    assert [rank for rank, _, _ in walk.said] == list(range(k))
    assert all(walk.delivered(rank) == [(b"x", 1)] for rank in range(5))


def test_with_k_3_a_member_waits_for_the_second_hop() -> None:
    """p3 has the message and the first hop: with itself that makes two holders, the next hop proves the third."""
    walk = Sites(4, "k", 3)
    walk.submit(0, b"x")
    walk.bring(0, 3, 2)
    assert walk.delivered(3) == []
    walk.bring(0, 1, 2)
    walk.bring(1, 3)
    assert walk.delivered(3) == [(b"x", 1)]
    assert (1, 0, 2) in walk.benches[3].proofs  # p1 holds both casts of p0


def test_a_suspected_member_is_passed_over() -> None:
    walk = Sites(3)
    walk.suspect(0, 1)
    walk.submit(0, b"x")
    assert walk.said == [(0, TOKEN, [0, 1, 2, 0, 1])]


@pytest.mark.parametrize(
    ("kind", "stamp"),
    [
        (1, []), (1, [0, 1]), (1, [0, 1, 1, 0]), (1, [0, 0, 1]), (1, [-1, 1, 1]), (1, [0, 1, 3]), (1, [0, 1, 1, 3, 1]),
        (1, [0, 1, 1, 0, 0]), (2, [0]), (2, [0, -1]), (2, [-1, 0]), (3, [1, 1]), (3, [0, 1, 0]), (3, [1, 0, 0]),
        (3, [1, 1, 0, 0]), (3, [1, 1, 3]), (9, []),
    ],
)  # fmt: skip
def test_a_cast_that_nobody_sends_is_refused(kind: int, stamp: list[int]) -> None:
    walk = Sites(3)
    with pytest.raises(RemoteProtocolError):
        walk.sites[0].accept(1, [Cast(1, kind, stamp)], 0)
    walk.submit(1, b"x")
    walk.settle()
    assert walk.delivered(0) == [(b"x", 1)]


def test_a_hop_that_was_made_already_is_refused() -> None:
    walk = Sites(3)
    walk.submit(0, b"x")
    walk.settle()
    with pytest.raises(RemoteProtocolError, match="cannot have"):
        walk.sites[1].accept(2, [Cast(1, TOKEN, [0, 1, 0])], 0)


def test_a_hop_of_a_member_that_was_not_named_does_not_count() -> None:
    walk = Sites(3)
    walk.sites[1].accept(2, [Cast(1, TOKEN, [0, 1, 2])], 0)
    assert walk.sites[1].chain.top == 0


@pytest.mark.parametrize("record", [Direct(4, []), Direct(4, [-1, 0, 0, 0]), Direct(4, [0, 2, 3, -1, 0]), Direct(7, [])])
def test_a_direct_record_that_nobody_sends_is_refused(record: Direct) -> None:
    with pytest.raises(RemoteProtocolError):
        Sites(3).sites[0].direct(1, record, 0)


def test_a_hop_that_numbers_nothing_is_evidence_of_the_next_message() -> None:
    """Without it the chain is broken: who lacks that hop cannot deliver what comes after it."""
    walk = Sites(3, "safe")
    walk.submit(0, b"x")
    walk.settle()  # with `safe` all three have had the token: hops 2 and 3 number nothing
    walk.submit(1, b"y")
    walk.settle()
    empty = [(rank, stamp[1]) for rank, kind, stamp in walk.said if kind == TOKEN and len(stamp) == 3]
    numbering = [(rank, stamp[1]) for rank, kind, stamp in walk.said if kind == TOKEN and len(stamp) > 3]
    between = [rank for rank, hop in empty if numbering[0][1] < hop < numbering[1][1]]
    assert between
    for bench in walk.benches:
        _, cast, _, evidence = bench.delivered[1]
        assert cast.payloads == [b"y"]
        assert evidence is not None
        assert set(evidence[0::2]) == {numbering[1][0], *between}
