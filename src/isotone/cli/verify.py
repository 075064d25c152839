"""`isotone verify`: check recorded histories. The plain-Python oracle does it: it holds the whole history in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isotone.pipeline.oracle import Report

STATUS = {"ok": 0, "violated": 1, "unknown": 3}


def verify(
    traces: Annotated[list[Path], typer.Argument(help="Trace files, directories or globs (Parquet or JSON Lines).")],
    checks: Annotated[str, typer.Option(help="Comma-separated names of checks; default: all that fit the protocols.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    strict: Annotated[bool, typer.Option(help="Malformed rows are an error.")] = False,
) -> int:
    """Verify recorded histories: exit status 0 ok, 1 violated, 2 bad input, 3 unknown."""
    import json

    from isotone.model.errors import TraceFormatError, unknown
    from isotone.pipeline.oracle import CHECKS, check_history
    from isotone.trace import read_trace

    names = [name.strip() for name in checks.split(",") if name.strip()]
    for name in names:  # before a long read
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    trace = read_trace(traces)
    if strict and trace.quarantined:
        first = trace.quarantined[0]
        raise TraceFormatError(f"{len(trace.quarantined)} malformed rows, the first in {first.file}:{first.line}: {first.reason}")
    report = check_history(trace.rows, names or None, quarantined=len(trace.quarantined))
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        show(report)
        for bad in trace.quarantined[:5]:
            print(f"  quarantined {bad.file}:{bad.line}: {bad.reason}")
    return STATUS[report.verdict]


def show(report: Report) -> None:
    """Print a report for people."""
    width = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        marks = {"ok": "ok      ", "violated": "VIOLATED", "unknown": "unknown "}
        tail = f"{check.violations} ×, for example: {check.witness}" if check.verdict == "violated" else check.witness or ""
        print(f"  {check.name.ljust(width)}  {marks[check.verdict]}  {tail}".rstrip())
    bad = f", {report.quarantined} rows quarantined" if report.quarantined else ""
    print(f"{report.verdict}: {len(report.checks)} checks over {report.events:,} events{bad}")
