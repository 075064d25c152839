"""The tables of a report, and the documentation: its example runs, its list of columns is the real one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import ConfigError
from isotone.pipeline import metrics
from isotone.pipeline.history import read_history
from isotone.pipeline.metrics.columns import BUCKETS_MAX, bucket_width
from isotone.sim import run
from isotone.trace.writer import write_all
from tests.spark.metrics_reference import Reference

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A short simulated run as files, and its rows."""
    out = tmp_path_factory.mktemp("tables") / "traces"
    result = run(ROOT / "scenarios" / "crash.toml", overrides={"duration_ms": 6_000})
    write_all(out, "parquet", result.recorders)
    return out, result.rows


def test_report_data(spark: Any, trace: tuple[Path, list[Any]]) -> None:
    path, rows = trace
    data = metrics.report_data(read_history(spark, [str(path)], columns=metrics.READ).history)
    assert json.loads(json.dumps(data)) == data
    assert data["runs_total"] == 1
    entry = data["runs"][0]
    reference = Reference(rows, entry["bucket_ns"])
    total = entry["summary"]
    assert total["duration_ns"] // entry["bucket_ns"] < BUCKETS_MAX
    over_time = {row["bucket"]: row for row in reference.latency(["run"], bucketed=True)}
    assert [row["bucket"] for row in entry["latency_over_time"]] == sorted(over_time)
    for row in entry["latency_over_time"]:
        assert row["latency_p99_ns"] == over_time[row["bucket"]]["latency_p99_ns"]
    assert [(row["bucket"], row["sent"], row["delivered"]) for row in entry["rate_over_time"]] == sorted(
        (row["bucket"], row["sent"], row["delivered"]) for row in reference.rates(["run"])
    )
    for name in ("histogram", "histogram_by_origin", "by_origin", "by_process", "by_protocol"):
        assert sum(row["deliveries"] for row in entry[name]) == total["deliveries"] == len(reference.delivered)
    latencies = [row["latency_ns"] for row in reference.delivered]
    for row in entry["histogram"]:
        inside = [value for value in latencies if row["low_ns"] <= value < row["high_ns"] or value == row["high_ns"] == 0]
        assert abs(len(inside) - row["deliveries"]) <= 1  # an edge is a float
    assert sum(row["rows"] for row in entry["kinds"]) == len(rows) == sum(row["rows"] for row in entry["processes"])
    assert [row["process"] for row in entry["processes"] if row["surroundings"]] == ["network#0"]
    assert {row["kind"] for row in entry["marks"]} >= {"suspect", "crash", "stop"}
    assert {row["zero"] for row in entry["processes"]} == {min(row["time"] for row in rows)}
    assert [row["detail"]["who"] for row in entry["happenings"]] == ["e", "a"]
    spans = spans_of(rows)
    assert sorted((row["process"], row["start"], row["end"], row["frozen"]) for row in entry["views"]) == sorted(spans)
    assert entry["views_total"] == len(spans)
    assert len(entry["view_changes"]) == total["view_changes"] > 0
    assert sum(row["records"] for row in entry["control"]) == total["control_records"]
    with pytest.raises(ConfigError, match="more than 10000 pieces: take 1000000 ns"):
        metrics.report_data(read_history(spark, [str(path)]).history, bucket_ns=1000)


def spans_of(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Views as bands: process, start, end, frozen."""
    spans = []
    for process in {row["process"] for row in rows}:
        mine = sorted((row for row in rows if row["process"] == process), key=lambda row: row["step"])
        open_: list[Any] | None = None
        for row in mine:
            if row["kind"] == "flush" and open_:
                open_[1] = row["time"]
            elif row["kind"] == "view":
                if open_:
                    spans.append((process, open_[0], row["time"], open_[1]))
                open_ = [row["time"], None]
        if open_:
            spans.append((process, open_[0], mine[-1]["time"], open_[1]))
    return spans


@pytest.mark.parametrize("duration", [0, 1, 299, 300, 301, 14_999_999_999, 15_000_000_000, 10**15])
def test_buckets_are_few_and_round(duration: int) -> None:
    width = bucket_width(duration)
    assert duration // width < BUCKETS_MAX
    assert str(width).rstrip("0") in ("1", "2", "5")
    smaller = {"1": 2, "2": 2, "5": 2.5}[str(width).rstrip("0")]
    assert width == 1 or duration // (width / smaller) >= BUCKETS_MAX


def test_the_example_of_the_page(spark: Any, trace: tuple[Path, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(trace[0].parent)
    names: dict[str, Any] = {}
    exec(example[1], names)
    assert names["session"] is spark
    assert names["history"].count() == len(trace[1])


def test_the_page_lists_the_columns() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.split("## The summary")[1].split("## Bounded tables")[0], re.MULTILINE)
    assert dict(listed) == metrics.COLUMNS
    functions = re.findall(r"^\| `(\w+)[(`]", PAGE.split("## Functions")[1].split("## The summary")[0], re.MULTILINE)
    assert set(functions) | {"prepare", "Prepared", "report_data", "COLUMNS", "READ"} == set(metrics.__all__)
