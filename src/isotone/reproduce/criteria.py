"""Criteria of claims: small functions of numbers, each with the words that state it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Judged(NamedTuple):
    """Whether a criterion is met, and the criterion in words."""

    holds: bool
    criterion: str


def at_most(values: Sequence[float], limits: Sequence[float], words: str) -> Judged:
    """No value exceeds its limit."""
    return Judged(all(value <= limit * (1 + 1e-9) for value, limit in zip(values, limits, strict=True)), words)


def at_least(values: Sequence[float], limits: Sequence[float], words: str) -> Judged:
    """No value falls short of its limit."""
    return Judged(all(value >= limit * (1 - 1e-9) for value, limit in zip(values, limits, strict=True)), words)


def grows(values: Sequence[float], factor: float, what: str) -> Judged:
    """Every value exceeds the one before it, and the last is so many times the first."""
    rises = all(later > earlier for earlier, later in pairwise(values))
    return Judged(
        len(values) > 1 and rises and values[-1] >= factor * values[0],
        f"{what} is larger at every step, and at the last at least {factor:g} times the first",
    )


def falls(values: Sequence[float], factor: float, what: str) -> Judged:
    """No value exceeds the one before it by more than 5 %, and the last is so many times smaller than the first."""
    drops = all(later <= 1.05 * earlier for earlier, later in pairwise(values))
    return Judged(
        len(values) > 1 and drops and values[-1] * factor <= values[0],
        f"{what} is at no step more than 5 % above the one before, and at the last at most 1/{factor:g} of the first",
    )


def flat(values: Sequence[float], share: float, what: str) -> Judged:
    """The largest value is at most so much above the smallest."""
    return Judged(max(values) <= min(values) * (1 + share), f"the largest {what} is at most {share:.0%} above the smallest")


def within(values: Sequence[float], low: float, high: float, words: str) -> Judged:
    """Every value lies between two others, both included."""
    slack = 1e-9 * max(1.0, abs(high))
    return Judged(all(low - slack <= value <= high + slack for value in values), words)
