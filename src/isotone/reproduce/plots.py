"""Plots of the reproduction: lines over a number, columns over names, steps over time; in the frame of the reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10

from isotone.report.markup import Child, Markup, join, numbers, table, tag
from isotone.report.plot import Scale, colour, figure

HEIGHT = 300
WIDE, HALF = 1120, 550
LEFT, RIGHT, TOP, BELOW = 66, 18, 14, 46


@dataclass(frozen=True, slots=True)
class Series:
    """A line: points in the order of x; None leaves a gap. `live` points stand alone, as diamonds; `dashed` is a reference."""

    name: str
    points: Sequence[tuple[float, float | None]]
    paint: int
    dashed: bool = False
    live: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says; `ticks` are the values that are labelled, if they are known."""

    label: str
    log: bool = False
    ticks: Sequence[float] = field(default_factory=tuple)
    from_zero: bool = True


def short(value: float) -> str:
    """A number on an axis or in a table: three significant digits."""
    size = abs(value)
    if value == int(value) or size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if size >= 10 else f"{value:.3g}"


def _paint(series: Series) -> str:
    return "var(--soft)" if series.dashed else colour(series.paint)


def _scale(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    low, high = min(values), max(values)
    if axis.log:
        positive = [value for value in values if value > 0]
        low, high = min(positive), max(positive)
        return Scale(low / 1.15, high * 1.15, start, end, True)
    if axis.from_zero:
        low = min(0.0, low)
    return Scale(low, high + (high - low or 1) * 0.06, start, end)


def _ticks(scale: Scale, axis: Axis, most: int) -> list[float]:
    if axis.ticks:
        return [tick for tick in axis.ticks if scale.low * 0.999 <= tick <= scale.high * 1.001]
    if scale.log:
        decades = range(floor(log10(scale.low)), ceil(log10(scale.high)) + 1)
        factors = (1, 2, 5) if len(decades) <= 3 else (1,)
        values = [factor * 10.0**decade for decade in decades for factor in factors]
        return [value for value in values if scale.low <= value <= scale.high]
    span = scale.high - scale.low
    step = 10.0 ** floor(log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10) if span <= step * factor * most)
    return [step * index for index in range(ceil(scale.low / step), floor(scale.high / step) + 1)]


