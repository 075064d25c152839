"""Conflict relations: which messages must keep their order among each other, and which may pass (paper 002, §3 and §4).

A message has a *type* (its operation) and *items* (the data it touches); both are the application's words. A relation looks at
one of them or at both:

- by *item*: two messages conflict if they share an item;
- by *operation*: two messages conflict if the table says so for their types;
- by *both*: they conflict if the table says so for their types and they share an item; a second table holds the pairs that
  conflict whatever their items are;
- by *predicate*: they conflict if a function of the application says so, asked either way round. It travels by its name and
  version; each process has the function itself.

Without a relation everything conflicts. What a message does not say counts as the worst: a null type conflicts with everything
where types are looked at, null items where items are. An empty list of items touches nothing. A predicate is told what is null,
and where it fails the two messages conflict.

Invariants: tables are closed symmetrically; a relation need not be transitive nor reflexive; every type a table names is
declared (as a key of `[operations]` or `[always]`); two relations that say the same are equal, encode to the same bytes and have
the same digest.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product, repeat
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from isotone.model.columns import Items, Types, full
from isotone.model.errors import ConfigError, unknown

By: TypeAlias = Literal["everything", "item", "operation", "both", "predicate"]
Pair: TypeAlias = tuple[str, str]
Predicate: TypeAlias = Callable[[str | None, Sequence[str] | None, str | None, Sequence[str] | None], bool]

KEYS: Final = ("by", "operations", "always")
WAYS: Final[tuple[By, ...]] = ("item", "operation", "both")

WORD_MAX: Final = 255
TABLE_BYTES: Final = 65_536
"""A relation goes with every probe and every view change."""

_PREDICATES: dict[tuple[str, str], Predicate] = {}
"""The application's functions, by name and version."""


