"""Turns trace events into Arrow columns: the fast way from a recorder to Parquet.

What a batch of messages has in common (time, origin, view, …) is kept once per batch and spread over its rows by one
`take` at the end; only number, size, digest, type and items are handled per message, in C loops. Payloads are looked at
when they are added and not kept, so the memory of a builder grows with rows, not with bytes.

Invariant: a table of `ColumnBuilder` has exactly the columns and types of `arrow_schema`, in that order.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from zlib import crc32

from isotone.model.errors import ConfigError, TraceFormatError
from isotone.trace.recorder import PLAIN_EVENT_LENGTH, MessageEvent, PlainEvent, Taken
from isotone.trace.schema import COLUMNS, POSITION_COLUMNS, Row, parquet_columns

if TYPE_CHECKING:
    import pyarrow as pa

_SHARED: Final = ("time", "kind", "origin", "view_epoch", "view_proposer", "protocol", "level", "k", "peer")
_PLAIN_ONLY: Final = ("members", "packet", "fanout", "count", "detail")
_NO_INDEX: Final = -1
_NO_VIEW: Final = (None, None)

_Head: TypeAlias = tuple[
    int,
    str,
    str | None,
    int | None,
    str | None,
    str | None,
    str | None,
    int | None,
    str | None,
    tuple[int, ...],  # position prefix
    bool,  # has a number
    bool,  # has a size
    bool,  # has a digest
    Row | None,  # the fields of a plain event
]
"""What the rows of one event have in common: first the columns of `_SHARED`."""


def require_pyarrow() -> Any:
    """The pyarrow module, or one clear line if the extra is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError("Parquet traces need pyarrow: pip install 'isotone[parquet]', or write jsonl") from None
    return pyarrow


