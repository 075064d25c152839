"""`isotone simulate`: run a scenario in virtual time, write its trace, print the digest of its rows and what happened."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

Form = Literal["parquet", "jsonl"]


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A scenario in TOML; docs/scenarios.md documents every key.")],
    out: Annotated[Path | None, typer.Option(help="Directory for the trace; without it nothing is written.")] = None,
    order: Annotated[str | None, typer.Option(help="Another orderer than the scenario's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed than the scenario's.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, replaces a key of the scenario.")] = None,
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl; default: parquet if pyarrow is installed.")] = "",
    check: Annotated[bool, typer.Option(help="Check the history with the oracle.")] = True,
) -> int:
    """Run a scenario in virtual time: same seed, same rows."""
    from isotone.cli.verify import STATUS, show
    from isotone.model.errors import ConfigError, unknown
    from isotone.pipeline.oracle import check_history
    from isotone.sim import parse_overrides, run
    from isotone.trace.writer import write_all

    form = form or ("parquet" if importlib.util.find_spec("pyarrow") else "jsonl")
    if form not in ("parquet", "jsonl"):
        raise unknown("format", form, ("parquet", "jsonl"))
    if out is not None and out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty: name a new directory for the trace")
    result = run(scenario, order, seed, overrides=parse_overrides(settings or []))
    stats = result.stats
    print(f"{result.scenario.name}: order {result.scenario.order}, level {result.scenario.level}, seed {result.scenario.seed}")
    submitted, delivered = stats["submitted"], stats["delivered"]
    print(f"  {stats['time_ns'] / 1e9:.3f} s of virtual time, {submitted:,} messages submitted, {delivered:,} deliveries")
    for process, numbers in sorted(stats["processes"].items()):
        print(f"  {process}: {numbers['state']}, {numbers['delivered']:,} delivered, {numbers['returned']:,} returned")
    print(f"  digest of {len(result.rows):,} rows: {result.digest}")
    if out is not None:
        write_all(out, cast(Form, form), result.recorders)
        print(f"  trace written to {out}")
    if not check:
        return 0
    report = check_history(result.rows)
    show(report)
    return STATUS[report.verdict]
