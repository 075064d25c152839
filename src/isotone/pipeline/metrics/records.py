"""What ordering costs on the network: control records and bytes, by kind, and per message sent.

A packet row stands for `count` control records of a kind that left for `fanout` receivers each, `size` bytes in all copies
together. `records` counts copies (count times fanout), `multicasts` records whatever the number of their receivers.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.frame import complete_sum, of_kind, ratio
from isotone.pipeline.metrics.messages import History, prepare


def control(history: History) -> DataFrame:
    """One row per run and kind of control record. What lacks a column (`fanout`, `size`, a send) is null, and `missing` says so.

    A packet row without a `count` stands for one record.
    """
    rows = prepare(history).rows
    sent = rows.where(of_kind("send")).groupBy("run").agg(F.count("*").alias("sent"))
    found = rows.where(of_kind("packet")).groupBy("run", "packet").agg(*totals())
    per = found.join(F.broadcast(sent), "run", "left")
    lacks = [
        F.when(F.col("records").isNull(), "packet.fanout"),
        F.when(F.col("bytes").isNull(), "packet.size"),
        F.when(F.col("sent").isNull(), "send"),
    ]
    return per.select(
        "run",
        "packet",
        "rows",
        "multicasts",
        "records",
        "bytes",
        *[ratio(F.col(name), F.col("sent")).alias(f"{name}_per_message") for name in ("multicasts", "records", "bytes")],
        F.array_compact(F.array(*lacks)).alias("missing"),
    )


def totals() -> list[Column]:
    """The sums over packet rows; other rows must not be among them."""
    count = F.coalesce(F.col("count"), F.lit(1))
    return [
        F.count("*").alias("rows"),
        F.sum(count).alias("multicasts"),
        complete_sum(count * F.col("fanout")).alias("records"),
        complete_sum(F.col("size")).alias("bytes"),
    ]
