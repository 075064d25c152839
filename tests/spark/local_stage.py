"""The scan without Spark: the same kernels and the same driver over a stage that runs its tasks here, one after the other.

What Spark itself does (the group-by of suspect blocks, the shuffle of cases) is imitated in a few lines of Python, so that
thousands of histories can be judged in the time of a few Spark jobs.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from isotone.pipeline.combine import Confirmed, RunState, take_confirmed
from isotone.pipeline.kernels.extract import in_blocks
from isotone.pipeline.kernels.load import NOTHING, Rejects
from isotone.pipeline.plan import Source
from isotone.pipeline.stage import Unit, read


class Frame:
    """As much of a DataFrame as the scan uses."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def collect(self) -> list[Any]:
        return [SimpleNamespace(**row) for batch in self._batches for row in batch.to_pylist()]

    def limit(self, count: int) -> "Frame":
        return Frame(self._batches[:count])

    def groupBy(self, name: str) -> "Groups":
        groups: dict[Any, list[pa.RecordBatch]] = {}
        for batch in self._batches:
            groups.setdefault(batch.column(name)[0].as_py(), []).append(batch)
        return Groups(groups)


class Groups:
    def __init__(self, groups: dict[Any, list[pa.RecordBatch]]) -> None:
        self._groups = groups

    def applyInArrow(self, work: Callable[[pa.Table], pa.Table], schema: str) -> Frame:
        return Frame([batch for group in self._groups.values() for batch in work(pa.Table.from_batches(group)).to_batches()])


class LocalStage:
    def __init__(self, spark: Any, sources: Iterable[Source]) -> None:
        self.units = [Unit((source,)) for source in sources]

    def map(self, units: Iterable[int], work: Callable[[int, Unit], Iterator[Any]], schema: str) -> Frame:
        return Frame([batch for unit in sorted(set(units)) for batch in work(unit, self.units[unit])])

    def spread(self, jobs: Sequence[Any], work: Callable[[Any], Iterator[Any]], schema: str) -> Frame:
        return Frame([batch for job in jobs for batch in work(pickle.loads(pickle.dumps(job)))])


def confirm(stage: Any, states: list[RunState], shift: int) -> None:
    """`isotone.pipeline.confirm.confirm`, message by message."""
    suspects = {state.run: state.suspects for state in states}
    runs: dict[str, dict[tuple[str, int], list[dict[str, Any]]]] = {state.run: {} for state in states}
    for unit in stage.units:
        for row in in_blocks(read(unit, Rejects()), suspects, shift).to_pylist():
            runs[row["run"]].setdefault((row["origin"], row["number"]), []).append(row)
    for state in states:
        take_confirmed(state, _remarkable(runs[state.run]))


def _key(row: dict[str, Any]) -> Any:
    return row["epoch"], row["proposer"], tuple(row[f"p{i}"] for i in range(4) if row[f"p{i}"] != NOTHING)


def _remarkable(messages: dict[tuple[str, int], list[dict[str, Any]]]) -> Iterator[Confirmed]:
    keys: dict[Any, list[tuple[str, int]]] = {}
    own: dict[str, dict[int, Any]] = {}
    for (origin, number), rows in messages.items():
        delivered = [row for row in rows if not row["sent"]]
        if delivered and min(map(_key, delivered))[2]:
            keys.setdefault(min(map(_key, delivered)), []).append((origin, number))
        if any(row["process"] == origin for row in delivered):
            own.setdefault(origin, {})[number] = min(map(_key, delivered))
    for (origin, number), rows in sorted(messages.items()):
        delivered = [row for row in rows if not row["sent"]]
        if not delivered:
            continue
        sends = [row for row in rows if row["sent"] and row["process"] == origin]
        digests = [row["digest"] for row in rows if row["sent"] and row["digest"] is not None]
        unequal = not sends or any(row["digest"] not in (None, min(digests)) for row in delivered if digests)
        low, high = min(map(_key, delivered)), max(map(_key, delivered))
        mine = any(row["process"] == origin for row in delivered)
        later = [key for after, key in own.get(origin, {}).items() if after > number]
        shared = len(keys.get(low, ())) > 1
        if unequal or shared or low != high or not mine:
            yield Confirmed(origin, number, bool(sends), mine, unequal, shared, low, high, min(later, default=None))


def install(monkeypatch: Any) -> None:
    """Let `isotone.pipeline.scan.verify` run here."""
    from contextlib import nullcontext

    from isotone.pipeline import scan

    monkeypatch.setattr(scan, "Stage", LocalStage)
    monkeypatch.setattr(scan, "confirm", confirm)
    monkeypatch.setattr(scan, "spark_errors", lambda _: nullcontext())
