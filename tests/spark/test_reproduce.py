"""`isotone reproduce`: the criteria can fail, the measures say what the rows say, the parts are whole, and runs are reused."""

import json
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from isotone.cli import main
from isotone.model.errors import ConfigError
from isotone.model.ids import ViewId
from isotone.pipeline.sweeps.cell import plain_schema
from isotone.protocol.ordering.atop.distribution import Distribution
from isotone.reproduce import atop_points, criteria, measures, single_phase
from isotone.reproduce import run as runs
from isotone.reproduce.figures import standalone
from isotone.reproduce.page import render
from isotone.reproduce.parts import Claim, Part, Results, Section, Verified, identity
from isotone.reproduce.plots import Axis, Series, columns, lines, side_by_side, steps
from isotone.sim import parse_scenario, run
from isotone.trace.columns import ColumnBuilder

PARTS = list(runs.PARTS.values())
MS = 1_000_000


def table_of(data: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """A simulated run as a cell's Arrow table, and its rows."""
    result = run(parse_scenario({"name": "x", **data}))
    tables = []
    for recorder in result.recorders:
        builder = ColumnBuilder()
        builder.add(recorder.take())
        tables.append(builder.table().cast(plain_schema()))
    return pa.concat_tables(tables), result.rows


# --- criteria ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("judged", "holds"),
    [
        (criteria.at_most([1, 2], [1, 2], ""), True),
        (criteria.at_most([1, 2.1], [1, 2], ""), False),
        (criteria.at_least([3], [3], ""), True),
        (criteria.at_least([2.9], [3], ""), False),
        (criteria.grows([1, 2, 4], 4, ""), True),
        (criteria.grows([1, 2, 4], 5, ""), False),
        (criteria.grows([1, 5, 4], 2, ""), False),
        (criteria.grows([1], 1, ""), False),
        (criteria.falls([4, 4.1, 1], 4, ""), True),
        (criteria.falls([4, 5, 1], 4, ""), False),
        (criteria.falls([4, 3], 2, ""), False),
        (criteria.flat([1.0, 1.2], 0.2, ""), True),
        (criteria.flat([1.0, 1.3], 0.2, ""), False),
        (criteria.within([0, 10], 0, 10, ""), True),
        (criteria.within([0, 10.1], 0, 10, ""), False),
        (criteria.within([-0.1], 0, 10, ""), False),
    ],
)
def test_a_criterion_can_hold_and_fail(judged: criteria.Judged, holds: bool) -> None:
    assert judged.holds is holds


# --- measures ------------------------------------------------------------------------------------------------------

QUIET = {
    "members": ["quick1", "b", "c"],
    "duration_ms": 4_000,
    "order": "single_phase",
    "trace_receives": True,
    "network": {"latency": {"kind": "constant", "ms": 10.0}},
    "workload": [{"interval_ms": 60, "start_ms": 1_000, "stop_ms": 3_000}],
}


def test_latency_is_what_the_rows_say() -> None:
    table, rows = table_of(QUIET)
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    settled = min(sent.values()) + (max(sent.values()) - min(sent.values())) // 3
    late = [row for row in rows if row["kind"] == "deliver" and sent[row["origin"], row["number"]] >= settled]
    took = [row["time"] - sent[row["origin"], row["number"]] for row in late]
    remote = [row["time"] - sent[row["origin"], row["number"]] for row in late if row["process"] != row["origin"]]
    found = measures.latency(table)
    assert found["sent"] == len(sent)
    assert found["mean_ms"] == pytest.approx(sum(took) / len(took) / MS)
    assert found["remote_ms"] == pytest.approx(sum(remote) / len(remote) / MS)
    assert found["remote_max_ms"] == max(remote) / MS


def test_held_is_from_receipt_to_delivery_and_within_the_bound() -> None:
    found = measures.held(table_of(QUIET)[0])
    assert 0 <= found["held_min_ms"] <= found["held_mean_ms"] <= found["held_max_ms"] <= 10
    assert (found["longest_ms"], found["total_max_ms"]) == (10, 20)
    assert found["held_over_ms"] <= 0
    two = measures.held(table_of({**QUIET, "order": "two_phase"})[0])
    assert two["held_min_ms"] >= 20
    assert two["held_over_ms"] > 0  # another protocol does not keep this one's bound


