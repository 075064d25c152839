"""The simulator with the real endpoint: shipped scenarios, the anomaly, the documented example, the swarm, mutants."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isotone.model.ids import ProcessId
from isotone.model.records import Loose, State
from isotone.model.settings import EndpointConfig
from isotone.model.view import View
from isotone.pipeline.oracle import check_history
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.ordering.single_phase import SinglePhase
from isotone.sim import Result, parse_scenario, run
from isotone.sim.judge import judge
from isotone.sim.sometimes import CRASH_DURING_FLUSH, MERGE_OF_THREE, sometimes
from isotone.sim.swarm import CHECKER, Totals, all_orders, find_checker, main, swarm
from isotone.trace import read_trace

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = REPOSITORY / "scenarios"
ORDERS = ["single_phase", "sequencer", "causal", "fifo", "atop"]


def violated(result: Result) -> list[str]:
    report = check_history(result.rows)
    assert report.verdict != "unknown"
    return report.violated()


@pytest.mark.parametrize("name", ["calm", "crash", "partition_merge", "churn", "lossy"])
@pytest.mark.parametrize("order", ORDERS)
def test_shipped_scenarios_keep_their_promises(name: str, order: str) -> None:
    result = run(SCENARIOS / f"{name}.toml", order=order)
    report = check_history(result.rows)
    assert [(check.name, check.witness) for check in report.checks if check.verdict == "violated"] == []
    assert result.stats["delivered"] > 1_000
    assert result.stats["remote_errors"] == 0
    running = [process for process in result.processes.values() if process.state == "running"]
    views = [process.endpoint.view for process in running]
    assert {view.id for view in views if view is not None} == {views[0].id if views[0] is not None else None}
    assert views[0] is not None
    assert list(views[0].members) == sorted(process.pid for process in running)


def delivered(result: Result) -> dict[ProcessId, list[str]]:
    orders: dict[ProcessId, list[str]] = {}
    for row in result.rows:
        if row["kind"] == "deliver":
            orders.setdefault(row["process"], []).append(row["origin"])
    return orders


def test_anomaly_classical_fallback_contradicts_the_other_component() -> None:
    result = run(SCENARIOS / "anomaly.toml")
    assert delivered(result) == {"a#1": ["c#1", "b#1"], "b#1": ["b#1", "c#1"], "c#1": ["b#1", "c#1"]}
    assert "total_pairwise" in violated(result)


def test_anomaly_returned_is_consistent() -> None:
    result = run(SCENARIOS / "anomaly.toml", overrides={"options.fallback": "returned"})
    assert delivered(result) == {"a#1": ["c#1", "b#1"]}
    returned = [(row["process"], row["origin"]) for row in result.rows if row["kind"] == "returned"]
    assert sorted(returned) == [("b#1", "b#1"), ("c#1", "c#1")]
    assert violated(result) == []


def test_anomaly_single_phase_delivers_everything_in_one_order() -> None:
    result = run(SCENARIOS / "anomaly.toml", order="single_phase")
    assert delivered(result) == {name: ["b#1", "c#1"] for name in ("a#1", "b#1", "c#1")}
    assert violated(result) == []


def test_the_codec_changes_nothing() -> None:
    plain = run(SCENARIOS / "churn.toml")
    wired = run(SCENARIOS / "churn.toml", wire=True)
    assert wired.digest == plain.digest


@pytest.mark.parametrize("hash_seed", ["1", "99"])
def test_real_runs_do_not_depend_on_hashing(hash_seed: str) -> None:
    code = "from isotone.sim import run; print(run('scenarios/churn.toml').digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY / "src")}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == run(SCENARIOS / "churn.toml").digest


def test_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "simulator.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    exec(compile(example, "docs/simulator.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.startswith("agreed on ")


def test_swarm_of_a_few_seeds() -> None:
    totals = Totals()
    for verdict in swarm(range(1, 26)):
        assert verdict.failures == [], f"python -m isotone.sim.swarm --seed {verdict.seed}"
        totals.add(verdict)
    assert totals.seeds == 25
    assert any(total for _, total in totals.sometimes.values())


def test_swarm_replays_a_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--seed", "3", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    first = re.findall(r"digest (\w+)", output)
    assert main(["--seed", "3"]) == 0
    assert re.findall(r"digest (\w+)", capsys.readouterr().out) == first
    trace = read_trace([tmp_path])
    assert trace.quarantined == []
    assert f"{len(trace.rows)} rows" in output
    assert main(["--seed", "3", "--order", "sequenzer"]) == 2
    assert "did you mean 'sequencer'" in capsys.readouterr().err


class Hasty(SinglePhase):
    """Delivers what it has, without asking whether something earlier may still come."""

    def _deliver_stable(self) -> None:
        while self.pmq:
            _, sender, cast = min(self.pmq)
            self.pmq.remove(min(self.pmq))
            self._deliver(sender, cast)


class HastyEndpoint(Endpoint):
    """A mutant: the order of single_phase without its waiting."""

    def install(self, view: View, *arguments: Any) -> None:
        super().install(view, *arguments)
        assert self.epoch is not None
        self.epoch.orderer.__class__ = Hasty


class MuteEndpoint(Endpoint):
    """A mutant: never answers who proposes a view."""

    def send(self, peer: ProcessId, record: Loose) -> None:
        if not isinstance(record, State):
            super().send(peer, record)


def hasty(config: EndpointConfig, recorder: Any) -> Endpoint:
    return HastyEndpoint(config, recorder)


def test_mutant_is_caught_by_the_check_of_its_fault() -> None:
    result = run(SCENARIOS / "calm.toml", endpoint_factory=hasty)
    assert {"total_pairwise", "position"} <= set(violated(result))


def test_swarm_catches_mutants_and_names_the_seed() -> None:
    checker = find_checker(CHECKER)
    verdicts = [judge(seed, ["single_phase"], checker, hasty)[0] for seed in range(1, 9)]
    assert any("total_pairwise" in failure for verdict in verdicts for failure in verdict.failures)
    mute, _ = judge(1, ["fifo"], checker, MuteEndpoint)
    assert "liveness: no lasting common view" in mute.failures[0]


def test_an_endpoint_that_raises_is_a_failure_not_the_end_of_the_swarm() -> None:
    class Broken(Endpoint):
        def wake(self, now: int) -> None:
            raise ZeroDivisionError("broken")

    verdict, _ = judge(1, all_orders(), find_checker(CHECKER), Broken)
    assert "ZeroDivisionError" in verdict.failures[0]


def test_rare_states_are_read_from_rows() -> None:
    def row(process: str, kind: str, epoch: int = 0, proposer: str = "") -> Any:
        return {"process": process, "kind": kind, "view_epoch": epoch, "view_proposer": proposer}

    rows = [
        *(row(name, "view", 1, name) for name in ("a#1", "b#1", "c#1")),
        *(row(name, "view", 2, "a#1") for name in ("a#1", "b#1", "c#1")),
        row("a#1", "flush", 2, "a#1"),
        row("c#1", "crash"),
        row("a#1", "view", 3, "a#1"),
        row("b#1", "crash"),
    ]
    counts = sometimes(rows, [])
    assert (counts[MERGE_OF_THREE], counts[CRASH_DURING_FLUSH]) == (1, 1)


def test_late_joiner_gets_into_a_group_that_sends() -> None:
    scenario = parse_scenario(
        {
            "members": ["a", "b"],
            "duration_ms": 6_000,
            "workload": [{"kind": "poisson", "interval_ms": 20, "stop_ms": 4_500}],
            "faults": [{"kind": "join", "at_ms": 2_000, "who": "c"}],
        }
    )
    result = run(scenario)
    assert violated(result) == []
    assert result.processes["c#1"].delivered > 100


@pytest.mark.parametrize("wire", [False, True])
def test_a_network_that_multicasts_carries_a_message_once(wire: bool) -> None:
    """The same run point to point and by multicast: same deliveries, less on the senders' wires, sooner there."""
    data = {
        "name": "fan",
        "members": list("abcdef"),
        "duration_ms": 3_000,
        "order": "causal",
        "workload": [
            {
                "kind": "poisson",
                "members": ["a"],
                "start_ms": 1_000,
                "stop_ms": 2_500,
                "interval_ms": 20,
                "size_max": 1000,
                "size_min": 1000,
            }
        ],
    }
    found = {}
    for interface in ("node", "multicast"):
        network = {"latency": {"kind": "constant", "ms": 0.1}, "bandwidth_bps": 10_000_000, "interface": interface}
        result = run(parse_scenario({**data, "network": network}), seed=3, wire=wire)
        sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
        took = [row["time"] - sent[row["origin"], row["number"]] for row in result.rows if row["kind"] == "deliver"]
        assert len(took) == 6 * len(sent) > 300
        found[interface] = max(took), result.stats["packets"]["bytes"]
        assert run(parse_scenario({**data, "network": network}), seed=3, wire=wire).digest == result.digest
    copy_ns = 1_000 * 8 * 100  # a message on a wire of 10 Mbit/s
    assert found["node"][0] > 5 * copy_ns
    assert found["multicast"][0] < 3 * copy_ns + 100_000
    assert found["node"][1] > 3 * found["multicast"][1]


def test_a_sender_that_waits_does_not_catch_up() -> None:
    """While the other member is out of reach the window is full: most senders send the rest later, this one never."""

    def sends(waits: bool) -> list[int]:
        scenario = {
            "members": ["a", "b"],
            "duration_ms": 4_000,
            "limits": {"pending_messages": 1, "window_casts": 1},
            "workload": [{"members": ["a"], "interval_ms": 20, "start_ms": 1_000, "stop_ms": 3_000, "waits": waits}],
            "faults": [
                {"kind": "cut", "at_ms": 1_500, "from": "a", "to": "b", "both": True},
                {"kind": "heal", "at_ms": 2_000},
            ],
        }
        return [row["time"] // 1_000_000 for row in run(parse_scenario(scenario)).rows if row["kind"] == "send"]

    kept, left_out = sends(False), sends(True)
    assert len(kept) == 100
    assert len(left_out) <= 100 - 20
    assert sum(1_520 < time < 1_980 for time in left_out) == 0
    assert max(later - earlier for earlier, later in zip(left_out[-40:], left_out[-39:], strict=False)) == 20  # and goes on then
