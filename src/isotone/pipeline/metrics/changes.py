"""What changes cost: how long a view change or a switch of protocols takes at each process, and how long deliveries paused.

A view change lasts from the row that freezes the old view (`flush`, or else `transitional`) to the new view. A switch lasts
from the first to the last of its rows: rows in a row with the same `strategy`, `from` and `to` in `detail`, one of each
`phase`. The gap of a change is the longest time between two deliveries in a row at that process that overlaps the change;
null if nothing was delivered before or nothing after.

Rows about changes are few: they are put in order per process, and spread to all tasks when the gaps are looked for.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from isotone.pipeline.metrics.flow import gaps_between
from isotone.pipeline.metrics.frame import CHUNK, of_kind
from isotone.pipeline.metrics.messages import History, prepare

_PROCESS: Final = ("run", "process")


def view_changes(history: History) -> DataFrame:
    """One row per view that a process installed; its first view is `initial` and has no duration.

    `duration_ns` is from the freezing of the previous view, `transitional_ns` from its end signal; `at` is the time of the
    installation since the start of the run; `missing` names the row or column without which the duration is unknown.
    """
    ready = prepare(history)
    return with_gap(views(ready), ready.delivered)


def switches(history: History) -> DataFrame:
    """One row per switch at a process; `phases` are nanoseconds from its first row, `at` is when it ended."""
    ready = prepare(history)
    return with_gap(protocol_switches(ready), ready.delivered)


def view_spans(history: History) -> DataFrame:
    """One row per view and process: from when to when it was there (`start`, `end`) and when it froze (`frozen`), since the
    start of the run; the same as steps for histories without times. The last view ends with the last row of the process."""
    ready = prepare(history)
    members = F.broadcast(ready.members.select(*_PROCESS, (F.col("last") - F.col("zero")).alias("last"), "last_step"))
    following = F.lead("view").over(_along())
    found = _stays(ready).withColumn("next", following).join(members, [*_PROCESS])
    return found.select(
        *_PROCESS,
        F.col("view.view_epoch").alias("view_epoch"),
        F.col("view.view_proposer").alias("view_proposer"),
        F.col("view.members").alias("members"),
        F.col("view.protocol").alias("protocol"),
        F.col("view.at").alias("start"),
        F.coalesce("next.at", "last").alias("end"),
        F.col("flush.at").alias("frozen"),
        F.col("view.step").alias("start_step"),
        F.coalesce("next.step", "last_step").alias("end_step"),
    )


def _along() -> WindowSpec:
    return Window.partitionBy(*_PROCESS).orderBy("turn")


def _stays(history: History) -> DataFrame:
    """Each process in each of its views: the view, and the first signs of its end."""
    rows = prepare(history).rows.where(F.col("kind").isin("flush", "transitional", "view"))
    so_far = Window.partitionBy(*_PROCESS).orderBy("step").rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumn("turn", F.sum(of_kind("view").cast("int")).over(so_far)).where("turn > 0")
    moment = F.struct("step", "time", "at")
    view = F.struct("step", "time", "at", "view_epoch", "view_proposer", "members", "protocol")
    return rows.groupBy(*_PROCESS, "turn").agg(
        F.min(F.when(of_kind("flush"), moment)).alias("flush"),
        F.min(F.when(of_kind("transitional"), moment)).alias("signal"),
        F.min(F.when(of_kind("view"), view)).alias("view"),
    )


def views(history: History) -> DataFrame:
    """`view_changes` without what needs the rest of the history."""
    before = F.lag(F.struct("view", F.coalesce("flush", "signal").alias("begin"), "signal")).over(_along())
    found = _stays(history).withColumn("before", before).select(*_PROCESS, "view", "before.*")
    known = F.col("previous").isNotNull()
    return found.toDF(*_PROCESS, "view", "previous", "begin", "signal").select(
        *_PROCESS,
        F.col("view.view_epoch").alias("view_epoch"),
        F.col("view.view_proposer").alias("view_proposer"),
        F.col("view.members").alias("members"),
        F.col("view.protocol").alias("protocol"),
        F.col("previous.view_epoch").alias("previous_epoch"),
        F.col("previous.view_proposer").alias("previous_proposer"),
        (~known).alias("initial"),
        F.col("begin.step").alias("begin_step"),
        F.col("view.step").alias("end_step"),
        F.col("view.time").alias("time"),
        F.col("view.at").alias("at"),
        _took("view.time", "begin.time").alias("duration_ns"),
        _took("view.time", "signal.time").alias("transitional_ns"),
        F.when(known & F.col("begin").isNull(), "flush")
        .when(known & F.col("begin.time").isNull(), "flush.time")
        .when(known & F.col("view.time").isNull(), "view.time")
        .alias("missing"),
    )


def protocol_switches(history: History) -> DataFrame:
    """`switches` without what needs the rest of the history."""
    rows = prepare(history).rows.where(of_kind("switch"))
    named = [F.col("detail")[name].alias(name) for name in ("strategy", "from", "to", "phase")]
    rows = rows.select(*_PROCESS, "step", "time", "at", "protocol", *named)
    what = F.struct("strategy", "from", "to")
    order = Window.partitionBy(*_PROCESS).orderBy("step")
    other = F.coalesce(~what.eqNullSafe(F.lag(what).over(order)), F.lit(True))
    rows = rows.withColumn("other", other.cast("int"))
    rows = rows.withColumn("turn", F.sum("other").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    again = Window.partitionBy(*_PROCESS, "turn", "phase").orderBy("step")
    rows = rows.withColumn("again", F.row_number().over(again))
    moment = F.struct("step", "time", "at")
    named_phase = F.when(F.col("phase").isNotNull(), F.struct("phase", "time"))
    found = rows.groupBy(*_PROCESS, "turn", "again", "strategy", "from", "to").agg(
        F.min(moment).alias("begin"),
        F.max(moment).alias("end"),
        F.max_by("protocol", "step").alias("protocol"),
        F.count("*").alias("rows"),
        F.map_from_entries(F.collect_list(named_phase)).alias("times"),
    )
    phases = F.transform_values("times", lambda _, time: time - F.col("begin.time"))
    return found.select(
        *_PROCESS,
        "strategy",
        "from",
        "to",
        "protocol",
        F.col("begin.step").alias("begin_step"),
        F.col("end.step").alias("end_step"),
        F.col("end.time").alias("time"),
        F.col("end.at").alias("at"),
        F.when(F.col("rows") > 1, _took("end.time", "begin.time")).alias("duration_ns"),
        phases.alias("phases"),
        F.when(F.col("rows") == 1, "switch.phase").when(_took("end.time", "begin.time").isNull(), "switch.time").alias("missing"),
    )


def _took(end: str, begin: str) -> Column:
    took = F.col(end) - F.col(begin)
    return F.when(took >= 0, took)


def with_gap(changes: DataFrame, delivered: DataFrame) -> DataFrame:
    """The changes with `gap_ns`. A change meets a gap in the chunks of steps that both touch."""
    where = F.explode(F.sequence(F.floor(F.col("begin_step") / CHUNK), F.floor(F.col("end_step") / CHUNK))).alias("chunk")
    spans = changes.where(F.col("begin_step").isNotNull())
    spans = spans.select(*_PROCESS, F.col("begin_step").alias("first"), F.col("end_step").alias("until"), where)
    pauses = gaps_between(delivered).select("*", where)
    overlap = (F.col("begin_step") < F.col("until")) & (F.col("end_step") > F.col("first"))
    met = pauses.join(F.broadcast(spans), [*_PROCESS, "chunk"]).where(overlap)
    longest = met.groupBy(*_PROCESS, F.col("until").alias("end_step")).agg(F.max("gap_ns").alias("gap_ns"))
    return changes.join(longest, [*_PROCESS, "end_step"], "left")
