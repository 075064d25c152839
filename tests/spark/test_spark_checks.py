"""Every check of the scan against the oracle: the corpus, generated histories with one fault, rows as bad writers leave them.

Simulated traces of every orderer are in `test_spark_scan`.
"""

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from isotone.pipeline import scan
from isotone.trace import read_trace
from tests.histories import load_all
from tests.pipeline.faults import broken_histories
from tests.pipeline.generate import RELATIONS, Generated
from tests.spark import local_stage
from tests.spark.compare import WAYS, Rows, disagreements, histories, strange, write

LOCAL = 400
"""Histories per seed that are judged without Spark."""


@pytest.mark.parametrize("seed", range(6))
def test_generated_histories_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The same code on a stage of this process: all ways, and every relation in turn."""
    local_stage.install(monkeypatch)
    runs = histories(LOCAL, seed)
    write(tmp_path, [row for rows in runs.values() for row in rows])
    relation = RELATIONS[seed % len(RELATIONS)]
    for name, way in WAYS.items():
        monkeypatch.setattr(scan, "BLOCK_BITS", 1 if name == "kernels" else 12)
        assert disagreements(tmp_path, runs, relation, object(), **way) == [], name


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    local_stage.install(monkeypatch)
    monkeypatch.setattr(scan, "BLOCK_BITS", 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=broken_histories())
def test_histories_that_hypothesis_shrinks(local: None, case: tuple[Generated, set[str]]) -> None:
    rows: Rows = [dict(row) for row in case[0].rows]
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), rows)
        for name, way in WAYS.items():
            assert disagreements(Path(place), {"": rows}, RELATIONS[len(rows) % len(RELATIONS)], object(), **way) == [], name


@pytest.mark.parametrize("way", WAYS)
def test_generated_histories(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(scan, "BLOCK_BITS", 2)
    runs = histories(120, 77)
    write(tmp_path, [row for rows in runs.values() for row in rows])
    assert disagreements(tmp_path, runs, RELATIONS[3], spark, **WAYS[way]) == []


@pytest.mark.parametrize(("times", "verdict"), [(1, "unknown"), (2, "violated")])
def test_a_message_returned_twice_where_nobody_delivers(local: None, tmp_path: Path, times: int, verdict: str) -> None:
    """Seed 113 of the long test: the witness could not be checked alone, because nothing in it was delivered."""
    kinds = ["send", *["returned"] * times]
    rows: Rows = [
        {"process": "a#1", "step": step, "kind": kind, "origin": "a#1", "number": 1} for step, kind in enumerate(kinds, start=1)
    ]
    write(tmp_path, rows, files=1)
    for way in WAYS.values():
        outcome = scan.verify([str(tmp_path)], ["duplication"], session=object(), **way)
        assert outcome.report.verdict == verdict
        assert disagreements(tmp_path, {"": rows}, None, object(), **way) == []


def strange_runs(path: Path, seed: int, count: int) -> dict[str, Rows]:
    """Write a trace with repeated steps, runs without a name and negative epochs; what the reader makes of it, by run."""
    write(path, strange(histories(count, seed), random.Random(seed)))
    trace = read_trace([path])
    assert len(trace.quarantined) > count // 2
    runs: dict[str, Rows] = {}
    for row in trace.rows:
        runs.setdefault(row.get("run") or "", []).append(dict(row))
    return runs


@pytest.mark.parametrize("seed", range(100, 103))
def test_strange_histories_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    local_stage.install(monkeypatch)
    runs = strange_runs(tmp_path, seed, 150)
    for name, way in WAYS.items():
        monkeypatch.setattr(scan, "BLOCK_BITS", 1 if name == "kernels" else 12)
        assert disagreements(tmp_path, runs, RELATIONS[seed % len(RELATIONS)], object(), **way) == [], name


def test_strange_histories(spark: Any, tmp_path: Path) -> None:
    runs = strange_runs(tmp_path, 7, 60)
    for name, way in WAYS.items():
        assert disagreements(tmp_path, runs, RELATIONS[1], spark, **way) == [], name


@pytest.mark.parametrize("way", WAYS)
def test_corpus_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    local_stage.install(monkeypatch)
    for case in load_all():
        runs: dict[str, list[dict[str, Any]]] = {}
        for row in case.rows:
            runs.setdefault(row.get("run") or "", []).append(row)
        write(tmp_path / case.name.replace(" ", "-"), case.rows, files=1)
        assert disagreements(tmp_path / case.name.replace(" ", "-"), runs, case.conflicts, object(), **WAYS[way]) == [], case.name
