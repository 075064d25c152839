"""`isotone learn`: make the table by which `order = "auto"` decides from a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def learn(
    source: Annotated[Path, typer.Argument(help="The directory of a sweep, or a CSV file that --cells has written.")],
    out: Annotated[Path, typer.Option(help="The table, in JSON.")],
    cells: Annotated[Path | None, typer.Option(help="Also keep the cells that it was made from, as CSV.")] = None,
) -> int:
    """Turn a sweep over group size, skew, rate, delay and loss into a table of latencies: docs/policy.md."""
    from isotone.pipeline.learn import learn as make
    from isotone.pipeline.learn import read_cells, read_sweep, write_cells, write_table

    points = read_cells(source) if source.suffix == ".csv" else read_sweep(source)
    table = make(points, DESCRIPTION)
    if cells is not None:
        cells.write_text(write_cells(points), encoding="utf-8")
    out.write_text(write_table(table), encoding="utf-8")
    spanned = len(next(iter(table.orders.values())))
    print(f"{out}: {len(table.orders)} orders at {spanned:,} points, from {len(points):,} cells")
    return 0


DESCRIPTION = "Mean latencies in µs, made by `isotone learn`; docs/policy.md"
