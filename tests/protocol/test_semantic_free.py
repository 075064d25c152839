"""Free casts of `semantic_total` that come alone, in plain times: they go the shortest way, and say what others would say."""

from __future__ import annotations

import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast
from isotone.protocol.ordering.clocks import CATCH_UP_NS
from isotone.protocol.semantic import casting, passing
from isotone.protocol.semantic.casting import BUSY
from isotone.protocol.semantic.passing import BLOCK
from tests.protocol.total_bench import Message, Total

TYPES = Conflicts.by_operation({"ordered": ["ordered"], "free": []})
FREE: Message = ("free", None)
ORDERED: Message = ("ordered", None)
WILD: Message = (None, None)


def acquainted() -> Total:
    """Three sites that have got free casts of each other, so that they know the type."""
    run = Total(3, TYPES)
    for rank in range(3):
        run.send(rank, FREE)
        run.settle()
    assert all(site.orderer.plain for site in run.sites)
    assert all(len(run.order(rank)) == 3 for rank in range(3))
    return run


def free(seq: int, *stamp: int) -> Cast:
    return Cast(seq, 0, list(stamp), seq, [b"x"], Column(["free"]))


def test_one_that_is_not_ready_waits_and_ends_plain_times() -> None:
    run = acquainted()
    run.send(0, FREE)
    run.pass_all(0, 1)
    run.send(1, FREE)
    run.pass_all(1, 2)
    assert not run.sites[2].orderer.plain
    assert len(run.order(2)) == 3
    run.settle()
    assert run.order(2)[3:] == [(0, 2), (1, 2)]
    run.check(range(3))


def test_what_conflicts_and_comes_late_is_seen_by_a_turn_that_had_nothing_to_do() -> None:
    """Its timestamp moves no clock, and all that lets it go may be here before it."""
    run = acquainted()
    run.send(2, ORDERED)
    run.settle()
    site = run.sites[1].orderer
    run.sites[0].orderer.under_way = 1000 * BUSY  # its free casts move the clock
    for _ in range(3):
        run.send(0, FREE)
    run.pass_all(0, 1)
    site.wake(run.now)  # it says its clock
    run._turn(1)
    assert site.idle
    assert site.lcv[2] + 1 < site.lcv[1]
    site.accept(2, [Cast(3, 0, [site.lcv[2] + 1], 3, [b"x"], Column(["ordered"]))], run.now)
    assert site.undelivered
    assert not site.idle


def test_who_got_one_says_so_with_the_next_own_cast() -> None:
    run = acquainted()
    run.send(0, FREE)
    run.pass_all(0, 2)
    [cast] = run.send(2, ORDERED)
    assert cast.stamp[1:] == [0, 2]
    run.pass_all(2, 1)
    run.send(1, FREE)
    run.settle()
    run.check(range(3))


@pytest.mark.parametrize("plain", [True, False])
def test_timestamps_have_to_increase_but_for_free_casts_that_say_the_clock(plain: bool) -> None:
    run = acquainted()
    run.send(0, ORDERED)
    run.send(0, FREE)
    run.pass_all(0, 2)
    site = run.sites[2].orderer
    if not plain:
        site.unfold()
    clock = site.lcv[0]
    assert clock == site.lcv[2] == 1
    for stamp in ([clock - 1], []):
        with pytest.raises(RemoteProtocolError, match="do not increase"):
            site.accept(0, [free(4, *stamp)], 0)
    for stamp in ([clock], [clock - 1], []):
        with pytest.raises(RemoteProtocolError, match="do not increase"):
            site.accept(0, [Cast(4, 0, stamp, 4, [b"x"], Column(["ordered"]))], 0)
        with pytest.raises(RemoteProtocolError, match="do not increase"):
            site.accept(0, [Cast(4, 0, stamp, 4, [b"x", b"x"], Column(["free", "ordered"], bytes(2)))], 0)
    for stamp, match in (
        ([clock, 1], "not pairs"),
        ([clock, 1, 99, 7, 1], "depends on cast 1 of rank 7"),
        ([clock, 0, 99], "depends on cast 99 of rank 0"),
        ([clock, 2, 99], "depends on cast 99 of rank 2"),
        ([clock, 1, -99], "depends on cast -99 of rank 1"),
    ):
        with pytest.raises(RemoteProtocolError, match=match):
            site.accept(0, [free(4, *stamp)], 0)
    assert len(run.order(2)) == 5
    site.accept(0, [free(4, clock)], 0)
    site.accept(0, [free(5, clock + 1)], 0)
    assert len(run.order(2)) == 7


def test_in_quiet_times_free_casts_say_the_clock_and_nobody_answers() -> None:
    """Silence is no lag then: the next one that conflicts finds the clocks where they were after the last such."""
    run = acquainted()
    for _ in range(3):
        run.send(1, ORDERED)
        run.settle()
        for site in run.sites:
            site.orderer.wake(run.now)  # who was allowed to keep silent says its clock a moment later
            run._turn(site.rank)
        run.settle()
        clock = run.sites[0].orderer.lcv[:]
        said = [len(site.notes) for site in run.sites]
        for rank in range(3):
            [cast] = run.send(rank, FREE)
            assert cast.stamp[0] == clock[rank] == max(clock)
            run.settle()
            assert all(site.orderer.deadline() is None for site in run.sites)
        assert run.sites[0].orderer.lcv == clock
        assert [len(site.notes) for site in run.sites] == said
    [cast] = run.send(0, ORDERED)
    run.pass_on(0, 1)
    run.pass_on(0, 2)
    assert (0, cast.seq) in run.order(1)  # as in `single_phase`: from the first site it needs no answer
    assert (0, cast.seq) in run.order(2)
    run.settle()
    positions = [position for _, _, position, _ in run.sites[2].delivered]
    assert len(set(positions)) == len(positions)
    assert all(sorted(run.order(rank)) == sorted(run.order(2)) for rank in range(2))
    run.check(range(3))


