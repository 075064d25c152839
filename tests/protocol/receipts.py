"""Simulated runs whose traces also say which message arrived where, for the check of delivery levels."""

from __future__ import annotations

import pytest

from isotone.model.records import Cast
from isotone.pipeline.oracle import check_history
from isotone.protocol.epoch import Epoch
from isotone.sim import run
from isotone.sim.faults import Pause
from isotone.sim.latency import Exponential
from isotone.sim.scenario import NetworkSettings, Scenario
from isotone.sim.workload import Phase

_store = Epoch._store


def _stored(self: Epoch, sender: int, cast: Cast) -> bool:
    new = _store(self, sender, cast)
    if new and cast.payloads:
        origin = self.view.members[sender]
        self._recorder.receive(self.now, self.view.id, origin, cast.number, len(cast.payloads), origin)
    return new


def resilience(order: str, level: str, patch: pytest.MonkeyPatch) -> str:
    """The verdict of the check `resilience` over a run with losses and a member that pauses."""
    patch.setattr(Epoch, "_store", _stored)
    scenario = Scenario(
        name="receipts",
        members=["a", "b", "c", "d", "e"],
        duration_ms=4_000,
        order=order,
        level=level,
        k=3 if level == "k" else 1,
        network=NetworkSettings(latency=Exponential(min_ms=1.0, mean_ms=10.0), loss=0.05),
        workload=[Phase(kind="poisson", start_ms=500, stop_ms=2_500, interval_ms=40)],
        faults=[Pause(at_ms=1_000, who="e", for_ms=700.0)],
    )
    rows = run(scenario).rows
    for row in rows:
        if row["kind"] == "start":  # one clock for all, so holding is compared with the time of the delivery
            row["detail"] = {**row["detail"], "clock": "virtual"}
    report = check_history(rows)
    assert set(report.violated()) <= {"resilience", "uniform"}
    return next(check.verdict for check in report.checks if check.name == "resilience")
