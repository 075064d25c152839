"""Reads sources into NumPy columns: texts stay dictionary codes, positions are flat integers, bad rows are set apart.

The fast way takes columns that have the types of the schema; every other file (JSON Lines, columns of wrong types) goes row by
row through the same rules as `isotone.trace.reader` (`kernels.rows`), and then the fast way. A column that has one value in a
source, or only nulls, is not read if the footer's statistics say so: its array is one value, repeated without memory.

Invariants: `Columns` holds only rows that the schema accepts; every other row is counted, with a reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from isotone.pipeline.kernels.rows import TYPES, objection, table_of_lines, table_of_values
from isotone.pipeline.kernels.rows import Rejects as Rejects
from isotone.pipeline.plan import Source, filesystem
from isotone.trace.columns import family, fits, require_pyarrow, table_of_rows
from isotone.trace.schema import (
    COLUMNS,
    INT32_MAX,
    INT32_MIN,
    INT64_MIN,
    KINDS,
    MESSAGE_KINDS,
    POSITION_COLUMNS,
    REQUIRED,
    REQUIRED_ON_MESSAGE,
)

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

NOTHING: Final = INT64_MIN
"""Stands for a null integer; a shorter position is thereby smaller, as tuples compare."""
TEXTS: Final = ("run", "process", "kind", "origin", "view_proposer", "protocol")
INTEGERS: Final = ("step", "number", "view_epoch", "digest", *POSITION_COLUMNS)
FAST: Final = (*TEXTS, *INTEGERS)
EXACT_BYTES: Final = 32
"""Statistics of texts that are longer may be cut."""


@dataclass(slots=True)
class Columns:
    """Rows as arrays. A code of -1 is a null text, and the run without a name, however a file writes it.

    Arrays are read-only; one with a stride of 0 has one value throughout.
    """

    codes: dict[str, Codes]
    words: dict[str, list[str]]
    ints: dict[str, Ints]
    _table: Any
    """The Arrow table behind the arrays, without columns that were not read."""
    _picked: Any = None
    """Which rows of the Arrow table these are; None if all."""

    def __len__(self) -> int:
        return len(self.ints["step"])

    @property
    def table(self) -> Any:
        """The same rows as an Arrow table, made when it is asked for; a column that it lacks is null."""
        pa = require_pyarrow()
        if self._picked is not None:
            self._table, self._picked = self._table.take(pa.array(self._picked)), None
        for name in FAST:
            if name in self._table.column_names:
                continue
            if name in self.ints and len(self) and self.ints[name][0] != NOTHING:
                self._table = self._table.append_column(name, pa.array(self.ints[name]))
            elif self.words.get(name):
                column = pa.DictionaryArray.from_arrays(pa.array(self.codes[name]), pa.array(self.words[name], pa.string()))
                self._table = self._table.append_column(name, column)
        return self._table

    def take(self, rows: Any) -> "Columns":
        """The given rows, in the given order."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        codes = {name: pick(column, index) for name, column in self.codes.items()}
        ints = {name: pick(column, index) for name, column in self.ints.items()}
        return Columns(codes, self.words, ints, self._table, index if self._picked is None else self._picked[index])

    def slice(self, start: int, end: int) -> "Columns":
        """Neighbouring rows, without copying."""
        codes = {name: column[start:end] for name, column in self.codes.items()}
        ints = {name: column[start:end] for name, column in self.ints.items()}
        picked = np.arange(start, end) if self._picked is None else self._picked[start:end]
        return Columns(codes, self.words, ints, self._table, picked)

    def code(self, column: str, word: str) -> int:
        """The code of a word; -2, which no row has, if it does not occur."""
        words = self.words[column]
        return words.index(word) if word in words else -2


def is_constant(column: Any) -> bool:
    """Whether the array is one value, repeated; it may be so for other arrays, too."""
    return bool(column.strides[0] == 0)


def pick(column: Any, index: Any) -> Any:
    """The elements at these places."""
    return np.broadcast_to(column[:1], len(index)) if is_constant(column) and len(column) else column[index]


