"""Every check of the scan against the oracle: the corpus, generated histories with one fault, simulated traces."""

from pathlib import Path
from typing import Any

import pytest

from isotone.pipeline import scan
from tests.histories import load_all
from tests.pipeline.generate import RELATIONS
from tests.spark import local_stage
from tests.spark.compare import WAYS, disagreements, histories, write

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


@pytest.mark.parametrize("way", WAYS)
def test_generated_histories(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(scan, "BLOCK_BITS", 2)
    runs = histories(120, 77)
    write(tmp_path, [row for rows in runs.values() for row in rows])
    assert disagreements(tmp_path, runs, RELATIONS[3], spark, **WAYS[way]) == []


@pytest.mark.parametrize("way", WAYS)
def test_corpus_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    local_stage.install(monkeypatch)
    for case in load_all():
        runs: dict[str, list[dict[str, Any]]] = {}
        for row in case.rows:
            runs.setdefault(row.get("run") or "", []).append(row)
        write(tmp_path / case.name.replace(" ", "-"), case.rows, files=1)
        assert disagreements(tmp_path / case.name.replace(" ", "-"), runs, case.conflicts, object(), **WAYS[way]) == [], case.name
