"""What the benchmarks note while a run goes on is what its trace says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from cells import NS, START_MS, Network, Variant, even, measure, recovery, scenario

from isotone.protocol.ordering import registry
from isotone.sim.simulation import Simulation

LAN = Network({"kind": "uniform", "min_ms": 0.4, "max_ms": 0.6})


@pytest.mark.parametrize("order", ["sequencer", "two_phase"])
def test_a_cell_measures_what_the_trace_says(order: str) -> None:
    run = scenario(Variant(order), 4, LAN, even(4, 400, 80), seed=3)
    rows = Simulation(run).run().rows
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    took = sorted(row["time"] - sent[row["origin"], row["number"]] for row in rows if row["kind"] == "deliver")
    packets = [row for row in rows if row["kind"] == "packet" and row["packet"] in registry.find(order).packets.values()]
    found = measure(run)
    assert found["messages"] == len(sent) > 40
    assert found["mean"] == pytest.approx(sum(took) / len(took) / NS, abs=0.001)
    assert found["max"] == pytest.approx(took[-1] / NS, abs=0.001)
    assert found["control"] == pytest.approx(sum(row["count"] * row["fanout"] for row in packets) / len(sent), abs=0.001)


def test_a_crash_stalls_who_waits_for_the_view_and_nobody_else() -> None:
    crash_ms = START_MS + 300.0
    found = {}
    for order in ("fifo", "sequencer"):
        run = scenario(Variant(order), 3, LAN, even(3, 200, 360), seed=3, crash_ms=crash_ms)
        found[order] = recovery(run, crash_ms)
        assert 500 < found[order]["view"] < 800
    assert found["fifo"]["stall"] < 100
    assert 500 < found["sequencer"]["stall"] < 800
