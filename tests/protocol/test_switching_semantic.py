"""Switches to and from the semantic orders, and casts from behind a gap after one."""

from __future__ import annotations

from itertools import permutations

import pytest

from isotone.model.conflicts import Conflicts
from isotone.model.events import DeliveryBatch, Switched, ViewInstalled
from isotone.model.settings import MS, SECOND
from isotone.model.switch import Switch
from isotone.model.view import Level, Ordering
from isotone.protocol.ordering import registry
from tests.protocol.bag import Bag
from tests.protocol.switch_bag import A, B, C, order_of, refusals
from tests.protocol.switch_schedules import BY_ITEM, early_where_the_cut_is_not_passed, early_where_the_cut_is_passed
from tests.protocol.test_early import carried, send, settled, told, without

SEMANTIC = [order for order in registry.names() if registry.find(order).semantic]
EARLY = pytest.mark.parametrize("order", [order for order in SEMANTIC if registry.find(order).takes_early])


def ask(bag: Bag, process: str, order: str, level: Level = "agreed", conflicts: Conflicts | None = BY_ITEM) -> None:
    """A process asks for another order, by the only way that is always there."""
    if not registry.find(order).semantic:
        conflicts = None
    bag.live[process].switch(Switch(Ordering(order, level, conflicts=conflicts), "stop", fresh=True), bag.now)
    bag.collect(bag.live[process])


def switched(bag: Bag, order: str, process: str = A, level: Level = "agreed") -> None:
    """Everybody runs another order, and nothing is under way."""
    ask(bag, process, order, level)
    assert bag.run(
        SECOND, until=lambda: all(order_of(bag, one) == order and not bag.live[one].epoch.switches for one in bag.live)
    )
    bag.run(100 * MS)
    bag.packets.clear()


@pytest.mark.parametrize(("before", "after"), [*permutations(SEMANTIC, 2), *((order, order) for order in SEMANTIC)])
def test_every_semantic_order_to_every_other(before: str, after: str) -> None:
    bag = settled(before)
    for text in ("x1", "y1"):
        send(bag, A, text)
    ask(bag, B, after)
    for text in ("x2", "y2"):
        send(bag, C, text)
    assert bag.settle()
    send(bag, A, "x3")
    assert bag.settle()
    assert {order_of(bag, process) for process in bag.live} == {after}
    for process in bag.live:
        assert sorted(told(bag, process)) == ["x1", "x2", "x3", "y1", "y2"]
    assert bag.report().verdict == "ok"


@EARLY
@pytest.mark.parametrize("before", ["sequencer", "token", "semantic_total", "semantic_causal"])
def test_after_a_switch_too_a_lost_packet_holds_back_only_what_conflicts(before: str, order: str) -> None:
    """But of a sender's stream the first cast after the switch, which shows where it begins, is waited for."""
    bag = settled("semantic_fifo")
    switched(bag, before)
    switched(bag, order, B)
    for text in ("w1", "x1", "y1", "x2", "y2"):
        send(bag, A, text)
    bag.run(5 * MS, without((C, "x1")))
    assert told(bag, B) == ["w1", "x1", "y1", "x2", "y2"]
    assert told(bag, C) == ["w1", "y1", "y2"]
    assert bag.settle()
    assert told(bag, C) == ["w1", "y1", "y2", "x1", "x2"]
    for text in ("x3", "y3"):
        send(bag, B, text)
    bag.run(5 * MS, without((C, "x3")))
    assert told(bag, C)[5:] == []
    assert bag.settle()
    assert told(bag, C)[5:] == ["x3", "y3"]
    assert bag.report().verdict == "ok"


@EARLY
def test_while_a_switch_is_under_way_nothing_passes(order: str) -> None:
    """c has heard of a switch of a and has not b's x: b's y, which was sent before b had heard of it, waits in its place."""
    bag = settled("semantic_total")
    switched(bag, order)
    send(bag, B, "w1")
    bag.run(5 * MS)
    ask(bag, A, "sequencer")
    for text in ("x1", "y1"):
        send(bag, B, text)
    assert bag.run(SECOND, without((C, "x1"), (C, "y1"), (B, "w1")), until=lambda: bag.live[C].epoch.regime[1] == 2)
    bag.run(5 * MS, without((C, "x1")))
    assert told(bag, C) == ["w1"]
    assert bag.settle()
    assert told(bag, C) == ["w1", "x1", "y1"]
    assert bag.report().verdict == "ok"


@EARLY
def test_a_level_above_agreed_waits_for_the_gap(order: str) -> None:
    bag = settled("semantic_total")
    switched(bag, order, level="safe")
    for text in ("w1", "x1", "y1"):
        send(bag, A, text)
    bag.run(10 * MS, without((C, "x1")))
    assert "y1" not in told(bag, C)
    assert bag.settle()
    assert told(bag, C) == ["w1", "x1", "y1"]


@EARLY
def test_what_one_has_delivered_early_all_deliver(order: str) -> None:
    bag = settled("semantic_total")
    switched(bag, order)
    send(bag, A, "w1")
    bag.run(5 * MS)
    for text in ("x1", "y1", "x2", "y2"):
        send(bag, A, text)
    bag.packets = [entry for entry in bag.packets if entry[1] == C and carried(entry[2])[:1] != ["x1"]]
    bag.hand_out()
    bag.crash(A)
    assert told(bag, C) == ["w1", "y1", "y2"]
    assert bag.settle()
    assert told(bag, B) == told(bag, C) == ["w1", "y1", "y2"]
    assert bag.live[B].counters["casts_early_common"] == 2
    assert bag.report().verdict == "ok"


@EARLY
def test_who_has_only_reached_the_cut_passes_it_before_what_others_delivered_early(order: str) -> None:
    bag = early_where_the_cut_is_passed(order)
    mine = [upcall for upcall in bag.upcalls[C] if isinstance(upcall, DeliveryBatch | Switched | ViewInstalled)]
    assert [type(upcall).__name__ for upcall in mine[-4:]] == ["Switched", "DeliveryBatch", "DeliveryBatch", "ViewInstalled"]
    assert told(bag, C) == told(bag, B) == ["w1", "y1"]
    assert bag.report().verdict == "ok"


@EARLY
def test_nothing_is_taken_early_for_an_order_that_is_not_in_force(order: str) -> None:
    bag = early_where_the_cut_is_not_passed(order)
    assert told(bag, C) == told(bag, B) == ["w1"]
    assert bag.report().verdict == "ok"


@EARLY
def test_another_relation_and_other_strategies_are_refused(order: str) -> None:
    bag = settled("semantic_total")
    ask(bag, A, order, conflicts=Conflicts.by_operation({"update": ["update"]}))
    assert bag.settle()
    bag.live[A].switch(Switch(Ordering(order, conflicts=BY_ITEM), "dual_ids"), bag.now)
    bag.collect(bag.live[A])
    assert bag.settle()
    assert refusals(bag, A) == [
        f"{order} with another conflict relation than the group's",
        f"{order} is not a total order: only the strategy stop can switch from or to it",
    ]
    assert {order_of(bag, process) for process in bag.live} == {"semantic_total"}
