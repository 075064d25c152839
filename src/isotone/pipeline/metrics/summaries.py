"""One row per run: every metric in flat columns, as one query over histories of any length.

Nothing is collected. The history is read several times: keep it (`history.persist()`) if it is dear to compute. Planning and
compiling the query takes seconds however short the history is, so short runs go another way (`short`).
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from isotone.pipeline.metrics.changes import protocol_switches, views, with_gap
from isotone.pipeline.metrics.columns import BUCKET_NS, COLUMNS, COST
from isotone.pipeline.metrics.delays import delay
from isotone.pipeline.metrics.flow import gaps_between, per_second, series
from isotone.pipeline.metrics.frame import complete_sum, of_kind, ratio, spread
from isotone.pipeline.metrics.messages import History, Prepared, prepare


def long_summary(history: History, bucket_ns: int = BUCKET_NS) -> DataFrame:
    """`isotone.pipeline.metrics.summary` of runs of any length."""
    ready = prepare(history)
    delivered = ready.delivered
    parts = [
        _counted(ready.rows),
        _group(ready.members),
        _delivered(delivered),
        gaps_between(delivered).groupBy("run").agg(*spread("gap_ns", "gap")),
        _rates(delivered, bucket_ns),
        _changed(ready),
        delay(ready).groupBy("run").agg(*[F.sum(name).alias(f"delay_{name}") for name in ("messages", "degree", "overtaken")]),
    ]
    found = _merge(parts)
    found = found.withColumn("view_changes", F.when(F.col("view_rows") > 0, F.coalesce("view_changes", F.lit(0))))
    first, last = F.least("sent_from", "delivered_from"), F.greatest("sent_to", "delivered_to")
    found = found.withColumn("span_ns", last - first).withColumn("missing", _missing())
    for name in ("sent", "delivered"):
        total = "sent" if name == "sent" else "deliveries"
        found = found.withColumn(f"{name}_per_s", per_second(total)).withColumn(
            f"{name}_bytes_per_s", per_second(f"{name}_bytes")
        )
    for name in ("multicasts", "records", "bytes"):
        found = found.withColumn(f"control_{name}_per_message", ratio(F.col(f"control_{name}"), F.col("sent")))
    return found.select(*COLUMNS)


def _merge(parts: Sequence[DataFrame]) -> DataFrame:
    """One row per run of frames with one row per run and different columns."""
    stacked = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    names = [name for name in stacked.columns if name != "run"]
    merged = stacked.groupBy("run").agg(*[F.max(name).alias(name) for name in names])
    return merged.fillna(
        0, ["deliveries", "duplicates", "early", "switches", *(name for name in names if name.endswith("_count"))]
    )


def _counted(rows: DataFrame) -> DataFrame:
    """What sums over single rows tell."""

    def among(kind: str, value: str = "kind") -> Column:
        return F.when(of_kind(kind), F.col(value))

    count = F.coalesce(F.col("count"), F.lit(1))
    kinds = [F.count(among(kind)).alias(f"{kind}_rows") for kind in ("send", "deliver", "receive", "packet", "view")]
    endings = F.count(F.when(F.col("kind").isin("flush", "transitional"), 1)).alias("flush_rows")
    timed = [F.count(among(kind, "time")).alias(f"{kind}_timed") for kind in ("send", "deliver")]
    return rows.groupBy("run").agg(
        F.count("*").alias("rows"),
        *kinds,
        *timed,
        endings,
        F.when((F.count(among("send")) > 0) | (F.count(among("deliver")) == 0), F.count(among("send"))).alias("sent"),
        F.count(among("returned")).alias("returned"),
        complete_sum(F.col("size"), of_kind("send")).alias("sent_bytes"),
        F.min(among("send", "at")).alias("sent_from"),
        F.max(among("send", "at")).alias("sent_to"),
        complete_sum(count, of_kind("packet")).alias("control_multicasts"),
        complete_sum(count * F.col("fanout"), of_kind("packet")).alias("control_records"),
        complete_sum(F.col("size"), of_kind("packet")).alias("control_bytes"),
        complete_sum(F.col("size"), of_kind("packet") & F.col("detail")[COST].isNotNull()).alias("switch_bytes"),
    )


def _group(members: DataFrame) -> DataFrame:
    return members.groupBy("run").agg(
        F.count(F.when(~F.col("surroundings"), 1)).alias("processes"),
        F.count_distinct("clock").alias("clocks"),
        F.max(F.col("last") - F.col("zero")).alias("duration_ns"),
    )


def _delivered(delivered: DataFrame) -> DataFrame:
    rows = delivered.withColumn("remote_ns", F.when(F.col("remote"), F.col("latency_ns")))
    return rows.groupBy("run").agg(
        F.count("*").alias("deliveries"),
        (F.sum("times") - F.count("*")).alias("duplicates"),
        F.count(F.when(F.col("why") == "early", 1)).alias("early"),
        F.count(F.when(F.col("why") == "clock", 1)).alias("foreign_clock"),
        complete_sum(F.col("size")).alias("delivered_bytes"),
        F.min("at").alias("delivered_from"),
        F.max("at").alias("delivered_to"),
        *spread("latency_ns", "latency"),
        *spread("remote_ns", "remote_latency"),
        *spread("held_ns", "held"),
    )


def _rates(delivered: DataFrame, bucket_ns: int) -> DataFrame:
    flows = series(delivered, ("run", "process", "origin"), bucket_ns)
    return flows.groupBy("run").agg(*[F.avg(name).alias(f"rate_{name}") for name in ("mean", "variance", "dispersion")])


def _changed(ready: Prepared) -> DataFrame:
    columns = ["run", "process", "begin_step", "end_step", "duration_ns"]
    installed = views(ready).where(~F.col("initial"))
    both = installed.select(*columns, F.lit("view").alias("what")).union(
        protocol_switches(ready).select(*columns, F.lit("switch").alias("what"))
    )
    changed = with_gap(both, ready.delivered)

    def among(what: str, value: str) -> Column:
        return F.when(F.col("what") == what, F.col(value))

    sums: list[Column] = []
    for what, prefix, plural in (("view", "view_change", "view_changes"), ("switch", "switch", "switches")):
        sums += [
            F.count(among(what, "what")).alias(plural),
            F.avg(among(what, "duration_ns")).alias(f"{prefix}_mean_ns"),
            F.max(among(what, "duration_ns")).alias(f"{prefix}_max_ns"),
            F.max(among(what, "gap_ns")).alias(f"{prefix}_gap_max_ns"),
        ]
    return changed.groupBy("run").agg(*sums)


def _missing() -> Column:
    """What the trace lacks, as `kind` if there is no such row, and as `kind.column` if no such row has the column."""
    delivering = F.col("deliver_rows") > 0
    sending, packing, viewing = F.col("send_rows") > 0, F.col("packet_rows") > 0, F.col("view_rows") > 0
    lacks = {
        "deliver": ~delivering,
        "deliver.time": delivering & (F.col("deliver_timed") == 0),
        "deliver.size": delivering & F.col("delivered_bytes").isNull(),
        "send": delivering & ~sending,
        "send.time": sending & (F.col("send_timed") == 0),
        "send.size": sending & F.col("sent_bytes").isNull(),
        "one clock": F.col("foreign_clock") > 0,
        "receive": F.col("receive_rows") == 0,
        "packet": ~packing,
        "packet.fanout": packing & F.col("control_records").isNull(),
        "packet.size": packing & F.col("control_bytes").isNull(),
        "view": ~viewing,
        "packet.switch": packing & (F.col("switches") > 0) & F.col("switch_bytes").isNull(),
        "flush": (F.col("view_changes") > 0) & (F.col("flush_rows") == 0),
    }
    return F.array_compact(F.array(*[F.when(lack, name) for name, lack in lacks.items()]))
