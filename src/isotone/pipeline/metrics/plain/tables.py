"""The tables of a report about one run: what `isotone.pipeline.metrics.tables` has queries for."""

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import Any

import numpy as np

from isotone.pipeline.metrics.columns import (
    BUCKET_NS,
    CHANGES_MAX,
    CURVES_MAX,
    CUT,
    HAPPENINGS,
    MARKS,
    MARKS_MAX,
    NAMES_MAX,
    PER_DECADE,
    SPANS_MAX,
    bin_edges,
    wanted_width,
)
from isotone.pipeline.metrics.plain.changes import switches, view_changes, view_spans
from isotone.pipeline.metrics.plain.flow import control, interarrival, latency, rate_variance, throughput
from isotone.pipeline.metrics.plain.run import Run
from isotone.pipeline.metrics.plain.summary import summary_of
from isotone.pipeline.metrics.plain.sums import NONE, Ints, Row, buckets, grouped, partial, spread


def tables_of(name: str, run: Run, bucket_ns: int | None) -> Row:
    """The entry of a run in `report_data`."""
    tick_ns = bucket_ns or BUCKET_NS
    total = summary_of(name, run, tick_ns)
    width = wanted_width(total["duration_ns"] or 0, bucket_ns)
    every = {
        "processes": _ranked(_people(run), "rows", "process"),
        **{f"by_{what}": _ranked(latency(run, what), "deliveries", what) for what in ("origin", "process", "protocol")},
        "gaps": _ranked(interarrival(run), "gap_count", "process"),
        "throughput": _ranked(throughput(run), "delivered", "process"),
        "rate_variance": _ranked(rate_variance(run, tick_ns), "events", "origin"),
        "marks": _ranked(_noted(run, MARKS), _first, "step"),
        "happenings": _ranked(_noted(run, HAPPENINGS), _first, "step"),
        "views": _ranked(view_spans(run), _length, "start_step"),
        "view_changes": _ranked([row for row in view_changes(run) if not row["initial"]], _slowest, "end_step"),
        "switches": _ranked(switches(run), _slowest, "end_step"),
        "control": _ranked(control(run), "rows", "packet"),
    }
    shown = [row["origin"] for row in every["by_origin"][:CURVES_MAX] if row["origin"] is not None]
    return {
        "run": name,
        "summary": total,
        "bucket_ns": width,
        **{f"{what}_total": len(every[what]) for what in CUT},
        **{what: rows[: _MOST.get(what, NAMES_MAX)] for what, rows in every.items()},
        "kinds": [{"kind": kind, "rows": rows} for kind, rows in run.kinds().items()],
        "latency_over_time": _latency_over_time(run, width),
        "histogram": _histogram(run.delivered.latency),
        "histogram_by_origin": _by_origin(run, shown),
        "rate_over_time": _rate_over_time(run, width),
    }


_MOST = {
    "marks": MARKS_MAX,
    "happenings": MARKS_MAX,
    "views": SPANS_MAX,
    "view_changes": CHANGES_MAX,
    "switches": CHANGES_MAX,
}


def _people(run: Run) -> list[Row]:
    return [
        {
            "process": member.process,
            "clock": member.clock,
            "zero": member.zero,
            "surroundings": member.surroundings,
            "rows": member.rows,
            "start": member.since(member.first),
            "end": member.since(member.last),
        }
        for member in run.members
    ]


def _latency_over_time(run: Run, width: int) -> list[Row]:
    rows = run.delivered
    timed = np.flatnonzero(rows.latency != NONE)  # what has a latency has a time
    return [
        {"bucket": stretch, **spread("latency", rows.latency[timed[mine]]), **spread("held", rows.held[timed[mine]])}
        for stretch, mine in grouped(buckets(rows.at[timed], width))
    ]


def _histogram(latencies: Ints) -> list[Row]:
    bins: dict[int | None, int] = {}
    values, counts = np.unique(latencies[latencies != NONE], return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        exponent = floor(log10(value) * PER_DECADE) if value else None
        bins[exponent] = bins.get(exponent, 0) + count
    return [{"deliveries": count, **bin_edges(exponent)} for exponent, count in bins.items()]


def _by_origin(run: Run, shown: Sequence[str]) -> list[Row]:
    codes = {name: code for code, name in enumerate(run.words("origin"))}
    found = []
    for origin in sorted(shown):
        mine = run.delivered.origin == codes[origin]
        found += [{"origin": origin, **row} for row in _histogram(run.delivered.latency[mine])]
    return found


def _rate_over_time(run: Run, width: int) -> list[Row]:
    sends = run.of("send")
    flows = {"sent": (run.at[sends], run.ints("size")[sends]), "delivered": (run.delivered.at, run.delivered.size)}
    found: dict[int, Row] = {}
    for what, (at, sizes) in flows.items():
        timed = at != NONE
        sizes = sizes[timed]
        for stretch, mine in grouped(buckets(at[timed], width)):
            row = found.setdefault(
                stretch, {"bucket": stretch, "sent": 0, "sent_bytes": None, "delivered": 0, "delivered_bytes": None}
            )
            row[what], row[f"{what}_bytes"] = len(mine), partial(sizes[mine])
    return [found[stretch] for stretch in sorted(found)]


def _noted(run: Run, kinds: Sequence[str]) -> list[Row]:
    columns = ("process", "step", "kind", "peer", "level", "protocol", "detail")
    return [{name: row[name] for name in (*columns, "at")} for row in run.rows(kinds, columns)]


def _first(row: Row) -> int:
    return -int(row["step"] if row["at"] is None else row["at"])


def _length(row: Row) -> int:
    timed = row["start"] is not None and row["end"] is not None
    return int(row["end"] - row["start"] if timed else row["end_step"] - row["start_step"])


def _slowest(row: Row) -> int:
    return next((row[name] for name in ("gap_ns", "duration_ns") if row[name] is not None), 0)


def _ranked(rows: list[Row], weight: str | Callable[[Row], Any], by: str) -> list[Row]:
    """The rows of most weight first, unknown weights last; then by a column, nulls first; then by process."""

    def order(row: Row) -> tuple[Any, ...]:
        heavy = row[weight] if isinstance(weight, str) else weight(row)
        unknown = heavy is None
        return (unknown, 0 if unknown else -heavy, row[by] is not None, row[by], row.get("process", ""))

    return sorted(rows, key=order)