class Conflicts(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A relation; the default conflicts with everything. Make others with the class methods, or `load_conflicts`."""

    by: By = "everything"
    types: tuple[str, ...] = ()
    """All there are, sorted."""
    pairs: tuple[Pair, ...] = ()
    """What the table says, both ways round, sorted; with `by = "both"` only for messages that share an item."""
    always: tuple[Pair, ...] = ()
    """With `by = "both"`: pairs that conflict whatever their items are, both ways round, sorted."""
    name: str = ""
    """With `by = "predicate"`: of the function."""
    version: str = ""

    @classmethod
    def by_item(cls) -> Conflicts:
        """Two messages conflict if they share an item."""
        return cls("item")

    @classmethod
    def by_operation(cls, operations: Mapping[str, Iterable[str]]) -> Conflicts:
        """Two messages conflict if the table says so for their types; its keys are all types there are."""
        return conflicts_from({"by": "operation", "operations": _lists(operations)})

    @classmethod
    def by_both(cls, operations: Mapping[str, Iterable[str]], always: Mapping[str, Iterable[str]] | None = None) -> Conflicts:
        """Two messages conflict if the table says so and they share an item, or if `always` says so."""
        return conflicts_from({"by": "both", "operations": _lists(operations), "always": _lists(always or {})})

    @classmethod
    def by_predicate(cls, name: str, function: Predicate, version: str = "") -> Conflicts:
        """Two messages conflict if `function(type_a, items_a, type_b, items_b)` says so, or with the two exchanged.

        It must say the same in every process and at any time. Processes compare the name and the version, not the function.
        """
        words = isinstance(name, str) and isinstance(version, str)
        if not words or not name or len(name) > WORD_MAX or len(version) > WORD_MAX:
            raise ConfigError(f"a conflict predicate needs a name, and a version if you like: texts up to {WORD_MAX} long")
        if not callable(function):
            raise ConfigError(f"the function of conflict predicate {name!r} is {function!r}: it cannot be called")
        if _PREDICATES.setdefault((name, version), function) is not function:
            raise ConfigError(f"another function is known already as the {cls('predicate', name=name, version=version).title}")
        return cls("predicate", name=name, version=version)

    def conflict(
        self, type_a: str | None, items_a: Sequence[str] | None, type_b: str | None, items_b: Sequence[str] | None
    ) -> bool:
        """Whether two messages must keep their order."""
        by = self.by
        if by == "item":
            return _share(items_a, items_b)
        if by == "everything":
            return True
        if by == "predicate":
            function = self.function
            try:
                return bool(function(type_a, items_a, type_b, items_b) or function(type_b, items_b, type_a, items_a))
            except Exception:  # it says nothing, here as in every other process: the worst
                return True
        if type_a is None or type_b is None:
            return True
        table = self.table
        for name in (type_a, type_b):
            if name not in table:
                raise unknown("message type", name, table)
        found = table[type_a].get(type_b)
        return found is not None and (found or _share(items_a, items_b))

    def validate(self, type_: str | None, items: Sequence[str] | None) -> None:
        """Raise `ConfigError` if a type is not declared, an item has no name, or the predicate fails for such a message."""
        by = self.by
        if by in ("operation", "both") and type_ is not None and type_ not in self.table:
            raise unknown("message type", type_, self.table)
        if items is not None and by in ("item", "both", "predicate"):
            if isinstance(items, str):
                raise ConfigError(f"the items of a message are {items!r}: must be a list of texts, not one text")
            for item in items:
                if not isinstance(item, str) or not item:
                    raise ConfigError("an item of a message has no name: items are texts that are not empty")
        if by == "predicate":
            function = self.function
            try:
                function(type_, items, type_, items)
            except Exception as error:
                raise ConfigError(f"{self.title} fails for type {type_!r} and items {items!r}: {error}") from error

    @property
    def by_name(self) -> bool:
        """Whether it looks at items: then they must have names."""
        return self.by in ("item", "both", "predicate")

    def validate_all(self, count: int, types: Types | None, items: Items | None) -> None:
        """`validate` for so many messages, given as columns whose items are all right."""
        if self.by == "predicate":
            columns = full(types, count) or repeat(None, count), full(items, count) or repeat(None, count)
            for type_, some in dict.fromkeys(zip(*columns, strict=True)):
                self.validate(type_, some)
        elif types is not None and (count > 1 or types.values[0] not in self.table):  # few calls for one message
            self.validate_types(types)

    def validate_types(self, types: Types | None) -> None:
        """Raise `ConfigError` if one of these types is not declared."""
        if types is not None and self.types:
            table = self.table
            for type_ in types.distinct:
                if type_ is not None and type_ not in table:
                    raise unknown("message type", type_, table)

    @cached_property
    def table(self) -> dict[str, dict[str, bool]]:
        """Per type, those that it conflicts with, and whether that is so whatever their items are."""
        table: dict[str, dict[str, bool]] = {name: {} for name in self.types}
        for one, other in self.pairs:
            table[one][other] = self.by == "operation"
        for one, other in self.always:
            table[one][other] = True
        return table

    @cached_property
    def function(self) -> Predicate:
        """The function behind a predicate; `ConfigError` if this process does not have it."""
        function = _PREDICATES.get((self.name, self.version))
        if function is None:
            raise ConfigError(f"the {self.title} is not known here: make it known with Conflicts.by_predicate")
        return function

    @property
    def title(self) -> str:
        """The relation in a few words, for messages."""
        if self.by == "predicate":
            version = f", version {self.version!r}" if self.version else ""
            return f"conflict predicate {self.name!r}{version}"
        return "conflict relation that holds for everything" if self.by == "everything" else f"conflict relation by {self.by}"

    @property
    def digest(self) -> str:
        """The same for relations that say the same, on every machine and in every version of Python."""
        content: dict[str, Any] = {"by": self.by, "types": self.types, "pairs": self.pairs, "always": self.always}
        if self.by == "predicate":
            content |= {"name": self.name, "version": self.version}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def is_canonical(self) -> bool:
        """Whether the fields have the form that everything made here has."""
        tables = self.by in ("operation", "both")
        types = set(self.types)
        for pairs in (self.pairs, self.always):
            found = set(pairs)
            if list(pairs) != sorted(found) or any((two, one) not in found or one not in types for one, two in found):
                return False
        return (
            list(self.types) == sorted(types)
            and "" not in types
            and bool(types) == tables
            and (self.by == "both" or not self.always)
            and (self.by == "predicate") == bool(self.name)
            and (self.by == "predicate" or not self.version)
        )


def difference(me: str, mine: Conflicts | None, peer: str, theirs: Conflicts | None) -> str:
    """What is not the same in two relations of two processes, in a few words; None stands for everything."""
    one, two = mine or Conflicts(), theirs or Conflicts()
    if one.by != two.by or one.by == "predicate":
        return f"{me} has the {_short(one.title)}, {peer} has the {_short(two.title)}"
    for type_ in sorted(set(one.types) ^ set(two.types)):
        has, lacks = (me, peer) if type_ in one.types else (peer, me)
        return f"type {_short(type_)!r} is declared at {has}, not at {lacks}"
    for what, here, there in (("", one.pairs, two.pairs), (" whatever their items are", one.always, two.always)):
        for pair in sorted(set(here) ^ set(there)):
            has, lacks = (me, peer) if pair in here else (peer, me)
            return f"type {_short(pair[0])!r} conflicts with {_short(pair[1])!r}{what} at {has}, not at {lacks}"
    return "they cannot be told apart"


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def named(relation: Conflicts | None) -> str:
    """A relation as a trace names it: JSON of what a conflict file would hold; None stands for everything."""
    if relation is None or relation.by == "everything":
        content: dict[str, Any] = {"by": "everything"}
    elif relation.by == "predicate":
        content = {"by": relation.by, "name": relation.name, "version": relation.version}
    elif relation.by == "item":
        content = {"by": relation.by}
    else:
        content = {"by": relation.by, "operations": _listed(relation.pairs, relation.types)}
        if relation.by == "both":
            content["always"] = _listed(relation.always, ())
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def from_name(text: str) -> Conflicts:
    """The relation that a trace names; `ConfigError` if it names none."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ConfigError("it is not a table")
        if content.get("by") == "everything":
            return Conflicts()
        if content.get("by") == "predicate":
            return msgspec.convert(content, _Named).relation
        return conflicts_from(content)
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"the trace names a conflict relation that is none: {error}") from None


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    """A predicate in a trace."""

    by: Literal["predicate"]
    name: str
    version: str = ""

    @property
    def relation(self) -> Conflicts:
        return Conflicts("predicate", name=self.name, version=self.version)


