"""How evenly messages flow: rates over time, their variance, the time between deliveries, and throughput.

The variance is that of paper 000, §6.2: deliveries per tick, of the messages of one sender at one process, next to the
sends of that sender per tick. Ticks without a delivery count, from the first to the last tick that has one.

The time between deliveries is found chunk by chunk of a process's steps; only the seams between chunks are handled per
process, so that one process with most events is still many tasks.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.metrics.columns import BUCKET_NS, SECOND_NS
from isotone.pipeline.metrics.frame import CHUNK, bucket, complete_sum, grouping, ratio, spread
from isotone.pipeline.metrics.messages import History, prepare, sends

GROUPINGS: Final = ("process", "origin")


def rates(history: History, bucket_ns: int = BUCKET_NS, by: Sequence[str] = ()) -> DataFrame:
    """Messages and bytes sent and delivered per stretch of time, where there were any, per run and `by`.

    `sent` is null in a run without send rows, `delivered` in one without deliveries; bytes are null if one lacks its size.
    """
    ready = prepare(history)
    keys = [*grouping(by, GROUPINGS), "bucket"]
    columns = [*keys, "size"]
    timed = F.col("at").isNotNull()
    out = sends(ready).where(timed).withColumn("bucket", bucket(bucket_ns))
    into = ready.delivered.where(timed).withColumn("bucket", bucket(bucket_ns))
    both = out.select(*columns, F.lit(True).alias("out")).union(into.select(*columns, F.lit(False).alias("out")))
    outward, inward = F.col("out"), ~F.col("out")
    found = both.groupBy(*keys).agg(
        F.count(F.when(outward, 1)).alias("sent"),
        F.count(F.when(inward, 1)).alias("delivered"),
        complete_sum(F.col("size"), outward).alias("sent_bytes"),
        complete_sum(F.col("size"), inward).alias("delivered_bytes"),
    )
    return _recorded(found)


def rate_variance(history: History, bucket_ns: int = BUCKET_NS) -> DataFrame:
    """Per run, process and origin: how the deliveries per stretch of time vary, and the sends of that origin.

    Counts are per bucket: `…_mean`, `…_variance` (of the population) and `…_dispersion`, variance over mean, which is 1 for
    arrivals by chance, 0 for a steady flow, and large for bursts. `buckets` is how many stretches there are.
    """
    ready = prepare(history)
    into = series(ready.delivered, ("run", "process", "origin"), bucket_ns)
    out = series(sends(ready), ("run", "origin"), bucket_ns)
    columns = [F.col(name).alias(f"sent_{name}") for name in ("mean", "variance", "dispersion")]
    out = out.select("run", "origin", *columns)
    named = {name: f"delivered_{name}" for name in ("mean", "variance", "dispersion")}
    return into.withColumnsRenamed(named).join(F.broadcast(out), ["run", "origin"], "left")


def series(rows: DataFrame, keys: Sequence[str], bucket_ns: int) -> DataFrame:
    """Mean and variance of the number of rows per bucket, empty ones between the first and the last included."""
    counts = rows.where(F.col("at").isNotNull()).groupBy(*keys, bucket(bucket_ns).alias("bucket")).count()
    return (
        counts.groupBy(*keys)
        .agg(
            (F.max("bucket") - F.min("bucket") + 1).alias("buckets"),
            F.sum("count").alias("events"),
            F.sum(F.col("count") * F.col("count")).alias("squares"),
        )
        .withColumn("mean", F.col("events") / F.col("buckets"))
        .withColumn("variance", F.col("squares") / F.col("buckets") - F.col("mean") * F.col("mean"))
        .withColumn("dispersion", F.col("variance") / F.col("mean"))
        .drop("squares")
    )


def gaps(history: History) -> DataFrame:
    """The time between each two deliveries in a row at a process: run, process, begin_step, end_step, begin, end, gap_ns."""
    return gaps_between(prepare(history).delivered)


def gaps_between(rows: DataFrame) -> DataFrame:
    """The gaps of frames that have deliveries as rows; `begin` and `end` are times on the process's clock."""
    timed = rows.where(F.col("time").isNotNull()).select("run", "process", "step", "time")
    chunked = timed.withColumn("chunk", F.floor(F.col("step") / CHUNK))
    event = F.struct("step", "time")
    inside = Window.partitionBy("run", "process", "chunk").orderBy("step")
    within = chunked.select("run", "process", F.lag(event).over(inside).alias("from"), event.alias("to"))
    ends = chunked.groupBy("run", "process", "chunk").agg(F.min(event).alias("to"), F.max(event).alias("last"))
    along = Window.partitionBy("run", "process").orderBy("chunk")
    seams = ends.select("run", "process", F.lag("last").over(along).alias("from"), "to")
    both = within.union(seams).where(F.col("from").isNotNull())
    gap = F.col("to.time") - F.col("from.time")
    return both.select(
        "run",
        "process",
        F.col("from.step").alias("begin_step"),
        F.col("to.step").alias("end_step"),
        F.col("from.time").alias("begin"),
        F.col("to.time").alias("end"),
        F.when(gap >= 0, gap).alias("gap_ns"),
    )


def interarrival(history: History, by: Sequence[str] = ("process",)) -> DataFrame:
    """The time between deliveries in a row at a process, summed up per run and process, or per run with `by=()`."""
    return gaps(history).groupBy(*grouping(by, ("process",))).agg(*spread("gap_ns", "gap"))


def throughput(history: History, by: Sequence[str] = ("process",)) -> DataFrame:
    """Messages and bytes sent and delivered, in total and per second, per run and process, or per run with `by=()`.

    The seconds are those from the first to the last of these events. `sent` is null in a run without send rows, `delivered` in
    one without deliveries; bytes are null if one of the messages lacks its size.
    """
    ready = prepare(history)
    keys = grouping(by, ("process",))
    columns = ["run", "process", "at", "size"]
    flows = {"sent": sends(ready), "delivered": ready.delivered}
    parts = [rows.select(*columns).groupBy(*keys).agg(*_flow(name)) for name, rows in flows.items()]
    both = parts[0].unionByName(parts[1], allowMissingColumns=True)
    totals = ["sent", "delivered", "sent_bytes", "delivered_bytes"]
    merged = both.groupBy(*keys).agg(
        *[F.max(name).alias(name) for name in totals], (F.max("to") - F.min("from")).alias("span_ns")
    )
    merged = _recorded(merged.fillna(0, ["sent", "delivered"]))
    return merged.select(*keys, *totals, "span_ns", *[per_second(name).alias(f"{name}_per_s") for name in totals])


def _recorded(sums: DataFrame) -> DataFrame:
    """No number at all in the place of a zero that only says that the trace has no such rows."""
    run = Window.partitionBy("run")
    for name in ("sent", "delivered"):
        sums = sums.withColumn(name, F.when(F.max(name).over(run) > 0, F.col(name)))
    return sums


def _flow(name: str) -> list[Column]:
    return [
        F.count("*").alias(name),
        complete_sum(F.col("size")).alias(f"{name}_bytes"),
        F.min("at").alias("from"),
        F.max("at").alias("to"),
    ]


def per_second(name: str) -> Column:
    """A total over the span of the row."""
    return ratio(F.col(name) * float(SECOND_NS), F.col("span_ns"))
