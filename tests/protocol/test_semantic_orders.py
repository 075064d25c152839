"""`semantic_fifo` and `semantic_causal`, cast by cast: the paper's examples, what may pass and what may not, and any schedule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast
from isotone.pipeline.oracle import check_history
from isotone.pipeline.oracle.check import Expectation
from isotone.protocol.semantic.frontier import MOST
from tests.protocol.semantic_bench import Semantic

BY_ITEM = Conflicts.by_item()
COUNTER = Conflicts.by_operation({"update": ["update", "increment", "decrement"], "increment": [], "decrement": []})
"""The paper's operations on one item (§4.2): increments and decrements commute, an update conflicts with all."""
EDITOR = Conflicts.by_both(
    {one: ["insert", "update", "delete"] for one in ("insert", "update", "delete")}, {"scroll": ["scroll"]}
)
"""The shared document of §3.2."""
NEIGHBOURS = Conflicts.by_predicate(
    "tests.neighbours",
    lambda type_a, items_a, type_b, items_b: (
        items_a is None or items_b is None or any(abs(int(a) - int(b)) <= 1 for a in items_a for b in items_b)
    ),
)
NEVER = Conflicts.by_predicate("tests.never", lambda type_a, items_a, type_b, items_b: False)
BOTH = pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])


def item(*names: str) -> tuple[None, tuple[str, ...]]:
    return None, names


# What may pass


@BOTH
def test_a_lost_cast_holds_back_only_what_conflicts_with_it(order: str) -> None:
    run = Semantic(order, 2, BY_ITEM)
    (x1,), (y1,), (x2,), (y2,) = (run.send(0, item(name)) for name in "xyxy")
    run.arrive(y1, 1)
    run.arrive(x2, 1)
    run.arrive(y2, 1)
    assert run.sites[1].delivered == [y1, y2]
    run.arrive(x1, 1)
    assert run.sites[1].delivered == [y1, y2, x1, x2]
    run.check()


@BOTH
def test_what_was_delivered_early_is_not_delivered_again(order: str) -> None:
    run = Semantic(order, 2, BY_ITEM)
    (x,), (y,) = run.send(0, item("x")), run.send(0, item("y"))
    run.arrive(y, 1)
    run.arrive(y, 1)
    run.arrive(x, 1)
    run.arrive(y, 1)
    assert run.sites[1].delivered == [y, x]


@BOTH
def test_the_paper_says_that_p2s_insert_and_delete_may_pass(order: str) -> None:
    """§4.2, Figure 1: ins(y) and del(x) of P2 are sent in this order and need not be delivered in it."""
    run = Semantic(order, 2, EDITOR)
    (ins_y,), (del_x,), (scroll,) = run.send(0, ("insert", "y")), run.send(0, ("delete", "x")), run.send(0, ("scroll", None))
    run.arrive(scroll, 1)
    run.arrive(del_x, 1)
    assert run.sites[1].delivered == [scroll, del_x]
    run.arrive(ins_y, 1)
    assert run.sites[1].delivered == [scroll, del_x, ins_y]


def test_the_papers_cause_comes_first_where_it_conflicts() -> None:
    """§4.2, Figure 1: ins(x) causes del(x), which causes scroll: scroll may come first, del(x) may not."""
    run = Semantic("semantic_causal", 4, EDITOR)
    (ins_x,) = run.send(0, ("insert", "x"))
    run.arrive(ins_x, 1)
    (del_x,) = run.send(1, ("delete", "x"))
    run.arrive(ins_x, 2)
    run.arrive(del_x, 2)
    (scroll,) = run.send(2, ("scroll", None))
    run.arrive(scroll, 3)
    run.arrive(del_x, 3)
    assert run.sites[3].delivered == [scroll]
    run.arrive(ins_x, 3)
    assert run.sites[3].delivered == [scroll, ins_x, del_x]


@BOTH
def test_increments_and_decrements_pass_and_updates_do_not(order: str) -> None:
    """§4.2: Con = {(u, u), (u, i), (u, d)}, closed symmetrically; no equivalence."""
    run = Semantic(order, 2, COUNTER)
    (i1,), (d1,), (u1,), (i2,), (u2,) = (
        run.send(0, (name, None)) for name in ("increment", "decrement", "update", "increment", "update")
    )
    assert [len(run.casts[place].stamp) for place in (i1, d1)] == [order == "semantic_causal"] * 2  # the past, and no name
    run.arrive(u2, 1)
    run.arrive(i2, 1)
    run.arrive(u1, 1)
    run.arrive(d1, 1)
    assert run.sites[1].delivered == [d1]
    run.arrive(i1, 1)
    assert run.sites[1].delivered == [d1, i1, u1, i2, u2]


