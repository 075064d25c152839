"""Volatile members: soft suspicions of a minority, a thousand times in one run, cause no view change and lose nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from isotone.pipeline.oracle import check_history
from isotone.sim import Result, run
from isotone.sim.faults import Pause
from isotone.sim.latency import Constant, Uniform
from isotone.sim.scenario import NetworkSettings, Scenario
from isotone.sim.workload import Phase

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def undisturbed(result: Result, members: int) -> None:
    """One view for all from the first message on, everything sent in it is delivered by all of them in one order."""
    report = check_history(result.rows)
    assert [(check.name, check.witness) for check in report.checks if check.verdict == "violated"] == []
    began = min(row["time"] for row in result.rows if row["kind"] == "send")
    assert not [row for row in result.rows if row["kind"] == "view" and row["time"] > began]
    assert not [row for row in result.rows if row["kind"] == "returned"]
    sent = sum(row["kind"] == "send" for row in result.rows)
    delivered = Counter(row["process"] for row in result.rows if row["kind"] == "deliver")
    assert len(delivered) == members
    assert set(delivered.values()) == {sent}


def test_a_thousand_flaps_cause_no_view_change_and_lose_nothing() -> None:
    flaps = [Pause(at_ms=1_000.0 + 130 * i, who="d" if i % 2 else ["d", "e"], for_ms=85.0) for i in range(670)]
    scenario = Scenario(
        name="flaps",
        members=["a", "b", "c", "d", "e"],
        duration_ms=90_000,
        order="token",
        level="k",
        k=2,
        timing={"heartbeat_ms": 25, "soft_ms": 50, "hard_ms": 2_000, "closed_ms": 2_000, "probe_ms": 500},
        network=NetworkSettings(latency=Uniform(min_ms=0.5, max_ms=2.0)),
        workload=[Phase(kind="poisson", start_ms=900, stop_ms=89_000, interval_ms=250)],
        faults=[*flaps],
    )
    result = run(scenario)
    undisturbed(result, 5)
    suspected = Counter(row["peer"] for row in result.rows if row["kind"] == "suspect" and row["process"] == "a#1")
    assert suspected["d#1"] + suspected["e#1"] >= 1_000 * 0.95
    cores = [row for row in result.rows if row["kind"] == "core" and row["process"] == "a#1"]
    assert 2 <= len(cores) <= 60  # who flaps stays outside longer and longer
    assert all({"a#1", "b#1", "c#1"} <= set(row["members"]) for row in cores)


def test_the_shipped_scenario() -> None:
    result = run(SCENARIOS / "flapping.toml")
    undisturbed(result, 5)
    assert sum(row["kind"] == "core" for row in result.rows) >= 20


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_latency_is_bounded_by_k(k: int) -> None:
    """§4.2, Figure 4: one delay to the holder (two if the token is on its way), a hop per further member, one to tell."""
    scenario = Scenario(
        name="latency",
        members=["a", "b", "c", "d"],
        duration_ms=3_000,
        order="token",
        level="k",
        k=k,
        network=NetworkSettings(latency=Constant(ms=1.0)),
        workload=[Phase(kind="poisson", members=["c"], start_ms=1_000, stop_ms=3_000, interval_ms=50)],
    )
    sent: dict[int, int] = {}
    times: dict[int, list[int]] = {}
    for row in run(scenario).rows:
        if row["kind"] == "send":
            sent[row["number"]] = row["time"]
        elif row["kind"] == "deliver":
            times.setdefault(row["number"], []).append(row["time"] - sent[row["number"]])
    assert len(times) > 20
    assert max(min(delays) for delays in times.values()) <= (k + 1) * 1_000_000
    assert max(max(delays) for delays in times.values()) <= (k + 2) * 1_000_000
