"""`order = "auto"` in the simulator: a group that is switched by its first member as the load changes."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import check_history
from isotone.sim import Simulation, parse_scenario, run
from isotone.sim.scenario import Scenario
from isotone.trace.schema import Row

S = 1_000_000_000


def scenario(order: str, **changes: Any) -> Scenario:
    """Four members, far from each other; first c sends nearly alone, then all send much."""
    few = {"kind": "poisson", "members": ["a", "b", "d"], "interval_ms": 900, "start_ms": 2_000, "stop_ms": 12_000}
    return parse_scenario(
        {
            "members": ["a", "b", "c", "d"],
            "duration_ms": 21_000,
            "seed": 3,
            "order": order,
            "timing": {"heartbeat_ms": 300, "retransmit_ms": 300},
            "network": {"latency": {"kind": "uniform", "min_ms": 45, "max_ms": 75}},
            "workload": [
                {"kind": "poisson", "members": ["c"], "interval_ms": 33, "start_ms": 2_000, "stop_ms": 12_000},
                few,
                {"kind": "poisson", "interval_ms": 25, "start_ms": 12_000, "stop_ms": 19_000},
            ],
            **changes,
        }
    )


def means(rows: list[Row]) -> tuple[float, float]:
    """The mean latency of either phase, in ms."""
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    phases: tuple[list[int], list[int]] = ([], [])
    for row in rows:
        if row["kind"] == "deliver":
            at = sent[row["origin"], row["number"]]
            phases[at >= 12 * S].append(row["time"] - at)
    return sum(phases[0]) / len(phases[0]) / 1e6, sum(phases[1]) / len(phases[1]) / 1e6


def switches(rows: list[Row], process: str) -> list[str]:
    return [
        row["detail"]["to"]
        for row in rows
        if row["kind"] == "switch" and row["process"] == process and row["detail"]["phase"] == "done"
    ]


def test_auto_follows_the_load_and_beats_what_stays() -> None:
    """Near the best fixed choice in each phase, adaptation included, though they are short; better than each over both."""
    rows = run(scenario("auto")).rows
    auto = means(rows)
    assert switches(rows, "a#1") == switches(rows, "d#1")
    assert switches(rows, "a#1")[0] == "sequencer"
    assert "all_ack" in switches(rows, "a#1")
    fixed = [means(run(scenario(order)).rows) for order in ("all_ack", "atop", "sequencer", "single_phase", "token")]
    fixed.append(means(run(scenario("sequencer", options={"at": "c"})).rows))
    for phase in (0, 1):
        assert auto[phase] <= 1.15 * min(one[phase] for one in fixed)
    assert sum(auto) < min(sum(one) for one in fixed)
    assert check_history(rows).verdict == "ok"


def test_the_next_first_member_goes_on() -> None:
    """The one that decides crashes: the policy is part of the view, and its successor looks at what it sees itself."""
    crash = [{"kind": "crash", "at_ms": 2_300, "who": "a"}]
    simulation = Simulation(scenario("auto", faults=crash))
    result = simulation.run()
    assert simulation.process("a").endpoint.controller is not None
    assert simulation.process("b").endpoint.controller is not None
    assert simulation.process("c").endpoint.controller is None
    assert switches(result.rows, "b#1")[0] == "sequencer"
    assert {process.endpoint.view.ordering.policy for process in simulation.running()} == {"learned"}
    assert check_history(result.rows).verdict == "ok"


def test_a_switch_by_hand_ends_the_policy_and_auto_brings_it_back() -> None:
    by_hand = [
        {"kind": "switch", "at_ms": 6_000, "who": "d", "order": "token"},
        {"kind": "switch", "at_ms": 13_000, "who": "b", "order": "auto"},
    ]
    simulation = Simulation(scenario("auto", faults=by_hand))
    simulation.run_until(10 * S)
    ordering = simulation.process("a").endpoint.view.ordering
    assert (ordering.order, ordering.policy) == ("token", "")
    assert simulation.process("a").endpoint.controller is None
    result = simulation.run()
    assert "all_ack" in switches(result.rows, "c#1")
    assert simulation.process("c").endpoint.view.ordering.policy == "learned"
    assert simulation.process("a").endpoint.status()["policy"] == "learned"
    assert check_history(result.rows).verdict == "ok"


def test_the_same_seed_gives_the_same_run() -> None:
    short = {"duration_ms": 6_000}
    assert run(scenario("auto", **short)).digest == run(scenario("auto", **short), wire=True).digest


def test_an_unknown_policy_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match="unknown switching policy 'lerned': did you mean 'learned'"):
        run(scenario("auto", options={"policy": "lerned"}))