@BOTH
def test_an_update_waits_for_every_increment_before_it(order: str) -> None:
    """They commute with each other, so the last one says nothing of the others."""
    run = Semantic(order, 2, COUNTER)
    increments = [run.send(0, ("increment", None))[0] for _ in range(3)]
    (update,) = run.send(0, ("update", None))
    run.arrive(update, 1)
    run.arrive(increments[2], 1)
    run.arrive(increments[1], 1)
    assert run.sites[1].delivered == [increments[2], increments[1]]
    run.arrive(increments[0], 1)
    assert run.sites[1].delivered[-1] == update


@BOTH
def test_several_items(order: str) -> None:
    """{x, y} conflicts with {x} and with {y}, which commute; {x} after it need not name the first {x}."""
    run = Semantic(order, 2, BY_ITEM)
    (x1,), (y1,), (xy,), (x2,), (z,) = (run.send(0, item(*names)) for names in ("x", "y", "xy", "x", "z"))
    for place in (z, x2, xy, y1):
        run.arrive(place, 1)
    assert run.sites[1].delivered == [z, y1]
    run.arrive(x1, 1)
    assert run.sites[1].delivered == [z, y1, x1, xy, x2]
    named = run.casts[x2].stamp[1 if order == "semantic_causal" else 0 :]
    assert named == ([0, 1] if order == "semantic_causal" else [1])


@BOTH
def test_more_than_can_be_named_are_waited_for_all_the_same(order: str) -> None:
    run = Semantic(order, 2, COUNTER)
    increments = [run.send(0, ("increment", None))[0] for _ in range(3 * MOST)]
    (update,) = run.send(0, ("update", None))
    assert len(run.casts[update].stamp) <= 3
    run.arrive(update, 1)
    for place in (*increments[1:7], *increments[8:]):
        run.arrive(place, 1)
    run.arrive(increments[7], 1)
    assert update not in run.sites[1].delivered
    run.arrive(increments[0], 1)
    assert run.sites[1].delivered[-1] == update
    run.check()


@BOTH
def test_what_all_hold_is_not_named(order: str) -> None:
    run = Semantic(order, 2, COUNTER)
    for _ in range(5):
        run.send(0, ("increment", None))
    run.settle()
    run.gossip(0)
    (update,) = run.send(0, ("update", None))
    assert run.casts[update].stamp == ([0] if order == "semantic_causal" else [])


@BOTH
def test_without_a_relation_nothing_passes(order: str) -> None:
    run = Semantic(order, 2, None)
    (one,), (two,) = run.send(0, item("x")), run.send(0, item("y"))
    run.arrive(two, 1)
    assert run.sites[1].delivered == []
    run.arrive(one, 1)
    assert run.sites[1].delivered == [one, two]


@BOTH
def test_too_many_early_ones_wait_for_the_gap(order: str) -> None:
    run = Semantic(order, 2, NEVER, early=3)
    first, *others = (run.send(0, (None, None))[0] for _ in range(8))
    for place in others:
        run.arrive(place, 1)
    assert run.sites[1].delivered == others[:3]
    run.arrive(first, 1)
    assert run.sites[1].delivered == [*others[:3], first, *others[3:]]


# Clocks per class are not enough (PROTOCOLS §7)


def m1_m2_m3() -> tuple[Semantic, Any, Any, Any]:
    """m1 on A, then m2 on B by one that has delivered m1, then m3 on A by one that has delivered m2 and never saw m1."""
    run = Semantic("semantic_causal", 4, BY_ITEM)
    (m1,) = run.send(0, item("A"))
    run.arrive(m1, 1)
    (m2,) = run.send(1, item("B"))
    run.arrive(m2, 2)
    assert run.sites[2].delivered == [m2]
    (m3,) = run.send(2, item("A"))
    return run, m1, m2, m3


def test_a_message_waits_for_what_its_sender_only_knows_of() -> None:
    run, m1, m2, m3 = m1_m2_m3()
    run.arrive(m2, 3)
    run.arrive(m3, 3)
    assert run.sites[3].delivered == [m2]
    run.arrive(m1, 3)
    assert run.sites[3].delivered == [m2, m1, m3]


def test_its_sender_waits_too() -> None:
    run, m1, m2, m3 = m1_m2_m3()
    assert run.sites[2].delivered == [m2]
    run.arrive(m1, 2)
    assert run.sites[2].delivered == [m2, m1, m3]


