"""Spreads the units of a scan over tasks. A unit is what one call of a kernel reads; tasks are few and large.

Invariants: kernels get rows as `kernels.load` gives them, of one unit at a time; nothing about rows stays at the driver.
Of rows of one process with the same step only the first is ever read, by the order of sources and of rows in them: `read`
drops the others, and a process whose steps overlap between units is moved to one unit of its own (`only`, `without`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from isotone.pipeline.kernels.chunk import Piece, once
from isotone.pipeline.kernels.load import Columns, Mask, Rejects, joined, load
from isotone.pipeline.plan import Source

TASKS_PER_CORE: Final = 4
ROWS_PER_TASK: Final = 1 << 23
"""A task costs some 50 ms to start: only long stages have more than one per core."""
REUNITED_ROWS: Final = 1 << 21
"""So many rows of processes that must be sorted go to one unit, and more only of a single process."""
BYTES_PER_ROW: Final = 16
"""A row of JSON Lines has more bytes, but takes as long as several rows of Parquet."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some sources; of the rows in them only those of some runs and processes, or all but those of some."""

    sources: tuple[Source, ...]
    only: frozenset[tuple[str, str]] | None = None
    without: frozenset[tuple[str, str]] = frozenset()


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


def reunite(every: list[Unit], pieces: Iterable[Piece]) -> range:
    """Move the processes of these pieces, each as a whole, to new units; returns which those are.

    Processes that lie in the same sources share a new unit as far as memory allows, since it reads all those sources.
    """
    first = len(every)
    places: dict[tuple[str, str], set[int]] = {}
    rows: Counter[tuple[str, str]] = Counter()
    moved: dict[int, set[tuple[str, str]]] = {}
    for piece in pieces:
        name = (piece.run, piece.process)
        places.setdefault(name, set()).add(piece.unit)
        rows[name] += piece.rows
        moved.setdefault(piece.unit, set()).add(name)
    shared: dict[tuple[int, ...], list[set[tuple[str, str]]]] = {}
    filled: Counter[tuple[int, ...]] = Counter()
    for name in sorted(places):
        units = tuple(sorted(places[name]))
        batches = shared.setdefault(units, [])
        filled[units] += rows[name]
        if not batches or filled[units] > REUNITED_ROWS:
            batches.append(set())
            filled[units] = rows[name]
        batches[-1].add(name)
    for units, batches in shared.items():
        sources = tuple(source for unit in units for source in every[unit].sources)
        every.extend(Unit(sources, only=frozenset(names)) for names in batches)
    for unit, names in moved.items():
        every[unit] = replace(every[unit], without=frozenset(names))
    return range(first, len(every))


def read(
    unit: Unit, rejects: Rejects, *, every_column: bool = False, also: Sequence[str] = (), with_repeated: bool = False
) -> Columns:
    """The rows of a unit; with rows that repeat a step of their process only for a kernel that sets them apart itself."""
    rows = joined([_chosen(load([source], rejects, every_column=every_column, also=also), unit) for source in unit.sources])
    return rows if with_repeated else once(rows)


def _chosen(rows: Columns, unit: Unit) -> Columns:
    """The rows of one source that belong to the unit."""
    chosen: Mask | None = None
    if unit.only is not None:
        chosen = _of(rows, unit.only)
    elif unit.without:
        chosen = ~_of(rows, unit.without)
    return rows if chosen is None or chosen.all() else rows.take(chosen)


def _of(rows: Columns, names: Iterable[tuple[str, str]]) -> Mask:
    """Which rows are of some runs and processes."""
    runs = {"": 0, **{word: code for code, word in enumerate(rows.words["run"], start=1)}}
    processes = {word: code for code, word in enumerate(rows.words["process"])}
    wide = len(processes)
    codes = [runs[run] * wide + processes[process] for run, process in names if run in runs and process in processes]
    owner = (rows.codes["run"].astype(np.int64) + 1) * wide + rows.codes["process"]
    return np.isin(owner, np.array(codes, dtype=np.int64))


def payload(content: bytes, **numbers: int) -> Any:
    """A batch of one row: integers, then `payload`."""
    import pyarrow as pa

    columns = {name: pa.array([value], type=pa.int64()) for name, value in numbers.items()}
    return pa.record_batch({**columns, "payload": pa.array([content], type=pa.binary())})
