"""The option `at` of `sequencer`: who numbers."""

from __future__ import annotations

import pytest

from isotone.model.errors import ConfigError
from isotone.model.records import Cast
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry
from isotone.sim import draw
from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker
from tests.protocol.bag import Bag


def orders(bag: Bag) -> set[str]:
    """Who has sent order records that are still under way."""
    return {source for source, _, packet in bag.packets for record in packet.records if type(record) is Cast and record.kind == 1}


@pytest.mark.parametrize(("at", "seat"), [("", "a#1"), ("b", "b#1"), ("c", "c#1"), ("nobody", "a#1")])
def test_the_named_member_numbers(at: str, seat: str) -> None:
    bag = Bag(3, Ordering("sequencer", options={"at": at}))
    assert bag.settle()
    assert {endpoint.epoch.orderer.seat for endpoint in bag.live.values()} == {("a#1", "b#1", "c#1").index(seat)}
    for sender in ("a#1", "b#1", "c#1"):
        bag.submit(sender, 2)
        assert orders(bag) <= {seat}
    assert bag.settle()
    assert len(bag.received["a#1"]) == 6
    assert bag.report().verdict == "ok"


@pytest.mark.parametrize("level", ["k", "safe"])
def test_levels_wait_for_what_the_named_member_said(level: str) -> None:
    bag = Bag(3, Ordering("sequencer", level, 2 if level == "k" else 1, {"at": "c"}))  # type: ignore[arg-type]
    assert bag.settle()
    bag.submit("a#1", 3)
    assert bag.settle()
    assert len(bag.received["b#1"]) == 3
    assert bag.report().verdict == "ok"


def test_when_the_named_member_is_gone_the_first_one_numbers() -> None:
    bag = Bag(3, Ordering("sequencer", options={"at": "c"}))
    assert bag.settle()
    bag.crash("c#1")
    assert bag.settle()
    bag.submit("b#1", 2)
    assert bag.settle()
    assert {endpoint.epoch.orderer.seat for endpoint in bag.live.values()} == {0}
    assert len(bag.received["a#1"]) == 2
    assert bag.report().verdict == "ok"


def test_storms_with_a_seat() -> None:
    """The swarm draws seats for the sequencer; some seeds of it."""
    check = find_checker(CHECKER)
    seated = [seed for seed in range(1, 60) if "at" in draw.draw(seed, ["sequencer"], 1.0).scenario.options]
    assert len(seated) > 10
    for seed in seated[:6]:
        verdict, _ = judge(seed, ["sequencer"], check)
        assert verdict.failures == []


def test_a_seat_is_a_text() -> None:
    with pytest.raises(ConfigError, match="option at of sequencer is 3: must be a text"):
        registry.validate(Ordering("sequencer", options={"at": 3}))
