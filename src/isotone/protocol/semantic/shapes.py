"""What a cast is to the conflict relation, and how a batch is parted into casts that may pass each other.

A message is described by what the relation looks at: its type, its items, or both. A *shape* is the set of descriptions in a
cast; two casts conflict if any two of their messages do. A cast with more than a few descriptions, or with so many messages
that looking at each would cost more than it gains, has the shape `whole`, which conflicts with everything. So has every cast
of a view without a relation.

Invariants: equal sets of descriptions are one object, so shapes are compared by identity; whether two shapes conflict is asked
once as long as both live; nothing is kept of a shape that nobody refers to. Shapes depend on the cast and the relation
alone: all members see the same ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import compress
from typing import TypeAlias
from weakref import WeakValueDictionary

from isotone.model.conflicts import Conflicts
from isotone.protocol.ordering.orderer import Batch

Description: TypeAlias = tuple[str | None, tuple[str, ...] | None]
"""A type and items; null where the relation does not look."""

DESCRIPTIONS_MAX = 4
PARTS_MAX = 4
"""Into so many casts a batch is parted at most."""
_LOOKED_AT_MAX = 64
_MEMO_MAX = 1024


class Shape:
    """The descriptions of a cast; none for the one that conflicts with everything."""

    __slots__ = ("__weakref__", "descriptions", "known", "serial")

    def __init__(self, serial: int, descriptions: tuple[Description, ...]) -> None:
        self.serial = serial
        self.descriptions = descriptions
        self.known: dict[int, bool] = {}


class Shapes:
    """All shapes of one view."""

    def __init__(self, conflicts: Conflicts | None) -> None:
        relation = conflicts if conflicts is not None and conflicts.by != "everything" else None
        self.relation = relation
        self._typed = relation is not None and relation.by != "item"
        self._itemised = relation is not None and relation.by != "operation"
        self._in_order = relation is not None and relation.by == "predicate"  # to which the order of items may say something
        self._shapes: WeakValueDictionary[Hashable, Shape] = WeakValueDictionary()
        self._serial = 0
        self.whole = Shape(0, ())

    def of(self, count: int, types: Sequence[str | None] | None, items: Sequence[Sequence[str] | None] | None) -> Shape:
        """The shape of a cast of `count` messages. `ConfigError` if a message is none of this relation."""
        relation = self.relation
        if relation is None:
            return self.whole
        if count == 1:
            return self._shape(((types[0] if types else None, items[0] if items else None),))
        if not self._itemised or items is None:
            distinct: Iterable[str | None] = set(types) if types is not None and self._typed else (None,)
            return self._shape([(type_, None) for type_ in distinct])
        if count > _LOOKED_AT_MAX:
            return self.whole
        return self._shape({(type_, self._tuple(some)) for type_, some in zip(types or [None] * count, items, strict=True)})

    def conflict(self, one: Shape, two: Shape) -> bool:
        """Whether casts of these shapes must keep their order."""
        known = one.known.get(two.serial)
        if known is None:
            known = self._ask(one, two)
            for shape, other in ((one, two), (two, one)):
                if len(shape.known) >= _MEMO_MAX:
                    shape.known.clear()
                shape.known[other.serial] = known
        return known

    def split(self, batch: Batch) -> list[Batch]:
        """The batch in parts, to be multicast in this order: messages that conflict keep theirs."""
        count = len(batch.payloads)
        if count == 1 or self.relation is None:
            return [batch]
        if count > _LOOKED_AT_MAX:
            if self._itemised and batch.items is not None:
                return [batch]
            types = batch.types if batch.types is not None and self._typed else None
            if types is None or not 1 < len(set(types)) <= DESCRIPTIONS_MAX:
                return [batch]
            shapes = {type_: self._shape(((type_, None),)) for type_ in dict.fromkeys(types)}
            return self._components(batch, [shapes[type_] for type_ in types])
        types, items = batch.types or [None] * count, batch.items or [None] * count
        described = [self._shape((one,)) for one in zip(types, items, strict=True)]
        if len(set(described)) == 1:
            return [batch]
        runs = self._runs(described)
        if len(runs) <= PARTS_MAX:
            return [self._part(batch, [index in run for index in range(count)]) for run in runs]
        return self._components(batch, described)

    def _runs(self, shapes: Sequence[Shape]) -> list[set[int]]:
        """Messages by shape; one joins an earlier part of its shape unless it conflicts with a part after that."""
        parts: list[tuple[Shape, set[int]]] = []
        for index, shape in enumerate(shapes):
            for other, part in reversed(parts):
                if other is shape:
                    part.add(index)
                    break
                if self.conflict(shape, other):
                    parts.append((shape, {index}))
                    break
            else:
                parts.append((shape, {index}))
        return [part for _, part in parts]

    def _components(self, batch: Batch, shapes: Sequence[Shape]) -> list[Batch]:
        """Messages that are linked by conflicts stay together, in their order."""
        left = list(dict.fromkeys(shapes))
        groups: list[set[Shape]] = []
        while left:
            group, found = {left[0]}, [left.pop(0)]
            while found:
                one = found.pop()
                near = [other for other in left if self.conflict(one, other)]
                left = [other for other in left if other not in near]
                group.update(near)
                found += near
            groups.append(group)
        if not 1 < len(groups) <= PARTS_MAX:
            return [batch]
        return [self._part(batch, [shape in group for shape in shapes]) for group in groups]

    def _part(self, batch: Batch, mask: list[bool]) -> Batch:
        payloads = list(compress(batch.payloads, mask))
        types = list(compress(batch.types, mask)) if batch.types is not None else None
        items = list(compress(batch.items, mask)) if batch.items is not None else None
        return Batch(payloads, types, items, sum(map(len, payloads)))

    def _tuple(self, items: Sequence[str] | None) -> tuple[str, ...] | None:
        if items is None:
            return None
        return tuple(items) if self._in_order or len(items) == 1 else tuple(sorted(items))

    def _shape(self, described: Iterable[tuple[str | None, Sequence[str] | None]]) -> Shape:
        descriptions = {
            (type_ if self._typed else None, self._tuple(items) if self._itemised else None): None for type_, items in described
        }
        if len(descriptions) > DESCRIPTIONS_MAX:
            return self.whole
        key: Hashable = next(iter(descriptions)) if len(descriptions) == 1 else frozenset(descriptions)
        shape = self._shapes.get(key)
        if shape is None:
            assert self.relation is not None
            for type_, items in descriptions:
                self.relation.validate(type_, items)
            self._serial += 1
            shape = self._shapes[key] = Shape(self._serial, tuple(descriptions))
        return shape

    def _ask(self, one: Shape, two: Shape) -> bool:
        relation = self.relation
        if relation is None or not one.descriptions or not two.descriptions:
            return True
        return any(relation.conflict(*a, *b) for a in one.descriptions for b in two.descriptions)
