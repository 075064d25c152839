"""Sorts the rows of a unit into cases: parts of a history that are judged together, each by one call of the oracle.

Invariant: which rows a case gets depends on the rows and on the choice only, so that reading more units than needed
changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from isotone.pipeline.kernels.load import Columns, Mask
from isotone.trace.schema import MESSAGE_KINDS, POSITION_COLUMNS

ROWS_AT_ONCE: Final = 10_000


@dataclass(slots=True)
class Choice:
    """The cases of one run."""

    whole: int | None = None
    """The case that gets every row."""
    ranges: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """By origin: first number, last number, case; disjoint and in increasing order. A case gets every row about them."""
    extra: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """The same, in any order and overlapping."""

    @property
    def origins(self) -> set[str]:
        return {*self.ranges, *self.extra}


def parcels(rows: Columns, choices: Mapping[str, Choice]) -> Iterator[tuple[int, bytes]]:
    """Cases with some of their rows, encoded."""
    about = np.array([word in MESSAGE_KINDS for word in rows.words["kind"]], dtype=np.bool_)
    for run in [*rows.words["run"], ""]:
        choice = choices.get(run)
        here = in_run(rows, run) if choice is not None else None
        if choice is None or here is None or not here.any():
            continue
        if choice.whole is not None:
            yield from _encoded(rows, choice.whole, np.flatnonzero(here))
        if choice.origins:
            here &= about[rows.codes["kind"]]
            for case, chosen in _chosen(rows, choice, here):
                yield from _encoded(rows, case, chosen)


def in_run(rows: Columns, run: str) -> Mask:
    """Which rows belong to a run; rows that name none belong to the run without a name."""
    found: Mask = rows.codes["run"] == (rows.code("run", run) if run else -1)
    return found


def opened(payload: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = msgspec.msgpack.decode(payload)
    return rows


def as_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table in the form that the oracle reads."""
    found = []
    for given in table.to_pylist(maps_as_pydicts="strict"):
        row = {name: value for name, value in given.items() if value is not None}
        position = [row.pop(name) for name in POSITION_COLUMNS if name in row]
        if position:
            row["position"] = position
        found.append(row)
    return found


def _chosen(rows: Columns, choice: Choice, here: Mask) -> Iterator[tuple[int, Any]]:
    by_case: dict[int, list[Any]] = {}
    number = rows.ints["number"]
    for origin in choice.origins:
        mine = np.flatnonzero(here & (rows.codes["origin"] == rows.code("origin", origin)))
        if not len(mine):
            continue
        numbers = number[mine]
        ranges = choice.ranges.get(origin, ())
        if ranges:
            low, high, cases = (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
            place = np.searchsorted(low, numbers, side="right") - 1
            inside = (place >= 0) & (numbers <= high[np.maximum(place, 0)])
            case = cases[place[inside]]
            for one in np.unique(case):
                by_case.setdefault(int(one), []).append(mine[inside][case == one])
        for first, last, one in choice.extra.get(origin, ()):
            inside = (numbers >= first) & (numbers <= last)
            if inside.any():
                by_case.setdefault(one, []).append(mine[inside])
    for one, parts in by_case.items():
        yield one, np.unique(np.concatenate(parts))


def _encoded(rows: Columns, case: int, chosen: Any) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(chosen), ROWS_AT_ONCE):
        yield case, msgspec.msgpack.encode(as_rows(rows.table.take(chosen[start : start + ROWS_AT_ONCE])))
