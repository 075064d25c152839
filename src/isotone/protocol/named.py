"""Parts that are found by their names, and that a user can add to: orderers, ATOP's policies, switching policies."""

from __future__ import annotations

from typing import ClassVar, Generic, Protocol, TypeVar

from isotone.model.errors import ConfigError, unknown


class _Part(Protocol):
    name: ClassVar[str]


P = TypeVar("P", bound=_Part)


class Named(Generic[P]):
    """All classes of one kind, by name. `kind` is what one is called, and `asked` what it is called where it is asked for."""

    def __init__(self, kind: str, asked: str, *reserved: str) -> None:
        self._kind = kind
        self._asked = asked
        self._reserved = reserved
        self._known: dict[str, type[P]] = {}

    def register(self, part: type[P]) -> None:
        """Make a class known by its name; the same one may be registered again."""
        if part.name in self._reserved:
            raise ConfigError(f"{self._kind} cannot be named {part.name!r}: the name has a meaning of its own")
        if self._known.setdefault(part.name, part) is not part:
            raise ConfigError(f"{self._kind} named {part.name!r} is registered already")

    def find(self, name: str) -> type[P]:
        """The class of that name."""
        part = self._known.get(name)
        if part is None:
            raise unknown(self._asked, name, (*self._known, *self._reserved))
        return part

    def names(self) -> list[str]:
        """All names."""
        return sorted(self._known)
