"""How long messages take: from send to deliver, and from receive to deliver, by whatever one wants to compare."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.frame import bucket, grouping, spread
from isotone.pipeline.metrics.messages import History, prepare

GROUPINGS: Final = ("origin", "process", "protocol", "level", "remote", "view_epoch", "view_proposer")


def latency(history: History, by: Sequence[str] = (), bucket_ns: int | None = None) -> DataFrame:
    """Latency per run and `by` (of `GROUPINGS`), and per stretch of `bucket_ns` of the time of delivery if given.

    `latency_…` is from send to deliver, `held_…` from receive to deliver; `missing` names why deliveries have no latency
    (`messages.REASONS`, and `receive`), `early` counts those that the clock places before their send.
    """
    rows = prepare(history).delivered
    keys = grouping(by, GROUPINGS)
    if bucket_ns is not None:
        keys.append("bucket")
        rows = rows.where(F.col("at").isNotNull()).withColumn("bucket", bucket(bucket_ns))
    return measure(rows, keys)


def measure(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Sum deliveries up by some of their columns."""
    nothing_received = F.when(F.count("received_step") == 0, F.array(F.lit("receive"))).otherwise(F.array().cast("array<string>"))
    return rows.groupBy(*keys).agg(
        F.count("*").alias("deliveries"),
        *spread("latency_ns", "latency"),
        *spread("held_ns", "held"),
        F.count(F.when(F.col("why") == "early", 1)).alias("early"),
        F.sort_array(F.concat(F.collect_set("why"), nothing_received)).alias("missing"),
    )