def load_conflicts(path: str | PathLike[str]) -> Conflicts:
    """Read a relation from a TOML file; `docs/conflicts.md` describes the format."""
    content = read_conflicts(path)
    try:
        return conflicts_from(content)
    except ConfigError as error:
        raise ConfigError(f"conflict file {path}: {error}") from None


def read_conflicts(path: str | PathLike[str]) -> dict[str, Any]:
    """What a conflict file holds, not yet checked."""
    file = Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the conflict file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"conflict file {file}: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"conflict file {file}: {error}") from None


def conflicts_from(content: Mapping[str, Any]) -> Conflicts:
    """A relation from the content of a conflict file: `by`, and the tables `operations` and `always`."""
    for key in content:
        if key not in KEYS:
            raise unknown("key", key, KEYS)
    by = content.get("by")
    if by is None:
        raise ConfigError(f"by is missing: say one of {', '.join(WAYS)}")
    if by == "predicate":
        raise ConfigError("a predicate is a function: declare it in Python, with Conflicts.by_predicate")
    if by == "everything":
        raise ConfigError("where everything conflicts no relation is needed: leave it out")
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
    types = tuple(sorted({name for table in tables.values() for name in table}))
    if not types:
        raise ConfigError("the table operations declares no type")
    pairs = {name: _closed(table, types) for name, table in tables.items()}
    relation = Conflicts(by, types, pairs["operations"], pairs["always"])
    size = len(msgspec.msgpack.encode(relation))
    if size > TABLE_BYTES:
        raise ConfigError(f"the tables take {size} bytes, at most {TABLE_BYTES} are possible: declare a predicate")
    return relation


def _refuse(content: Mapping[str, Any], keys: Iterable[str], why: str) -> None:
    for key in keys:
        if key in content:
            raise ConfigError(f"the table {key} has no place here: {why}")


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, list[str]]:
    table = content.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} must be a table: per type, the list of types it conflicts with")
    for type_, others in table.items():
        if not isinstance(type_, str):
            raise ConfigError(f"{type_!r} in {name} is no type: must be a text")
        if not type_:
            raise ConfigError(f"a type in {name} has no name")
        if len(type_) > WORD_MAX:
            raise ConfigError(f"a type in {name} has {len(type_)} characters: at most {WORD_MAX} are possible")
        if not isinstance(others, list) or not all(isinstance(other, str) for other in others):
            raise ConfigError(f"{name}.{type_} must be a list of types, in quotes")
    return table


def _listed(pairs: Iterable[Pair], types: Iterable[str]) -> dict[str, list[str]]:
    """Pairs as a table of a conflict file, with a key for each of these types."""
    table: dict[str, list[str]] = {name: [] for name in types}
    for one, other in pairs:
        table.setdefault(one, []).append(other)
    return table


def _lists(table: Mapping[str, Iterable[str]]) -> Any:
    """Any collections of texts as the lists of a file; what is none stays, to be refused."""
    if not isinstance(table, Mapping):
        return table
    return {
        type_: list(others) if isinstance(others, Iterable) and not isinstance(others, str) else others
        for type_, others in table.items()
    }


def _closed(table: Mapping[str, list[str]], types: tuple[str, ...]) -> tuple[Pair, ...]:
    pairs: set[Pair] = set()
    for type_, others in table.items():
        for one, other in product((type_,), others):
            if other not in types:
                raise unknown("type", other, types)
            pairs.update(((one, other), (other, one)))
    return tuple(sorted(pairs))


def _share(items_a: Sequence[str] | None, items_b: Sequence[str] | None) -> bool:
    return items_a is None or items_b is None or not set(items_a).isdisjoint(items_b)
