"""Runs that name their conflict relation, judged by Spark: small ones by the oracle in a task, large ones as a whole."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from isotone.model.conflicts import Conflicts, named
from isotone.pipeline import scan
from isotone.pipeline.oracle import check_history
from isotone.trace.columns import table_of_rows
from tests.pipeline.test_named_relations import COUNTER, history

RUNS = {
    "commuting": (named(COUNTER), named(COUNTER), "increment"),
    "conflicting": (named(COUNTER), named(COUNTER), "update"),
    "different": (named(COUNTER), named(Conflicts.by_item()), "increment"),
    "undeclared": (named(COUNTER), named(COUNTER), "reset"),
    "predicate": (named(Conflicts("predicate", name="nobody")),) * 2 + ("increment",),
    "everything": (named(None), named(None), "increment"),
    "unnamed": ("", "", "increment"),
}


@pytest.mark.parametrize("way", [{}, {"small_rows": 0}, {"small_rows": 0, "residue_max": 0}], ids=["small", "exact", "whole"])
def test_spark_and_the_oracle_agree(spark: Any, tmp_path: Path, way: dict[str, int]) -> None:
    runs = {name: [{**row, "run": name} for row in history(*given)] for name, given in RUNS.items()}
    pq.write_table(table_of_rows([row for rows in runs.values() for row in rows]), tmp_path / "all.parquet")
    for checks in (None, ["semantic_total"]):
        outcome = scan.verify([str(tmp_path)], checks, session=spark, **way)
        for name, rows in runs.items():
            report = check_history(rows, checks)
            assert {check.name: check.verdict for check in report.checks} == outcome.runs[name], name
