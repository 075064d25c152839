"""`isotone metrics`: measure recorded histories with Spark, on this machine or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotone.cli.verify import Master, Traces

if TYPE_CHECKING:
    from rich.console import Console

ROWS_MAX = 12
"""So many rows of a table are shown; `--json` has more."""
SPREAD = ("mean", "p50", "p99", "max")


def metrics(
    traces: Traces,
    master: Master = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    bucket_ms: Annotated[float | None, typer.Option(help="Stretch of time for rates and figures over time.")] = None,
    strict: Annotated[bool, typer.Option(help="Malformed rows are an error.")] = False,
) -> int:
    """Measure recorded histories: latency, rates, control records, view changes, switches, delay."""
    import json

    from isotone.cli.progress import spark_progress
    from isotone.model.errors import ConfigError

    if bucket_ms is not None and not bucket_ms >= 1e-6:
        raise ConfigError(f"--bucket-ms {bucket_ms}: it must be positive")
    with spark_progress("measuring"):
        found = measure(traces, master, None if bucket_ms is None else round(bucket_ms * 1e6), strict)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


def measure(traces: Sequence[str], master: str | None, bucket_ns: int | None, strict: bool) -> dict[str, Any]:
    """The tables of `report_data`, with the numbers of events and of quarantined rows."""
    from isotone.model.errors import TraceFormatError
    from isotone.pipeline.history import read_history
    from isotone.pipeline.plan import make_plan
    from isotone.pipeline.session import open_session, spark_errors

    make_plan(list(traces))  # what is wrong with the paths is said before Spark starts
    session = open_session(master)
    with spark_errors(session):
        from isotone.pipeline.metrics import READ, report_data

        loaded = read_history(session, list(traces), columns=READ, strict=strict)
        numbers = loaded.summary()
        if not numbers["rows"]:
            raise TraceFormatError(f"no usable row in {', '.join(traces)}: {numbers['quarantined']:,} quarantined")
        data = report_data(loaded.history, bucket_ns, rows=numbers["rows"])
        return {"events": numbers["rows"], "quarantined": numbers["quarantined"], **data}


def show(found: dict[str, Any]) -> None:
    """Print the measurements for people."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for run in found["runs"]:
        _show_run(console, run)
    left = found["runs_total"] - len(found["runs"])
    more = f"; {left:,} more runs are not shown" if left else ""
    bad = f", {found['quarantined']:,} quarantined" if found["quarantined"] else ""
    console.print(f"{found['runs_total']:,} runs, {found['events']:,} events{bad}{more}")


def _show_run(console: Console, run: dict[str, Any]) -> None:
    total = run["summary"]
    name = f"run {run['run']}" if run["run"] else "the run"
    lasted = _time(total["duration_ns"])
    console.print(f"{name}: {total['processes']:,} processes, {total['rows']:,} rows, {lasted}", style="bold", markup=False)
    console.print(
        f"  {_count(total['sent'])} messages sent ({_rate(total['sent_per_s'])}/s, {_rate(total['sent_bytes_per_s'])} B/s), "
        f"{_count(total['deliveries'])} deliveries ({_rate(total['delivered_per_s'])}/s, "
        f"{_rate(total['delivered_bytes_per_s'])} B/s), {total['duplicates']:,} duplicates, {total['returned']:,} returned"
    )
    if total["missing"]:
        console.print(f"  the trace lacks: {', '.join(total['missing'])}")
    kinds = {
        "send → deliver": "latency",
        "  at other processes": "remote_latency",
        "receive → deliver": "held",
        "between deliveries": "gap",
    }
    _table(console, ["", "count", *SPREAD], [[what, *_spread(total, prefix)] for what, prefix in kinds.items()])
    for name in ("origin", "process", "protocol"):
        rows = [[row[name] or "?", *_spread(row, "latency")] for row in run[f"by_{name}"]]
        _table(console, [f"send → deliver by {name}", "count", *SPREAD], rows, run[f"by_{name}_total"])
    rows = [
        [
            row["process"],
            row["origin"],
            _rate(row["delivered_mean"]),
            _rate(row["delivered_variance"]),
            _rate(row["sent_variance"]),
        ]
        for row in run["rate_variance"]
    ]
    head = ["deliveries per bucket at", "from", "mean", "variance", "variance of sends"]
    _table(console, head, rows, run["rate_variance_total"])
    rows = [
        [row["packet"] or "?", _count(row["records"]), _count(row["bytes"])]
        + [_rate(row[f"{name}_per_message"]) for name in ("records", "bytes")]
        for row in run["control"]
    ]
    _table(console, ["control records", "records", "bytes", "records/message", "bytes/message"], rows, run["control_total"])
    rows = [
        [row["process"], f"{row['view_epoch']}@{row['view_proposer']}", _time(row["at"])]
        + [_time(row[name]) for name in ("duration_ns", "gap_ns")]
        for row in run["view_changes"]
    ]
    _table(console, ["view changes at", "to view", "installed", "took", "no delivery for"], rows, run["view_changes_total"])
    rows = [
        [
            row["process"],
            f"{row['from'] or '?'} → {row['to'] or row['protocol'] or '?'}",
            *(_time(row[name]) for name in ("at", "duration_ns", "gap_ns")),
            _count(row["extra_bytes"]),
        ]
        for row in run["switches"]
    ]
    _table(console, ["switches at", "which", "done", "took", "no delivery for", "extra bytes"], rows, run["switches_total"])
    if total["delay_messages"] is not None:
        part = total["delay_degree"] / max(1, total["delay_messages"])
        console.print(
            f"  degree of delay: {total['delay_degree']:,} of {total['delay_messages']:,} arrivals ({part:.1%}); "
            f"{total['delay_overtaken']:,} were overtaken"
        )
    console.print()


def _table(console: Console, head: list[str], rows: list[list[str]], total: int | None = None) -> None:
    """A table, its first rows; nothing at all without rows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows[:ROWS_MAX]:
        table.add_row(*map(Text, row))
    console.print(table)
    left = (len(rows) if total is None else total) - ROWS_MAX
    if left > 0:
        console.print(f"  … and {left:,} more")


def _spread(row: dict[str, Any], prefix: str) -> list[str]:
    return [_count(row[f"{prefix}_count"]), *(_time(row[f"{prefix}_{name}_ns"]) for name in SPREAD)]


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(value: float | None) -> str:
    from isotone.report.stats import show_duration

    return "?" if value is None else show_duration(value)
