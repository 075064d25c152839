"""What a task does with the rows of short runs: from Arrow to Arrow."""

from collections.abc import Sequence
from typing import Any

import msgspec

from isotone.model.errors import ConfigError
from isotone.pipeline.metrics.columns import RUNS_MAX, summary_types
from isotone.pipeline.metrics.plain.run import Run
from isotone.pipeline.metrics.plain.summary import summary_of
from isotone.pipeline.metrics.plain.sums import Row
from isotone.pipeline.metrics.plain.tables import tables_of
from isotone.trace.columns import require_pyarrow


def summary_row(table: Any, bucket_ns: int) -> Any:
    """The summary of a run as a table of one row."""
    pa = require_pyarrow()
    row = summary_of(_name(table), Run(table), bucket_ns)
    kinds = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "array<string>": pa.list_(pa.string())}
    return pa.table({name: pa.array([row[name]], kinds[kind]) for name, kind in summary_types().items()})


def tables_of_runs(batches: Sequence[Any], bucket_ns: int | None) -> list[Row]:
    """The number of runs, and the tables of the first ones by name."""
    pa = require_pyarrow()
    import pyarrow.compute as pc

    if not any(len(batch) for batch in batches):
        return [{"runs_total": 0}]
    table = pa.Table.from_batches(batches)
    column = table.column("run")
    names = sorted(column.unique().to_pylist())
    runs = [table.filter(pc.equal(column, name)) for name in names[:RUNS_MAX]] if len(names) > 1 else [table]
    return [{"runs_total": len(names)}, *(tables_or_error(run, bucket_ns) for run in runs)]


def tables_or_error(table: Any, bucket_ns: int | None) -> Row:
    """The tables of a run, or what is wrong with the width asked for: the driver says so."""
    name = _name(table)
    try:
        return tables_of(name, Run(table), bucket_ns)
    except ConfigError as error:
        return {"run": name, "error": str(error)}


def packed(entries: Sequence[Row]) -> Any:
    """Entries as JSON texts, one per row, in the column `payload`."""
    pa = require_pyarrow()
    return pa.table({"payload": pa.array([msgspec.json.encode(entry).decode() for entry in entries], pa.string())})


def _name(table: Any) -> str:
    return str(table.column("run")[0].as_py())
