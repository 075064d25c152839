"""Primary membership: one chain of views, whatever orders the messages in them."""

from __future__ import annotations

import pytest

from isotone.model.errors import Blocked
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry
from tests.protocol.primary_bag import PrimaryBag, proposer_cut_off_when_it_decides

every_order = pytest.mark.parametrize("ordering", [Ordering(order, "safe") for order in registry.names()], ids=lambda o: o.order)
ORDERING = Ordering("single_phase")


def group(ordering: Ordering, count: int) -> PrimaryBag:
    bag = PrimaryBag(count, ordering)
    assert bag.settle()
    bag.run(100 * MS)
    return bag


def traffic(bag: PrimaryBag) -> None:
    for process in sorted(bag.live):
        if bag.live[process].blocked is None:
            bag.submit(process, 2)
    for _ in range(len(bag.packets) // 2):
        bag.deliver(0)


@every_order
def test_a_majority_goes_on_and_the_minority_is_expelled_and_comes_back(ordering: Ordering) -> None:
    bag = group(ordering, 5)
    traffic(bag)
    bag.split("abc", "de")
    traffic(bag)
    assert bag.run(4 * SECOND, until=lambda: bag.names("a#1") == "abc" and bag.blocked("d#1") == bag.blocked("e#1") == [True])
    assert bag.names("d#1") == "abcde"
    traffic(bag)
    with pytest.raises(Blocked, match="d#1 is blocked: it reaches 2 of its view's members and needs 3"):
        bag.live["d#1"].submit([b"x"], bag.now)
    assert bag.meet()
    assert "d#1 was left out of primary view" in bag.refused["d#1"]
    assert set(bag.live) == {"a#1", "b#1", "c#1", "d#2", "e#2"}
    traffic(bag)
    assert bag.settle()
    bag.check()


@every_order
def test_without_a_majority_all_are_blocked_and_go_on_when_they_meet(ordering: Ordering) -> None:
    """No view ends and nobody is expelled: what was accepted before is sent when the members are there again."""
    bag = group(ordering, 4)
    view = bag.live["a#1"].view.id
    bag.split("ab", "cd")
    for process in list(bag.live):
        bag.submit(process, 1)
    assert bag.run(4 * SECOND, until=lambda: all(bag.blocked(process) == [True] for process in bag.live))
    for endpoint in bag.live.values():
        assert not endpoint.writable()
        assert "blocked" in str(endpoint.status()["blocked"])
        with pytest.raises(Blocked):
            endpoint.submit([b"x"], bag.now)
    assert bag.settle()
    assert bag.run(4 * SECOND, until=lambda: all(bag.blocked(process) == [True, False] for process in bag.live))
    assert {endpoint.view.id for endpoint in bag.live.values()} == {view}
    traffic(bag)
    assert bag.settle()
    bag.check()
    assert len({tuple(sorted(received)) for received in bag.received.values()}) == 1


@every_order
def test_a_decision_outlives_the_proposer(ordering: Ordering) -> None:
    """a decides a view and is cut off before it can tell: the others find the decision, and a majority of it goes on."""
    bag = proposer_cut_off_when_it_decides(ordering)
    decided = bag.live["a#1"].view.id
    views = [[str(row["view_epoch"]) for row in bag.recorders[p].rows() if row["kind"] == "view"] for p in ("b#1", "c#1", "d#1")]
    assert all(str(decided.epoch) in seen for seen in views)
    assert bag.names("b#1") == bag.names("d#1") == "bcd"
    assert bag.meet()
    bag.check()


def test_a_leaver_counts_as_present() -> None:
    bag = group(ORDERING, 3)
    bag.leave("a#1")
    bag.leave("b#1")
    assert bag.run(SECOND, until=lambda: set(bag.live) == {"c#1"} and bag.names("c#1") == "c")
    bag.check()


def test_a_part_of_the_founders_waits() -> None:
    bag = PrimaryBag(3, ORDERING)
    bag.split("ab", "c")
    bag.begin("x")
    bag.run(SECOND)
    assert [endpoint.view for endpoint in bag.live.values()] == [None] * 4
    assert bag.settle()
    assert bag.names("x#1") == "abcx"
    bag.check()


def test_a_restarted_founder_joins_the_group_that_is_there() -> None:
    bag = group(ORDERING, 3)
    bag.crash("a#1")
    bag.begin("a")
    assert bag.meet()
    assert sorted(bag.live) == ["a#2", "b#1", "c#1"]
    bag.check()


def test_after_a_total_crash_the_founders_begin_again_together() -> None:
    bag = group(ORDERING, 3)
    for process in list(bag.live):
        bag.crash(process)
    bag.packets.clear()
    bag.begin("a")
    bag.begin("b")
    bag.run(SECOND)
    assert not bag.names("a#2")
    bag.begin("c")
    assert bag.settle()
    assert bag.names("c#2") == "abc"
    bag.check()


def test_a_survivor_without_a_majority_keeps_its_place_and_says_so() -> None:
    """The majority comes back without a memory: the survivor, which has one, is not overrun, and no group is founded."""
    bag = group(ORDERING, 3)
    for process in ("a#1", "b#1"):
        bag.crash(process)
        bag.begin(process[0])
    bag.run(2 * SECOND)
    assert bag.live["c#1"].blocked == "c#1 is blocked: it reaches 1 of its view's members and needs 2"
    assert not bag.names("a#2")


@pytest.mark.parametrize(
    "other", [{"membership": "partitionable", "founders": ()}, {"founders": ("a", "x")}], ids=["kind", "founders"]
)
def test_another_kind_of_membership_or_other_founders_are_refused(other: dict[str, object]) -> None:
    bag = group(ORDERING, 3)
    bag.begin("x", founder=False, **other)
    bag.run(SECOND)
    assert "x#1 has " in bag.refused["x#1"]
    assert "primary membership with founders a, b, c" in bag.refused["x#1"]
    assert bag.names("a#1") == "abc"
