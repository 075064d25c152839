"""Measures the scan of `isotone.pipeline` next to DuckDB and SciPy on the same files in the same run.

    python benchmarks/pipeline.py [--events 1e6 …] [--processes 5 50] [--faults none swap] [--forms ordered shuffled jsonl]
    python benchmarks/pipeline.py --causal --events 1e7 --processes 50

For every size, number of processes and fault it generates a history of deliveries (`pipeline_data`) in a temporary directory
and lets the contenders (`pipeline_rivals`) judge it: each in a process tree of its own, with the same cores and the same
bound on memory, taking turns, so that what the machine does besides hits all alike. Printed are the median of delivery
events per second, all seconds, the median in terms of the expert's, and the peak resident memory of the process tree
(shared pages counted in each process that maps them). The start of Spark's session and its first action stand apart.

The obvious SQL and SciPy run once, and are stopped after `--patience` seconds. SciPy is not run where it would need more
than half of the machine's free memory. A wrong verdict, or a witness that does not name the damaged message, ends the
benchmark with status 1.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pipeline_data as data
import pipeline_rivals as rivals

MEBIBYTE = 1 << 20
MEMORY = 3 << 30
SCANNED = ("integrity", "duplication", "fifo", "total_global", "position")
SCIPY_BYTES = 110
"""What SciPy's way needs per event, roughly."""
WATCHED_EVERY = 0.25
SHUFFLED_MAX = 20_000_000


def tree_bytes(root: int) -> int:
    """The resident memory of a process and all below it."""
    page = os.sysconf("SC_PAGE_SIZE")
    children: dict[int, list[int]] = {}
    size: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked
            children.setdefault(int(fields[1]), []).append(int(entry))
            size[int(entry)] = int(fields[21]) * page
    mine = [root]
    for process in mine:
        mine.extend(children.get(process, ()))
    return sum(size.get(process, 0) for process in mine)


def serve(pipe: Any, make: Callable[..., Any], given: Sequence[Any]) -> None:
    """In the child: make the contender, then act whenever asked."""
    try:
        action = make(*given)
        pipe.send(None)
        while pipe.recv():
            start = time.perf_counter()
            answer = action()
            pipe.send((time.perf_counter() - start, answer))
    except EOFError:
        pass  # the parent is gone
    except Exception as error:
        pipe.send(error)


class Contender:
    """A judge in a process of its own."""

    def __init__(self, name: str, make: Callable[..., Any], *given: Any) -> None:
        self.name = name
        self.times: list[float] = []
        self.peak = 0
        self.remark = ""
        self._pipe, far = multiprocessing.Pipe()
        self._child = multiprocessing.get_context("spawn").Process(target=serve, args=(far, make, given))
        start = time.perf_counter()
        self._child.start()
        far.close()
        self._answer(None)
        self.start_seconds = time.perf_counter() - start

    def act(self, clean: bool, patience: float | None = None) -> bool:
        """Judge once; False if that took too long. `clean` is the right verdict."""
        self._pipe.send(True)
        found = self._answer(patience)
        if found is None:
            return False
        seconds, (right, self.remark) = found
        self.times.append(seconds)
        if right != clean or "WRONG" in self.remark:
            self.close()
            sys.exit(f"{self.name}: wrong verdict or witness\n{self.remark}")
        return True

    def _answer(self, patience: float | None) -> Any:
        give_up = None if patience is None else time.monotonic() + patience
        while not self._pipe.poll(WATCHED_EVERY):
            self.peak = max(self.peak, tree_bytes(self._child.pid or 0))
            if give_up is not None and time.monotonic() > give_up:
                self._child.kill()
                return None
        self.peak = max(self.peak, tree_bytes(self._child.pid or 0))
        try:
            found = self._pipe.recv()
        except EOFError:
            sys.exit(f"{self.name}: its process ended")
        if isinstance(found, Exception):
            sys.exit(f"{self.name}: {found}")
        return found

    def close(self) -> None:
        if self._child.is_alive():
            self._pipe.send(False)
        self._child.join()

    def line(self, name: str, times: Sequence[float], events: int, expert: float | None) -> None:
        middle = statistics.median(times)
        ratio = f"{middle / expert:5.2f} × expert" if expert is not None else " " * 14
        shown = " ".join(f"{seconds:.2f}" for seconds in times)
        print(f"  {name:<24}{events / middle / 1e6:7.2f} M/s {ratio}  {self.peak / MEBIBYTE:6,.0f} MiB  s: {shown}", flush=True)


def once(name: str, make: Callable[..., Any], given: Sequence[Any], events: int, clean: bool, patience: float) -> None:
    """A contender that is too slow to be repeated."""
    one = Contender(name, make, *given)
    if one.act(clean, patience):
        one.line(name, one.times, events, None)
    else:
        print(f"  {name:<24}stopped after {patience:.0f} s", flush=True)
    one.close()


