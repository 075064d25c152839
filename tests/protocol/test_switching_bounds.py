"""What a switch may cost: the longest pause in the deliveries, and the memory of many switches."""

from __future__ import annotations

from collections import deque
from itertools import pairwise, product
from typing import Any

import pytest

from isotone.model.settings import MS
from isotone.model.switch import STRATEGIES, Strategy
from isotone.sim.latency import Constant
from isotone.trace.schema import Row
from tests.protocol.switch_bag import ask, group, order_of
from tests.protocol.test_switching import TOTAL, asking, check, simulated

INTERVAL = 20.0


def latencies(rows: list[Row]) -> list[int]:
    """The longest latency under each of the two instances, of messages that the switch did not touch."""
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    phases = [row["time"] for row in rows if row["kind"] == "switch"]
    longest = [0, 0]
    for row in rows:
        if row["kind"] == "deliver":
            at = sent[row["origin"], row["number"]]
            if not min(phases) - 50 * MS < at < max(phases):
                longest[row["position"][0]] = max(longest[row["position"][0]], row["time"] - at)
    return longest


def pause(rows: list[Row]) -> int:
    """The longest time without a delivery at any process, from a while before the request to a while after the switch is done."""
    phases = [row["time"] for row in rows if row["kind"] == "switch"]
    times: dict[str, list[int]] = {}
    for row in rows:
        if row["kind"] == "deliver" and min(phases) - 100 * MS < row["time"] < max(phases) + 100 * MS:
            times.setdefault(row["process"], []).append(row["time"])
    return max(later - earlier for mine in times.values() for earlier, later in pairwise(mine))


@pytest.mark.parametrize("strategy", ["dual", "dual_ids"])
@pytest.mark.parametrize(("before", "after"), list(product(TOTAL, TOTAL)))
def test_the_longest_pause(before: str, after: str, strategy: Strategy) -> None:
    """Below the latency of the old orderer, plus that of the new one, plus one sending interval (§3: the flow is not stopped)."""
    rows = simulated(before, asking("b", after, strategy), members=4, latency=Constant(ms=10.0), interval=INTERVAL)
    check(rows, 4)
    assert pause(rows) < sum(latencies(rows)) + INTERVAL * MS, (pause(rows) / MS, latencies(rows))


@pytest.mark.parametrize(("before", "after"), list(product(("all_ack", "atop", "semantic_total", "single_phase"), repeat=2)))
def test_the_longest_pause_where_much_is_sent(before: str, after: str) -> None:
    """These orders need little more than one delay then, and the two delays at the cut are most of what the bound allows."""
    rows = simulated(before, asking("b", after, "dual_ids"), members=4, latency=Constant(ms=10.0), interval=3)
    check(rows, 4)
    assert pause(rows) < sum(latencies(rows)) + 3 * MS, (pause(rows) / MS, latencies(rows))


def weight(thing: Any, seen: set[int] | None = None) -> int:
    """How many things are in all the containers of an epoch, but for its trace and its counters."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, int | str | bytes | float | type | None):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        return len(thing) + sum(weight(value, seen) for value in (*thing, *thing.values()))
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return len(thing) + sum(weight(value, seen) for value in thing)
    if not type(thing).__module__.startswith("isotone."):
        return 0
    names = [*getattr(thing, "__dict__", {}), *(name for one in type(thing).__mro__ for name in getattr(one, "__slots__", ()))]
    left_out = ("_recorder", "counters", "_config")
    return sum(weight(getattr(thing, name, None), seen) for name in names if name not in left_out)


def test_many_switches_leave_nothing_behind() -> None:
    """Round after round through all orders and strategies, with messages under way: at rest nothing has grown."""
    bag = group("sequencer")
    orders = [(order, STRATEGIES[i % 4]) for i, order in enumerate((*TOTAL, "fifo", "semantic_causal", *TOTAL[::-1]))]
    rounds: list[dict[str, int]] = []
    for turn in range(12):  # rules and askers are the same again after six
        heaviest: dict[str, int] = {}
        for i, (order, strategy) in enumerate(orders):
            for process in sorted(bag.live):
                bag.submit(process, 3)
            asker = sorted(bag.live)[(turn + i) % 3]
            plain = order in TOTAL and order_of(bag, asker) in TOTAL
            ask(bag, asker, order, strategy if plain else "stop", fresh=True, rule="majority" if turn % 2 else "all")
            for process in sorted(bag.live):
                bag.submit(process, 3)
            assert bag.settle()
            assert order_of(bag, asker) == order
            key = f"{i} {order}"
            heaviest[key] = max(weight(endpoint.epoch) for endpoint in bag.live.values())
        rounds.append(heaviest)
    assert bag.live["a#1"].epoch.switching.current == 12 * len(orders)
    for key in rounds[0]:
        early, late = (max(one[key] for one in part) for part in (rounds[:6], rounds[6:]))
        assert late <= early + 2, (key, [one[key] for one in rounds])
    assert bag.report().verdict == "ok"