@dataclass(slots=True)
class _Part:
    """What was read of a source, and the columns that need no reading: their only value, which may be None."""

    table: Any
    same: dict[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.same or name in self.table.column_names

    def nulls(self, name: str) -> int:
        if name in self.table.column_names:
            return int(self.table.column(name).null_count)
        return 0 if self.same.get(name) is not None else int(self.table.num_rows)

    def text(self, name: str) -> tuple[Codes, list[str]]:
        value = self.same.get(name)
        if value is not None and (value or name != "run"):
            return np.broadcast_to(np.zeros(1, dtype=np.int32), self.table.num_rows), [value]
        column = self.table.column(name) if name in self.table.column_names else None
        return _text(column, self.table.num_rows, absent=(None, "") if name == "run" else (None,))

    def integers(self, name: str) -> Ints:
        value = self.same.get(name)
        if value is not None:
            return np.broadcast_to(np.array([value], dtype=np.int64), self.table.num_rows)
        return _integers(self.table.column(name) if name in self.table.column_names else None, self.table.num_rows)

    def columns(self) -> Columns:
        texts = {name: self.text(name) for name in TEXTS}
        codes = {name: codes for name, (codes, _) in texts.items()}
        ints = {name: self.integers(name) for name in INTEGERS}
        return Columns(codes, {name: words for name, (_, words) in texts.items()}, ints, self.table)


def load(
    sources: Sequence[Source],
    rejects: Rejects,
    *,
    every_column: bool = False,
    also: Sequence[str] = (),
    numbered: bool = False,
) -> Columns:
    """The rows of all sources, in the order given.

    Besides the columns of `FAST` the table has those of `also`, or every column. `numbered` adds the column `line`: the
    row's place in its file.
    """
    known = (*COLUMNS, *POSITION_COLUMNS) if every_column else tuple(dict.fromkeys((*FAST, "position", *also)))
    return joined([part.columns() for source in sources for part in _parts(source, rejects, known, numbered)])


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _Part(table_of_rows([])).columns()
    pa = require_pyarrow()
    return _Part(pa.concat_tables([part.table for part in parts], promote_options="permissive")).columns()


def _parts(source: Source, rejects: Rejects, known: Sequence[str], numbered: bool) -> Iterator[_Part]:
    pa = require_pyarrow()
    if source.groups is None:
        files, path = filesystem(source.path)
        with files.open_input_file(path) as file:
            yield _Part(table_of_lines(source.path, file, source.span or (0, file.size()), rejects, known, numbered))
        return
    try:
        part = _read(source, known, skipping=True)
        if not _plain(part):
            part = _read(source, known, skipping=False)
    except (pa.ArrowException, OSError) as error:
        if len(source.groups) > 1:  # what is damaged costs its own row group only
            for one in _apart(source):
                yield from _parts(one, rejects, known, numbered)
            return
        first, last = source.first_row, source.first_row + source.rows - 1
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        rejects.add(source.path, first, f"unreadable rows {first} to {last}: {words}")
        return
    if not _plain(part):
        rows = enumerate(part.table.to_pylist(maps_as_pydicts="strict"), start=source.first_row)
        yield _Part(table_of_values(source.path, rows, rejects, known, numbered))
        return
    if numbered:
        lines = np.arange(source.first_row, source.first_row + part.table.num_rows)
        part.table = part.table.append_column("line", pa.array(lines))
    good = _good(source, part, rejects)
    yield part if good is None else _Part(part.table.filter(pa.array(good)), part.same)


@lru_cache(maxsize=64)
def _footer(path: str, stamp: str) -> Any:
    """A file's metadata; `stamp` tells versions of a file apart. Parsing it for every source would cost more than reading."""
    import pyarrow.parquet as pq

    files, inner = filesystem(path)
    with files.open_input_file(inner) as raw, pq.ParquetFile(raw) as file:
        return file.metadata


def _read(source: Source, known: Sequence[str], *, skipping: bool) -> _Part:
    import pyarrow.parquet as pq

    files, path = filesystem(source.path)
    footer = _footer(source.path, source.stamp)
    groups = list(source.groups or ())
    paths = [footer.schema.column(index).path for index in range(footer.num_columns)]
    texts = [name for name in paths if TYPES.get(name) == "string"]
    remote = "://" in source.path
    with (
        files.open_input_file(path) as raw,
        pq.ParquetFile(raw, metadata=footer, read_dictionary=texts, pre_buffer=remote) as file,
    ):
        given = file.schema_arrow
        doubtful = [column.name for column in given if not fits(family(column.type), TYPES.get(column.name, ""))]
        wanted = [name for name in TYPES if name in given.names and (name in known or name in doubtful)]
        sound = [name for name in wanted if name in FAST and name != "step" and name not in doubtful]
        same = _constants(footer, groups, {name: paths.index(name) for name in sound if name in paths}) if skipping else {}
        table = file.read_row_groups(groups, columns=[name for name in wanted if name not in same], use_threads=False)
    return _unlisted(_Part(table, same))


def _constants(footer: Any, groups: Sequence[int], places: Mapping[str, int]) -> dict[str, Any]:
    """Columns with one value, or only nulls, in all the row groups.

    Smallest and largest value bound the others even where they are not exact, so if they are equal there is no other; but
    for long texts not every writer keeps to that.
    """
    found: dict[str, Any] = {}
    metadata = [footer.row_group(group) for group in groups]
    for name, place in places.items():
        values: set[Any] = set()
        for group in metadata:
            values.add(_only_value(group.column(place).statistics, group.num_rows, name in TEXTS))
            if len(values) > 1 or NotImplemented in values:
                break
        else:
            if len(values) == 1:
                found[name] = values.pop()
    return found


def _only_value(statistics: Any, rows: int, text: bool) -> Any:
    """The value that all rows have; NotImplemented if the statistics do not tell."""
    if statistics is None or not statistics.has_null_count:
        return NotImplemented
    if statistics.null_count == rows:
        return None
    if statistics.null_count or not statistics.has_min_max or statistics.min != statistics.max:
        return NotImplemented
    value = statistics.min
    sound = isinstance(value, str) and len(value.encode()) <= EXACT_BYTES if text else type(value) is int
    return value if sound else NotImplemented


def _apart(source: Source) -> Iterator[Source]:
    """One source per row group."""
    first = source.first_row
    footer = _footer(source.path, source.stamp)
    for group in source.groups or ():
        rows = footer.row_group(group).num_rows
        yield replace(source, groups=(group,), first_row=first, rows=rows)
        first += rows


def _unlisted(part: _Part) -> _Part:
    """With positions as flat columns, where they are whole numbers or lists of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = part.table
    flat = any(part.nulls(name) < table.num_rows for name in POSITION_COLUMNS)
    if "position" not in table.column_names or flat or part.nulls("position") == table.num_rows:
        return part
    column = table.column("position").combine_chunks()
    kind = family(column.type)
    if kind in ("int32", "int64"):
        flats = [column]
    elif kind in ("list<int32>", "list<int64>"):
        length = pc.list_value_length(column)
        if pc.max(length).as_py() > len(POSITION_COLUMNS) or column.flatten().null_count:
            return part
        flats = []
        for depth in range(len(POSITION_COLUMNS)):
            long = pc.fill_null(pc.greater(length, depth), False)
            index = pc.add(pc.cast(column.offsets[:-1], pa.int64()), depth)
            flats.append(pc.take(column.values, pc.if_else(long, index, pa.scalar(None, pa.int64()))))
    else:
        return part
    same = {name: value for name, value in part.same.items() if name not in POSITION_COLUMNS}
    kept = table.select([name for name in table.column_names if name != "position" and name not in POSITION_COLUMNS])
    for name, values in zip(POSITION_COLUMNS, flats, strict=False):
        kept = kept.append_column(name, values)
    return _Part(kept, same)


def _plain(part: _Part) -> bool:
    """Whether no value can be of a wrong type, but for integers that are too large, and positions have no holes."""
    table = part.table
    if not all(part.has(name) for name in (*REQUIRED, *REQUIRED_ON_MESSAGE)):
        return False
    for column in table.schema:
        if column.name != "position" and _fits(column.name, column.type):
            continue
        if table.column(column.name).null_count < table.num_rows:
            return False
    nulls = [part.nulls(name) for name in POSITION_COLUMNS]
    if nulls != sorted(nulls):
        return False
    some = [name for name, missing in zip(POSITION_COLUMNS, nulls, strict=True) if 0 < missing < table.num_rows]
    return all(_within(table.column(inner), table.column(outer)) for outer, inner in pairwise(some))


def _within(inner: Any, outer: Any) -> bool:
    """Whether one column has values only where the other one has, too."""
    import pyarrow.compute as pc

    if inner.num_chunks == outer.num_chunks == 1:  # mostly their bitmaps are the same
        one, two = inner.chunk(0), outer.chunk(0)
        if one.offset == two.offset == 0 and one.buffers()[0].equals(two.buffers()[0]):
            return True
    return not pc.any(pc.and_(pc.is_valid(inner), pc.is_null(outer))).as_py()


def _fits(name: str, kind: Any) -> bool:
    found, wanted = family(kind), TYPES.get(name)
    return wanted is None or fits(found, wanted) or (found, wanted) == ("int64", "int32")


def _good(source: Source, part: _Part, rejects: Rejects) -> Mask | None:
    """Which rows the schema accepts; None if all."""
    table = part.table
    wide = [one.name for one in table.schema if TYPES.get(one.name) == "int32" and family(one.type) == "int64"]
    kinds, words = part.text("kind")
    lacking = [name for name in (*REQUIRED, *REQUIRED_ON_MESSAGE) if part.nulls(name)]
    if not lacking and not wide and all(word in KINDS for word in words):
        return None
    known = np.array([word in KINDS for word in words] + [False])
    about = np.array([word in MESSAGE_KINDS for word in words] + [False])
    good: Mask = known[kinds]
    for name in lacking:
        valid = _valid(part, name)
        good &= valid if name in REQUIRED else valid | ~about[kinds]
    for name in wide:
        values = part.integers(name)
        good &= (values == NOTHING) | ((values >= INT32_MIN) & (values <= INT32_MAX))
    if good.all():
        return None
    for index in np.flatnonzero(~good):
        row = table.slice(int(index), 1).to_pylist(maps_as_pydicts="strict")[0]
        reason = objection({**part.same, **{name: value for name, value in row.items() if name in TYPES}})
        rejects.add(source.path, source.first_row + int(index), reason or "malformed row")
    return good


def _valid(part: _Part, name: str) -> Any:
    import pyarrow.compute as pc

    if name in part.same:
        return np.broadcast_to(np.array([part.same[name] is not None]), part.table.num_rows)
    return np.asarray(pc.is_valid(part.table.column(name)))


def _text(column: Any, rows: int, absent: Sequence[str | None]) -> tuple[Codes, list[str]]:
    """Codes and their words, each word once; what is absent has the code -1."""
    from pyarrow import types

    if column is None or column.null_count == rows:
        return np.broadcast_to(np.full(1, -1, dtype=np.int32), rows), []
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    place: dict[str, int] = {}
    codes: list[Codes] = []
    for chunk in column.chunks:
        words = chunk.dictionary.to_pylist()
        own = np.array([-1 if word in absent else place.setdefault(word, len(place)) for word in words] + [-1], dtype=np.int32)
        index = chunk.indices.fill_null(len(words)) if chunk.indices.null_count else chunk.indices
        found = np.asarray(index)
        same = found.dtype == np.int32 and not chunk.indices.null_count and bool((own[:-1] == np.arange(len(words))).all())
        codes.append(found if same else own[found])
    return codes[0] if len(codes) == 1 else np.concatenate(codes), list(place)


def _integers(column: Any, rows: int) -> Ints:
    import pyarrow as pa

    if column is None or column.null_count == rows:
        return np.broadcast_to(np.full(1, NOTHING, dtype=np.int64), rows)
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    return np.asarray(column.fill_null(NOTHING) if column.null_count else column)
