"""Distributions of `atop`: the generator, the two ways to fix the owners of slots, and what they cost in waiting."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.ids import ViewId
from isotone.protocol.ordering.atop import distribution
from isotone.protocol.ordering.atop.distribution import (
    PERIOD,
    Distribution,
    EvenSlots,
    RandomSlots,
    Slots,
    SplitMix64,
    fault_of,
    most_weight,
)

VIEW = ViewId(3, "a#1")


def test_the_generator_is_splitmix64() -> None:
    """The published values for this seed."""
    generator = SplitMix64(1234567)
    assert [generator.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_the_random_sequence_is_fixed_for_ever() -> None:
    """Members of different versions must agree: these owners may never change."""
    slots = Distribution(7, (5, 2, 1), "random", VIEW).slots
    assert slots.owners(24) == [0, 0, 2, 0, 0, 0, 0, 0, 1, 1, 0, 1, 2, 2, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1]


def test_the_seed_comes_from_the_view_and_the_distribution_alone() -> None:
    def owners(number: int, view: ViewId) -> list[int]:
        return Distribution(number, (5, 2, 1), "random", view).slots.owners(64)

    assert owners(7, VIEW) == owners(7, VIEW)
    assert owners(7, VIEW) != owners(8, VIEW)
    assert owners(7, VIEW) != owners(7, ViewId(4, "a#1"))
    assert owners(7, VIEW) != owners(7, ViewId(3, "b#1"))


def test_the_even_sequence_spreads_each_member() -> None:
    assert EvenSlots((1, 1, 1)).owners(6) == [0, 1, 2, 0, 1, 2]
    assert EvenSlots((2, 1, 1)).owners(8) == [0, 1, 2, 0, 0, 1, 2, 0]
    assert EvenSlots((5, 2, 1)).owners(8) == [0, 1, 0, 0, 2, 0, 1, 0]


weights_of_a_view = st.lists(st.integers(1, 60), min_size=1, max_size=6)


@given(weights_of_a_view, st.integers(0, 2**64 - 1), st.integers(0, 500))
def test_slots_and_indices_are_each_others_inverse(weights: list[int], seed: int, about: int) -> None:
    for slots in (EvenSlots(weights), RandomSlots(weights, seed)):
        for member in range(len(weights)):
            index = slots.index(member, about)
            assert slots.slot(member, index) >= about
            assert index == 0 or slots.slot(member, index - 1) < about
            assert slots.index(member, slots.slot(member, index)) == index
            assert slots.index(member, slots.slot(member, index) + 1) == index + 1


@given(weights_of_a_view)
def test_every_slot_has_one_owner_and_a_period_has_the_weights(weights: list[int]) -> None:
    slots = EvenSlots(weights)
    assert Counter(slots.owners(sum(weights))) == dict(enumerate(weights))
    everything = sorted(slots.slot(member, i) for member, weight in enumerate(weights) for i in range(3 * weight))
    assert everything == list(range(3 * sum(weights)))


def test_random_shares_follow_the_weights_and_the_period_repeats() -> None:
    slots = RandomSlots((70, 20, 10), 5)
    counts = Counter(slots.owners(PERIOD))
    assert all(abs(counts[member] / PERIOD - share) < 0.02 for member, share in enumerate((0.7, 0.2, 0.1)))
    assert slots.slot(2, counts[2] + 3) == PERIOD + slots.slot(2, 3)
    assert slots.index(1, 5 * PERIOD + 1000) == 5 * counts[1] + slots.index(1, 1000)


def test_a_member_that_is_never_drawn_owns_a_slot_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody could ever wait long enough for it."""
    monkeypatch.setattr(distribution, "_owner", lambda bounds, value: 0)
    slots = RandomSlots((1, 1, 1), 1)
    assert [slots.slot(1, 0), slots.slot(2, 0), slots.slot(0, PERIOD)] == [PERIOD, PERIOD + 1, PERIOD + 2]
    assert slots.slot(1, 1) == PERIOD + 2 + PERIOD


def test_only_what_is_asked_for_is_drawn() -> None:
    slots = RandomSlots((4, 4), 1)
    slots.slot(0, 3)
    assert slots.drawn < PERIOD // 8
    slots.slot(0, 1 << 30)
    assert slots.drawn == PERIOD


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, 0], [1, 1, 0.5], [1, 1, -1], [1, 1, 1, 1], [1, 1, most_weight(3) - 1]])
def test_bad_weights_have_a_fault(weights: list[int]) -> None:
    assert fault_of(weights, 3)


def test_good_weights_have_none() -> None:
    assert fault_of([1, 1, most_weight(3) - 2], 3) is None


def waiting(slots: Slots, weights: list[int], periods: int) -> float:
    """The mean wait, in slots, of messages that come at even intervals in proportion to the weights, if nobody gives a slot up.

    Member m's i-th message comes at (i + 1/2) / weight periods; a slot is delivered when it and all before have come.
    """
    total = sum(weights)
    come = 0.0
    wait = 0.0
    for slot, owner in enumerate(slots.owners(total * periods)):
        own = (slots.index(owner, slot) + 0.5) / weights[owner] * total
        come = max(come, own)
        wait += come - own
    return wait / (total * periods)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [20, 10, 10, 1, 1, 1]])
def test_even_slots_wait_far_less_than_random_ones(weights: list[int]) -> None:
    even = waiting(EvenSlots(weights), weights, 40)
    random = [waiting(RandomSlots(weights, seed), weights, 40) for seed in range(10)]
    assert even < 1
    assert min(random) > 3
