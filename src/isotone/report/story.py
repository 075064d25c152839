"""What a run tells: its rows turned into the events, views, marks and latencies that the figures show.

Times are nanoseconds since the first event of the run. A trace without clocks is laid out by logical time instead (an
event is later than what precedes it at its process, a delivery later than its send); it has no latencies.

Invariants: `events` are in the order of time, and at equal times no event comes before one that it depends on; packets
and other rows of the machine room are counted but are no events.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

RowLike: TypeAlias = Mapping[str, Any]
MessageId: TypeAlias = tuple[str, int]

SHOWN: Final = frozenset(
    ("start", "send", "deliver", "returned", "flush", "transitional", "view", "switch", "suspect", "trust", "stop", "crash")
)
SURROUNDINGS: Final = frozenset(("fault", "heal"))
MARKS: Final = ("suspect", "trust", "crash", "stop", "switch")


class Event(NamedTuple):
    """One row that the diagrams can show."""

    time: int
    logical: int
    lane: int
    """Index of the process; -1 for what happens to the network."""
    step: int
    kind: str
    message: MessageId | None
    row: RowLike


class Band(NamedTuple):
    """One process in one view."""

    lane: int
    start: int
    end: int
    view: str
    members: tuple[str, ...]
    frozen: int | None
    """When the view was frozen by a flush."""


class Latency(NamedTuple):
    """One delivery whose send is in the trace."""

    time: int
    origin: str
    value: int


@dataclass(slots=True)
class Story:
    """One run."""

    run: str
    processes: list[str] = field(default_factory=list)
    timed: bool = True
    duration: int = 0
    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)
    surroundings: list[Event] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    early: int = 0
    """Deliveries that their clocks place before the send; they are no latencies."""
    packets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Control records and bytes by kind."""

    def views(self) -> list[str]:
        """All views in the order of their first installation."""
        return list(dict.fromkeys(band.view for band in sorted(self.bands, key=lambda band: band.start) if band.view))


def tell_stories(rows: Iterable[RowLike]) -> list[Story]:
    """One story per run, in the order of the runs' first rows."""
    runs: dict[str, dict[str, list[RowLike]]] = {}
    for row in rows:
        runs.setdefault(row.get("run") or "", {}).setdefault(row["process"], []).append(row)
    return [_tell(run, logs) for run, logs in runs.items()]


def message_of(row: RowLike) -> MessageId | None:
    """The message a row is about."""
    origin, number = row.get("origin"), row.get("number")
    return (origin, number) if origin is not None and number is not None else None


def show_message(message: MessageId) -> str:
    """A message as witnesses name it."""
    return f"{message[0]}:{message[1]}"


def show_view(row: RowLike) -> str:
    """The view of a row as witnesses name it; empty if the row has none."""
    epoch = row.get("view_epoch")
    return "" if epoch is None else f"{epoch}@{row.get('view_proposer') or ''}"


def _tell(run: str, logs: dict[str, list[RowLike]]) -> Story:
    story = Story(run)
    for log in logs.values():
        log.sort(key=lambda row: row["step"])
        story.rows += len(log)
        story.kinds.update(row["kind"] for row in log)
    outside = {name for name, log in logs.items() if _is_surroundings(log)}
    story.processes = sorted(name for name in logs if name not in outside)
    story.timed = all(any(row.get("time") is not None for row in log) for log in logs.values())
    names = [*story.processes, *sorted(outside)]
    ordered = [logs[name] for name in names]
    logical = logical_times(ordered)
    times = [_fill(log) for log in ordered] if story.timed else logical
    origin = min((min(log) for log in times if log), default=0)
    for place, log in enumerate(ordered):
        lane = place if place < len(story.processes) else -1
        relative = [time - origin for time in times[place]]
        story.duration = max(story.duration, max(relative, default=0))
        for row, time, tick in zip(log, relative, logical[place], strict=True):
            event = Event(time, tick, lane, row["step"], row["kind"], message_of(row), row)
            if row["kind"] in SURROUNDINGS:
                story.surroundings.append(event)
            elif row["kind"] in SHOWN and lane >= 0:
                story.events.append(event)
        if lane >= 0:
            story.bands.extend(_bands(lane, log, relative))
    story.events.sort(key=lambda event: event[:4])
    story.surroundings.sort(key=lambda event: event[:4])
    if story.timed:
        _measure(story)
    _count_packets(story, ordered)
    return story


