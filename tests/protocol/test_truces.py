"""Truces of `semantic_total`, record by record: who sends anything, but not what conflicts with what others usually send."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.clocks import ACK
from isotone.protocol.semantic import casting, leads
from isotone.protocol.semantic.leads import LENGTH, Leader
from isotone.protocol.semantic.shapes import Shapes
from isotone.protocol.semantic.truces import Counts, Truce
from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker
from tests.protocol.total_bench import Message, Total, learning_at_once, told

__all__ = ["learning_at_once"]
BY_ITEM = Conflicts.by_item()
COUNTER = Conflicts.by_operation({"update": ["update", "increment"], "increment": []})


def item(*names: str) -> Message:
    return None, names


def at_peace(count: int = 3) -> Total:
    """Every member has sent its own item often, and others that nobody else sends: all spare each other's own ones."""
    run = Total(count, BY_ITEM)
    for turn in range(8 * count):
        for rank in range(count):
            run.send(rank, item(f"of {rank}"))
            if turn % 3 == rank % 3:
                run.send(rank, item(f"once {turn} {rank}"))
        run.settle()
    for site in run.sites:
        assert site.orderer.truces[site.rank].end > max(site.orderer.lcv)
        assert len(site.orderer.truces[site.rank].names) == count - 1
        assert site.orderer.leader.lead.end < max(site.orderer.lcv)
        site.notes.clear()
    return run


def test_who_sends_now_this_now_that_gives_a_truce_and_need_not_jump() -> None:
    run = at_peace()
    (own,) = run.send(0, item("of 0"))
    assert run.order(0)[-1] == (0, own.seq)  # at once
    run.pass_on(0, 1)
    assert run.order(1)[-1] == (0, own.seq)
    assert not run.ways[1, 0]  # nobody has to acknowledge
    clock = max(run.sites[1].orderer.lcv)
    (other,) = run.send(1, item("shared"))
    assert other.stamp[0] == clock + 1
    assert run.order(1)[-1] == (0, own.seq)  # nobody has promised anything about this one
    run.pass_all(1, 0)
    run.pass_all(1, 2)
    assert told(run.ways[0, 1])[-1] == told(run.ways[2, 1])[-1] == ("ack", [clock + 1])
    run.settle()
    assert run.order(1)[-1] == (1, other.seq)
    assert not any("jumps" in site.notes for site in run.sites)
    run.check(range(3))


def test_what_conflicts_with_something_spared_jumps() -> None:
    run = at_peace()
    end = run.sites[1].orderer.leader.truce.end
    (early,) = run.send(0, item("of 0"))
    (jump,) = run.send(1, item("of 0", "of 1"))
    assert jump.stamp[0] == end + 1
    run.pass_on(0, 2)
    assert run.order(2)[-1] == (0, early.seq)
    run.settle()
    assert all(run.order(rank).index((0, early.seq)) < run.order(rank).index((1, jump.seq)) for rank in range(3))
    run.check(range(3))


def test_a_truce_reaches_who_has_not_seen_what_it_spares() -> None:
    run = Total(3, BY_ITEM)
    for site in run.sites:
        site.orderer.leader._wait = 1 << 40  # no leads
    for _ in range(10):
        run.send(0, item("of 0"))
        run.pass_all(0, 1)
    run.pass_all(1, 2)
    truce = run.sites[2].orderer.truces[1]
    assert truce.names == {(0, 1): None}
    assert len(truce.shapes.all) == 0
    run.settle()
    assert list(truce.names.values()) == list(truce.shapes.all)
    assert truce.end > max(run.sites[2].orderer.lcv)
    (last,) = run.send(0, item("of 0"))
    run.pass_all(0, 1)
    run.pass_all(0, 2)
    assert not told(run.ways[1, 2])
    assert run.order(2)[-1] == (0, last.seq)
    run.check(range(3))


