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
        who = ", ".join(f"{share:.0%} from {member(rank)}" for rank, share in self.shares) or "even"
        return f"{who}, {rate}" + (f", delays now {self.delay_ms:g} ms" if self.delay_ms else "")

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
    Trial(
        "a network that slows down",
        7,
        2,
        0,
        (Load(20, 150), Load(20, 150, (), 60), Load(20, 25, ((3, 0.8),)), Load(20, 150, (), 2)),
    ),
    Trial("lossy", 4, 25, 0.01, (Load(30, 40), Load(30, 40, ((2, 1.0),)), Load(30, 40, ((1, 0.45), (3, 0.45))))),
)


def fixed(trial: Trial) -> list[Variant]:
    """Every total order, and a sequencer at each member that is the busiest in some phase."""
    seats = {rank for load in trial.loads if (rank := load.busiest())}
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
                workload.append(
                    {"kind": "poisson", "members": [names[rank]], "interval_ms": gap, "start_ms": start, "stop_ms": stop}
                )
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
    first = f"{member(0)}#1"
    chosen = [
        (round(now / NS / 1_000 - BEGIN_S, 1), str(Variant(ordering.order, tuple(ordering.options.items()))))
        for process, now, ordering in tally.switches
        if process == first
    ]
    return Outcome(means, [count // trial.members for count in counts], round(sum(sums) / sum(counts) / NS, 3), chosen)


def _work(job: tuple[Trial, Variant, int]) -> Outcome:
    return measure(*job)


PREFACE = """\
# `auto` against every fixed choice

Made by `{command}`, from the simulator; the same command makes the same page.
Group sizes, rates, delays and shares are not those of the sweep that the table was learned from ([policy.md](policy.md)). A
message belongs to the phase in which it was handed in; its latency is from there to its delivery, the mean over all members,
in ms. What `auto` needs to notice a change and to switch is part of its phase, so short phases cost it more: here they last 15
to 30 s. *Best* is the best fixed choice of each phase, among all total orders with their defaults and a sequencer at every
member that is the busiest in some phase. A fixed choice must keep to one column for the whole run.\
"""


def names(trial: Trial) -> list[str]:
    """The fixed choices."""
    return [str(variant) for variant in fixed(trial)]


def ratios(trial: Trial, found: dict[str, Outcome]) -> list[float]:
    """How `auto` does in each phase, against the best fixed choice of that phase."""
    return [
        found["auto"].phases[index] / min(found[name].phases[index] for name in names(trial)) for index in range(len(trial.loads))
    ]


def undecided(trial: Trial, found: dict[str, Outcome]) -> bool:
    """Whether no fixed choice is best in every phase."""
    phases = range(len(trial.loads))
    best = [min(found[name].phases[index] for name in names(trial)) for index in phases]
    return not any(all(found[name].phases[index] == best[index] for index in phases) for name in names(trial))


def kept(trial: Trial, found: dict[str, Outcome]) -> bool:
    """Whether `auto` is near the best of every phase, and better than all over the run where none is always best."""
    whole = not undecided(trial, found) or found["auto"].whole < min(found[name].whole for name in names(trial))
    return whole and max(ratios(trial, found)) <= WITHIN


def page(results: dict[str, dict[str, Outcome]], command: str) -> str:
    """The results for people."""
    lines = [PREFACE.format(command=command)]
    for trial in TRIALS:
        if trial.name not in results:
            continue
        found = results[trial.name]
        columns = [*names(trial), "auto"]
        lines += ["", f"## {trial.name.capitalize()}", "", f"{trial.told()[0].upper()}{trial.told()[1:]}.", ""]
        lines += ["| phase | " + " | ".join(f"`{name}`" for name in columns) + " | `auto` / best |"]
        lines += ["| --- |" + " --- |" * (len(columns) + 1)]
        for index, (load, ratio) in enumerate(zip(trial.loads, ratios(trial, found), strict=True)):
            best = min(found[name].phases[index] for name in names(trial))
            cells = [found[name].phases[index] for name in columns]
            shown = " | ".join(f"**{cell:.3g}**" if cell == best else f"{cell:.3g}" for cell in cells)
            lines.append(f"| {load.seconds} s: {load.told()} | {shown} | {ratio:.2f} |")
        best = min(found[name].whole for name in names(trial))
        shown = " | ".join(
            f"**{found[name].whole:.3g}**" if found[name].whole == best else f"{found[name].whole:.3g}" for name in columns
        )
        lines.append(f"| all messages | {shown} | {found['auto'].whole / best:.2f} |")
        chosen = "; ".join(f"{at:g} s `{what}`" for at, what in found["auto"].chosen)
        lines += ["", f"`auto` switched, seconds after the first message: {chosen or 'never'}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the trials; the exit status is 1 if `auto` does not keep what it promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trial", action="append", choices=[trial.name for trial in TRIALS])
    arguments = parser.parse_args()
    trials = [trial for trial in TRIALS if not arguments.trial or trial.name in arguments.trial]
    jobs = [(trial, variant, arguments.seed) for trial in trials for variant in [*fixed(trial), AUTO]]
    results: dict[str, dict[str, Outcome]] = {trial.name: {} for trial in trials}
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        done = track(pool.map(_work, jobs), "runs", len(jobs), disable=not sys.stderr.isatty())
        for (trial, variant, _), outcome in zip(jobs, done, strict=True):
            results[trial.name][str(variant)] = outcome
    if arguments.json:
        print(json.dumps({name: {key: one._asdict() for key, one in found.items()} for name, found in results.items()}, indent=1))
    text = page(results, f"python benchmarks/policy.py --seed {arguments.seed} --out docs/policy-evaluation.md")
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    elif not arguments.json:
        print(text)
    return 0 if all(kept(trial, results[trial.name]) for trial in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
