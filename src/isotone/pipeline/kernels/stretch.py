"""What a process sent, delivered and had returned while each view was installed, condensed to one entry per block of numbers.

A *span* is the part of a process that one unit of work reads. It holds the rows that are about no message (the *frame*:
views, transitional signals, ends, faults, switches) in full, and is cut by views and transitional signals into *segments*.

Invariants: the size of a span depends on frame rows, origins, views and blocks, not on the number of messages; an entry
whose size is `high - low + 1` and that was delivered in increasing order holds every number between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from isotone.pipeline.kernels.chunk import in_order
from isotone.pipeline.kernels.keys import Salt, mix
from isotone.pipeline.kernels.load import NOTHING, Columns, Ints, Rejects

ViewId: TypeAlias = tuple[int, str]
Label: TypeAlias = tuple[int | None, str | None]
"""Under what a message is delivered: the instance of the orderer, if positions tell it, and the protocol."""
FRAME: Final = ("start", "transitional", "view", "core", "switch", "fault", "heal", "stop", "crash")
"""Kinds of the rows that are kept in full."""
_ASKED: Final = ("members", "level", "k")
_UNSIGNED: Final = np.uint64
_LABELS_MAX: Final = 1_000


class Entry(NamedTuple):
    """Messages of one origin whose rows name one view, in one block of numbers."""

    origin: str
    view: ViewId | None
    block: int
    low: int
    high: int
    size: int
    ids: int
    """Sum of the hashes of the numbers."""
    safe: int = 0
    """How many were delivered at level `safe`."""
    asked: int = 0
    """How many were delivered at level `safe` or `k`."""
    label: "Label" = (None, None)


@dataclass(slots=True)
class Segment:
    """What was delivered between two cuts."""

    opened_by: int
    """Which frame row of the span comes just before; -1 for what goes on from the span before."""
    delivered: list[Entry] = field(default_factory=list)


class Labelled(NamedTuple):
    """Deliveries in a row that name one view and have one label, by their first and last message."""

    view: ViewId | None
    label: Label
    first: tuple[str, int]
    last: tuple[str, int]


@dataclass(slots=True)
class Span:
    """One process in one unit of work."""

    run: str
    process: str
    unit: int
    first_step: int
    last_step: int
    frame: list[dict[str, Any]]
    columns: set[tuple[str, str]]
    """`(kind, column)` of the columns that checks ask for and that some row has."""
    segments: list[Segment] = field(default_factory=list)
    sent: list[Entry] = field(default_factory=list)
    returned: list[Entry] = field(default_factory=list)
    wild: bool = False
    """Own numbers do not increase along the sends."""
    labels: list[Labelled] | None = None
    """None if they change too often to be listed, or if nobody asked."""


def spans(rows: Columns, unit: int, shift: int, salt: Salt, *, labelled: bool = False) -> list[Span]:
    """One span per run and process that occur in the rows; with labels if asked for."""
    if not len(rows):
        return []
    together = rows.codes["run"].astype(np.int64) * (len(rows.words["process"]) + 1) + rows.codes["process"]
    if bool((together == together[0]).all()):
        return [_span(rows, unit, shift, salt, labelled)]
    return [_span(rows.take(together == one), unit, shift, salt, labelled) for one in np.unique(together)]


def _span(given: Columns, unit: int, shift: int, salt: Salt, labelled: bool) -> Span:
    rows = in_order(given, Rejects())
    kind = rows.codes["kind"]
    run, process = int(rows.codes["run"][0]), rows.words["process"][int(rows.codes["process"][0])]
    step = rows.ints["step"]
    is_frame = np.array([name in FRAME for name in rows.words["kind"]])[kind]
    frame_at = np.flatnonzero(is_frame)
    table = rows.table
    frame = list(_frame(table, frame_at))
    span = Span(
        rows.words["run"][run] if run >= 0 else "", process, unit, int(step[0]), int(step[-1]), frame, _columns(rows, table)
    )
    cuts = [place for place, row in enumerate(frame) if row["kind"] in ("view", "transitional")]
    span.segments = [Segment(-1), *map(Segment, cuts)]
    cut_at = frame_at[cuts]
    factors = salt.factors()

    def grouped(chosen: Ints, segment: Ints, labels: Any = None, levels: Any = None) -> Iterator[tuple[int, Entry]]:
        hashes = mix(rows.ints["number"][chosen].view(_UNSIGNED) * factors[12] + factors[13])
        return _grouped(rows, chosen, segment, hashes, shift, labels, levels)

    def at(name: str) -> Ints:
        return np.flatnonzero(kind == rows.code("kind", name))

    delivers = at("deliver")
    labels = _labels(rows, delivers) if labelled else None
    for place, entry in grouped(delivers, np.searchsorted(cut_at, delivers), labels, _levels(rows, table, delivers)):
        span.segments[place].delivered.append(entry)
    if labels is not None:
        span.labels = _sequence(rows, delivers, labels)
    sends = at("send")
    mine = sends[rows.codes["origin"][sends] == rows.code("origin", process)]
    number = rows.ints["number"][mine]
    span.wild = not bool((number[1:] > number[:-1]).all())
    span.sent = [entry for _, entry in grouped(mine, np.zeros(len(mine), dtype=np.int64))]
    returned = at("returned")
    span.returned = [entry for _, entry in grouped(returned, np.zeros(len(returned), dtype=np.int64))]
    return span


def _frame(table: Any, at: Ints) -> Iterator[dict[str, Any]]:
    if len(at):
        for row in table.take(at).to_pylist(maps_as_pydicts="strict"):
            yield {name: value for name, value in row.items() if value is not None}


def _columns(rows: Columns, table: Any) -> set[tuple[str, str]]:
    import pyarrow.compute as pc

    found: set[tuple[str, str]] = set()
    kind, words = rows.codes["kind"], rows.words["kind"]
    present: dict[str, Any] = {
        "view_epoch": rows.ints["view_epoch"] != NOTHING,
        "position": rows.ints["position_0"] != NOTHING,
        "protocol": rows.codes["protocol"] >= 0,
    }
    for name in _ASKED:
        column = table.column(name) if name in table.column_names else None
        if column is not None and column.null_count < len(rows):
            present[name] = np.asarray(pc.is_valid(column))
    for name, here in present.items():
        counts = np.bincount(kind[here], minlength=len(words))
        found.update((words[code], name) for code in np.flatnonzero(counts))
    return found


def _levels(rows: Columns, table: Any, delivers: Ints) -> Any:
    """Which deliveries are at level `safe`, and which at `safe` or `k`; None if none is."""
    import pyarrow.compute as pc

    if "level" not in table.column_names or table.column("level").null_count == len(rows):
        return None
    column = pc.cast(table.column("level"), "string")
    safe, level_k = (np.asarray(pc.fill_null(pc.equal(column, word), False))[delivers] for word in ("safe", "k"))
    return (safe, safe | level_k) if safe.any() or level_k.any() else None


def _labels(rows: Columns, delivers: Ints) -> tuple[Ints, Any]:
    """Of deliveries the instance (`NOTHING` if positions do not tell it) and the code of the protocol."""
    several = rows.ints["position_1"][delivers] != NOTHING
    return np.where(several, rows.ints["position_0"][delivers], NOTHING), rows.codes["protocol"][delivers]


def _sequence(rows: Columns, delivers: Ints, labels: tuple[Ints, Any]) -> list[Labelled] | None:
    if not len(delivers):
        return []
    columns = [rows.ints["view_epoch"][delivers], rows.codes["view_proposer"][delivers], *labels]
    changed = np.zeros(len(delivers), dtype=np.bool_)
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    starts = [0, *np.flatnonzero(changed).tolist()]
    if len(starts) > _LABELS_MAX:
        return None

    def message(at: int) -> tuple[str, int]:
        row = delivers[at]
        return rows.words["origin"][int(rows.codes["origin"][row])], int(rows.ints["number"][row])

    ends = [*(start - 1 for start in starts[1:]), len(delivers) - 1]
    return [
        Labelled(_view(rows, delivers[start]), _label(rows, labels, start), message(start), message(end))
        for start, end in zip(starts, ends, strict=True)
    ]


def _view(rows: Columns, row: Any) -> ViewId | None:
    epoch, code = int(rows.ints["view_epoch"][row]), int(rows.codes["view_proposer"][row])
    return None if epoch == NOTHING else (epoch, rows.words["view_proposer"][code] if code >= 0 else "")


def _label(rows: Columns, labels: tuple[Ints, Any], at: int) -> Label:
    instance, code = int(labels[0][at]), int(labels[1][at])
    return None if instance == NOTHING else instance, rows.words["protocol"][code] if code >= 0 else None


def _grouped(
    rows: Columns, chosen: Ints, segment: Ints, hashes: Any, shift: int, labels: Any, levels: Any
) -> Iterator[tuple[int, Entry]]:
    if not len(chosen):
        return
    number = rows.ints["number"][chosen]
    epoch, proposer = rows.ints["view_epoch"][chosen], rows.codes["view_proposer"][chosen]
    origin, block = rows.codes["origin"][chosen], number >> shift
    order, starts = _together([segment, origin, epoch, proposer, block, *(labels or ())])
    low, high = np.minimum.reduceat(number[order], starts), np.maximum.reduceat(number[order], starts)
    ids = np.add.reduceat(hashes[order], starts)
    sizes = np.diff([*starts.tolist(), len(order)])
    none = np.zeros(len(starts), dtype=np.int64)
    safe, asked = (np.add.reduceat(mask[order].astype(np.int64), starts) for mask in levels) if levels else (none, none)
    for place, first in enumerate(order[starts].tolist()):
        yield (
            int(segment[first]),
            Entry(
                rows.words["origin"][int(origin[first])],
                _view(rows, chosen[first]),
                int(block[first]),
                int(low[place]),
                int(high[place]),
                int(sizes[place]),
                int(ids[place]),
                int(safe[place]),
                int(asked[place]),
                _label(rows, labels, first) if labels else (None, None),
            ),
        )


def _together(columns: list[Any]) -> tuple[Ints, Ints]:
    """An order that puts equal rows together, and where each group of equal rows starts in it."""
    count = len(columns[0])
    code = np.zeros(count, dtype=np.int64)
    width = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        extent = high - low + 1
        if width * extent >= 1 << 62:  # too wide for one number: dense codes
            column, low = np.unique(column, return_inverse=True)[1], 0
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
            width, extent = int(code.max()) + 1, int(column.max()) + 1
        code = code * extent + (column.astype(np.int64) - low)
        width *= extent
    small = code.astype(np.uint16) if width <= 1 << 16 else code
    order = np.argsort(small, kind="stable")
    ordered = code[order]
    starts = np.flatnonzero(np.concatenate([np.ones(1, dtype=np.bool_), ordered[1:] != ordered[:-1]]))
    return order, starts