def test_ticks_count_sends_and_deliveries() -> None:
    found = measures.ticks(table_of(QUIET)[0])
    sends, deliveries = json.loads(found["tick_sends"]), json.loads(found["tick_deliveries"])
    assert abs(sum(sends) - sum(deliveries)) <= 1 < len(sends) == len(deliveries)
    assert found["tick_sent_mean"] == pytest.approx(100 / 60, rel=0.1)
    assert found["tick_mean"] == pytest.approx(100 / 60, rel=0.1)
    waiting = {**QUIET, "order": "all_ack", "options": {"silent": "wait", "interval_ms": 700}}
    slow = [{**QUIET["workload"][0], "members": ["quick1"]}, {**QUIET["workload"][0], "members": ["b", "c"], "interval_ms": 500}]  # type: ignore[index]
    assert measures.ticks(table_of({**waiting, "workload": slow})[0])["tick_variance"] > 5 * found["tick_variance"]


def test_control_counts_records_once_and_per_receiver() -> None:
    found = measures.control(table_of({**QUIET, "order": "sequencer"})[0])
    assert found["multicasts_order"] == pytest.approx(1)
    assert found["records_order"] == pytest.approx(2)


def test_volatile_counts_views_and_what_was_missed() -> None:
    data = {
        "members": ["s1", "s2", "s3", "v1"],
        "duration_ms": 7_000,
        "order": "token",
        "timing": {"heartbeat_ms": 50, "soft_ms": 150, "hard_ms": 150, "closed_ms": 150},
        "workload": [{"interval_ms": 50, "start_ms": 1_000, "stop_ms": 4_000}],
        "faults": [
            {"kind": "cut", "at_ms": 2_000, "from": "v1", "both": True},
            {"kind": "heal", "at_ms": 3_000},
        ],
    }
    found = measures.volatile(table_of(data)[0])
    assert found["views"] >= 2
    assert found["missed"] > 20
    calm = measures.volatile(table_of({**data, "faults": []})[0])
    assert (calm["views"], calm["cores"], calm["missed"], calm["records"]) == (0, 0, 0, 0)


def test_the_order_of_the_slots_is_the_one_that_the_slots_have() -> None:
    """What `nearness` calls the order of the slots is that of the even distribution by the quick members' rates."""
    slots = Distribution(1, (30, 30, 60, 1, 1, 1), "even", ViewId(1, "a#1")).slots
    owners = {slots.slot(member, index): member for member in range(3) for index in range(30)}
    seen = [atop_points.MEMBERS[owners[slot]] for slot in sorted(owners)[:24]]
    turn = list(atop_points.TURNS["in the order of the slots"])
    text, pattern = " ".join(seen), " ".join(turn * 3)
    assert pattern in text
    assert " ".join(list(atop_points.TURNS["in another fixed order"]) * 3) not in text


# --- the parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_point_of_every_part_can_be_run(part: Part, quick: bool) -> None:
    points = part.points(quick)
    experiment = runs.experiment_of(part, points, 1)
    assert len(experiment.cells) == len(points) == len({identity(parameters) for parameters in points.values()})


class Made(dict[str, Any]):
    """A row that has some number for every column."""

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def __missing__(self, key: str) -> Any:
        if key == "shown":
            return '{"at": [1, 2, 4], "took": [1, 2, 1], "ticks": [1, 2, 1], "switches": [[1, 2]]}'
        return "[1, 0, 2, 1, 1, 0, 1, 1, 1, 1, 2]" if key in ("tick_sends", "tick_deliveries") else 1.0


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_section_is_drawn_and_judged(spark: Any, tmp_path: Path, part: Part, quick: bool) -> None:
    points = part.points(quick)
    computed = part.compute(tmp_path, True, spark, lambda _done, _all: None) if part.compute else None
    results = Results(points, [Made(point=identity(one), error=None) for one in points.values()], computed)
    names = [one.name for batch in runs.LIVE.get(part.name, lambda _: [])(quick) for one in batch]
    live = Results({name: {"live": name} for name in names}, [Made(point=identity({"live": name}), error=None) for name in names])
    sections = part.sections(results, quick, live if names else None)
    page = render([(part.name, part.paper, sections, Verified(3, 100))], Verified(3, 100), quick, 1.0)
    for section in sections:
        assert section.figures
        assert section.claims
        for figure in section.figures:
            ElementTree.fromstring(figure)
            for image in standalone(figure):
                ElementTree.fromstring(image)
                assert "var(" not in image
        for claim in section.claims:
            assert escape(claim.ours) in page
            assert claim.criterion
    judged = {claim.holds for section in sections for claim in section.claims}
    assert judged == {True, False}  # all numbers alike: some criteria hold, some do not


