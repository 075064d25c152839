"""Schedules that were made to break a switch, or that broke one."""

from __future__ import annotations

import pytest

from isotone.model.records import Cast, Packet
from isotone.model.settings import MS, SECOND
from isotone.model.switch import STRATEGIES, Strategy
from isotone.model.view import Level, Ordering
from isotone.protocol.switching.channel import BITS
from tests.protocol.bag import Fate
from tests.protocol.switch_bag import A, B, C, D, E, ask, group, order_of, step
from tests.protocol.switch_schedules import (
    early_casts_of_a_crashed_member_while_a_switch_by_stop_is_asked_for,
    fetched_before_the_switch_began,
    fetched_for_a_lane_that_has_not_begun,
    one_does_not_hear_the_last_word,
    safe,
)
from tests.protocol.switch_storm import storm
from tests.protocol.test_early import told


@pytest.mark.parametrize(
    ("before", "after"),
    [("single_phase", "sequencer"), ("sequencer", "all_ack"), ("sequencer", "two_phase"), ("token", "single_phase")],
)
@pytest.mark.parametrize("level", ["agreed", "safe"])
def test_above_agreed_who_delivers_behind_the_cut_knows_that_all_can_tell_it_was_passed(
    before: str, after: str, level: Level
) -> None:
    bag = one_does_not_hear_the_last_word(before, after, level)
    assert not safe(bag, A)
    assert bag.report().verdict == "ok"


def test_messages_that_were_fetched_before_the_switch_began_are_there_when_their_numbers_are_delivered() -> None:
    bag = fetched_before_the_switch_began()
    assert bag.received[D] == [(A, 1), (A, 2)]
    assert bag.live[A].counters["views"] == bag.live[D].counters["views"] == 2  # nobody was banned
    assert {order_of(bag, process) for process in bag.live} == {"single_phase"}
    assert bag.report().verdict == "ok"


@pytest.mark.parametrize("strategy", ["dual", "dual_ids"])
def test_what_was_fetched_before_its_lane_began_is_not_overtaken(strategy: Strategy) -> None:
    assert not fetched_for_a_lane_that_has_not_begun(strategy).report().violated()


@pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])
def test_early_casts_keep_their_place_when_a_view_ends_in_a_switch_by_stop(order: str) -> None:
    bag = early_casts_of_a_crashed_member_while_a_switch_by_stop_is_asked_for(order)
    assert told(bag, A) == told(bag, B) == told(bag, D) == ["x1", "x2"]
    assert not bag.report().violated()


def test_a_message_that_was_fetched_before_its_lane_began_is_found_by_its_number() -> None:
    """Nobody's own flag has come, and of a's stream its flag and its messages in one packet."""
    lanes = group("token", 4).live[D].epoch.begin_switching().lanes
    message = Cast(7, 1 << BITS, [3], 5, [b"fetched"])
    assert lanes.postpone(0, message)
    lanes.start(1, Ordering("single_phase"), 0)
    assert lanes.payloads[0] == {5: message}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("packets", range(0, 60, 6))
def test_a_partition_in_the_middle_then_another_switch_on_each_side_and_a_merge(strategy: Strategy, packets: int) -> None:
    bag = group("single_phase", 5)
    bag.submit(E, 2)
    ask(bag, A, "atop", strategy)
    step(bag, packets)
    for process in (A, C, D):
        bag.submit(process, 2)
    bag.split("abc", "de")
    assert bag.run(2 * SECOND, until=lambda: len(bag.live[A].view) == 3 and len(bag.live[D].view) == 2)
    ask(bag, B, "token", strategy)
    ask(bag, D, "all_ack", strategy)
    for process in bag.live:
        bag.submit(process, 1)
    step(bag, packets)
    assert bag.settle()
    bag.submit(A, 1)
    assert bag.settle()
    assert len({order_of(bag, process) for process in bag.live}) == 1
    assert bag.report().verdict == "ok"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("packets", range(0, 60, 6))
def test_a_sender_crashes_in_the_middle_above_agreed(strategy: Strategy, packets: int) -> None:
    """Its messages are in the old orderer, in both, or sent again: the others deliver each of them alike, or none of them."""
    bag = group("sequencer", 4, "safe")
    bag.submit(C, 2)
    ask(bag, B, "two_phase", strategy, level="safe", rule="majority" if packets % 4 else "all")
    bag.submit(C, 1)
    step(bag, packets)
    bag.submit(C, 1)
    bag.submit(D, 1)
    bag.crash(C)
    assert bag.settle()
    assert bag.received[A] == bag.received[B] == bag.received[D]
    assert (D, 1) in bag.received[D]
    assert bag.report().verdict == "ok"


@pytest.mark.parametrize("strategy", ["dual", "dual_ids"])
def test_the_majority_cuts_without_a_member_that_returns(strategy: Strategy) -> None:
    """e hears nothing while the others make the cut with their flags. It comes back, and sends again what came too late."""
    bag = group("single_phase", 5)
    bag.submit(E, 2)

    def without_e(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.KEEP if E in (source, target) else packet

    ask(bag, A, "sequencer", strategy, rule="majority")
    bag.run(40 * MS, without_e)
    bag.submit(A, 2)
    bag.submit(E, 1)
    bag.run(40 * MS, without_e)
    views = bag.live[A].counters["views"]
    assert bag.settle()
    assert bag.live[A].counters["views"] == views
    assert {order_of(bag, process) for process in bag.live} == {"sequencer"}
    for process in bag.live:
        assert bag.received[process] == bag.received[A]
        assert sorted(bag.received[process]) == [(A, 1), (A, 2), (E, 1), (E, 2), (E, 3)]
    assert bag.report().verdict == "ok"


@pytest.mark.parametrize("first", range(1, 400, 40))
def test_a_storm_around_the_cut_breaks_nothing(first: int) -> None:
    for seed in range(first, first + 40):
        assert not storm(seed).report().violated(), f"tests.protocol.switch_storm.storm({seed})"


@pytest.mark.long
def test_many_storms_around_the_cut_break_nothing() -> None:
    for seed in range(1_000, 11_000):
        assert not storm(seed).report().violated(), f"tests.protocol.switch_storm.storm({seed})"


def test_above_agreed_a_message_waits_until_all_hold_the_flags_before_it() -> None:
    """b did not hold a flag that a safe message depended on; b was cut off, and could not deliver it."""
    assert not storm(18209).report().violated()
