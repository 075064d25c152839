"""Columns say of each message what was said of it, in whatever form, cut and joined."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.columns import CODED_MAX, Column, Entries, column, described, full, joined, problem
from isotone.model.errors import ConfigError, LocalProtocolError

words = st.sampled_from(["a", "b", "c", None])
few = st.lists(words, min_size=1, max_size=12)
many = st.integers(1, 3 * CODED_MAX).map(lambda count: [str(number * number % 601) for number in range(count)])
lists = few | many


def test_the_first_form_that_fits() -> None:
    assert column(["a"] * 5) == Column(["a"])
    assert column(["a", "b", "a"]) == Column(["a", "b"], b"\0\1\0")
    assert column([str(one) for one in range(CODED_MAX)]).codes == bytes(range(CODED_MAX))
    wide = [str(one) for one in range(CODED_MAX + 1)]
    assert column(wide) == Column(wide)


@given(lists)
def test_every_message_has_its_entry(entries: list[str | None]) -> None:
    made = column(entries)
    assert problem(made, len(entries)) is None
    assert list(full(made, len(entries)) or ()) == entries
    assert list(made.distinct) == list(dict.fromkeys(entries))


@given(lists, st.data())
def test_parts_are_made_as_if_they_were_all(entries: list[str | None], data: st.DataObject) -> None:
    mask = bytes(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries)).filter(any)))
    assert column(entries).select(mask) == column([one for one, chosen in zip(entries, mask, strict=True) if chosen])
    made = column(entries)
    if made.codes:
        codes = sorted(data.draw(st.sets(st.integers(0, len(made.values) - 1), min_size=1)))
        assert made.only(codes) == column([one for one in entries if made.values.index(one) in codes])
    start = data.draw(st.integers(0, len(entries) - 1))
    end = data.draw(st.integers(start + 1, len(entries)))
    assert column(entries).slice(start, end) == column(entries[start:end])


@given(st.lists(st.none() | few | many, min_size=1, max_size=4), st.data())
def test_what_is_joined_is_one_column(parts: list[list[str | None] | None], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(1, 3)) if part is None else len(part) for part in parts]
    made = None if parts[0] is None else column(parts[0])
    said = parts[0] or [None] * counts[0]
    for part, count in zip(parts[1:], counts[1:], strict=True):
        made = joined(made, len(said), None if part is None else column(part), count)
        said = said + (part or [None] * count)
    assert made is None if not any(parts) else made == column(said)


def test_nothing_is_said_of_messages_without_columns() -> None:
    assert joined(None, 3, None, 2) is None
    assert described(2, None, None) == (None, None)


def test_items_are_copied_in_whatever_way_they_come() -> None:
    mine: list[Any] = [["x"], ["y"], ["x"]]
    _, items = described(3, None, mine)
    mine[0].append("z")
    assert items == Column([("x",), ("y",)], b"\0\1\0")
    _, items = described(4, None, [["x", "y"], ("x", "y"), [], None])
    assert items == Column([("x", "y"), (), None], b"\0\0\1\2")


@pytest.mark.parametrize("wrong", ["x", ["x"], [["x"], "x"], ["xy", None]])
def test_one_text_is_no_list_of_items(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="must be a list of texts, not one text"):
        described(len(wrong), None, wrong)


@pytest.mark.parametrize("count", [1, 2])
def test_types_and_items_are_texts(count: int) -> None:
    for wrong in (3, b"x", ["x"]):
        said: list[Any] = ["x", wrong][-count:]
        with pytest.raises(ConfigError, match=r"the type of a message is .*: must be a text"):
            described(count, said, None)
        for items in ([[one] for one in said], [[*said, "y"], None][:count]):
            with pytest.raises(ConfigError, match=r"an item of a message is .*: must be a text"):
                described(count, None, items)


def test_columns_are_as_long_as_what_they_describe() -> None:
    for types, items in ((["a"], None), (None, [None])):
        with pytest.raises(LocalProtocolError, match="one entry per payload"):
            described(2, types, items)


def test_entries_are_a_sequence() -> None:
    said = ["a", "b", None, "a"]
    seen = full(column(said), 4)
    assert isinstance(seen, Entries)
    assert (len(seen), seen[2], seen[-1], seen[1:3], list(seen)) == (4, None, "a", ["b", None], said)
    assert seen == said
    assert seen != said[:3]
    assert seen != 4
    assert repr(seen) == repr(said)
    with pytest.raises(IndexError):
        seen[4]