def generated(make: Callable[..., Any], *given: Any) -> Any:
    """Call in a process of its own, so that its memory is not ours."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(make, given)


def free_memory() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def measure(
    directory: Path, checks: Sequence[str], damaged: Sequence[str], events: int, given: argparse.Namespace
) -> tuple[Contender, float]:
    """Isotone and, where it can judge, the expert, in turns; returns isotone, still open, and its median."""
    clean = not damaged
    cores = len(os.sched_getaffinity(0))
    expert = None if given.causal else Contender("duckdb expert", rivals.expert, directory, cores, MEMORY)
    ours = Contender("isotone", rivals.isotone, directory, checks, damaged)
    print(f"  spark session start     {ours.start_seconds:.1f} s")
    ours.act(clean)
    first = ours.times.pop()
    began = time.monotonic()
    for turn in range(given.repeat):
        if expert is not None:
            expert.act(clean)
        ours.act(clean)
        if turn and time.monotonic() - began > given.patience:
            break
    middle = statistics.median(expert.times) if expert is not None else None
    if expert is not None:
        expert.line(expert.name, expert.times, events, middle)
        expert.close()
    ours.line("isotone, first action", [first], events, middle)
    ours.line("isotone, warm", ours.times, events, middle)
    for remark in ours.remark.splitlines():
        print(f"    {remark}")
    return ours, statistics.median(ours.times)


def other_form(form: str, ordered: Path, events: int, damaged: Sequence[str], usual: float, given: argparse.Namespace) -> None:
    """The same history in another form, and its price next to ordered Parquet files."""
    if form == "shuffled" and events > SHUFFLED_MAX:
        print(f"  {form}: not generated for more than {SHUFFLED_MAX:,} events")
        return
    with tempfile.TemporaryDirectory(dir=given.dir) as name:
        directory = Path(name)
        generated(data.shuffle if form == "shuffled" else data.to_json_lines, ordered, directory)
        ours = Contender(f"isotone, {form}", rivals.isotone, directory, SCANNED, damaged)
        ours.act(not damaged, given.patience)
        if ours.times and ours.times[0] < given.patience / 2:
            ours.times.clear()
            ours.act(not damaged)
        if ours.times:
            ours.line(ours.name, ours.times, events, None)
            print(f"    {ours.times[0] / usual:.1f} × the time for ordered files")
        else:
            print(f"  {ours.name}: stopped after {given.patience:.0f} s")
        ours.close()


def run(events: int, processes: int, fault: str, given: argparse.Namespace) -> float:
    """One history; returns the median of isotone."""
    with tempfile.TemporaryDirectory(dir=given.dir) as name:
        directory = Path(name) / "ordered"
        directory.mkdir()
        start = time.perf_counter()
        damaged = generated(data.make_causal if given.causal else data.make_total, directory, events, processes, fault)
        took = time.perf_counter() - start
        size = sum(file.stat().st_size for file in directory.iterdir()) / MEBIBYTE
        print(
            f"{events:,} deliveries, {processes} processes, fault {fault}: {size:,.0f} MiB, generated in {took:.0f} s", flush=True
        )
        ours, middle = measure(directory, ["causal"] if given.causal else SCANNED, damaged, events, given)
        ours.close()
        if given.causal:
            return middle
        cores = len(os.sched_getaffinity(0))
        if "obvious" not in given.without:
            once("duckdb obvious", rivals.obvious, (directory, cores, MEMORY), events, not damaged, given.patience)
        if "scipy" not in given.without and fault != "forge":  # it looks at the order only
            if events * SCIPY_BYTES > free_memory() / 2:
                print(f"  scipy components        not run: needs some {events * SCIPY_BYTES >> 30} GiB")
            else:
                once("scipy components", rivals.components, (directory, cores, MEMORY), events, not damaged, given.patience)
        for form in given.forms:
            if form != "ordered" and fault == "none":
                other_form(form, directory, events, damaged, middle, given)
        return middle


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=lambda text: int(float(text)), nargs="+", default=[1_000_000], help="delivery events")
    parser.add_argument("--processes", type=int, nargs="+", default=[5, 50])
    parser.add_argument("--faults", choices=("none", "swap", "forge"), nargs="+", default=["none", "swap"])
    parser.add_argument("--forms", choices=("ordered", "shuffled", "jsonl"), nargs="+", default=["ordered", "shuffled", "jsonl"])
    parser.add_argument("--causal", action="store_true", help="a causal history without positions, and the check causal")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--patience", type=float, default=120, help="seconds after which a contender is stopped")
    parser.add_argument("--without", nargs="*", default=[], choices=("obvious", "scipy"))
    parser.add_argument("--dir", type=Path, help="where temporary files go")
    given = parser.parse_args()
    cost: dict[tuple[int, str], list[tuple[int, float]]] = {}
    print(f"{len(os.sched_getaffinity(0))} cores, at most {MEMORY >> 30} GiB each")
    for events in given.events:
        for processes in given.processes:
            clean = None
            for fault in given.faults:
                middle = run(events, processes, fault, given)
                cost.setdefault((processes, fault), []).append((events, middle))
                if fault == "none":
                    clean = middle
                elif clean is not None:
                    print(f"  the fault costs {middle - clean:+.2f} s")
    for (processes, fault), points in cost.items():
        (fewer, seconds), *rest = points
        for events, longer in rest:
            ratio = longer / events / (seconds / fewer)
            print(f"cost per event, {processes} processes, fault {fault}: {events:.0e} is {ratio:.2f} × {fewer:.0e}")


if __name__ == "__main__":
    main()
