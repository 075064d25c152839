"""Reads traces: Parquet and JSON Lines, ours and other people's.

Every row is either returned, in one normal form, or quarantined with its place and a reason: nothing disappears.
Normal form: only columns of the schema that are not null, `position` a tuple however it was written, rows of one
process (of one run) in the order of their strictly increasing `step`, runs and processes in the order of their names.
The order of rows in files and of files means nothing: `step` alone orders. What goes back is a step that the process has
had already, in a file before or further up in the same file; such a row is quarantined.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict, cast

import msgspec

from isotone.model.errors import TraceFormatError
from isotone.trace.columns import MixedSchemas, family, fits, require_pyarrow
from isotone.trace.schema import (
    COLUMNS,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    KINDS,
    MESSAGE_KINDS,
    POSITION_COLUMNS,
    REQUIRED,
    REQUIRED_ON_MESSAGE,
    Row,
)
from isotone.trace.writer import PART_SUFFIX

SUFFIXES: Final = (".parquet", ".jsonl")
STEP_BACK: Final = "step %d of %s goes back to one it has had"
"""The reason to set apart a row whose step another row of the process has."""
_KINDS: Final = frozenset(KINDS)

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row (or a piece of a file) that could not be used."""

    file: str
    line: int
    """Line of a JSON Lines file, row of a Parquet file, from 1; 0 if it is about the file as a whole."""
    reason: str


@dataclass(slots=True)
class Trace:
    """What was read."""

    rows: list[Row] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)


class _Given(TypedDict, total=False):
    """A row as files may hold it, for type checking by msgspec; columns it does not name are ignored."""

    run: str | None
    process: str | None
    step: Int64 | None
    time: Int64 | None
    kind: str | None
    origin: str | None
    number: Int64 | None
    view_epoch: Int64 | None
    view_proposer: str | None
    members: list[str] | None
    position: Int64 | list[Int64] | None
    position_0: Int64 | None
    position_1: Int64 | None
    position_2: Int64 | None
    position_3: Int64 | None
    protocol: str | None
    level: str | None
    k: Int32 | None
    type: str | None
    items: list[str] | None
    size: Int32 | None
    digest: Int64 | None
    packet: str | None
    fanout: Int32 | None
    count: Int64 | None
    peer: str | None
    detail: dict[str, str] | None


def read_trace(paths: Sequence[Path]) -> Trace:
    """Read directories (with all below them), globs and files into one trace."""
    reading = _Reading()
    for path in _find(paths, reading):
        try:
            if path.suffix == ".jsonl":
                reading.read_json_lines(path)
            else:
                reading.read_parquet(path)
        except OSError as error:
            raise TraceFormatError(f"cannot read the trace {path}: {error.strerror or error}") from error
    return reading.finish()


def _find(paths: Sequence[Path], reading: "_Reading") -> list[Path]:
    if not paths:
        raise TraceFormatError("no trace given: name a directory, a glob or files that end in .parquet or .jsonl")
    found: dict[Path, Path] = {}
    for path in paths:
        set_apart = len(reading.trace.quarantined)
        matched = list(_expand(path, reading))
        if not matched and len(reading.trace.quarantined) == set_apart:
            raise TraceFormatError(f"no trace in {path}: nothing there ends in .parquet or .jsonl")
        for match in matched:
            found.setdefault(match.resolve(), match)
    return list(found.values())


def _expand(path: Path, reading: "_Reading") -> Iterator[Path]:
    if path.is_dir():
        for inner in sorted(path.rglob("*"), key=str):
            if not inner.is_file():
                continue
            if inner.name.startswith(".") and inner.name.endswith(PART_SUFFIX):
                reading.reject(inner, 0, "unfinished file: its writer is still at work, or was killed")
            elif inner.suffix in SUFFIXES and inner.name[0] not in "._":
                yield inner
    elif path.is_file():
        if path.suffix not in SUFFIXES:
            raise TraceFormatError(f"{path} is not a trace: its name must end in .parquet or .jsonl")
        yield path
    elif has_magic(str(path)):
        for match in sorted(glob(str(path), recursive=True)):
            inner = Path(match)
            if inner.is_dir() or inner.suffix in SUFFIXES:
                yield from _expand(inner, reading)
    else:
        raise TraceFormatError(f"no trace at {path}: there is no such file or directory")


