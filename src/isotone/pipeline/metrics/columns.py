"""The words and numbers that the Spark side and the plain side of the metrics share: columns, bounds and the clocks' rule.

Importing this loads no Spark.
"""

from typing import Final

from isotone.model.errors import ConfigError

BUCKET_NS: Final = 100_000_000
"""The tick of paper 000, Figure 8."""
SECOND_NS: Final = 1_000_000_000
ACCURACY: Final = 10_000
"""Percentiles of long runs are off by at most 1/ACCURACY in rank, and exact for groups of less than half as many values."""
VIRTUAL: Final = "virtual"
SURROUNDINGS: Final = ("fault", "heal", "start", "stop")

VIEW: Final = ("view_epoch", "view_proposer")
NAMED: Final = ("strategy", "from", "to")
"""What `detail` of a switch row says of the switch, besides its `instance` and `phase`."""
DONE: Final = "done"
"""The phase in which a switch has come to its end."""
COST: Final = "switch"
"""In `detail` of a packet row: the instance for whose sake the records were sent."""

RUNS_MAX: Final = 20
BUCKETS_MAX: Final = 300
WANTED_BUCKETS_MAX: Final = 10_000
NAMES_MAX: Final = 64
SPANS_MAX: Final = 2_000
MARKS_MAX: Final = 1_000
CHANGES_MAX: Final = 200
CURVES_MAX: Final = 8
PER_DECADE: Final = 10
MARKS: Final = ("suspect", "trust", "crash", "stop", "switch")
HAPPENINGS: Final = ("fault", "heal")
CUT: Final = (
    "processes", "by_origin", "by_process", "by_protocol", "views", "marks", "happenings", "view_changes", "switches", "control",
    "gaps", "throughput", "rate_variance",
)  # fmt: skip
"""Tables that may be cut: `<name>_total` says how many rows there are."""


def _spread_names(prefix: str, what: str) -> dict[str, str]:
    names = {
        "count": "how many have one",
        "mean_ns": "mean",
        "p50_ns": "median",
        "p99_ns": "99th percentile",
        "max_ns": "maximum",
    }
    return {f"{prefix}_{name}": f"{what}: {word}" for name, word in names.items()}


COLUMNS: Final[dict[str, str]] = {
    "run": "the run; empty if it has no name",
    "rows": "rows of the trace",
    "processes": "process instances, without the simulator's own",
    "clocks": "clocks that times were taken from; latency between two of them is unknown",
    "duration_ns": "from the first to the last row",
    "sent": "messages sent",
    "deliveries": "first deliveries of a message at a process, of all processes",
    "duplicates": "further deliveries of the same message at the same process, counted nowhere else",
    "returned": "messages that went back to their sender",
    "early": "deliveries that the clock places before their send; they have no latency",
    "span_ns": "from the first to the last send or delivery",
    "sent_per_s": "messages sent per second of the span",
    "sent_bytes_per_s": "their payload bytes",
    "delivered_per_s": "deliveries of all processes per second of the span",
    "delivered_bytes_per_s": "their payload bytes",
    **_spread_names("latency", "send to deliver"),
    **_spread_names("remote_latency", "send to deliver at another process"),
    **_spread_names("held", "receive to deliver"),
    **_spread_names("gap", "between deliveries in a row at a process"),
    "rate_mean": "deliveries per bucket, of one sender's messages at one process, mean over senders and processes",
    "rate_variance": "variance of that number over the buckets, mean over senders and processes",
    "rate_dispersion": "variance over mean, mean over senders and processes",
    "control_multicasts": "control records, whatever the number of receivers",
    "control_records": "control records, one for each receiver",
    "control_bytes": "their bytes",
    "control_multicasts_per_message": "per message sent",
    "control_records_per_message": "per message sent",
    "control_bytes_per_message": "per message sent",
    "view_changes": "views that a process installed after another one",
    "view_change_mean_ns": "from flush to view at a process, mean",
    "view_change_max_ns": "the longest",
    "view_change_gap_max_ns": "longest time without a delivery at a process around a view change",
    "switches": "switches of the protocol at a process, also those that a view ended",
    "switch_mean_ns": "from the first to the last phase at a process, mean",
    "switch_max_ns": "the longest",
    "switch_gap_max_ns": "longest time without a delivery at a process around a switch",
    "switch_bytes": "what all processes sent for the sake of switches",
    "delay_messages": "messages both received and delivered, over all processes and views",
    "delay_degree": "degree of delay, summed over processes and views",
    "delay_overtaken": "messages that a later arrival passed",
    "missing": "rows and columns that the trace lacks; what needs them is null",
}
"""The columns of `summary` and what they mean."""


def summary_types() -> dict[str, str]:
    """The columns of `summary` with their types in Spark."""
    types = dict.fromkeys(COLUMNS, "bigint") | {"run": "string", "missing": "array<string>"}
    for name in COLUMNS:
        if name.endswith(("_mean_ns", "_per_s", "_per_message")) or name.startswith("rate_"):
            types[name] = "double"
    return types


def check_bucket(width_ns: int) -> None:
    """A stretch of time has a length."""
    if width_ns < 1:
        raise ConfigError(f"a bucket of {width_ns} ns: it must be at least 1")


def bucket_width(duration_ns: int, at_most: int = BUCKETS_MAX) -> int:
    """The smallest of 1, 2, 5, 10, … nanoseconds that cuts a duration, end included, into at most so many stretches."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if duration_ns // (step * factor) < at_most:
                return step * factor
        step *= 10


def wanted_width(duration_ns: int, wanted_ns: int | None) -> int:
    """The width of the stretches of a run's tables over time."""
    if wanted_ns is None:
        return bucket_width(duration_ns)
    if duration_ns // wanted_ns >= WANTED_BUCKETS_MAX:
        least = bucket_width(duration_ns, WANTED_BUCKETS_MAX)
        raise ConfigError(f"a bucket of {wanted_ns} ns cuts the run into more than {WANTED_BUCKETS_MAX} pieces: take {least} ns")
    return wanted_ns


def bin_edges(exponent: int | None) -> dict[str, float]:
    """A bin of a histogram by its edges in nanoseconds; that of deliveries at the instant of their send is from 0 to 0."""
    if exponent is None:
        return {"low_ns": 0.0, "high_ns": 0.0}
    return {"low_ns": 10 ** (exponent / PER_DECADE), "high_ns": 10 ** ((exponent + 1) / PER_DECADE)}
