"""Reads pages strictly, uses them in headless Chromium, and makes material for them by hand."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from isotone.pipeline.oracle import Report
from isotone.report import Material
from isotone.report.cutout import cut_around, cut_range, group_witnesses
from isotone.report.figures import Band, Bin, Figures, Happening, Mark, Moment, Spread
from isotone.report.markup import VOID
from isotone.report.material import RunMaterial
from isotone.report.turns import Turn

needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")


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


def make_figures(run: str, processes: Sequence[str]) -> Figures:
    """A run of ten seconds with something in every figure."""
    second = 10**9
    figures = Figures(run, sorted(processes), duration=10 * second, width=second, kinds={"send": 7, "deliver": 9})
    for lane, name in enumerate(figures.processes):
        figures.bands.append(Band(lane, 0, 4 * second, f"1@{name}", tuple(processes), 3 * second))
        figures.bands.append(Band(lane, 4 * second, 10 * second, f"2@{name}", tuple(processes), None))
        figures.marks.append(Mark(5 * second, lane, "suspect", f"{name} suspects {name} (soft)"))
        figures.by_origin[name] = [Bin(0.0, 0.0, 1), Bin(1e5, 1.26e5, 3)]
        figures.spreads.append(Spread(name, 4, 1e5, 1e5, 1.2e5, 1.26e5))
    figures.happenings = [Happening(2 * second, "fault", processes[0]), Happening(3 * second, "heal", "heal")]
    figures.turns = [Turn(6 * second, 7 * second, processes[0], f"{processes[0]}\n1 s", second)]
    figures.latency = {0: Moment(3, 1e5, 1e6), 4: Moment(1, 1e5, 9e6)}
    figures.histogram = [Bin(0.0, 0.0, 1), Bin(1e5, 1.26e5, 3), Bin(1e6, 1.26e6, 1)]
    figures.rates = {0: (5, 6), 9: (2, 3)}
    figures.control = [(processes[0], 10, 100, 0.5), ("ack", None, None, None)]
    figures.summary = {"gap_p50_ns": 1_500, "sent_per_s": 12.5, "missing": ["receive"], "rows": 20, "view_changes": 2}
    figures.tables = {"throughput": [{"process": processes[0], "sent": 7, "delivered": None}], "switches": []}
    figures.cut = {"views": (2, 100)}
    return figures


def make_material(rows: Sequence[dict[str, Any]], report: Report, *, timed: bool = True) -> Material:
    """Material as Spark would gather it of a short history of one run: the whole history is around every witness."""
    run = rows[0].get("run", "") if rows else ""
    processes = sorted({row["process"] for row in rows})
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
    material = Material({"runs": [run] if rows else [], "kinds": kinds, "reasons": {"broken JSON": report.quarantined}})
    if not rows:
        return material
    zeros = dict.fromkeys(processes, 0) if timed else {}
    mine = RunMaterial(make_figures(run, processes) if timed else Figures(run, processes, timed=False))
    for group in group_witnesses(report.checks, run):
        about = [row for row in rows if (row.get("origin"), row.get("number")) in group.messages]
        mine.cuts.append(cut_around(group, about, rows, zeros, True))
        for check in group.checks:
            material.witnesses[check.name] = list(about)
    if not mine.cuts:
        mine.cuts.append(cut_range("Where most happens", "here", rows, zeros, False))
    material.runs = [mine]
    return material
