"""Columns that describe the messages of a batch, their types and their items: one entry per message, or a single one for all.

Most batches are of one kind. Their columns travel as one entry, which is decoded and looked at once, however long the batch is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def brief(column: list[T] | None) -> list[T] | None:
    """A column of equal entries as that one entry; any other as it is."""
    if column is None or len(column) == 1:
        return column
    first = column[0]
    if column[-1] != first or column[len(column) // 2] != first or column.count(first) != len(column):
        return column
    return [first]


def distinct(column: Sequence[T]) -> Iterable[T]:
    """The entries of a column that is not empty, each once: batches are long, and types few."""
    first = column[0]
    return (first,) if column[-1] == first and column.count(first) == len(column) else dict.fromkeys(column)


def full(column: Sequence[T] | None, count: int) -> Sequence[T] | None:
    """A column with one entry for each of `count` messages."""
    return column if column is None or len(column) == count else [column[0]] * count
