"""`isotone simulate`: run a scenario in virtual time, write its trace, print the digest of its rows and what happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

if TYPE_CHECKING:
    from isotone.trace import Row

Form = Literal["parquet", "jsonl"]


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A scenario in TOML; docs/scenarios.md documents every key.")],
    out: Annotated[Path | None, typer.Option(help="Directory for the trace; without it nothing is written.")] = None,
    order: Annotated[str | None, typer.Option(help="Another orderer than the scenario's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed than the scenario's.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, replaces a key of the scenario.")] = None,
    form: Annotated[str, typer.Option("--format", help="parquet or jsonl")] = "parquet",
    check: Annotated[bool, typer.Option(help="Check the history with the oracle.")] = True,
) -> int:
    """Run a scenario in virtual time: same seed, same rows."""
    from isotone.cli.verify import STATUS, show
    from isotone.model.errors import ConfigError, unknown
    from isotone.pipeline.oracle import check_history
    from isotone.sim.run import run

    if form not in ("parquet", "jsonl"):
        raise unknown("format", form, ("parquet", "jsonl"))
    if out is not None and out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty: name a new directory for the trace")
    result = run(scenario, order, seed, overrides=_overrides(settings or []))
    stats = result.stats
    print(f"{result.scenario.name}: order {result.scenario.order}, level {result.scenario.level}, seed {result.scenario.seed}")
    submitted, delivered = stats["submitted"], stats["delivered"]
    print(f"  {stats['time_ns'] / 1e9:.3f} s of virtual time, {submitted:,} messages submitted, {delivered:,} deliveries")
    for process, numbers in sorted(stats["processes"].items()):
        print(f"  {process}: {numbers['state']}, {numbers['delivered']:,} delivered, {numbers['returned']:,} returned")
    print(f"  digest of {len(result.rows):,} rows: {result.digest}")
    if out is not None:
        _write(out, result.rows, cast(Form, form))
        print(f"  trace written to {out}")
    if not check:
        return 0
    report = check_history(result.rows)
    show(report)
    return STATUS[report.verdict]


def _write(out: Path, rows: list[Row], form: Form) -> None:
    from itertools import groupby

    from isotone.trace import open_writer

    for process, part in groupby(sorted(rows, key=lambda row: (row["process"], row["step"])), key=lambda row: row["process"]):
        writer = open_writer(out, process, form)
        writer.write(list(part))
        writer.close()


def _overrides(settings: list[str]) -> dict[str, Any]:
    import tomllib

    from isotone.model.errors import ConfigError

    result: dict[str, Any] = {}
    for setting in settings:
        key, mark, text = setting.partition("=")
        if not mark or not key.strip():
            raise ConfigError(f"--set {setting!r}: write key=value")
        try:
            result[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            result[key.strip()] = text
    return result
