"""`isotone report`: recorded histories and what the checks make of them, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    traces: Annotated[list[Path], typer.Argument(help="Trace files, directories or globs (Parquet or JSON Lines).")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    span: Annotated[str, typer.Option("--range", help="START:END in seconds since the run's start: show this part too.")] = "",
) -> int:
    """Write a report: verdicts, figures and space-time diagrams in one file. Exit status as of verify."""
    from isotone.cli.verify import STATUS
    from isotone.pipeline.oracle import check_history
    from isotone.report import write_report
    from isotone.trace import read_trace

    chosen = parse_span(span) if span else None
    trace = read_trace(traces)
    outcome = check_history(trace.rows, quarantined=len(trace.quarantined))
    named = ", ".join(path.name or str(path) for path in traces)
    write_report(out, trace.rows, outcome, f"Isotone report: {named}", chosen)
    print(f"{outcome.verdict}: {len(outcome.checks)} checks over {outcome.events:,} events; report written to {out}")
    return STATUS[outcome.verdict]


def parse_span(text: str) -> tuple[int, int]:
    """`START:END` in seconds as nanoseconds."""
    from isotone.model.errors import ConfigError

    start, _, end = text.partition(":")
    try:
        span = int(float(start) * 1e9), int(float(end) * 1e9)
    except (ValueError, OverflowError):
        raise ConfigError(f"--range {text}: give START:END in seconds, for example 2.5:3") from None
    if span[0] >= span[1]:
        raise ConfigError(f"--range {text}: the end must be later than the start")
    return span
