"""Runs an experiment on Spark, in waves of cells; what is finished is kept, what failed is a row.

A wave is one frame of the rows of its cells (`cell`), persisted so that no cell is simulated twice, and read twice: for the
outcomes and for the metrics. Cells are dealt out, the costly ones first, few to a task; two waves are under way at a time,
so that the end of one does not leave cores idle. A wave is what should take `WAVE_SECONDS`, judged by the cells so far.

Invariants: the driver holds one record per cell and no row of a trace; a finished wave is on disk before it counts; a cell
that kills its worker is found by halving its wave, and fails alone.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from isotone.pipeline.history import history_schema
from isotone.pipeline.session import open_session, spark_errors, spark_failures
from isotone.pipeline.sweeps.cell import OUTCOME, Job, Outcome, run_cells
from isotone.pipeline.sweeps.experiment import INLINE, Cell, Experiment, load_experiment
from isotone.pipeline.sweeps.table import TABLE, Record, Store, tidy

WAVE_SECONDS: Final = 20.0
WAVE_CELLS_MAX: Final = 2_000
COST_PER_SECOND: Final = 20_000.0
"""How much of `Cell.cost` a core is taken to do before anything was measured."""
TASKS_PER_CORE: Final = 8
WAVES_AT_ONCE: Final = 2
_DEATHS: Final = ("PYTHON_WORKER_EXITED", "Python worker exited unexpectedly", "ExecutorLostFailure", "exited caused by")

Progress = Callable[[int, int], None]
"""Called with how many cells are finished, and how many there are."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep left behind."""

    table: Any
    """An Arrow table: one row per cell of the experiment."""
    path: str
    """Where the same table is as a Parquet file."""
    ran: int
    """Cells that were run now; the others were finished before."""

    @property
    def verdict(self) -> str:
        """`violated` if any cell is; else `unknown` if any is, or failed; else `ok`."""
        verdicts = set(self.table["verdict"].to_pylist())
        if "violated" in verdicts:
            return "violated"
        failed = self.table["error"].null_count < len(self.table)
        return "unknown" if failed or "unknown" in verdicts else "ok"


def sweep(
    experiment: Experiment | str | Path,
    out: str | Path,
    *,
    master: str | None = None,
    session: Any = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Run the cells of an experiment (or the file of one) that are not finished yet; results are in the directory `out`."""
    loaded = experiment if isinstance(experiment, Experiment) else load_experiment(experiment)
    store = Store(str(out))
    records = store.read()
    todo = [cell for cell in loaded.cells if cell.id not in records or not records[cell.id].outcome.final]
    store.write_scenario(loaded)
    total, before = len(loaded.cells), len(loaded.cells) - len(todo)
    show = progress or (lambda _done, _total: None)
    show(before, total)
    done = 0
    try:
        if todo:
            spark = session if session is not None else open_session(master)
            with spark_errors(spark), closing(_Waves(spark, loaded).run(todo)) as waves:
                for finished in waves:
                    store.save(finished)
                    records.update((record.outcome.cell, record) for record in finished)
                    done += len(finished)
                    show(before + done, total)
    finally:  # also when interrupted: the table says what is finished
        table = tidy(loaded, records, store.path(INLINE))
        store.write_table(table)
    return SweepResult(table, store.path(TABLE), done)


class _Waves:
    def __init__(self, spark: Any, experiment: Experiment) -> None:
        self._spark = spark
        self._cores = max(1, int(spark.sparkContext.defaultParallelism))
        scenarios = tuple(base.data for base in experiment.scenarios)
        self._measured = experiment.metrics != ()
        self._job = Job(
            scenarios, experiment.checks, experiment.expected, experiment.measures, experiment.timeout_s, self._measured
        )
        self._schema = f"{history_schema()}, `{OUTCOME}` string"
        self._cost, self._seconds = COST_PER_SECOND, 1.0

    def run(self, cells: Sequence[Cell]) -> Generator[list[Record], None, None]:
        """The records of all cells, wave by wave."""
        waiting = sorted(cells, key=lambda cell: -cell.cost)
        costs = {cell.id: cell.cost for cell in cells}
        running: set[Future[list[Record]]] = set()
        pool = ThreadPoolExecutor(WAVES_AT_ONCE, thread_name_prefix="wave")
        try:
            while waiting or running:
                while waiting and len(running) < WAVES_AT_ONCE:
                    size = self._size(waiting)
                    running.add(pool.submit(self._robust, waiting[:size]))
                    waiting = waiting[size:]
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    records = future.result()
                    self._cost += sum(costs[record.outcome.cell] for record in records)
                    self._seconds += sum(record.outcome.seconds for record in records)
                    yield records
        finally:
            if running:  # left early: by an error, or because the caller was interrupted
                self._spark.sparkContext.cancelAllJobs()
            pool.shutdown(cancel_futures=True)

    def _size(self, waiting: Sequence[Cell]) -> int:
        """How many of the waiting cells make a wave."""
        room = WAVE_SECONDS * self._cores * self._cost / self._seconds
        size = 0
        for cell in waiting[:WAVE_CELLS_MAX]:
            room -= cell.cost
            size += 1
            if room <= 0 and size >= self._cores:
                break
        return size

    def _robust(self, wave: Sequence[Cell]) -> list[Record]:
        """Run a wave; if a worker dies, halve it until the cell that kills workers is alone."""
        try:
            return self._wave(wave)
        except spark_failures() as error:
            if not any(mark in str(error) for mark in _DEATHS):
                raise
        if len(wave) > 1:
            return self._robust(wave[: len(wave) // 2]) + self._robust(wave[len(wave) // 2 :])
        text = "the worker process died: it was killed, ran out of memory, or crashed"
        return [Record(Outcome(wave[0].id, error=text, final=False))]

    def _wave(self, wave: Sequence[Cell]) -> list[Record]:
        from pyspark import StorageLevel

        tasks = min(len(wave), TASKS_PER_CORE * self._cores)
        shares = [list(wave[task::tasks]) for task in range(tasks)]
        job = self._job

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from run_cells(shares[index], job)

        frame = self._spark.range(0, tasks, 1, tasks).mapInArrow(work, self._schema)
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = frame.where(f"{OUTCOME} is not null").select(OUTCOME).collect()
            decode = msgspec.json.Decoder(Outcome).decode
            records = {outcome.cell: Record(outcome) for outcome in (decode(row[0]) for row in found)}
            if self._measured and any(record.outcome.events for record in records.values()):
                self._measure(frame.where(f"{OUTCOME} is null").drop(OUTCOME), records)
        finally:
            frame.unpersist()
        return [records[cell.id] for cell in wave]

    def _measure(self, history: Any, records: dict[str, Record]) -> None:
        """Add the metrics of each run."""
        from isotone.pipeline.metrics import summary

        longest = max(record.outcome.events for record in records.values())
        for row in summary(history, longest=longest).collect():
            values = row.asDict(recursive=True)
            records[values.pop("run")].metrics = values
