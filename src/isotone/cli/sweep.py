"""`isotone sweep`: run an experiment's cells on Spark; the results are one table, and the same command resumes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotone.cli.verify import STATUS, Master

if TYPE_CHECKING:
    from isotone.pipeline.sweeps.run import SweepResult

SHOWN_MAX = 10


def sweep(
    experiment: Annotated[Path, typer.Argument(help="An experiment in TOML; docs/sweep.md documents every key.")],
    out: Annotated[str, typer.Option(help="Directory (or URI) of the results; cells that are finished there are not run again.")],
    master: Master = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Simulate, check and measure every cell of an experiment: exit status 0 ok, 1 violated, 2 bad input, 3 unknown or failed."""
    import json

    from isotone.cli.progress import bar
    from isotone.pipeline.sweeps.experiment import load_experiment
    from isotone.pipeline.sweeps.run import sweep as run

    loaded = load_experiment(experiment)  # before the bar is drawn
    with bar() as move:
        progress = None if move is None else lambda done, total: move("cells", done, total)
        result = run(loaded, out, master=master, progress=progress)
    told = _told(result)
    if as_json:
        print(json.dumps(told, indent=2))
    else:
        _show(told)
    return STATUS[result.verdict]


def _told(result: SweepResult) -> dict[str, Any]:
    table = result.table
    columns = ("cell", "verdict", "violated", "witness", "error", "replay")
    rows = table.select(columns).to_pylist()
    bad = [row for row in rows if row["error"] is not None or row["verdict"] == "violated"]
    counts = {name: sum(row["error"] is None and row["verdict"] == name for row in rows) for name in STATUS}
    return {
        "verdict": result.verdict,
        "cells": len(rows),
        "ran": result.ran,
        **counts,
        "failed": sum(row["error"] is not None for row in rows),
        "events": sum(table["events"].to_pylist()),
        "table": result.path,
        "remarkable": bad[:SHOWN_MAX],
    }


def _show(told: dict[str, Any]) -> None:
    for row in told["remarkable"]:
        print(f"  {row['cell']}  {row['error'] or row['witness']}\n    {row['replay']}")
    if told["failed"] + told["violated"] > SHOWN_MAX:
        print(f"  … and {told['failed'] + told['violated'] - SHOWN_MAX} more in the table")
    counts = ", ".join(f"{told[name]:,} {name}" for name in (*STATUS, "failed") if told[name])
    before = told["cells"] - told["ran"]
    print(f"{told['verdict']}: {told['cells']:,} cells ({before:,} finished before), {counts or 'none checked'}")
    print(f"table: {told['table']}")