def _frame(x: Scale, y: Scale, across: Axis, up: Axis, width: float) -> list[Markup]:
    bottom = HEIGHT - BELOW
    parts = []
    for value in _ticks(y, up, 6):
        parts.append(tag("line", x1=LEFT, x2=width - RIGHT, y1=y(value), y2=y(value), class_="grid"))
        parts.append(tag("text", short(value), x=LEFT - 8, y=y(value) + 4, text_anchor="end"))
    parts.append(tag("line", x1=LEFT, x2=width - RIGHT, y1=bottom, y2=bottom, class_="axis"))
    for value in _ticks(x, across, 10):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=bottom, y2=bottom + 5, class_="axis"))
        parts.append(tag("text", short(value), x=x(value), y=bottom + 19, text_anchor="middle"))
    parts.append(tag("text", across.label, x=(LEFT + width - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"))
    return parts


def _mark(px: float, py: float, paint: str, live: bool, tip: str) -> Markup:
    if live:
        shape = tag("path", d=f"M{px:.1f} {py - 7:.1f}l7 7l-7 7l-7-7z", style=f"fill:var(--card);stroke:{paint};stroke-width:2.4")
    else:
        shape = tag("circle", cx=px, cy=py, r=3.4, style=f"fill:{paint}")
    return tag("g", shape, tag("circle", cx=px, cy=py, r=9, class_="grasp"), data_tip=tip)


def lines(title: str, series: Sequence[Series], across: Axis, up: Axis, width: float = WIDE, note: str = "") -> Markup:
    """Lines over a number."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points if y is not None]
    x = _scale(across, xs, LEFT + 8, width - RIGHT - 8)
    y = _scale(up, ys, HEIGHT - BELOW, TOP)
    parts = _frame(x, y, across, up, width)
    marks: list[Markup] = []
    for one in series:
        paint = _paint(one)
        places = [(x(px), y(py)) for px, py in one.points if py is not None and (py > 0 or not up.log)]
        if len(places) > 1 and not one.live:
            text = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
            dash = ";stroke-dasharray:6 5;stroke-width:1.6" if one.dashed else ""
            parts.append(tag("polyline", points=text, class_="line", style=f"stroke:{paint}{dash}"))
        for px, py in one.points:
            if py is not None and not one.dashed and (py > 0 or not up.log):
                marks.append(
                    _mark(x(px), y(py), paint, one.live, f"{one.name}\n{across.label}: {short(px)}\n{up.label}: {short(py)}")
                )
    head = [across.label, *(one.name for one in series)]
    stops = sorted(set(xs))
    found = [dict(one.points) for one in series]
    rows: list[list[Child]] = [[short(stop), *(_cell(points.get(stop)) for points in found)] for stop in stops]
    logs = [name for name, axis in (("horizontal", across), ("vertical", up)) if axis.log]
    scale_note = f" ({' and '.join(logs)} axis logarithmic)" if logs else ""
    return _whole(title, up.label + scale_note, _legend(series), figure([*parts, *marks], HEIGHT, title, width), head, rows, note)


def _cell(value: float | None) -> str:
    return "—" if value is None else short(value)


def _legend(series: Sequence[Series]) -> Markup:
    keys = []
    for one in series:
        paint = _paint(one)
        if one.live:
            swatch = tag("i", style=f"background:var(--card);border:2.4px solid {paint};transform:rotate(45deg) scale(.8)")
        elif one.dashed:
            swatch = tag("i", style=f"width:20px;height:0;border-radius:0;border-top:2px dashed {paint};vertical-align:4px")
        else:
            swatch = tag("i", style=f"background:{paint}")
        keys.append(tag("span", swatch, one.name, class_="key"))
    return tag("p", keys, class_="legend")


def _whole(
    title: str, up: str, legend: Markup, image: Markup, head: Sequence[str], rows: Sequence[Sequence[Child]], note: str
) -> Markup:
    behind = numbers("The numbers behind this figure", table(head, rows, title))
    said = tag("p", note, class_="note") if note else None
    return tag("div", tag("h4", title), legend, tag("p", up, class_="note up"), image, said, behind, class_="plot")


def columns(
    title: str, groups: Sequence[str], series: Sequence[tuple[str, Sequence[float | None], int]], up: Axis, width: float = WIDE
) -> Markup:
    """Columns of several series over names."""
    values = [value for _, heights, _ in series for value in heights if value is not None]
    y = _scale(up, [*values, *([] if up.log else [0.0])], HEIGHT - BELOW, TOP)
    bottom = HEIGHT - BELOW
    parts = []
    for value in _ticks(y, up, 6):
        parts.append(tag("line", x1=LEFT, x2=width - RIGHT, y1=y(value), y2=y(value), class_="grid"))
        parts.append(tag("text", short(value), x=LEFT - 8, y=y(value) + 4, text_anchor="end"))
    room = (width - LEFT - RIGHT) / len(groups)
    thick = min(46.0, room * 0.82 / len(series))
    for place, group in enumerate(groups):
        middle = LEFT + room * (place + 0.5)
        parts.append(tag("text", group, x=middle, y=bottom + 19, text_anchor="middle"))
        for index, (name, heights, paint) in enumerate(series):
            height = heights[place]
            if height is None:
                continue
            px = middle + (index - len(series) / 2) * thick
            py = y(height) if height > 0 or not up.log else bottom
            bar = tag("rect", x=px + 1, y=py, width=thick - 2, height=max(bottom - py, 1), rx=2, style=f"fill:{colour(paint)}")
            whole = tag("rect", x=px, y=TOP, width=thick, height=bottom - TOP, class_="grasp")
            parts.append(tag("g", bar, whole, data_tip=f"{group}\n{name}: {short(height)}"))
            if thick >= 26:
                parts.append(
                    tag("text", short(height), x=px + thick / 2, y=max(py - 4, TOP), text_anchor="middle", class_="over")
                )
    parts.append(tag("line", x1=LEFT, x2=width - RIGHT, y1=bottom, y2=bottom, class_="axis"))
    keys = _legend([Series(name, (), paint) for name, _, paint in series]) if len(series) > 1 else join([])
    rows: list[list[Child]] = [
        [group, *(_cell(heights[place]) for _, heights, _ in series)] for place, group in enumerate(groups)
    ]
    label = up.label + (" (logarithmic)" if up.log else "")
    return _whole(title, label, keys, figure(parts, HEIGHT, title, width), ["", *(name for name, _, _ in series)], rows, "")


def steps(
    title: str,
    curves: Sequence[tuple[str, Sequence[float], int]],
    across: str,
    up: str,
    width: float = HALF,
    bands: Sequence[tuple[float, float]] = (),
    top: float = 0.0,
) -> Markup:
    """Counts per tick: filled steps, one curve over the other; the scale reaches to `top` at least."""
    most = max(len(values) for _, values, _ in curves)
    x = Scale(0, most, LEFT, width - RIGHT)
    y = Scale(0, max(1.0, top, *(value for _, values, _ in curves for value in values)) * 1.08, HEIGHT - BELOW, TOP)
    whole = range(ceil(y.high)) if y.high <= 7 else ()  # counts have no fractions
    parts = [*_bands(x, bands), *_frame(x, y, Axis(across), Axis(up, ticks=whole), width)]
    bottom = HEIGHT - BELOW
    for _, values, paint in curves:
        outline = [(x(0), float(bottom))]
        for index, value in enumerate(values):
            outline += [(x(index), y(value)), (x(index + 1), y(value))]
        outline.append((x(len(values)), bottom))
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in outline)
        parts.append(tag("polygon", points=text, class_="area", style=f"fill:{colour(paint)};stroke:{colour(paint)}"))
    rows: list[list[Child]] = [
        [index, *(short(values[index]) if index < len(values) else "" for _, values, _ in curves)] for index in range(most)
    ]
    keys = _legend([Series(name, (), paint) for name, _, paint in curves])
    return _whole(title, up, keys, figure(parts, HEIGHT, title, width), ["tick", *(name for name, _, _ in curves)], rows, "")


def needles(
    title: str,
    name: str,
    points: Sequence[tuple[float, float]],
    paint: int,
    across: str,
    up: str,
    bands: Sequence[tuple[float, float]],
    top: float,
) -> Markup:
    """Many values over time, each a needle from the axis; bands behind them. Too many for a table."""
    x = Scale(0, max(at for at, _ in points), LEFT, HALF - RIGHT)
    y = Scale(0, max(top, *(value for _, value in points)) * 1.06, HEIGHT - BELOW, TOP)
    bottom = HEIGHT - BELOW
    path = "".join(f"M{x(at):.1f} {bottom}V{y(value):.1f}" for at, value in points)
    drawn = tag("path", d=path, style=f"stroke:{colour(paint)};stroke-width:1.1;fill:none")
    parts = [*_bands(x, bands), *_frame(x, y, Axis(across), Axis(up), HALF), drawn]
    keys = _legend([Series(name, (), paint)])
    image = figure(parts, HEIGHT, title, HALF)
    return tag("div", tag("h4", title), keys, tag("p", up, class_="note up"), image, class_="plot")


def _bands(x: Scale, bands: Sequence[tuple[float, float]]) -> list[Markup]:
    """Shaded stretches of time."""
    return [
        tag("rect", x=x(begin), y=TOP, width=max(2.0, x(end) - x(begin)), height=HEIGHT - BELOW - TOP, class_="band")
        for begin, end in bands
    ]


def side_by_side(*plots: Markup) -> Markup:
    """Two plots in a row; one below the other on a narrow screen."""
    return tag("div", plots, class_="pair")
