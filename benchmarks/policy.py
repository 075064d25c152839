"""`order = "auto"` against every fixed orderer, on loads that it was not learned from and that change during the run.

    python benchmarks/policy.py [--out docs/policy-evaluation.md] [--seed 1] [--jobs 2] [--json] [--trial NAME …]

A trial is a group, a network and some phases of load, one after the other. It is simulated once for every fixed orderer and once
for `auto`, with the same arrivals. A message belongs to the phase in which it was handed in; its latency is from there to the
delivery, over all members. The time that `auto` takes to notice a change and to switch is part of the phase.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from cells import NS, Phase, Tally, Variant, member, wait
from rich.progress import track

from isotone.sim.scenario import Scenario, parse_scenario
from isotone.sim.simulation import Simulation

BEGIN_S = 4
REST_S = 2
WITHIN = 1.15
AUTO = Variant("auto")
ORDERS = ("all_ack", "atop", "sequencer", "single_phase", "token", "two_phase")


class Load(NamedTuple):
    """What is sent in a phase: messages a second of the whole group, and whose share of them is how large.

    Who is not named shares the rest evenly with others that are not named; without names all send alike.
    """

    seconds: int
    per_second: float
    shares: tuple[tuple[int, float], ...] = ()
    delay_ms: float = 0
    """Of the network from here on; 0 for no change."""

    def told(self) -> str:
        """In words."""
        rate = f"{self.per_second:g}/s"
        if not self.shares:
            return f"even, {rate}"
        who = ", ".join(f"{share:.0%} from {member(rank)}" for rank, share in self.shares)
        return f"{who}, {rate}" + (f", {self.delay_ms:g} ms" if self.delay_ms else "")

    def busiest(self) -> int | None:
        """The member that sends most, if there is one."""
        return max(self.shares, key=lambda entry: entry[1])[0] if self.shares else None


class Trial(NamedTuple):
    """A group, its network, and what it goes through."""

    name: str
    members: int
    delay_ms: float
    loss: float
    loads: tuple[Load, ...]

    def told(self) -> str:
        """In words."""
        loss = f", {self.loss:.0%} of the packets lost" if self.loss else ""
        return f"{self.members} members, delays of {self.delay_ms:g} ms ± 30 %{loss}"


TRIALS = (
    Trial("office", 7, 1.5, 0, (Load(20, 40), Load(20, 60, ((5, 1.0),)), Load(20, 60, ((2, 0.65),)), Load(20, 6))),
    Trial("continents", 4, 50, 0, (Load(20, 240), Load(20, 60, ((3, 0.9),)), Load(20, 5), Load(20, 40, ((1, 0.5), (2, 0.5))))),
    Trial("a hot member that moves", 6, 12, 0, tuple(Load(15, 50, ((rank, 0.75),)) for rank in (4, 1, 5, 0))),
    Trial("a network that slows down", 7, 2, 0, (Load(20, 150), Load(20, 150, (), 60), Load(20, 25, ((3, 0.8),)), Load(20, 150, (), 2))),
    Trial("lossy", 4, 25, 0.01, (Load(30, 40), Load(30, 40, ((2, 1.0),)), Load(30, 40, ((1, 0.45), (3, 0.45))))),
)


def fixed(trial: Trial) -> list[Variant]:
    """Every total order, and a sequencer at each member that is the busiest in some phase."""
    seats = {load.busiest() for load in trial.loads} - {None, 0}
    return [Variant(order) for order in ORDERS] + [Variant("sequencer", (("at", member(rank)),)) for rank in sorted(seats)]


def latency_of(delay_ms: float) -> dict[str, Any]:
    """A delay with some jitter."""
    return {"kind": "uniform", "min_ms": 0.7 * delay_ms, "max_ms": 1.3 * delay_ms}


def scenario(trial: Trial, variant: Variant, seed: int) -> Scenario:
    """The run of a trial with one orderer."""
    names = [member(rank) for rank in range(trial.members)]
    workload: list[Phase] = []
    faults: list[dict[str, Any]] = []
    start = BEGIN_S * 1_000
    for load in trial.loads:
        stop = start + load.seconds * 1_000
        named = dict(load.shares)
        rest = [rank for rank in range(trial.members) if rank not in named]
        left = 1 - sum(named.values())
        shares = [*((rank, share) for rank, share in named.items()), *((rank, left / len(rest)) for rank in rest)]
        for rank, share in shares:
            if share > 1e-9:
                gap = 1_000 / (load.per_second * share)
                workload.append({"kind": "poisson", "members": [names[rank]], "interval_ms": gap, "start_ms": start, "stop_ms": stop})
        if load.delay_ms:
            faults.append({"kind": "set", "at_ms": start, "latency": latency_of(load.delay_ms)})
        start = stop
    return parse_scenario(
        {
            "name": "trial",
            "members": names,
            "duration_ms": start + REST_S * 1_000,
            "seed": seed,
            "order": variant.order,
            "options": dict(variant.options),
            "timing": {"heartbeat_ms": 300, "retransmit_ms": 300},
            "network": {"latency": latency_of(trial.delay_ms), "loss": trial.loss},
            "workload": workload,
            "faults": faults,
        }
    )


class Outcome(NamedTuple):
    """Of one run: mean latency in ms and messages per phase, over the whole run, and what `auto` chose when."""

    phases: list[float]
    messages: list[int]
    whole: float
    chosen: list[tuple[float, str]]


def measure(trial: Trial, variant: Variant, seed: int) -> Outcome:
    """Simulate one run."""
    run = scenario(trial, variant, seed)
    tally = Tally()
    simulation = Simulation(run, endpoint_factory=tally.endpoint, trace=False)
    simulation.run_until(run.duration_ns)
    wait(simulation, lambda: len(tally.delivered) == len(tally.sent) * trial.members)
    if len(tally.delivered) != len(tally.sent) * trial.members:
        raise RuntimeError(f"{trial.name}, {variant}: {len(tally.sent)} messages, {len(tally.delivered)} deliveries")
    ends, end = [], BEGIN_S
    for load in trial.loads:
        end += load.seconds
        ends.append(end * 1_000 * NS)
    sums, counts = [0] * len(ends), [0] * len(ends)
    for _, payload, now in tally.delivered:
        sent = tally.sent[payload]
        phase = next(index for index, end in enumerate(ends) if sent < end)
        sums[phase] += now - sent
        counts[phase] += 1
    means = [round(total / count / NS, 3) for total, count in zip(sums, counts, strict=True)]
    chosen = [(round(now / NS / 1_000 - BEGIN_S, 1), told) for now, told in getattr(tally, "switches", [])]
    return Outcome(means, [count // trial.members for count in counts], round(sum(sums) / sum(counts) / NS, 3), chosen)


def _work(job: tuple[Trial, Variant, int]) -> Outcome:
    return measure(*job)
