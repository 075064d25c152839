"""The key of a delivery, `(view epoch, view proposer, position…)`, as columns: comparing, ranking, hashing.

Invariants: columns compare as the tuples of the oracle do (a null component is smaller than any number, no view is
`(-1, "")`); a fingerprint depends on the values only, not on codes or on the piece they were read in.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from isotone.pipeline.kernels.load import NOTHING, Columns, Ints, Mask
from isotone.trace.schema import POSITION_COLUMNS

Key: TypeAlias = tuple[int, str, tuple[int, ...]]
Hashes: TypeAlias = npt.NDArray[np.uint64]
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


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
    """The keys of some deliveries."""

    def __init__(self, rows: Columns) -> None:
        self.words = rows.words["view_proposer"]
        order = np.argsort(np.argsort(np.array(self.words, dtype=object))) if self.words else np.empty(0, dtype=np.int64)
        rank = np.concatenate([order.astype(np.int64) + 1, np.zeros(1, dtype=np.int64)])
        self.proposer = rows.codes["view_proposer"]
        epoch = rows.ints["view_epoch"]
        self.epoch = epoch
        if len(epoch) and int(epoch.min()) == NOTHING:
            self.epoch = np.where(epoch == NOTHING, -1, epoch)
            self.proposer = np.where(epoch == NOTHING, -1, self.proposer)
        self.parts = [rows.ints[name] for name in POSITION_COLUMNS]
        self.present: Mask = self.parts[0] != NOTHING
        self._order: list[Ints] = [self.epoch, rank[self.proposer], *self.parts]

    def __len__(self) -> int:
        return len(self.epoch)

    def at(self, row: int) -> Key:
        """The key of one row as the oracle has it."""
        code = int(self.proposer[row])
        position = tuple(int(part[row]) for part in self.parts if part[row] != NOTHING)
        epoch = int(self.epoch[row])
        return epoch, self.words[code] if code >= 0 and epoch >= 0 else "", position

    def _varying(self) -> list[Ints]:
        return [column for column in self._order if len(column) and bool((column != column[0]).any())]

    def increasing(self) -> bool:
        """Whether keys strictly increase."""
        if len(self) < 2:
            return True
        above = np.zeros(len(self) - 1, dtype=np.bool_)
        equal = np.ones(len(self) - 1, dtype=np.bool_)
        for column in self._varying():
            above |= equal & (column[1:] > column[:-1])
            if above.all():
                return True
            equal &= column[1:] == column[:-1]
        return bool(above.all())

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
        total = number.view(np.uint64) * factors[0] + factors[1]
        columns = [self.epoch.view(np.uint64), words[self.proposer], *(part.view(np.uint64) for part in self.parts)]
        for column, factor in zip(columns, factors[2:], strict=False):
            if len(column) and (column == column[0]).all():
                total += column[:1] * factor
            else:
                total += column * factor
        return mix(total)


def digest_hashes(number: Ints, digest: Ints, salt: Salt) -> Hashes:
    """A hash of number and payload digest per row."""
    factors = salt.factors()
    return mix(number.view(np.uint64) * factors[9] + digest.view(np.uint64) * factors[10] + factors[11])


def mix(values: Hashes) -> Hashes:
    """The finaliser of splitmix64, in place."""
    values ^= values >> np.uint64(30)
    values *= _MIX[0]
    values ^= values >> np.uint64(27)
    values *= _MIX[1]
    values ^= values >> np.uint64(31)
    return values


def _sign(column: Ints, bound: int) -> Any:
    return (column > bound).astype(np.int64) - (column < bound)
