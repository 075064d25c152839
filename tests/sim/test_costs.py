"""What the pages of `docs/protocols` say a message costs: delays and control records, in a quiet group with equal delays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotone.protocol.ordering import registry
from isotone.sim.scenario import parse_scenario
from isotone.sim.simulation import Simulation

DELAY_MS = 10
START_MS = 2_000
PAGES = Path(__file__).parents[2] / "docs" / "protocols"

Cost = Callable[[int, int], tuple[list[int], int]]
"""Of (sender, members): the delays until each member delivers, and the control records, one per receiver."""


def _remote_one(sender: int, count: int) -> tuple[list[int], int]:
    return [int(member != sender) for member in range(count)], 0


def _sequencer(sender: int, count: int) -> tuple[list[int], int]:
    if sender == 0:
        return [int(member != 0) for member in range(count)], count - 1
    return [1] + [2] * (count - 1), count - 1


def _two_phase(sender: int, count: int) -> tuple[list[int], int]:
    return [2 if member == sender else 3 for member in range(count)], 2 * (count - 1)


def _all_ack(sender: int, count: int) -> tuple[list[int], int]:
    return [2] * count, (count - 1) ** 2


def _single_phase(sender: int, count: int) -> tuple[list[int], int]:
    """The first message of the view: who has a smaller rank than the sender acknowledges, and needs only the others' word."""
    delays = []
    for member in range(count):
        others = [rank for rank in range(sender) if rank != member]
        delays.append(2 if others else int(member != sender))
    return delays, sender * (count - 1)


def _gathered(sender: int, count: int) -> tuple[list[int], int]:
    """The same sites must be heard, by way of the site before the sender."""
    delays, _ = _single_phase(sender, count)
    collector = (sender - 1) % count
    if sender == 0:
        return delays, 0
    if sender == 1:
        return [1] + [2] * (count - 1), count - 1  # only the collector must be heard
    return [2 if member == collector else 3 for member in range(count)], (sender - 1) + (count - 1)


COSTS: list[tuple[str, dict[str, Any], Cost]] = [
    ("fifo", {}, _remote_one),
    ("causal", {}, _remote_one),
    ("sequencer", {}, _sequencer),
    ("two_phase", {}, _two_phase),
    ("all_ack", {}, _all_ack),
    ("single_phase", {"idle": "silent"}, _single_phase),
    ("single_phase", {"acks": "gathered"}, _gathered),
]


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize(("order", "options", "cost"), COSTS)
def test_an_isolated_message_costs_what_the_pages_say(order: str, options: dict[str, Any], cost: Cost, count: int) -> None:
    kinds = registry.find(order).packets.values()
    for sender in range(count):
        result = Simulation(
            parse_scenario(
                {
                    "name": "cost",
                    "members": [f"n{rank}" for rank in range(count)],
                    "duration_ms": START_MS + 200,
                    "order": order,
                    "options": options,
                    "network": {"latency": {"kind": "constant", "ms": DELAY_MS}},
                    "workload": [{"members": [f"n{sender}"], "start_ms": START_MS, "count": 1, "spread": False}],
                }
            )
        ).run()
        taken = {row["process"]: row["time"] // 1_000_000 - START_MS for row in result.rows if row["kind"] == "deliver"}
        packets = [row for row in result.rows if row["kind"] == "packet" and row["packet"] in kinds]
        delays, records = cost(sender, count)
        assert [taken[f"n{rank}#1"] for rank in range(count)] == [DELAY_MS * delay for delay in delays], sender
        assert sum(row["count"] * row["fanout"] for row in packets) == records, sender


@pytest.mark.parametrize("interval_ms", [200, 800])
def test_all_ack_that_waits_takes_as_long_as_the_slowest_sender(interval_ms: int) -> None:
    """000's first series: two quick members and a slow one; a message waits for the next of the slow one."""
    result = Simulation(
        parse_scenario(
            {
                "name": "slow",
                "members": ["quick", "quicker", "slow"],
                "duration_ms": START_MS + 5_000,
                "order": "all_ack",
                "options": {"silent": "wait", "interval_ms": 60_000},
                "network": {"latency": {"kind": "constant", "ms": 1}},
                "workload": [
                    {"members": ["quick", "quicker"], "start_ms": START_MS, "interval_ms": 50},
                    {"members": ["slow"], "start_ms": START_MS, "interval_ms": interval_ms},
                ],
            }
        )
    ).run()
    sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
    settled = (START_MS + 1_000) * 1_000_000
    took = [
        (row["time"] - sent[row["origin"], row["number"]]) / 1e6
        for row in result.rows
        if row["kind"] == "deliver" and row["process"] == row["origin"] == "quick#1" and row["time"] > settled
    ]
    assert interval_ms * 0.4 < sum(took) / len(took) < interval_ms * 0.6 + 25
    assert interval_ms * 0.7 < max(took) <= interval_ms + 2


def test_every_orderer_has_a_page_and_a_line_in_the_index() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for order in registry.names():
        assert f"[`{order}`]({order}.md)" in index, order
        if order in {name for name, _, _ in COSTS}:
            assert (PAGES / f"{order}.md").exists(), order
