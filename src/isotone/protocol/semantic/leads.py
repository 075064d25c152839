"""Leads: promises that let others deliver without hearing from a member.

A member's *repertoire* are the shapes that it sends now and then. Its *lead* says: "whatever I send from here on, in my stream,
with a timestamp up to `end`, is of one of these shapes". So a cast with a timestamp up to that end, which conflicts with none of
them, needs no acknowledgement of this member. To send another shape the member takes a timestamp beyond the end (it *jumps*);
that costs the cast a round of acknowledgements, as it had without leads, and ends the lead.

Which shapes belong to the repertoire is a matter of profit alone, never of order. A shape is left out if usually one and a half
times `patience` casts of others that conflict with it come between two sends, or if `patience`, and eight times the usual
number, came since the last: then its absence is worth more to them than its jumps cost. The first lead waits for `patience`
casts that it would have covered: until then nobody knows what the member sends. After a lead that covered less
than that before it was jumped over, the next one waits for a number of casts that doubles each time.

Free shapes (see `shapes`) need no lead and belong to none: every member may send them at any time. So where there are any, a lead
does not cover wild ones.

In a record, shapes are named by the numbers of their appearance in their sender's stream, which all members count alike.

Invariants: a lead's end does not decrease; while it lies ahead of the clock, its shapes only become fewer.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes

LENGTH = 1 << 12
"""How far a lead reaches beyond the clock. It is renewed when half of that is used up."""
_REPERTOIRE_MAX = 16
_NUMBERED_MAX = 256
_WAIT_MAX = 1024
_KNOWN_MAX = 256


class Numbers:
    """The shapes in one member's stream by the numbers of their appearance; only those that came last are remembered.

    They are more than a repertoire, so that whatever belongs to that has a number.
    """

    def __init__(self) -> None:
        self.newest = 0
        self.last: Shape | None = None  # nothing changes if it comes again
        self._number: dict[Shape, int] = {}  # the one that came last is last
        self._shape: dict[int, Shape] = {}

    def see(self, shape: Shape) -> None:
        """A cast of this shape is next in the stream."""
        self.last = shape
        number = self._number.pop(shape, None)
        if number is None:
            self.newest += 1
            number = self.newest
            self._shape[number] = shape
            if len(self._shape) > _NUMBERED_MAX:
                del self._shape[self._number.pop(next(iter(self._number)))]
        self._number[shape] = number

    def __contains__(self, shape: Shape) -> bool:
        """Whether a shape is remembered; one that appeared long ago may be forgotten although it is still sent."""
        return shape in self._number

    def number(self, shape: Shape) -> int:
        """The number of a shape that is remembered."""
        return self._number[shape]

    def shape(self, number: int) -> Shape | None:
        """The shape of a number, if it is remembered."""
        return self._shape.get(number)


class Lead:
    """What a member has promised, as anybody sees it: up to `end` it sends `shapes` only, and free ones."""

    __slots__ = ("_all", "end", "shapes")

    def __init__(self, all_shapes: Shapes) -> None:
        self._all = all_shapes
        self.end = 0
        self.shapes = Nearby(all_shapes)

    def give(self, end: int, shapes: Iterable[Shape]) -> None:
        """Promise something else."""
        self.end = end
        self.shapes = Nearby(self._all, shapes)

    def covers(self, shape: Shape) -> bool:
        """Whether a cast of this shape is covered if it lies within the lead."""
        return not (shape.wild and self._all.frees) and self.shapes.clear_of(shape)


class Leader:
    """The own lead: what was promised, and what is worth promising."""

    def __init__(self, shapes: Shapes, patience: int) -> None:
        self.lead = Lead(shapes)
        self.patience = patience
        self._shapes = shapes
        self._own: dict[Shape, _Use] = {}  # the last one used is last
        self._index = Nearby(shapes)  # of the own ones
        self._found: dict[Shape, tuple[list[_Use], bool]] = {}  # own uses in conflict with a shape; whether the lead covers it
        self._wanted = False  # a lead would have covered a cast, or was jumped over and is worth it
        self._spared = 0  # casts covered since the lead was last jumped over
        self._used = False  # whether there were any since it was announced
        self._wait = patience  # so many casts must come in vain before the next lead

    def covers(self, shape: Shape, ts: int) -> bool:
        """A cast of another member came, not a free one: whether it can do without this member's acknowledgement."""
        found = self._found.get(shape)
        if found is None:
            if len(self._found) >= _KNOWN_MAX:
                self._found.clear()
            found = [self._own[one] for one in self._index.conflicting(shape)], self.lead.covers(shape)
            self._found[shape] = found
        against, covered = found
        for use in against:
            use.passed += 1
        if covered and ts <= self.lead.end:
            self._spared += 1
            self._used = True
            return True
        if not (shape.wild and self._shapes.frees):
            patience = self.patience
            for use in against:
                if not use.rare(patience):
                    return False
            if self._wait:
                self._wait -= 1
            else:
                self._wanted = True
        return False

    def stamp(self, shape: Shape, ts: int) -> int:
        """The timestamp for an own cast of this shape: `ts`, or the first one beyond the lead."""
        if shape.free:
            return ts
        use = self._own.pop(shape, None)
        if use is None:
            use = _Use()
            self._index.add(shape)
            self._found.clear()
        use.again(self.patience)
        self._own[shape] = use
        if len(self._own) > _REPERTOIRE_MAX:
            oldest = next(iter(self._own))
            del self._own[oldest]
            self._index.remove(oldest)
        lead = self.lead
        if ts > lead.end or shape in lead.shapes:
            return ts
        if self._spared >= self.patience:
            self._wait = 0
            self._wanted = True
        else:
            self._wait = min(_WAIT_MAX, max(self.patience, 2 * self._wait))
        self._spared = 0
        return lead.end + 1

    def due(self, clock: int) -> bool:
        """Whether a lead is worth while now."""
        return self._wanted or (self._used and self.lead.end - clock < LENGTH // 2)

    def announce(self, clock: int, numbers: Numbers) -> list[int] | None:
        """Promise, unless anything may be sent: returns the end of the lead, and the numbers of the repertoire."""
        lead = self.lead
        repertoire = [shape for shape, use in self._own.items() if not use.rare(self.patience)]
        if self._shapes.whole in repertoire:
            return None
        bound = lead.end > clock  # what was promised stays so, though it may have become less worth while
        repertoire = [shape for shape in repertoire if shape in numbers and (not bound or shape in lead.shapes)]
        lead.give(max(lead.end, clock + LENGTH), repertoire)
        self._found.clear()
        self._wanted = self._used = False
        return [lead.end, *map(numbers.number, repertoire)]


class _Use:
    """How often a shape of the own casts is sent, measured in conflicting casts of others."""

    __slots__ = ("_gaps", "_usual", "passed")

    def __init__(self) -> None:
        self.passed = 0  # since it was last sent
        self._gaps = -1  # so many are known, between two sends
        self._usual = 0  # their mean, later that of the last ones; eight times

    def rare(self, patience: int) -> bool:
        """Whether it is better left out of the repertoire: it usually comes seldom, or has ceased."""
        if self._usual >= 12 * patience:
            return True
        return self.passed >= patience and self.passed >= self._usual

    def again(self, patience: int) -> None:
        """It is sent."""
        self._gaps = min(self._gaps + 1, 8)
        if self._gaps:
            self._usual += (8 * min(self.passed, 8 * patience) - self._usual) // self._gaps
        self.passed = 0
