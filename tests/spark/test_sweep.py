"""Sweeps: every cell is what the simulator, the oracle and the metrics say of it alone; failures stay in their rows."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import numpy as np
import pyarrow.parquet as pq

from isotone.cli import main
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import Expectation, check_history
from isotone.pipeline.sweeps import run as runs
from isotone.pipeline.sweeps.cell import Job, plain_schema, run_cell
from isotone.pipeline.sweeps.experiment import load_experiment, parse_experiment, toml_file
from isotone.pipeline.sweeps.measures import Measure
from isotone.pipeline.sweeps.run import SweepResult, sweep
from isotone.sim import run
from tests.spark.test_sweep_experiment import SMALL

MEASURES = """
import os

def shape(table):
    return {"columns": table.num_columns, "deliveries": table["kind"].to_pylist().count("deliver"), "own": "text"}

def deadly(table):
    if seed_of(table) == "2":
        os._exit(9)
    return {}

def broken(table):
    if seed_of(table) == "2":
        raise ValueError("no number for this one")
    return {"fine": 1.5}

def seed_of(table):
    for detail in table["detail"].to_pylist():
        if detail and dict(detail).get("seed"):
            return dict(detail)["seed"]
"""

Sweep = Callable[..., SweepResult]


@pytest.fixture
def small(spark: Any, tmp_path: Path) -> Sweep:
    """Sweeps the small scenario in one directory."""
    (tmp_path / "mine.py").write_text(MEASURES)
    (tmp_path / "small.toml").write_text(toml_file(SMALL))

    def swept(**keys: Any) -> SweepResult:
        given = {"scenario": "small.toml", "metrics": [], **keys}
        experiment = parse_experiment({key: value for key, value in given.items() if value is not None}, tmp_path)
        return sweep(experiment, tmp_path / "out", session=spark)

    return swept


def rows(result: SweepResult) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.table.to_pylist()
    assert pq.read_table(result.path).equals(result.table)
    return found


def replayed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command of a row prints."""
    words = shlex.split(command)
    assert words[0] == "isotone"
    with pytest.raises(SystemExit):
        main(words[1:])
    told = capsys.readouterr()
    return told.out + told.err


