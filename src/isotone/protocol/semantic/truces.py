"""Truces: promises of what a member spares.

A member's truce says: "whatever I send from here on, in my stream, with a timestamp up to `end`, conflicts with none of these
shapes of others". So casts of these shapes need no acknowledgement of it, whatever else it sends. A lead (see `leads`) is more,
it covers shapes that nobody has seen; but each cast of a shape that is not in the lead has to jump, also where nobody minds. A
truce is jumped over only by what conflicts with something that others usually send.

In a record, a shape is named by a member and the number of its appearance in that member's stream, which all count alike (see
`Numbers`). Who has not seen it yet finds it when it has come and is learned from. Whoever gets the truce only when that number is
forgotten does not find the shape, and waits for the giver's clock.

Invariants: a truce's end does not decrease; while it lies ahead of the clock, its names only become more.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, TypeAlias

from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes

NAMES_MAX: Final = 64
"""A truce names no more."""
_COUNTED_MAX: Final = 256

Name: TypeAlias = tuple[int, int]
"""A shape: the rank of a member, and the number of the shape's appearance in that member's stream."""


class Truce:
    """What a member has promised to spare, as anybody sees it."""

    __slots__ = ("_all", "_permitted", "end", "names", "shapes")

    def __init__(self, all_shapes: Shapes) -> None:
        self._all = all_shapes
        self.end = 0
        self.names: dict[Name, Shape | None] = {}  # None where it has not come, or long ago
        self.shapes = Nearby(all_shapes)
        self._permitted: dict[Shape, bool] = {}

    def give(self, end: int, names: dict[Name, Shape | None]) -> None:
        """Promise something else."""
        self.end = end
        self.names = names
        self.shapes = Nearby(self._all, dict.fromkeys(shape for shape in names.values() if shape is not None))
        self._permitted.clear()

    def appears(self, name: Name, shape: Shape) -> None:
        """A shape gets its number, which may be one that was named before."""
        if name in self.names:
            self.names[name] = shape
            if shape not in self.shapes.all:
                self.shapes.add(shape)
                self._permitted.clear()

    def permits(self, shape: Shape) -> bool:
        """Whether its giver may send a cast of this shape within the truce."""
        permitted = self._permitted.get(shape)
        if permitted is None:
            if len(self._permitted) >= _COUNTED_MAX:
                self._permitted.clear()
            permitted = self._permitted[shape] = self.shapes.clear_of(shape)
        return permitted


class Counts:
    """How many casts in a row were worth a promise, of each shape of each other member; only of those that came last."""

    def __init__(self) -> None:
        self.last: dict[Name, int] = {}  # the one that came last is last

    def see(self, name: Name, worth: bool) -> int:
        """Another one came: how many there were."""
        counts = self.last
        count = counts.pop(name, 0) + 1
        if not worth:
            return 0
        counts[name] = count
        if len(counts) > _COUNTED_MAX:
            del counts[next(iter(counts))]
        return count

    def most(self, last: int) -> int:
        """The largest of these numbers, of so many shapes that came last."""
        return max(islice(reversed(self.last.values()), last), default=0)

    def usual(self, least: int) -> list[Name]:
        """Those of which so many came, the last one first."""
        return [name for name, count in reversed(self.last.items()) if count >= least]

    def familiar(self) -> list[Name]:
        """Those that make up a quarter of what came of their member, not one cast among others. The last one first."""
        of_member: dict[int, int] = {}
        for (site, _), count in self.last.items():
            of_member[site] = of_member.get(site, 0) + count
        found = ((name, count, of_member[name[0]]) for name, count in reversed(self.last.items()))
        return [name for name, count, total in found if 4 * count >= total and (count > 1 or total == 1)]
