"""What all metrics stand on: one typed shape of a history, the clocks of its processes, and one way to sum values up.

Invariants: every frame has a `run` that is never null (`""` is the only run); a column that the history lacks is there as
nulls, so that a metric that needs it becomes null; `at` is the time since the first event of the run on the same clock.

Times of two processes are compared only if their clocks have the same name. The name is `detail["clock"]` of the start
row; all processes of a run in virtual time share that clock, and processes that name none are taken to run on one host.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from isotone.model.errors import unknown
from isotone.pipeline.metrics.columns import ACCURACY, SURROUNDINGS, VIRTUAL, check_bucket
from isotone.trace.schema import parquet_columns

CHUNK: Final = 65_536
"""Steps of one process that are looked at together: a long process is many chunks, which are many tasks."""
_SPARK_TYPES: Final = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "list<string>": "array<string>",
    "map<string,string>": "map<string,string>",
}


def typed(history: DataFrame) -> DataFrame:
    """The history with all columns of a trace in their types, and `run` never null."""
    have = set(history.columns)
    columns = []
    for name, kind in parquet_columns().items():
        value = f"`{name}`" if name in have else "null"
        value = f"cast({value} as {_SPARK_TYPES[kind]})"
        columns.append(f"coalesce({value}, '') as run" if name == "run" else f"{value} as `{name}`")
    return history.selectExpr(*columns)  # texts, as a call to the JVM for each column would take longer than the work


def of_kind(name: str) -> Column:
    """Whether a row is of a kind."""
    return F.col("kind") == name


def clocks(rows: DataFrame) -> DataFrame:
    """One row per process of a typed history: its clock, the clock's `zero` in the run, its first and last time and step.

    `surroundings` is true for the place where a simulator notes what it does to the network.
    """
    clock = F.when(of_kind("start"), F.col("detail")["clock"])
    only_notes = F.every(F.col("kind").isin(*SURROUNDINGS)) & (
        F.some(F.col("kind").isin("fault", "heal")) | F.coalesce(F.max(clock) == VIRTUAL, F.lit(False))
    )
    found = rows.groupBy("run", "process").agg(
        F.count("*").alias("rows"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.max("step").alias("last_step"),
        F.max(clock).alias("named"),
        only_notes.alias("surroundings"),
    )
    virtual = F.max(F.col("named") == VIRTUAL).over(Window.partitionBy("run"))
    known = F.coalesce("named", F.when(virtual, F.lit(VIRTUAL)), F.lit(""))
    zero = F.min("first").over(Window.partitionBy("run", "clock"))
    return found.withColumn("clock", known).withColumn("zero", zero).drop("named")


def since_start(rows: DataFrame, members: DataFrame) -> DataFrame:
    """The rows with `clock` and `at`, the nanoseconds since the start of the run; `members` are the `clocks`."""
    known = F.broadcast(members.select("run", "process", "clock", "zero"))
    return rows.join(known, ["run", "process"], "left").withColumn("at", F.col("time") - F.col("zero")).drop("zero")


def bucket(width_ns: int, at: str = "at") -> Column:
    """The stretch of time that a moment falls into, counted from 0."""
    check_bucket(width_ns)
    return F.floor(F.col(at) / width_ns).cast("bigint")


def spread(value: str, prefix: str) -> list[Column]:
    """How the values of a column are distributed: count, mean, p50, p99 and max; all but the count are null of nothing."""
    column = F.col(value)
    return [
        F.count(column).alias(f"{prefix}_count"),
        F.avg(column).alias(f"{prefix}_mean_ns"),
        F.percentile_approx(column, F.lit(0.5), ACCURACY).alias(f"{prefix}_p50_ns"),
        F.percentile_approx(column, F.lit(0.99), ACCURACY).alias(f"{prefix}_p99_ns"),
        F.max(column).alias(f"{prefix}_max_ns"),
    ]


def grouping(by: Sequence[str], valid: Sequence[str]) -> list[str]:
    """The columns to group by: the run, and names that the metric knows."""
    for name in by:
        if name not in valid:
            raise unknown("grouping", name, valid)
    return ["run", *dict.fromkeys(by)]


def complete_sum(value: Column, among: Column | None = None) -> Column:
    """The sum (over the rows for which `among` holds); null if there is none, or one lacks the value: a part is not the whole."""
    chosen = F.lit(True) if among is None else among
    mine = F.when(chosen, value)
    return F.when(F.count(mine) == F.count(F.when(chosen, 1)), F.sum(mine))


def ratio(above: Column, below: Column) -> Column:
    """A quotient; null, not an error, if there is nothing to divide by."""
    return F.when(below != 0, above / below)
