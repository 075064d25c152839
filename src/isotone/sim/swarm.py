"""The swarm: many seeds, each a group, a network, a workload and a storm of faults drawn from it.

    python -m isotone.sim.swarm --seeds 1000 [--first 1] [--jobs 2] [--order single_phase]
    python -m isotone.sim.swarm --seed 17 [--out DIR]

A failing seed prints the one command that replays it; `--out` writes the trace of a replayed seed. The rows are judged by
a checker that is found by its name (`--checker`), since checkers know nothing of the simulator and it nothing of them.
The exit status is 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from isotone.model.errors import ConfigError, unknown
from isotone.model.settings import MEMBERSHIPS, MembershipKind
from isotone.sim.judge import LIVENESS_NS, Checker, Verdict, judge
from isotone.sim.simulation import Result
from isotone.trace.schema import Row
from isotone.trace.writer import open_writer

CHECKER = "isotone.pipeline.oracle"
"""A module with `check_history(rows, expected=...)` and `Expectation(components, settled_by_ns)`."""


def find_checker(name: str) -> Checker:
    """The checker of a module such as `isotone.pipeline.oracle`."""
    try:
        module = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(f"--checker {name}: there is no such module") from None

    def check(rows: Sequence[Row], together: Sequence[str], by_ns: int) -> list[str]:
        expected = module.Expectation(components=[together] if together else None, settled_by_ns=by_ns)
        if not together:  # liveness has failed already, and safety needs no expectation
            expected = None
        report = module.check_history(rows, expected=expected)
        return [f"{result.name}: {result.witness}" for result in report.checks if result.verdict == "violated"]

    return check


def all_orders() -> list[str]:
    """The orderers that the library knows."""
    from isotone.protocol.ordering import registry

    return registry.names()


def run_seed(
    seed: int, orders: list[str], checker: str, membership: MembershipKind = "partitionable", switches: bool = False
) -> tuple[Verdict, Result | None]:
    """Judge one seed with the real endpoint."""
    return judge(seed, orders, find_checker(checker) if checker else None, membership=membership, switches=switches)


def _verdict(seed: int, orders: list[str], checker: str, membership: MembershipKind, switches: bool) -> Verdict:
    return run_seed(seed, orders, checker, membership, switches)[0]


def swarm(
    seeds: Iterable[int],
    orders: list[str] | None = None,
    jobs: int = 1,
    checker: str = CHECKER,
    membership: MembershipKind = "partitionable",
    switches: bool = False,
) -> Iterator[Verdict]:
    """Verdicts of many seeds, in the order of the seeds."""
    work = partial(_verdict, orders=orders or all_orders(), checker=checker, membership=membership, switches=switches)
    if jobs <= 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, seeds, chunksize=4)


def replay_command(verdict: Verdict, order: str | None, membership: str, switches: bool = False) -> str:
    """The one command that runs a seed again."""
    kind = (f" --membership {membership}" if membership != "partitionable" else "") + (" --switches" if switches else "")
    return f"python -m isotone.sim.swarm --seed {verdict.seed}" + (f" --order {order}" if order else "") + kind


class Totals:
    """What all seeds together showed."""

    def __init__(self) -> None:
        self.seeds = self.failed = self.rows = 0
        self.seconds = self.slowest = 0.0
        self.converged_ns_max = 0
        self.sometimes: dict[str, tuple[int, int]] = {}

    def add(self, verdict: Verdict) -> None:
        """Count one verdict in."""
        self.seeds += 1
        self.failed += bool(verdict.failures)
        self.rows += verdict.rows
        self.seconds += verdict.seconds
        self.slowest = max(self.slowest, verdict.seconds)
        self.converged_ns_max = max(self.converged_ns_max, verdict.converged_ns)
        for state, times in verdict.sometimes.items():
            seeds, total = self.sometimes.get(state, (0, 0))
            self.sometimes[state] = (seeds + (times > 0), total + times)

    def lines(self) -> list[str]:
        """For people."""
        mean = self.seconds / max(1, self.seeds)
        lines = [
            f"{self.seeds} seeds, {self.failed} failed, {self.rows} rows; {mean:.3f} s per seed, slowest {self.slowest:.2f} s; "
            f"together at most {self.converged_ns_max / 1e9:.1f} s after the healing (bound {LIVENESS_NS / 1e9:.0f} s)"
        ]
        for state, (seeds, total) in self.sometimes.items():
            lines.append(f"  sometimes: {state}: {total} times in {seeds} seeds" + ("" if total else "  NEVER"))
        return lines


def show(verdict: Verdict, order: str | None, membership: str, switches: bool = False) -> None:
    """Print why a seed failed, and how to see it again."""
    print(f"seed {verdict.seed} FAILED ({verdict.order}, {verdict.members} processes, digest {verdict.digest[:16]})")
    for failure in verdict.failures[:8]:
        print(f"  {failure}")
    if len(verdict.failures) > 8:
        print(f"  and {len(verdict.failures) - 8} more")
    print(f"  replay: {replay_command(verdict, order, membership, switches)}", flush=True)


def write_trace(result: Result, directory: Path) -> None:
    """Write a run's rows as JSON Lines."""
    writer = open_writer(directory, result.scenario.name, "jsonl")
    writer.write(result.rows)
    writer.close()
    print(f"  trace of {result.scenario.name} is in {directory}")


