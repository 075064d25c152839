"""Leads: promises that let others deliver without hearing from a member.

A member's *repertoire* are the shapes that it sends now and then. Its *lead* says: "whatever I send from here on, in my stream,
with a timestamp up to `end`, is of one of these shapes". So a cast with a timestamp up to that end, which conflicts with none of
them, needs no acknowledgement of this member. To send another shape the member takes a timestamp beyond the end (it *jumps*);
that costs the cast a round of acknowledgements, as it had without leads, and ends the lead.

Which shapes belong to the repertoire is a matter of profit alone, never of order. A shape is left out if at least `patience`
casts of others that conflict with it came since it was last sent, or usually come between two sends: then its absence is worth
more to them than its jumps cost. After a lead that covered less than that before it was jumped over, the next one waits for
a number of casts that doubles each time.

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
    """The shapes in one member's stream by the numbers of their appearance; only those that came last are remembered.

    They are more than a repertoire, so that whatever belongs to that has a number.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._number: dict[Shape, int] = {}  # the one that came last is last
        self._shape: dict[int, Shape] = {}

    def see(self, shape: Shape) -> None:
        """A cast of this shape is next in the stream."""
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
    """What a member has promised, as anybody sees it: up to `end` it sends `shapes` only."""

    __slots__ = ("end", "shapes")

    def __init__(self) -> None:
        self.end = 0
        self.shapes: frozenset[Shape] = frozenset()


class Leader:
    """The own lead: what was promised, and what is worth promising."""

    def __init__(self, shapes: Shapes, patience: int) -> None:
        self.lead = Lead()
        self._shapes = shapes
        self._patience = patience
        self._own: dict[Shape, _Use] = {}  # the last one used is last
        self._wanted = False  # a lead would have covered a cast, or was jumped over and is worth it
        self._spared = 0  # casts covered since the lead was last jumped over
        self._used = False  # whether there were any since it was announced
        self._wait = 0  # so many casts must come in vain before the next lead

    def covers(self, shape: Shape, ts: int) -> bool:
        """A cast of another member came: whether it can do without this member's acknowledgement."""
        lead, conflict = self.lead, self._shapes.conflict
        against = [use for own, use in self._own.items() if conflict(own, shape)]
        for use in against:
            use.passed += 1
        if ts <= lead.end and not any(conflict(one, shape) for one in lead.shapes):
            self._spared += 1
            self._used = True
            return True
        if all(use.rare(self._patience) for use in against):
            if self._wait:
                self._wait -= 1
            else:
                self._wanted = True
        return False

    def stamp(self, shape: Shape, ts: int) -> int:
        """The timestamp for an own cast of this shape: `ts`, or the first one beyond the lead."""
        use = self._own.pop(shape, None) or _Use()
        use.again(self._patience)
        self._own[shape] = use
        if len(self._own) > _REPERTOIRE_MAX:
            del self._own[next(iter(self._own))]
        lead = self.lead
        if ts > lead.end or shape in lead.shapes:
            return ts
        if self._spared >= self._patience:
            self._wait = 0
            self._wanted = True
        else:
            self._wait = min(_WAIT_MAX, max(self._patience, 2 * self._wait))
        self._spared = 0
        return lead.end + 1

    def announce(self, clock: int, numbers: Numbers) -> list[int] | None:
        """Promise, if it is worth while now: returns the end of the lead, and the numbers of the repertoire."""
        lead = self.lead
        if not self._wanted and not (self._used and lead.end - clock < LENGTH // 2):
            return None
        repertoire = [shape for shape, use in self._own.items() if not use.rare(self._patience) and shape in numbers]
        if self._shapes.whole in repertoire:
            return None
        lead.end = max(lead.end, clock + LENGTH)
        lead.shapes = frozenset(repertoire)
        self._wanted = self._used = False
        return [lead.end, *map(numbers.number, repertoire)]


class _Use:
    """How often a shape of the own casts is sent, measured in conflicting casts of others."""

    __slots__ = ("_usual", "passed")

    def __init__(self) -> None:
        self.passed = 0  # since it was last sent
        self._usual = 0  # between two sends

    def rare(self, patience: int) -> bool:
        """Whether it is better left out of the repertoire."""
        return self.passed >= patience or self._usual >= patience

    def again(self, patience: int) -> None:
        """It is sent."""
        self._usual = (3 * self._usual + min(self.passed, 4 * patience)) // 4
        self.passed = 0
