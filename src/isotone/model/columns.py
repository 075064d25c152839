"""Columns that describe the messages of a batch: their types, or their items.

Batches are long, and what they say of their messages are few different things. So a column is what is said, each once, and a byte
per message that tells which of it. It is made once, where the application hands messages in, and travels like that: what is
decoded, checked and compared are the few values, and entries are only made when somebody asks for them.

A column has one of three forms:

- *one value*, without codes: it holds for all messages, however many there are;
- *coded*: 2 to 256 different values, and a code per message;
- *full*: more different values than a byte can tell apart, without codes, one per message.

Invariants: a column that was made here has the first form that fits, and its values are in the order in which they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, compress
from typing import Generic, TypeAlias, TypeVar, overload

import msgspec

from isotone.model.errors import ConfigError, LocalProtocolError

T = TypeVar("T")

CODED_MAX = 256
_CODES = bytes(range(CODED_MAX))
_TEXTS = {str, type(None)}


class Column(msgspec.Struct, Generic[T], array_like=True, frozen=True, gc=False):
    """What is said of the messages of a batch; see the module."""

    values: list[T]
    codes: bytes = b""

    @property
    def distinct(self) -> Iterable[T]:
        """The values, each once."""
        return self.values if self.codes or len(self.values) == 1 else dict.fromkeys(self.values)

    def select(self, mask: bytes) -> Column[T]:
        """The column of some of the messages: those that have a byte here that is not 0."""
        if self.codes:
            return _used(self.values, bytes(compress(self.codes, mask)))
        return self if len(self.values) == 1 else column(list(compress(self.values, mask)))

    def only(self, chosen: Sequence[int]) -> Column[T]:
        """The column of the messages that have one of these codes, in the order in which they come; this one is coded."""
        if len(chosen) == 1:
            return Column([self.values[chosen[0]]])
        table = bytearray(CODED_MAX)
        for new, old in enumerate(chosen):
            table[old] = new
        others = bytes(code for code in range(len(self.values)) if code not in chosen)
        return Column([self.values[code] for code in chosen], self.codes.translate(table, others))

    def slice(self, start: int, end: int) -> Column[T]:
        """The column of the messages from `start` up to `end`."""
        if self.codes:
            return _used(self.values, self.codes[start:end])
        return self if len(self.values) == 1 else column(self.values[start:end])


Types: TypeAlias = Column[str | None]
Items: TypeAlias = Column[tuple[str, ...] | None]


class Entries(Sequence[T]):
    """A coded column with one entry per message, each looked up when it is asked for."""

    __slots__ = ("_codes", "_values")

    def __init__(self, column: Column[T]) -> None:
        self._values = column.values
        self._codes = column.codes

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._values[code] for code in self._codes[index]]
        return self._values[self._codes[index]]

    def __iter__(self) -> Iterator[T]:
        return map(self._values.__getitem__, self._codes)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as lists

    def __repr__(self) -> str:
        return repr(list(self))


def column(entries: Sequence[T]) -> Column[T]:
    """The column of messages that have these entries; there is at least one."""
    first = entries[0]
    if len(entries) == 1 or (entries[-1] == first and entries.count(first) == len(entries)):
        return Column([first])
    index: dict[T, int] = dict.fromkeys(entries, 0)
    values = list(index)
    if len(values) > CODED_MAX:
        return Column(list(entries))
    if len(values) == 1:
        return Column(values)
    for code, value in enumerate(values):
        index[value] = code
    return Column(values, bytes(map(index.__getitem__, entries)))


def described(
    count: int, types: Sequence[str | None] | None, items: Sequence[Sequence[str] | None] | None, named: bool = False
) -> tuple[Types | None, Items | None]:
    """The columns of `count` messages, of at least one, that the application hands in; what it may change later is copied.

    Types and items must be texts; with `named`, items that are not empty.
    """
    if (types is not None and len(types) != count) or (items is not None and len(items) != count):
        raise LocalProtocolError("types and items must have one entry per payload")
    if count == 1:
        items_copied = copied(types[0] if types else None, items[0] if items else None, named)
        return None if types is None else Column([types[0]]), None if items is None else Column([items_copied])
    if types is not None and not set(map(type, types)) <= _TEXTS:
        for type_ in types:
            copied(type_, None)
    return None if types is None else column(types), None if items is None else _items(items, named)


def copied(type_: str | None, items: Sequence[str] | None, named: bool = False) -> tuple[str, ...] | None:
    """The items of a message, which the application may change later; `ConfigError` if its type or its items are no texts."""
    if type_ is not None and not isinstance(type_, str):
        raise ConfigError(f"the type of a message is {type_!r}: must be a text")
    if items is None:
        return None
    if isinstance(items, str):
        raise ConfigError(f"the items of a message are {items!r}: must be a list of texts, not one text")
    for item in items:
        if not isinstance(item, str):
            raise ConfigError(f"an item of a message is {item!r}: must be a text")
        if named and not item:
            raise ConfigError("an item of a message has no name: items are texts that are not empty")
    return tuple(items)


def _items(entries: Sequence[Sequence[str] | None], named: bool) -> Items:
    if set(map(type, entries)) <= {list, tuple}:
        with suppress(ValueError, TypeError):  # most messages touch one item
            words = column([word for (word,) in entries])  # type: ignore[misc]  # None is none of these
            if set(map(type, words.values)) == {str} and (not named or all(words.values)):
                return Column(list(zip(words.values, strict=True)), words.codes)
    return column([copied(None, one, named) for one in entries])


def joined(one: Column[T] | None, count: int, two: Column[T] | None, more: int) -> Column[T] | None:
    """The column of `count` messages and `more` that follow; of which nothing is said, None is. A full one grows."""
    if one is None and two is None:
        return None
    one, two = one or Column([None]), two or Column([None])  # type: ignore[list-item]  # where some say nothing, T includes it
    first, second = _codes(one, count), _codes(two, more)
    if first is None:
        one.values.extend(entries(two, more))
        return one
    if second is None:
        return Column([*entries(one, count), *two.values])
    values = list(dict.fromkeys(chain(one.values, two.values)))
    if len(values) > CODED_MAX:
        return Column([*entries(one, count), *entries(two, more)])
    if len(values) == 1:
        return one
    table = bytes(map(values.index, two.values)).ljust(CODED_MAX, b"\0")
    return Column(values, first + second.translate(table))


def entries(column: Column[T], count: int) -> Sequence[T]:
    """A column with one entry for each of `count` messages."""
    if column.codes:
        return Entries(column)
    return column.values if len(column.values) == count else column.values * count


def full(column: Column[T] | None, count: int) -> Sequence[T] | None:
    """The same, if there is a column."""
    return None if column is None else entries(column, count)


def problem(column: Column[T], count: int) -> str | None:
    """What is wrong with a column that came from elsewhere, for so many messages."""
    values, codes = column.values, column.codes
    if not codes:
        return None if count and len(values) in (1, count) else f"{len(values)} values for {count} messages"
    if len(codes) != count:
        return f"{len(codes)} codes for {count} messages"
    if not 1 < len(values) <= CODED_MAX or codes.translate(None, _CODES[: len(values)]):
        return f"codes that are none of its {len(values)} values"
    return None if len(set(values)) == len(values) else "the same value twice"


def _codes(column: Column[T], count: int) -> bytes | None:
    """A code for each of so many messages; None if the column is full."""
    return column.codes or (bytes(count) if len(column.values) == 1 else None)


def _used(values: list[T], codes: bytes) -> Column[T]:
    """A coded column of which only some messages are left: without the values that nobody has."""
    used = sorted((code for code in range(len(values)) if code in codes), key=codes.find)
    made = Column(values, codes)
    return made if used == list(range(len(values))) else made.only(used)
