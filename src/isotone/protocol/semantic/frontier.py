"""Which casts of the past a new cast has to name, so that everybody waits for all that it conflicts with (paper 002, §6).

A cast *precedes* another one if it is in its past and conflicts with it. Whoever delivers a cast has delivered all that precede
it, so a cast need not name what precedes one that it names: only the last ones. Where the relation is an equivalence, these are
the ends of a class, at most one per sender that the others do not follow: a clock per class. For other relations they may be
many: beyond `MOST` the cast names, per sender, the last of them and *everything up to it* (`upto`), which says more than is
needed and so is sound.

What all members hold (`freed`) is not named at all: a receiver that holds a cast sees by itself whether it conflicts.

Invariants: whatever was added, is in the past of a new cast and conflicts with it is held by all, is named, is covered by an
`upto`, or precedes one of which that is true. What is remembered is bounded by what is not yet held by all, and per shape by
`MOST` or one per member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isotone.model.records import Place
from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.shapes import Shape, Shapes

MOST = 16
_SWEEP = 64


class Known:
    """A cast: whose, which, what it touches, and its past: how many casts of each member precede it in time."""

    __slots__ = ("past", "rank", "seq", "shape")

    def __init__(self, rank: int, seq: int, shape: Shape, past: Sequence[int]) -> None:
        self.rank = rank
        self.seq = seq
        self.shape = shape
        self.past = past

    def follows(self, other: Known) -> bool:
        """Whether the other one is in this one's past."""
        return self.past[other.rank] >= other.seq


class Frontier:
    """The last casts of the past, by shape."""

    def __init__(self, shapes: Shapes, count: int) -> None:
        self._shapes = shapes
        self.conflict = shapes.conflict
        self._row = max(MOST, count)
        self._known: dict[Shape, list[Known]] = {}
        self._folded: dict[Shape, dict[int, int]] = {}  # per shape and sender, up to where casts were forgotten
        self._nearby = Nearby(shapes)
        self._sweep_at = _SWEEP

    def __len__(self) -> int:
        return len(self._known)

    def add(self, cast: Known, freed: Sequence[int]) -> None:
        """A cast belongs to the past from here on. Those that precede it have been added."""
        shape = cast.shape
        row = self._known.get(shape)
        if row is None:
            if len(self._known) >= self._sweep_at:
                self._sweep(freed)
            row = self._known[shape] = []
            self._nearby.add(shape)
        elif self.conflict(shape, shape):
            row[:] = [one for one in row if not cast.follows(one)]
        row.append(cast)
        if len(row) > self._row:
            first = row.pop(0)
            folded = self._folded.setdefault(shape, {})
            folded[first.rank] = max(folded.get(first.rank, 0), first.seq)

    def before(
        self, shape: Shape, freed: Sequence[int], undelivered: Iterable[Known], unknown: dict[int, int]
    ) -> tuple[list[Place], list[Place]]:
        """What a new cast of this shape names: casts, and casts with everything up to them.

        `undelivered` are casts of its past that were not added, and that conflict with it; of each sender in `unknown` some up to
        that number are in its past of which nothing is known.
        """
        found = list(undelivered)
        folds: list[tuple[int, int, Shape]] = []
        for other in self._nearby.conflicting(shape):
            found += [one for one in self._known[other] if one.seq > freed[one.rank]]
            folds += [(rank, seq, other) for rank, seq in self._folded.get(other, {}).items() if seq > freed[rank]]
        upto = dict(unknown)
        for rank, seq, other in folds:
            if not any(one.past[rank] >= seq and self.conflict(one.shape, other) for one in found[: 4 * MOST]):
                upto[rank] = max(upto.get(rank, 0), seq)
        found = [one for one in found if one.seq > upto.get(one.rank, 0)]
        if len(found) <= 4 * MOST:
            found = [one for one in found if not any(two.follows(one) and self.conflict(one.shape, two.shape) for two in found)]
        if len(found) + len(upto) > MOST:
            for one in found:
                upto[one.rank] = max(upto.get(one.rank, 0), one.seq)
            found = []
        return sorted((one.rank, one.seq) for one in found), sorted(upto.items())

    def _sweep(self, freed: Sequence[int]) -> None:
        """Forget what all members hold."""
        known: dict[Shape, list[Known]] = {}
        for shape, row in self._known.items():
            left = [one for one in row if one.seq > freed[one.rank]]
            folds = {rank: seq for rank, seq in self._folded.pop(shape, {}).items() if seq > freed[rank]}
            if folds:
                self._folded[shape] = folds
            if left or folds:
                known[shape] = left
        self._known, self._nearby = known, Nearby(self._shapes, known)
        self._sweep_at = _SWEEP + 2 * len(known)
