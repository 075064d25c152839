"""`order = "auto"` against every fixed orderer, on loads that it was not learned from and that change during the run.

    python benchmarks/policy.py [--out docs/policy-evaluation.md] [--seeds 3] [--jobs 2] [--json] [--trial NAME …] [--keep FILE]

A trial is a group, a network and some phases of load, one after the other. It is simulated for every fixed orderer and
for `auto`, with the same arrivals, and all of that with several seeds: with loss a single run says little, since some dozen
losses, each of which holds up many messages, make up the mean of a phase. A message belongs to the phase in which it was
handed in; its latency is from there to the delivery, over all members. The time that `auto` takes to notice a change and to
switch is part of the phase.

What differs by chance alone is equally good. Runs with the same seed have the same arrivals, so two choices are compared seed
by seed: the logarithms of the ratios have a mean, and Student's 95 % interval around it (`Compared`). A fixed choice is *as good
as the best* of a phase if its mean latency is at most `EQUAL` times that of the best; or up to `FAR` times, if that is within
the interval. `auto` has to beat every fixed choice over the whole run where none is as good as the best in every phase: by
the plain mean, chance or not; the page also tells what is beyond chance.

`--keep` names a file where finished runs are kept: the same command goes on where it was ended, unless the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from cells import NS, Phase, Tally, Variant, member, wait
from policy_trials import DRAWN, HELD_OUT, LOOKED_AT, Trial
from rich.progress import track

import isotone
from isotone.sim.scenario import Scenario, parse_scenario
from isotone.sim.simulation import Simulation

BEGIN_S = 4
REST_S = 2
WITHIN = 1.15
EQUAL = 1.005
FAR = 1.02
"""Behind the best by more is never chance: few runs must not excuse much."""
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""So many deviations of a mean are its 95 % interval, by the number of values, from two to ten; with more it is a little less."""
AUTO = Variant("auto")
TRIALS = (*LOOKED_AT, *DRAWN, *HELD_OUT)
ORDERS = ("all_ack", "atop", "sequencer", "single_phase", "token", "two_phase")


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
        change: dict[str, Any] = {"latency": latency_of(load.delay_ms)} if load.delay_ms else {}
        change |= {"loss": load.loss} if load.loss is not None else {}
        if change:
            faults.append({"kind": "set", "at_ms": start, **change})
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
    """Of one run: the sum of the latencies in ns and the deliveries of every phase, and what `auto` chose when, in seconds."""

    sums: list[int]
    counts: list[int]
    chosen: list[tuple[float, str]]


class Means(NamedTuple):
    """Of all runs with one orderer: the mean latency in ms of every phase, and over all."""

    phases: list[float]
    whole: float


def means(outcomes: list[Outcome]) -> Means:
    """All deliveries count alike."""
    sums = [sum(found) for found in zip(*(one.sums for one in outcomes), strict=True)]
    counts = [sum(found) for found in zip(*(one.counts for one in outcomes), strict=True)]
    phases = [total / count / NS for total, count in zip(sums, counts, strict=True)]
    return Means(phases, sum(sums) / sum(counts) / NS)


class Compared(NamedTuple):
    """One choice against another: the ratio of the mean latencies over all runs, and the 95 % interval, runs paired by seed."""

    ratio: float
    low: float
    high: float


def compared(ratio: float, single: list[float]) -> Compared:
    """`single` are the ratios of the pairs of runs."""
    logs = [log(one) for one in single]
    half = STUDENT[min(len(logs), 10) - 2] * stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else float("inf")
    return Compared(ratio, exp(mean(logs) - half), exp(mean(logs) + half))


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
    first = f"{member(0)}#1"
    chosen = [
        (round(now / NS / 1_000 - BEGIN_S, 1), str(Variant(ordering.order, tuple(ordering.options.items()))))
        for process, now, ordering in tally.switches
        if process == first
    ]
    return Outcome(sums, counts, chosen)


Job = tuple[Trial, Variant, int]


def _work(job: Job) -> Outcome:
    return measure(*job)


POLICY = ("observe.py", "policy.py", "table.json", "table.py")
"""What no fixed choice is touched by."""


