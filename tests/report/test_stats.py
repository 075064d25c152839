"""The report's statistics, against plain formulas and the standard library."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.report.stats import (
    histogram,
    log_edges,
    make_buckets,
    nice_step,
    quantile,
    show_duration,
    summarise,
)

values = st.lists(st.integers(0, 10**10), min_size=2, max_size=60)


@given(values)
def test_quantiles_are_those_of_the_standard_library(numbers: list[int]) -> None:
    expected = statistics.quantiles(numbers, n=100, method="inclusive")
    summary = summarise(numbers)
    assert summary is not None
    found = (summary.p50, summary.p90, summary.p99)
    assert found == pytest.approx((expected[49], expected[89], expected[98]))
    assert summary.mean == pytest.approx(statistics.fmean(numbers))
    assert (summary.count, summary.most) == (len(numbers), max(numbers))


def test_nothing_has_no_summary() -> None:
    assert summarise([]) is None
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)
    assert quantile([7], 0.99) == 7


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=60))
def test_a_histogram_counts_every_value_between_its_edges(numbers: list[int]) -> None:
    edges = log_edges(min(numbers), max(numbers))
    counts = histogram(numbers, edges)
    assert edges == sorted(edges)
    assert edges[0] <= min(numbers)
    assert edges[-1] >= max(numbers)
    for index, count in enumerate(counts):
        last = index == len(counts) - 1
        assert count == sum(edges[index] <= n < edges[index + 1] or (last and n == edges[-1]) for n in numbers)


@given(st.integers(0, 10**12), st.integers(1, 200))
def test_buckets_cover_the_duration_in_round_steps(duration: int, most: int) -> None:
    buckets = make_buckets(duration, most)
    assert 1 <= buckets.count <= most
    assert buckets.width * buckets.count >= duration
    assert str(buckets.width).rstrip("0") in ("1", "2", "5")
    assert buckets.place(0) == 0
    assert buckets.place(duration) == buckets.count - 1
    assert buckets.place(-5) == 0


def test_the_smallest_round_step_is_taken() -> None:
    assert [nice_step(span, 10) for span in (5, 10, 11, 21, 51, 101)] == [1, 1, 2, 5, 10, 20]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1_500, "1.50 µs"), (2_000_000, "2 ms"), (12_340_000, "12.3 ms"), (10**12, "1,000 s")],
)
def test_durations_are_written_for_people(ns: int, text: str) -> None:
    assert show_duration(ns) == text
