"""The page: well-formed, whole in itself, nothing of a trace becomes markup; and it works in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from isotone.cli.report import parse_span
from isotone.cli.report import report as command
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import CheckResult, Report, check_history
from isotone.report import render_report
from isotone.report.markup import VOID, data_script, tag
from isotone.sim import run
from tests.pipeline.oracle_text import history

SCENARIOS = Path(__file__).parents[2] / "scenarios"
EVIL = '<script>alert("x")</script>&amp;\'"#1'


class Strict(HTMLParser):
    """Fails on tags that do not match; keeps elements, text and the contents of scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(attrs) == len(dict(attrs)), f"an attribute twice on {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))

    def words(self) -> str:
        return " ".join(data for tag, data in self.text if tag not in ("script", "style"))


def parse(page: str) -> Strict:
    parser = Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def anomaly() -> list[dict[str, Any]]:
    return [dict(row) for row in run(SCENARIOS / "anomaly.toml").rows]


@pytest.fixture(scope="module")
def page(anomaly: list[dict[str, Any]]) -> str:
    return render_report(anomaly, check_history(anomaly), "anomaly")


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
    check = CheckResult("fifo", "violated", 1, f"{EVIL} delivers {EVIL}:1 too early", note=EVIL)
    text = render_report(rows, Report(len(rows), 0, [check]), EVIL)
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
        [{"process": "a", "step": 1, "kind": "fault", "time": 7}],
        [{key: value for key, value in row.items() if key != "time"} for row in history("a: [1a ab] +1 a1 .\nb: [1a ab] a1 .")],
        history("a: =5 +1 =5 a1 ."),
        [*history("a: +1 a1 .", "one"), *history("a: +1 .", "two")],
    ],
)
def test_poor_traces_have_a_page_too(rows: list[dict[str, Any]]) -> None:
    parse(render_report(rows, check_history(rows)))


def test_many_runs_are_cut_and_the_violated_one_comes_first() -> None:
    rows = [row for index in range(12) for row in history("a: [1a a] +1 a1 .", f"r{index}")]
    rows += history("a: [1a a] +1 a1 a1 .", "bad")
    words = parse(render_report(rows, check_history(rows, ["duplication"]))).words()
    assert "5 more runs" in words
    assert words.index("Run bad") < words.index("Run r0")


def test_the_command_writes_the_file(anomaly: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in anomaly))
    assert command([trace], tmp_path / "out.html", "4:4.5") == 1
    words = parse((tmp_path / "out.html").read_text(encoding="utf-8")).words()
    assert "The chosen range" in words
    assert "report written to" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "1", "2:1", "a:b", "1:inf", "nan:1"])
def test_a_bad_range_is_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--range"):
        parse_span(text)


def use_page(page: str, place: Path) -> dict[str, Any]:
    """Open a page in headless Chromium, have it use itself, and return what it saw."""
    file = place / "page.html"
    file.write_text(page, encoding="utf-8")
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
    line = ["chromium", *options.split(), "--disable-sync", f"--user-data-dir={place / 'profile'}", "--enable-logging=stderr"]
    line += ["--dump-dom", f"{file.as_uri()}#selftest"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    found = re.search(r'data-selftest="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(found.group(1)))
    assert seen["errors"] == []
    assert seen["themed"]
    return seen


needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")


@needs_browser
def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    seen = use_page(page, tmp_path)
    assert (seen["diagrams"], seen["messages"]) == (1, 2)
    assert (seen["dimBefore"], seen["dimAfter"], seen["followed"], seen["dimEscaped"]) == (0, 1, 1, 0)
    assert re.search(r"sends [bc]#1:1", seen["told"])
    assert seen["hidden"] == 1
    assert "a#1, view 1@a#1: a#1" in seen["hint"]
    for done in ("zoomed", "moved", "wheeled", "crossed"):
        assert seen[done], done


@needs_browser
def test_pages_of_poor_traces_work_in_a_browser(tmp_path: Path) -> None:
    assert use_page(render_report([], check_history([])), tmp_path)["diagrams"] == 0
    rows = [{k: v for k, v in row.items() if k != "time"} for row in history("a: [1a ab] +1 a1 .\nb: [1a ab] a1 +1 b1 .")]
    seen = use_page(render_report(rows, check_history(rows)), tmp_path)
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