def test_a_plot_alone_has_its_title_its_legend_and_its_colours() -> None:
    series = [
        Series("simulated", [(1, 2.0), (2, 3.0)], 0),
        Series("live", [(1, 2.5)], 1, live=True),
        Series("<ref>", [(1, 1.0)], 7, dashed=True),
    ]
    pair = side_by_side(lines("one", series, Axis("across"), Axis("up")), columns("two", ["a"], [("s", [1.0], 0)], Axis("y")))
    first, second = standalone(pair)
    for text in ("one", "simulated", "live", "&lt;ref&gt;", "across", "up", "#2f6fb3", "stroke-dasharray"):
        assert text in first
    assert "two" in second


def test_plots_are_well_formed_with_gaps_and_zeros() -> None:
    series = [Series("a & b", [(1, 0.0), (2, None), (4, 3.5)], 0), Series("<ref>", [(1, 1.0), (4, 1.0)], 1, dashed=True)]
    for plot in (
        lines("x < y", series, Axis("x", log=True), Axis("y", log=True)),
        columns("c", ["one", "two"], [("s", [0.0, None], 0)], Axis("y")),
        steps("s", [("n", [0, 3, 1], 0)], "ticks", "count"),
    ):
        ElementTree.fromstring(plot)


# --- the command ---------------------------------------------------------------------------------------------------


def tiny_points(quick: bool) -> dict[str, dict[str, Any]]:
    load = [{"kind": "poisson", "interval_ms": 40.0, "start_ms": 1_000.0, "stop_ms": 1_600.0}]
    return {order: {"order": order, "workload": load, "duration_ms": 2_000.0} for order in ("single_phase", "two_phase")}


def tiny_sections(results: Results, quick: bool, live: Results | None) -> list[Section]:
    values = [results.mean(order, "total_max_ms") for order in ("single_phase", "two_phase")]
    judged = criteria.at_most(values, [20.0, 20.0], "at most 2 D")
    claim = Claim(
        "Both within two delays.",
        "2 D",
        f"{values[0]:g}, {values[1]:g} ms",
        judged.criterion,
        judged.holds,
        "Two phases are three.",
    )
    plot = columns("Latency", ["one", "two"], [("ms", values, 0)], Axis("ms"))
    return [Section("Tiny", "§0", "Says.", "Set-up.", [plot], [claim])]


TINY = Part(
    "tiny",
    single_phase.PAPER,
    single_phase.PART.scenario,
    tiny_points,
    lambda _: 1,
    (measures.latency, measures.held),
    tiny_sections,
)


def test_reproduce_runs_checks_judges_and_reuses(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs, "PARTS", {"tiny": TINY})
    out = tmp_path / "out"
    shown: list[tuple[str, int, int]] = []
    found = runs.reproduce([TINY], out, quick=True, session=spark, progress=lambda *what: shown.append(what))
    assert (found.verified.verdict, found.verified.runs, found.ran) == ("ok", 2, 2)
    assert found.verified.events > 100
    assert [claim.holds for _, claim in found.claims] == [False]
    assert ("tiny", 2, 2) in shown
    page = found.report.read_text(encoding="utf-8")
    assert "does not hold" in page
    assert "Two phases are three." in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    told = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert told["parts"][0]["claims"][0]["holds"] is False
    with pytest.raises(SystemExit) as status:
        main(["reproduce", "tiny", "--quick", "--out", str(out)])
    assert status.value.code == 0
    assert "2 runs (0 now)" in capsys.readouterr().out


def test_a_violated_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"events": 5, "error": None, "verdict": "violated", "witness": "total: x", "replay": "isotone simulate"},
        {"events": 7, "error": "boom", "verdict": None, "witness": None, "replay": "isotone simulate"},
    ]
    found = runs._verified(rows)
    assert (found.verdict, found.events, len(found.violated), len(found.failed)) == ("violated", 12, 1, 1)
    assert runs._verified(rows[1:]).verdict == "unknown"


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (["atopp", "--out", str(tmp_path / "out")], ["atop", "--quick", "--out", str(tmp_path / "file")]):
        with pytest.raises(SystemExit) as status:
            main(["reproduce", *arguments])
        assert status.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("isotone: ")
        assert said.count("\n") == 1
    with pytest.raises(ConfigError, match="atop"):
        runs.chosen("atopp")