def test_a_truce_becomes_more_until_it_ends() -> None:
    run = at_peace(2)
    leader = run.sites[0].orderer.leader
    leader._wait = 1 << 40  # no lead
    before, end = set(leader.truce.names), leader.truce.end
    for _ in range(8):
        run.send(1, item("new of 1"))
        run.settle()
    assert set(leader.truce.names) > before
    assert leader.truce.end > end
    run.send(0, item("of 1"))  # jumps; what it conflicts with is no longer spared
    run.send(1, item("new of 1"))
    run.settle()
    for _ in range(3):
        run.send(1, item("new of 1"))
        run.settle()
    assert [shape.items for shape in leader.truce.shapes.all] == [("new of 1",)]
    run.check(range(2))


def test_a_lead_that_others_would_not_mind_to_see_jumped_over_becomes_a_truce() -> None:
    run = Total(2, BY_ITEM)
    for _ in range(12):
        run.send(1, item("of 1"))
        run.settle()
    assert run.sites[0].orderer.leader.lead.end > LENGTH
    run.send(0, item("seldom"))
    assert "jumps" in run.sites[0].notes
    (jump,) = run.sites[0].stream
    assert told(run.ways[0, 1])[-1] == ("truce", [jump.stamp[0], jump.stamp[0] + LENGTH, 1, 1])
    run.settle()
    clock = max(run.sites[0].orderer.lcv)
    (again,) = run.send(0, item("another"))
    assert again.stamp[0] == clock + 1
    run.settle()
    run.check(range(2))


def test_who_gets_a_truce_when_its_number_is_forgotten_waits_for_the_clock() -> None:
    """p1 spares p0's own item. p2 gets that last, and has forgotten the number; the clock, said later, will do."""
    run = Total(3, BY_ITEM)
    for site in run.sites:
        site.orderer.leader._wait = 1 << 40
    for _ in range(11):
        run.send(0, item("of 0"))
        run.pass_all(0, 1)
    (last,) = run.send(0, item("of 0"))
    run.pass_all(0, 1)
    assert told(run.ways[1, 2])[-1][0] == "truce"  # p1 acknowledges the last one later
    for number in range(300):
        run.send(0, item(f"once {number}"))
    run.pass_all(0, 2)
    run.pass_all(2, 0)
    run.pass_all(1, 2)
    assert list(run.sites[2].orderer.truces[1].names.values()) == [None]
    assert (0, last.seq) not in run.order(2)  # p1 may send what conflicts, for all that p2 knows
    run.sites[1].orderer.wake(run.now)
    run._turn(1)
    run.pass_all(1, 2)
    assert (0, last.seq) in run.order(2)
    run.settle()
    run.check(range(3))


def test_names_are_forgotten_when_others_come() -> None:
    counts = Counts()
    assert [counts.see((1, 1), True) for _ in range(3)] == [1, 2, 3]
    assert counts.see((1, 2), True) == 1
    assert counts.usual(1) == [(1, 2), (1, 1)]
    assert counts.usual(2) == [(1, 1)]
    assert counts.see((1, 1), False) == 0
    assert counts.usual(0) == [(1, 2)]
    for number in range(3, 3 + 256):
        counts.see((1, number), True)
    assert (1, 2) not in counts.usual(0)
    assert len(counts.usual(0)) == 256


def test_what_a_truce_permits_is_asked_again_when_a_name_becomes_known() -> None:
    shapes = Shapes(BY_ITEM)
    a, b = shapes.of(1, None, Column([("a",)])), shapes.of(1, None, Column([("a", "b")]))
    truce = Truce(shapes)
    truce.give(9, {(1, 1): None})
    assert truce.permits(b)
    truce.appears((1, 2), a)
    assert truce.permits(b)
    truce.appears((1, 1), a)
    assert not truce.permits(b)
    truce.give(9, {})
    assert truce.permits(b)


# What a peer must not do


def _cast(seq: int, stamp: list[int], type_: str) -> Cast:
    return Cast(seq, 0, stamp, seq, [b"x"], Column([type_]), None)


