"""The figures of one run: views as bands, latency and rates over time, the distribution of latencies."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

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
    time_axis,
    time_scale,
    value_axis,
)
from isotone.report.stats import (
    Buckets,
    histogram,
    log_edges,
    make_buckets,
    quantile,
    show_duration,
    show_moment,
    summarise,
)
from isotone.report.story import Band, Event, Story

LANE_MOST: Final = 34
LANE_LEAST: Final = 15
MARK_SIGNS: Final = {"suspect": "?", "trust": "✓", "crash": "✕", "stop": "■", "switch": "⇄"}
MARK_WORDS: Final = {
    "suspect": "suspects",
    "trust": "trusts again",
    "crash": "crashes",
    "stop": "stops on purpose",
    "switch": "switches protocol",
}


def shorten(name: str, most: int = 12) -> str:
    """A name that fits in the margin."""
    return name if len(name) <= most else name[: most - 1] + "…"


def happenings(story: Story, scale: Scale, top: float, bottom: float, labels: bool) -> list[Markup]:
    """Faults and heals as lines through a figure."""
    parts = []
    free = 0.0
    for event in story.surroundings:
        x = scale(event.time)
        what = (event.row.get("detail") or {}).get("kind") or event.kind
        line = tag("line", x1=x, x2=x, y1=top, y2=bottom, class_=f"happening {event.kind}")
        tip = f"{what} at {show_moment(event.time, story.timed)}"
        parts.append(tag("g", line, tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grasp"), data_tip=tip))
        if labels and x >= free and x < scale.end - 20:
            parts.append(tag("text", what, x=x + 4, y=top + 9, class_="happened"))
            free = x + 8 + 7 * len(what)
    return parts


def bands_chart(story: Story) -> Markup:
    """One lane per process, one band per view, with crashes, stops and suspicions."""
    scale = time_scale(story.duration)
    top = 18
    height = max(LANE_LEAST, min(LANE_MOST, 640 / max(1, len(story.processes))))
    bottom = top + height * len(story.processes)
    paints = {view: colour(index) for index, view in enumerate(story.views())}
    by_lane: list[list[Band]] = [[] for _ in story.processes]
    for band in story.bands:
        by_lane[band.lane].append(band)
    parts: list[Markup] = []
    for lane, name in enumerate(story.processes):
        y = top + height * lane
        label = [tag("title", name), shorten(name)]
        parts.append(tag("text", label, x=LEFT - 8, y=y + height / 2 + 4, text_anchor="end", class_="lane"))
        place = (y + height * 0.14, height * 0.72)
        parts.extend(_band(story, band, scale, place, paints) for band in _visible(by_lane[lane], scale))
    parts.extend(happenings(story, scale, 2, bottom, labels=True))
    parts.extend(_marks(story, scale, top, height))
    parts.extend(time_axis(scale, bottom + 2, story.timed))
    keys = [tag("span", f"{sign} {MARK_WORDS[kind]}", class_="key") for kind, sign in MARK_SIGNS.items()]
    signs = tag("p", keys, class_="legend")
    return join([figure(parts, bottom + 26, "views over time, one lane per process", kind="time"), signs, _view_table(story)])


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


def _band(story: Story, band: Band, scale: Scale, place: tuple[float, float], paints: dict[str, str]) -> Markup:
    y, height = place
    x, end = scale(band.start), scale(band.end)
    width = max(end - x, 1.0)
    what = f"view {band.view}" if band.view in paints else band.view or "no view recorded"
    members = f": {', '.join(band.members)}" if band.members else ""
    tip = f"{story.processes[band.lane]}, {what}{members}\n{_stretch(story, band)}"
    parts = [tag("rect", x=x, y=y, width=width, height=height, rx=3, style=f"fill:{paints.get(band.view, 'var(--none)')}")]
    if band.frozen is not None:
        frozen = scale(band.frozen)
        parts.append(tag("rect", x=frozen, y=y, width=max(end - frozen, 1), height=height, class_="frozen"))
    if width > 9 * len(band.view) + 10 and height > 13 and band.view in paints:
        label = f"{band.view} · {len(band.members)}" if width > 9 * len(band.view) + 40 and band.members else band.view
        parts.append(tag("text", label, x=x + 12, y=y + height / 2 + 4, class_="inband"))
    return tag("g", parts, data_tip=tip, tabindex=0 if width > 4 else None, class_="band")


def _stretch(story: Story, band: Band) -> str:
    if not story.timed:
        return f"logical steps {band.start:,} to {band.end:,}"
    frozen = "" if band.frozen is None else f", frozen for the last {show_duration(band.end - band.frozen)}"
    return f"{show_moment(band.start)} to {show_moment(band.end)} ({show_duration(band.end - band.start)}{frozen})"


def _marks(story: Story, scale: Scale, top: float, height: float) -> list[Markup]:
    """Signs on the lanes; signs of one kind that would cover each other are one sign that tells them all."""
    parts = []
    heaps: dict[tuple[int, str, int], list[Event]] = {}
    for event in story.events:
        if event.kind in MARK_SIGNS:
            heaps.setdefault((event.lane, event.kind, int(scale(event.time) // 12)), []).append(event)
    for (lane, kind, _), heap in heaps.items():
        x, y = scale(heap[0].time), top + height * (lane + 0.5)
        lines = [
            f"{show_moment(event.time, story.timed)}: {story.processes[lane]} {MARK_WORDS[kind]}"
            + (f" {event.row['peer']} ({event.row.get('level', '')})" if event.row.get("peer") else "")
            for event in heap[:8]
        ]
        sign = tag("text", MARK_SIGNS[kind], x=x, y=y + 4.5, text_anchor="middle")
        disc = tag("circle", cx=x, cy=y, r=min(8, height / 2))
        parts.append(tag("g", disc, sign, class_=f"mark {kind}", data_tip="\n".join(lines)))
    return parts


def _view_table(story: Story) -> Markup:
    rows: list[list[Child]] = []
    by_view: dict[str, list[Band]] = {view: [] for view in story.views()}
    for band in story.bands:
        by_view.get(band.view, []).append(band)
    for view, bands in by_view.items():
        first, last = min(band.start for band in bands), max(band.start for band in bands)
        members = max((band.members for band in bands), key=len)
        frozen = [band.end - band.frozen for band in bands if band.frozen is not None]
        spread = show_duration(last - first) if story.timed else f"{last - first:,}"
        flush = "" if not frozen else show_duration(max(frozen)) if story.timed else f"{max(frozen):,}"
        rows.append([f"view {view}", ", ".join(members), len(bands), show_moment(first, story.timed), spread, flush])
    head = ["view", "members", "installed by", "first installed", "last after first", "longest flush at its end"]
    return numbers(f"Views as a table ({len(rows):,})", table(head, rows[:500], "views"))


def _hits(buckets: Buckets, scale: Scale, height: float, tips: Sequence[str]) -> list[Markup]:
    """Invisible columns that tell the numbers of a bucket."""
    parts = []
    for index, tip in enumerate(tips):
        x = scale(index * buckets.width)
        width = min(scale((index + 1) * buckets.width), scale.end) - x
        parts.append(tag("rect", x=x, y=0, width=max(width, 0.5), height=height, class_="grasp", data_tip=tip))
    return parts


def latency_chart(story: Story) -> Markup:
    """Median and 99th percentile of the latency per stretch of time."""
    buckets = make_buckets(story.duration)
    per: list[list[float]] = [[] for _ in range(buckets.count)]
    for latency in story.latencies:
        per[buckets.place(latency.time)].append(latency.value)
    for values in per:
        values.sort()
    middle = [quantile(values, 0.5) if values else None for values in per]
    tail = [quantile(values, 0.99) if values else None for values in per]
    height, bottom = 190, 160
    positive = [value for value in (*middle, *tail) if value]
    low, high = min(positive, default=1.0), max(positive, default=1.0)
    log = high > 20 * low
    y = Scale(low * 0.8, high * 1.2, bottom, 16, True) if log else Scale(0, high * 1.1, bottom, 16)
    x = time_scale(story.duration)
    centres = [x(min((index + 0.5) * buckets.width, story.duration)) for index in range(buckets.count)]
    parts = [*value_axis(y, LEFT, WIDTH - RIGHT, True), *happenings(story, x, 6, bottom, labels=False)]
    for series, class_, paint in ((tail, "line thin", "var(--c1)"), (middle, "line", "var(--c0)")):
        points = [None if v is None else (c, y(v)) for c, v in zip(centres, series, strict=True)]
        parts.extend(polyline(points, class_, paint))
    rows: list[list[Child]] = []
    tips: list[str] = []
    for index, values in enumerate(per):
        p50, p99 = middle[index], tail[index]
        shown = ("—", "—") if p50 is None or p99 is None else (show_duration(p50), show_duration(p99))
        start = show_duration(index * buckets.width)
        tips.append(f"from {start}: median {shown[0]}, 99 % {shown[1]} ({len(values):,} deliveries)")
        rows.append([start, len(values), *shown])
    parts.extend(_hits(buckets, x, bottom, tips))
    parts.extend(time_axis(x, bottom, True))
    scale_note = ", logarithmic" if log else ""
    per_bucket = f"per {show_duration(buckets.width)}{scale_note}"
    keys = legend([(f"median {per_bucket}", "var(--c0)"), ("99th percentile", "var(--c1)")])
    behind = numbers("The numbers behind this figure", table(["from", "deliveries", "median", "99 %"], rows, "latency over time"))
    return join([keys, figure(parts, height, "latency over time: median and 99th percentile", kind="time"), behind])


def _by_origin(story: Story) -> dict[str, list[int]]:
    """Latencies in the order of their origins' names."""
    found: dict[str, list[int]] = {}
    for latency in story.latencies:
        found.setdefault(latency.origin, []).append(latency.value)
    return dict(sorted(found.items()))


