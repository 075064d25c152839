"""Switches in a report: on the time axis of the charts, in the diagrams, in words."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from isotone.pipeline.metrics.plain.tables import tables_of
from isotone.report.charts import bands_chart, latency_chart, rate_chart
from isotone.report.cutout import cut_range
from isotone.report.diagram import describe, diagram_data
from isotone.report.figures import Figures, figures_of
from isotone.report.turns import phase_words, turns_of
from tests.report.pages import parse
from tests.spark.metrics_histories import runs_of, switched

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return switched()


@pytest.fixture(scope="module")
def figures(rows: Rows) -> Figures:
    ((name, run),) = runs_of(rows).items()
    return figures_of(tables_of(name, run, None))


def test_the_switch_of_all_processes_is_one_stretch(rows: Rows, figures: Figures) -> None:
    told = [row for row in rows if row["kind"] == "switch"]
    (turn,) = figures.turns
    assert (turn.start, turn.end) == (min(row["time"] for row in told), max(row["time"] for row in told))
    assert turn.name == "single_phase → atop"
    for words in ("single_phase → atop (dual_ids), at 3 processes", "longest time without a delivery: ", "extra bytes: "):
        assert words in turn.words
    assert turn.gap == max(row["gap_ns"] for row in figures.tables["switches"])
    assert not figures.happenings  # the simulator's note that it asks is where the switch begins
    signs = [mark for mark in figures.marks if mark.kind == "switch"]
    assert sorted(mark.lane for mark in signs) == [0, 1, 2]  # one each, when it is done
    assert all(mark.words.endswith("#1 has switched single_phase → atop (dual_ids)") for mark in signs)


def test_every_chart_over_time_shows_it(figures: Figures) -> None:
    for chart in (bands_chart(figures), latency_chart(figures), rate_chart(figures)):
        shapes = [attributes for name, attributes in parse(chart).elements if attributes.get("class") == "turn"]
        assert len(shapes) == 1
        assert float(shapes[0]["width"] or 0) >= 2
        tips = [attributes.get("data-tip") or "" for _, attributes in parse(chart).elements]
        assert sum("switch single_phase → atop (dual_ids)" in tip for tip in tips) == 1
    assert "single_phase → atop" in parse(bands_chart(figures)).words()


def test_the_diagram_shows_it_from_the_request_on(rows: Rows, figures: Figures) -> None:
    (turn,) = figures.turns
    near = [row for row in rows if row["kind"] != "packet" and turn.start - 10**7 <= row["time"] <= turn.end + 10**7]
    cut = cut_range("here", "now", near, dict.fromkeys(figures.processes, 0), True)
    data = diagram_data(cut)
    assert sorted(one["l"] for one in data["turns"]) == [0, 1, 2]
    for one in data["turns"]:
        first, last = data["events"][one["first"]], data["events"][one["last"]]
        assert (first["p"], last["p"], last["v"]) == ("request", "done", "atop")
    words = [describe(cut.story, event) for event in cut.events if event.kind == "switch" and event.lane == 0]
    assert words == [
        "a#1 has the request to switch single_phase → atop (dual_ids)",
        "a#1 comes to the cut of the switch single_phase → atop (dual_ids)",
        "a#1 has switched single_phase → atop (dual_ids)",
    ]


def test_a_switch_of_which_little_is_recorded() -> None:
    row = {"at": 5, "phases": {}, "view_epoch": None, "view_proposer": None, "instance": None, "strategy": None, "from": None}
    row |= {"to": "atop", "gap_ns": None, "extra_bytes": None, "missing": "switch.phase"}
    one, two = turns_of([row, {**row, "at": None}, {**row, "at": 7}])
    assert (one.start, one.end, two.start) == (5, 5, 7)
    assert one.words == "? → atop, at 1 processes\nat one moment\n1 of them did not record its end"
    assert phase_words(None) == "has switched"
    assert phase_words({"phase": "dance", "from": "a", "to": "b"}) == "is in the phase dance of a switch a → b"
