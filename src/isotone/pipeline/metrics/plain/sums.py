"""Sums over arrays of integers in which a value may be unknown.

Invariant: `NONE`, the smallest integer of 64 bits, stands for null; nothing computes with it.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from isotone.trace.schema import INT64_MIN

NONE: Final = INT64_MIN
Ints: TypeAlias = npt.NDArray[np.int64]
Row: TypeAlias = dict[str, Any]


def known(values: Ints) -> Ints:
    """The values that are there."""
    there: Ints = values[values != NONE]
    return there


def one(value: Any) -> int | None:
    """An element as a Python number."""
    return None if value == NONE else int(value)


def minus(above: Ints, below: Ints) -> Ints:
    """The differences that are known."""
    there = (above != NONE) & (below != NONE)
    return np.where(there, np.where(there, above, 0) - np.where(there, below, 0), NONE)


def never_negative(values: Ints) -> Ints:
    """What is negative is unknown."""
    return np.where(values >= 0, values, NONE)


def whole(values: Ints) -> int | None:
    """The sum; None if there is nothing, or one is unknown: a part is not the whole."""
    return int(values.sum()) if len(values) and not (values == NONE).any() else None


def partial(values: Ints) -> int | None:
    """The sum of what is known; None if nothing is."""
    values = known(values)
    return int(values.sum()) if len(values) else None


def least(values: Ints) -> int | None:
    """The smallest of the known values."""
    values = known(values)
    return int(values.min()) if len(values) else None


def most(values: Ints) -> int | None:
    """The largest; unknown ones are smaller than all others."""
    return one(values.max()) if len(values) else None


def mean(values: list[Any]) -> float | None:
    """The mean of what is not None."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def nearest(ordered: Ints, part: float) -> int:
    """The percentile of nearest rank: of n values the one in place ⌈part · n⌉, as Spark's `percentile_approx` has it."""
    return int(ordered[max(0, ceil(part * len(ordered)) - 1)])


def spread(prefix: str, values: Ints) -> Row:
    """How values are distributed: count, mean, p50, p99 and max; all but the count are None of nothing."""
    ordered = np.sort(known(values))
    names = [f"{prefix}_{name}" for name in ("mean_ns", "p50_ns", "p99_ns", "max_ns")]
    if not len(ordered):
        return {f"{prefix}_count": 0, **dict.fromkeys(names)}
    numbers = (float(ordered.mean()), nearest(ordered, 0.5), nearest(ordered, 0.99), int(ordered[-1]))
    return {f"{prefix}_count": len(ordered), **dict(zip(names, numbers, strict=True))}


def joint(*columns: Ints) -> Ints:
    """One number for each combination of values."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        words, inverse = np.unique(column, return_inverse=True)
        codes = np.unique(codes * max(1, len(words)) + inverse, return_inverse=True)[1].astype(np.int64)
    return codes


def grouped(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """Each code, in ascending order, with the places where it stands, in ascending order."""
    if not len(codes):
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for places in np.split(order, starts[1:]):
        yield int(codes[places[0]]), places


def buckets(at: Ints, width_ns: int) -> Ints:
    """The stretch of time that each moment falls into; all moments must be known."""
    return np.floor(at / width_ns).astype(np.int64)


def series(at: Ints, width_ns: int) -> Row:
    """Number, mean and variance of events per stretch of time, empty ones between the first and the last included."""
    places, counts = np.unique(buckets(at, width_ns), return_counts=True)
    stretches, events = int(places[-1] - places[0]) + 1, len(at)
    average = events / stretches
    variance = int((counts * counts).sum()) / stretches - average * average
    return {
        "buckets": stretches,
        "events": events,
        "mean": average,
        "variance": variance,
        "dispersion": variance / average,
    }
