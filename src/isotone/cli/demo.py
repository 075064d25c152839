"""`isotone demo`: the story of a group on this machine, told in the terminal and checked from its traces.

Five processes on loopback send to each other; the group switches to another order under that load; one is killed, the rest is
cut in two and heals, one leaves. Every step waits for the condition that ends it. Then Spark checks the recorded histories and
measures the switch, and a report shows them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from isotone.report import Material
    from isotone.trace import Row


def demo(
    order: Annotated[str, typer.Option(help="The orderer.")] = "single_phase",
    rate: Annotated[float, typer.Option(min=1, max=2000, help="Messages per second of each process.")] = 100.0,
    out: Annotated[Path | None, typer.Option(help="Keep the traces in this directory.")] = None,
    report: Annotated[Path, typer.Option(help="The HTML file for the report.")] = Path("reports/demo.html"),
) -> int:
    """Five processes, traffic, a switch, a kill, a partition, a merge, a leave; then Spark's verdict on it, and a report."""
    import tempfile

    from isotone.cli.report import place_for
    from isotone.model.errors import ConfigError
    from isotone.model.view import Ordering
    from isotone.pipeline.session import find_java
    from isotone.protocol.ordering import registry

    find_java()  # rather now than after the story
    registry.validate(Ordering(order))
    if out is not None and out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty: name a new directory for the traces")
    with place_for(report) as part, tempfile.TemporaryDirectory(prefix="isotone-demo-") as temporary:
        trace = out if out is not None else Path(temporary) / "traces"
        trace.mkdir(parents=True, exist_ok=True)
        _play(order, rate, trace)
        status = _judge(trace, part)
    print(f"\nThe report is written; open it in a browser: {report.resolve().as_uri()}")
    return status


def _play(order: str, rate: float, trace: Path) -> None:
    from isotone.cli.demo_stage import Stage

    with Stage(order, rate, trace) as stage:
        stage.say("Five processes form a group, each listening on a loopback port of its own.")
        stage.start("a", "b", "c", "d", "e")
        stage.wait_view("abcde")
        stage.say(f"Each sends {rate:g} messages a second; all deliver everything in one order ({order}).")
        stage.wait_deliveries("abcde", 5 * rate)
        stage.switch("a", "abcde")
        stage.wait_deliveries("abcde", 2 * rate)
        stage.say("kill -9 for e, in the middle of the traffic.")
        stage.kill("e")
        stage.wait_view("abcd")
        stage.wait_deliveries("abcd", 2 * rate)
        stage.say("The network between {a, b} and {c, d} is cut; both sides go on, each in a view of its own.")
        stage.cut("ab", "cd")
        stage.wait_view("ab")
        stage.wait_view("cd")
        stage.wait_deliveries("abcd", 2 * rate)
        stage.say("The network heals; the components find each other and merge.")
        stage.heal("abcd")
        stage.wait_view("abcd")
        stage.wait_deliveries("abcd", 2 * rate)
        stage.say("d leaves; nobody has to wait for a timeout.")
        stage.leave("d")
        stage.wait_view("abc")
        stage.wait_deliveries("abc", 2 * rate)
        stage.say("The rest leaves too.")
        stage.leave("a", "b", "c")


def _judge(trace: Path, page: Path) -> int:
    from isotone.cli.progress import spark_progress
    from isotone.cli.report import write_report
    from isotone.cli.verify import STATUS, check, show
    from isotone.trace import read_trace

    _summarise(read_trace([trace]).rows)
    print("\nWhat Spark says of the traces:", flush=True)
    with spark_progress("verifying"):
        outcome = check([str(trace)])
    show(outcome.report)
    with spark_progress("drawing the report"):
        material = write_report(page, "Isotone demo", [str(trace)], outcome)
    _tell_switches(material)
    return STATUS[outcome.report.verdict]


def _tell_switches(material: Material) -> None:
    """What the switches cost, by the metrics of the traces."""
    from isotone.report.stats import show_duration

    together: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in material.runs:
        for row in run.figures.tables["switches"]:
            if row["duration_ns"] is not None:
                together.setdefault((row["from"], row["to"], row["strategy"]), []).append(row)
    for (before, after, strategy), rows in together.items():
        began, ended = min(row["at"] - row["duration_ns"] for row in rows), max(row["at"] for row in rows)
        gaps = [row["gap_ns"] for row in rows if row["gap_ns"] is not None]
        extra = sum(row["extra_bytes"] or 0 for row in rows)
        print(f"\nWhat the switch from {before} to {after} ({strategy}) cost:")
        print(f"  {show_duration(ended - began)} from the first process that had the request to the last that had switched")
        print(f"  {show_duration(max(gaps, default=0))} was the longest time without a delivery at a process meanwhile")
        print(f"  {extra:,} extra bytes were sent, by all {len(rows)} processes together")


def _summarise(rows: list[Row]) -> None:
    from collections import Counter

    from rich.console import Console
    from rich.table import Table

    began = min(row["time"] for row in rows)
    kinds = Counter(row["kind"] for row in rows)
    console = Console()
    table = Table(title="\nWho saw which view when", title_justify="left", caption="seconds since the first event")
    views = sorted({(row["view_epoch"], row["view_proposer"], tuple(row["members"])) for row in rows if row["kind"] == "view"})
    processes = sorted({row["process"] for row in rows})
    table.add_column("view")
    table.add_column("members")
    for process in processes:
        table.add_column(process.partition("#")[0], justify="right")
    installed = {(row["view_epoch"], row["view_proposer"], row["process"]): row["time"] for row in rows if row["kind"] == "view"}
    for epoch, proposer, members in views:
        times = [installed.get((epoch, proposer, process)) for process in processes]
        table.add_row(
            f"{epoch} by {proposer.partition('#')[0]}",
            " ".join(member.partition("#")[0] for member in members),
            *(f"{(time - began) / 1e9:.2f}" if time is not None else "" for time in times),
        )
    console.print(table)
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    latency = sorted(
        (row["time"] - sent[row["origin"], row["number"]]) / 1e6
        for row in rows
        if row["kind"] == "deliver" and (row["origin"], row["number"]) in sent
    )
    print(f"\n{kinds['send']:,} messages sent, {kinds['deliver']:,} deliveries, {kinds['returned']:,} returned to their senders")
    if latency:
        p50, p99 = (latency[int(len(latency) * q)] for q in (0.5, 0.99))
        longest = latency[-1]
        print(f"latency from send to delivery: half within {p50:.2f} ms, 99 % within {p99:.2f} ms, longest {longest:.0f} ms")
