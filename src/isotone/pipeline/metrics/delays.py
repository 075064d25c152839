"""The degree of delay of paper 002, §7.2: how far a process's deliveries stray from the order of arrival.

For n messages that arrived in the order x and were delivered in the order y, d(x, y) = n - c, where c is the length of the
longest common prefix. Here n counts what one process both received and delivered in one view (the view of the delivery);
its own messages count if it records their arrival. d is 0 if nothing was held back; it is coarse, as the paper says: what
follows the first message that was passed by a later one counts as delayed. `overtaken` is finer: how many messages were
passed by one that arrived later.

c is found without ranks: x and y agree up to the first arrival that a later arrival passed. So a running minimum of
delivery steps from the end is enough, taken chunk by chunk; only the chunks' minima are put in order per process.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.metrics.frame import CHUNK
from isotone.pipeline.metrics.messages import History, prepare
from isotone.trace.schema import INT64_MIN

_SITE: Final = ("run", "process", "view_epoch", "view_proposer")


def delay(history: History) -> DataFrame:
    """One row per run, process and view: messages (n), prefix (c), degree (d) and overtaken. No row without receive rows."""
    rows = prepare(history).delivered
    arrived = rows.where(F.col("received_step").isNotNull()).select(
        "run",
        "process",
        F.coalesce("view_epoch", F.lit(INT64_MIN)).alias("view_epoch"),  # a null would not meet itself in a join
        F.coalesce("view_proposer", F.lit("")).alias("view_proposer"),
        "received_step",
        F.col("step").alias("place"),
        F.floor(F.col("received_step") / CHUNK).alias("chunk"),
    )
    least = arrived.groupBy(*_SITE, "chunk").agg(F.min("place").alias("least"))
    later = Window.partitionBy(*_SITE).orderBy(F.col("chunk").desc()).rowsBetween(Window.unboundedPreceding, -1)
    beyond = least.select(*_SITE, "chunk", F.min("least").over(later).alias("beyond"))
    inside = Window.partitionBy(*_SITE, "chunk")
    following = inside.orderBy(F.col("received_step").desc()).rowsBetween(Window.unboundedPreceding, -1)
    ranked = arrived.withColumn("next", F.min("place").over(following)).withColumn(
        "rank", F.row_number().over(inside.orderBy("received_step"))
    )
    passed = F.coalesce(F.col("place") > F.least("next", "beyond"), F.lit(False))
    chunks = (
        ranked.join(F.broadcast(beyond), [*_SITE, "chunk"])
        .groupBy(*_SITE, "chunk")
        .agg(
            F.count("*").alias("messages"),
            F.count(F.when(passed, 1)).alias("overtaken"),
            F.min(F.when(passed, F.col("rank"))).alias("first"),
        )
    )
    before = Window.partitionBy(*_SITE).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    start = F.coalesce(F.sum("messages").over(before), F.lit(0))
    viewed = F.col("view_epoch") != INT64_MIN
    placed = chunks.withColumn("broken", start + F.col("first") - 1)
    return (
        placed.groupBy(*_SITE)
        .agg(F.sum("messages").alias("messages"), F.min("broken").alias("broken"), F.sum("overtaken").alias("overtaken"))
        .select(
            "run",
            "process",
            F.when(viewed, F.col("view_epoch")).alias("view_epoch"),
            F.when(viewed, F.col("view_proposer")).alias("view_proposer"),
            "messages",
            F.coalesce("broken", "messages").alias("prefix"),
            (F.col("messages") - F.coalesce("broken", "messages")).alias("degree"),
            "overtaken",
        )
    )
