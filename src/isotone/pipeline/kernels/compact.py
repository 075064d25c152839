"""A whole run as arrays of integers, for the checks that need all of it at once: some ten bytes per event.

Messages are numbered by origin and number, so that the messages of one origin are neighbours in the order of their numbers.

Invariants: events of a chain are its own sends (a message sent again counts once) and its deliveries, in the order of
steps; `first` marks the first delivery of each message at a process, and every send.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from isotone.pipeline.kernels.load import NOTHING, Columns, Ints, Mask

Ids = npt.NDArray[np.int32]
Message: TypeAlias = tuple[str, int]
"""Origin and number."""


@dataclass(slots=True)
class Part:
    """The events of one process in one unit; origins and proposers are codes of the names that the part brings."""

    process: str
    first_step: int
    origin: Any
    number: Ints
    kind: Any
    """0 deliver, 1 send, 2 returned."""
    installed: Ints
    """How many views the part had installed before each event."""
    views: list[tuple[int, str]]
    names: list[str]
    foreign: list[Message]
    """A message of another process that this one sends, if there is one."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further columns of the events, those asked for."""


@dataclass(slots=True)
class Chain:
    """One process."""

    process: str
    ids: Ids
    sent: Mask
    first: Mask
    stretch: Any
    """Per event, which of `views` is installed; -1 before the first."""
    views: list[tuple[int, str]]
    returned: Ids
    foreign: list[Message]
    again: Mask
    """Of `sends`, which were sent again."""
    sends: Ids
    """Every send, in order."""
    more: dict[str, Any]
    """Further columns of the events; of `sends` those named `send_…`."""

    def delivered(self) -> Ids:
        """Messages in the order of their first deliveries."""
        return self.ids[self.first & ~self.sent]


@dataclass(slots=True)
class Compact:
    """One run."""

    names: list[str]
    origin: Ids
    """Of each message, which of the names sent it."""
    number: Ints
    start: Ints
    """Of each name, its first message; one more at the end."""
    sent: Mask
    chains: list[Chain]

    def message(self, index: int) -> Message:
        return self.names[int(self.origin[index])], int(self.number[index])

    def named(self, indices: Iterable[int]) -> list[Message]:
        return [self.message(index) for index in dict.fromkeys(indices)]


def part_of(rows: Columns, more: Iterable[str] = ()) -> Part | None:
    """The events in rows of one process, which are in the order of their steps; `more` names columns of integers or texts."""
    kinds = rows.words["kind"]
    codes = np.array([{"deliver": 0, "send": 1, "returned": 2}.get(word, -1) for word in kinds], dtype=np.int8)
    kind = codes[rows.codes["kind"]]
    process = rows.words["process"][int(rows.codes["process"][0])]
    own = rows.code("origin", process)
    others = (kind == 1) & (rows.codes["origin"] != own)
    kept = np.flatnonzero((kind >= 0) & ~others)
    foreign = [
        (rows.words["origin"][int(rows.codes["origin"][at])], int(rows.ints["number"][at])) for at in np.flatnonzero(others)[:1]
    ]
    is_view = (rows.codes["kind"] == rows.code("kind", "view")) & (rows.ints["view_epoch"] != NOTHING)
    view_at = np.flatnonzero(is_view)
    if not len(kept) and not len(view_at) and not foreign:
        return None
    words = rows.words["view_proposer"]
    views = [
        (
            int(rows.ints["view_epoch"][at]),
            words[int(rows.codes["view_proposer"][at])] if rows.codes["view_proposer"][at] >= 0 else "",
        )
        for at in view_at
    ]
    return Part(
        process,
        int(rows.ints["step"][0]),
        rows.codes["origin"][kept],
        rows.ints["number"][kept],
        kind[kept],
        np.searchsorted(view_at, kept),
        views,
        list(rows.words["origin"]),
        foreign,
        {name: _column(rows, name, kept) for name in more},
    )


