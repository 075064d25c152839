"""Conflict relations are agreed on: who has another one is refused and told what differs, and components do not merge."""

from __future__ import annotations

import msgspec
import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.events import Apart, DeliveryBatch, ViewInstalled
from isotone.model.records import Cast, Packet
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering
from tests.protocol.bag import TIMING, Bag
from tests.protocol.primary_bag import PrimaryBag

COUNTER = Conflicts.by_operation({"update": ["update", "increment"], "increment": []})
LOOSE = Conflicts.by_operation({"update": ["update"], "increment": []})
MORE = Conflicts.by_operation({"update": ["update", "increment"], "increment": [], "reset": []})
BOTH = Conflicts.by_both({"update": ["update"]}, always={"scroll": ["scroll"]})
BOTH_TOO = Conflicts.by_both({"update": ["update"]}, always={"scroll": ["scroll", "update"]})
ORDER = "semantic_total"


def never(type_a: object, items_a: object, type_b: object, items_b: object) -> bool:
    return False


NEVER = Conflicts.by_predicate("test_relations.never", never)
NEVER_TOO = Conflicts.by_predicate("test_relations.never", never, "2")


def ordering(conflicts: Conflicts | None, order: str = ORDER) -> Ordering:
    return Ordering(order, conflicts=conflicts)


def settled(conflicts: Conflicts | None, count: int = 3) -> Bag:
    bag = Bag(count, ordering(conflicts))
    assert bag.settle()
    bag.run(100 * MS)
    return bag


def members(bag: Bag, process: str) -> tuple[str, ...]:
    view = bag.live[process].view
    return view.members if view is not None else ()


@pytest.mark.parametrize(
    ("mine", "theirs", "what"),
    [
        (COUNTER, LOOSE, "type 'increment' conflicts with 'update' at a#1, not at x#1"),
        (LOOSE, COUNTER, "type 'increment' conflicts with 'update' at x#1, not at a#1"),
        (COUNTER, MORE, "type 'reset' is declared at x#1, not at a#1"),
        (BOTH, BOTH_TOO, "type 'scroll' conflicts with 'update' whatever their items are at x#1, not at a#1"),
        (COUNTER, Conflicts.by_item(), "x#1 has the conflict relation by item"),
        (COUNTER, None, "x#1 has the conflict relation that holds for everything"),
        (None, COUNTER, "a#1 has the conflict relation that holds for everything"),
        (NEVER, NEVER_TOO, "x#1 has the conflict predicate 'test_relations.never', version '2'"),
    ],
)
def test_who_has_another_relation_is_refused_and_told_what_differs(
    mine: Conflicts | None, theirs: Conflicts | None, what: str
) -> None:
    bag = settled(mine)
    bag.refusable.add("x#1")
    bag.begin("x", founder=False, ordering=ordering(theirs))
    bag.run(SECOND)
    told = bag.refused["x#1"]
    assert what in told.replace("b#1", "a#1").replace("c#1", "a#1"), told
    assert "\n" not in told
    assert members(bag, "a#1") == ("a#1", "b#1", "c#1")


def test_a_plain_order_is_no_relation_and_the_same_relation_takes_the_groups_order() -> None:
    bag = settled(COUNTER)
    bag.refusable.add("x#1")
    bag.begin("x", founder=False, ordering=Ordering("single_phase"))
    bag.run(SECOND)
    assert "different conflict relations" in bag.refused["x#1"]
    bag.begin("y", founder=False, ordering=ordering(COUNTER, "semantic_fifo"))
    assert bag.settle()
    assert members(bag, "y#1") == ("a#1", "b#1", "c#1", "y#1")
    assert bag.live["y#1"].view.ordering == ordering(COUNTER)


def test_where_everything_conflicts_a_plain_order_and_a_semantic_one_meet() -> None:
    bag = settled(Conflicts())
    bag.begin("x", founder=False, ordering=Ordering("single_phase"))
    assert bag.settle()
    assert members(bag, "x#1") == ("a#1", "b#1", "c#1", "x#1")
    assert bag.live["x#1"].view.ordering.order == ORDER


def test_components_with_different_relations_do_not_merge() -> None:
    bag = Bag(2, ordering(COUNTER))
    assert bag.settle()
    bag.begin("x", ordering=ordering(LOOSE))
    bag.split("ab", "x")
    assert bag.run(5 * SECOND, until=lambda: members(bag, "x#1") == ("x#1",))
    bag.cut.clear()
    bag.run(3 * SECOND)
    assert members(bag, "a#1") == ("a#1", "b#1")
    assert members(bag, "x#1") == ("x#1",)
    for process in ("a#1", "x#1"):
        bag.live[process].submit([b"still there"], bag.now, ["update"])
    bag.run(100 * MS)
    assert [u.payloads for u in bag.upcalls["b#1"] if isinstance(u, DeliveryBatch)] == [[b"still there"]]
    for process, peer in (("a#1", "x#1"), ("b#1", "x#1"), ("x#1", "a#1")):
        (told,) = [u for u in bag.upcalls[process] if isinstance(u, Apart)]  # once, though probes come again and again
        assert told.peer[0] in "ab" if peer == "a#1" else told.peer == peer
        where = f"at {process if process != 'x#1' else told.peer}, not at x#1"
        assert f"type 'increment' conflicts with 'update' {where}" in told.reason
        assert "\n" not in told.reason