def test_rows_are_what_each_cell_is_alone(small: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    grid = {"order": ["single_phase", "sequencer"], "network": {"latency": [{"kind": "constant", "ms": 2.0}], "loss": [0, 0.05]}}
    result = small(grid=grid, seeds=[7, 8], metrics=None, measures=["mine:shape"])
    found = rows(result)
    assert result.ran == len(found) == 8
    assert result.verdict == "ok"
    assert [(row["order"], row["network.loss"], row["seed"]) for row in found[:3]] == [
        ("single_phase", 0.0, 7),
        ("single_phase", 0.0, 8),
        ("single_phase", 0.05, 7),
    ]
    for row in found:
        assert (row["verdict"], row["violated"], row["witness"], row["error"]) == ("ok", [], None, None)
        assert json.loads(row["network.latency"]) == {"kind": "constant", "ms": 2.0}
        assert (row["columns"], row["own"]) == (len(plain_schema()), "text")
        assert row["measures.deliveries"] == row["deliveries"], "a name that is taken gets a prefix"
    row = found[3]
    overrides = {"order": row["order"], "network.loss": row["network.loss"], "network.latency.ms": 2.0}
    data = {**SMALL, "network": {"latency": {"kind": "constant", "ms": 1}}}
    alone = run(Path(result.path).parents[1] / "small.toml", seed=row["seed"], overrides={**data, **overrides, "name": "small"})
    assert (row["events"], row["digest"]) == (len(alone.rows), alone.digest)
    assert row["deliveries"] == alone.stats["delivered"]
    sent = {(one["origin"], one["number"]): one["time"] for one in alone.rows if one["kind"] == "send"}
    taken = [one["time"] - sent[one["origin"], one["number"]] for one in alone.rows if one["kind"] == "deliver"]
    assert (row["latency_count"], row["latency_max_ns"]) == (len(taken), max(taken))
    assert row["latency_mean_ns"] == pytest.approx(sum(taken) / len(taken))
    assert alone.digest in replayed(row["replay"], capsys)


def test_a_violation_is_a_row_with_its_witness(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the repository; by the command, and by the command again."""
    experiment = Path(__file__).resolve().parents[2] / "experiments" / "fallback.toml"
    loaded = load_experiment(experiment)
    for ran in (len(loaded.cells), 0):
        with pytest.raises(SystemExit) as ended:
            main(["sweep", str(experiment), "--out", str(tmp_path), "--json"])
        told = json.loads(capsys.readouterr().out)
        assert (ended.value.code, told["verdict"], told["ran"], told["cells"]) == (1, "violated", ran, len(loaded.cells))
        assert told["ok"] + told["violated"] == len(loaded.cells)
    for row in pq.read_table(tmp_path / "cells.parquet").to_pylist():
        overrides = {"options.fallback": row["options.fallback"], "network.links.0.latency.ms": row["network.links.0.latency.ms"]}
        report = check_history(run(loaded.scenarios[0].path or "", overrides=overrides).rows, loaded.checks)
        assert (row["verdict"], row["violated"]) == (report.verdict, report.violated())
        if row["violated"]:
            assert row["options.fallback"] == "classical"
            assert row["witness"] == f"total_pairwise: {report.checks[0].witness}"
            assert "VIOLATED" in replayed(row["replay"], capsys)


def test_failures_are_rows_and_replay(small: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    result = small(grid={"limits": {"payload_bytes": [10, 1000]}}, seeds=2, measures=["mine:broken"])
    assert result.verdict == "unknown"
    found = {(row["limits.payload_bytes"], row["seed"]): row for row in rows(result)}
    for seed in (1, 2):
        row = found[10, seed]
        assert "a payload of 64 bytes is over the limit of 10" in row["error"]
        assert (row["verdict"], row["digest"], row["events"]) == (None, None, 0)
        assert "a payload of 64 bytes is over the limit of 10" in replayed(row["replay"], capsys)
    assert (found[1000, 1]["error"], found[1000, 1]["fine"]) == (None, 1.5)
    assert "ValueError: no number for this one (" in found[1000, 2]["error"]
    assert found[1000, 2]["verdict"] == "ok"
    assert small(grid={"limits": {"payload_bytes": [10, 1000]}}, seeds=2, measures=["mine:broken"]).ran == 0


def test_a_cell_that_kills_its_worker_fails_alone(small: Sweep) -> None:
    result = small(seeds=4, measures=["mine:deadly"])
    found = rows(result)
    assert [row["error"] is None for row in found] == [True, False, True, True]
    assert "the worker process died" in found[1]["error"]
    again = small(seeds=4, measures=["mine:deadly"])
    assert again.ran == 1, "it may have been the machine's fault"


def test_time_limits(small: Sweep) -> None:
    keys = {"grid": {"duration_ms": [2_500, 40_000_000]}, "timeout_s": 3}
    found = rows(small(**keys))
    assert [row["error"] for row in found] == [None, "not finished within 3 s"]
    assert small(**keys).ran == 1


def test_the_limit_ends_what_swallows_exceptions() -> None:
    def stubborn(_: Any) -> dict[str, Any]:
        while True:
            try:
                threading.Event().wait(0.01)
            except Exception:
                continue

    cell = parse_experiment({"scenario": SMALL}).cells[0]
    before = signal.getsignal(signal.SIGALRM)
    _, outcome = run_cell(cell, Job((SMALL,), (), Expectation(), (Measure("stubborn", stubborn, ""),), 0.5))
    assert (outcome.error, outcome.final) == ("not finished within 0.5 s", False)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("value", [[], {"x": [1]}, {"x": 2**63}, {1: 1}])
def test_a_measure_returns_a_flat_dict(value: Any) -> None:
    cell = parse_experiment({"scenario": SMALL}).cells[0]
    measures = (Measure("odd", lambda _: value, ""),)
    table, outcome = run_cell(cell, Job((SMALL,), (), Expectation(), measures, 60))
    assert outcome.error is not None
    assert "measure odd returned" in outcome.error
    assert (len(table), outcome.final) == (outcome.events, True)


def test_two_measures_must_not_share_a_name() -> None:
    cell = parse_experiment({"scenario": SMALL}).cells[0]
    measures = tuple(Measure(name, lambda _: {"x": np.float64(1.5)}, "") for name in ("one", "two"))
    outcome = run_cell(cell, Job((SMALL,), (), Expectation(), measures, 60))[1]
    assert outcome.measures == {"x": 1.5}
    assert "measure two returned 'x', which another one returned before" in str(outcome.error)


def test_only_what_changed_is_run(small: Sweep, tmp_path: Path) -> None:
    assert small(grid={"network.loss": [0, 0.1]}, seeds=2).ran == 4
    assert small(grid={"network.loss": [0, 0.1]}, seeds=2).ran == 0
    grown = small(grid={"network.loss": [0, 0.1, 0.2]}, seeds=[2, 1])
    assert (grown.ran, len(rows(grown))) == (2, 6)
    shrunk = small(grid={"network.loss": [0.2]}, seeds=1)
    assert (shrunk.ran, len(rows(shrunk))) == (0, 1)
    (tmp_path / "small.toml").write_text(toml_file({**SMALL, "dial_ms": 50}))
    assert small(grid={"network.loss": [0.2]}, seeds=1).ran == 1


def test_an_interrupted_sweep_is_resumed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WAVE_CELLS_MAX", 2)
    monkeypatch.setattr(runs, "WAVES_AT_ONCE", 1)
    experiment = parse_experiment({"scenario": SMALL, "seeds": 6, "metrics": []})
    seen: list[tuple[int, int]] = []

    def impatient(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(experiment, tmp_path, session=spark, progress=impatient)
    assert seen == [(0, 6), (2, 6), (4, 6)]
    assert len(pq.read_table(tmp_path / "cells.parquet")) == 4
    result = sweep(experiment, tmp_path, session=spark)
    assert (result.ran, result.verdict) == (2, "ok")
    assert [row["seed"] for row in rows(result)] == [1, 2, 3, 4, 5, 6]


def test_semantic_checks_know_the_conflicts(small: Sweep, tmp_path: Path) -> None:
    (tmp_path / "relation.toml").write_text('by = "item"\n')
    grid = {"workload.0.items": [["x", "y"]]}
    found = rows(small(grid=grid, checks=["semantic_total"], conflicts="relation.toml"))
    assert [row["verdict"] for row in found] == ["ok"]
    (tmp_path / "relation.toml").write_text('by = "operation"\noperations = { known = [] }\n')
    typed = {"grid": {"workload.0.types": [["unheard_of"]]}, "checks": ["semantic_total"], "conflicts": "relation.toml"}
    assert "unheard_of" in rows(small(**typed))[0]["error"], "the relation reached the cell"


def test_a_directory_that_cannot_be_used_is_one_line(spark: Any, tmp_path: Path) -> None:
    experiment = parse_experiment({"scenario": SMALL, "metrics": []})
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        sweep(experiment, tmp_path / "file" / "out", session=spark)
    (tmp_path / "_parts").mkdir()
    (tmp_path / "_parts" / "x.jsonl").write_text("{")
    with pytest.raises(ConfigError, match="cannot read the finished cells"):
        sweep(experiment, tmp_path, session=spark)


@pytest.mark.parametrize(
    ("arguments", "environment", "text"),
    [
        (["--master", "spark://127.0.0.1:1"], {}, "no Spark master at spark://127.0.0.1:1: "),
        ([], {"MASTER": "spark://127.0.0.1:1"}, "no Spark master at spark://127.0.0.1:1: "),
        ([], {"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, but there is no bin/java in it"),
    ],
)
def test_the_command_fails_with_one_line(arguments: list[str], environment: dict[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(toml_file({"scenario": SMALL}))
    command = [
        sys.executable,
        "-m",
        "isotone",
        "sweep",
        str(tmp_path / "experiment.toml"),
        "--out",
        str(tmp_path / "out"),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert text in done.stderr
