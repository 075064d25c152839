"""What one task does: simulate a cell, check its rows, measure them, and yield them as Arrow batches.

The batches have the columns of a history, with the cell's id as `run`, and one more: `outcome`. The last row of a cell has
only `run` and `outcome`, which holds an `Outcome` as JSON; the rows before it are the history.

Invariants: a cell yields exactly one outcome, whatever happens in it, unless the worker process itself dies; rows of a run
whose simulation or check failed are not yielded. No row is written to a file.
"""

import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from isotone.model.errors import ConfigError, InvariantViolation
from isotone.pipeline.oracle import Expectation, check_history
from isotone.pipeline.sweeps.experiment import Cell
from isotone.pipeline.sweeps.measures import Measure
from isotone.sim import Result, parse_scenario, run
from isotone.trace.columns import ColumnBuilder, arrow_schema, require_pyarrow
from isotone.trace.schema import INT64_MAX, INT64_MIN

OUTCOME: Final = "outcome"
BATCH_ROWS: Final = 65_536
Value = bool | int | float | str | None


class Outcome(msgspec.Struct):
    """What became of a cell, but for the metrics."""

    cell: str
    verdict: str | None = None
    """None if nothing was checked, or the run did not come so far."""
    violated: list[str] = []
    witness: str | None = None
    events: int = 0
    digest: str | None = None
    measures: dict[str, Value] = {}
    seconds: float = 0.0
    error: str | None = None
    final: bool = True
    """False if the failure may be the machine's: the time limit, or a worker that died."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all cells of a sweep have in common."""

    scenarios: tuple[dict[str, Any], ...]
    checks: tuple[str, ...] | None
    expected: Expectation
    measures: tuple[Measure, ...]
    timeout_s: float
    rows: bool = True
    """Whether the rows of the cells are wanted, for metrics."""


class _TimeIsUp(BaseException):
    """Not an `Exception`, so that nothing inside a run takes it for one of its own."""


def run_cells(cells: Sequence[Cell], job: Job) -> Iterator[Any]:
    """The batches of some cells, one cell after the other."""
    for cell in cells:
        table, outcome = run_cell(cell, job)
        if table is not None and job.rows:
            yield from _batches(table, cell.id)
        yield _last(outcome)


def run_cell(cell: Cell, job: Job) -> tuple[Any, Outcome]:
    """The Arrow table of a cell's rows (None if simulation or check failed), and what became of it."""
    outcome = Outcome(cell.id)
    table = None
    began = time.perf_counter()
    try:
        with _limit(job.timeout_s):
            scenario = parse_scenario(job.scenarios[cell.scenario], cell.parameters)
            result = run(msgspec.structs.replace(scenario, seed=cell.seed))
            outcome.events, outcome.digest = len(result.rows), result.digest
            _check(result, job, outcome)
            table = _table(result)
            for measure in job.measures:
                values = _measured(measure, table)
                if taken := sorted(values.keys() & outcome.measures.keys()):
                    raise ConfigError(f"measure {measure.name} returned {taken[0]!r}, which another one returned before")
                outcome.measures.update(values)
    except _TimeIsUp:
        outcome.error, outcome.final = f"not finished within {job.timeout_s:g} s", False
    except (Exception, InvariantViolation) as error:  # a broken cell must not end the sweep
        outcome.error = _told(error)
    outcome.seconds = time.perf_counter() - began
    return table, outcome


def _check(result: Result, job: Job, outcome: Outcome) -> None:
    if job.checks == ():
        return
    report = check_history(result.rows, job.checks, expected=job.expected)
    outcome.verdict = report.verdict
    for found in report.checks:
        if found.verdict == "violated":
            outcome.violated.append(found.name)
            outcome.witness = outcome.witness or f"{found.name}: {found.witness}"


def _measured(measure: Measure, table: Any) -> Mapping[str, Value]:
    values = measure.function(table)
    if not isinstance(values, Mapping):
        raise ConfigError(f"measure {measure.name} returned {type(values).__name__}, not a dict")
    result = {}
    for key, value in values.items():
        if hasattr(value, "item") and not isinstance(value, str):  # a scalar of NumPy
            value = value.item()
        fits = not isinstance(value, int) or INT64_MIN <= value <= INT64_MAX
        if not isinstance(key, str) or not isinstance(value, bool | int | float | str | None) or not fits:
            raise ConfigError(f"measure {measure.name} returned {key!r}: {value!r}, not a text or a number of 64 bits")
        result[key] = value
    return result


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise `_TimeIsUp` in what runs longer; Spark's workers are processes that work in their main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again and again: a destructor would swallow a single one
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-3:]]
    return f"{type(error).__name__}: {error} ({' > '.join(places)})"


# --- Arrow ---------------------------------------------------------------------------------------------------------


def plain_schema() -> Any:
    """The schema of a history for Spark: as in Parquet, but texts are plain."""
    pa = require_pyarrow()
    fields = arrow_schema()
    return pa.schema([(one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type) for one in fields])


def _table(result: Result) -> Any:
    pa = require_pyarrow()
    tables = []
    for recorder in result.recorders:
        builder = ColumnBuilder()
        builder.add(recorder.take())
        if len(builder):
            tables.append(builder.table().cast(plain_schema()))
    return pa.concat_tables(tables)


def _batches(table: Any, cell: str) -> Iterator[Any]:
    pa = require_pyarrow()
    named = table.set_column(table.schema.get_field_index("run"), "run", pa.repeat(pa.scalar(cell), len(table)))
    full = named.append_column(OUTCOME, pa.nulls(len(table), pa.string()))
    yield from full.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def _last(outcome: Outcome) -> Any:
    pa = require_pyarrow()
    text = msgspec.json.encode(outcome).decode()
    columns = [pa.array([outcome.cell]) if field.name == "run" else pa.nulls(1, field.type) for field in plain_schema()]
    return pa.record_batch([*columns, pa.array([text])], schema=plain_schema().append(pa.field(OUTCOME, pa.string())))
