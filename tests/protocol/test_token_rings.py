"""Core changes, record by record: a lost token, old tokens, numbers that must not be given twice, the end of views."""

from __future__ import annotations

from itertools import pairwise

import pytest

from isotone.model.records import Cast, Direct
from isotone.model.settings import MS, SECOND
from isotone.protocol.membership.consensus import DECIDE
from isotone.protocol.ordering.token.chain import Chain, Hop, Ring
from isotone.protocol.ordering.token.ring import BALLOT, FREEZE, RING, Changes
from tests.mutants.token import as_printed
from tests.protocol.bag import TIMING
from tests.protocol.token_sites import Sites

TOKEN = 1


def kinds(walk: Sites, kind: int) -> list[tuple[int, list[int]]]:
    return [(rank, stamp) for rank, known, stamp in walk.said if known == kind]


def test_a_lost_token_is_made_anew_exactly_once() -> None:
    """p1 is named, and gone. With k = 2 the others go on without it: one new ring, one first hop in it."""
    walk = Sites(4, "k", 2)
    walk.submit(0, b"x")  # p0 numbers x and passes the token to p1
    walk.settle(1)
    walk.submit(2, b"y")
    walk.settle(1)
    for rank in (0, 2, 3):
        walk.suspect(rank, 1)
    walk.wait(SECOND, 1)
    assert kinds(walk, FREEZE) == [(0, [0, 1]), (2, [0, 1]), (3, [0, 1])]
    assert [stamp for _, stamp in kinds(walk, RING)] == [[1, 2, 0, 2, 3]]  # ring 1 starts at hop 2 with core p0, p2, p3
    hops = [stamp for _, stamp in kinds(walk, TOKEN) if stamp[0] == 1]
    assert hops[0] == [1, 2, 2, 2, 1]
    assert [stamp[1] for stamp in hops] == [2, 3]  # and every hop once
    for rank in (0, 2, 3):
        assert walk.delivered(rank) == [(b"x", 1), (b"y", 2)]
        assert walk.benches[rank].cores == [(1, (0, 2, 3))]
        assert walk.sites[rank].core == (0, 2, 3)
    walk.settle()  # p1 is heard again: it learns everything, outside the core
    assert walk.delivered(1) == [(b"x", 1), (b"y", 2)]


def test_a_token_of_an_old_ring_is_dropped() -> None:
    """p0 numbers x for itself while the others change the ring: its hop is void, and x gets its number from the new ring."""
    walk = Sites(4, "k", 2)
    walk.submit(1, b"y")
    walk.bring(1, 2)
    walk.bring(1, 3)
    walk.submit(0, b"x")  # hop 1 of ring 0; nobody gets it yet
    assert kinds(walk, TOKEN) == [(0, [0, 1, 1, 0, 1])]
    for rank in (1, 2, 3):
        walk.suspect(rank, 0)
    walk.wait(SECOND, 0)
    assert [stamp[:2] for _, stamp in kinds(walk, RING)] == [[1, 1]]  # nobody who answered had hop 1
    assert walk.delivered(1) == [(b"y", 1)]
    assert walk.delivered(0) == []  # with k = 2 nobody has delivered what p0 alone knew
    walk.settle()
    assert walk.sites[0].chain.void == 1
    walk.wait(100 * MS)
    for rank in range(4):
        assert walk.delivered(rank) == [(b"y", 1), (b"x", 2)]


def test_a_number_that_was_delivered_is_not_given_again() -> None:
    """The first hop reached p3 only, which delivered it: whoever answers, one of them has it, and ring 1 starts after it."""
    walk = Sites(4, "k", 2)
    walk.submit(0, b"x")
    walk.bring(0, 3, 2)
    assert walk.delivered(3) == [(b"x", 1)]
    for rank in (1, 2, 3):
        walk.suspect(rank, 0)
    walk.submit(1, b"y")
    walk.wait(SECOND, 0)
    assert kinds(walk, RING)[0][1][:2] == [1, 2]
    assert kinds(walk, RING)[0][1][2] == 3  # p3, which holds everything, is the first of the new ring
    walk.settle()
    for rank in range(4):
        assert walk.delivered(rank)[0] == (b"x", 1)


def test_with_k_1_a_soft_suspicion_changes_nothing() -> None:
    """Every member of the ring would have to answer: the hard threshold is what helps then."""
    walk = Sites(4)
    for rank in (0, 2, 3):
        walk.suspect(rank, 1)
    walk.wait(10 * SECOND, 1)
    assert walk.said == []
    assert all(walk.sites[rank].deadline() is None for rank in (0, 2, 3))


def test_a_minority_begins_no_change() -> None:
    walk = Sites(5, "k", 3)
    for peer in (2, 3, 4):
        walk.suspect(0, peer)
        walk.suspect(1, peer)
    walk.wait(SECOND, 2, 3, 4)
    assert walk.said == []


