"""The one trace schema: column names, their types, the kinds of event, and a typed row.

A trace holds one row per event at one process. In memory and in JSON Lines the place in the total order is one column,
`position`, a sequence of integers; in Parquet it is the flat columns of `POSITION_COLUMNS`, as lists decode slowly.

Invariants: a row carries only columns that are not null; `COLUMNS` is the order in which writers lay columns out; what
the schema demands of every row is `REQUIRED`, of rows about one message also `REQUIRED_ON_MESSAGE`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypedDict

KINDS: Final = (
    "start",
    "submit",
    "send",
    "receive",
    "deliver",
    "returned",
    "flush",
    "transitional",
    "view",
    "core",
    "switch",
    "suspect",
    "trust",
    "packet",
    "fault",
    "heal",
    "stop",
    "crash",
)

MESSAGE_KINDS: Final = frozenset(("send", "receive", "deliver", "returned"))
"""Kinds whose row is about one message and therefore names it."""

REQUIRED: Final = ("process", "step", "kind")
"""Columns without which no row can be placed in a history."""

REQUIRED_ON_MESSAGE: Final = ("origin", "number")
"""Columns every row of a kind in `MESSAGE_KINDS` needs besides."""

COLUMNS: Final[Mapping[str, str]] = {
    "run": "string",
    "process": "string",
    "step": "int64",
    "time": "int64",
    "kind": "string",
    "origin": "string",
    "number": "int64",
    "view_epoch": "int64",
    "view_proposer": "string",
    "members": "list<string>",
    "position": "list<int64>",
    "protocol": "string",
    "level": "string",
    "k": "int32",
    "type": "string",
    "items": "list<string>",
    "size": "int32",
    "digest": "int64",
    "packet": "string",
    "fanout": "int32",
    "count": "int64",
    "peer": "string",
    "detail": "map<string,string>",
}

POSITION_COLUMNS: Final = ("position_0", "position_1", "position_2", "position_3")
"""What stands in Parquet in the place of `position`, outermost component first."""

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

ViewId: TypeAlias = tuple[int, str]
"""`(epoch, proposer)`."""


class Row(TypedDict, total=False):
    """One event at one process, as recorders give it and readers return it."""

    run: str
    process: str
    step: int
    time: int
    kind: str
    origin: str
    number: int
    view_epoch: int
    view_proposer: str
    members: Sequence[str]
    position: Sequence[int]
    protocol: str
    level: str
    k: int
    type: str
    items: Sequence[str]
    size: int
    digest: int
    packet: str
    fanout: int
    count: int
    peer: str
    detail: Mapping[str, str]


def parquet_columns() -> dict[str, str]:
    """Column names and types as a Parquet file has them."""
    columns: dict[str, str] = {}
    for name, kind in COLUMNS.items():
        if name == "position":
            columns.update(dict.fromkeys(POSITION_COLUMNS, "int64"))
        else:
            columns[name] = kind
    return columns
