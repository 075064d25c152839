"""Conflict relations: which messages must keep their order among each other, and which may pass.

A message has a *type* (its operation) and *items* (the data it touches); both are the application's words. A relation looks at
one of them or at both:

- by *item*: two messages conflict if they share an item;
- by *operation*: two messages conflict if the table says so for their types;
- by *both*: they conflict if the table says so for their types and they share an item; a second table holds the pairs that
  conflict whatever their items are.

Without a relation everything conflicts. What a message does not say counts as the worst: a null type conflicts with everything
where types are looked at, null items where items are. An empty list of items touches nothing.

Invariants: tables are closed symmetrically; a relation need not be transitive nor reflexive; every type a table names is
declared (as a key of `[operations]` or `[always]`); two relations that say the same have the same digest.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from isotone.model.errors import ConfigError, unknown

By: TypeAlias = Literal["everything", "item", "operation", "both"]
Pair: TypeAlias = tuple[str, str]

KEYS: Final = ("by", "operations", "always")
WAYS: Final[tuple[By, ...]] = ("item", "operation", "both")


@dataclass(frozen=True, slots=True)
class Conflicts:
    """A relation; the default conflicts with everything. Make others with `conflicts_from` or `load_conflicts`."""

    by: By = "everything"
    types: frozenset[str] = frozenset()
    pairs: frozenset[Pair] = frozenset()
    """What the table says, both ways round; with `by = "both"` only for messages that share an item."""
    always: frozenset[Pair] = frozenset()
    """With `by = "both"`: pairs that conflict whatever their items are, both ways round."""

    def conflict(
        self, type_a: str | None, items_a: Sequence[str] | None, type_b: str | None, items_b: Sequence[str] | None
    ) -> bool:
        """Whether two messages must keep their order."""
        if self.by == "everything":
            return True
        if self.by == "item":
            return _share(items_a, items_b)
        if type_a is None or type_b is None:
            return True
        for name in (type_a, type_b):
            if name not in self.types:
                raise unknown("message type", name, self.types)
        pair = (type_a, type_b)
        if self.by == "operation":
            return pair in self.pairs
        return pair in self.always or (pair in self.pairs and _share(items_a, items_b))

    def validate(self, type_: str | None, items: Sequence[str] | None) -> None:
        """Raise `ConfigError` if a message's type is not declared, or one of its items has no name."""
        if type_ is not None and self.by in ("operation", "both") and type_ not in self.types:
            raise unknown("message type", type_, self.types)
        if items is not None and self.by in ("item", "both") and not all(items):
            raise ConfigError("an item of a message has no name: items are texts that are not empty")

    @property
    def digest(self) -> str:
        """The same for relations that say the same, on every machine and in every version of Python."""
        content = {
            "by": self.by,
            "types": sorted(self.types),
            "pairs": sorted(map(list, self.pairs)),
            "always": sorted(map(list, self.always)),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load_conflicts(path: str | PathLike[str]) -> Conflicts:
    """Read a relation from a TOML file; `docs/conflicts.md` describes the format."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the conflict file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"conflict file {file}: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"conflict file {file}: {error}") from None
    try:
        return conflicts_from(content)
    except ConfigError as error:
        raise ConfigError(f"conflict file {file}: {error}") from None


def conflicts_from(content: Mapping[str, Any]) -> Conflicts:
    """A relation from the content of a conflict file: `by`, and the tables `operations` and `always`."""
    for key in content:
        if key not in KEYS:
            raise unknown("key", key, KEYS)
    by = content.get("by")
    if by is None:
        raise ConfigError(f"by is missing: say one of {', '.join(WAYS)}")
    if by not in WAYS:
        raise unknown("value of by", str(by), WAYS)
    if by == "item":
        _refuse(content, ("operations", "always"), 'by = "item" looks at no types')
        return Conflicts("item")
    if by == "operation":
        _refuse(content, ("always",), 'by = "operation" looks at no items, so the table operations says it all')
    tables = {name: _table(content, name) for name in ("operations", "always")}
    if "operations" not in content:
        raise ConfigError(f'by = "{by}" needs a table operations: per type, the list of types it conflicts with')
    types = frozenset(name for table in tables.values() for name in table)
    if not types:
        raise ConfigError("the table operations declares no type")
    pairs = {name: _closed(table, types) for name, table in tables.items()}
    return Conflicts(by, types, pairs["operations"], pairs["always"])


def _refuse(content: Mapping[str, Any], keys: Iterable[str], why: str) -> None:
    for key in keys:
        if key in content:
            raise ConfigError(f"the table {key} has no place here: {why}")


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, list[str]]:
    table = content.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} must be a table: per type, the list of types it conflicts with")
    for type_, others in table.items():
        if not type_:
            raise ConfigError(f"a type in {name} has no name")
        if not isinstance(others, list) or not all(isinstance(other, str) for other in others):
            raise ConfigError(f"{name}.{type_} must be a list of types, in quotes")
    return table


def _closed(table: Mapping[str, list[str]], types: frozenset[str]) -> frozenset[Pair]:
    pairs: set[Pair] = set()
    for type_, others in table.items():
        for one, other in product((type_,), others):
            if other not in types:
                raise unknown("type", other, types)
            pairs.update(((one, other), (other, one)))
    return frozenset(pairs)


def _share(items_a: Sequence[str] | None, items_b: Sequence[str] | None) -> bool:
    return items_a is None or items_b is None or not set(items_a).isdisjoint(items_b)
