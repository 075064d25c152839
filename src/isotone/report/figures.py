"""The figures of one run as data: what `isotone.pipeline.metrics.report_data` says, in the shape that the charts draw.

Times are nanoseconds since the start of the run; a run without clocks is drawn by the steps of its processes.

Invariant: the size of `Figures` does not depend on the length of the history; where something was cut, a number says it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from isotone.report.story import show_view
from isotone.report.turns import Turn, phase_words, turns_of

TABLES: Final = ("by_protocol", "throughput", "gaps", "rate_variance", "view_changes", "switches")
MARK_WORDS: Final = {
    "suspect": "suspects",
    "trust": "trusts again",
    "crash": "crashes",
    "stop": "stops on purpose",
    "switch": "has switched the order",
}


class Band(NamedTuple):
    """One process in one view."""

    lane: int
    start: int
    end: int
    view: str
    members: tuple[str, ...]
    frozen: int | None
    """When the view was frozen by a flush."""


class Mark(NamedTuple):
    """Something remarkable at one process."""

    time: int
    lane: int
    kind: str
    words: str


class Happening(NamedTuple):
    """Something that was done to the network."""

    time: int
    kind: str
    what: str


class Bin(NamedTuple):
    """Deliveries whose latency is from `low` to below `high`; both are 0 for those at the instant of their send."""

    low: float
    high: float
    deliveries: int


class Moment(NamedTuple):
    """The latency in one stretch of time."""

    deliveries: int
    p50: float
    p99: float


class Spread(NamedTuple):
    """The latency of some deliveries."""

    name: str
    deliveries: int
    mean: float
    p50: float
    p99: float
    most: float


@dataclass(slots=True)
class Figures:
    """One run."""

    run: str
    processes: list[str] = field(default_factory=list)
    timed: bool = True
    duration: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    width: int = 1
    """Of a stretch of time in the figures over time."""
    bands: list[Band] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    latency: dict[int, Moment] = field(default_factory=dict)
    """By stretch."""
    spreads: list[Spread] = field(default_factory=list)
    """Of all deliveries, then by origin."""
    histogram: list[Bin] = field(default_factory=list)
    by_origin: dict[str, list[Bin]] = field(default_factory=dict)
    early: int = 0
    """Deliveries that their clocks place before the send; they are no latencies."""
    why: list[str] = field(default_factory=list)
    """What the trace lacks for the latency of some delivery."""
    rates: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By stretch: sends and deliveries."""
    control: list[tuple[str, int | None, int | None, float | None]] = field(default_factory=list)
    """Control records by kind: records, bytes, records per message."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Every metric of the run by its name."""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Metrics by process, origin, protocol, view change and switch."""
    cut: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tables that do not hold everything: how many are shown, and how many there are."""

    def views(self) -> list[str]:
        """All views in the order of their first installation."""
        return list(dict.fromkeys(band.view for band in sorted(self.bands, key=lambda band: band.start) if band.view))

    @property
    def stretches(self) -> int:
        return self.duration // self.width + 1


def figures_of(data: Mapping[str, Any]) -> Figures:
    """The figures of one entry of `report_data(history)["runs"]`."""
    people = [entry for entry in data["processes"] if not entry["surroundings"]]
    found = Figures(data["run"], sorted(entry["process"] for entry in people), width=data["bucket_ns"])
    found.kinds = {entry["kind"]: entry["rows"] for entry in data["kinds"]}
    found.timed = bool(data["processes"]) and all(entry["start"] is not None for entry in data["processes"])
    lanes = {name: lane for lane, name in enumerate(found.processes)}
    ends = [entry["end"] for entry in data["processes"]] if found.timed else [span["end_step"] for span in data["views"]]
    found.duration = max((end for end in ends if end is not None), default=0)
    found.bands = _bands(data, people, lanes, found.timed)
    found.marks = sorted(_marks(data["marks"], lanes, found.timed))
    for entry in data["happenings"] if found.timed else ():
        if entry["at"] is not None:
            what = (entry["detail"] or {}).get("kind") or entry["kind"]
            found.happenings.append(Happening(entry["at"], entry["kind"], what))
    found.happenings.sort()
    found.turns = turns_of(data["switches"]) if found.timed else []
    found.happenings = _without_granted(found.happenings, found.turns)
    _latency(found, data)
    found.rates = {entry["bucket"]: (entry["sent"], entry["delivered"]) for entry in data["rate_over_time"]}
    for entry in data["control"]:
        found.control.append((entry["packet"] or "?", entry["records"], entry["bytes"], entry["records_per_message"]))
    found.summary = dict(data["summary"])
    found.tables = {name: data[name] for name in TABLES}
    totals = {name: data[f"{name}_total"] for name in ("processes", "views", "marks", "happenings", "by_origin", "control")}
    found.cut = {name: (len(data[name]), total) for name, total in totals.items() if total > len(data[name])}
    return found


