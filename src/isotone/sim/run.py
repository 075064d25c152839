"""Runs a scenario from beginning to end: the function behind `isotone simulate`, sweeps and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from isotone.sim.interface import EndpointFactory
from isotone.sim.process import AppFactory
from isotone.sim.scenario import Scenario, load_scenario, takes_conflicts
from isotone.sim.simulation import Result, Simulation


def run(
    scenario: Scenario | str | Path,
    order: str | None = None,
    seed: int | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    app: AppFactory | None = None,
    endpoint_factory: EndpointFactory | None = None,
    trace: bool = True,
    wire: bool = False,
) -> Result:
    """Run a scenario (or the file of one) and return its rows, their digest, counters and processes.

    `order` and `seed` replace the scenario's own; `overrides` are those of `load_scenario` and need a file. Options of a
    scenario belong to its own order, so another order runs with its defaults, and what `overrides` say; one that is not
    semantic runs without the scenario's conflict relation.
    """
    if isinstance(scenario, Scenario):
        loaded = scenario
        if order is not None and order != loaded.order:
            conflicts = loaded.conflicts if takes_conflicts(order) else None
            loaded = msgspec.structs.replace(loaded, order=order, options={}, conflicts=conflicts)
    else:
        loaded = load_scenario(scenario, {"order": order, **(overrides or {})} if order is not None else overrides)
    if seed is not None:
        loaded = msgspec.structs.replace(loaded, seed=seed)
    return Simulation(loaded, app=app, endpoint_factory=endpoint_factory, trace=trace, wire=wire).run()