def test_where_much_is_under_way_free_casts_move_the_clock() -> None:
    """What conflicts then finds clocks that have passed it before anybody has answered."""
    run = acquainted()
    for _ in range(100):
        for rank in range(3):
            run.send(rank, FREE)
        for way in run.waiting():
            run.pass_on(*way)  # all send before they get what the others sent
    assert all(site.orderer.under_way > BUSY for site in run.sites)
    clock = run.sites[0].orderer.lcv[0]
    [cast] = run.send(0, FREE)
    assert cast.stamp[0] == clock + 1
    run.settle()
    for _ in range(200):  # one after the other
        for rank in range(3):
            run.send(rank, FREE)
            run.settle()
    assert all(site.orderer.under_way < BUSY for site in run.sites)
    clock = run.sites[0].orderer.lcv[0]
    [cast] = run.send(0, FREE)
    assert cast.stamp[0] == clock
    run.settle()
    run.check(range(3))


def test_free_casts_of_one_clock_wait_in_the_order_in_which_they_came() -> None:
    """p1 has what p2 lacks, and sends three that say the same clock: they wait, in a view that ends too."""
    for ends in (False, True):
        run = acquainted()
        run.send(0, ORDERED)
        run.pass_all(0, 1)
        casts = [cast for _ in range(3) for cast in run.send(1, FREE)]
        assert len({cast.stamp[0] for cast in casts}) == 1
        run.pass_all(1, 2)
        assert len(run.order(2)) == 3
        if ends:
            run.end([1, 2])
        else:
            run.settle()
        assert [place for place in run.order(2) if place[0] == 1][1:] == [(1, cast.seq) for cast in casts]
        run.check([1, 2])


def test_before_a_block_ends_free_casts_move_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has said the last clock of a block may be taken to send nothing before the first one of the next block."""
    monkeypatch.setattr(casting, "BLOCK", 2)
    monkeypatch.setattr(passing, "BLOCK", 2)
    run = acquainted()
    for _ in range(3):
        run.send(1, ORDERED)
        run.settle()
    assert run.sites[2].orderer.lcv[2] == 3
    run.sites[2].orderer.wake(run.now)
    run._turn(2)
    run.settle()  # all know it
    [wild] = run.send(1, (None, None))
    assert wild.stamp[0] == 4
    run.pass_on(1, 0)
    assert (1, wild.seq) in run.order(0)  # the site of rank 2 is past that
    [late] = run.send(2, FREE)
    assert late.stamp[0] == 4
    run.settle()
    assert all(run.order(rank).index((1, wild.seq)) < run.order(rank).index((2, late.seq)) for rank in range(3))
    run.check(range(3))
    with pytest.raises(RemoteProtocolError, match="do not increase"):
        acquainted().sites[2].orderer.accept(0, [free(2, 3), free(3, 3)], 0)


def test_one_of_a_later_block_ends_plain_times() -> None:
    """Its sender may have heard of a wild cast, with which it conflicts."""
    run = acquainted()
    site = run.sites[2].orderer
    site.accept(0, [free(2, 1 << BLOCK)], 0)
    assert not site.plain
    assert len(run.order(2)) == 3


def test_it_tells_that_its_sender_is_past_what_waits() -> None:
    run = acquainted()
    run.send(1, ORDERED)
    run.pass_on(1, 2)
    run.pass_on(1, 0)
    run.ways[0, 2].clear()  # the acknowledgement is lost for a while
    assert len(run.order(2)) == 3
    run.send(0, FREE)
    run.pass_on(0, 2)
    assert run.order(2)[3:] == [(0, 2), (1, 2)]  # one as soon as it came, the other because of it


def test_after_a_conflict_it_is_acknowledged_a_moment_later() -> None:
    run = acquainted()
    run.send(0, ORDERED)
    run.settle()
    run.send(0, FREE)
    run.pass_on(0, 1)
    site = run.sites[1]
    assert not run.ways[1, 2]
    due = site.orderer.deadline()
    assert due is not None
    site.orderer.wake(due)
    assert [record.stamp for record in site.news] == [[site.orderer.lcv[0]]]


def test_after_a_wild_cast_its_sender_delivers_its_own_free_ones_at_once() -> None:
    """All others are still tame, and in the block of that cast: nobody has to say anything."""
    run = Total(3, TYPES)
    run.send(2, WILD)
    run.settle()
    (cast,) = run.send(2, FREE)
    assert run.order(2)[-1] == (2, cast.seq)
    run.settle()
    run.check(range(3))


def test_a_free_cast_that_asks_for_more_is_acknowledged_as_soon_as_it_is_handed_over() -> None:
    """It moves no clock, but who was allowed to keep silent about what conflicts no longer is."""
    run = acquainted()
    for site in run.sites:
        site.orderer.wake(run.now)
        run._turn(site.rank)
    run.settle()
    run.send(0, ORDERED)
    run.pass_on(0, 1)
    late = run.sites[1].orderer
    assert late.deadline() == run.now + CATCH_UP_NS
    run.pass_on(0, 2)
    (free,) = run.send(2, FREE)
    assert free.stamp[0] == late.lcv[1]
    while free not in run.pass_on(2, 1):
        pass
    assert late.deadline() == run.now
