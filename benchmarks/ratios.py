"""Ratios of mean latencies, how much of them is chance, and whether they are what is required.

A measure is, for each seed, the sum of the latencies in ms and how many there were. The interval of a ratio is the jackknife's:
the ratio is computed again without each of the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

Sums: TypeAlias = Sequence[tuple[float, int]]

_T: Final = (0.0, 0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for intervals of 95 %, by the number of seeds."""
_ROUNDED: Final = 0.0005


class Ratio(NamedTuple):
    """Two means, one divided by the other, and half the width of the interval; 0 if there is one seed."""

    value: float
    half: float

    def above(self, bound: float) -> bool:
        """Whether it is above a bound, in the digits shown."""
        return self.value > bound + _ROUNDED

    def beyond(self, bound: float) -> bool:
        """Whether that is more than chance."""
        return self.value - self.half > bound + _ROUNDED

    def __str__(self) -> str:
        return f"{self.value:.3f}" + (f" ± {self.half:.3f}" if self.half else "")


def mean(sums: Sums) -> float | None:
    """The mean latency over all seeds."""
    count = sum(number for _, number in sums)
    return sum(total for total, _ in sums) / count if count else None


def ratio(mine: Sums, other: Sums) -> Ratio:
    """Both have messages in some seed; a seed in which one has none says nothing about chance."""

    def pooled(left_out: int | None) -> float | None:
        above, below = (mean([one for seed, one in enumerate(sums) if seed != left_out]) for sums in (mine, other))
        return above / below if above and below else None

    value = pooled(None)
    assert value is not None
    parts = [part for seed in range(len(mine)) if (part := pooled(seed)) is not None]
    if len(parts) < 2:
        return Ratio(value, 0.0)
    centre = sum(parts) / len(parts)
    error = math.sqrt((len(parts) - 1) / len(parts) * sum((part - centre) ** 2 for part in parts))
    return Ratio(value, _T[len(parts)] * error)


def short(sums: Sums) -> str:
    """A mean for a table."""
    number = mean(sums)
    return "–" if number is None else f"{number:.3f}" if number < 10 else f"{number:.1f}"


def beside(mine: Sums, other: Sums) -> str:
    """A mean, and its ratio to another one."""
    return "–" if mean(mine) is None or not mean(other) else f"{short(mine)} ({ratio(mine, other).value:.2f})"


class Requirement(NamedTuple):
    """In words, the bound, and all ratios that it holds for."""

    text: str
    bound: float
    ratios: list[Ratio]

    def above(self) -> list[Ratio]:
        """The ratios above the bound."""
        return [one for one in self.ratios if one.above(self.bound)]

    def beyond(self) -> list[Ratio]:
        """Those that are more than chance."""
        return [one for one in self.ratios if one.beyond(self.bound)]


def judged(requirements: Sequence[Requirement], where: str) -> list[str]:
    """A table: of each the worst ratio, and whether it holds; without those of which nothing was measured."""
    lines = [f"| requirement | bound | worst ratio, {where} | above the bound | |", "| --- | ---: | ---: | ---: | --- |"]
    for one in filter(lambda one: one.ratios, requirements):
        above, beyond = one.above(), one.beyond()
        verdict = "does not hold" if beyond else "chance" if above else "holds"
        count = f"{len(above)} of {len(one.ratios)}, {len(beyond)} beyond chance"
        lines.append(f"| {one.text} | {one.bound:.2f} | {max(beyond or one.ratios)} | {count} | {verdict} |")
    return lines