def arrow_schema() -> "pa.Schema":
    """The schema of every Parquet file of a trace; texts are dictionary-encoded."""
    pa = require_pyarrow()
    types = {
        "string": pa.dictionary(pa.int32(), pa.string()),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "list<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(name, types[kind]) for name, kind in parquet_columns().items()])


def family(kind: Any) -> str:
    """What a column's Arrow type amounts to, in the words of the schema; `null`, or Arrow's name, if the schema has no word."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return "string"
    if types.is_signed_integer(kind):
        return "int64" if kind.bit_width > 32 else "int32"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"list<{family(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{family(kind.key_type)},{family(kind.item_type)}>"
    return str(kind)


def fits(found: str, wanted: str) -> bool:
    """Whether every value of a column of the family `found` has the type `wanted` of the schema."""
    return found in (wanted, "null") or (found, wanted) in (("int32", "int64"), ("list<null>", "list<string>"))


class MixedSchemas:
    """Refuses Parquet files that disagree on the type of a column: such rows would not be rows of one trace."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, str, str]] = {}

    def add(self, file: str, schema: Any) -> None:
        """Note a file's schema; raise if a column has another type than in a file before."""
        for column in schema:
            found = family(column.type)
            rough = _rough(found)
            if (column.name not in COLUMNS and column.name not in POSITION_COLUMNS) or "null" in found:
                continue
            before, named, where = self._seen.setdefault(column.name, (rough, found, file))
            if before != rough and not (column.name == "position" and {before, rough} == {"int", "list<int>"}):
                raise TraceFormatError(f"mixed schemas: column {column.name} is {named} in {where}, but {found} in {file}")


def _rough(found: str) -> str:
    """Types whose values can stand in one column."""
    for exact, rough in (("uint", "int"), ("int8", "int"), ("int16", "int"), ("int32", "int"), ("int64", "int")):
        found = found.replace(exact, rough)
    return "map" if found.startswith(("map<", "struct<")) else found


def table_of_rows(rows: Sequence[Row]) -> "pa.Table":
    """The columns of rows that exist already."""
    pa = require_pyarrow()
    schema = arrow_schema()
    columns: dict[str, list[Any]] = {name: [] for name in parquet_columns()}
    plain = [(name, column) for name, column in columns.items() if name not in POSITION_COLUMNS]
    flat = [columns[name] for name in POSITION_COLUMNS]
    for row in cast(Sequence[Mapping[str, Any]], rows):
        for name, column in plain:
            column.append(row.get(name))
        position = _checked_position(row.get("position", ()))
        for depth, column in enumerate(flat):
            column.append(position[depth] if depth < len(position) else None)
    columns["detail"] = [list(detail.items()) if detail is not None else None for detail in columns["detail"]]
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def _checked_position(position: Sequence[int]) -> Sequence[int]:
    if len(position) > len(POSITION_COLUMNS):
        raise TraceFormatError(f"position {tuple(position)} has more than {len(POSITION_COLUMNS)} components")
    return position


class ColumnBuilder:
    """Accumulates taken events of one process until somebody asks for a table."""

    def __init__(self) -> None:
        self._pa = require_pyarrow()
        self._schema = arrow_schema()
        self._clear()

    def _clear(self) -> None:
        self._process = ""
        self._run = ""
        self._heads: list[_Head] = []
        self._batch_of = array("i")
        self._step = array("q")
        self._number = array("q")
        self._size = array("q")
        self._digest = array("q")
        self._index = array("q")
        self._type: list[str | None] = []
        self._items: list[Sequence[str] | None] = []
        self._typed = False

    def __len__(self) -> int:
        """Rows held."""
        return len(self._step)

    def add(self, taken: Taken) -> None:
        """Take the events in; a builder serves one process of one run."""
        if not taken.events:
            return
        if len(self) and (taken.process, taken.run) != (self._process, self._run):
            raise TraceFormatError(f"one builder holds {self._process} only, not {taken.process} too")
        self._process, self._run = taken.process, taken.run
        before = len(self._step)
        for event in taken.events:
            if len(event) == PLAIN_EVENT_LENGTH:
                self._add_plain(event)
            else:
                self._add_batch(event)
        self._step.extend(range(taken.first_step, taken.first_step + len(self._batch_of) - before))

    def _add_plain(self, event: PlainEvent) -> None:
        kind, time, view, given = event
        fields: Row = given or {}
        epoch, proposer = view or _NO_VIEW
        size = fields.get("size")
        protocol, level, k, peer = fields.get("protocol"), fields.get("level"), fields.get("k"), fields.get("peer")
        self._batch_of.append(len(self._heads))
        self._heads.append(
            (time, kind, None, epoch, proposer, protocol, level, k, peer, (), False, size is not None, False, given)
        )
        self._number.append(0)
        self._size.append(size or 0)
        self._digest.append(0)
        self._index.append(_NO_INDEX)
        self._type.append(None)
        self._items.append(None)

    def _add_batch(self, event: MessageEvent) -> None:
        kind, time, view, origin, first, n, payloads, prefix, index, protocol, level, k, types, items, peer = event
        epoch, proposer = view or _NO_VIEW
        full = payloads is not None
        self._batch_of.extend(repeat(len(self._heads), n))
        self._heads.append((time, kind, origin, epoch, proposer, protocol, level, k, peer, prefix or (), True, full, full, None))
        self._number.extend(range(first, first + n))
        self._size.extend(repeat(0, n) if payloads is None else map(len, payloads))
        self._digest.extend(repeat(0, n) if payloads is None else map(crc32, payloads))
        if prefix is None:
            self._index.extend(repeat(_NO_INDEX, n))
        else:
            if len(prefix) >= len(POSITION_COLUMNS):
                _checked_position((*prefix, index))
            self._index.extend(range(index, index + n))
        self._type.extend(repeat(None, n) if types is None else types)
        self._items.extend(repeat(None, n) if items is None else items)
        if types is not None or items is not None:
            self._typed = True

    def table(self) -> "pa.Table":
        """The rows held as one table; the builder is then empty."""
        pa = self._pa
        count = len(self)
        spread = self._ints(self._batch_of, pa.int32())
        heads = list(zip(*self._heads, strict=True))
        prefixes, named, sized, digested, fields = heads[len(_SHARED) :]
        columns: dict[str, Any] = {
            "run": self._constant(self._run or None, count),
            "process": self._constant(self._process, count),
            "step": self._ints(self._step, pa.int64()),
            "number": self._masked(self._number, named, spread, pa.int64()),
            "size": self._masked(self._size, sized, spread, pa.int32()),
            "digest": self._masked(self._digest, digested, spread, pa.int64()),
            **self._positions(prefixes, spread),
        }
        for name, values in zip(_SHARED, heads, strict=False):
            columns[name] = self._spread(values, self._schema.field(name).type, spread)
        for name in _PLAIN_ONLY:
            column = [None if row is None else row.get(name) for row in fields]
            if name == "detail":
                column = [None if detail is None else list(detail.items()) for detail in column]
            columns[name] = self._spread(column, self._schema.field(name).type, spread)
        for name, own in (("type", self._type), ("items", self._items)):
            wanted = self._schema.field(name).type
            columns[name] = pa.array(own, type=wanted) if self._typed else pa.nulls(count, wanted)
        table = pa.table([columns[name] for name in self._schema.names], schema=self._schema)
        self._clear()
        return table

    def _ints(self, values: "array[int]", kind: Any) -> Any:
        return self._pa.Array.from_buffers(kind, len(values), [None, self._pa.py_buffer(values)])

    def _masked(self, values: "array[int]", present: Sequence[bool], spread: Any, kind: Any) -> Any:
        pa = self._pa
        import pyarrow.compute as pc

        column = self._ints(values, pa.int64()).cast(kind)
        return column if all(present) else pc.if_else(pa.array(present).take(spread), column, pa.scalar(None, kind))

    def _spread(self, values: Sequence[Any], kind: Any, spread: Any) -> Any:
        pa = self._pa
        if values.count(None) == len(values):
            return pa.nulls(len(spread), kind)
        return pa.array(values, type=kind).take(spread)

    def _constant(self, value: str | None, count: int) -> Any:
        pa = self._pa
        if value is None:
            return pa.nulls(count, self._schema.field("run").type)
        return pa.DictionaryArray.from_arrays(self._ints(array("i", bytes(4 * count)), pa.int32()), pa.array([value]))

    def _positions(self, prefixes: Sequence[tuple[int, ...]], spread: Any) -> dict[str, Any]:
        """Component d of a row is that of its batch's prefix, or the row's own index if the prefix ends before d."""
        pa = self._pa
        import pyarrow.compute as pc

        index = self._ints(self._index, pa.int64())
        placed = pc.not_equal(index, _NO_INDEX)
        lengths = pa.array(map(len, prefixes), type=pa.int32()).take(spread)
        deepest = max(map(len, prefixes), default=0)
        columns: dict[str, Any] = {}
        for depth, name in enumerate(POSITION_COLUMNS):
            if depth > deepest:
                columns[name] = pa.nulls(len(spread), pa.int64())
                continue
            shared = [prefix[depth] if depth < len(prefix) else None for prefix in prefixes]
            own = pc.and_(pc.equal(lengths, depth), placed)
            columns[name] = pc.if_else(own, index, self._spread(shared, pa.int64(), spread))
        return columns