@pytest.mark.parametrize("patience", [SECOND, 6 * SECOND, 7 * SECOND])
def test_two_that_found_together_with_different_relations_both_end(patience: int) -> None:
    """The first to give up tells the other, which would take its end for room to found a group."""
    bag = Bag(0, ordering(COUNTER))
    bag.refusable |= {"a#1", "b#1"}
    bag.begin("a", found_after_ns=SECOND, timing=msgspec.structs.replace(TIMING, name_conflict_ns=patience))
    bag.begin("b", found_after_ns=SECOND, ordering=ordering(LOOSE))
    bag.run(8 * SECOND, step_ns=10 * MS)
    assert not bag.live
    assert all("different conflict relations" in bag.refused[process] for process in ("a#1", "b#1"))


def test_two_that_found_together_do_not_forget_each_other_between_two_probes() -> None:
    """They would found a group each: live ones are patient for long, and wake up late."""
    bag = Bag(0, ordering(COUNTER))
    timing = msgspec.structs.replace(TIMING, name_conflict_ns=20 * SECOND)
    bag.refusable |= {"a#1", "b#1"}
    bag.begin("a", found_after_ns=SECOND, timing=timing)
    bag.begin("b", found_after_ns=SECOND, timing=timing, ordering=ordering(LOOSE))
    bag.run(22 * SECOND, step_ns=90 * MS)
    assert not bag.live
    assert not any(isinstance(upcall, ViewInstalled) for upcalls in bag.upcalls.values() for upcall in upcalls)


def test_with_primary_membership_too() -> None:
    bag = PrimaryBag(3, ordering(COUNTER))
    assert bag.settle()
    bag.begin("x", founder=False, ordering=ordering(LOOSE))
    bag.run(SECOND)
    assert "type 'increment' conflicts with 'update'" in bag.refused["x#1"]


@pytest.mark.parametrize(
    ("type_", "items", "text"),
    [
        ("updat", ["x"], "unknown message type 'updat': did you mean 'update'"),
        ("update", ["x", ""], "an item of a message has no name"),
        ("update", "x", "the items of a message are 'x': must be a list of texts"),
        ("update", [3], "an item of a message is 3: must be a text"),
    ],
)
def test_a_message_that_the_relation_does_not_know_is_the_callers_error(type_: str, items: list[str], text: str) -> None:
    bag = settled(BOTH)
    with pytest.raises(ConfigError, match=text):
        bag.live["a#1"].submit([b"fine", b"wrong"], bag.now, ["update", type_], [["x"], items])
    bag.collect(bag.live["a#1"])
    assert bag.live["a#1"].submit([b"fine"], bag.now, ["update"], [["x"]]) == 1
    bag.collect(bag.live["a#1"])
    assert bag.settle()
    for process in bag.live:
        assert [u.payloads for u in bag.upcalls[process] if isinstance(u, DeliveryBatch)] == [[b"fine"]]


def test_without_a_relation_types_are_free() -> None:
    bag = settled(None)
    assert bag.live["a#1"].submit([b"x"], bag.now, ["anything"], [[""]]) == 1


@pytest.mark.parametrize(
    ("order", "told"),
    [(ORDER, "a message of rank 0 is none of this group"), ("semantic_fifo", "a#1 breaks its conflict relation")],
)
def test_a_member_that_sends_what_the_relation_does_not_know_is_left_out(order: str, told: str) -> None:
    """What it sent before in the same packet is delivered all the same."""
    bag = Bag(3, ordering(COUNTER, order))
    assert bag.settle()
    bag.run(100 * MS)
    bag.live["a#1"].submit([b"fine"], bag.now, ["update"])
    bag.collect(bag.live["a#1"])
    spoilt = False
    caught: list[str] = []
    while bag.packets:
        source, target, packet = bag.packets.pop(0)
        if (source, target) == ("a#1", "b#1") and not spoilt and any(type(r) is Cast and r.payloads for r in packet.records):
            spoilt = True
            last = packet.records[-1]
            assert type(last) is Cast
            wrong = Cast(
                last.seq + 1, last.kind, [one + 1 for one in last.stamp[:1]], last.number + 1, [b"wrong"], Column(["updat"])
            )
            packet = Packet(packet.epoch, packet.proposer, packet.first, packet.ack, [*packet.records, wrong], packet.loose)
        if target in bag.live:
            try:
                bag.live[target].receive(source, packet, bag.now)
            except RemoteProtocolError as error:
                caught.append(str(error))
            bag.collect(bag.live[target])
    assert caught == [f"{told}: unknown message type 'updat': did you mean 'update'? valid are increment, update"]
    assert "a#1" in bag.live["b#1"].membership._banned
    assert [u.payloads for u in bag.upcalls["b#1"] if isinstance(u, DeliveryBatch)] == [[b"fine"]]