def latency_table(story: Story) -> Markup:
    """Quantiles per sending process."""
    rows = []
    by_origin = _by_origin(story)
    for name, mine in [("all", [latency.value for latency in story.latencies]), *by_origin.items()]:
        summary = summarise(mine)
        if summary is not None:
            values = (summary.mean, summary.p50, summary.p90, summary.p99, summary.most)
            rows.append([name, f"{summary.count:,}", *(show_duration(value) for value in values)])
    return table(["origin", "deliveries", "mean", "p50", "p90", "p99", "max"], rows, "latency from send to deliver, by origin")


def distribution_charts(story: Story) -> Markup:
    """A histogram and, per origin, which share of the deliveries took at most so long."""
    floor = min((latency.value for latency in story.latencies if latency.value), default=1)
    values = sorted(max(latency.value, floor) for latency in story.latencies)
    at_once = sum(latency.value == 0 for latency in story.latencies)
    edges = log_edges(values[0], values[-1])
    counts = histogram(values, edges)
    width, height, bottom, left = 550, 230, 196, 62
    x = Scale(edges[0], edges[-1], left, width - 14, True)
    y = Scale(0, max(counts) * 1.08, bottom, 12)
    bars = value_axis(y, left, width - 14, False)
    rows: list[list[Child]] = []
    for index, count in enumerate(counts):
        x1, x2 = x(edges[index]), x(edges[index + 1])
        tip = f"{show_duration(edges[index])} to {show_duration(edges[index + 1])}: {count:,} deliveries"
        bar = tag("rect", x=x1 + 0.5, y=y(count), width=max(x2 - x1 - 1, 0.5), height=bottom - y(count), class_="bar")
        column = tag("rect", x=x1, y=12, width=x2 - x1, height=bottom - 12, class_="grasp")
        bars.append(tag("g", bar, column, data_tip=tip))
        below = sum(counts[: index + 1]) / len(values)
        rows.append([show_duration(edges[index]), show_duration(edges[index + 1]), count, f"{below:.1%}"])
    bars.extend(_duration_axis(x, bottom))
    share = Scale(0, 100, bottom, 12)
    lines = value_axis(share, left, width - 14, False)
    origins = _by_origin(story)
    entries = [("all", "var(--ink)")]
    if 1 < len(origins) <= 8:
        for index, (origin, mine) in enumerate(origins.items()):
            lines.extend(_ecdf(sorted(max(value, floor) for value in mine), x, share, "line thin", colour(index)))
            entries.append((origin, colour(index)))
    lines.extend(_ecdf(values, x, share, "line", "var(--ink)"))
    lines.extend(_duration_axis(x, bottom))
    left_part = tag("div", tag("h4", "How many took how long"), figure(bars, height, "histogram of latencies", width))
    right_part = tag(
        "div", tag("h4", "Per cent that took at most so long"), figure(lines, height, "share of deliveries by latency", width)
    )
    behind = numbers("The numbers behind these figures", table(["from", "to", "deliveries", "up to here"], rows, "histogram"))
    note = f"{at_once:,} deliveries at the very instant of their send are counted with the shortest." if at_once else None
    return join([tag("div", left_part, right_part, class_="pair"), legend(entries), tag("p", note, class_="note"), behind])


