"""Distributions: weights over the members of a view, and the sequence of slot owners that they fix (paper 000 §4.1, §4.2).

The id of a distribution is one number, counter · members + rank of its injector; 0 is the default one with equal weights. Its
sequence is a *period* of owners that repeats for ever, so that the slot of a member's i-th message, and the first own slot
beyond another, are found without walking. Two ways to make a period:

- `random`, the paper's: every slot is drawn by its weights with SplitMix64, seeded from the view id and the distribution id. The
  period has `PERIOD` slots, drawn as they are needed; a member that was never drawn gets a slot at its end.
- `even`: the k-th of a member's w slots stands at (2k + 1) / 2w of the period, ties by rank: the same proportions, evenly spread.

Invariants: integers only, so every member computes the same; every member owns a slot in each period; a member's slots increase
with its index; all weights are at least 1, and their sum is bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate

from isotone.model.ids import ViewId
from isotone.protocol.splitmix import SplitMix64

PERIOD = 1 << 14
MOST_INDEX = 1 << 48
_CHUNK = 64
_EVEN_BITS = 40


def most_weight(count: int) -> int:
    """The largest sum of weights in a view of `count` members; it bounds the length of a period."""
    return 4096 + count


def fault_of(weights: Sequence[int], count: int) -> str | None:
    """What is wrong with weights over `count` members, in words."""
    if len(weights) != count:
        return f"{len(weights)} weights for {count} members"
    if any(type(weight) is not int for weight in weights):
        return "a weight that is no integer"
    if min(weights) < 1:
        return f"a weight of {min(weights)}"
    if sum(weights) > most_weight(count):
        return f"weights that add up to {sum(weights)}, more than {most_weight(count)}"
    return None


def seed_of(view: ViewId, distribution: int) -> int:
    """The seed of a distribution's sequence; the same at every member."""
    return int.from_bytes(blake2b(f"{view}/{distribution}".encode(), digest_size=8).digest(), "big")


class Slots:
    """Who owns which slot, one period after the other. This class knows a whole period; `RandomSlots` draws its own."""

    def __init__(self, owners: Sequence[int], count: int) -> None:
        self.length = len(owners)
        self.of: list[list[int]] = [[] for _ in range(count)]  # per member, its slots within a period
        for slot, owner in enumerate(owners):
            self.of[owner].append(slot)

    def slot(self, member: int, index: int) -> int:
        """The slot of a member's message with this index."""
        own = self.of[member]
        if index < len(own):
            return own[index]
        period, rest = divmod(index, len(own))
        return period * self.length + own[rest]

    def index(self, member: int, slot: int) -> int:
        """The index of the first slot of a member that is not below `slot`."""
        own = self.of[member]
        period, rest = divmod(slot, self.length)
        return period * len(own) + bisect_left(own, rest)

    def owners(self, count: int) -> list[int]:
        """The owners of the first slots, for people and tests."""
        period = sorted((slot, member) for member, own in enumerate(self.of) for slot in own)
        return [period[i % self.length][1] for i in range(count)]


class EvenSlots(Slots):
    """The period of an even interleaving."""

    def __init__(self, weights: Sequence[int]) -> None:
        places = [(((2 * k + 1) << _EVEN_BITS) // w, member) for member, w in enumerate(weights) for k in range(w)]
        super().__init__([member for _, member in sorted(places)], len(weights))


class RandomSlots(Slots):
    """A period drawn at random by weight, as far as it was asked for."""

    def __init__(self, weights: Sequence[int], seed: int) -> None:
        super().__init__([], len(weights))
        self.length = PERIOD
        self.drawn = 0
        self._generator = SplitMix64(seed)
        self._bounds = list(accumulate(weights))

    def _draw(self) -> None:
        """The next slots. The remainder of 64 bits by a small sum favours no member by more than one part in 2^50."""
        total, bounds, draw, of = self._bounds[-1], self._bounds, self._generator.next, self.of
        for slot in range(self.drawn, self.drawn + _CHUNK):
            of[_owner(bounds, draw() % total)].append(slot)
        self.drawn += _CHUNK
        if self.drawn == PERIOD:
            for own in of:
                if not own:
                    own.append(self.length)
                    self.length += 1

    def slot(self, member: int, index: int) -> int:
        own = self.of[member]
        while index >= len(own) and self.drawn < PERIOD:
            self._draw()
        return super().slot(member, index)

    def index(self, member: int, slot: int) -> int:
        own = self.of[member]
        while self.drawn < PERIOD and (not own or own[-1] < slot):
            self._draw()
        return super().index(member, slot)

    def owners(self, count: int) -> list[int]:
        while self.drawn < min(count, PERIOD):
            self._draw()
        return super().owners(count)


def _owner(bounds: list[int], value: int) -> int:
    return bisect_left(bounds, value + 1)


class Distribution:
    """An id with its weights; the sequence is made when it is asked for."""

    __slots__ = ("_slots", "id", "kind", "seed", "total", "weights")

    def __init__(self, id: int, weights: Sequence[int], kind: str, view: ViewId) -> None:
        self.id = id
        self.weights = tuple(weights)
        self.total = sum(weights)
        self.kind = kind
        self.seed = seed_of(view, id)
        self._slots: Slots | None = None

    @property
    def slots(self) -> Slots:
        """The sequence of slot owners."""
        slots = self._slots
        if slots is None:
            slots = EvenSlots(self.weights) if self.kind == "even" else RandomSlots(self.weights, self.seed)
            self._slots = slots
        return slots
