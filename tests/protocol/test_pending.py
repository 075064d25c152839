"""Messages that wait to be multicast: how many are taken, and how they are cut into batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.columns import Column, described, full
from isotone.model.errors import LocalProtocolError
from isotone.model.settings import Limits
from isotone.protocol.pending import Pending

LIMITS = Limits(payload_bytes=10, batch_bytes=10, batch_messages=4, pending_bytes=30, pending_messages=8)


def add(pending: Pending, payloads: list[bytes], types: Any, items: Any) -> tuple[int, int]:
    return pending.add(payloads, *described(len(payloads), types, items))


def drain(pending: Pending) -> list[list[bytes]]:
    batches = []
    while pending:
        batches.append(list(pending.take().payloads))
    return batches


def test_what_was_submitted_before_a_turn_ends_is_one_batch() -> None:
    pending = Pending(LIMITS)
    assert pending.add([b"a", b"bb"], None, None) == (2, 3)
    assert pending.add([b"c"], None, None) == (1, 1)
    assert len(pending) == 3
    batch = pending.take()
    assert (list(batch.payloads), batch.size, batch.types, batch.items) == ([b"a", b"bb", b"c"], 4, None, None)
    assert not pending


def test_a_batch_ends_where_it_would_grow_over_its_bytes_or_messages() -> None:
    pending = Pending(LIMITS)
    pending.add([b"xxxx", b"xxxx", b"xx", b"xxx", b"xxxxxxxxxx"], None, None)
    assert [list(map(len, batch)) for batch in drain(pending)] == [[4, 4, 2], [3], [10]]
    pending.add([b"x"] * 8, None, None)
    assert [len(batch) for batch in drain(pending)] == [4, 4]


def test_a_payload_longer_than_a_batch_is_a_batch() -> None:
    pending = Pending(Limits(payload_bytes=20, batch_bytes=5, pending_bytes=100))
    pending.add([b"1", b"x" * 20, b"22", b"333"], None, None)
    assert [list(map(len, batch)) for batch in drain(pending)] == [[1], [20], [2, 3]]


def test_empty_payloads_are_messages() -> None:
    pending = Pending(LIMITS)
    assert pending.add([b"", b"", b"x"], None, None) == (3, 1)
    assert drain(pending) == [[b"", b"", b"x"]]


def test_a_prefix_is_taken_as_far_as_bytes_allow() -> None:
    pending = Pending(LIMITS)
    assert pending.add([b"x" * 10] * 2, None, None) == (2, 20)
    assert pending.add([b"x" * 4, b"x" * 6, b"y"], None, None) == (2, 10)
    assert not pending.room()
    assert pending.add([b"z"], None, None) == (0, 0)
    assert pending.add([], None, None) == (0, 0)
    assert sum(len(payload) for batch in drain(pending) for payload in batch) == 30


def test_a_prefix_is_taken_as_far_as_the_number_allows() -> None:
    pending = Pending(LIMITS)
    assert pending.add([b"x"] * 11, None, None) == (8, 8)
    assert not pending.room()
    assert pending.add([b""], None, None) == (0, 0)


def test_a_large_message_is_not_overtaken_by_a_small_one_of_the_same_call() -> None:
    pending = Pending(LIMITS)
    pending.add([b"x" * 10, b"x" * 10, b"x" * 5], None, None)
    assert pending.add([b"x" * 6, b"y"], None, None) == (0, 0)


def test_room_comes_back_as_batches_leave() -> None:
    pending = Pending(LIMITS)
    pending.add([b"x" * 10] * 3, None, None)
    pending.take()
    assert pending.room()
    assert pending.add([b"y" * 10, b"y"], None, None) == (1, 10)
    assert [batch[0][:1] for batch in drain(pending)] == [b"x", b"x", b"y"]


def test_types_and_items_stay_with_their_messages() -> None:
    pending = Pending(LIMITS)
    pending.add([b"1"], None, None)
    add(pending, [b"2", b"3"], ["t", None], [["i", "j"], None])
    add(pending, [b"4"], None, [["k"]])
    add(pending, [b"5", b"6"], ["u", "v"], None)
    rows = []
    while pending:
        batch = pending.take()
        count = len(batch.payloads)
        nothing = [None] * count
        rows += list(zip(batch.payloads, full(batch.types, count) or nothing, full(batch.items, count) or nothing, strict=True))
    assert rows == [
        (b"1", None, None),
        (b"2", "t", ("i", "j")),
        (b"3", None, None),
        (b"4", None, ("k",)),
        (b"5", "u", None),
        (b"6", "v", None),
    ]


def test_types_are_cut_with_the_prefix() -> None:
    pending = Pending(LIMITS)
    assert add(pending, [b"x" * 10] * 4, list("abcd"), [["a"], ["b"], ["c"], ["d"]]) == (3, 30)
    assert [pending.take().types for _ in range(3)] == [Column(["a"]), Column(["b"]), Column(["c"])]
    assert pending.add([b"x" * 10, b"x" * 10, b"x" * 5], None, None) == (3, 25)
    assert add(pending, [b"c", b"d" * 9], ["c", "d"], [["c"], ["d"]]) == (1, 1)
    assert add(pending, [b"e"], ["e"], [["e"]]) == (1, 1)
    assert pending.take().types is None
    rest = [batch for batch in (pending.take(), pending.take()) if batch.types is not None]
    assert [(batch.payloads, full(batch.types, 3), full(batch.items, 3)) for batch in rest] == [
        ([b"xxxxx", b"c", b"e"], [None, "c", "e"], [None, ("c",), ("e",)])
    ]


def test_a_faulty_call_takes_nothing() -> None:
    pending = Pending(LIMITS)
    with pytest.raises(LocalProtocolError, match="11 bytes is over the limit of 10"):
        pending.add([b"fine", b"x" * 11], None, None)
    with pytest.raises(LocalProtocolError, match="one entry per payload"):
        add(pending, [b"1", b"2"], ["t"], None)
    with pytest.raises(LocalProtocolError, match="one entry per payload"):
        add(pending, [b"1"], None, [None, None])
    assert (len(pending), pending.room()) == (0, True)


def test_the_callers_lists_may_change_afterwards() -> None:
    pending = Pending(LIMITS)
    payloads, types, items = [b"1"], ["t"], [["i"]]
    add(pending, payloads, types, items)
    payloads[0], types[0] = b"9", "u"
    items[0].append("j")
    batch = pending.take()
    assert (batch.payloads, batch.types, batch.items) == ([b"1"], Column(["t"]), Column([("i",)]))


@given(st.lists(st.tuples(st.lists(st.binary(max_size=10), max_size=6), st.integers(0, 3)), max_size=20))
def test_order_bounds_and_counts(steps: list[tuple[list[bytes], int]]) -> None:
    """Whatever is added and taken: the accepted messages come out in order, no batch and no queue is over its limit."""
    pending = Pending(LIMITS)
    accepted: list[bytes] = []
    taken: list[bytes] = []
    for payloads, takes in steps:
        count, size = pending.add(payloads, None, None)
        assert size == sum(map(len, payloads[:count]))
        accepted += payloads[:count]
        assert len(pending) == len(accepted) - len(taken) <= LIMITS.pending_messages
        assert sum(map(len, accepted)) - sum(map(len, taken)) <= LIMITS.pending_bytes
        for _ in range(takes if pending else 0):
            if pending:
                batch = pending.take()
                assert 1 <= len(batch.payloads) <= LIMITS.batch_messages
                assert batch.size == sum(map(len, batch.payloads)) <= LIMITS.batch_bytes
                taken += batch.payloads
    assert taken + [payload for batch in drain(pending) for payload in batch] == accepted
