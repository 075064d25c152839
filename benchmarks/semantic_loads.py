"""Loads for semantic orders: which share of the messages conflicts, and with what.

- *counter*: updates among increments and decrements (paper 002, §4.2). An update conflicts with everything, the others with
  updates only. The share is that of the updates.
- *items M*: a share of the messages touches one of M items that all members use, the others touch an item of their sender.
  Two messages conflict if they touch the same.
- *types*: a share is of a type that conflicts with itself, the others are of a type that conflicts with nothing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cells import START_MS, Phase, member

from isotone.model.conflicts import Conflicts, conflicts_from

LOADS: Final = ("types", "counter", "items 1", "items 10", "items 1000")
SHARES: Final = (0.0, 0.01, 0.1, 0.5, 1.0)
RELATIONS: Final[dict[str, dict[str, Any]]] = {
    "types": {"by": "operation", "operations": {"ordered": ["ordered"], "free": []}},
    "counter": {
        "by": "operation",
        "operations": {"update": ["update", "increment", "decrement"], "increment": [], "decrement": []},
    },
    "items": {"by": "item"},
}


class Kind(NamedTuple):
    """What messages say of themselves: one of the types, and one of the items."""

    types: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


def table_of(load: str) -> dict[str, Any]:
    """The conflict relation of a load, as in a conflict file."""
    return RELATIONS[load.split()[0]]


def relation_of(load: str) -> Conflicts:
    """The conflict relation of a load."""
    return conflicts_from(table_of(load))


def kinds(load: str, sender: str) -> tuple[Kind, Kind]:
    """The messages of a sender that conflict, and those that commute."""
    name, _, amount = load.partition(" ")
    if name == "types":
        return Kind(("ordered",)), Kind(("free",))
    if name == "counter":
        return Kind(("update",)), Kind(("increment", "decrement"))
    return Kind(items=tuple(f"shared {index}" for index in range(int(amount)))), Kind(items=(f"of {sender}",))


def conflicts(load: str, type_: str | None, items: tuple[str, ...] | None) -> bool:
    """Whether a message is of the conflicting share."""
    return type_ in ("ordered", "update") if load in ("types", "counter") else bool(items and items[0].startswith("shared"))


def phases(load: str, share: float, members: int, per_second: float, messages: int) -> list[Phase]:
    """All members send at random, so many messages per second all together."""
    stop = START_MS + 1_000 * messages / per_second
    found: list[Phase] = []
    for index in range(members):
        for kind, part in zip(kinds(load, member(index)), (share, 1.0 - share), strict=True):
            if part:
                interval = 1_000 * members / per_second / part
                when = {"kind": "poisson", "interval_ms": interval, "start_ms": START_MS, "stop_ms": stop}
                found.append({**when, "members": [member(index)], "types": list(kind.types), "items": list(kind.items)})
    return found
