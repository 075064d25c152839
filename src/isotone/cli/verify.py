"""`isotone verify`: check recorded histories with Spark, on this machine or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isotone.pipeline.oracle import Report
    from isotone.pipeline.scan import Outcome
    from isotone.trace.reader import Quarantined

STATUS = {"ok": 0, "violated": 1, "unknown": 3}
SHOWN_MAX = 5
"""So many quarantined rows are shown."""

Traces = Annotated[list[str], typer.Argument(help="Trace files, directories or globs (Parquet or JSON Lines), local or as URIs.")]
Master = Annotated[str | None, typer.Option(help="Spark master; default: as Spark is configured, else local[*].")]


def verify(
    traces: Traces,
    checks: Annotated[str, typer.Option(help="Comma-separated names of checks; default: all that fit the protocols.")] = "",
    conflicts: Annotated[Path | None, typer.Option(help="A conflict relation in TOML, for the semantic checks.")] = None,
    master: Master = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    strict: Annotated[bool, typer.Option(help="Malformed rows are an error.")] = False,
) -> int:
    """Verify recorded histories: exit status 0 ok, 1 violated, 2 bad input, 3 unknown."""
    import json

    from isotone.cli.progress import spark_progress

    names = [name.strip() for name in checks.split(",") if name.strip()]
    with spark_progress("verifying"):
        outcome = check(traces, names, conflicts, master, strict)
    if as_json:
        print(json.dumps(outcome.report.to_json(), indent=2))
    else:
        show(outcome.report)
        show_quarantined(outcome)
    return STATUS[outcome.report.verdict]


def check(
    traces: Sequence[str],
    names: Sequence[str] = (),
    conflicts: Path | None = None,
    master: str | None = None,
    strict: bool = False,
) -> Outcome:
    """Check traces. A trace without a single usable row is an error, and so are traces of which one would hide another."""
    from isotone.model.conflicts import load_conflicts
    from isotone.model.errors import TraceFormatError
    from isotone.pipeline.oracle import Expectation
    from isotone.pipeline.scan import verify as scan

    relation = load_conflicts(conflicts) if conflicts is not None else None
    expected = Expectation(conflicts=relation)
    outcome = scan(traces, names or None, master=master, strict=strict, expected=expected)
    if not outcome.report.events:
        where = ", ".join(traces)
        if not outcome.quarantined:
            raise TraceFormatError(f"no events in {where}: the files are empty")
        first = outcome.quarantined[0]
        where += f": {outcome.report.quarantined:,} quarantined, the first {first.file}:{first.line}: {first.reason}"
        raise TraceFormatError(f"no usable row in {where}")
    if len(traces) > 1 and (again := repeated(outcome)) is not None:
        raise TraceFormatError(f"{again.reason}: two of the traces are of one run name; verify them one at a time")
    return outcome


def repeated(outcome: Outcome) -> Quarantined | None:
    """A row that was set apart because its process has that step already: perhaps a trace of another run of the same name."""
    from isotone.trace.reader import STEP_BACK

    known = STEP_BACK.rpartition("%s")[2]
    return next((bad for bad in outcome.quarantined if bad.reason.endswith(known)), None)


def show(report: Report) -> None:
    """Print a report for people."""
    width = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        marks = {"ok": "ok      ", "violated": "VIOLATED", "unknown": "unknown "}
        tail = f"{check.violations} ×, for example: {check.witness}" if check.verdict == "violated" else check.witness or ""
        print(f"  {check.name.ljust(width)}  {marks[check.verdict]}  {tail}".rstrip())
    bad = f", {report.quarantined:,} quarantined" if report.quarantined else ""
    print(f"{report.verdict}: {len(report.checks)} checks over {report.events:,} events{bad}")


def show_quarantined(outcome: Outcome) -> None:
    """Print the first rows that were set apart."""
    for bad in outcome.quarantined[:SHOWN_MAX]:
        print(f"  quarantined {bad.file}:{bad.line}: {bad.reason}")
    more = outcome.report.quarantined - SHOWN_MAX
    if more > 0:
        print(f"  … and {more:,} more")
    if repeated(outcome) is not None:
        print("  what occurs twice was judged once; if these are traces of two runs of one name, verify them one at a time")
