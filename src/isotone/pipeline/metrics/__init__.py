"""Measures histories with Spark: functions from a history to a small DataFrame. Importing this loads no Spark.

`docs/metrics.md` explains every function and column. A history is what `isotone.pipeline.history.read_history` gives, or any
DataFrame with columns of the trace schema; runs are kept apart by `run`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotone.pipeline.metrics.changes import switches, view_changes, view_spans
    from isotone.pipeline.metrics.columns import COLUMNS
    from isotone.pipeline.metrics.delays import delay
    from isotone.pipeline.metrics.flow import gaps, interarrival, rate_variance, rates, throughput
    from isotone.pipeline.metrics.latencies import latency
    from isotone.pipeline.metrics.messages import Prepared, deliveries, prepare, processes, sends
    from isotone.pipeline.metrics.records import control
    from isotone.pipeline.metrics.short import report_data, summary

READ = (
    "run", "process", "step", "time", "kind", "origin", "number", "view_epoch", "view_proposer", "members", "protocol", "level",
    "size", "packet", "fanout", "count", "peer", "detail",
)  # fmt: skip
"""The columns of a history that metrics look at: `read_history(…, columns=READ)` reads no others."""

_HOMES = {
    "COLUMNS": "columns",
    "Prepared": "messages",
    "control": "records",
    "delay": "delays",
    "deliveries": "messages",
    "gaps": "flow",
    "interarrival": "flow",
    "latency": "latencies",
    "prepare": "messages",
    "processes": "messages",
    "rate_variance": "flow",
    "rates": "flow",
    "report_data": "short",
    "sends": "messages",
    "summary": "short",
    "switches": "changes",
    "throughput": "flow",
    "view_changes": "changes",
    "view_spans": "changes",
}

__all__ = [
    "COLUMNS",
    "READ",
    "Prepared",
    "control",
    "delay",
    "deliveries",
    "gaps",
    "interarrival",
    "latency",
    "prepare",
    "processes",
    "rate_variance",
    "rates",
    "report_data",
    "sends",
    "summary",
    "switches",
    "throughput",
    "view_changes",
    "view_spans",
]


def __getattr__(name: str) -> Any:
    """Load the module of a function when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
