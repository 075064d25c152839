"""The frame that all plots stand in: scales, axes, grid lines, polylines, legends; all colours are the page's variables."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from isotone.report.markup import Markup, tag
from isotone.report.stats import nice_step, show_duration

WIDTH: Final = 1120
LEFT: Final = 92
RIGHT: Final = 14
COLOURS: Final = 8


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to pixels, linearly or by the logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            low, high, value = log10(self.low), log10(self.high), log10(max(value, self.low))
        else:
            low, high = self.low, self.high
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self, at_most: int) -> list[float]:
        """Round values on the scale."""
        if self.log:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            factors = (1, 2, 5) if len(decades) <= 3 else (1,)
            values = [factor * 10.0**decade for decade in decades for factor in factors]
            return [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
        step = nice_step(max(self.high - self.low, 1), at_most)
        return [step * index for index in range(ceil(self.low / step), floor(self.high / step) + 1)]


def colour(index: int) -> str:
    """One of the page's categorical colours."""
    return f"var(--c{index % COLOURS})"


def time_scale(duration: int, start: float = LEFT, end: float = WIDTH - RIGHT) -> Scale:
    """From the beginning of a run to its end; the same in every figure of the run, so that they line up."""
    return Scale(0, max(duration, 1), start, end)


def time_axis(scale: Scale, bottom: float, timed: bool) -> list[Markup]:
    """Ticks and numbers below a figure."""
    parts = []
    for value in scale.ticks(10):
        x = scale(value)
        label = show_duration(value) if timed and value else f"{value:,.0f}"
        parts.append(tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 5, class_="axis"))
        parts.append(tag("text", label, x=x, y=bottom + 18, text_anchor="middle"))
    parts.append(tag("line", x1=scale.start, x2=scale.end, y1=bottom, y2=bottom, class_="axis"))
    return parts


def value_axis(scale: Scale, left: float, right: float, as_time: bool) -> list[Markup]:
    """Grid lines with their numbers at the left of a figure."""
    parts = []
    for value in scale.ticks(5):
        y = scale(value)
        label = show_duration(value) if as_time and value else f"{value:,.0f}"
        parts.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=left - 8, y=y + 4, text_anchor="end"))
    return parts


def polyline(points: Sequence[tuple[float, float] | None], class_: str, stroke: str) -> list[Markup]:
    """A line through points; None interrupts it. A point alone is a dot."""
    parts: list[Markup] = []
    stretch: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            stretch.append(point)
            continue
        if len(stretch) == 1:
            parts.append(tag("circle", cx=stretch[0][0], cy=stretch[0][1], r=2.5, style=f"fill:{stroke}"))
        elif stretch:
            text = " ".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
            parts.append(tag("polyline", points=text, class_=class_, style=f"stroke:{stroke}"))
        stretch = []
    return parts


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Names with a swatch of their colour."""
    return tag(
        "p", [tag("span", tag("i", style=f"background:{paint}"), name, class_="key") for name, paint in entries], class_="legend"
    )


def shorten(name: str, most: int = 11) -> str:
    """A label that fits: of a long incarnation only the end, as in `a#…246`."""
    if len(name) <= most:
        return name
    base, mark, incarnation = name.partition("#")
    end = f"#…{incarnation[-3:]}" if mark else "…"
    return base[: most - len(end)] + end


def figure(parts: Sequence[Markup | None], height: float, label: str, width: float = WIDTH, kind: str = "") -> Markup:
    """An SVG image of the page's width."""
    return tag(
        "svg",
        [part for part in parts if part is not None],
        viewBox=f"0 0 {width:g} {height:g}",
        class_=f"chart {kind}".strip(),
        role="img",
        aria_label=label,
    )
