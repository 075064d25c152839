"""Schedules that were made to break a switch, or that broke one."""

from __future__ import annotations

import pytest

from tests.protocol.switch_bag import A, D, order_of
from tests.protocol.switch_schedules import fetched_before_the_request, one_does_not_hear_that_another_knows, safe


@pytest.mark.parametrize(
    ("before", "after"),
    [("single_phase", "sequencer"), ("sequencer", "all_ack"), ("sequencer", "two_phase"), ("token", "single_phase")],
)
def test_above_agreed_who_delivers_behind_the_cut_knows_that_all_can_tell_it_was_passed(before: str, after: str) -> None:
    bag = one_does_not_hear_that_another_knows(before, after)
    assert not safe(bag, A)
    assert bag.report().verdict == "ok"


def test_messages_that_were_fetched_before_the_request_are_there_when_their_numbers_are_delivered() -> None:
    bag = fetched_before_the_request()
    assert bag.received[D] == [(A, 1), (A, 2)]
    assert bag.live[A].counters["views"] == bag.live[D].counters["views"] == 2  # nobody was banned
    assert {order_of(bag, process) for process in bag.live} == {"single_phase"}
    assert bag.report().verdict == "ok"
