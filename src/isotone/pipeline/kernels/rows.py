"""The slow way into a table: rows that must be looked at one by one, from JSON Lines or from columns of unexpected types.

The rules are those of `isotone.trace.reader`. JSON Lines are decoded many lines at a time; only a stretch with a bad line in
it is decoded line by line, to find the reason.

Invariant: every row is in the table or counted in `Rejects` with its place and reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec

from isotone.trace.columns import arrow_schema, require_pyarrow
from isotone.trace.reader import Quarantined
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
)

REASONS_MAX: Final = 100
BYTES_AT_ONCE: Final = 1 << 22
READ_ON: Final = 1 << 16
TYPES: Final[dict[str, str]] = {**COLUMNS, **dict.fromkeys(POSITION_COLUMNS, "int64")}
_INT = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_PYTHON: Final[dict[str, Any]] = {
    "string": str,
    "int32": Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)],
    "int64": _INT,
    "list<string>": list[str],
    "list<int64>": _INT | list[_INT],
    "map<string,string>": dict[str, str],
}
_LOOSE: Final = msgspec.defstruct("_Loose", [(name, _PYTHON[kind] | None, None) for name, kind in TYPES.items()], gc=False)
_DECODER: Final = msgspec.json.Decoder(_LOOSE)
_KINDS: Final = frozenset(KINDS)
_STRINGS: Final = frozenset(name for name, kind in TYPES.items() if kind == "string")
_DEPTH: Final = len(POSITION_COLUMNS)
_FLAT: Final = attrgetter(*POSITION_COLUMNS)


@dataclass(slots=True)
class Rejects:
    """Rows that were set apart: all counted, the first ones named."""

    count: int = 0
    named: list[Quarantined] = field(default_factory=list)
    named_max: int | None = REASONS_MAX

    def add(self, path: str, line: int, reason: str) -> None:
        self.count += 1
        if self.named_max is None or len(self.named) < self.named_max:
            self.named.append(Quarantined(path, line, reason))


def objection(row: Any) -> str | None:
    """Why the schema does not accept a row (a dictionary, nulls included), whose values have the right types."""
    try:
        loose = msgspec.convert(row, _LOOSE)
    except msgspec.ValidationError as error:
        return f"wrong type: {error}"
    return _objection(loose)


def table_of_values(path: str, values: Iterable[tuple[int, Any]], rejects: Rejects, names: Sequence[str], numbered: bool) -> Any:
    """A table of rows given as dictionaries with their places."""

    def typed() -> Iterator[tuple[int, Any]]:
        for place, value in values:
            try:
                yield place, msgspec.convert(value, _LOOSE)
            except msgspec.ValidationError as error:
                rejects.add(path, place, f"wrong type: {error}")

    return _table(path, typed(), rejects, names, numbered)


def table_of_lines(path: str, file: Any, span: tuple[int, int], rejects: Rejects, names: Sequence[str], numbered: bool) -> Any:
    """A table of the lines of a JSON Lines file that begin in a span of its bytes."""
    pa = require_pyarrow()
    text = _text(file, *span)
    mine = Rejects(named_max=rejects.named_max)
    tables: list[Any] = []
    start, place = 0, 1
    while start < len(text) or not tables:
        end = len(text) if len(text) - start <= BYTES_AT_ONCE else text.find(b"\n", start + BYTES_AT_ONCE) + 1 or len(text)
        some = text[start:end]
        lines = some.count(b"\n") + (not some.endswith(b"\n"))
        rows = _all_at_once(some, lines)
        given = _one_by_one(path, some, place, mine) if rows is None else enumerate(rows, start=place)
        tables.append(_table(path, given, mine, names, numbered))
        start, place = end, place + lines
    table = pa.concat_tables(tables)
    ahead = _lines_before(file, span[0]) if numbered or mine.named else 0
    if numbered and ahead:
        lines_ = pa.array([line + ahead for line in table.column("line").to_pylist()], type=pa.int64())
        table = table.set_column(table.column_names.index("line"), "line", lines_)
    for bad in mine.named:
        rejects.add(bad.file, bad.line + ahead, bad.reason)
    rejects.count += mine.count - len(mine.named)
    return table


def _text(file: Any, start: int, end: int) -> bytes:
    """The lines that begin in the span, the last one to its end."""
    before = max(0, start - 1)
    text: bytes = file.read_at(end - before, before)
    if start:
        text = text[text.find(b"\n") + 1 or len(text) :]
    while text and not text.endswith(b"\n"):
        more: bytes = file.read_at(READ_ON, end)
        if not more:
            break
        text, end = text + more[: more.find(b"\n") + 1 or len(more)], end + len(more)
    return text


def _lines_before(file: Any, start: int) -> int:
    """How many lines begin before this place."""
    lines, place, last = 0, 0, b"\n"
    while place < start:
        some: bytes = file.read_at(min(BYTES_AT_ONCE, start - place), place)
        lines, place, last = lines + some.count(b"\n"), place + len(some), some[-1:]
    return lines if last == b"\n" else lines + 1


def _all_at_once(text: bytes, lines: int) -> list[Any] | None:
    """The rows, if every line is one object that the types fit.

    The decoder does not care for lines. But if lines begin with { and end with }, no object can go on in the next line, so
    as many objects as lines are one each.
    """
    if not text.startswith(b"{") or not text.rstrip(b"\n").endswith(b"}") or text.count(b"}\n{") != lines - 1:
        return None
    try:
        rows = _DECODER.decode_lines(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return rows if len(rows) == lines else None


def _one_by_one(path: str, text: bytes, first: int, rejects: Rejects) -> Iterator[tuple[int, Any]]:
    for place, line in enumerate(text.split(b"\n"), start=first):
        if not line or line.isspace():
            continue
        try:
            yield place, _DECODER.decode(line)
        except msgspec.ValidationError as error:
            rejects.add(path, place, f"wrong type: {error}")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            rejects.add(path, place, f"broken JSON: {error}")


def _table(path: str, given: Iterable[tuple[int, Any]], rejects: Rejects, names: Sequence[str], numbered: bool) -> Any:
    pa = require_pyarrow()
    rows: list[Any] = []
    places: list[int] = []
    positions: list[tuple[int | None, ...]] = []
    for place, row in given:
        reason = _objection(row)
        position = row.position
        if isinstance(position, int):
            position = (position,)
        elif position is None:
            position = _FLAT(row)
            if None in position:
                position = [part for part in position if part is not None]
        if reason is None and len(position) > _DEPTH:
            reason = f"position with more than {_DEPTH} components"
        if reason is not None:
            rejects.add(path, place, reason)
            continue
        rows.append(row)
        places.append(place)
        positions.append((*position, *(None,) * (_DEPTH - len(position))))
    flat = {name: [position[depth] for position in positions] for depth, name in enumerate(POSITION_COLUMNS)}
    columns: dict[str, Any] = {}
    for column in arrow_schema():
        if column.name in flat:
            values: Any = flat[column.name]
        elif column.name in names:
            values = list(map(attrgetter(column.name), rows))
        else:
            continue
        if column.name == "detail":
            values = [None if value is None else list(value.items()) for value in values]
        if column.name in _STRINGS:
            columns[column.name] = pa.array(values, type=pa.string()).dictionary_encode()
        else:
            columns[column.name] = pa.array(values, type=column.type)
    if numbered:
        columns["line"] = pa.array(places, type=pa.int64())
    return pa.table(columns)


def _objection(row: Any) -> str | None:
    for column in REQUIRED:
        if getattr(row, column) is None:
            return f"missing column {column}"
    kind = row.kind
    if kind not in _KINDS:
        return f"unknown kind {kind!r}"
    if kind in MESSAGE_KINDS:
        for column in REQUIRED_ON_MESSAGE:
            if getattr(row, column) is None:
                return f"missing column {column} on {kind}"
    return None
