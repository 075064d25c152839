"""Leads: promises that let others deliver without hearing from a member.

A member's *repertoire* are the shapes that it sends now and then. Its *lead* says: "whatever I send from here on, in my stream,
with a timestamp up to `end`, is of one of these shapes". So a cast with a timestamp up to that end, which conflicts with none of
them, needs no acknowledgement of this member. To send another shape the member takes a timestamp beyond the end (it *jumps*);
that costs the cast a round of acknowledgements, as it had without leads, and ends the lead.

What is promised is a matter of profit alone, never of order. A shape is left out of the repertoire if usually one and a half
times `patience` casts of others that conflict with it come between two sends, or if `patience`, and eight times the usual
number, came since the last: then its absence is worth more to them than its jumps cost. A lead waits for `patience` casts that it
would have covered, without one among the own that would have jumped: until then nobody knows what the member sends. It waits
for twice as many after each lead that covered less than `patience` before it was jumped over, or that was jumped over by a cast
that conflicts with nothing that others usually send. Such a member gives a *truce* instead (see `truces`): it names the shapes of
others of which `patience` came in a row while none of the own that conflict with them was usual.

Free shapes (see `shapes`) need no promise and belong to none: every member may send them at any time. So where there are any,
promises do not cover wild ones.

In a record, shapes are named by the numbers of their appearance in their sender's stream, which all members count alike.

Invariants: a lead's end does not decrease; while it lies ahead of the clock, its shapes only become fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes
from isotone.protocol.semantic.truces import NAMES_MAX, Counts, Truce

LENGTH = 1 << 12
"""How far a lead reaches beyond the clock. It is renewed when half of that is used up."""
_REPERTOIRE_MAX = 16
_NUMBERED_MAX = 256
_WAIT_MAX = 1024
_KNOWN_MAX = 256
LATER_MAX = 64
"""So many first appearances are counted later, at once."""


class Numbers:
    """The shapes in one member's stream by the numbers of their appearance; only those that came last are remembered.

    They are more than a repertoire, so that whatever belongs to that has a number. What appears for the first time may be
    numbered `later`, when a number is asked for: many at once cost less than each of them while a cast waits.
    """

    def __init__(self, site: int) -> None:
        self._bit = 1 << site
        self._later: list[Shape] = []
        self.newest = 0
        self.forgotten = 0  # the last that was
        self.last: Shape | None = None  # nothing changes if it comes again
        self._number: dict[Shape, int] = {}  # the one that came last is last
        self._shape: dict[int, Shape] = {}

    def later(self, shape: Shape) -> bool:
        """A cast of this shape is next in the stream: whether it is the first one, and can be numbered later."""
        if shape.seen & self._bit or len(self._later) >= LATER_MAX:
            return False
        shape.seen |= self._bit
        self._later.append(shape)
        self.last = shape
        return True

    def settle(self) -> None:
        """Number what is not yet."""
        late, self._later = self._later, []
        for shape in late:
            self.see(shape)

    def see(self, shape: Shape) -> int:
        """A cast of this shape is next in the stream: its number if that is a new one, otherwise 0."""
        if self._later:
            self.settle()
        self.last = shape
        shape.seen |= self._bit
        new = 0
        number = self._number.pop(shape, None)
        if number is None:
            self.newest += 1
            new = number = self.newest
            self._shape[number] = shape
            if len(self._shape) > _NUMBERED_MAX:
                self.forgotten = self._number.pop(next(iter(self._number)))
                del self._shape[self.forgotten]
        self._number[shape] = number
        return new

    def number(self, shape: Shape) -> int | None:
        """The number of a shape, if it is remembered; one that appeared long ago may be forgotten although it is still sent."""
        if not shape.seen & self._bit:
            return None
        if self._later:
            self.settle()
        return self._number.get(shape)

    def shape(self, number: int) -> Shape | None:
        """The shape of a number, if it is remembered."""
        if self._later:
            self.settle()
        return self._shape.get(number)


class Lead:
    """What a member has promised, as anybody sees it: up to `end` it sends `shapes` only, and free ones."""

    __slots__ = ("_all", "_covered", "end", "shapes")

    def __init__(self, all_shapes: Shapes) -> None:
        self._all = all_shapes
        self.end = 0
        self.shapes = Nearby(all_shapes)
        self._covered: dict[Shape, bool] = {}

    def give(self, end: int, shapes: Iterable[Shape]) -> None:
        """Promise something else."""
        self.end = end
        self.shapes = Nearby(self._all, shapes)
        self._covered.clear()

    def covers(self, shape: Shape) -> bool:
        """Whether a cast of this shape is covered if it lies within the lead."""
        covered = self._covered.get(shape)
        if covered is None:
            if len(self._covered) >= _KNOWN_MAX:
                self._covered.clear()
            covered = self._covered[shape] = not (shape.wild and self._all.frees) and self.shapes.clear_of(shape)
        return covered


class Leader:
    """The own promises: what was promised, and what is worth promising."""

    def __init__(self, shapes: Shapes, patience: int, appeared: Sequence[Numbers], rank: int) -> None:
        self.lead = Lead(shapes)
        self.truce = Truce(shapes)
        self.patience = patience
        self._shapes = shapes
        self._appeared = appeared
        self._numbers = appeared[rank]
        self._later: list[Shape] = []  # sent for the first time, and not yet among the own ones
        self._own: dict[Shape, _Use] = {}  # the last one used is last
        self._latest: Shape | None = None  # that one
        self._index = Nearby(shapes)  # of the own ones
        self._found: dict[Shape, list[_Use]] = {}  # own uses in conflict with a shape
        self._counts = Counts()
        self.stirred = False  # whether one of these may be due: a lead, a truce
        self.wanted = False  # a lead would have covered a cast, or was jumped over and is worth it
        self._spared = 0  # casts covered since the lead was last jumped over
        self.used = False  # whether there were any since it was announced
        self._trial = patience  # so many casts must come in vain before the next lead, and none be sent that it would not name
        self._wait = patience  # so many of these are left
        self.truce_wanted = False
        self.truce_used = False

    def covers(self, shape: Shape, ts: int, sender: int) -> bool:
        """A cast of another member came, not a free one: whether it can do without this member's acknowledgement."""
        items = shape.items
        if self._later and (shape.sent or items is None or len(items) > 1):
            self._settle()
        against: Sequence[_Use] | None = self._found.get(shape)
        if against is None:
            index = self._index
            if items is not None and len(items) == 1 and not index.vague and items[0] not in index.by_item:
                against = ()  # of what comes once nothing is kept
            else:
                if len(self._found) >= _KNOWN_MAX:
                    self._found.clear()
                against = self._found[shape] = list(map(self._own.__getitem__, index.conflicting(shape)))
        worth, patience = not (shape.wild and self._shapes.frees), self.patience
        for use in against:
            use.passed += 1
            if worth and use.passed < patience:  # few are rare before so many have passed
                worth = use.usual >= 12 * patience
            elif worth:
                worth = use.rare(patience)
        half = ts + LENGTH // 2
        if (self.used and not self._wait and half > self.lead.end) or (self.truce_used and half > self.truce.end):
            self.stirred = True  # it is to be renewed
        count, number = 0, self._appeared[sender].number(shape)
        if number is not None:
            name = sender, number
            if worth or name in self._counts.last:
                count = self._counts.see(name, worth)
            if ts <= self.truce.end and name in self.truce.names:
                self.truce_used = True
                return True
        if ts <= self.lead.end and self.lead.covers(shape):
            self._spared += 1
            self.used = True
            return True
        if worth:
            if not self._wait:
                self.wanted = self.stirred = True
            else:
                self._wait -= 1
                if count >= patience:
                    self.truce_wanted = self.stirred = True
        return False

    def stamp(self, shape: Shape, ts: int) -> int:
        """The timestamp for an own cast of this shape, not a free one: `ts`, or the first beyond the promises it would break."""
        lead, patience = self.lead, self.patience
        if shape.sent and self._later:
            self._settle()
        use = self._own.get(shape) if shape.sent else None
        if ts > lead.end and (use is None or ((use.passed >= patience or use.usual >= 12 * patience) and use.rare(patience))):
            self._wait = self._trial  # a lead would be jumped over
        if shape.sent or len(self._later) >= LATER_MAX or not self._shapes.by_items or len(shape.items or ()) != 1:
            self._settle()
            self._use(shape, use)
        else:
            self._later.append(shape)
        shape.sent = True
        if ts <= lead.end and shape not in lead.shapes.all:
            self._jump(shape)
            ts = lead.end + 1
        if ts <= self.truce.end and not self.truce.permits(shape):
            ts = self.truce.end + 1
        return ts

    def _settle(self) -> None:
        """Count the first use of shapes that are not yet among the own ones."""
        late, self._later = self._later, []
        for shape in late:
            self._use(shape, None)

    def _use(self, shape: Shape, use: _Use | None) -> None:
        """A shape is sent."""
        if use is None or shape is not self._latest:
            use = self._last(shape, use)
        use.gaps = gaps = min(use.gaps + 1, 8)
        if gaps:
            use.usual += (8 * min(use.passed, 8 * self.patience) - use.usual) // gaps
        use.passed = 0

    def _last(self, shape: Shape, use: _Use | None) -> _Use:
        """Another shape is the last one that was sent."""
        self._latest = shape
        if use is None:
            use = _Use()
            self._index.add(shape)
            self._found.clear()
        else:
            del self._own[shape]
        self._own[shape] = use
        if len(self._own) > _KNOWN_MAX:
            oldest = next(iter(self._own))
            del self._own[oldest]
            self._index.remove(oldest)
            self._found.clear()
        return use

    def _jump(self, shape: Shape) -> None:
        """The lead is jumped over: whether the next one is worth while, or a truce that need not be jumped over."""
        self.stirred = True
        spared = [other for site, number in self._counts.usual(self.patience) if (other := self._appeared[site].shape(number))]
        if spared and not any(self._shapes.conflict(shape, other) for other in spared):
            self.truce_wanted = True
        elif self._spared >= self.patience:
            self.wanted = True
        self._trial = self.patience if self.wanted else min(_WAIT_MAX, 2 * self._trial)
        self._wait = 0 if self.wanted else self._trial
        self._spared = 0

    def due(self, clock: int) -> bool:
        """Whether a lead is worth while now."""
        return self.wanted or (self.used and not self._wait and self.lead.end - clock < LENGTH // 2)

    def announce(self, clock: int) -> list[int] | None:
        """Promise, unless anything may be sent: returns the end of the lead, and the numbers of the repertoire."""
        lead, numbers = self.lead, self._numbers
        self._settle()
        self.wanted = self.used = False
        repertoire = [shape for shape, use in self._own.items() if not use.rare(self.patience)]
        if self._shapes.whole in repertoire:
            return None
        bound = lead.end > clock  # what was promised stays so, though it may have become less worth while
        named = {
            shape: number
            for shape in repertoire
            if (number := numbers.number(shape)) is not None and (not bound or shape in lead.shapes.all)
        }
        named = dict(list(named.items())[-_REPERTOIRE_MAX:])
        lead.give(max(lead.end, clock + LENGTH), named)
        return [lead.end, *named.values()]

    def truce_due(self, clock: int) -> bool:
        """Whether a truce is worth while now."""
        return self.truce_wanted or (self.truce_used and self.truce.end - clock < LENGTH // 2)

    def announce_truce(self, clock: int) -> list[int] | None:
        """Promise to spare what others usually send, if there is anything: returns the end of the truce, and the names."""
        truce = self.truce
        self._settle()
        for numbers in self._appeared:  # from here on what is named must not be forgotten unnoticed
            numbers.settle()
        self.truce_wanted = self.truce_used = False
        names = dict(truce.names) if truce.end > clock else {}
        for name in self._counts.usual(self.patience):
            shape = self._appeared[name[0]].shape(name[1])
            if shape is None or len(names) == NAMES_MAX:
                continue
            if all(self._own[one].rare(self.patience) for one in self._index.conflicting(shape)):
                names[name] = shape
        if not names:
            return None
        truce.give(max(truce.end, clock + LENGTH), names)
        return [truce.end, *(part for name in names for part in name)]


class _Use(msgspec.Struct, eq=False, gc=False):
    """How often a shape of the own casts is sent, measured in conflicting casts of others."""

    passed: int = 0
    """Since it was last sent."""
    gaps: int = -1
    """So many are known, between two sends."""
    usual: int = 0
    """Their mean, later that of the last ones; eight times."""

    def rare(self, patience: int) -> bool:
        """Whether it is better left out of the repertoire: it usually comes seldom, or has ceased."""
        if self.usual >= 12 * patience:
            return True
        return self.passed >= patience and self.passed >= self.usual