def _column(rows: Columns, name: str, kept: Ints) -> Any:
    """An integer column as it is, texts and lists of texts as objects (None where null)."""
    if name in ("type", "items"):
        found = np.empty(len(kept), dtype=object)
        if name in rows.table.column_names:
            values = rows.table.column(name).take(kept).to_pylist()
            found[:] = values if name == "type" else [None if value is None else tuple(value) for value in values]
        return found
    if name in rows.ints:
        return rows.ints[name][kept]
    return np.array([*rows.words[name], None], dtype=object)[rows.codes[name][kept]]


def assemble(parts: Iterable[Part], processes: Iterable[str]) -> Compact:
    """Put the parts of all processes together."""
    by_process: dict[str, list[Part]] = {process: [] for process in processes}
    for part in parts:
        by_process[part.process].append(part)
    code = {
        name: place
        for place, name in enumerate(sorted({*by_process, *(n for p in by_process.values() for q in p for n in q.names)}))
    }
    names = list(code)
    for group in by_process.values():
        group.sort(key=lambda part: part.first_step)
        for part in group:
            table = np.array([code[name] for name in part.names] or [0], dtype=np.int32)
            part.origin = table[part.origin]
    every = [part for group in by_process.values() for part in group]
    number = _joined([part.number for part in every], np.int64)
    origin = _joined([part.origin for part in every], np.int32)
    ids, message_origin, message_number = _numbered(origin, number, len(names))
    sent = np.zeros(len(message_origin), dtype=np.bool_)
    chains: list[Chain] = []
    columns = list(every[0].more) if every else []
    at = 0
    for process, group in by_process.items():
        count = sum(len(part.number) for part in group)
        chains.append(_chain(process, group, ids[at : at + count], columns))
        sent[chains[-1].ids[chains[-1].sent]] = True
        at += count
    start = np.searchsorted(message_origin, np.arange(len(names) + 1))
    return Compact(names, message_origin, message_number, start, sent, chains)


def _joined(arrays: list[Any], kind: Any) -> Any:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)


def _numbered(origin: Any, number: Ints, origins: int) -> tuple[Ids, Ids, Ints]:
    """A number for every message in the order of (origin, number), with its origin and its number."""
    if not len(number):
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    low, high = int(number.min()), int(number.max())
    extent = high - low + 1
    if extent * origins <= max(1 << 16, 8 * len(number)):
        code = origin.astype(np.int64) * extent + (number - low)
        present = np.zeros(extent * origins, dtype=np.bool_)
        present[code] = True
        found = np.flatnonzero(present)
        place = np.cumsum(present, dtype=np.int64) - 1
        return place[code].astype(np.int32), (found // extent).astype(np.int32), found % extent + low
    order = np.lexsort((number, origin))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (origin[order][1:] != origin[order][:-1]) | (number[order][1:] != number[order][:-1])
    ids = np.empty(len(order), dtype=np.int32)
    ids[order] = np.cumsum(new) - 1
    return ids, origin[order][new].astype(np.int32), number[order][new]


def _chain(process: str, group: list[Part], ids: Ids, columns: list[str]) -> Chain:
    kind = _joined([part.kind for part in group], np.int8)
    views: list[tuple[int, str]] = []
    stretch = []
    for part in group:
        stretch.append(part.installed + len(views) - 1)
        views.extend(part.views)
    events = kind < 2
    more = {name: _joined([part.more[name] for part in group], object)[events] for name in columns}
    foreign = [message for part in group for message in part.foreign][:1]
    kind, mine, installed = kind[events], ids[events], _joined(stretch, np.int64)[events]
    sent = kind == 1
    first = _firsts(mine, sent)
    kept = first | ~sent
    kept_more = {name: column[kept] for name, column in more.items()}
    every = {f"send_{name}": column[sent] for name, column in more.items()}
    return Chain(
        process,
        mine[kept],
        sent[kept],
        first[kept],
        installed[kept],
        views,
        ids[~events],
        foreign,
        ~first[sent],
        mine[sent],
        {**kept_more, **every},
    )


def _firsts(ids: Ids, sent: Mask) -> Mask:
    """Where each message occurs first among the sends, and first among the deliveries."""
    first = np.zeros(len(ids), dtype=np.bool_)
    for which in (sent, ~sent):
        at = np.flatnonzero(which)
        first[at[np.unique(ids[at], return_index=True)[1]]] = True
    return first
