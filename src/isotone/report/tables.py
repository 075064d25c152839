"""The metrics of a run as tables: flow, costs of changes, and every number of the summary with its meaning."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from isotone.report.figures import Figures
from isotone.report.markup import Child, Markup, numbers, table, tag
from isotone.report.stats import show_duration, show_moment

_TILES: Final = {
    "sent_per_s": "sent per second",
    "delivered_per_s": "delivered per second",
    "gap_p50_ns": "between deliveries, median",
    "gap_p99_ns": "between deliveries, 99 %",
    "rate_dispersion": "variance of the delivery rate over its mean",
    "view_changes": "view changes",
    "view_change_max_ns": "longest view change",
    "view_change_gap_max_ns": "longest pause around one",
    "switches": "switches",
    "switch_max_ns": "longest switch",
    "switch_gap_max_ns": "longest pause around a switch",
    "switch_bytes": "extra bytes of switches",
}
_TABLES: Final = {
    "by_protocol": ("Latency by protocol", ("protocol", "latency_count", "latency_p50_ns", "latency_p99_ns", "latency_max_ns")),
    "throughput": ("Throughput", ("process", "sent", "delivered", "sent_per_s", "delivered_per_s")),
    "gaps": ("Time between deliveries", ("process", "gap_count", "gap_mean_ns", "gap_p50_ns", "gap_p99_ns", "gap_max_ns")),
    "rate_variance": (
        "Evenness of deliveries",
        ("process", "origin", "buckets", "delivered_mean", "delivered_variance", "delivered_dispersion", "sent_dispersion"),
    ),
    "view_changes": (
        "View changes, the longest pauses first",
        ("process", "at", "previous_epoch", "view_epoch", "view_proposer", "duration_ns", "gap_ns"),
    ),
    "switches": ("Switches", ("process", "at", "strategy", "from", "to", "duration_ns", "gap_ns", "extra_bytes")),
}


def metrics_section(run: Figures, meanings: Mapping[str, str]) -> Markup | None:
    """Tiles with what matters most, and tables that unfold."""
    tiles = []
    for name, words in _TILES.items():
        value = run.summary.get(name)
        if value:
            tiles.append(tag("div", tag("dt", words), tag("dd", show_value(name, value))))
    parts: list[Child] = [tag("dl", tiles, class_="facts small")]
    for name, (title, columns) in _TABLES.items():
        entries = run.tables.get(name, [])
        if entries:
            parts.append(numbers(title, _table(title, columns, entries)))
    rows: list[list[Child]] = [
        [tag("code", name), show_value(name, run.summary[name]), meaning]
        for name, meaning in meanings.items()
        if run.summary.get(name) is not None and name != "run"
    ]
    if not rows:
        return None
    parts.append(numbers("Every metric of the run", table(["metric", "value", "meaning"], rows, "metrics")))
    return tag("section", tag("h3", "Flow and changes"), parts)


def _table(title: str, columns: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> Markup:
    shown = [name for name in columns if any(entry.get(name) is not None for entry in entries)]
    head = [name.removesuffix("_ns").replace("_", " ") for name in shown]
    return table(head, [[show_value(name, entry.get(name)) for name in shown] for entry in entries], title)


def show_value(name: str, value: Any) -> str:
    """A metric as people read it."""
    if value is None:
        return "—"
    if name == "at":
        return show_moment(value)
    if name.endswith("_ns"):
        return show_duration(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, list) else str(value)