class Kept:
    """Runs that are finished, in a file of JSON lines, by what decides their outcome: the job, and the code that is simulated."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.code = hashlib.sha256()
        package = Path(isotone.__file__).parent
        files = sorted(file for part in ("model", "protocol", "sim") for file in (package / part).rglob("*.*"))
        files = [file for file in files if file.suffix in (".py", ".json")]
        policy = [file for file in files if file.parent.name == "switching" and file.name in POLICY]
        for file in files:
            if file not in policy:
                self.code.update(file.read_bytes())
        self.auto = self.code.copy()
        for file in policy:
            self.auto.update(file.read_bytes())
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.outcomes = {key: Outcome(*values) for key, values in map(json.loads, lines)}

    def key(self, job: Job) -> str:
        """What names a run: the name of the trial does not matter to it."""
        trial, variant, seed = job
        digest = (self.auto if variant == AUTO else self.code).copy()
        digest.update(repr((trial._replace(name=""), variant, seed)).encode())
        return digest.hexdigest()

    def add(self, job: Job, outcome: Outcome) -> None:
        """A run is finished."""
        self.outcomes[self.key(job)] = outcome
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([self.key(job), outcome]) + "\n")


class Result:
    """All runs of one trial."""

    def __init__(self, trial: Trial, runs: dict[str, list[Outcome]]) -> None:
        self.trial = trial
        self.runs = runs
        self.means = {name: means(outcomes) for name, outcomes in runs.items()}
        self.fixed = [str(variant) for variant in fixed(trial)]
        self.best = [min(self.fixed, key=lambda name: self.means[name].phases[phase]) for phase in range(len(trial.loads))]
        self.best_whole = min(self.fixed, key=lambda name: self.means[name].whole)
        self.best_order = min(ORDERS, key=lambda name: self.means[name].whole)

    def compare(self, one: str, other: str, phase: int | None = None) -> Compared:
        """Two choices in a phase, or over the whole run."""

        def latency(found: Means) -> float:
            return found.whole if phase is None else found.phases[phase]

        pairs = zip(self.runs[one], self.runs[other], strict=True)
        single = [latency(means([first])) / latency(means([second])) for first, second in pairs]
        return compared(latency(self.means[one]) / latency(self.means[other]), single)

    def as_good(self, name: str, phase: int) -> bool:
        """Whether a fixed choice is as good as the best of a phase."""
        found = self.compare(name, self.best[phase], phase)
        return found.ratio <= EQUAL or (found.ratio <= FAR and found.low <= 1)

    def ratios(self) -> list[float]:
        """How `auto` does in each phase, against the best fixed choice of that phase."""
        return [self.means["auto"].phases[phase] / self.means[name].phases[phase] for phase, name in enumerate(self.best)]

    def single(self, phase: int) -> list[float]:
        """The same of single runs, against the same choice with the same seed."""
        pairs = zip(self.runs["auto"], self.runs[self.best[phase]], strict=True)
        return sorted(means([auto]).phases[phase] / means([other]).phases[phase] for auto, other in pairs)

    @property
    def always(self) -> list[str]:
        """The fixed choices that are as good as the best in every phase."""
        return [name for name in self.fixed if all(self.as_good(name, phase) for phase in range(len(self.best)))]

    @property
    def whole(self) -> Compared:
        """`auto` against the best fixed choice of the whole run."""
        return self.compare("auto", self.best_whole)

    @property
    def kept(self) -> bool:
        """Whether `auto` is near the best of every phase, and better than all over the run where none is always best."""
        return (bool(self.always) or self.whole.ratio < 1) and max(self.ratios()) <= WITHIN


PREFACE = """\
# `auto` against every fixed choice

Made by `{command}`, from the simulator; the same command makes the same page.
Group sizes, rates, delays, losses and shares are not those of the sweep that the table was learned from
([policy.md](policy.md)). A message belongs to the phase in which it was handed in; its latency is from there to its delivery,
the mean over all members and over {seeds} runs with other seeds, in ms. What `auto` needs to notice a change and to switch is
part of its phase, so short phases cost it more: here they last 10 to 30 s; over the whole run a phase counts by its messages.
*Best* is the best fixed choice of each phase, among all total orders with their defaults and a sequencer at every member that
is the busiest in some phase: nobody who chooses beforehand knows which. A fixed choice must keep to one column for the whole
run. *Single runs* are `auto` against that best choice with the same seed, the lowest and the highest: with loss some lost
packets make up the mean of a phase, and chance alone moves it.

What differs by chance alone is equally good. Runs with the same seed have the same arrivals, so two choices are compared seed
by seed: the logarithms of the ratios have a mean, and a 95 % interval around it (Student). A fixed choice is *as good as the
best* of a phase if its mean latency is at most {equal:.1%} above that of the best, or at most {far:.0%} and the interval
includes equality. Where no fixed choice is as good as the best in every phase, `auto` has to beat each of them over the whole
run, by the plain mean; *beyond chance* says that the interval, in the last line of each table, does not include equality.