def test_a_trusted_member_returns_to_the_core_later_each_time() -> None:
    walk = Sites(4, "k", 2)
    waits = []
    for _ in range(4):
        for rank in (0, 1, 2):
            walk.suspect(rank, 3)
        walk.wait(200 * MS, 3)
        assert walk.sites[0].core == (0, 1, 2)
        for rank in (0, 1, 2):
            walk.trust(rank, 3)
        began = walk.now
        while walk.sites[0].core != (0, 1, 2, 3):
            walk.wait(5 * MS)
        waits.append(walk.now - began)
        walk.wait(50 * MS)
        assert {site.core for site in walk.sites} == {(0, 1, 2, 3)}
    for earlier, later in pairwise(waits):
        assert later - earlier > earlier // 2
    assert waits[0] >= 2 * TIMING.soft_ns


def test_who_would_come_back_later_is_taken_when_the_core_needs_it() -> None:
    """p3 and p4 have flapped and are to wait. Then p2 is gone: without one of them two of five would be left."""
    walk = Sites(5, "k", 2)
    for flaps in range(3):
        for rank in (0, 1, 2):
            walk.suspect(rank, 3)
        walk.wait(SECOND, 3)
        for rank in (0, 1, 2):
            walk.suspect(rank, 4)
        walk.wait(SECOND, 3, 4)
        assert walk.sites[0].core == (0, 1, 2), flaps
        for rank in (0, 1, 2):
            walk.trust(rank, 3)
            walk.trust(rank, 4)
        if flaps < 2:
            walk.wait(20 * SECOND)
            assert walk.sites[0].core == (0, 1, 2, 3, 4), flaps
    for rank in (0, 1, 3, 4):
        walk.suspect(rank, 2)
    walk.submit(1, b"x")
    walk.wait(8 * TIMING.heartbeat_ns, 2)
    core = walk.sites[0].core
    assert len(core) == 3, "no more of them than it takes"
    assert {0, 1} < set(core) < {0, 1, 3, 4}
    assert all(walk.delivered(rank) == [(b"x", 1)] for rank in (0, 1, 3, 4))


def test_the_first_member_of_a_change_may_fail_half_way() -> None:
    """p0 freezes the ring and is gone before it proposes: the next member steps in."""
    walk = Sites(5, "k", 3)
    walk.suspect(0, 4)
    for rank in range(1, 4):
        walk.suspect(rank, 4)
    walk.sites[0].wake(0)
    walk.turn(0)
    walk.bring(0, 1)  # only p1 hears that p0 froze the ring
    for rank in (1, 2, 3):
        walk.suspect(rank, 0)
    walk.wait(2 * SECOND, 0, 4)
    assert {walk.sites[rank].core for rank in (1, 2, 3)} == {(1, 2, 3)}
    walk.submit(2, b"x")
    walk.wait(100 * MS, 0, 4)
    assert all(walk.delivered(rank) == [(b"x", 1)] for rank in (1, 2, 3))


def test_a_core_smaller_than_k() -> None:
    """k = 4 of 5, a core of 3: the ring's own part needs all three of them, the rest of k are for the gate to wait for."""
    walk = Sites(5, "k", 4)
    for rank in (0, 1, 2):
        walk.suspect(rank, 3, 4)
    walk.wait(SECOND, 3, 4)
    assert walk.sites[0].core == (0, 1, 2)
    assert not walk.sites[0].proves  # so the members report what they hold
    walk.submit(1, b"x")
    walk.settle(3, 4)
    assert [rank for rank, stamp in kinds(walk, TOKEN) if stamp[0] == 1][-3:] == [0, 1, 2]
    assert all(walk.delivered(rank) == [(b"x", 1)] for rank in (0, 1, 2))
    assert {member for member, _, _ in walk.benches[0].proofs} == {1, 2}


def test_three_components_end_the_view() -> None:
    """A change is decided in one component, answered but undecided in another; the old holder is alone in the third."""
    walk = Sites(5, "k", 2)
    walk.submit(1, b"x")
    walk.settle()  # x is number 1, and the token rests with p2 after hops of p0 and p1
    assert walk.sites[4].chain.holder == 2
    walk.submit(2, b"y")  # hop 3 of p2, which reaches nobody; p3 is named
    for rank in (0, 1, 3, 4):
        walk.suspect(rank, 2)
    walk.submit(0, b"z")
    walk.wait(SECOND, 2)
    assert walk.sites[3].core == (0, 1, 3, 4)
    ended = [site.conclude(frozenset({rank}), walk.now) for rank, site in enumerate(walk.sites)]
    assert [cast.payloads[0] for cast in ended[2]] == [b"y"]  # it may be numbered elsewhere
    assert walk.delivered(2) == [(b"x", 1)]
    for rank in (0, 1, 3, 4):
        assert walk.delivered(rank) == [(b"x", 1), (b"z", 2)]


