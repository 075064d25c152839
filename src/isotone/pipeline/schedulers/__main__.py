"""Apply all schedulers to recorded arrivals, or make the page of the classes; see the package."""

import argparse
import sys
from pathlib import Path

from isotone.model.conflicts import load_conflicts
from isotone.model.errors import GroupError, TraceFormatError
from isotone.pipeline.schedulers.arrivals import recorded
from isotone.pipeline.schedulers.compare import compare
from isotone.pipeline.schedulers.page import write
from isotone.trace.reader import read_trace

HEAD = f"  {'order':16} {'in class':>8} {'d(x, y)':>9} {'by site':>9} {'held':>9} {'waited':>9} {'aborted':>9} {'undone':>9}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="isotone.pipeline.schedulers", description=__doc__)
    parser.add_argument("traces", nargs="*", type=Path, help="trace files or directories, written with trace_receives")
    parser.add_argument("--conflicts", type=Path, help="a conflict relation in TOML; default: that of the trace")
    parser.add_argument("--page", type=Path, metavar="DIRECTORY", help="write the page of the classes there")
    given = parser.parse_args()
    if bool(given.traces) == bool(given.page):
        parser.error("give either traces or --page")
    try:
        if given.page:
            write(given.page)
        else:
            show(given.traces, given.conflicts)
    except GroupError as error:
        sys.exit(f"{parser.prog}: {error}")


def show(traces: list[Path], conflicts: Path | None) -> None:
    """One table per run."""
    rows = read_trace(traces).rows
    if not rows:
        raise TraceFormatError(f"no events in {', '.join(map(str, traces))}")
    for run in recorded(rows, load_conflicts(conflicts) if conflicts else None):
        count = len(run.multicasts.senders)
        left = f", {run.left_out:,} messages that did not arrive everywhere are left out" if run.left_out else ""
        print(f"{run.run or 'run'}: {count:,} messages, {len(run.sequence):,} arrivals{left}\n{HEAD}")
        for one in compare(run):
            d = one.delay
            numbers = (d.degree, d.by_site, d.held, d.waited, one.aborted, one.undone)
            print(f"  {one.order:16} {'yes' if one.belongs else 'no':>8} " + " ".join(f"{number:9,}" for number in numbers))


if __name__ == "__main__":
    main()
