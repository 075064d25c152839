"""Plain statistics of the report: quantiles, buckets of time, histograms, and numbers as people read them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of values looks like; times in nanoseconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The quantile of values in ascending order, linear between the two nearest."""
    if not ordered:
        raise ValueError("no values")
    place = (len(ordered) - 1) * fraction
    low = floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarise(values: Iterable[float]) -> Summary | None:
    """Count, mean, quantiles and maximum; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p99 = (quantile(ordered, fraction) for fraction in (0.5, 0.9, 0.99))
    return Summary(len(ordered), sum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


def nice_step(span: float, at_most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that cuts the span into at most so many pieces."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if span <= step * factor * at_most:
                return step * factor
        step *= 10


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal stretches of time from 0 on."""

    width: int
    count: int

    def place(self, time: int) -> int:
        """The bucket that holds a moment; the last one holds the end too."""
        return min(max(time, 0) // self.width, self.count - 1)


def make_buckets(duration: int, at_most: int = 100) -> Buckets:
    """Buckets of a round width that cover a duration."""
    width = nice_step(max(duration, 1), at_most)
    return Buckets(width, max(1, ceil(duration / width)))


def log_edges(low: float, high: float, per_decade: int = 10) -> list[float]:
    """Edges of bins that grow by a constant factor and cover low to high; low must be above 0."""
    first = floor(log10(low) * per_decade)
    last = max(first + 1, ceil(log10(high) * per_decade))
    edges = [10 ** (index / per_decade) for index in range(first, last + 1)]
    edges[0] = min(edges[0], low)
    edges[-1] = max(edges[-1], high)
    return edges


def histogram(values: Iterable[float], edges: Sequence[float]) -> list[int]:
    """How many values fall between each two edges: the lower edge belongs to a bin, and to the last bin its upper one."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        place = bisect_right(edges, value) - 1
        counts[min(max(place, 0), len(counts) - 1)] += 1
    return counts


def show_duration(ns: float) -> str:
    """Nanoseconds as people read them: three significant digits and a unit."""
    size = abs(ns)
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if size >= factor * 0.9995:
            return f"{_digits(ns / factor)} {unit}"
    return f"{_digits(ns)} ns"


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def show_moment(ns: float, timed: bool = True) -> str:
    """A place on the axis of a run: seconds since its start, or a logical step."""
    return f"{ns / 1e9:,.6f} s" if timed else f"step {ns:,.0f}"
