"""Picks small parts of a history for people to look at: rows about messages and views, around steps, in a range of time.

Invariant: of each wish a source gives at most `limit` rows, those nearest to what is wished for, so what travels is bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from isotone.pipeline.kernels.load import Columns, Ints, Mask
from isotone.pipeline.plan import Source
from isotone.trace.schema import POSITION_COLUMNS

TELLING: Final = frozenset(
    ("start", "send", "deliver", "returned", "flush", "transitional", "view", "switch", "suspect", "trust", "stop", "crash")
)
AROUND: Final = frozenset(("fault", "heal"))
"""What happens to the network."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Rows of one run that one wants to see: those that fit any of the parts."""

    run: str
    messages: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By origin: rows about these messages."""
    sends_only: bool = False
    """Of the messages, only their sends."""
    views: tuple[tuple[int, str], ...] = ()
    """Their installations."""
    steps: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By process: rows in these closed ranges of steps."""
    times: tuple[int, int] | None = None
    """Rows in this closed range of time since the start of the run."""
    zeros: Mapping[str, int] = field(default_factory=dict)
    """By process: when the run started, on its clock. Processes without one are in no range of time."""
    first: bool = False
    """The first rows of every process."""


def may_hold(source: Source, wish: Wish) -> bool:
    """Whether the footer of a source allows rows of the wish."""
    if source.runs is not None and wish.run and not source.runs[0] <= wish.run <= source.runs[1]:
        return False
    if wish.messages or wish.views or wish.times is not None or wish.first or source.steps is None:
        return True
    low, high = source.steps
    return any(first <= high and low <= last for spans in wish.steps.values() for first, last in spans)


def excerpt(rows: Columns, wish: Wish, limit: int) -> list[tuple[int, dict[str, Any]]]:
    """Rows of the wish with how far each is from its heart; the table must have every column."""
    if not len(rows):
        return []
    here = rows.codes["run"] == rows.code("run", wish.run)
    if not wish.run:
        here |= rows.codes["run"] == -1
    found, far = _fitting(rows, wish)
    chosen = np.flatnonzero(here & found)
    order = chosen[np.argsort(far[chosen], kind="stable")[:limit]]
    table = rows.table.take(order)
    return [(int(far[at]), _row(row)) for at, row in zip(order, table.to_pylist(maps_as_pydicts="strict"), strict=True)]


def _times(rows: Columns, zeros: Mapping[str, int]) -> tuple[Mask, Ints]:
    """Which rows have a time, and when they happen since the start of the run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "time" not in rows.table.column_names:
        return np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.int64)
    column = rows.table.column("time").cast(pa.int64())
    words = rows.words["process"]
    known = np.array([word in zeros for word in words], dtype=np.bool_)[rows.codes["process"]]
    zero = np.array([zeros.get(word, 0) for word in words], dtype=np.int64)[rows.codes["process"]]
    return known & np.asarray(pc.is_valid(column)), np.asarray(column.fill_null(0)) - zero


def _fitting(rows: Columns, wish: Wish) -> tuple[Mask, Ints]:
    """Which rows fit, and the distance that decides which ones stay if they are too many."""
    kinds = rows.words["kind"]
    telling = np.array([kind in TELLING for kind in kinds], dtype=np.bool_)[rows.codes["kind"]]
    step = rows.ints["step"]
    far = np.zeros(len(rows), dtype=np.int64)
    found = np.zeros(len(rows), dtype=np.bool_)
    for origin, numbers in wish.messages.items():
        mine = rows.codes["origin"] == rows.code("origin", origin)
        if mine.any():
            found |= mine & np.isin(rows.ints["number"], np.array(numbers, dtype=np.int64))
    if wish.messages and wish.sends_only:
        found &= rows.codes["kind"] == rows.code("kind", "send")
    installs = rows.codes["kind"] == rows.code("kind", "view")
    for epoch, proposer in wish.views:
        mine = rows.codes["view_proposer"] == rows.code("view_proposer", proposer)
        found |= installs & mine & (rows.ints["view_epoch"] == epoch)
    for process, spans in wish.steps.items():
        mine = rows.codes["process"] == rows.code("process", process)
        for first, last in spans if mine.any() else ():
            inside = mine & telling & (step >= first) & (step <= last)
            far = np.where(inside & ~found, np.abs(step - (first + last) // 2), far)
            found |= inside
    if wish.times is not None:
        timed, time = _times(rows, wish.zeros)
        around = np.array([kind in AROUND for kind in kinds], dtype=np.bool_)[rows.codes["kind"]]
        inside = timed & (telling | around) & (time >= wish.times[0]) & (time <= wish.times[1])
        far = np.where(inside & ~found, time - wish.times[0], far)
        found |= inside
    if wish.first:
        far = np.where(telling & ~found, step, far)
        found |= telling
    return found, far


def _row(given: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in given.items() if value is not None}
    position = [row.pop(name) for name in POSITION_COLUMNS if name in row]
    if position:
        row["position"] = position
    return row