class _Reading:
    """One pass over files: rows are collected per run and process, file by file, and put in order at the end."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._decode = msgspec.json.Decoder(_Given).decode
        self._pieces: dict[tuple[str, str], list[tuple[Path, list[tuple[int, Row]]]]] = {}
        self._schemas = MixedSchemas()

    def reject(self, path: Path, line: int, reason: str) -> None:
        self.trace.quarantined.append(Quarantined(str(path), line, reason))

    def read_json_lines(self, path: Path) -> None:
        pieces: dict[tuple[str, str], list[tuple[int, Row]]] = {}
        with path.open("rb") as file:
            for line, text in enumerate(file, start=1):
                if text.isspace():
                    continue
                try:
                    given = self._decode(text.rstrip(b"\r\n"))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    self.reject(path, line, _json_reason(error))
                    continue
                self._accept(path, line, cast(dict[str, Any], given), pieces)
        self._keep(path, pieces)

    def read_parquet(self, path: Path) -> None:
        pa = require_pyarrow()
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            self.reject(path, 0, f"unreadable Parquet file: {_first_line(error)}")
            return
        self._schemas.add(str(path), file.schema_arrow)
        wanted = [name for name in (*COLUMNS, *POSITION_COLUMNS) if name in file.schema_arrow.names]
        pieces: dict[tuple[str, str], list[tuple[int, Row]]] = {}
        first = 1
        with file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                try:
                    table = file.read_row_group(group, columns=wanted)
                    given = list(_rows_of(table))
                except (pa.ArrowException, OSError, ValueError) as error:
                    self.reject(path, first, f"unreadable rows {first} to {first + count - 1}: {_first_line(error)}")
                else:
                    typed = _well_typed(table)
                    for line, row in enumerate(given, start=first):
                        try:
                            if not typed:
                                msgspec.convert(row, _Given)
                        except msgspec.ValidationError as error:
                            self.reject(path, line, f"wrong type: {error}")
                        else:
                            self._accept(path, line, row, pieces)
                first += count
        self._keep(path, pieces)

    def _accept(self, path: Path, line: int, given: dict[str, Any], pieces: dict[tuple[str, str], list[tuple[int, Row]]]) -> None:
        row = {name: value for name, value in given.items() if value is not None}
        reason = _objection(row)
        if reason is not None:
            self.reject(path, line, reason)
            return
        _normalise_position(row)
        if len(row.get("position", ())) > len(POSITION_COLUMNS):
            self.reject(path, line, f"position with more than {len(POSITION_COLUMNS)} components")
            return
        pieces.setdefault((row.get("run", ""), row["process"]), []).append((line, cast(Row, row)))

    def _keep(self, path: Path, pieces: Mapping[tuple[str, str], list[tuple[int, Row]]]) -> None:
        for key, rows in pieces.items():
            self._pieces.setdefault(key, []).append((path, rows))

    def finish(self) -> Trace:
        for key in sorted(self._pieces):
            last: int | None = None
            rows = [(path, line, row) for path, piece in self._pieces[key] for line, row in piece]
            for path, line, row in sorted(rows, key=lambda one: one[2]["step"]):
                step = row["step"]
                if step == last:
                    self.reject(path, line, STEP_BACK % (step, key[1]))
                    continue
                last = step
                self.trace.rows.append(row)
        return self.trace


def _objection(row: Mapping[str, Any]) -> str | None:
    for column in REQUIRED:
        if column not in row:
            return f"missing column {column}"
    kind = row["kind"]
    if kind not in _KINDS:
        return f"unknown kind {kind!r}"
    if kind in MESSAGE_KINDS:
        for column in REQUIRED_ON_MESSAGE:
            if column not in row:
                return f"missing column {column} on {kind}"
    return None


def _normalise_position(row: dict[str, Any]) -> None:
    flat = [row.pop(name, None) for name in POSITION_COLUMNS]
    position = row.get("position")
    if position is None:
        position = [part for part in flat if part is not None]
        if not position:
            return
    row["position"] = (position,) if isinstance(position, int) else tuple(position)


def _well_typed(table: Any) -> bool:
    """Whether the columns have simple types of the schema, so that no single row can be of a wrong type."""
    simple = {**COLUMNS, **dict.fromkeys(POSITION_COLUMNS, "int64")}
    return all(
        (simple[column.name] in ("string", "int32", "int64") and fits(family(column.type), simple[column.name]))
        or table.column(column.name).null_count == table.num_rows
        for column in table.schema
    )


def _rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table without its nulls."""
    columns = [
        (name, _values(table.column(name))) for name in table.column_names if table.column(name).null_count < table.num_rows
    ]
    for index in range(table.num_rows):
        yield {name: values[index] for name, values in columns if values[index] is not None}


def _values(column: Any) -> list[Any]:
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return cast(list[Any], column.to_pylist(maps_as_pydicts="strict"))
    values: list[Any] = []
    for chunk in column.chunks:
        words = chunk.dictionary.to_pylist()
        values.extend(None if code is None else words[code] for code in chunk.indices.to_pylist())
    return values


def _json_reason(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"wrong type: {error}"
    return f"broken JSON: {error}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
