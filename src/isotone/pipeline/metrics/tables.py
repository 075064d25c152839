"""All that a report draws of a history, as small tables: plain dicts and lists, by queries over histories of any length.

Invariant: every list is bounded by a constant of `columns`; where something was left out, a number beside the list says
how many there are. Times are nanoseconds since the start of the run.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.metrics.changes import switches, view_changes, view_spans
from isotone.pipeline.metrics.columns import (
    BUCKET_NS,
    CHANGES_MAX,
    CURVES_MAX,
    CUT,
    HAPPENINGS,
    MARKS,
    MARKS_MAX,
    NAMES_MAX,
    PER_DECADE,
    RUNS_MAX,
    SPANS_MAX,
    bin_edges,
    wanted_width,
)
from isotone.pipeline.metrics.flow import interarrival, rate_variance, throughput
from isotone.pipeline.metrics.frame import spread
from isotone.pipeline.metrics.latencies import measure
from isotone.pipeline.metrics.messages import History, Prepared, prepare, sends
from isotone.pipeline.metrics.records import control
from isotone.pipeline.metrics.summaries import long_summary

Table = list[dict[str, Any]]


def long_tables(history: History, bucket_ns: int | None = None) -> dict[str, Any]:
    """`isotone.pipeline.metrics.report_data` of runs of any length. Spark keeps what is read several times while this works."""
    ready = prepare(history).persist()
    try:
        return _tables(ready, bucket_ns)
    finally:
        ready.unpersist()


def _tables(ready: Prepared, bucket_ns: int | None) -> dict[str, Any]:
    total = ready.members.select("run").distinct().count()
    if not total:
        return {"runs_total": 0, "runs": []}
    found = {row["run"]: row for row in _plain(long_summary(ready, bucket_ns or BUCKET_NS).orderBy("run").limit(RUNS_MAX))}
    if total > len(found):
        ready = Prepared(*[frame.where(F.col("run").isin(*found)) for frame in (ready.rows, ready.members, ready.delivered)])
    widths = {run: wanted_width(row["duration_ns"] or 0, bucket_ns) for run, row in found.items()}
    parts = {
        **_people(ready),
        **_latencies(ready, widths),
        **_flows(ready, widths, bucket_ns or BUCKET_NS),
        **_events(ready),
        **_changes(ready),
        "control": _ranked(control(ready), F.col("rows"), "packet"),
    }
    runs = []
    for run, row in found.items():
        mine = {name: [_without_run(entry) for entry in table if entry["run"] == run] for name, table in parts.items()}
        totals = {f"{name}_total": _left_out(entries) for name, entries in mine.items() if name in CUT}
        runs.append({"run": run, "summary": row, "bucket_ns": widths[run], **totals, **mine})
    return {"runs_total": total, "runs": runs}


def _people(ready: Prepared) -> dict[str, Table]:
    kinds = ready.rows.groupBy("run", "kind").agg(F.count("*").alias("rows"))
    members = ready.members.select(
        "run",
        "process",
        "clock",
        "zero",
        "surroundings",
        "rows",
        (F.col("first") - F.col("zero")).alias("start"),
        (F.col("last") - F.col("zero")).alias("end"),
    )
    return {"kinds": _plain(kinds.orderBy("run", "kind")), "processes": _ranked(members, F.col("rows"), "process")}


def _latencies(ready: Prepared, widths: dict[str, int]) -> dict[str, Table]:
    delivered = ready.delivered
    by = {}
    for name in ("origin", "process", "protocol"):
        by[f"by_{name}"] = _ranked(measure(delivered, ["run", name]), F.col("deliveries"), name)
    timed = _bucketed(delivered, widths).where(F.col("latency_ns").isNotNull())
    over_time = timed.groupBy("run", "bucket").agg(*spread("latency_ns", "latency"), *spread("held_ns", "held"))
    exponent = F.floor(F.log10("latency_ns") * PER_DECADE).cast("int")
    binned = delivered.where(F.col("latency_ns").isNotNull()).withColumn("bin", F.when(F.col("latency_ns") > 0, exponent))
    histogram = binned.groupBy("run", "bin").agg(F.count("*").alias("deliveries"))
    shown = [(row["run"], row["origin"]) for row in by["by_origin"] if row["rank"] <= CURVES_MAX]
    return {
        **by,
        "latency_over_time": _plain(over_time.orderBy("run", "bucket")),
        "histogram": _edged(_plain(histogram.orderBy("run", F.col("bin").asc_nulls_first()))),
        "histogram_by_origin": _edged(_by_origin(binned, shown)),
    }


def _by_origin(binned: DataFrame, shown: Sequence[tuple[str, str]]) -> Table:
    if not shown:
        return []
    chosen = F.broadcast(binned.sparkSession.createDataFrame(list(shown), "run string, origin string"))
    counts = binned.join(chosen, ["run", "origin"]).groupBy("run", "origin", "bin").agg(F.count("*").alias("deliveries"))
    return _plain(counts.orderBy("run", "origin", F.col("bin").asc_nulls_first()))


def _edged(bins: Table) -> Table:
    """Bins by their edges."""
    for entry in bins:
        entry.update(bin_edges(entry.pop("bin")))
    return bins


def _flows(ready: Prepared, widths: dict[str, int], tick_ns: int) -> dict[str, Table]:
    out = _bucketed(sends(ready), widths).select("run", "bucket", "size", F.lit("sent").alias("what"))
    into = _bucketed(ready.delivered, widths).select("run", "bucket", "size", F.lit("delivered").alias("what"))
    sums: list[Column] = []
    for what in ("sent", "delivered"):
        mine = F.col("what") == what
        sums += [F.count(F.when(mine, 1)).alias(what), F.sum(F.when(mine, F.col("size"))).alias(f"{what}_bytes")]
    return {
        "rate_over_time": _plain(out.union(into).groupBy("run", "bucket").agg(*sums).orderBy("run", "bucket")),
        "gaps": _ranked(interarrival(ready), F.col("gap_count"), "process"),
        "throughput": _ranked(throughput(ready), F.col("delivered"), "process"),
        "rate_variance": _ranked(rate_variance(ready, tick_ns), F.col("events"), "origin"),
    }


def _bucketed(rows: DataFrame, widths: dict[str, int]) -> DataFrame:
    """The rows that have a time, with the stretch of their run that they fall into."""
    frame = rows.sparkSession.createDataFrame(list(widths.items()), "run string, width bigint")
    timed = rows.where(F.col("at").isNotNull()).join(F.broadcast(frame), "run")
    return timed.withColumn("bucket", F.floor(F.col("at") / F.col("width")).cast("bigint"))


def _events(ready: Prepared) -> dict[str, Table]:
    found = {}
    for name, kinds in (("marks", MARKS), ("happenings", HAPPENINGS)):
        rows = ready.rows.where(F.col("kind").isin(*kinds))
        told = rows.select("run", "process", "step", "at", "kind", "peer", "level", "protocol", "detail")
        found[name] = _ranked(told, -F.coalesce("at", "step"), "step", MARKS_MAX)
    return found


def _changes(ready: Prepared) -> dict[str, Table]:
    length = F.coalesce(F.col("end") - F.col("start"), F.col("end_step") - F.col("start_step"))
    slowest = F.coalesce("gap_ns", "duration_ns", F.lit(0))
    return {
        "views": _ranked(view_spans(ready), length, "start_step", SPANS_MAX),
        "view_changes": _ranked(view_changes(ready).where("not initial"), slowest, "end_step", CHANGES_MAX),
        "switches": _ranked(switches(ready), slowest, "end_step", CHANGES_MAX),
    }


def _ranked(rows: DataFrame, weight: Column, by: str, most: int = NAMES_MAX) -> Table:
    """The rows of most weight of each run, with their `rank` and the number of rows there are (`of`).

    The rows are already summed up, or are the few about membership: ranking them per run is cheap.
    """
    order = Window.partitionBy("run").orderBy(weight.desc(), by, *[name for name in ("process",) if name in rows.columns])
    whole = Window.partitionBy("run")
    ranked = rows.withColumn("rank", F.row_number().over(order)).withColumn("of", F.count("*").over(whole))
    return _plain(ranked.where(F.col("rank") <= most).orderBy("run", "rank"))


def _left_out(entries: Table) -> int:
    """How many rows there are; the count beside each entry is taken off."""
    total = 0
    for entry in entries:
        total = entry.pop("of")
        entry.pop("rank")
    return total


def _without_run(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "run"}


def _plain(rows: DataFrame) -> Table:
    """Rows of a bounded frame as dicts."""
    return [row.asDict(recursive=True) for row in rows.collect()]