def _ecdf(ordered: Sequence[float], x: Scale, y: Scale, class_: str, paint: str) -> list[Markup]:
    steps = min(len(ordered), 200)
    shares = [index / max(steps - 1, 1) for index in range(steps)]
    return polyline([(x(quantile(ordered, part)), y(100 * part)) for part in shares], class_, paint)


def _duration_axis(x: Scale, bottom: float) -> list[Markup]:
    parts = [tag("line", x1=x.start, x2=x.end, y1=bottom, y2=bottom, class_="axis")]
    for value in x.ticks(6):
        parts.append(tag("line", x1=x(value), x2=x(value), y1=bottom, y2=bottom + 5, class_="axis"))
        parts.append(tag("text", show_duration(value), x=x(value), y=bottom + 19, text_anchor="middle"))
    return parts


def rate_chart(story: Story) -> Markup:
    """Sends and deliveries per stretch of time."""
    buckets = make_buckets(story.duration)
    counts = {kind: [0] * buckets.count for kind in ("deliver", "send")}
    for event in story.events:
        if event.kind in counts:
            counts[event.kind][buckets.place(event.time)] += 1
    bottom = 150
    y = Scale(0, max(*counts["deliver"], *counts["send"], 1) * 1.08, bottom, 12)
    x = time_scale(story.duration)
    parts = value_axis(y, LEFT, WIDTH - RIGHT, False)
    parts.extend(happenings(story, x, 6, bottom, labels=False))
    for kind, paint in (("deliver", "var(--c0)"), ("send", "var(--c1)")):
        outline = [(x(0), bottom + 0.0)]
        for index, count in enumerate(counts[kind]):
            outline.append((x(index * buckets.width), y(count)))
            outline.append((x(min((index + 1) * buckets.width, story.duration)), y(count)))
        outline.append((outline[-1][0], bottom))
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in outline)
        parts.append(tag("polygon", points=text, class_="area", style=f"fill:{paint};stroke:{paint}"))
    rows: list[list[Child]] = []
    tips: list[str] = []
    for index, (delivered, sent) in enumerate(zip(counts["deliver"], counts["send"], strict=True)):
        start = show_duration(index * buckets.width) if story.timed else f"{index * buckets.width:,}"
        tips.append(f"from {start}: {sent:,} sends, {delivered:,} deliveries")
        rows.append([start, sent, delivered])
    parts.extend(_hits(buckets, x, bottom, tips))
    parts.extend(time_axis(x, bottom, story.timed))
    per = f"per {show_duration(buckets.width)}" if story.timed else f"per {buckets.width:,} logical steps"
    keys = legend([(f"deliveries {per}, at all processes", "var(--c0)"), (f"sends {per}", "var(--c1)")])
    behind = numbers("The numbers behind this figure", table(["from", "sends", "deliveries"], rows, "rates over time"))
    return join([keys, figure(parts, bottom + 26, "sends and deliveries over time", kind="time"), behind])
