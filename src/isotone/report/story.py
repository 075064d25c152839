"""Some rows of one run as events on lanes: what the space-time diagrams show.

Times are nanoseconds since the start of the run. Rows without clocks are laid out by logical time instead (an event is
later than what precedes it at its process, a delivery later than its send).

Invariants: `events` are in the order of time, and at equal times no event comes before one that it depends on; packets
and other rows of the machine room are no events.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

RowLike: TypeAlias = Mapping[str, Any]
MessageId: TypeAlias = tuple[str, int]

SHOWN: Final = frozenset(
    ("start", "send", "deliver", "returned", "flush", "transitional", "view", "switch", "suspect", "trust", "stop", "crash")
)
SURROUNDINGS: Final = frozenset(("fault", "heal"))


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


@dataclass(slots=True)
class Story:
    """Some rows of one run."""

    processes: list[str] = field(default_factory=list)
    timed: bool = True
    events: list[Event] = field(default_factory=list)
    surroundings: list[Event] = field(default_factory=list)


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


def tell_story(rows: Iterable[RowLike], zeros: Mapping[str, int]) -> Story:
    """The story of rows of one run; `zeros` says when the run started, on the clock of each process that has one."""
    logs: dict[str, list[RowLike]] = {}
    for row in rows:
        logs.setdefault(row["process"], []).append(row)
    for log in logs.values():
        log.sort(key=lambda row: row["step"])
    outside = {name for name, log in logs.items() if {row["kind"] for row in log} <= SURROUNDINGS}
    story = Story(sorted(name for name in logs if name not in outside))
    story.timed = all(name in zeros for name in logs)
    ordered = [logs[name] for name in [*story.processes, *sorted(outside)]]
    logical = logical_times(ordered)
    times = [_since(log, zeros[log[0]["process"]]) for log in ordered] if story.timed else logical
    for place, log in enumerate(ordered):
        lane = place if place < len(story.processes) else -1
        for row, time, tick in zip(log, times[place], logical[place], strict=True):
            event = Event(time, tick, lane, row["step"], row["kind"], message_of(row), row)
            if row["kind"] in SURROUNDINGS:
                story.surroundings.append(event)
            elif row["kind"] in SHOWN and lane >= 0:
                story.events.append(event)
    story.events.sort(key=lambda event: event[:4])
    story.surroundings.sort(key=lambda event: event[:4])
    return story


def _since(log: Sequence[RowLike], zero: int) -> list[int]:
    """The times of a process; a row without one happens with the row before it, or at the first known time."""
    known = next((row["time"] for row in log if row.get("time") is not None), zero)
    times: list[int] = []
    for row in log:
        time = row.get("time")
        known = known if time is None else time
        times.append(known - zero)
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