@pytest.mark.parametrize(
    ("stamp", "why"),
    [
        ([1], "malformed truce"),
        ([1, 9], "malformed truce"),
        ([1, 9, 1], "malformed truce"),
        ([9, 5, 1, 1], "malformed truce"),
        ([1, 9, *[1, 1] * 65], "malformed truce"),
        ([1, 9, 0, 1], "what is nobody's"),
        ([1, 9, 2, 1], "what is nobody's"),
        ([1, 9, -1, 1], "what is nobody's"),
        ([1, 9, 1, 0], "what is nobody's"),
    ],
)
def test_nonsense_is_refused(stamp: list[int], why: str) -> None:
    site = Total(2, COUNTER).sites[1].orderer
    with pytest.raises(RemoteProtocolError, match=why):
        site.direct(0, Direct(3, stamp), 0)
    assert site.lcv == [0, 0]
    assert site.truces[0].end == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_broken_truce_is_refused(known: bool) -> None:
    """On the short way for types that came before, and on the other."""
    run = Total(2, COUNTER)
    if known:
        run.sites[1].orderer.shapes.of(1, Column(["update"]), None)
    run.send(1, ("increment", None))
    site = run.sites[1].orderer
    site.direct(0, Direct(3, [1, 100, 1, 1]), 0)
    site.accept(0, [_cast(1, [2], "increment")], 0)
    with pytest.raises(RemoteProtocolError, match="has promised to spare up to 100 what it meets at 3"):
        site.accept(0, [_cast(2, [3], "update")], 0)
    site.accept(0, [_cast(2, [101], "update")], 0)


def test_a_truce_is_not_taken_back() -> None:
    run = Total(2, COUNTER)
    run.send(1, ("increment", None))
    run.send(1, ("update", None))
    site = run.sites[1].orderer
    site.direct(0, Direct(3, [2, 100, 1, 1]), 0)
    with pytest.raises(RemoteProtocolError, match="no longer spares"):
        site.direct(0, Direct(3, [3, 120, 1, 2]), 0)
    site.direct(0, Direct(3, [3, 120, 1, 1, 1, 2]), 0)
    site.direct(0, Direct(3, [120, 200, 1, 2]), 0)


# Storms


@pytest.mark.parametrize("length", [16, LENGTH])
def test_storms_with_truces_from_the_beginning(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The swarm's groups are mostly too short of breath to give any: here they need no patience, and give no leads."""
    given = 0
    init, announce = Leader.__init__, Leader.announce_truce

    def peaceful(self: Leader, *args: Any) -> None:
        init(self, *args)
        self._wait = self._trial = 1 << 40

    def counted(self: Leader, clock: int) -> list[int] | None:
        nonlocal given
        found = announce(self, clock)
        given += found is not None
        return found

    monkeypatch.setattr(casting, "PATIENCE", 0)
    monkeypatch.setattr(leads, "LENGTH", length)
    monkeypatch.setattr(leads, "_WAIT_MAX", 1 << 40)
    monkeypatch.setattr(Leader, "__init__", peaceful)
    monkeypatch.setattr(Leader, "announce_truce", counted)
    for seed in range(length, length + 12):
        verdict, _ = judge(seed, ["semantic_total"], find_checker(CHECKER))
        assert not verdict.failures
    assert given > 100


def test_what_a_truce_named_before_it_came_goes_when_it_has_been_learned_from() -> None:
    run = Total(3, BY_ITEM)
    casts = [*run.send(0, item("a")), *run.send(0, item("a"))]
    site = run.sites[2].orderer
    site.direct(1, Direct(3, [0, LENGTH, 0, 1]), run.now)
    site.accept(0, casts, run.now)
    site.turn(run.now)
    assert run.order(2) == [(0, 1), (0, 2)]  # the first by the clock of rank 1, the second since it is spared


def test_a_turn_that_somebody_waits_for_puts_learning_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leads, "LATEST", 32)
    run = Total(2, BY_ITEM)
    site = run.sites[0].orderer
    (cast,) = run.send(1, item("a"))
    site.accept(1, [cast], run.now)
    site.study_at = run.now
    site.wake(run.now)  # the deadline comes with the cast
    site.turn(run.now)
    assert [record.kind for record in run.sites[0].news] == [ACK]
    assert len(site.log) == 1
    assert site.study_at is not None
    assert site.study_at > run.now