def test_the_holder_alone_delivers_no_rest_that_another_ring_may_number() -> None:
    """k = 3 of 5: the holder is here and has not frozen, but three others suffice for another ring."""
    walk = Sites(5, "k", 3)
    walk.submit(1, b"x")
    walk.bring(1, 4)
    returned = walk.sites[0].conclude(frozenset({0}), 0)
    assert returned == []
    assert walk.delivered(0) == []
    walk = Sites(5, "k", 3)
    walk.submit(0, b"x")  # numbered by p0, proven by nobody else
    assert [cast.payloads[0] for cast in walk.sites[0].conclude(frozenset({0}), 0)] == [b"x"]
    walk = Sites(5, "k", 3)
    walk.submit(0, b"x")
    walk.bring(0, 1, 2)
    walk.bring(0, 2, 2)
    for rank in (0, 1, 2):  # three of the ring that have not frozen: nobody else can have made another ring
        for source in (0, 1, 2):
            if source != rank:
                walk.bring(source, rank, len(walk.queues[source, rank]))
    for rank in (0, 1, 2):
        walk.sites[rank].conclude(frozenset({0, 1, 2}), 0)
        assert walk.delivered(rank) == [(b"x", 1)]


def test_what_algorithm_2_as_printed_would_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """p0 numbers x and p4 delivers it; both are out of reach. Three of five remain, of which none has heard of x.

    As printed, the three agree on a new ring and give number 1 to y. As mended, four of the ring's five must answer with k = 2,
    one of whom has x: the three wait.
    """

    def lost() -> Sites:
        walk = Sites(5, "k", 2)
        walk.submit(0, b"x")
        walk.bring(0, 4, 2)
        assert walk.delivered(4) == [(b"x", 1)]
        for rank in (1, 2, 3):
            walk.suspect(rank, 0, 4)
        walk.submit(1, b"y")
        walk.wait(2 * SECOND, 0, 4)
        return walk

    walk = lost()
    assert all(walk.delivered(rank) == [] for rank in (1, 2, 3))
    assert kinds(walk, RING) == []
    for rank in (1, 2, 3):
        walk.trust(rank, 4)
    walk.wait(2 * SECOND, 0)  # p4 is back: now the change can be made, and x keeps its number
    assert kinds(walk, RING)[0][1] == [1, 2, 4, 1, 2, 3]
    walk.wait(SECOND)
    assert all(walk.delivered(rank) == [(b"x", 1), (b"y", 2)] for rank in range(5))

    as_printed(monkeypatch)
    monkeypatch.setattr(Changes, "_wanted_at", lambda self, now: now if set(self.soft) & set(self.chain.ring.core) else None)
    walk = lost()
    assert all(walk.delivered(rank) == [(b"y", 1)] for rank in (1, 2, 3))  # and p4 has x as number 1


def test_a_hop_of_the_next_ring_comes_before_its_announcement() -> None:
    """Found by the swarm: it has the number of a hop that is linked here, and will be void."""
    chain = Chain(3, 4, 2)
    chain.add(0, Hop(1, 0, 1, 1, [(0, 1)]))
    chain.add(1, Hop(1, 1, 1, 2, [(1, 1)]))
    assert chain.top == 1
    assert chain.announce(Ring(1, 1, (1, 2, 3)))
    assert (chain.top, chain.holder, chain.taken, chain.void) == (1, 2, [0, 1, 0, 0], 1)


def test_two_rings_with_one_start() -> None:
    """Found by the swarm: the later one's first member makes the hop."""
    chain = Chain(3, 4, 2)
    assert chain.announce(Ring(1, 2, (1, 2, 3)))
    assert chain.announce(Ring(2, 2, (2, 3)))
    chain.add(0, Hop(1, 0, 1, 1, [(0, 1)]))
    assert chain.holder == 2
    chain.add(2, Hop(2, 2, 1, 3, []))
    assert chain.top == 2


def test_rings_may_be_announced_in_any_order() -> None:
    chain = Chain(3, 4, 2)
    assert not chain.announce(Ring(2, 3, (3, 1)))
    chain.add(2, Hop(3, 3, 1, 1, []))
    chain.add(1, Hop(2, 1, 1, 2, []))
    chain.add(0, Hop(1, 0, 1, 1, []))
    assert chain.announce(Ring(1, 2, (1, 2)))
    assert (chain.ring.number, chain.top, chain.holder) == (2, 3, 1)


def test_only_the_announcement_counts() -> None:
    """p2 hears of the decision but not of its announcement, which alone the flush covers: it stays in the old ring."""
    walk = Sites(4, "k", 2)
    walk.submit(0, b"x")
    walk.settle(1)
    for rank in (0, 2, 3):
        walk.suspect(rank, 1)
    for _ in range(100):
        for way, queue in walk.queues.items():
            while queue and 1 not in way and not (way[1] == 2 and isinstance(queue[0], Cast) and queue[0].kind == RING):
                walk.bring(*way)
        walk.now += 5 * MS
        for rank in (0, 2, 3):
            walk.sites[rank].wake(walk.now)
            walk.turn(rank)
        if walk.sites[0].core != (0, 1, 2, 3):
            break
    walk.sites[2].direct(0, Direct(BALLOT, [0, DECIDE, 0, -1, 2, 0, 2, 3]), walk.now)
    walk.turn(2)
    assert walk.sites[0].core == (0, 2, 3)
    assert walk.sites[2].core == (0, 1, 2, 3)
    walk.settle(1)
    assert walk.sites[2].core == (0, 2, 3)
