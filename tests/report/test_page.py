"""The page: well-formed, whole in itself, nothing of a trace becomes markup; and it works in a real browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from isotone.cli.report import parse_around, parse_span
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import CheckResult, Report, Witness, check_history
from isotone.pipeline.oracle.witness import Edge
from isotone.report import render_report
from isotone.report.markup import data_script, tag
from tests.pipeline.oracle_text import history
from tests.report.pages import make_material, needs_browser, parse, use_page

EVIL = '<script>alert("x")</script>&amp;\'"#1'
CROSSED = """
a: [1a abc] c1 b1 .
b: [1a abc] +1 b1 c1 .
c: [1a abc] +1 b1 c1 .
"""


def render(rows: list[dict[str, Any]], report: Report, **options: Any) -> str:
    return render_report(make_material(rows, report, **options), report, "a page")


@pytest.fixture(scope="module")
def page() -> str:
    rows = history(CROSSED)
    return render(rows, check_history(rows, ["total_pairwise", "total_global", "fifo", "position"]))


def test_the_page_is_well_formed_and_has_its_parts(page: str) -> None:
    parsed = parse(page)
    words = parsed.words()
    for part in ("Checks", "Views over time", "Latency, send to deliver", "Sends and deliveries", "Space-time diagram"):
        assert part in words
    assert "✕ violated" in words
    assert "a#1 delivers c#1:1 before b#1:1, b#1 delivers b#1:1 before c#1:1" in words
    identifiers = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    tips = [attributes["data-tip"] or "" for _, attributes in parsed.elements if "data-tip" in attributes]
    assert any("view 2@a#1: a#1, b#1, c#1" in tip for tip in tips)
    assert sum(name == "details" for name, _ in parsed.elements) >= 5
    assert "2 of 100 views are shown." in words
    for number in ("1.50 µs", "12.5", "Throughput"):
        assert number in words


def test_every_violation_has_a_picture(page: str) -> None:
    pictures = [attributes for name, attributes in parse(page).elements if name == "svg" and attributes.get("class") == "witness"]
    labels = [attributes["aria-label"] for attributes in pictures]
    assert labels == [f"the witness of {name} as a space-time diagram" for name in ("total_pairwise", "total_global")]


def test_the_page_names_no_address(page: str) -> None:
    assert not re.search(r"(?i)https?:|//[a-z]+\.|@import|\burl\((?!#)", page)
    for name, attributes in parse(page).elements:
        assert name not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "action", "srcset"} & attributes.keys()
        assert not [key for key in attributes if key.startswith("on")]
    assert "default-src 'none'" in html.unescape(page)


def test_text_of_a_trace_never_becomes_markup() -> None:
    rows: list[dict[str, Any]] = []
    about = {"origin": EVIL, "number": 1, "type": EVIL, "view_epoch": 1, "view_proposer": EVIL}
    for step, kind in enumerate(("view", "suspect", "send", "deliver", "packet", "stop"), 1):
        row = {"run": EVIL, "process": EVIL, "step": step, "time": step, "kind": kind, "members": [EVIL], "peer": EVIL}
        rows.append(row | about | {"packet": EVIL})
    rows.append({"run": EVIL, "process": "net", "step": 1, "time": 2, "kind": "fault", "detail": {"kind": EVIL}})
    edges = (Edge(f"send of {EVIL}:1", f"delivery of {EVIL}:1", EVIL, EVIL), Edge(EVIL, EVIL, EVIL, EVIL))
    witness = Witness(f"{EVIL} delivers {EVIL}:1 too early", (EVIL,), ((EVIL, 1),), edges)
    report = Report(len(rows), 3, [CheckResult("fifo", "violated", 1, witness, note=EVIL)])
    text = render_report(make_material(rows, report), report, EVIL)
    parsed = parse(text)
    assert "<script>alert" not in text
    assert EVIL in parsed.words()
    scripts = [attributes for name, attributes in parsed.elements if name == "script"]
    assert len(scripts) == 4  # the data of one diagram, and the page's own three
    data = next(data for name, data in parsed.text if name == "script")
    assert json.loads(data)["lanes"] == [EVIL]
    assert json.loads(data)["messages"][0]["named"] == 0


def test_the_writer_escapes_text_and_attributes() -> None:
    assert tag("p", "<b>", tag("b", "&"), None, [1, 2.5], class_='"', data_tip="<", hidden=True, id=None) == (
        '<p class="&quot;" data-tip="&lt;" hidden>&lt;b&gt;<b>&amp;</b>12.5</p>'
    )
    assert "\x00" not in tag("p", "a\x00b\ud800")
    assert "</script><" not in data_script("x", "</script><script>")[:-9]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"process": "a", "step": 1, "kind": "packet"}],
        [{"process": "a", "step": 1, "kind": "deliver", "origin": "b", "number": 1}],
        [{"process": "a", "step": 1, "kind": "view", "time": 7}],
        history("a: =5 +1 =5 a1 ."),
    ],
)
@pytest.mark.parametrize("timed", [True, False])
def test_poor_traces_have_a_page_too(rows: list[dict[str, Any]], timed: bool) -> None:
    words = parse(render(rows, check_history(rows), timed=timed)).words()
    assert ("Unknown: the trace has no" in words) == (bool(rows) and not timed)


@pytest.mark.parametrize("text", ["", "1", "2:1", "a:b", "1:inf", "nan:1"])
def test_a_bad_range_is_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--range"):
        parse_span(text)


def test_a_step_is_named_after_the_last_colon() -> None:
    assert parse_around("a:b#1:17") == ("a:b#1", 17)
    for text in ("a#1", "a#1:", "a#1:x"):
        with pytest.raises(ConfigError, match="--around"):
            parse_around(text)


@needs_browser
def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    seen = use_page(page, tmp_path)
    assert (seen["diagrams"], seen["messages"], seen["witnesses"]) == (1, 2, 2)
    assert (seen["dimBefore"], seen["dimAfter"], seen["followed"], seen["dimEscaped"]) == (0, 1, 1, 0)
    assert re.search(r"sends [bc]#1:1", seen["told"])
    assert seen["hidden"] == 1
    assert seen["turns"] == 3  # in each chart over time
    assert "a#1, view 1@a#1: a#1" in seen["hint"]
    assert seen["edgeHint"] == "a#1 delivers c#1:1 before b#1:1"
    for done in ("zoomed", "moved", "wheeled", "crossed"):
        assert seen[done], done


@needs_browser
def test_pages_of_poor_traces_work_in_a_browser(tmp_path: Path) -> None:
    assert use_page(render([], check_history([])), tmp_path)["diagrams"] == 0
    rows = [{k: v for k, v in row.items() if k != "time"} for row in history("a: [1a ab] +1 a1 .\nb: [1a ab] a1 +1 b1 .")]
    seen = use_page(render(rows, check_history(rows), timed=False), tmp_path)
    assert (seen["messages"], seen["dimAfter"], seen["followed"]) == (2, 1, 1)


def luminance(colour: str) -> float:
    """Relative luminance as the accessibility guidelines of the web define it."""
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_contrast_in_light_and_dark(page: str) -> None:
    themes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", page)]
    assert len(themes) == 3
    assert themes[1] == themes[2]  # dark by the system's choice and by the button
    for theme in themes:
        pairs = [(f"c{index}", "inband") for index in range(8)]
        pairs += [("ink", "card"), ("soft", "card"), ("soft", "paper")]
        pairs += [(name, f"{name}-bg") for name in ("good", "bad", "open")]
        for front, back in pairs:
            low, high = sorted((luminance(theme[front]), luminance(theme[back])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (front, back, theme[front])
