"""Round steps and numbers for people."""

from __future__ import annotations

import pytest

from isotone.report.stats import nice_step, show_duration, show_moment


def test_the_smallest_round_step_is_taken() -> None:
    assert [nice_step(span, 10) for span in (5, 10, 11, 21, 51, 101)] == [1, 1, 2, 5, 10, 20]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1_500, "1.50 µs"), (2_000_000, "2 ms"), (12_340_000, "12.3 ms"), (10**12, "1,000 s")],
)
def test_durations_are_written_for_people(ns: int, text: str) -> None:
    assert show_duration(ns) == text


def test_moments_are_seconds_or_steps() -> None:
    assert show_moment(1_500_000_000) == "1.500000 s"
    assert show_moment(1_500, timed=False) == "step 1,500"
