"""Reads sources into NumPy columns: texts stay dictionary codes, positions are flat integers, bad rows are set apart.

The fast way takes columns that have the types of the schema; every other file (JSON Lines, positions as lists, columns of
wrong types) goes row by row through the same rules as `isotone.trace.reader`, and then the fast way.

Invariants: `Columns` holds only rows that the schema accepts; every other row is counted, with a reason.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from isotone.pipeline.plan import Source, filesystem
from isotone.trace.columns import require_pyarrow, table_of_rows
from isotone.trace.reader import Quarantined
from isotone.trace.schema import COLUMNS, INT64_MAX, INT64_MIN, KINDS, MESSAGE_KINDS, POSITION_COLUMNS

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

NOTHING: Final = INT64_MIN
"""Stands for a null integer; a shorter position is thereby smaller, as tuples compare."""
REASONS_MAX: Final = 100
TEXTS: Final = ("run", "process", "kind", "origin", "view_proposer", "protocol")
INTEGERS: Final = ("step", "number", "view_epoch", "digest", *POSITION_COLUMNS)
FAST: Final = (*TEXTS, *INTEGERS)
_INT = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "int32": _INT,
    "int64": _INT,
    "list<string>": list[str],
    "list<int64>": _INT | list[_INT],
    "map<string,string>": dict[str, str],
}
_LOOSE: Final = msgspec.defstruct(
    "_Loose",
    [(name, _TYPES[kind] | None, None) for name, kind in {**COLUMNS, **dict.fromkeys(POSITION_COLUMNS, "int64")}.items()],
)


@dataclass(slots=True)
class Columns:
    """Rows as arrays. A code of -1 is a null text."""

    codes: dict[str, Codes]
    words: dict[str, list[str]]
    ints: dict[str, Ints]
    table: Any
    """The Arrow table behind the arrays, row by row the same."""

    def __len__(self) -> int:
        return len(self.ints["step"])

    def take(self, rows: Any) -> "Columns":
        """The given rows, in the given order."""
        codes = {name: column[rows] for name, column in self.codes.items()}
        ints = {name: column[rows] for name, column in self.ints.items()}
        pa = require_pyarrow()
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Columns(codes, self.words, ints, self.table.take(pa.array(index)))

    def code(self, column: str, word: str) -> int:
        """The code of a word; -2, which no row has, if it does not occur."""
        words = self.words[column]
        return words.index(word) if word in words else -2


@dataclass(slots=True)
class Rejects:
    """Rows that were set apart: all counted, the first ones named."""

    count: int = 0
    named: list[Quarantined] = field(default_factory=list)

    def add(self, path: str, line: int, reason: str, count: int = 1) -> None:
        self.count += count
        if len(self.named) < REASONS_MAX:
            self.named.append(Quarantined(path, line, reason))


def load(sources: Sequence[Source], rejects: Rejects, *, every_column: bool = False) -> Columns:
    """The rows of all sources, in the order given."""
    pa = require_pyarrow()
    tables = [table for source in sources for table in _tables(source, rejects, every_column)]
    joined = pa.concat_tables(tables, promote_options="permissive") if tables else table_of_rows([])
    return _columns(joined)


def _tables(source: Source, rejects: Rejects, every_column: bool) -> Iterator[Any]:
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    files, path = filesystem(source.path)
    if source.groups is None:
        with files.open_input_stream(path) as stream:
            yield _accept_rows(source.path, _lines(source.path, stream.read(), rejects), rejects)
        return
    try:
        with files.open_input_file(path) as raw, pq.ParquetFile(raw) as file:
            known = (*COLUMNS, *POSITION_COLUMNS) if every_column else (*FAST, "position")
            wanted = [name for name in known if name in file.schema_arrow.names]
            table = file.read_row_groups(list(source.groups), columns=wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        rejects.add(source.path, source.first_row, f"unreadable rows: {first}", source.rows)
        return
    if not _plain(table):
        rows = enumerate(table.to_pylist(maps_as_pydicts="strict"), start=source.first_row)
        yield _accept_rows(source.path, rows, rejects)
        return
    good = _good(source, table, rejects)
    yield table if good is None else table.filter(good)


def _plain(table: Any) -> bool:
    """Whether the columns have the types of the schema and positions have no holes."""
    from pyarrow import types

    if "position" in table.column_names and table.column("position").null_count < table.num_rows:
        return False
    for name in FAST:
        if name not in table.column_names:
            if name in ("process", "step", "kind", "origin", "number"):
                return False
            continue
        kind = table.schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        fits = types.is_string(kind) or types.is_large_string(kind) if name in TEXTS else types.is_signed_integer(kind)
        if not fits and table.column(name).null_count < table.num_rows:
            return False
    nulls = [table.column(name).null_count if name in table.column_names else table.num_rows for name in POSITION_COLUMNS]
    return nulls == sorted(nulls)


def _good(source: Source, table: Any, rejects: Rejects) -> Any:
    """Which rows the schema accepts; None if all."""
    import pyarrow.compute as pc

    needed = [table.column(name) for name in ("process", "step", "kind")]
    kinds, words = _text(table.column("kind"), table.num_rows)
    known = np.array([word in KINDS for word in words] + [False])[kinds]
    about = np.array([word in MESSAGE_KINDS for word in words] + [False])[kinds]
    named = np.ones(table.num_rows, dtype=np.bool_)
    for name in ("origin", "number"):
        if table.column(name).null_count:
            named &= np.asarray(pc.is_valid(table.column(name)))
    whole = np.ones(table.num_rows, dtype=np.bool_)
    for column in needed:
        if column.null_count:
            whole &= np.asarray(pc.is_valid(column))
    good = whole & known & (named | ~about)
    if good.all():
        return None
    for index in np.flatnonzero(~good):
        row = table.slice(int(index), 1).to_pylist()[0]
        rejects.add(source.path, source.first_row + int(index), _objection(row) or "malformed row")
    return require_pyarrow().array(good)


def _lines(path: str, text: bytes, rejects: Rejects) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield number, msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            rejects.add(path, number, f"broken JSON: {error}")


def _accept_rows(path: str, rows: Iterator[tuple[int, Any]], rejects: Rejects) -> Any:
    accepted: list[Any] = []
    for number, given in rows:
        try:
            loose = msgspec.convert(given, _LOOSE)
        except msgspec.ValidationError as error:
            rejects.add(path, number, f"wrong type: {error}")
            continue
        row = {name: value for name, value in msgspec.structs.asdict(loose).items() if value is not None}
        reason = _objection(row)
        place = row.get("position")
        if place is None:
            place = [row[name] for name in POSITION_COLUMNS if name in row]
        elif isinstance(place, int):
            place = [place]
        if reason is None and len(place) > len(POSITION_COLUMNS):
            reason = f"position with more than {len(POSITION_COLUMNS)} components"
        if reason is not None:
            rejects.add(path, number, reason)
            continue
        row["position"] = place
        accepted.append(row)
    return table_of_rows(accepted)


def _objection(row: dict[str, Any]) -> str | None:
    for column in ("process", "step", "kind"):
        if row.get(column) is None:
            return f"missing column {column}"
    kind = row["kind"]
    if kind not in KINDS:
        return f"unknown kind {kind!r}"
    for column in ("origin", "number") if kind in MESSAGE_KINDS else ():
        if row.get(column) is None:
            return f"missing column {column} on {kind}"
    return None


def _columns(table: Any) -> Columns:
    rows = table.num_rows
    names = set(table.column_names)
    codes: dict[str, Codes] = {}
    words: dict[str, list[str]] = {}
    for name in TEXTS:
        codes[name], words[name] = _text(table.column(name) if name in names else None, rows)
    ints = {name: _integers(table.column(name) if name in names else None, rows) for name in INTEGERS}
    return Columns(codes, words, ints, table)


def _text(column: Any, rows: int) -> tuple[Codes, list[str]]:
    """Codes and their words, each word once."""
    from pyarrow import types

    if column is None or column.null_count == rows:
        return np.full(rows, -1, dtype=np.int32), []
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if hasattr(whole, "num_chunks") else whole
    words = whole.dictionary.to_pylist()
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    distinct = {word: place for place, word in enumerate(dict.fromkeys(words))}
    if len(distinct) < len(words):
        codes = np.array([distinct[word] for word in words] + [-1], dtype=np.int32)[codes]
    return codes, list(distinct)


def _integers(column: Any, rows: int) -> Ints:
    import pyarrow as pa

    if column is None or column.null_count == rows:
        return np.full(rows, NOTHING, dtype=np.int64)
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    return np.asarray(column.fill_null(NOTHING) if column.null_count else column)
