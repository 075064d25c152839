"""A set of shapes in which those that conflict with a given one are found by the items they touch.

Where the relation does not go by items all shapes are looked at; there they are few, since types are.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.protocol.semantic.shapes import Shape, Shapes


class Nearby:
    """Shapes in the order they were added, and by item."""

    __slots__ = ("_conflict", "all", "by_item", "vague")

    def __init__(self, shapes: Shapes, members: Iterable[Shape] = ()) -> None:
        self._conflict = shapes.conflict
        self.all: dict[Shape, None] = {}
        self.by_item: dict[str, dict[Shape, None]] = {}
        self.vague: dict[Shape, None] = {}
        for shape in members:
            self.add(shape)

    def add(self, shape: Shape) -> None:
        """Put a shape in."""
        self.all[shape] = None
        if shape.items is None:
            self.vague[shape] = None
        else:
            for item in shape.items:
                self.by_item.setdefault(item, {})[shape] = None

    def remove(self, shape: Shape) -> None:
        """Take one out."""
        del self.all[shape]
        if shape.items is None:
            del self.vague[shape]
            return
        for item in shape.items:
            row = self.by_item[item]
            row.pop(shape, None)
            if not row:
                del self.by_item[item]

    def conflicting(self, shape: Shape) -> list[Shape]:
        """Those that conflict with a shape."""
        items, conflict = shape.items, self._conflict
        if items is not None and len(items) == 1 and not self.vague and items[0] not in self.by_item:
            return []
        return [one for one in self._near(shape) if conflict(shape, one)]

    def clear_of(self, shape: Shape) -> bool:
        """Whether none conflicts with a shape."""
        conflict = self._conflict
        return not any(conflict(shape, one) for one in self._near(shape))

    def _near(self, shape: Shape) -> Iterable[Shape]:
        items = shape.items
        if items is None:
            return self.all
        if not self.by_item:
            return self.vague
        if len(items) == 1 and not self.vague:
            return self.by_item.get(items[0], {})
        near = dict(self.vague)
        for item in items:
            near |= self.by_item.get(item, {})
        return near
