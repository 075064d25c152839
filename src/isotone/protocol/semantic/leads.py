"""Leads: promises that let others deliver without hearing from a member.

A member's *repertoire* are the shapes that it sends now and then. Its *lead* says: "whatever I send from here on, in my stream,
with a timestamp up to `end`, is of one of these shapes". So a cast with a timestamp up to that end, which conflicts with none of
them, needs no acknowledgement of this member. To send another shape the member takes a timestamp beyond the end (it *jumps*);
that costs the cast a round of acknowledgements, as it had without leads, and ends the lead.

Which shapes belong to the repertoire is a matter of profit alone, never of order. A shape leaves it when `patience` casts that
conflict with it had to be acknowledged since it was last sent; it comes back when it is sent and fewer than that were spared
their acknowledgement by its absence. Casts that needed none anyway, as under an even and heavy load, count for neither. After a
lead that spared little before it was jumped over, the next one waits for a number of casts that doubles each time.

In a record, shapes are named by the numbers of their appearance in their sender's stream, which all members count alike.

Invariants: a lead's end does not decrease; while it lies ahead of the clock, its shapes only become fewer.
"""

from __future__ import annotations

from isotone.protocol.semantic.shapes import Shape, Shapes

LENGTH = 1 << 12
"""How far a lead reaches beyond the clock. It is renewed when half of that is used up."""
_REPERTOIRE_MAX = 16
_NUMBERED_MAX = 256
_WAIT_MAX = 1024


class Numbers:
    """The shapes in one member's stream by the numbers of their appearance; only the newest are remembered."""

    def __init__(self) -> None:
        self.newest = 0
        self._number: dict[Shape, int] = {}
        self._shape: dict[int, Shape] = {}

    def see(self, shape: Shape) -> None:
        """A cast of this shape is next in the stream."""
        if shape in self._number:
            return
        self.newest += 1
        self._number[shape] = self.newest
        self._shape[self.newest] = shape
        old = self._shape.pop(self.newest - _NUMBERED_MAX, None)
        if old is not None:
            del self._number[old]

    def number(self, shape: Shape) -> int:
        """The number of a shape that is remembered."""
        return self._number[shape]

    def shape(self, number: int) -> Shape | None:
        """The shape of a number, if it is remembered."""
        return self._shape.get(number)


class Lead:
    """What a member has promised, as anybody sees it: up to `end` it sends `shapes` only."""

    __slots__ = ("end", "shapes")

    def __init__(self) -> None:
        self.end = 0
        self.shapes: frozenset[Shape] = frozenset()


class Leader:
    """The own lead: what was promised, and what is worth promising."""

    def __init__(self, shapes: Shapes, patience: int) -> None:
        self.lead = Lead()
        self.wanted = False  # a lead, or another one, is worth while
        self._shapes = shapes
        self._patience = patience
        self._usual: dict[Shape, int] = {}  # the repertoire, last used last: how many casts each has delayed since
        self._rare: dict[Shape, int] = {}  # shapes outside of it: how many casts their absence has spared since
        self._spared = 0  # casts that the lead has spared an acknowledgement since it was last jumped over
        self._used = False  # whether it has since it was announced
        self._wait = 0  # so many casts must be delayed before the next lead

    def covers(self, shape: Shape, ts: int) -> bool:
        """Whether a cast of another member can do without this member's acknowledgement."""
        lead, conflict = self.lead, self._shapes.conflict
        return ts <= lead.end and not any(conflict(one, shape) for one in lead.shapes)

    def spared(self, shape: Shape) -> None:
        """The lead has spared a cast the acknowledgement."""
        self._spared += 1
        self._used = True
        for one in self._rare:
            if self._shapes.conflict(one, shape):
                self._rare[one] += 1

    def delayed(self, shape: Shape) -> None:
        """A cast has to be acknowledged that a lead might have covered."""
        against = [one for one in self._usual if self._shapes.conflict(one, shape)]
        ripe = True
        for one in against:
            self._usual[one] += 1
            ripe = ripe and self._usual[one] >= self._patience
        if not ripe:
            return
        if self._wait:
            self._wait -= 1
            return
        for one in against:
            del self._usual[one]
            self._keep(self._rare, one)
        self.wanted = True

    def stamp(self, shape: Shape, ts: int) -> int:
        """The timestamp for an own cast of this shape: `ts`, or the first one beyond the lead."""
        lead, usual = self.lead, self._usual
        jumps = ts <= lead.end and shape not in lead.shapes
        gained = self._rare.pop(shape, 0)
        if shape not in usual and jumps and gained >= self._patience:
            self._keep(self._rare, shape)
        else:
            usual.pop(shape, None)
            self._keep(usual, shape)
        if not jumps:
            return ts
        ts = lead.end + 1
        if self._spared >= self._patience:
            self._wait = 0
            self.wanted = True
        else:
            self._wait = min(_WAIT_MAX, max(self._patience, 2 * self._wait))
        self._spared = 0
        return ts

    def due(self, clock: int) -> bool:
        """Whether to announce a lead now."""
        if self._shapes.whole in self._usual:
            return False
        return self.wanted or (self._used and self.lead.end - clock < LENGTH // 2)

    def announce(self, clock: int, numbers: Numbers) -> list[int]:
        """Promise: returns the end of the lead, and the numbers of the repertoire."""
        lead = self.lead
        lead.end = max(lead.end, clock + LENGTH)
        lead.shapes = frozenset(self._usual)
        self.wanted = self._used = False
        return [lead.end, *map(numbers.number, self._usual)]

    @staticmethod
    def _keep(counts: dict[Shape, int], shape: Shape) -> None:
        counts[shape] = 0
        if len(counts) > _REPERTOIRE_MAX:
            del counts[next(iter(counts))]
