"""Leads: promises that let others deliver without hearing from a member.

A member's *repertoire* are the shapes that it sends now and then. Its *lead* says: "whatever I send from here on, in my stream,
with a timestamp up to `end`, is of one of these shapes". So a cast with a timestamp up to that end, which conflicts with none of
them, need not wait for this member's clock. To send another shape the member takes a timestamp beyond the end (it *jumps*);
that costs the cast a round of acknowledgements, as it had without leads, and ends the lead.

What is promised is a matter of profit alone, never of order. A shape is left out of the repertoire if usually one and a half
times `patience` casts of others that conflict with it come between two sends, or if `patience`, and eight times the usual
number, came since the last: then its absence is worth more to them than its jumps cost. Before it promises anything a member
waits for `patience` casts that a lead would have covered, without one among the own that would have jumped (a *trial*): until
then nobody knows what it sends. It waits for twice as many after each lead that covered less than `patience` before it was jumped
over, or that was jumped over by a cast that conflicts with nothing that others usually send.

After a trial a member leads if it has sent nothing itself, or if half of what came was of shapes that had not come before: these
only a lead can cover. Otherwise it gives a *truce* (see `truces`), which need not be jumped over where nobody minds. That names
the shapes of others that are *familiar*, a quarter of what their member sends, or of which `patience` came in a row; but none
that conflicts with an own one that is usual.

A promise that has covered none of the last casts is not renewed, and at last jumped over: as long as it reaches ahead, everybody
has to look at what each cast is.

Free shapes (see `shapes`) need no promise and belong to none: every member may send them at any time. So where there are any,
promises do not cover wild ones.

In a record, shapes are named by the numbers of their appearance in their sender's stream, which all members count alike.

What was sent and what came is first written into a log, and learned from in a turn of its own, when what came has been handed
over and what somebody waits for has been said, or when the log is long. Where messages take no longer than computing, that would
otherwise be the larger part of what a cast waits for. Shapes get their numbers there too, so whoever gives a promise or gets one
learns from the log first.

Invariants: a lead's end does not decrease; while it lies ahead of the clock, its shapes only become fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes, Sketch
from isotone.protocol.semantic.truces import NAMES_MAX, Counts, Truce

LENGTH = 1 << 12
"""How far a lead reaches beyond the clock. It is renewed when half of that is used up."""
_REPERTOIRE_MAX = 16
_NUMBERED_MAX = 256
_WAIT_MAX = 1024
_KNOWN_MAX = 256
SOON = 8
"""With so many casts in the log a turn is asked for in which they are learned from …"""
LATEST = 32
"""… and with so many no turn ends before they are."""
VAIN = 64
"""After so many casts in a row that they did not cover the next own cast jumps over all promises: they keep plain times off."""

Heard: TypeAlias = tuple[int, int, Sketch, bool]
"""A cast that is still to be learned from: its site, its timestamp, what it is, and whether the own promises covered it."""


class Numbers:
    """The shapes in one member's stream by the numbers of their appearance; only those that came last are remembered.

    They are more than a repertoire, so that whatever belongs to that has a number.
    """

    __slots__ = ("_number", "_shape", "last", "newest")

    def __init__(self) -> None:
        self.newest = 0
        self.last: Shape | None = None  # nothing changes if it comes again
        self._number: dict[Shape, int] = {}  # the one that came last is last
        self._shape: dict[int, Shape] = {}

    def see(self, shape: Shape) -> int:
        """A cast of this shape is next in the stream: its number if that is a new one, otherwise 0."""
        self.last = shape
        new = 0
        number = self._number.pop(shape, None)
        if number is None:
            self.newest += 1
            new = number = self.newest
            self._shape[number] = shape
            if len(self._shape) > _NUMBERED_MAX:
                del self._shape[self._number.pop(next(iter(self._number)))]
        self._number[shape] = number
        return new

    def number(self, shape: Shape) -> int | None:
        """The number of a shape, if it is remembered; one that appeared long ago may be forgotten although it is still sent."""
        return self._number.get(shape)

    def shape(self, number: int) -> Shape | None:
        """The shape of a number, if it is remembered."""
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

    __slots__ = (
        "_appeared", "_counts", "_dull", "_familiar", "_found", "_index", "_latest", "_own", "_rank", "_shapes", "_spared",
        "_strange", "_trial", "_truces", "_vain", "_wait", "lead", "least", "log", "most", "near", "patience", "room", "stirred",
        "truce", "truce_used", "truce_wanted", "used", "wanted",
    )  # fmt: skip

    def __init__(
        self, shapes: Shapes, patience: int, appeared: Sequence[Numbers], truces: Sequence[Truce], rank: int
    ) -> None:
        self.lead = Lead(shapes)
        self.truce = Truce(shapes)
        self.least = self.patience = patience
        self._shapes = shapes
        self._appeared = appeared
        self._truces = truces
        self._rank = rank
        self.log: list[Heard] = []  # what is still to be learned from, in the order in which it was sent and came
        self.most = LATEST  # so many in the log are learned from at once
        self.stirred = False  # whether one of these may be due: a lead, a truce
        self.used = self.truce_used = False  # whether a cast was covered since that was announced
        self.forget()

    def forget(self) -> None:
        """Learn anew what the members send; what was promised stays so."""
        self._own: dict[Shape, _Use] = {}  # the last one used is last
        self._latest: Shape | None = None  # that one
        self._index = Nearby(self._shapes)  # of the own ones
        self._found: dict[Shape, list[_Use]] = {}  # own uses in conflict with a shape
        self._counts = Counts()
        self.wanted = False  # a lead would have covered a cast, or was jumped over and is worth it
        self.truce_wanted = False
        self._spared = 0  # casts covered since the lead was last jumped over
        self._trial = self.patience  # so many must come in vain before the next promise, and none be sent that would jump
        self._wait = self.patience  # so many of these are left
        self._strange = 0  # so many of those that came had not come before
        self._familiar = False  # the next truce names what is familiar
        self._vain = 0  # so many came in a row that the own promises reached and did not cover
        self._dull = 0  # so many came since the last that was worth a promise
        self.near = 1  # with fewer that are not covered nothing is due, or hardly
        self.room = 1  # so many in the log are to be learned from

    def covers(self, shape: Shape, ts: int, sender: int) -> bool:
        """A cast of another member came, not a free one: whether nobody waits for this member's acknowledgement."""
        if ts <= self.truce.end and (sender, self._appeared[sender].number(shape)) in self.truce.names:
            self.truce_used = True
            return True
        if ts <= self.lead.end and self.lead.covers(shape):
            self.used = True
            self._spared += 1
            return True
        return False

    def minds(self, shape: Shape, ts: int) -> bool:
        """Whether an own cast of this shape, not a free one, has to jump over a promise that reaches it, or had better do so."""
        if ts <= self.truce.end and not self.truce.permits(shape):
            return True
        return self._vain >= VAIN or (ts <= self.lead.end and shape not in self.lead.shapes.all)

    def jump(self, shape: Shape, ts: int) -> int:
        """The timestamp for an own cast that minds: the first beyond the promises it would break; it is in the log."""
        lead, truce = self.lead, self.truce
        if self._vain >= VAIN:  # nobody is served by them any more
            self._vain = 0
            return max(ts, lead.end + 1, truce.end + 1)
        self.room = 1
        if ts <= lead.end and shape not in lead.shapes.all:
            self.learn()
            self._jump(shape)
            ts = lead.end + 1
        if ts <= truce.end and not truce.permits(shape):
            ts = truce.end + 1
        return ts

    def learn(self) -> None:
        """Learn from what was sent and what came: what the members send, and whether a promise is worth while; and number it.

        Nobody waits for that, and many at once cost less than each of them while a cast waits.
        """
        if not self.log:
            return
        known, whole, rank, last = self._shapes.known, self._shapes.whole, self._rank, 0
        for sender, ts, what, covered in self.log:
            shape = what if isinstance(what, Shape) else known.get(what) or self._shapes.of_item(what)
            fresh = shape is not self._appeared[sender].last and shape is not whole and self._appears(sender, shape)
            if sender == rank:
                self._sent(shape, ts)
            else:
                self._came(shape, ts, sender, covered, fresh)
            last = ts
        self.log.clear()
        self.near = LATEST
        if self._dull < SOON:
            self.near = max(1, min(LATEST, self._wait, self.patience - self._counts.most(SOON)))
        self.room = min(self.near, SOON) if last > max(self.lead.end, self.truce.end) else SOON

    def _appears(self, sender: int, shape: Shape) -> bool:
        """A shape comes in the stream of a site, and gets its number, unless it has one; whether it had none."""
        number = self._appeared[sender].see(shape)
        if number:
            for truce in self._truces:
                if truce.names:
                    truce.appears((sender, number), shape)
        return number > 0

    def _came(self, shape: Shape, ts: int, sender: int, covered: bool, fresh: bool) -> None:
        """A cast of another member, not a free one; `fresh` if its shape had not come before."""
        items = shape.items
        against: Sequence[_Use] | None = self._found.get(shape)
        if against is None:
            index = self._index
            if items is not None and len(items) == 1 and not index.vague and items[0] not in index.by_item:
                against = ()  # of what comes once nothing is kept
            else:
                if len(self._found) >= _KNOWN_MAX:
                    self._found.clear()
                against = self._found[shape] = list(map(self._own.__getitem__, index.conflicting(shape)))
        worth, patience, whole = not (shape.wild and self._shapes.frees), self.patience, self._shapes.whole
        vague = self._own.get(whole) if shape is whole else None
        for use in against:
            if shape is not whole or use is vague:  # large batches say nothing of the kinds in them, the own ones do not either
                use.passed += 1
            if worth and use.passed < patience:  # few are rare before so many have passed
                worth = use.usual >= 12 * patience
            elif worth:
                worth = use.rare(patience)
        half = ts + LENGTH // 2
        if (self.used and not self._wait and half > self.lead.end) or (self.truce_used and half > self.truce.end):
            self.stirred = True  # it is to be renewed
        count, number = 0, self._appeared[sender].number(shape)
        name = sender, number or 0
        if number is not None and (worth or name in self._counts.last):
            count = self._counts.see(name, worth)
        self._dull = 0 if worth else self._dull + 1
        self._vain = 0 if covered or ts > max(self.lead.end, self.truce.end) else self._vain + 1
        if self._vain == VAIN // 2:
            self.used = self.truce_used = False  # they are not renewed
        if worth and not covered:
            self._strange += fresh or not count
            if self._wait:
                self._wait -= 1
                often = count and not count % max(1, patience)
                if self._wait and (often or name in self.truce.names):  # otherwise the trial is over
                    self.truce_wanted = self.stirred = True
            elif not self._own or 2 * self._strange >= self._trial or len(self._counts.familiar()) > NAMES_MAX:
                self.wanted = self.stirred = True
            else:
                self._try_again()
                self.truce_wanted = self._familiar = self.stirred = True

    def _try_again(self) -> None:
        """A trial begins."""
        self._wait = self._trial
        self._strange = 0

    def _sent(self, shape: Shape, ts: int) -> None:
        """An own cast, not a free one."""
        use, patience = self._own.get(shape), self.patience
        if ts > self.lead.end and (
            use is None or ((use.passed >= patience or use.usual >= 12 * patience) and use.rare(patience))
        ):
            self._try_again()  # a lead would be jumped over
        self._use(shape, use)

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
        names = [*self._counts.usual(self.patience), *self._counts.familiar()]
        spared = [other for site, number in names if (other := self._appeared[site].shape(number))]
        if spared and not any(self._shapes.conflict(shape, other) for other in spared):
            self.truce_wanted = self._familiar = True
        elif self._spared >= self.patience:
            self.wanted = True
        self._trial = self.patience if self.wanted else min(_WAIT_MAX, 2 * self._trial)
        if self.wanted:
            self._wait = 0
        else:
            self._try_again()
        self._spared = 0

    def due(self, clock: int) -> bool:
        """Whether a lead is worth while now."""
        return self.wanted or (self.used and not self._wait and self.lead.end - clock < LENGTH // 2)

    def announce(self, clock: int) -> list[int] | None:
        """Promise, unless anything may be sent: returns the end of the lead, and the numbers of the repertoire."""
        lead, numbers = self.lead, self._appeared[self._rank]
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
        if named and not self._wanted_by_others(Nearby(self._shapes, named)):
            return None
        lead.give(max(lead.end, clock + LENGTH), named)
        return [lead.end, *named.values()]

    def _wanted_by_others(self, named: Nearby) -> bool:
        """Whether a lead with these shapes would cover anything that came lately and was worth a promise."""
        found = (self._appeared[site].shape(number) for site, number in self._counts.last)
        return any(shape is not None and named.clear_of(shape) for shape in found)

    def truce_due(self, clock: int) -> bool:
        """Whether a truce is worth while now."""
        return self.truce_wanted or (self.truce_used and self.truce.end - clock < LENGTH // 2)

    def announce_truce(self, clock: int) -> list[int] | None:
        """Promise to spare what others usually send, if there is anything: returns the end of the truce, and the names."""
        truce, counts, patience = self.truce, self._counts, self.patience
        names = dict(truce.names) if truce.end > clock else {}
        familiar = counts.familiar()
        wanted = [*counts.usual(patience), *(name for name in familiar if self._familiar or name in truce.names)]
        self.truce_wanted = self.truce_used = self._familiar = False
        for name in dict.fromkeys(wanted):
            shape = self._appeared[name[0]].shape(name[1])
            if shape is None or len(names) == NAMES_MAX:
                continue
            if all(self._own[one].rare(patience) for one in self._index.conflicting(shape)):
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
