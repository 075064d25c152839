"""What the executors do: read files, set malformed rows apart, and pack the rows of each process into arrays.

A `Chunk` holds the rows of one process from one file (or one stretch of a JSON Lines file) in the order of their steps,
texts as codes. That is all that leaves the executors; no row is ever a Python object, except those of views.

Invariants: the steps of a chunk strictly increase; a row that is not in a chunk is counted as quarantined, with a reason.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from isotone.model.errors import TraceFormatError
from isotone.pipeline.kernels.load import NOTHING, Columns, Rejects, load
from isotone.pipeline.plan import Source, make_plan
from isotone.pipeline.stream.files import Piece, join
from isotone.trace.schema import KINDS

NUMBER_BITS: Final = 40
"""Message numbers below 2**40; the rest of an int64 is for the code of the origin."""
KIND: Final = {kind: code for code, kind in enumerate(KINDS)}
_REASONS_MAX: Final = 20
_ROWS_PER_CHUNK: Final = 131_072
_ALSO: Final = ("time", "members")

Array = npt.NDArray[Any]


class Chunk(msgspec.Struct):
    """Rows of one process; `step`, `time`, `number` are int64, `kind` int8, `origin` and `view` int32 codes (-1: none)."""

    run: str
    process: str
    file: str
    step: bytes
    time: bytes
    kind: bytes
    origin: bytes
    number: bytes
    view: bytes
    origins: list[str]
    views: list[tuple[int, str]]
    members: dict[int, list[str]]
    """By step: who belongs to the view that is installed there."""
    protocols: list[str]
    sparse: bool
    """The steps have gaps although no row was set apart: this log does not number its rows without gaps."""

    @property
    def steps(self) -> Array:
        return np.frombuffer(self.step, dtype=np.int64)

    @property
    def first(self) -> int:
        return int(self.steps[0])


class Quarantine(msgspec.Struct):
    """How many rows of a file were set apart, and why the first ones."""

    file: str
    count: int
    reasons: list[str]


def read_piece(directory: str, piece: Piece) -> Iterator[Chunk | Quarantine]:
    """The chunks of one piece, and what had to be set apart."""
    path = join(directory, piece.name)
    rejects = Rejects()
    sources: list[Source] = []
    if piece.is_json:
        sources = [Source(path, None, 1, 0, None, None, None, span=(piece.start, piece.end))]
    else:
        try:
            plan = make_plan([path], rows_per_source=_ROWS_PER_CHUNK)
        except TraceFormatError as error:
            rejects.add(path, 0, str(error))
        else:
            sources = plan.sources
            for bad in plan.quarantined:
                rejects.add(bad.file, bad.line, bad.reason)
    for source in sources:
        try:
            columns = load([source], rejects, also=_ALSO)
        except OSError as error:
            rejects.add(path, 0, f"unreadable: {error.strerror or error}")
            continue
        if len(columns):
            yield from _condense(piece.name, columns, rejects)
    if rejects.count:
        reasons = [f"line {bad.line}: {bad.reason}" if bad.line else bad.reason for bad in rejects.named[:_REASONS_MAX]]
        yield Quarantine(piece.name, rejects.count, reasons)


def _condense(file: str, columns: Columns, rejects: Rejects) -> Iterator[Chunk]:
    """The chunks of what was loaded from one file."""
    wide = (columns.ints["number"] != NOTHING) & ((columns.ints["number"] < 0) | (columns.ints["number"] >= 1 << NUMBER_BITS))
    if wide.any():
        for number in columns.ints["number"][wide].tolist():
            rejects.add(file, 0, f"number {number} is out of range")
        columns = columns.take(~wide)
    runs, processes = columns.codes["run"], columns.codes["process"]
    owner = (runs.astype(np.int64) + 1) * len(columns.words["process"]) + processes
    for which in np.unique(owner):
        rows = np.flatnonzero(owner == which)
        steps = columns.ints["step"][rows]
        if (np.diff(steps) <= 0).any():
            rows = rows[np.argsort(steps, kind="stable")]
            steps = columns.ints["step"][rows]
            again = np.concatenate(([False], np.diff(steps) == 0))
            for step in steps[again].tolist():
                rejects.add(file, 0, f"step {step} occurs more than once")
            rows = rows[~again]
        yield _chunk(file, columns, rows, rejects)


def _chunk(file: str, columns: Columns, rows: Array, rejects: Rejects) -> Chunk:
    def text(name: str) -> str:
        code = columns.codes[name][rows[0]]
        return columns.words[name][code] if code >= 0 else ""

    steps = columns.ints["step"][rows]
    kinds = np.array([KIND[word] for word in columns.words["kind"]], dtype=np.int8)[columns.codes["kind"][rows]]
    views, view_codes = _views(columns, rows)
    protocol_rows = rows[np.isin(kinds, [KIND["deliver"], KIND["view"], KIND["switch"]])]
    protocols = {columns.words["protocol"][code] for code in np.unique(columns.codes["protocol"][protocol_rows]) if code >= 0}
    members: dict[int, list[str]] = {}
    if "members" in columns.table.column_names:
        found = columns.table.column("members")
        for at in np.flatnonzero(kinds == KIND["view"]):
            named = found[int(rows[at])].as_py()
            if named is not None:
                members[int(steps[at])] = named
    return Chunk(
        run=text("run"),
        process=text("process"),
        file=file,
        step=steps.tobytes(),
        time=_times(columns, rows).tobytes(),
        kind=kinds.tobytes(),
        origin=columns.codes["origin"][rows].astype(np.int32).tobytes(),
        number=columns.ints["number"][rows].tobytes(),
        view=view_codes.tobytes(),
        origins=columns.words["origin"],
        views=views,
        members=members,
        protocols=sorted(protocols),
        sparse=rejects.count == 0 and bool(steps[-1] - steps[0] + 1 != len(steps)),
    )


def _views(columns: Columns, rows: Array) -> tuple[list[tuple[int, str]], Array]:
    epochs, proposers = columns.ints["view_epoch"][rows], columns.codes["view_proposer"][rows]
    words = columns.words["view_proposer"]
    pairs, codes = np.unique(np.stack((epochs, proposers.astype(np.int64))), axis=1, return_inverse=True)
    views = [(int(epoch), words[code] if code >= 0 else "") for epoch, code in pairs.T.tolist()]
    codes = codes.reshape(-1).astype(np.int32)
    codes[epochs == NOTHING] = -1
    return views, codes


def _times(columns: Columns, rows: Array) -> Array:
    if "time" not in columns.table.column_names:
        return np.full(len(rows), NOTHING, dtype=np.int64)
    column = columns.table.column("time").fill_null(NOTHING)
    return np.asarray(column.cast("int64"), dtype=np.int64)[rows]


class Rows:
    """The arrays of a chunk, opened; with codes of origins that mean the same in all chunks."""

    def __init__(self, chunk: Chunk, codes: dict[str, int]) -> None:
        self.file = chunk.file
        self.step = chunk.steps
        self.time = np.frombuffer(chunk.time, dtype=np.int64)
        self.kind = np.frombuffer(chunk.kind, dtype=np.int8)
        self.number = np.frombuffer(chunk.number, dtype=np.int64)
        self.view = np.frombuffer(chunk.view, dtype=np.int32)
        self.views = chunk.views
        self.members = chunk.members
        known = np.array([codes.setdefault(name, len(codes)) for name in chunk.origins] + [-1], dtype=np.int64)
        self.origin = known[np.frombuffer(chunk.origin, dtype=np.int32)]

    @property
    def key(self) -> Array:
        """The message of each row as one integer."""
        return (self.origin << NUMBER_BITS) | self.number


def after(chunk: Chunk, step: int) -> Chunk | None:
    """The rows of a chunk that come after a step; None if there are none."""
    first = int(np.searchsorted(chunk.steps, step, side="right"))
    if first == 0:
        return chunk
    if first == len(chunk.steps):
        return None
    widths = {"step": 8, "time": 8, "kind": 1, "origin": 4, "number": 8, "view": 4}
    return msgspec.structs.replace(chunk, **{name: getattr(chunk, name)[first * width :] for name, width in widths.items()})


def interleaved(one: Chunk, other: Chunk) -> Chunk:
    """The rows of two chunks of a process whose steps overlap, in order; of two rows with one step the first stays."""
    codes: dict[str, int] = {}
    views: dict[tuple[int, str], int] = {}
    parts = []
    for chunk in (one, other):
        rows = Rows(chunk, codes)
        renamed = np.array([views.setdefault(view, len(views)) for view in chunk.views] + [-1], dtype=np.int32)
        parts.append((rows.step, rows.time, rows.kind, rows.origin.astype(np.int32), rows.number, renamed[rows.view]))
    step, time, kind, origin, number, view = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    _, order = np.unique(step, return_index=True)
    return msgspec.structs.replace(
        one,
        **{
            name: column[order].tobytes()
            for name, column in zip(
                ("step", "time", "kind", "origin", "number", "view"), (step, time, kind, origin, number, view), strict=True
            )
        },
        origins=list(codes),
        views=list(views),
        members={**other.members, **one.members},
        protocols=sorted({*one.protocols, *other.protocols}),
        sparse=one.sparse and other.sparse and bool(step.max() - step.min() + 1 != len(order)),
    )