The first trials were made by hand, and how `auto` observes and decides was tuned while looking at them: they are not
independent of it. The others were drawn at random (`benchmarks/policy_trials.py`): the first 40 were looked at since, the last
eight are held out, from a seed that was fixed before any of them was run.
"""


def summary(name: str, results: list[Result]) -> str:
    """What came out, in words."""
    ratios = [ratio for result in results for ratio in result.ratios()]
    undecided = [result for result in results if not result.always]
    orders = [one for one in undecided if one.means["auto"].whole < one.means[one.best_order].whole]
    better = [one for one in undecided if one.whole.ratio < 1]
    surely = [one for one in better if one.whole.high < 1]
    lost = "; ".join(
        f"{one.trial.name} ({one.whole.ratio:.3f}, {'beyond' if one.whole.low > 1 else 'within'} chance)"
        for one in undecided
        if one not in better
    )
    return (
        f"**{name}**: over {len(ratios)} phases of {len(results)} trials `auto` / best is {min(ratios):.2f} to "
        f"{max(ratios):.2f}, in {sum(ratio <= WITHIN for ratio in ratios)} of them at most {WITHIN}. "
        f"In {len(undecided)} trials no fixed choice is as good as the best in every phase. There `auto` is better over the "
        f"whole run than every order with its defaults in {len(orders)}, and than every fixed choice, a sequencer at whoever "
        f"would turn out to be a good place among them, in {len(better)}: in {len(surely)} beyond chance. It is not in "
        + (f"{len(undecided) - len(better)}: {lost}." if lost else "none.")
    )


def page(results: list[Result], seeds: int, command: str) -> str:
    """The results for people."""
    lines = [PREFACE.format(command=command, seeds=seeds, equal=EQUAL - 1, far=FAR - 1)]
    for name, trials in (("Looked at", LOOKED_AT), ("Drawn", DRAWN), ("Held out", HELD_OUT)):
        some = [result for result in results if result.trial in trials]
        lines += [summary(name, some), ""] if some else []
    lines.pop()
    for result in results:
        trial, found = result.trial, result.means
        columns = [*result.fixed, "auto"]
        lines += ["", f"## {trial.name.capitalize()}", "", f"{trial.told()[0].upper()}{trial.told()[1:]}.", ""]
        lines += ["| phase | " + " | ".join(f"`{name}`" for name in columns) + " | `auto` / best | single runs |"]
        lines += ["| --- |" + " --- |" * (len(columns) + 2)]
        for phase, (load, ratio, best) in enumerate(zip(trial.loads, result.ratios(), result.best, strict=True)):
            cells = [(name, f"{found[name].phases[phase]:.3g}") for name in columns]
            shown = " | ".join(f"**{cell}**" if name == best else cell for name, cell in cells)
            single = result.single(phase)
            lines.append(f"| {load.seconds} s: {load.told()} | {shown} | {ratio:.2f} | {single[0]:.2f} – {single[-1]:.2f} |")
        cells = [(name, f"{found[name].whole:.3g}") for name in columns]
        shown = " | ".join(f"**{cell}**" if name == result.best_whole else cell for name, cell in cells)
        whole = result.whole
        lines.append(f"| all messages | {shown} | {whole.ratio:.3f} | 95 %: {whole.low:.3f} – {whole.high:.3f} |")
        always = ", ".join(f"`{name}`" for name in result.always)
        lines += ["", f"As good as the best in every phase: {always or 'no fixed choice'}."]
        lines += ["", "`auto` switched, seconds after the first message:", ""]
        for seed, run in enumerate(result.runs["auto"], 1):
            lines.append(f"- seed {seed}: " + ("; ".join(f"{at:g} s `{what}`" for at, what in run.chosen) or "never"))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the trials; the exit status is 1 if `auto` does not keep what it promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--trial", action="append", choices=[trial.name for trial in TRIALS])
    arguments = parser.parse_args()
    trials = [trial for trial in TRIALS if not arguments.trial or trial.name in arguments.trial]
    seeds = range(1, arguments.seeds + 1)
    jobs = [(trial, variant, seed) for trial in trials for variant in [*fixed(trial), AUTO] for seed in seeds]
    kept = Kept(arguments.keep)
    todo = [job for job in jobs if kept.key(job) not in kept.outcomes]
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        done = track(pool.map(_work, todo), "runs", len(todo), disable=not sys.stderr.isatty())
        for job, outcome in zip(todo, done, strict=True):
            kept.add(job, outcome)
    results = []
    for trial in trials:
        variants = [*fixed(trial), AUTO]
        runs = {str(variant): [kept.outcomes[kept.key((trial, variant, seed))] for seed in seeds] for variant in variants}
        results.append(Result(trial, runs))
    if arguments.json:
        told = {one.trial.name: {name: found._asdict() for name, found in one.means.items()} for one in results}
        print(json.dumps(told, indent=1))
    chosen = "".join(f' --trial "{name}"' for name in arguments.trial or ())
    command = f"python benchmarks/policy.py --seeds {arguments.seeds}{chosen} --out docs/policy-evaluation.md"
    text = page(results, arguments.seeds, command)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    elif not arguments.json:
        print(text)
    return 0 if all(result.kept for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
