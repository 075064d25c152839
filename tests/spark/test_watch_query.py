"""The streaming query: Parquet and JSON Lines together, new files, and what survives a failure at any moment."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import ConfigError
from isotone.pipeline.stream.checkpoint import Checkpoint
from isotone.pipeline.stream.judge import Standing, State, overall
from isotone.pipeline.stream.query import Watch
from isotone.sim import run
from isotone.trace.writer import open_writer
from tests.spark.watching import Rows, cut, damage, oracle_verdicts, verdicts

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def rows() -> Rows:
    return [{k: v for k, v in row.items() if k != "run"} for row in run(SCENARIOS / "partition_merge.toml", seed=2).rows]


class Life:
    """One life of a watch; keeps what it was told."""

    def __init__(self, spark: Any, trace: Path) -> None:
        self.changes: list[Standing] = []
        self.batches: list[int] = []
        self.watch = Watch(spark, str(trace), str(trace.parent / "checkpoint"), self._heard, clock=time.monotonic)

    def _heard(self, state: State) -> None:
        self.changes.extend(state.changes)
        self.batches.append(state.batch)

    def until(self, fact: Callable[[State], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not fact(self.watch.state):
            assert time.monotonic() < deadline
            assert not self.watch.wait(0.05)


def test_files_that_come_while_it_runs(spark: Any, tmp_path: Path, rows: Rows) -> None:
    """Half of the processes write Parquet, the others JSON Lines that grow."""
    trace = tmp_path / "trace"
    trace.mkdir()
    processes = sorted({row["process"] for row in rows})
    lines = [row for row in rows if row["process"] in processes[::2]]
    names = cut(tmp_path / "aside", [row for row in rows if row["process"] in processes[1::2]], random.Random(1))
    writers = {process: open_writer(trace, process, "jsonl") for process in processes[::2]}
    life = Life(spark, trace)
    life.watch.start()
    for third in range(3):
        for process, writer in writers.items():
            mine = [row for row in lines if row["process"] == process]
            writer.write(mine[third * len(mine) // 3 : (third + 1) * len(mine) // 3])  # type: ignore[arg-type]
        for name in names[third::3]:
            (tmp_path / "aside" / name).rename(trace / name)
        batch = life.watch.state.batch
        life.until(lambda state, before=batch: state.batch > before)
    (trace / "bad.jsonl").write_text('{"process": "z#1", "step": 1, "kind": "nonsense"}\n')
    life.until(lambda state: state.events == len(rows) and state.quarantined == 1)
    final = life.watch.stop()
    assert verdicts(final) == oracle_verdicts(rows)
    assert "unknown kind 'nonsense'" in final.reasons[-1]
    assert {change.check for change in life.changes} == set(verdicts(final))


@pytest.mark.parametrize("after_saving", [False, True])
def test_a_failure_around_the_commit_loses_and_repeats_nothing(
    spark: Any, tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, after_saving: bool
) -> None:
    trace = tmp_path / "trace"
    bad = damage(rows, random.Random(6))
    assert "violated" in oracle_verdicts(bad).values()
    names = cut(tmp_path / "aside", bad, random.Random(1), pieces=3)
    trace.mkdir()
    for name in names[::2]:
        (tmp_path / "aside" / name).rename(trace / name)
    first = Life(spark, trace)
    first.watch.start(once=True)
    assert first.watch.wait(PATIENCE_S)
    for name in names[1::2]:
        (tmp_path / "aside" / name).rename(trace / name)
    save = Checkpoint.save

    def fail(self: Checkpoint, state: State) -> None:
        if after_saving:
            save(self, state)
        raise RuntimeError("power failure")

    monkeypatch.setattr(Checkpoint, "save", fail)
    second = Life(spark, trace)
    second.watch.start(once=True)
    with pytest.raises(Exception, match="power failure"):
        second.watch.wait(PATIENCE_S)
    monkeypatch.setattr(Checkpoint, "save", save)
    third = Life(spark, trace)
    resumed = third.watch.state.batch
    assert resumed == first.batches[-1] + after_saving
    third.watch.start(once=True)
    assert third.watch.wait(PATIENCE_S)
    final = third.watch.final()
    assert final.events == len(bad)
    assert verdicts(final) == oracle_verdicts(bad)
    assert overall(final) == "violated"
    assert third.batches == ([] if after_saving else [resumed + 1])


def test_a_checkpoint_belongs_to_one_trace(spark: Any, tmp_path: Path, rows: Rows) -> None:
    trace, other = tmp_path / "trace", tmp_path / "other"
    cut(trace, rows[:50], random.Random(1))
    other.mkdir()
    life = Life(spark, trace)
    life.watch.start(once=True)
    assert life.watch.wait(PATIENCE_S)
    with pytest.raises(ConfigError, match="belongs to the trace"):
        Life(spark, other)
    for state in (tmp_path / "checkpoint" / "state").iterdir():
        state.unlink()
    cut(trace / "more", rows[50:90], random.Random(1))
    lost = Life(spark, trace)
    lost.watch.start(once=True)
    with pytest.raises(ConfigError, match="lacks the state of batch 0"):
        lost.watch.wait(PATIENCE_S)
