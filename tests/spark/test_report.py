"""The report on Spark: what is gathered of a trace, bounded whatever its length, and the page in a browser."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from isotone.pipeline.excerpt import fetch
from isotone.pipeline.kernels.excerpt import Wish
from isotone.pipeline.oracle import check_history
from isotone.pipeline.plan import make_plan
from isotone.report import Chosen, Material, gather, render_report
from isotone.sim import run
from isotone.trace.columns import table_of_rows
from tests.pipeline.oracle_text import history
from tests.report.pages import needs_browser, parse, use_page
from tests.spark.metrics_histories import switched

ANOMALY = Path(__file__).resolve().parents[2] / "scenarios" / "anomaly.toml"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def anomaly() -> Rows:
    """A simulated run with a violation, and a clean run without clocks."""
    calm = history("a: [1a ab] +1 a1@0 b1@1 .\nb: [1a ab] +1 a1@0 b1@1 .", "calm")
    untimed = [{name: value for name, value in row.items() if name != "time"} for row in calm]
    return [*({**row, "run": "anomaly"} for row in run(ANOMALY).rows), *untimed]


@pytest.fixture(scope="module")
def path(anomaly: Rows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("anomaly")
    pq.write_table(table_of_rows(anomaly), path / "t.parquet", row_group_size=100)
    return path


@pytest.fixture(scope="module")
def material(spark: Any, anomaly: Rows, path: Path) -> Material:
    return gather(spark, [str(path)], check_history(anomaly), Chosen(around=("b#1", 5), span=(0, 2_000_000_000)))


def test_the_figures_are_those_of_the_history(anomaly: Rows, material: Material) -> None:
    bad, calm = (one.figures for one in material.runs)
    assert (bad.run, calm.run) == ("anomaly", "calm")  # the one with a witness first
    rows = [row for row in anomaly if row["run"] == "anomaly"]
    assert (bad.processes, bad.timed, calm.timed) == (["a#1", "b#1", "c#1"], True, False)
    assert bad.kinds["deliver"] == sum(row["kind"] == "deliver" for row in rows)
    assert bad.duration == max(row["time"] for row in rows) - min(row["time"] for row in rows)
    installed = {f"{row['view_epoch']}@{row['view_proposer']}" for row in rows if row["kind"] == "view"}
    assert set(bad.views()) == installed
    assert [happening.kind for happening in bad.happenings] == [row["kind"] for row in rows if row["kind"] in ("fault", "heal")]
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    latencies = [row["time"] - sent[row["origin"], row["number"]] for row in rows if row["kind"] == "deliver"]
    assert (bad.spreads[0].deliveries, bad.spreads[0].most) == (len(latencies), max(latencies))
    assert sum(one.deliveries for one in bad.histogram) == len(latencies)
    assert sum(sends for sends, _ in bad.rates.values()) == len(sent)
    assert (calm.spreads, len(calm.bands)) == ([], 2)


def test_the_cut_outs_hold_what_is_in_question(anomaly: Rows, material: Material) -> None:
    witnessed, step, chosen = material.runs[0].cuts
    assert {("b#1", 1), ("c#1", 1)} == set(witnessed.messages)
    found = {(event.kind, event.message) for event in witnessed.events if event.message}
    assert found == {(kind, message) for kind in ("send", "deliver") for message in witnessed.messages}
    assert chosen.title == "The chosen range"
    assert all(event.time <= 2_000_000_000 for event in chosen.events)
    expected = [row for row in anomaly if row["run"] == "anomaly" and row["time"] <= 2_000_000_000]
    assert len(chosen.events) == sum(row["kind"] in ("start", "view", "flush", "transitional", "suspect") for row in expected)
    assert step.title == "The chosen step"
    assert {row["process"] for row in material.witnesses["total_pairwise"]} == {"a#1", "b#1", "c#1"}


@needs_browser
def test_the_page_works_in_a_browser(anomaly: Rows, material: Material, tmp_path: Path) -> None:
    page = render_report(material, check_history(anomaly), "anomaly")
    words = parse(page).words()
    assert "Unknown: the trace has no" in words  # the run without clocks has no latency
    seen = use_page(page, tmp_path)
    assert seen["diagrams"] >= 3
    assert seen["witnesses"] >= 3
    assert (seen["messages"], seen["dimAfter"], seen["followed"]) == (2, 1, 1)


@needs_browser
def test_a_switch_is_on_the_page(spark: Any, tmp_path: Path) -> None:
    rows = switched()
    pq.write_table(table_of_rows(rows), tmp_path / "t.parquet")
    report = check_history(rows)
    found = gather(spark, [str(tmp_path)], report)
    assert [cut.title for cut in found.runs[0].cuts] == ["The switch single_phase → atop", "Where most happens"]
    page = render_report(found, report, "switched")
    words = parse(page).words()
    for part in ("✓ switching", "single_phase → atop", "extra bytes of switches", "longest pause around a switch"):
        assert part in words
    seen = use_page(page, tmp_path)
    assert (seen["turns"], seen["turned"]) == (3, 3)  # the charts over time; the lanes of the diagram


def test_what_is_fetched_is_bounded(spark: Any, tmp_path: Path) -> None:
    rows = [
        {"process": p, "step": s, "kind": "deliver", "origin": "z", "number": s, "time": s}
        for p in ("a", "b")
        for s in range(1, 3_001)
    ]
    pq.write_table(table_of_rows(rows), tmp_path / "t.parquet", row_group_size=500)
    sources = make_plan([str(tmp_path)], rows_per_source=500).sources
    zeros = {"a": 0, "b": 1_000}
    wishes = [
        Wish("", first=True),
        Wish("", messages={"z": [7, 2_999]}),
        Wish("", steps={"a": [(100, 200)]}),
        Wish("", times=(0, 10), zeros=zeros),
        Wish("", times=(0, 10)),
        Wish("other", first=True),
        Wish("", messages={"z": [7]}, sends_only=True),
    ]
    first, messages, steps, times, *nothing = fetch(spark, sources, wishes, limit=50)
    assert [(row["process"], row["step"]) for row in first] == [(p, s) for s in range(1, 26) for p in ("a", "b")]
    assert sorted((row["process"], row["number"]) for row in messages) == [(p, n) for p in ("a", "b") for n in (7, 2_999)]
    assert {row["process"] for row in steps} == {"a"}
    assert sorted(row["step"] for row in steps) == list(range(125, 175))
    assert sorted((row["process"], row["time"]) for row in times) == [
        *[("a", time) for time in range(1, 11)],
        *[("b", time) for time in range(1_000, 1_011)],
    ]
    assert nothing == [[], [], []]
    assert fetch(spark, sources, []) == []