def test_who_has_the_unknown_one_and_sees_that_it_commutes_does_not_wait() -> None:
    """m1 touches C: its sender cannot know, but who holds m1, undelivered, does."""
    run = Semantic("semantic_causal", 4, BY_ITEM)
    (c0,) = run.send(3, item("C"))
    run.arrive(c0, 0)
    (m1,) = run.send(0, item("C"))
    run.arrive(c0, 1)
    run.arrive(m1, 1)
    (m2,) = run.send(1, item("B"))
    run.arrive(m2, 2)
    (m3,) = run.send(2, item("A"))
    assert m3 not in run.sites[2].delivered
    run.arrive(m1, 2)  # its own past is missing, but it commutes with m3
    assert run.sites[2].delivered == [m2]  # … of which c0 is unknown as well
    run.arrive(c0, 2)
    assert run.sites[2].delivered == [m2, c0, m1, m3]
    run.check()


def test_what_its_sender_cannot_deliver_here_is_handed_back() -> None:
    run, _, m2, m3 = m1_m2_m3()
    run.end([2, 3])
    assert run.sites[2].delivered == [m2]
    assert run.sites[3].delivered == [m2]
    assert run.returned[2] == [run.casts[m3]]
    assert not run.returned[3]


def test_a_clock_per_class_for_an_equivalence() -> None:
    """One name per class and sender whose casts do not follow each other, however many there were."""
    run = Semantic("semantic_causal", 3, BY_ITEM)
    for _ in range(20):
        run.send(0, item("x"))
        run.send(1, item("x"))
        run.send(0, item("y"))
    run.settle()
    (x,) = run.send(2, item("x"))
    assert run.casts[x].stamp == [40, 20, 0, 2, 1, 1]  # the past; p0's last but one, p1's last


# The end of a view


@BOTH
def test_what_one_delivered_early_is_in_the_common_set(order: str) -> None:
    run = Semantic(order, 3, BY_ITEM)
    _, (y1,), (x2,), (y2,) = (run.send(0, item(name)) for name in "xyxy")
    run.arrive(y2, 2)
    run.arrive(y1, 1)
    run.arrive(x2, 2)
    run.end([1, 2])
    assert run.sites[1].delivered == [y1]
    assert run.sites[2].delivered == [y1]
    run = Semantic(order, 3, BY_ITEM)
    _, (y1,), (x2,), (y2,) = (run.send(0, item(name)) for name in "xyxy")
    run.arrive(y1, 2)
    run.arrive(y2, 2)
    run.arrive(x2, 1)
    run.end([1, 2])
    assert run.sites[1].delivered == run.sites[2].delivered == [y1, y2]


@BOTH
def test_a_prefix_and_early_ones_meet(order: str) -> None:
    run = Semantic(order, 3, BY_ITEM)
    places = [run.send(0, item(name))[0] for name in "xyxyz"]
    run.arrive(places[0], 1)
    run.arrive(places[1], 1)
    run.arrive(places[4], 2)
    run.end([1, 2])
    assert set(run.sites[1].delivered) == set(run.sites[2].delivered) == {places[0], places[1], places[4]}


@BOTH
def test_an_early_one_that_the_rest_reaches_is_not_delivered_again(order: str) -> None:
    run = Semantic(order, 3, NEVER)
    (one,), (two,) = run.send(0, item("x")), run.send(0, item("y"))
    run.arrive(one, 1)
    run.arrive(two, 2)
    run.end([1, 2])
    assert run.sites[1].delivered == [one, two]
    assert run.sites[2].delivered == [two, one]


# Nonsense


@pytest.mark.parametrize(
    ("order", "stamp"),
    [
        ("semantic_fifo", [0]),
        ("semantic_fifo", [3]),
        ("semantic_fifo", [-3]),
        ("semantic_fifo", [1] * (MOST + 2)),
        ("semantic_causal", []),
        ("semantic_causal", [-1]),
        ("semantic_causal", [1]),
        ("semantic_causal", [0, 0]),
        ("semantic_causal", [0, 2, 1]),
        ("semantic_causal", [0, 0, 0]),
        ("semantic_causal", [0, 0, 3]),
        ("semantic_causal", [0, 1, 1]),
        ("semantic_causal", [0] + [0, 1] * (MOST + 3)),
    ],
)
def test_an_impossible_stamp_is_refused(order: str, stamp: list[int]) -> None:
    run = Semantic(order, 2, BY_ITEM)
    site = run.sites[1].orderer
    for take in (site.accept, site.early):
        with pytest.raises(RemoteProtocolError):
            take(0, [Cast(3, 0, stamp, 1, [b"x"], None, Column([("x",)]))], 0)


