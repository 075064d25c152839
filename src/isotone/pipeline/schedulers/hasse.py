"""The containment of the classes as a picture: a line leads from a class up to the next larger one that contains it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

ALL: Final = "all histories"
_WIDTH, _ROW, _BOX, _HIGH = 640, 84, 176, 44


def covers(inside: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Of the containments (per class, those that contain it) the ones with nothing between."""
    return [
        (small, large)
        for small, larger in inside.items()
        for large in larger
        if not any(large in inside[between] for between in larger if between != large)
    ]


def svg(inside: Mapping[str, Sequence[str]], captions: Mapping[str, str]) -> str:
    """Draw classes in rows: each above all that it contains."""
    depth: dict[str, int] = {}

    def below(name: str) -> int:
        if name not in depth:
            depth[name] = max((below(small) + 1 for small, larger in inside.items() if name in larger), default=0)
        return depth[name]

    rows: dict[int, list[str]] = {}
    for name in inside:
        rows.setdefault(below(name), []).append(name)
    high = _ROW * len(rows)
    place: dict[str, tuple[float, float]] = {}
    for level, names in sorted(rows.items()):
        for index, name in enumerate(names):
            place[name] = (_WIDTH * (index + 0.5) / len(names), high - _ROW * (level + 0.5))
        under = [place[small][0] for small, large in covers(inside) if large == names[0]]
        if len(names) == 1 and under:  # above what it contains, so that no line goes through a box
            place[names[0]] = (sum(under) / len(under), place[names[0]][1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" width="{_WIDTH}" height="{high}" '
        'font-family="system-ui, sans-serif" text-anchor="middle">',
        f'<rect width="{_WIDTH}" height="{high}" fill="#ffffff"/>',
    ]
    for small, large in covers(inside):
        (x, y), (u, v) = place[small], place[large]
        parts.append(f'<path d="M{x:.0f} {y - _HIGH / 2:.0f}L{u:.0f} {v + _HIGH / 2:.0f}" stroke="#6b7280" stroke-width="1.5"/>')
    for name, (x, y) in place.items():
        fill = "#dbeafe" if name.startswith("semantic") else "#f3f4f6"
        box = f'x="{x - _BOX / 2:.0f}" y="{y - _HIGH / 2:.0f}" width="{_BOX}" height="{_HIGH}"'
        parts.append(f'<rect {box} rx="6" fill="{fill}" stroke="#374151"/>')
        parts.append(f'<text x="{x:.0f}" y="{y - 3:.0f}" font-size="14" fill="#111827">{escape(name)}</text>')
        parts.append(f'<text x="{x:.0f}" y="{y + 14:.0f}" font-size="12" fill="#4b5563">{escape(captions[name])}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
