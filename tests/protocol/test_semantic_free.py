"""Free casts of `semantic_total` that come alone, in plain times: they go the shortest way, and say what others would say."""

from __future__ import annotations

import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast
from isotone.protocol.semantic.passing import BLOCK
from tests.protocol.total_bench import Message, Total

TYPES = Conflicts.by_operation({"ordered": ["ordered"], "free": []})
FREE: Message = ("free", None)
ORDERED: Message = ("ordered", None)


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


def test_timestamps_have_to_increase() -> None:
    run = acquainted()
    run.send(0, FREE)
    run.pass_all(0, 2)
    site = run.sites[2].orderer
    clock = site.lcv[0]
    assert clock == site.lcv[2] == 4
    for stamp in ([clock], [clock - 1], []):
        with pytest.raises(RemoteProtocolError, match="do not increase"):
            site.accept(0, [free(3, *stamp)], 0)
    with pytest.raises(RemoteProtocolError, match="not pairs"):
        site.accept(0, [free(3, clock + 1, 1)], 0)
    assert len(run.order(2)) == 4
    site.accept(0, [free(3, clock + 1)], 0)
    assert len(run.order(2)) == 5


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
