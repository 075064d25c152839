"""Spreads the units of a scan over tasks. A unit is what one call of a kernel reads; tasks are few and large.

Invariant: kernels get rows as `kernels.load` gives them, of one unit at a time; nothing about rows stays at the driver.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isotone.pipeline.kernels.load import Columns, Rejects, load
from isotone.pipeline.kernels.parcel import in_run
from isotone.pipeline.plan import Source

TASKS_PER_CORE: Final = 4
ROWS_PER_TASK: Final = 1 << 23
"""A task costs some 50 ms to start: only long stages have more than one per core."""
BYTES_PER_ROW: Final = 16
"""A row of JSON Lines has more bytes, but takes as long as several rows of Parquet."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some sources; with `only`, the rows of one run and process in them."""

    sources: tuple[Source, ...]
    only: tuple[str, str] | None = None


class Stage:
    """The units of one scan, and a way to run a kernel over some of them."""

    def __init__(self, spark: Any, sources: Iterable[Source]) -> None:
        self.spark = spark
        self.units = [Unit((source,)) for source in sources]

    def map(self, units: Iterable[int], work: Callable[[int, Unit], Iterator[Any]], schema: str) -> Any:
        """A lazy frame of the Arrow batches that `work` yields for the units, largest first."""
        every = self.units
        weights = {unit: sum(map(_weight, every[unit].sources)) for unit in set(units)}
        ordered = sorted(weights, key=lambda unit: (-weights[unit], unit))
        jobs = [[(unit, every[unit])] for unit in ordered]
        return self.spread(jobs, lambda given: work(*given[0]), schema, weight=sum(weights.values()))

    def spread(self, jobs: Sequence[Any], work: Callable[[Any], Iterator[Any]], schema: str, *, weight: int | None = None) -> Any:
        """A lazy frame of what `work` yields for each job; of n tasks each takes every n-th job. `weight` is of all jobs."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        per_core = TASKS_PER_CORE if weight is None else min(TASKS_PER_CORE, max(1, weight // (cores * ROWS_PER_TASK)))
        wide = max(1, min(per_core * cores, len(jobs)))
        shares = [jobs[task::wide] for task in range(wide)]

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    for job in shares[index]:
                        yield from work(job)

        return self.spark.range(0, wide, 1, wide).mapInArrow(task, schema)


def _weight(source: Source) -> int:
    """How long a source takes to read, counted in rows of Parquet."""
    return source.rows if source.span is None else (source.span[1] - source.span[0]) // BYTES_PER_ROW


def read(unit: Unit, rejects: Rejects, *, every_column: bool = False, also: Sequence[str] = ()) -> Columns:
    """The rows of a unit."""
    rows = load(unit.sources, rejects, every_column=every_column, also=also)
    if unit.only is None or not len(rows):
        return rows
    run, process = unit.only
    return rows.take(in_run(rows, run) & (rows.codes["process"] == rows.code("process", process)))


def payload(content: bytes, **numbers: int) -> Any:
    """A batch of one row: integers, then `payload`."""
    import pyarrow as pa

    columns = {name: pa.array([value], type=pa.int64()) for name, value in numbers.items()}
    return pa.record_batch({**columns, "payload": pa.array([content], type=pa.binary())})
