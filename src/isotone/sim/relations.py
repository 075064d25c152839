"""Draws conflict relations for the swarm, and loads whose messages have types and items that go with them.

Relations of every kind: by item, by operation (equivalences and others), by both with several items per message, predicates
that are no equivalence or say so one way round only, and none at all. Some loads name no types, or no items.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from isotone.model.conflicts import Conflicts
from isotone.sim.rand import between, chance, pick, sample, stream
from isotone.sim.workload import Phase

TYPES = ("insert", "update", "delete", "scroll", "read")
ITEMS = ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
Items = Sequence[str] | None


def _neighbours(type_a: str | None, items_a: Items, type_b: str | None, items_b: Items) -> bool:
    """Items conflict with the next ones: no equivalence, and said one way round only."""
    return items_a is None or items_b is None or any(0 <= ITEMS.index(b) - ITEMS.index(a) <= 1 for a in items_a for b in items_b)


def _long(type_a: str | None, items_a: Items, type_b: str | None, items_b: Items) -> bool:
    """Types of equal length conflict: an equivalence."""
    return len(type_a or "") == len(type_b or "")


def _never(type_a: str | None, items_a: Items, type_b: str | None, items_b: Items) -> bool:
    """Everything commutes."""
    return False


PREDICATES = {"neighbours": _neighbours, "length": _long, "never": _never}


def draw_relation(rng: Random) -> Conflicts | None:
    """A relation over `TYPES` and `ITEMS`; None: everything conflicts."""
    kind = pick(rng, ("none", "item", "item", "classes", "operation", "operation", "both", "both", "predicate", "predicate"))
    if kind == "none":
        return None
    if kind == "item":
        return Conflicts.by_item()
    if kind == "predicate":
        name = pick(rng, sorted(PREDICATES))
        return Conflicts.by_predicate(f"isotone.sim.{name}", PREDICATES[name])
    if kind == "classes":
        class_of = {name: between(rng, 0, 2) for name in TYPES}
        return Conflicts.by_operation({one: [two for two in TYPES if class_of[one] == class_of[two]] for one in TYPES})
    if kind == "operation":
        return Conflicts.by_operation(_table(rng))
    return Conflicts.by_both(_table(rng), _table(rng, 0.1))


def _table(rng: Random, share: float | None = None) -> dict[str, list[str]]:
    """So many of the pairs, of one type with itself among them; a share at random if none is given."""
    part = share if share is not None else pick(rng, (0.1, 0.3, 0.6))
    return {one: [two for two in TYPES[: index + 1] if chance(rng, part)] for index, one in enumerate(TYPES)}


def draw_described(rng: Random, phases: Sequence[Phase]) -> list[Phase]:
    """The same load with types and items of the messages: of all, of some, or none."""
    described = []
    for phase in phases:
        types = [] if chance(rng, 0.1) else sample(rng, TYPES, between(rng, 1, len(TYPES)))
        items = [] if chance(rng, 0.15) else sample(rng, ITEMS, between(rng, 1, len(ITEMS)))
        several = between(rng, 1, min(3, len(items))) if items and chance(rng, 0.4) else 1
        described.append(msgspec.structs.replace(phase, types=types, items=items, items_per_message=several))
    return described


def draw_semantic(seed: int, phases: Sequence[Phase]) -> tuple[Conflicts | None, list[Phase]]:
    """The relation of a seed, and its load described; from a stream of their own."""
    rng = stream(seed, "conflicts")
    return draw_relation(rng), draw_described(rng, phases)
