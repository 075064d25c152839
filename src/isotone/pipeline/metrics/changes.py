"""What changes cost: how long a view change or a switch of protocols takes at each process, and how long deliveries paused.

A view change lasts from the row that freezes the old view (`flush`, or else `transitional`) to the new view. A switch is
rows in a row of one view with the same `instance` in `detail` (without one, with the same `strategy`, `from` and `to`), one of
each `phase`; it lasts from the first of them to the last, if one says that it is `done`. The gap of a change is the longest time
between two deliveries in a row at that process that overlaps the change; null if nothing was delivered before or nothing after.
What a process sent for the sake of a switch are the packet rows of the view whose `detail["switch"]` is the instance.

Rows about changes are few: they are put in order per process, and spread to all tasks when the gaps are looked for.
"""

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from isotone.pipeline.metrics.columns import COST, DONE, NAMED, VIEW
from isotone.pipeline.metrics.flow import gaps_between
from isotone.pipeline.metrics.frame import CHUNK, complete_sum, of_kind
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
    """One row per switch at a process; `phases` are nanoseconds from its first row, `at` is when it ended.

    `extra_bytes` is what the process sent for its sake; null if no row says so.
    """
    ready = prepare(history)
    return with_gap(_with_extra(protocol_switches(ready), ready.rows), ready.delivered)


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
    named = [F.col("detail")[name].alias(name) for name in (*NAMED, "instance", "phase")]
    rows = rows.select(*_PROCESS, *VIEW, "step", "time", "at", "protocol", *named)
    unnumbered = [F.when(F.col("instance").isNull(), F.col(name)) for name in NAMED]
    what = F.struct(*VIEW, "instance", *unnumbered)
    order = Window.partitionBy(*_PROCESS).orderBy("step")
    other = F.coalesce(~what.eqNullSafe(F.lag(what).over(order)), F.lit(True))
    rows = rows.withColumn("other", other.cast("int"))
    rows = rows.withColumn("turn", F.sum("other").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    again = Window.partitionBy(*_PROCESS, "turn", "phase").orderBy("step")
    rows = rows.withColumn("again", F.row_number().over(again))
    moment = F.struct("step", "time", "at")
    named_phase = F.when(F.col("phase").isNotNull(), F.struct("phase", "time"))
    found = rows.groupBy(*_PROCESS, "turn", "again", *VIEW, "instance").agg(
        *[F.max_by(name, "step").alias(name) for name in NAMED],
        F.min(moment).alias("begin"),
        F.max(moment).alias("end"),
        F.max_by("protocol", "step").alias("protocol"),
        F.count("*").alias("rows"),
        F.coalesce(F.some(F.col("phase") == DONE), F.lit(False)).alias("done"),
        F.map_from_entries(F.collect_list(named_phase)).alias("times"),
    )
    phases = F.transform_values("times", lambda _, time: time - F.col("begin.time"))
    took = _took("end.time", "begin.time")
    return found.select(
        *_PROCESS,
        *VIEW,
        *NAMED,
        "instance",
        "protocol",
        F.col("begin.step").alias("begin_step"),
        F.col("end.step").alias("end_step"),
        F.col("end.time").alias("time"),
        F.col("end.at").alias("at"),
        F.when((F.col("rows") > 1) & F.col("done"), took).alias("duration_ns"),
        phases.alias("phases"),
        F.when(F.col("rows") == 1, "switch.phase")
        .when(~F.col("done"), "switch.done")
        .when(took.isNull(), "switch.time")
        .alias("missing"),
    )


def _with_extra(found: DataFrame, rows: DataFrame) -> DataFrame:
    """The switches with `extra_bytes`."""
    instance = F.col("detail")[COST]
    names = (*_PROCESS, *VIEW, "instance")
    paid = rows.where(of_kind("packet") & instance.isNotNull()).withColumn("instance", instance)
    paid = paid.groupBy(*names).agg(complete_sum(F.col("size")).alias("extra_bytes"))
    paid = F.broadcast(paid.toDF(*(f"paid_{name}" for name in names), "extra_bytes"))
    same = [F.col(name).eqNullSafe(F.col(f"paid_{name}")) for name in names]
    return found.join(paid, reduce(and_, same), "left").drop(*(f"paid_{name}" for name in names))


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