def _without_granted(happenings: Sequence[Happening], turns: Sequence[Turn]) -> list[Happening]:
    """A simulator also notes that it asks for a switch; where the switch follows, that says it better."""
    asked = [happening.time for happening in happenings if happening.what == "switch"]
    granted = {max(time for time in asked if time <= turn.start) for turn in turns if asked and asked[0] <= turn.start}
    return [happening for happening in happenings if happening.what != "switch" or happening.time not in granted]


def _bands(data: Mapping[str, Any], people: Sequence[Mapping[str, Any]], lanes: Mapping[str, int], timed: bool) -> list[Band]:
    bands: list[Band] = []
    seen = set()
    for span in data["views"]:
        start, end = (span["start"], span["end"]) if timed else (span["start_step"], span["end_step"])
        if span["process"] in lanes and start is not None and end is not None:
            seen.add(span["process"])
            members = tuple(span["members"] or ())
            bands.append(Band(lanes[span["process"]], start, end, show_view(span), members, span["frozen"] if timed else None))
    for entry in people:  # a process that recorded no view is in one nameless band
        if entry["process"] not in seen and timed:
            bands.append(Band(lanes[entry["process"]], entry["start"], entry["end"], "", (), None))
    return sorted(bands)


def _marks(entries: Sequence[Mapping[str, Any]], lanes: Mapping[str, int], timed: bool) -> list[Mark]:
    marks = []
    for entry in entries:
        time = entry["at"] if timed else entry["step"]
        phase = (entry["detail"] or {}).get("phase")
        if time is None or entry["process"] not in lanes or phase not in (None, "done"):  # a switch has one sign, at its end
            continue
        told = phase_words(entry["detail"]) if entry["kind"] == "switch" else MARK_WORDS[entry["kind"]]
        words = f"{entry['process']} {told}"
        if entry["peer"]:
            words += f" {entry['peer']} ({entry['level'] or ''})"
        marks.append(Mark(time, lanes[entry["process"]], entry["kind"], words))
    return marks


def _latency(found: Figures, data: Mapping[str, Any]) -> None:
    summary = data["summary"]
    found.early = summary["early"] or 0
    found.why = [name for name in summary["missing"] if name in ("send", "send.time", "deliver.time", "one clock", "deliver")]
    if not summary["latency_count"]:
        return
    found.latency = {
        entry["bucket"]: Moment(entry["latency_count"], entry["latency_p50_ns"], entry["latency_p99_ns"])
        for entry in data["latency_over_time"]
        if entry["latency_count"]
    }
    found.spreads = [_spread("all", summary)]
    origins = sorted(data["by_origin"], key=lambda entry: entry["origin"])
    found.spreads += [_spread(entry["origin"], entry) for entry in origins if entry["latency_count"]]
    found.histogram = [Bin(entry["low_ns"], entry["high_ns"], entry["deliveries"]) for entry in data["histogram"]]
    for entry in data["histogram_by_origin"]:
        one = Bin(entry["low_ns"], entry["high_ns"], entry["deliveries"])
        found.by_origin.setdefault(entry["origin"], []).append(one)


def _spread(name: str, entry: Mapping[str, Any]) -> Spread:
    values = (entry[f"latency_{what}_ns"] for what in ("mean", "p50", "p99", "max"))
    return Spread(name, entry["latency_count"], *values)
