"""Chooses how a history is measured: short runs whole, by the plain metrics inside tasks; others by queries.

Spark takes many seconds to plan and compile the queries of `summaries` and `tables`, however few rows there are. A run of at
most `SHORT` rows fits into a task. Both ways give the same, but for the last digits of means and variances, and for percentiles
of thousands of values, which are exact here and off by up to 1/`ACCURACY` in rank there.

Invariant: no task holds more than `SHORT` rows of a run, or of a history that it takes whole.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.model.errors import ConfigError
from isotone.pipeline.metrics import READ
from isotone.pipeline.metrics.columns import BUCKET_NS, RUNS_MAX, check_bucket, summary_types
from isotone.pipeline.metrics.frame import typed
from isotone.pipeline.metrics.messages import History, Prepared
from isotone.pipeline.metrics.summaries import long_summary
from isotone.pipeline.metrics.tables import long_tables

SHORT: Final = 300_000
"""Rows of a run that one task may hold."""


def summary(history: History, bucket_ns: int = BUCKET_NS, *, longest: int | None = None) -> DataFrame:
    """One row per run with the columns of `COLUMNS`; what cannot be known is null, and `missing` says for want of what.

    `longest` says how many rows a run has at most. Without it they are counted, at once; the rest is lazy.
    """
    check_bucket(bucket_ns)
    rows = _rows(history)
    if longest is None:
        longest = rows.groupBy("run").count().agg(F.max("count")).collect()[0][0] or 0
    if longest > SHORT:
        return long_summary(history, bucket_ns)

    def measure(table: Any) -> Any:
        from isotone.pipeline.metrics.plain.task import summary_row

        return summary_row(table, bucket_ns)

    return rows.groupBy("run").applyInArrow(measure, ", ".join(f"{name} {kind}" for name, kind in summary_types().items()))


def report_data(history: History, bucket_ns: int | None = None, *, rows: int | None = None) -> dict[str, Any]:
    """The tables of each run, in the order of their names: `{"runs_total": n, "runs": [{"run": …, "summary": …, …}]}`.

    `bucket_ns` is the stretch of time of the tables over time; by default a round one that gives at most `BUCKETS_MAX`. `rows`
    says how many rows the history has at most; without it they are counted if need be.
    """
    if bucket_ns is not None:
        check_bucket(bucket_ns)
    frame = _rows(history)
    if rows is not None and rows <= SHORT:
        return _whole(frame, bucket_ns)
    sizes = frame.groupBy("run").agg(F.count("*").alias("rows"))
    first = F.slice(F.sort_array(F.collect_list(F.struct("run", "rows"))), 1, RUNS_MAX)
    total, every, shown = sizes.agg(F.count("*"), F.sum("rows"), first).collect()[0]
    if (every or 0) <= SHORT:
        return _whole(frame, bucket_ns)
    if any(one["rows"] > SHORT for one in shown):
        return long_tables(history, bucket_ns)

    def measure(table: Any) -> Any:
        from isotone.pipeline.metrics.plain.task import packed, tables_or_error

        return packed([tables_or_error(table, bucket_ns)])

    chosen = frame.where(F.col("run").isin([one["run"] for one in shown]))
    entries = _unpacked(chosen.groupBy("run").applyInArrow(measure, _PAYLOAD))
    return {"runs_total": total, "runs": sorted(entries, key=lambda entry: str(entry["run"]))}


_PAYLOAD: Final = "payload string"


def _rows(history: History) -> DataFrame:
    """The rows as `plain.run.Run` takes them: lists and maps as JSON, as Spark's time to hand null ones over is quadratic."""
    rows = history.rows if isinstance(history, Prepared) else typed(history)
    return rows.select(*[F.to_json(name).alias(name) if name in ("members", "detail") else F.col(name) for name in READ])


def _whole(frame: DataFrame, bucket_ns: int | None) -> dict[str, Any]:
    """One task for all of a short history."""

    def measure(batches: Iterator[Any]) -> Iterator[Any]:
        from isotone.pipeline.metrics.plain.task import packed, tables_of_runs

        yield from packed(tables_of_runs(list(batches), bucket_ns)).to_batches()

    entries = _unpacked(frame.coalesce(1).mapInArrow(measure, _PAYLOAD))
    return {**entries[0], "runs": entries[1:]}


def _unpacked(payloads: DataFrame) -> list[dict[str, Any]]:
    entries = [msgspec.json.decode(row["payload"]) for row in payloads.collect()]
    for entry in entries:
        if "error" in entry:
            raise ConfigError(entry["error"])
    return entries
