"""Shapes of casts, and how batches are parted: what conflicts keeps its order, the rest may pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.columns import described
from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError
from isotone.protocol.ordering.orderer import Batch
from isotone.protocol.semantic.shapes import PARTS_MAX, Shape, Shapes

COUNTER = Conflicts.by_operation({"update": ["update", "increment", "decrement"], "increment": [], "decrement": [], "look": []})
DOCUMENT = Conflicts.by_both({"insert": ["insert", "delete"], "delete": ["delete"], "scroll": []}, {"scroll": ["scroll"]})
RELATIONS = {"operation": COUNTER, "both": DOCUMENT, "item": Conflicts.by_item()}
TYPES = {"operation": COUNTER.types, "both": DOCUMENT.types, "item": ("a", "b")}

Message = tuple[str | None, list[str] | None]


def batch(messages: Sequence[Message]) -> Batch:
    payloads = [str(number).encode() for number in range(len(messages))]
    columns = described(len(messages), [type_ for type_, _ in messages], [items for _, items in messages])
    return Batch(payloads, *columns, sum(map(len, payloads)))


def of(shapes: Shapes, count: int, types: list[str | None] | None, items: list[list[str] | None] | None) -> Shape:
    return shapes.of(count, *described(count, types, items))


def parts(shapes: Shapes, messages: Sequence[Message]) -> list[list[int]]:
    return [[int(payload) for payload in part.payloads] for part in shapes.split(batch(messages))]


def typed(*types: str) -> list[Message]:
    return [(type_, None) for type_ in types]


def test_what_commutes_is_parted_by_description() -> None:
    assert parts(Shapes(COUNTER), typed("increment", "look", "increment", "decrement", "look")) == [[0, 2, 3], [1, 4]]
    apart = [(None, [name]) for name in ("x", "y", "x", "z", "y")]
    assert parts(Shapes(Conflicts.by_item()), apart) == [[0, 2], [1, 4], [3]]


def test_types_that_conflict_with_the_same_are_one() -> None:
    shapes = Shapes(COUNTER)
    assert of(shapes, 1, ["increment"], None) is of(shapes, 1, ["decrement"], None)
    assert of(shapes, 2, ["increment", "decrement"], None) is of(shapes, 1, ["decrement"], None)
    assert parts(shapes, typed(*["increment", "decrement"] * 100)) == [list(range(200))]
    table = {"put": ["put", "set"], "set": ["set"], "size": []}
    both = Shapes(Conflicts.by_both(table, {"size": ["set"]}))
    assert of(both, 1, ["put"], [["x"]]) is not of(both, 1, ["set"], [["x"]])  # one of them whatever the items are
    assert of(both, 1, ["put"], [["x"]]) is not of(both, 1, ["put"], [["y"]])


def test_next_to_a_type_that_conflicts_with_more_another_says_nothing() -> None:
    shapes = Shapes(COUNTER)
    assert of(shapes, 2, ["look", "update"], None) is of(shapes, 1, ["update"], None)
    assert of(shapes, 3, ["increment", "update", "look"], None) is of(shapes, 1, ["update"], None)
    assert of(shapes, 2, [None, "look"], None) is of(shapes, 1, [None], None)
    with pytest.raises(ConfigError, match="increase"):
        of(shapes, 2, ["update", "increase"], None)


def test_what_conflicts_keeps_its_order() -> None:
    assert parts(Shapes(COUNTER), typed("increment", "update", "increment")) == [[0], [1], [2]]


def test_too_many_parts_are_gathered_by_conflict() -> None:
    assert parts(Shapes(COUNTER), typed(*["increment", "update"] * 3, "look")) == [[0, 1, 2, 3, 4, 5], [6]]


def test_of_more_kinds_than_parts_some_travel_together() -> None:
    shapes = Shapes(Conflicts.by_item())
    named = [(None, [name]) for name in "abcdefg"]
    assert parts(shapes, named) == [[0, 1, 2, 3], [4, 5, 6]]
    assert not any(shapes.of_batch(part) is shapes.whole for part in shapes.split(batch(named)))
    assert len(parts(shapes, [(None, [str(number)]) for number in range(16)])) == PARTS_MAX
    assert len(parts(shapes, [(None, [str(number)]) for number in range(17)])) == 1  # they conflict with everything


def test_free_kinds_do_not_travel_with_others() -> None:
    shapes = Shapes(Conflicts.by_both({"insert": ["insert"], "log": []}))
    named: list[tuple[str | None, list[str] | None]] = [("insert", ["a"]), ("log", ["a"]), ("insert", ["b"])]
    named += [("log", [name]) for name in "bcde"]
    assert parts(shapes, named) == [[0, 2], [1, 3, 4, 5], [6]]
    assert [shapes.of_batch(part).free for part in shapes.split(batch(named))] == [False, True, True]


def test_a_large_batch_is_parted_by_conflict_alone() -> None:
    found = parts(Shapes(COUNTER), typed(*["increment", "look"] * 100))
    assert found == [list(range(0, 200, 2)), list(range(1, 200, 2))]
    assert [part.size for part in Shapes(COUNTER).split(batch(typed(*["increment", "look"] * 100)))] == [245, 245]
    assert len(parts(Shapes(Conflicts.by_item()), [(None, [str(number)]) for number in range(100)])) == 1


def test_equal_descriptions_are_one_shape() -> None:
    shapes = Shapes(COUNTER)
    one = of(shapes, 1, ["increment"], [["x"]])  # by operation, items say nothing
    assert one is of(shapes, 2, ["increment", "increment"], None)
    assert not shapes.conflict(one, one)
    assert shapes.conflict(one, of(shapes, 2, ["look", "update"], None))
    several = Shapes(Conflicts.by_item())
    assert of(several, 1, ["a"], [["x", "y"]]) is of(several, 1, ["b"], [["y", "x"]])


def test_what_is_too_much_or_without_a_relation_conflicts_with_everything() -> None:
    shapes = Shapes(Conflicts.by_item())
    assert of(shapes, 5, None, [[name] for name in "vwxyz"]) is shapes.whole
    assert of(shapes, 65, None, [["x"]] * 64 + [["y"]]) is shapes.whole
    assert shapes.conflict(shapes.whole, of(shapes, 1, None, [[]]))
    assert of(Shapes(None), 1, ["x"], None).descriptions == ()
    assert of(Shapes(Conflicts()), 1, ["x"], None).descriptions == ()


def test_an_undeclared_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="increase"):
        of(Shapes(COUNTER), 1, ["increase"], None)


def test_of_shapes_that_nobody_uses_only_the_last_are_kept() -> None:
    shapes = Shapes(Conflicts.by_item())
    kept = of(shapes, 1, None, [["kept"]])
    for number in range(5_000):
        assert not shapes.conflict(kept, of(shapes, 1, None, [[str(number)]]))
    assert len(shapes.known) <= 1024
    assert len(shapes._shapes) <= 1025
    assert len(kept.known) <= 1024


@given(st.data())
def test_every_part_keeps_what_conflicts_in_order(data: st.DataObject) -> None:
    by = data.draw(st.sampled_from(sorted(RELATIONS)))
    relation = RELATIONS[by]
    types = st.none() | st.sampled_from(TYPES[by])
    items = st.none() | st.lists(st.sampled_from("xyz"), max_size=2, unique=True)
    messages = data.draw(st.lists(st.tuples(types, items), min_size=1, max_size=80))
    found = parts(Shapes(relation), messages)
    assert len(found) <= PARTS_MAX
    order = [number for part in found for number in part]
    assert sorted(order) == list(range(len(messages)))
    place = {number: index for index, number in enumerate(order)}
    for one, two in combinations(range(len(messages)), 2):
        if relation.conflict(*messages[one], *messages[two]):
            assert place[one] < place[two]


@given(st.data())
def test_shapes_conflict_if_any_two_messages_do(data: st.DataObject) -> None:
    by = data.draw(st.sampled_from(sorted(RELATIONS)))
    relation, shapes = RELATIONS[by], Shapes(RELATIONS[by])
    types = st.none() | st.sampled_from(TYPES[by])
    items = st.none() | st.lists(st.sampled_from("xyz"), max_size=2)
    drawn = [data.draw(st.lists(st.tuples(types, items), min_size=1, max_size=4)) for _ in range(2)]
    one, two = (of(shapes, len(some), [t for t, _ in some], [i for _, i in some]) for some in drawn)
    assert shapes.conflict(one, two) == any(relation.conflict(*a, *b) for a in drawn[0] for b in drawn[1])


def test_types_of_a_predicate_are_not_kept() -> None:
    """A predicate declares no types: there may be any number of them."""
    shapes = Shapes(Conflicts.by_predicate("types nobody counts", lambda a, _, b, __: a == b))
    for number in range(1000):
        of(shapes, 1, [f"type {number}"], None)
    assert len(shapes._plain) == 0
    assert len(shapes._shapes) <= 1
