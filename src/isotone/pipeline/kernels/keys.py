"""The key of a delivery, `(view epoch, view proposer, position…)`, as columns: comparing, ranking, hashing.

Invariants: columns compare as the tuples of the oracle do (a null component is smaller than any number, no view is
`(-1, "")`); a fingerprint depends on the values only, not on codes or on the piece they were read in.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from isotone.pipeline.kernels.load import NOTHING, Columns, Ints, Mask, is_constant
from isotone.trace.schema import POSITION_COLUMNS

Key: TypeAlias = tuple[int, str, tuple[int, ...]]
Hashes: TypeAlias = npt.NDArray[np.uint64]
ROWS_AT_ONCE: Final = 16_384
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))


@dataclass(frozen=True, slots=True)
class Salt:
    """Random odd multipliers, drawn once per scan: nobody can prepare a collision."""

    seed: bytes

    def factors(self) -> Hashes:
        drawn = hashlib.blake2b(self.seed, digest_size=64).digest() + hashlib.blake2b(self.seed + b"2", digest_size=64).digest()
        return np.frombuffer(drawn, dtype=np.uint64) | np.uint64(1)

    def word(self, text: str) -> int:
        """A number for a text, for hashing only."""
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=self.seed[:16]).digest(), "little")


class Keys:
    """The keys of some deliveries. Columns that turn out to have one value are held as that value, repeated."""

    def __init__(self, rows: Columns) -> None:
        self.words = rows.words["view_proposer"]
        self.proposer = _flat(rows.codes["view_proposer"])
        self.epoch = _flat(rows.ints["view_epoch"])
        absent = self.epoch == NOTHING
        if absent.any():
            self.proposer = _flat(np.where(absent, np.int32(-1), self.proposer))
            self.epoch = _flat(np.where(absent, -1, self.epoch))
        self.parts = [_flat(rows.ints[name]) for name in POSITION_COLUMNS]

    def __len__(self) -> int:
        return len(self.epoch)

    @property
    def present(self) -> Mask:
        """Which deliveries have a position."""
        found: Mask = self.parts[0] != NOTHING
        return found

    def at(self, row: int) -> Key:
        """The key of one row as the oracle has it."""
        code = int(self.proposer[row])
        position = tuple(int(part[row]) for part in self.parts if part[row] != NOTHING)
        return int(self.epoch[row]), self.words[code] if code >= 0 else "", position

    def _varying(self) -> list[Ints]:
        """The columns that tell keys apart, most significant first."""
        columns = [self.epoch, self.proposer, *self.parts]
        if not is_constant(self.proposer):
            order = np.argsort(np.argsort(np.array(self.words, dtype=object)))
            columns[1] = np.concatenate([order + 1, np.zeros(1, dtype=np.int64)])[self.proposer]
        return [column for column in columns if not is_constant(column)]

    def increasing(self) -> bool:
        """Whether keys strictly increase."""
        if len(self) < 2:
            return True
        equal: Mask | None = None
        for column in self._varying():
            above = column[1:] > column[:-1]
            if equal is not None:
                above |= ~equal
            if above.all():
                return True
            same = column[1:] == column[:-1]
            if not (above | same).all():
                return False
            equal = same if equal is None else equal & same
        return False

    def ranks(self) -> Ints:
        """Dense ranks: equal keys have equal ranks."""
        columns = self._varying()
        if not columns:
            return np.zeros(len(self), dtype=np.int64)
        order = np.lexsort(columns[::-1])
        changed = np.zeros(len(order), dtype=np.bool_)
        for column in columns:
            ordered = column[order]
            changed[1:] |= ordered[1:] != ordered[:-1]
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.cumsum(changed)
        return ranks

    def between(self, low: Key, high: Key) -> Mask:
        """Rows whose key is in the closed interval."""
        return self._not_below(low) & self._not_below(high, above=True)

    def _not_below(self, bound: Key, *, above: bool = False) -> Mask:
        """`key >= bound`, or with `above`, `key <= bound`."""
        sign = -1 if above else 1
        word = np.array([(text > bound[1]) - (text < bound[1]) for text in self.words] + [(bound[1] < "") - (bound[1] > "")])
        padded = [*bound[2], *[NOTHING] * (len(self.parts) - len(bound[2]))]
        signs = [_sign(self.epoch, bound[0]), word[self.proposer], *map(_sign, self.parts, padded)]
        result = np.zeros(len(self), dtype=np.int64)
        for column in signs:
            result = np.where(result == 0, column, result)
        kept: Mask = result * sign >= 0
        return kept

    def hashes(self, number: Ints, salt: Salt) -> Hashes:
        """A hash of number and key per row."""
        factors = salt.factors()
        words = np.array([salt.word(text) for text in [*self.words, ""]], dtype=np.uint64)
        proposer = words[self.proposer[:1]] if is_constant(self.proposer) else words[self.proposer]
        columns = [(number, factors[0]), (self.epoch, factors[2]), (proposer, factors[3])]
        columns += zip(self.parts, factors[4:], strict=False)
        return _hashes(columns, factors[1], len(number))


def digest_hashes(number: Ints, digest: Ints, salt: Salt) -> Hashes:
    """A hash of number and payload digest per row."""
    factors = salt.factors()
    return _hashes([(number, factors[9]), (digest, factors[10])], factors[11], len(number))


def _hashes(columns: list[tuple[Any, Any]], start: Any, rows: int) -> Hashes:
    """The mixed sum of columns times factors, some rows at a time: what is worked on stays in the processor's cache."""
    total = np.empty(rows, dtype=np.uint64)
    if not rows:
        return total
    start = start + np.zeros(1, dtype=np.uint64)
    varying = []
    for column, factor in columns:
        if len(column) == 1 or is_constant(column):
            start += column[:1].view(np.uint64) * factor
        else:
            varying.append((column.view(np.uint64), factor))
    product = np.empty(min(rows, ROWS_AT_ONCE), dtype=np.uint64)
    for first in range(0, rows, ROWS_AT_ONCE):
        some = total[first : first + ROWS_AT_ONCE]
        some[:] = start
        scratch = product[: len(some)]
        for column, factor in varying:
            some += np.multiply(column[first : first + ROWS_AT_ONCE], factor, out=scratch)
        mix(some, scratch)
    return total


def mix(values: Hashes, scratch: Hashes | None = None) -> Hashes:
    """The finaliser of splitmix64, in place; `scratch` is as long as the values."""
    if scratch is None:
        scratch = np.empty_like(values)
    values ^= np.right_shift(values, _SHIFTS[0], out=scratch)
    values *= _MIX[0]
    values ^= np.right_shift(values, _SHIFTS[1], out=scratch)
    values *= _MIX[1]
    values ^= np.right_shift(values, _SHIFTS[2], out=scratch)
    return values


def _flat(column: Any) -> Any:
    """The column, or if all its values are equal, that value repeated without memory."""
    if len(column) < 2 or is_constant(column) or column[0] != column[-1] or not (column == column[0]).all():
        return column
    return np.broadcast_to(column[:1].copy(), len(column))


def _sign(column: Ints, bound: int) -> Any:
    return (column > bound).astype(np.int64) - (column < bound)