def _is_surroundings(log: Sequence[RowLike]) -> bool:
    """Whether a process is only the place where the simulator notes what it does to the network."""
    kinds = {row["kind"] for row in log}
    return bool(kinds & SURROUNDINGS) and kinds <= SURROUNDINGS | {"start", "stop"}


def _fill(log: Sequence[RowLike]) -> list[int]:
    """The times of a process; a row without one happens with the row before it, or at the first known time."""
    known = next((row["time"] for row in log if row.get("time") is not None), 0)
    times: list[int] = []
    for row in log:
        time = row.get("time")
        known = known if time is None else time
        times.append(known)
    return times


def logical_times(logs: Sequence[Sequence[RowLike]]) -> list[list[int]]:
    """Lamport's clock for every row: one more than the row before, and than the send of what a row delivers.

    A history in which a delivery precedes its own send has no such clock; there the send is not waited for.
    """
    to_come = {message_of(row) for log in logs for row in log if row["kind"] == "send"}
    sent: dict[MessageId | None, int] = {}
    waiting: dict[MessageId | None, list[int]] = {}
    result: list[list[int]] = [[] for _ in logs]
    ready = list(range(len(logs)))[::-1]
    blocked: dict[int, None] = {}
    while ready or blocked:
        forced = not ready
        lane = next(iter(blocked)) if forced else ready.pop()
        blocked.pop(lane, None)
        log, ticks = logs[lane], result[lane]
        while len(ticks) < len(log):
            row = log[len(ticks)]
            tick = ticks[-1] + 1 if ticks else 0
            if row["kind"] in ("deliver", "receive"):
                message = message_of(row)
                if message in sent:
                    tick = max(tick, sent[message] + 1)
                elif message in to_come and not forced:
                    waiting.setdefault(message, []).append(lane)
                    blocked[lane] = None
                    break
            forced = False
            ticks.append(tick)
            if row["kind"] == "send":
                message = message_of(row)
                sent.setdefault(message, tick)
                for other in waiting.pop(message, ()):
                    if other in blocked:
                        del blocked[other]
                        ready.append(other)
    return result


def _bands(lane: int, log: Sequence[RowLike], times: Sequence[int]) -> list[Band]:
    """The views of one process; a process that recorded none is in one nameless band."""
    bands: list[Band] = []
    start, view, members, frozen = times[0], "", (), None
    for row, time in zip(log, times, strict=True):
        if row["kind"] == "flush":
            frozen = time
        elif row["kind"] == "view":
            if view:
                bands.append(Band(lane, start, time, view, members, frozen))
            start, view, members, frozen = time, show_view(row), tuple(row.get("members") or ()), None
    bands.append(Band(lane, start, times[-1], view, members, frozen))
    return bands


def _measure(story: Story) -> None:
    """Latencies from send to deliver, where both rows have a time of their own."""
    sent: dict[MessageId, int] = {}
    for event in story.events:
        if event.kind == "send" and event.message is not None and event.row.get("time") is not None:
            sent.setdefault(event.message, event.time)
    for event in story.events:
        if event.kind != "deliver" or event.message not in sent or event.row.get("time") is None:
            continue
        value = event.time - sent[event.message]
        if value < 0:
            story.early += 1
        else:
            story.latencies.append(Latency(event.time, event.message[0], value))


def _count_packets(story: Story, logs: Iterable[Iterable[RowLike]]) -> None:
    records: Counter[str] = Counter()
    volume: Counter[str] = Counter()
    for log in logs:
        for row in log:
            if row["kind"] == "packet":
                name, count = row.get("packet") or "?", row.get("count") or 1
                records[name] += count
                volume[name] += row.get("size") or 0
    story.packets = {name: (count, volume[name]) for name, count in records.most_common()}
