"""Casts that wait for their delivery: a queue per shape, and which queues hold each other up.

Invariants: a queue is sorted by key; two queues are rivals of each other if and only if their shapes conflict.
"""

from __future__ import annotations

from bisect import insort
from operator import itemgetter
from typing import TypeAlias

from isotone.model.records import Cast
from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes

_ROOM = 32

Entry: TypeAlias = tuple[int, int, Cast, Shape]
"""A cast that waits: its key and its site before it, its shape behind."""
KEY = itemgetter(0)
"""Free casts of a sender may have the same one; they stay in the order in which they came."""


class Queue:
    """The undelivered casts of one shape. It stays for a while when there are none."""

    __slots__ = ("entries", "rivals", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.entries: list[Entry] = []
        self.rivals: dict[Shape, Queue] = {}  # of other shapes that conflict with this one


class Queues:
    """All queues."""

    __slots__ = ("_nearby", "_room", "of")

    def __init__(self, shapes: Shapes) -> None:
        self.of: dict[Shape, Queue] = {}
        self._nearby = Nearby(shapes)  # the shapes of these
        self._room = _ROOM  # with more of them, those without casts are forgotten

    def put(self, entry: Entry) -> None:
        """A cast has to wait."""
        shape = entry[3]
        insort((self.of.get(shape) or self.enter(shape)).entries, entry, key=KEY)

    def enter(self, shape: Shape) -> Queue:
        """The queue of a shape that has none."""
        if len(self.of) >= self._room:
            self._forget()
        one = self.of[shape] = Queue(shape)
        for other in self._nearby.conflicting(shape):
            rival = one.rivals[other] = self.of[other]
            rival.rivals[shape] = one
        self._nearby.add(shape)
        return one

    def _forget(self) -> None:
        """Leave out the shapes of which nothing waits."""
        for one in [one for one in self.of.values() if not one.entries]:
            del self.of[one.shape]
            self._nearby.remove(one.shape)
            for rival in one.rivals.values():
                del rival.rivals[one.shape]
        self._room = _ROOM + 2 * len(self.of)
