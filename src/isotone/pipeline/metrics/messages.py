"""Messages at processes: when each was sent, arrived and was first delivered, and how long that took.

The rows are shuffled by (run, origin, number): a sender of most messages is spread over all tasks. Every query that reads
`delivered` does this shuffle, unless Spark keeps the frame (`Prepared.persist`).

Invariants: a message counts once per process, at its first delivery by step; a latency is never negative and never
between two clocks. Where there is none, `why` names the reason.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from isotone.pipeline.metrics import READ
from isotone.pipeline.metrics.frame import clocks, of_kind, since_start, typed

REASONS: Final = ("send", "send.time", "deliver.time", "clock", "early")
"""Why a delivery has no latency: its send is not recorded; one of the two has no time; the clocks are not comparable;
the delivery is before the send."""

_MESSAGE: Final = ("run", "origin", "number")
_EVENT: Final = ("step", "time", "at", "size", "protocol", "level", "view_epoch", "view_proposer")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A history made ready for several metrics: each of them takes it in the place of the history."""

    rows: DataFrame
    """All rows, typed, with `clock` and `at`."""
    members: DataFrame
    """One row per process, see `frame.clocks`."""
    delivered: DataFrame
    """One row per message and process, see `deliveries`."""

    def persist(self) -> "Prepared":
        """Let Spark keep what several metrics read."""
        return Prepared(self.rows.persist(), self.members.persist(), self.delivered.persist())

    def unpersist(self) -> None:
        """Let it go again."""
        for frame in (self.rows, self.members, self.delivered):
            frame.unpersist()


History: TypeAlias = DataFrame | Prepared


def prepare(history: History) -> Prepared:
    """Do what all metrics have in common; lazy, and nothing is done twice."""
    if isinstance(history, Prepared):
        return history
    rows = typed(history).select(*READ)
    members = clocks(rows)
    timed = since_start(rows, members)
    return Prepared(timed, members, _delivered(timed))


def processes(history: History) -> DataFrame:
    """One row per process: clock, zero, first, last, last_step, rows and surroundings; see `frame.clocks`."""
    return prepare(history).members


def sends(history: History) -> DataFrame:
    """The send rows: run, process, origin, number, step, time, at, size, view_epoch, view_proposer."""
    rows = prepare(history).rows.where(of_kind("send"))
    return rows.select("process", *_MESSAGE, *[name for name in _EVENT if name not in ("protocol", "level")])


def deliveries(history: History) -> DataFrame:
    """One row per message and process that delivered it.

    `latency_ns` is from send to deliver, `held_ns` from receive to deliver, both null if unknown; `why` is one of
    `REASONS`; `remote` tells whether another process sent it; `times` how often it was delivered there.
    """
    return prepare(history).delivered


def _delivered(rows: DataFrame) -> DataFrame:
    event = F.struct(*_EVENT)  # the step comes first: the least struct is the first event
    moment = F.struct("step", "time", "clock")
    found = (
        rows.where(F.col("kind").isin("send", "receive", "deliver"))
        .select(*_MESSAGE, "process", "kind", "clock", *_EVENT)
        .repartition(*_MESSAGE)
        .groupBy(*_MESSAGE, "process")
        .agg(
            F.min(F.when(of_kind("deliver"), event)).alias("delivered"),
            F.max("clock").alias("clock"),
            F.min(F.when(of_kind("receive"), moment)).alias("received"),
            F.min(F.when(of_kind("send"), moment)).alias("sent"),
            F.count(F.when(of_kind("deliver"), 1)).alias("times"),
        )
        .withColumn("sent", F.min("sent").over(Window.partitionBy(*_MESSAGE)))
        .where(F.col("delivered").isNotNull())
    )
    took = F.col("delivered.time") - F.col("sent.time")
    waited = F.col("delivered.time") - F.col("received.time")
    why = (
        F.when(F.col("sent").isNull(), "send")
        .when(F.col("sent.time").isNull(), "send.time")
        .when(F.col("delivered.time").isNull(), "deliver.time")
        .when(F.col("clock") != F.col("sent.clock"), "clock")
        .when(took < 0, "early")
    )
    return found.withColumn("why", why).select(
        "run",
        "process",
        "origin",
        "number",
        "delivered.*",
        "times",
        F.col("received.step").alias("received_step"),
        "why",
        F.when(F.col("why").isNull(), took).alias("latency_ns"),
        F.when(waited >= 0, waited).alias("held_ns"),
        (F.col("process") != F.col("origin")).alias("remote"),
    )
