"""The engine: determinism, turns, timers, pauses, crashes, dials; driven with a fake endpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sim_fakes import FakeEndpoint

from isotone.model.errors import InvariantViolation
from isotone.sim import Simulation, faults, parse_scenario, run
from isotone.sim.scenario import Scenario

REPOSITORY = Path(__file__).resolve().parents[2]
MS = 1_000_000


def scenario(**changes: Any) -> Scenario:
    data: dict[str, Any] = {"members": ["a", "b", "c"], "duration_ms": 1_000, "dial_ms": 50}
    return parse_scenario({**data, **changes})


def simulation(**changes: Any) -> Simulation:
    return Simulation(scenario(**changes), endpoint_factory=FakeEndpoint)


def log(simulation: Simulation, name: str, kind: str) -> list[tuple[Any, ...]]:
    endpoint = simulation.process(name).endpoint
    assert isinstance(endpoint, FakeEndpoint)
    return [entry for entry in endpoint.log if entry[1] == kind]


BUSY: dict[str, Any] = {
    "network": {
        "latency": {"kind": "heavy", "median_ms": 2},
        "loss": 0.1,
        "duplicate": 0.1,
        "reorder": 0.2,
        "bandwidth_bps": 1_000_000,
    },
    "workload": [{"kind": "poisson", "interval_ms": 5, "types": ["x", "y"], "size_max": 200}],
    "faults": [
        {"kind": "crash", "at_ms": 300, "who": "b", "during": "subset"},
        {"kind": "restart", "at_ms": 500, "who": "b"},
        {"kind": "pause", "at_ms": 400, "who": "c", "for_ms": 100},
        {"kind": "clog", "at_ms": 600, "from": "a"},
        {"kind": "unclog", "at_ms": 700, "from": "a", "release": "shuffle"},
    ],
}


def test_same_seed_same_digest_other_seed_other_digest() -> None:
    one = run(scenario(**BUSY), seed=1, endpoint_factory=FakeEndpoint)
    again = run(scenario(**BUSY), seed=1, endpoint_factory=FakeEndpoint)
    other = run(scenario(**BUSY), seed=2, endpoint_factory=FakeEndpoint)
    assert one.digest == again.digest
    assert one.stats == again.stats
    assert one.digest != other.digest
    assert len(one.rows) > 500


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_digest_does_not_depend_on_hashing(hash_seed: str) -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/sim'); import test_sim_engine as t; "
        "print(t.run(t.scenario(**t.BUSY), seed=1, endpoint_factory=t.FakeEndpoint).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY / "src")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == run(scenario(**BUSY), seed=1, endpoint_factory=FakeEndpoint).digest


def test_dial_takes_a_round_trip_and_tells_both_sides() -> None:
    sim = simulation(members=["a", "b"], network={"latency": {"kind": "constant", "ms": 3}})
    sim.run_until(100 * MS)
    assert log(sim, "a", "connected") == [(6 * MS, "connected", "b#1", "b")]
    assert log(sim, "b", "connected") == [(6 * MS, "connected", "a#1", "a")]


def test_dial_needs_both_directions_and_is_repeated() -> None:
    sim = simulation(
        members=["a", "b"],
        faults=[{"kind": "cut", "at_ms": 0, "from": "a", "to": "b"}, {"kind": "heal", "at_ms": 120}],
    )
    sim.run_until(119 * MS)
    assert not log(sim, "a", "connected")
    sim.run_until(300 * MS)
    assert [entry[0] for entry in log(sim, "a", "connected")] == [152 * MS]  # dialled at 150 ms, two hops of 1 ms


def test_one_turn_per_instant_takes_all_ready_input() -> None:
    class Counting(FakeEndpoint):
        collects = 0

        def collect(self, now: int) -> Any:
            type(self).collects += now == 501 * MS and self.process == "c#1"
            return super().collect(now)

    phases = [{"members": [name], "start_ms": 500, "spread": False, "count": 1} for name in ("a", "b")]
    sim = Simulation(scenario(workload=phases), endpoint_factory=Counting)
    sim.run_until(600 * MS)
    assert len(log(sim, "c", "receive")) == 2
    assert Counting.collects == 1


def test_timers_fire_at_the_deadline() -> None:
    class Beating(FakeEndpoint):
        heartbeat_ns = 100 * MS

    sim = Simulation(scenario(members=["a"], duration_ms=1_000), endpoint_factory=Beating)
    sim.run_until(1_000 * MS)
    assert [entry[0] for entry in log(sim, "a", "wake")] == [n * 100 * MS for n in range(1, 11)]


def test_a_deadline_that_stays_in_the_past_is_reported() -> None:
    class Stuck(FakeEndpoint):
        def deadline(self) -> int | None:
            return 0

    with pytest.raises(InvariantViolation, match="a#1's deadline stays at 0 ns"):
        Simulation(scenario(members=["a"]), endpoint_factory=Stuck).run()


def test_pause_queues_input_and_resume_drains_it_then_wakes() -> None:
    sim = simulation(workload=[{"members": ["a"], "start_ms": 200, "interval_ms": 10, "count": 5, "spread": False}])
    sim.run_until(195 * MS)
    sim.apply(faults.Pause(at_ms=0, who="b"))
    sim.run_until(400 * MS)
    assert not log(sim, "b", "receive")
    assert sim.process("b").delivered == 0
    sim.apply(faults.Resume(at_ms=0, who="b"))
    sim.run_until(401 * MS)
    assert [entry[0] for entry in log(sim, "b", "receive")] == [400 * MS] * 5
    assert log(sim, "b", "wake")[-1][0] == 400 * MS
    assert sim.process("b").delivered == 5


def test_a_paused_sender_sends_when_it_is_resumed() -> None:
    sim = simulation(
        workload=[{"members": ["a"], "start_ms": 200, "interval_ms": 10, "count": 3, "spread": False}],
        faults=[{"kind": "pause", "at_ms": 150, "who": "a", "for_ms": 100}],
    )
    sim.run_until(500 * MS)
    assert sim.process("b").delivered == 3


@pytest.mark.parametrize("how", ["prefix", "subset"])
def test_crash_while_sending_lets_a_part_of_the_packets_out(how: str) -> None:
    outcomes = set()
    for seed in range(30):
        sim = simulation(
            seed=seed,
            members=["a", "b", "c", "d", "e"],
            workload=[{"members": ["a"], "start_ms": 500, "count": 1, "spread": False}],
            faults=[{"kind": "crash", "at_ms": 499, "who": "a", "during": how, "within_ms": 100}],
        )
        sim.run_until(600 * MS)
        assert sim.process("a").state == "crashed"
        outcomes.add(tuple(sim.process(name).delivered for name in "bcde"))
    assert all(sum(outcome) < 4 for outcome in outcomes) or how == "subset"
    assert len(outcomes) > 3
    if how == "prefix":  # in the order in which the endpoint gave its packets
        assert len(outcomes) <= 4


def test_doomed_process_dies_at_the_latest_in_time() -> None:
    sim = simulation(faults=[{"kind": "crash", "at_ms": 100, "who": "a", "during": "prefix", "within_ms": 70}])
    sim.run_until(169 * MS)
    assert sim.process("a").state == "running"
    sim.run_until(170 * MS)
    assert sim.process("a").state == "crashed"


def test_crash_is_noticed_unless_it_is_silent() -> None:
    loud = simulation(faults=[{"kind": "crash", "at_ms": 100, "who": "a"}])
    loud.run_until(200 * MS)
    assert log(loud, "b", "disconnected") == [(101 * MS, "disconnected", "a#1")]
    silent = simulation(faults=[{"kind": "crash", "at_ms": 100, "who": "a", "silent": True}])
    silent.run_until(900 * MS)
    assert not log(silent, "b", "disconnected")


def test_restart_is_a_new_incarnation_that_connects_again() -> None:
    sim = simulation(
        faults=[
            {"kind": "crash", "at_ms": 100, "who": "a", "silent": True},
            {"kind": "restart", "at_ms": 300, "who": "a"},
        ]
    )
    sim.run_until(500 * MS)
    assert list(sim.processes) == ["a#1", "b#1", "c#1", "a#2"]
    assert log(sim, "b", "disconnected")[0][2] == "a#1"
    assert log(sim, "b", "connected")[-1][2] == "a#2"


def test_leave_and_late_join() -> None:
    sim = simulation(
        faults=[{"kind": "leave", "at_ms": 100, "who": "c"}, {"kind": "join", "at_ms": 200, "who": "d"}],
    )
    result = sim.run()
    assert sim.process("c").state == "ended"
    assert log(sim, "a", "disconnected") == [(101 * MS, "disconnected", "c#1")]
    assert "d#1" in {entry[2] for entry in log(sim, "a", "connected")}
    stops = [row["process"] for row in result.rows if row["kind"] == "stop"]
    assert sorted(stops) == ["a#1", "b#1", "c#1", "d#1"]


def test_reset_tells_both_sides_and_they_dial_again() -> None:
    sim = simulation(members=["a", "b"], faults=[{"kind": "reset", "at_ms": 110, "from": "a", "to": "b"}])
    sim.run_until(200 * MS)
    assert len(log(sim, "a", "disconnected")) == len(log(sim, "b", "disconnected")) == 1
    assert len(log(sim, "a", "connected")) == len(log(sim, "b", "connected")) == 2


def test_what_is_not_accepted_is_kept_and_submitted_later() -> None:
    sim = simulation(workload=[{"members": ["a"], "start_ms": 100, "burst": 10, "count": 10, "spread": False}])
    endpoint = sim.process("a").endpoint
    assert isinstance(endpoint, FakeEndpoint)
    endpoint.window = 4
    sim.run_until(200 * MS)
    assert (sim.process("a").deferred, len(sim.process("a").unsent), sim.process("b").delivered) == (6, 6, 4)
    endpoint.window = 100
    sim.engine.touch(sim.process("a"))
    sim.run_until(300 * MS)
    assert (len(sim.process("a").unsent), sim.process("b").delivered) == (0, 10)


def test_faults_are_rows_of_the_network() -> None:
    rows = run(scenario(**BUSY), endpoint_factory=FakeEndpoint).rows
    network = [row for row in rows if row["process"] == "network#0"]
    assert network[0]["kind"] == "start"
    assert network[0]["detail"]["loss"] == "0.1"
    told = [(row["kind"], row["detail"]["kind"]) for row in network[1:]]
    assert told == [
        ("fault", "crash"), ("fault", "pause"), ("heal", "restart"), ("fault", "clog"), ("heal", "unclog"),
    ]  # fmt: skip


def test_trace_off_records_nothing_and_changes_nothing() -> None:
    with_rows = run(scenario(**BUSY), endpoint_factory=FakeEndpoint)
    without = run(scenario(**BUSY), endpoint_factory=FakeEndpoint, trace=False)
    assert without.rows == []
    assert without.stats == with_rows.stats
