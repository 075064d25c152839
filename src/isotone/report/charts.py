"""The figures of one run: views as bands, latency and rates over time, the distribution of latencies."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Final

from isotone.report.figures import MARK_WORDS, Band, Bin, Figures, Mark
from isotone.report.markup import Child, Markup, join, numbers, table, tag
from isotone.report.plot import (
    LEFT,
    RIGHT,
    WIDTH,
    Scale,
    colour,
    figure,
    legend,
    polyline,
    shorten,
    time_axis,
    time_scale,
    value_axis,
)
from isotone.report.stats import show_duration, show_moment

LANE_MOST: Final = 34
LANE_LEAST: Final = 15
MARK_SIGNS: Final = {"suspect": "?", "trust": "✓", "crash": "✕", "stop": "■", "switch": "⇄"}


def happenings(run: Figures, scale: Scale, top: float, bottom: float, labels: bool) -> list[Markup]:
    """Faults and heals as lines through a figure, switches as the stretches of time that they take."""
    found = [
        (time, what, tag("line", x1=scale(time), x2=scale(time), y1=top, y2=bottom, class_=f"happening {kind}"),
         f"{what} at {show_moment(time)}", 0.0)
        for time, kind, what in run.happenings
    ]  # fmt: skip
    for turn in run.turns:
        width = max(scale(turn.end) - scale(turn.start), 2.0)
        column = tag("rect", x=scale(turn.start), y=top, width=width, height=bottom - top, class_="turn")
        found.append((turn.start, turn.name, column, f"switch {turn.words}\n{show_moment(turn.start)}", width))
    parts = []
    free = 0.0
    for time, what, shape, tip, width in sorted(found, key=lambda one: one[:2]):
        x = scale(time)
        grasp = tag("line", x1=x + width / 2, x2=x + width / 2, y1=top, y2=bottom, class_="grasp")
        parts.append(tag("g", shape, grasp, data_tip=tip))
        length = 7 * len(what)
        if labels and x >= free and x < scale.end - 20:
            left = x + width + 4 if x + width + 4 + length < scale.end else x - 4 - length
            if left >= free:
                parts.append(tag("text", what, x=left, y=top + 9, class_="happened"))
                free = left + length + 4
    return parts


def bands_chart(run: Figures) -> Markup:
    """One lane per process, one band per view, with crashes, stops and suspicions."""
    scale = time_scale(run.duration)
    top = 18
    height = max(LANE_LEAST, min(LANE_MOST, 640 / max(1, len(run.processes))))
    bottom = top + height * len(run.processes)
    paints = {view: colour(index) for index, view in enumerate(run.views())}
    by_lane: list[list[Band]] = [[] for _ in run.processes]
    for band in run.bands:
        by_lane[band.lane].append(band)
    parts: list[Markup] = []
    for lane, name in enumerate(run.processes):
        y = top + height * lane
        label = [tag("title", name), shorten(name)]
        parts.append(tag("text", label, x=LEFT - 8, y=y + height / 2 + 4, text_anchor="end", class_="lane"))
        place = (y + height * 0.14, height * 0.72)
        taken = sorted(scale(mark.time) for mark in run.marks if mark.lane == lane)
        parts.extend(_band(run, band, scale, place, paints, taken) for band in _visible(by_lane[lane], scale))
    parts.extend(happenings(run, scale, 2, bottom, labels=True))
    parts.extend(_marks(run, scale, top, height))
    parts.extend(time_axis(scale, bottom + 2, run.timed))
    keys = [tag("span", f"{sign} {MARK_WORDS[kind]}", class_="key") for kind, sign in MARK_SIGNS.items()]
    if run.turns:
        words = "a switch, from the first process that has the request to the last that has switched"
        keys.append(tag("span", tag("i", class_="turning"), words, class_="key"))
    signs = tag("p", keys, class_="legend")
    return join([figure(parts, bottom + 26, "views over time, one lane per process", kind="time"), signs, _view_table(run)])


def _visible(bands: Sequence[Band], scale: Scale) -> list[Band]:
    """Bands as they are, except that runs of bands too thin to be seen become one without a name."""
    result: list[Band] = []
    for thin, group in groupby(bands, key=lambda band: scale(band.end) - scale(band.start) < 0.8):
        some = list(group)
        if thin and len(some) > 1:
            result.append(Band(some[0].lane, some[0].start, some[-1].end, f"{len(some)} short views", (), None))
        else:
            result.extend(some)
    return result


def _band(
    run: Figures, band: Band, scale: Scale, place: tuple[float, float], paints: dict[str, str], taken: Sequence[float]
) -> Markup:
    y, height = place
    x, end = scale(band.start), scale(band.end)
    width = max(end - x, 1.0)
    what = f"view {band.view}" if band.view in paints else band.view or "no view recorded"
    members = f": {', '.join(band.members)}" if band.members else ""
    tip = f"{run.processes[band.lane]}, {what}{members}\n{_stretch(run, band)}"
    parts = [tag("rect", x=x, y=y, width=width, height=height, rx=3, style=f"fill:{paints.get(band.view, 'var(--none)')}")]
    if band.frozen is not None:
        frozen = scale(band.frozen)
        parts.append(tag("rect", x=frozen, y=y, width=max(end - frozen, 1), height=height, class_="frozen"))
    epoch, _, proposer = band.view.partition("@")
    name = f"{epoch}@{shorten(proposer)}"
    room = min(next((sign - 10 for sign in taken if sign > x), end), end) - x  # a sign would cover the label
    if room > 9 * len(name) + 14 and height > 13 and band.view in paints:
        label = f"{name} · {len(band.members)}" if room > 9 * len(name) + 44 and band.members else name
        parts.append(tag("text", label, x=x + 12, y=y + height / 2 + 4, class_="inband"))
    return tag("g", parts, data_tip=tip, tabindex=0 if width > 4 else None, class_="band")


def _stretch(run: Figures, band: Band) -> str:
    if not run.timed:
        return f"steps {band.start:,} to {band.end:,}"
    frozen = "" if band.frozen is None else f", frozen for the last {show_duration(band.end - band.frozen)}"
    return f"{show_moment(band.start)} to {show_moment(band.end)} ({show_duration(band.end - band.start)}{frozen})"


def _marks(run: Figures, scale: Scale, top: float, height: float) -> list[Markup]:
    """Signs on the lanes; signs of one kind that would cover each other are one sign that tells them all."""
    parts = []
    heaps: dict[tuple[int, str, int], list[Mark]] = {}
    for mark in run.marks:
        heaps.setdefault((mark.lane, mark.kind, int(scale(mark.time) // 12)), []).append(mark)
    for (lane, kind, _), heap in heaps.items():
        x, y = scale(heap[0].time), top + height * (lane + 0.5)
        lines = [f"{show_moment(mark.time, run.timed)}: {mark.words}" for mark in heap[:8]]
        sign = tag("text", MARK_SIGNS[kind], x=x, y=y + 4.5, text_anchor="middle")
        disc = tag("circle", cx=x, cy=y, r=min(8, height / 2))
        parts.append(tag("g", disc, sign, class_=f"mark {kind}", data_tip="\n".join(lines)))
    return parts


def _view_table(run: Figures) -> Markup:
    rows: list[list[Child]] = []
    by_view: dict[str, list[Band]] = {view: [] for view in run.views()}
    for band in run.bands:
        by_view.get(band.view, []).append(band)
    for view, bands in by_view.items():
        first, last = min(band.start for band in bands), max(band.start for band in bands)
        members = max((band.members for band in bands), key=len)
        frozen = [band.end - band.frozen for band in bands if band.frozen is not None]
        spread = show_duration(last - first) if run.timed else f"{last - first:,}"
        flush = "" if not frozen else show_duration(max(frozen)) if run.timed else f"{max(frozen):,}"
        rows.append([f"view {view}", ", ".join(members), len(bands), show_moment(first, run.timed), spread, flush])
    head = ["view", "members", "installed by", "first installed", "last after first", "longest flush at its end"]
    return numbers(f"Views as a table ({len(rows):,})", table(head, rows[:500], "views"))


def _hits(run: Figures, scale: Scale, height: float, tips: Sequence[str]) -> list[Markup]:
    """Invisible columns that tell the numbers of a stretch."""
    parts = []
    for index, tip in enumerate(tips):
        x = scale(index * run.width)
        width = min(scale((index + 1) * run.width), scale.end) - x
        parts.append(tag("rect", x=x, y=0, width=max(width, 0.5), height=height, class_="grasp", data_tip=tip))
    return parts


def latency_chart(run: Figures) -> Markup:
    """Median and 99th percentile of the latency per stretch of time."""
    moments = [run.latency.get(index) for index in range(run.stretches)]
    height, bottom = 190, 160
    positive = [value for moment in moments if moment for value in (moment.p50, moment.p99) if value]
    low, high = min(positive, default=1.0), max(positive, default=1.0)
    log = high > 20 * low
    y = Scale(low * 0.8, high * 1.2, bottom, 16, True) if log else Scale(0, high * 1.1, bottom, 16)
    x = time_scale(run.duration)
    centres = [x(min((index + 0.5) * run.width, run.duration)) for index in range(run.stretches)]
    parts = [*value_axis(y, LEFT, WIDTH - RIGHT, True), *happenings(run, x, 6, bottom, labels=False)]
    tail = [moment and moment.p99 for moment in moments]
    middle = [moment and moment.p50 for moment in moments]
    for series, class_, paint in ((tail, "line thin", "var(--c1)"), (middle, "line", "var(--c0)")):
        points = [None if v is None else (c, y(v)) for c, v in zip(centres, series, strict=True)]
        parts.extend(polyline(points, class_, paint))
    rows: list[list[Child]] = []
    tips: list[str] = []
    for index, moment in enumerate(moments):
        shown = ("—", "—") if moment is None else (show_duration(moment.p50), show_duration(moment.p99))
        count = moment.deliveries if moment else 0
        start = show_duration(index * run.width)
        tips.append(f"from {start}: median {shown[0]}, 99 % {shown[1]} ({count:,} deliveries)")
        rows.append([start, count, *shown])
    parts.extend(_hits(run, x, bottom, tips))
    parts.extend(time_axis(x, bottom, True))
    scale_note = ", logarithmic" if log else ""
    per_stretch = f"per {show_duration(run.width)}{scale_note}"
    keys = legend([(f"median {per_stretch}", "var(--c0)"), ("99th percentile", "var(--c1)")])
    behind = numbers("The numbers behind this figure", table(["from", "deliveries", "median", "99 %"], rows, "latency over time"))
    return join([keys, figure(parts, height, "latency over time: median and 99th percentile", kind="time"), behind])


def latency_table(run: Figures) -> Markup:
    """Quantiles per sending process."""
    rows = []
    for name, deliveries, *values in run.spreads:
        rows.append([name, f"{deliveries:,}", *(show_duration(value) for value in values)])
    return table(["origin", "deliveries", "mean", "p50", "p99", "max"], rows, "latency from send to deliver, by origin")


def distribution_charts(run: Figures) -> Markup:
    """A histogram and, per origin, which share of the deliveries took at most so long."""
    bins = _from_least(run.histogram)
    at_once = run.histogram[0].deliveries if run.histogram[0].high == 0 else 0
    width, height, bottom, left = 550, 230, 196, 62
    x = Scale(bins[0].low, bins[-1].high, left, width - 14, True)
    y = Scale(0, max(one.deliveries for one in bins) * 1.08, bottom, 12)
    bars = value_axis(y, left, width - 14, False)
    rows: list[list[Child]] = []
    total = sum(one.deliveries for one in bins)
    for one, below in zip(bins, accumulate(one.deliveries for one in bins), strict=True):
        x1, x2 = x(one.low), x(one.high)
        tip = f"{show_duration(one.low)} to {show_duration(one.high)}: {one.deliveries:,} deliveries"
        top = y(one.deliveries)
        bar = tag("rect", x=x1 + 0.5, y=top, width=max(x2 - x1 - 1, 0.5), height=bottom - top, class_="bar")
        column = tag("rect", x=x1, y=12, width=x2 - x1, height=bottom - 12, class_="grasp")
        bars.append(tag("g", bar, column, data_tip=tip))
        rows.append([show_duration(one.low), show_duration(one.high), one.deliveries, f"{below / total:.1%}"])
    bars.extend(_duration_axis(x, bottom))
    share = Scale(0, 100, bottom, 12)
    lines = value_axis(share, left, width - 14, False)
    entries = [("all", "var(--ink)")]
    if 1 < len(run.by_origin) <= 8:
        for index, (origin, mine) in enumerate(sorted(run.by_origin.items())):
            lines.extend(_shares(_from_least(mine, bins[0].low), x, share, "line thin", colour(index)))
            entries.append((origin, colour(index)))
    lines.extend(_shares(bins, x, share, "line", "var(--ink)"))
    lines.extend(_duration_axis(x, bottom))
    left_part = tag("div", tag("h4", "How many took how long"), figure(bars, height, "histogram of latencies", width))
    right_part = tag(
        "div", tag("h4", "Per cent that took at most so long"), figure(lines, height, "share of deliveries by latency", width)
    )
    behind = numbers("The numbers behind these figures", table(["from", "to", "deliveries", "up to here"], rows, "histogram"))
    note = f"{at_once:,} deliveries at the very instant of their send are counted with the shortest." if at_once else None
    return join([tag("div", left_part, right_part, class_="pair"), legend(entries), tag("p", note, class_="note"), behind])


def _from_least(given: Sequence[Bin], least: float = 1.0) -> list[Bin]:
    """The bins on a logarithmic axis: what took no time at all joins the shortest."""
    positive = [one for one in given if one.high > 0]
    at_once = sum(one.deliveries for one in given if one.high == 0)
    if not at_once:
        return positive
    if not positive:
        return [Bin(least, least * 10**0.1, at_once)]
    first = positive[0]
    return [first._replace(deliveries=first.deliveries + at_once), *positive[1:]]


def _shares(bins: Sequence[Bin], x: Scale, y: Scale, class_: str, paint: str) -> list[Markup]:
    """The share of deliveries up to the upper edge of each bin, as a line."""
    total = sum(one.deliveries for one in bins)
    points: list[tuple[float, float] | None] = [(x(bins[0].low), y(0))]
    below = accumulate(one.deliveries for one in bins)
    points += [(x(one.high), y(100 * up_to_here / total)) for one, up_to_here in zip(bins, below, strict=True)]
    return polyline(points, class_, paint)


def _duration_axis(x: Scale, bottom: float) -> list[Markup]:
    parts = [tag("line", x1=x.start, x2=x.end, y1=bottom, y2=bottom, class_="axis")]
    for value in x.ticks(6):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=bottom, y2=bottom + 5, class_="axis"))
        parts.append(tag("text", show_duration(value), x=x(value), y=bottom + 19, text_anchor="middle"))
    return parts


def rate_chart(run: Figures) -> Markup:
    """Sends and deliveries per stretch of time."""
    counts = [run.rates.get(index, (0, 0)) for index in range(run.stretches)]
    bottom = 150
    y = Scale(0, max(1, *(count for pair in counts for count in pair)) * 1.08, bottom, 12)
    x = time_scale(run.duration)
    parts = value_axis(y, LEFT, WIDTH - RIGHT, False)
    parts.extend(happenings(run, x, 6, bottom, labels=False))
    for what, paint in ((1, "var(--c0)"), (0, "var(--c1)")):
        outline = [(x(0), bottom + 0.0)]
        for index, pair in enumerate(counts):
            outline.append((x(index * run.width), y(pair[what])))
            outline.append((x(min((index + 1) * run.width, run.duration)), y(pair[what])))
        outline.append((outline[-1][0], bottom))
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in outline)
        parts.append(tag("polygon", points=text, class_="area", style=f"fill:{paint};stroke:{paint}"))
    rows: list[list[Child]] = []
    tips: list[str] = []
    for index, (sent, delivered) in enumerate(counts):
        start = show_duration(index * run.width)
        tips.append(f"from {start}: {sent:,} sends, {delivered:,} deliveries")
        rows.append([start, sent, delivered])
    parts.extend(_hits(run, x, bottom, tips))
    parts.extend(time_axis(x, bottom, True))
    per = f"per {show_duration(run.width)}"
    keys = legend([(f"deliveries {per}, at all processes", "var(--c0)"), (f"sends {per}", "var(--c1)")])
    behind = numbers("The numbers behind this figure", table(["from", "sends", "deliveries"], rows, "rates over time"))
    return join([keys, figure(parts, bottom + 26, "sends and deliveries over time", kind="time"), behind])