def test_a_type_that_the_relation_does_not_declare_is_refused() -> None:
    run = Semantic("semantic_causal", 2, COUNTER)
    with pytest.raises(RemoteProtocolError, match="relation"):
        run.sites[1].orderer.accept(0, [Cast(1, 0, [0], 1, [b"x"], Column(["multiply"]), None)], 0)


# Any schedule

MESSAGES = {
    "item": (BY_ITEM, st.tuples(st.none(), st.none() | st.lists(st.sampled_from("wxyz"), max_size=2).map(tuple))),
    "counter": (COUNTER, st.tuples(st.sampled_from([*COUNTER.types, None]), st.none())),
    "editor": (EDITOR, st.tuples(st.sampled_from([*EDITOR.types, None]), st.none() | st.sampled_from(["x", "y", "xy", ""]))),
    "neighbours": (NEIGHBOURS, st.tuples(st.none(), st.lists(st.sampled_from("02468135"), max_size=2))),
    "never": (NEVER, st.tuples(st.none(), st.none())),
    "everything": (None, st.tuples(st.none(), st.none())),
}


@BOTH
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_schedule(order: str, data: st.DataObject) -> None:
    """Sends, arrivals in any order, losses, reports; then the view ends in two components, or everything arrives."""
    conflicts, messages = MESSAGES[data.draw(st.sampled_from(sorted(MESSAGES)))]
    count = data.draw(st.integers(2, 4))
    run = Semantic(order, count, conflicts, early=data.draw(st.sampled_from([0, 2, 64])))
    ranks = st.integers(0, count - 1)
    under_way: list[tuple[tuple[int, int], int]] = []
    for _ in range(data.draw(st.integers(1, 40))):
        act = data.draw(st.sampled_from(["send", "arrive", "arrive", "arrive", "gossip"]))
        if act == "send":
            rank = data.draw(ranks)
            for place in run.send(rank, *data.draw(st.lists(messages, min_size=1, max_size=3))):
                under_way += [(place, other) for other in range(count) if other != rank]
        elif act == "arrive" and under_way:
            place, target = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            run.arrive(place, target)
        elif act == "gossip":
            run.gossip(data.draw(ranks))
    run.check()
    whole = data.draw(st.booleans())
    if whole:
        run.settle()
        assert all(set(site.delivered) == set(run.casts) for site in run.sites)
    else:
        side = data.draw(st.sets(ranks))
        for component in (sorted(side), sorted(set(range(count)) - side)):
            if component:
                run.end(component)
                assert len({frozenset(run.sites[rank].delivered) for rank in component}) == 1
                for rank in component:
                    own = {(rank, cast.seq) for cast in run.returned[rank]}
                    assert own.isdisjoint(run.sites[rank].delivered)
                    assert own | set(run.sites[rank].delivered) >= {place for place in run.casts if place[0] == rank}
    run.check()
    report = check_history(run.rows(), [order], expected=Expectation(conflicts=conflicts))
    assert not report.violated()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_fifo_waits_for_nothing_else(data: st.DataObject) -> None:
    """With few enough casts under way to name all, what has arrived and is undelivered has a conflicting one before it."""
    conflicts, messages = MESSAGES[data.draw(st.sampled_from(sorted(MESSAGES)))]
    run = Semantic("semantic_fifo", 2, conflicts)
    places = [run.send(0, data.draw(messages))[0] for _ in range(data.draw(st.integers(1, MOST)))]
    arrived = data.draw(st.lists(st.sampled_from(places), unique=True))
    for place in arrived:
        run.arrive(place, 1)
    delivered = set(run.sites[1].delivered)
    assert all(place in delivered or run.precede(place) - delivered for place in arrived)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_causal_waits_for_nothing_else_that_its_sender_has_seen(data: st.DataObject) -> None:
    """Senders that have everything they know of name exactly what conflicts."""
    conflicts, messages = MESSAGES[data.draw(st.sampled_from(sorted(MESSAGES)))]
    run = Semantic("semantic_causal", 4, conflicts)
    for _ in range(data.draw(st.integers(1, MOST))):
        rank = data.draw(st.integers(0, 2))
        for place in run.send(rank, data.draw(messages)):
            run.arrive(place, *(other for other in range(3) if other != rank))
    places = sorted(run.casts)
    arrived = data.draw(st.lists(st.sampled_from(places), unique=True))
    for place in arrived:
        run.arrive(place, 3)
    delivered = set(run.sites[3].delivered)
    assert all(place in delivered or run.precede(place) - delivered for place in arrived)
