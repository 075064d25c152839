"""The chart of docs/semantic.md, panels of lines over the share of conflicting messages as one SVG file, and its paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import fill
from typing import Final, NamedTuple

COLOURS: Final = ("#1d4ed8", "#b45309", "#15803d", "#9333ea", "#be123c")
WIDE, HIGH = 470, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44
LEGEND: Final = 34


def paragraph(words: str) -> list[str]:
    """Words in lines of one width, and an empty line."""
    return [fill(" ".join(words.split()), 128, break_long_words=False, break_on_hyphens=False), ""]


class Line(NamedTuple):
    """One load."""

    name: str
    values: list[float]


class Panel(NamedTuple):
    """One network and rate; the floor is what the network itself takes."""

    title: str
    lines: list[Line]
    floor: list[float]


def chart(panels: Sequence[Panel], columns: Sequence[str], across: str, upwards: str, floor: str) -> str:
    """Panels, two in a row, with one legend."""
    rows = (len(panels) + 1) // 2
    width, height = 2 * WIDE, rows * HIGH + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#374151">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(panels[0], floor),
    ]
    for index, panel in enumerate(panels):
        parts += [
            f'<g transform="translate({index % 2 * WIDE} {index // 2 * HIGH + LEGEND})">',
            *_panel(panel, columns, across, upwards),
            "</g>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(panel: Panel, floor: str) -> list[str]:
    parts, x = [], LEFT
    for name, colour, dash in [
        *((line.name, COLOURS[index], "") for index, line in enumerate(panel.lines)),
        (floor, "#6b7280", ' stroke-dasharray="5 4"'),
    ]:
        parts.append(f'<path d="M{x} 20h26" stroke="{colour}" stroke-width="2.5"{dash}/>')
        parts.append(f'<text x="{x + 32}" y="24">{escape(name)}</text>')
        x += 60 + 8 * len(name)
    return parts


def _panel(panel: Panel, columns: Sequence[str], across: str, upwards: str) -> list[str]:
    top = max(1.2, max(value for line in panel.lines for value in line.values) * 1.05)

    def x(index: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * (index + 0.5) / len(columns)

    def y(value: float) -> float:
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * value / top

    parts = [f'<text x="{LEFT}" y="{TOP - 12}" font-size="14" font-weight="600" fill="#111827">{escape(panel.title)}</text>']
    for tick in range(int(top / 0.2) + 1):
        value = tick * 0.2
        strong = ' stroke="#9ca3af"' if tick == 5 else ' stroke="#e5e7eb"'
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDE - RIGHT}"{strong}/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for index, column in enumerate(columns):
        parts.append(f'<text x="{x(index):.1f}" y="{HIGH - BOTTOM + 16}" text-anchor="middle">{escape(column)}</text>')
    parts.append(f'<text x="{(LEFT + WIDE - RIGHT) / 2:.0f}" y="{HIGH - 10}" text-anchor="middle">{escape(across)}</text>')
    middle = (TOP + HIGH - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    parts.append(f'<text x="14" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(upwards)}</text>')
    path = " ".join(f"{'L' if index else 'M'}{x(index):.1f} {y(value):.1f}" for index, value in enumerate(panel.floor))
    parts.append(f'<path d="{path}" fill="none" stroke="#6b7280" stroke-width="2" stroke-dasharray="5 4"/>')
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number]
        path = " ".join(f"{'L' if index else 'M'}{x(index):.1f} {y(value):.1f}" for index, value in enumerate(line.values))
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(i):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for i, value in enumerate(line.values)]
    return parts