def _progress(total: int) -> Any:
    if not sys.stdout.isatty():
        return nullcontext()
    from rich.progress import Progress

    progress = Progress(transient=True)
    progress.add_task("seeds", total=total)
    return progress


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m isotone.sim.swarm", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this seed only, and say more")
    parser.add_argument("--jobs", type=int, default=2, help="processes that work side by side")
    parser.add_argument("--order", help="draw everything but the order")
    parser.add_argument("--membership", choices=MEMBERSHIPS, default="partitionable", help="the kind of membership")
    parser.add_argument("--switches", action="store_true", help="switch between orderers at random instants")
    parser.add_argument("--out", type=Path, help="write the trace of --seed, and traces of failing seeds, here")
    parser.add_argument("--checker", default=CHECKER, help="the module that checks the rows; empty for none")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    arguments = _arguments(argv)
    try:
        orders = all_orders()
        if arguments.order is not None:
            if arguments.order not in orders:
                raise unknown("order", arguments.order, orders)
            orders = [arguments.order]
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.seed is not None:
        return _one(arguments, orders)
    totals = Totals()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with _progress(len(seeds)) as progress:
        for verdict in swarm(seeds, orders, arguments.jobs, arguments.checker, arguments.membership, arguments.switches):
            totals.add(verdict)
            if progress is not None:
                progress.advance(progress.task_ids[0])
            if verdict.failures:
                show(verdict, arguments.order, arguments.membership, arguments.switches)
                if arguments.out is not None:
                    _, result = run_seed(verdict.seed, orders, "", arguments.membership, arguments.switches)
                    if result is not None:
                        write_trace(result, arguments.out)
    print("\n".join(totals.lines()))
    return 1 if totals.failed else 0


def _one(arguments: argparse.Namespace, orders: list[str]) -> int:
    verdict, result = run_seed(arguments.seed, orders, arguments.checker, arguments.membership, arguments.switches)
    if verdict.failures:
        show(verdict, arguments.order, arguments.membership, arguments.switches)
    if result is not None:
        scenario = result.scenario
        print(f"seed {verdict.seed}: {scenario.order} {scenario.level} {scenario.options} members {scenario.members}")
        print(f"digest {verdict.digest}, {verdict.rows} rows, {verdict.seconds:.3f} s")
        if arguments.out is not None:
            write_trace(result, arguments.out)
    for state, times in verdict.sometimes.items():
        print(f"  {state}: {times}")
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    sys.exit(main())
