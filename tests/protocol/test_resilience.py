"""k-resiliency for all: the check `resilience` over simulated runs whose traces also say which message arrived where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isotone.pipeline.oracle import check_history
from isotone.protocol.membership.gate import Gate
from isotone.protocol.ordering import registry
from isotone.sim import run
from isotone.sim.faults import Pause
from isotone.sim.latency import Exponential
from isotone.sim.scenario import NetworkSettings, Scenario
from isotone.sim.workload import Phase


def resilience(order: str, level: str) -> str:
    """The verdict of the check `resilience` over a run with losses and a member that pauses."""
    scenario = Scenario(
        name="receipts",
        members=["a", "b", "c", "d", "e"],
        duration_ms=4_000,
        order=order,
        level=level,
        trace_receives=True,
        k=3 if level == "k" else 1,
        network=NetworkSettings(latency=Exponential(min_ms=1.0, mean_ms=10.0), loss=0.05),
        workload=[Phase(kind="poisson", start_ms=500, stop_ms=2_500, interval_ms=40)],
        faults=[Pause(at_ms=1_000, who="e", for_ms=700.0)],
    )
    report = check_history(run(scenario).rows)
    assert set(report.violated()) <= {"resilience", "uniform"}
    return next(check.verdict for check in report.checks if check.name == "resilience")


def agreed(gate: Gate) -> None:
    """A broken gate that waits for nobody."""
    gate._frontier = [1 << 60] * len(gate._frontier)


@pytest.mark.parametrize("order", registry.names())
@pytest.mark.parametrize("level", ["k", "safe"])
def test_what_is_delivered_is_held_by_enough_members(order: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of delivery levels, on traces that say what arrived where; with a gate that does not wait it is violated."""
    assert resilience(order, level) == "ok"
    deliver: Callable[..., None] = Gate.deliver

    def at_once(self: Gate, *args: object) -> None:
        agreed(self)
        deliver(self, *args)

    monkeypatch.setattr(Gate, "deliver", at_once)
    # With k a token proves it before it comes to the gate; two_phase orders what all members have proposed a place for.
    if order != "two_phase" and (order != "token" or level == "safe"):
        assert resilience(order, level) == "violated"
