"""A view: an agreed membership together with the way its messages are ordered."""

from __future__ import annotations

from typing import Literal

import msgspec

from isotone.model.conflicts import Conflicts
from isotone.model.ids import ProcessId, ViewId

Level = Literal["agreed", "k", "safe"]
LEVELS: tuple[Level, ...] = ("agreed", "k", "safe")


class Ordering(msgspec.Struct, frozen=True, array_like=True):
    """How a view orders its messages. It travels in the view, so that merging components agree on it.

    `conflicts` is for semantic orders: which messages have to keep their order. None: all of them.
    `policy` names the policy that may switch the group to another order; empty for none.
    """

    order: str = "single_phase"
    level: Level = "agreed"
    k: int = 1
    options: dict[str, int | str | bool] = {}
    conflicts: Conflicts | None = None
    policy: str = ""

    @property
    def relation(self) -> Conflicts | None:
        """The relation in force; None if everything conflicts."""
        return None if self.conflicts is None or self.conflicts.by == "everything" else self.conflicts


class View(msgspec.Struct, frozen=True, array_like=True):
    """An installed membership. `members` are sorted; a member's index in it is its rank."""

    id: ViewId
    members: tuple[ProcessId, ...]
    ordering: Ordering

    @property
    def need(self) -> int:
        """How many members must hold a message, and what orders it, before it is delivered."""
        return {"agreed": 1, "k": min(self.ordering.k, len(self.members)), "safe": len(self.members)}[self.ordering.level]

    def __hash__(self) -> int:
        return hash(self.id)

    def __contains__(self, process: ProcessId) -> bool:
        return process in self.members

    def __len__(self) -> int:
        return len(self.members)
