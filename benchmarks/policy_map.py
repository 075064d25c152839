"""A picture of the packaged table: which orderer is predicted to be best over rate and skew, on a fast and a slow network.

python benchmarks/policy_map.py --out docs/policy-map.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from isotone.model.settings import SECOND
from isotone.protocol.switching.observe import Observation
from isotone.protocol.switching.table import best, packaged

COLOURS = {
    "all_ack": "#e69f00",
    "atop": "#56b4e9",
    "sequencer": "#009e73",
    "single_phase": "#cc79a7",
    "token": "#f0e442",
    "two_phase": "#999999",
}
"""Told apart also by those who see few colours."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 190, 62, 56, 92
STEPS_X, STEPS_Y = 50, 38
RATES = (2.0, 1_000.0)


class Panel(NamedTuple):
    """One map."""

    title: str
    members: int
    delay_us: int
    loss: int


PANELS = tuple(
    Panel(f"{members} members, {delay_us / 1_000:g} ms" + (", 2 % loss" if loss else ""), members, delay_us, loss)
    for members in (3, 9)
    for delay_us, loss in ((500, 0), (80_000, 0), (80_000, 20))
)


def winner(panel: Panel, rate: float, skew: int) -> tuple[str, float]:
    """The best orderer at a point, and the latency of the second best against it."""
    seen = Observation((1_000,) * panel.members, int(1_000 * panel.members / rate * SECOND), 1_000 * panel.delay_us, panel.loss)
    predicted = {order: packaged().latency(order, seen, skew) for order in packaged().orders}
    first = best(predicted)
    return first, min(value for order, value in predicted.items() if order != first) / predicted[first]


def pale(colour: str) -> str:
    """More than half way to white."""
    return "#" + "".join(f"{255 - (255 - int(colour[place : place + 2], 16)) * 45 // 100:02x}" for place in (1, 3, 5))


def paints(panel: Panel, skew: int) -> Iterator[str]:
    """The colours of one row of a map."""
    for column in range(STEPS_X):
        order, margin = winner(panel, RATES[0] * (RATES[1] / RATES[0]) ** ((column + 0.5) / STEPS_X), skew)
        yield f'fill="{pale(COLOURS[order]) if margin < 1.1 else COLOURS[order]}"'


def draw() -> str:
    """The picture."""
    columns = 3
    width, height = LEFT + columns * (WIDTH + GAP) - GAP + 20, TOP + 2 * (HEIGHT + GAP) + 4
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    x = LEFT
    for order in sorted(COLOURS):
        out.append(
            f'<rect x="{x}" y="10" width="14" height="14" fill="{COLOURS[order]}"/><text x="{x + 19}" y="22">{order}</text>'
        )
        x += 110
    out.append(f'<text x="{x + 10}" y="22" fill="#555">pale: the second best is less than 10 % behind</text>')
    for index, panel in enumerate(PANELS):
        x0, y0 = LEFT + index % columns * (WIDTH + GAP), TOP + index // columns * (HEIGHT + GAP)
        out.append(f'<text x="{x0 + WIDTH / 2}" y="{y0 - 8}" text-anchor="middle" font-weight="bold">{panel.title}</text>')
        dx, dy = WIDTH / STEPS_X, HEIGHT / STEPS_Y
        for row in range(STEPS_Y):
            y = y0 + HEIGHT - (row + 1) * dy
            column = 0
            for paint, run in groupby(paints(panel, round(1_000 * (row + 0.5) / STEPS_Y))):
                length = len(list(run))
                at, wide = x0 + column * dx, length * dx + 0.2
                out.append(f'<rect x="{at:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{dy + 0.2:.1f}" {paint}/>')
                column += length
        out.append(f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#333"/>')
        for tick, place in ((2, 0.0), (15, 0.324), (120, 0.659), (1000, 1.0)):
            out.append(f'<text x="{x0 + place * WIDTH:.0f}" y="{y0 + HEIGHT + 15}" text-anchor="middle">{tick}</text>')
        out.append(
            f'<text x="{x0 + WIDTH / 2}" y="{y0 + HEIGHT + 32}" text-anchor="middle">messages a second, all together</text>'
        )
        for share, text in ((0, "even"), (0.5, "0.5"), (0.8, "0.8"), (1, "one")):
            out.append(f'<text x="{x0 - 5}" y="{y0 + HEIGHT * (1 - share) + 4:.0f}" text-anchor="end">{text}</text>')
        middle = y0 + HEIGHT / 2
        out.append(
            f'<text x="{x0 - 40}" y="{middle}" text-anchor="middle" transform="rotate(-90 {x0 - 40} {middle})">skew</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.parse_args().out.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
