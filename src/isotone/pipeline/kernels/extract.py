"""Picks the rows that the combination wants to see in full: for the exact check, and for the confirmation of blocks.

Invariant: what is picked depends on the rows and on `Wanted` only, so picking from more units than needed changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isotone.pipeline.kernels.chunk import Interval
from isotone.pipeline.kernels.keys import Key, Keys
from isotone.pipeline.kernels.load import NOTHING, Columns, Mask
from isotone.pipeline.kernels.parcel import in_run
from isotone.trace.schema import POSITION_COLUMNS


@dataclass(slots=True)
class Wanted:
    """Rows of one run."""

    everything: bool = False
    islands: list[tuple[Key, Key]] = field(default_factory=list)
    """Deliveries whose key is in one of these closed intervals."""
    numbers: dict[tuple[str, str], list[Interval]] = field(default_factory=dict)
    """By process and origin: deliveries with numbers in these closed intervals."""
    messages: dict[str, list[int]] = field(default_factory=dict)
    """By origin: every row about these messages."""
    sends: dict[str, list[int]] = field(default_factory=dict)
    """By origin: their send rows."""

    def __bool__(self) -> bool:
        return bool(self.everything or self.islands or self.numbers or self.messages or self.sends)


def pick(rows: Columns, wanted: Mapping[str, Wanted]) -> list[dict[str, Any]]:
    """The wanted rows in the form that the oracle reads."""
    chosen = np.zeros(len(rows), dtype=np.bool_)
    for run, wish in wanted.items():
        here = in_run(rows, run)
        if here.any():
            chosen |= here & (here if wish.everything else _matching(rows, wish))
    if not chosen.any():
        return []
    table = rows.take(chosen).table
    return [_row(row) for row in table.to_pylist(maps_as_pydicts="strict")]


def _matching(rows: Columns, wish: Wanted) -> Mask:
    deliver = rows.codes["kind"] == rows.code("kind", "deliver")
    number, origin = rows.ints["number"], rows.codes["origin"]
    found = np.zeros(len(rows), dtype=np.bool_)
    keys = Keys(rows)
    for low, high in wish.islands:
        found |= deliver & keys.between(low, high)
    for (process, sender), intervals in wish.numbers.items():
        mine = deliver & (rows.codes["process"] == rows.code("process", process)) & (origin == rows.code("origin", sender))
        if mine.any():
            for first, last in intervals:
                found |= mine & (number >= first) & (number <= last)
    found |= _among(rows, wish.messages)
    if wish.sends:
        found |= (rows.codes["kind"] == rows.code("kind", "send")) & _among(rows, wish.sends)
    return found


def _among(rows: Columns, messages: Mapping[str, list[int]]) -> Mask:
    found = np.zeros(len(rows), dtype=np.bool_)
    for sender, numbers in messages.items():
        mine = rows.codes["origin"] == rows.code("origin", sender)
        if mine.any():
            found |= mine & np.isin(rows.ints["number"], np.array(numbers, dtype=np.int64))
    return found


def _row(given: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in given.items() if value is not None}
    position = [row.pop(name) for name in POSITION_COLUMNS if name in row]
    if position:
        row["position"] = position
    return row


def in_blocks(rows: Columns, suspects: Mapping[str, Mapping[str, list[int]]], shift: int) -> Any:
    """An Arrow table of the sends and deliveries in suspect blocks, by run and origin; keys as comparable columns."""
    import pyarrow as pa

    chosen = np.zeros(len(rows), dtype=np.bool_)
    sends = rows.codes["kind"] == rows.code("kind", "send")
    about = sends | (rows.codes["kind"] == rows.code("kind", "deliver"))
    block = rows.ints["number"] >> shift
    for run, origins in suspects.items():
        here = about & in_run(rows, run)
        for sender, blocks in origins.items() if here.any() else ():
            mine = here & (rows.codes["origin"] == rows.code("origin", sender))
            chosen |= mine & np.isin(block, np.array(blocks, dtype=np.int64))
    some = rows.take(chosen)
    keys = Keys(some)
    absent = some.ints["digest"] == NOTHING
    columns: dict[str, Any] = {
        "run": _texts(some.words["run"], some.codes["run"]),
        "origin": _texts(some.words["origin"], some.codes["origin"]),
        "number": pa.array(some.ints["number"]),
        "process": _texts(some.words["process"], some.codes["process"]),
        "sent": pa.array(sends[chosen]),
        "digest": pa.array(some.ints["digest"], mask=absent),
        "epoch": pa.array(keys.epoch),
        "proposer": _texts(keys.words, keys.proposer),
    }
    for depth, part in enumerate(keys.parts):
        columns[f"p{depth}"] = pa.array(part)
    return pa.table(columns)


def _texts(words: list[str], codes: Any) -> Any:
    import pyarrow as pa

    return pa.array([*words, ""], type=pa.string()).take(pa.array(np.where(codes < 0, len(words), codes)))
