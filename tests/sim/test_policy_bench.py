"""`benchmarks/policy.py`: what counts as equally good, and when `auto` has kept what it promises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from policy import AUTO, NS, Outcome, Result, compared, fixed, page, summary
from policy_trials import DRAWN, HELD_OUT, LOOKED_AT, Load, Trial

TRIAL = Trial("two phases", 3, 5, 0, (Load(10, 10), Load(10, 10, ((1, 0.8),))))


def result(**latencies: list[tuple[float, float]]) -> Result:
    """One pair of means in ms per seed; who is not named is slow."""
    runs = {}
    for variant in [*fixed(TRIAL), AUTO]:
        pairs = latencies.get(str(variant).replace(" ", "_"), [(90.0, 90.0)] * 3)
        runs[str(variant)] = [Outcome([round(one * NS * 100), round(two * NS * 100)], [100, 100], []) for one, two in pairs]
    return Result(TRIAL, runs)


def test_chance_is_what_pairs_of_runs_differ_by() -> None:
    same = compared(1.01, [0.9, 1.1, 1.03])
    assert same.low < 1 < same.high
    other = compared(1.01, [1.01, 1.011, 1.009])
    assert 1 < other.low < 1.01 < other.high
    assert compared(1.2, [1.2]).low == 0  # a single run says nothing


def test_a_choice_that_is_behind_by_chance_alone_is_as_good_as_the_best() -> None:
    clear = [(10.0, 20.0)] * 3
    near = [(10.04, 5.0)] * 3  # 0.4 % behind, always
    assert result(atop=clear, token=near, auto=clear).always == ["token"]
    chance = [(9.9, 5.0), (10.4, 5.0), (10.0, 5.0)]  # 1 % behind, now more, now less
    assert result(atop=clear, token=chance, auto=clear).always == ["token"]
    surely = [(10.1, 5.0)] * 3  # 1 % behind, always
    assert result(atop=clear, token=surely, auto=clear).always == []
    far = [(9.0, 5.0), (12.0, 5.0), (10.0, 5.0)]  # 3 % behind: no matter how much it scatters
    assert result(atop=clear, token=far, auto=clear).always == []


def test_where_none_is_always_best_auto_has_to_beat_them_all_by_the_mean() -> None:
    one, other = [(10.0, 20.0)] * 3, [(16.0, 10.0)] * 3
    won = result(atop=one, token=other, auto=[(10.5, 10.5), (11.0, 10.5), (10.0, 10.5)])
    assert won.kept
    assert won.whole.ratio == pytest.approx(21 / 26)
    assert "in 1: in 1 beyond chance. It is not in none." in summary("Some", [won])
    slow = result(atop=one, token=other, auto=[(10.5, 15.8)] * 3)  # over the whole run, and in the second phase
    assert not slow.kept
    assert "It is not in 1: two phases (1.012, beyond chance)." in summary("Some", [slow])
    assert not result(atop=one, token=other, auto=[(11.6, 10.0)] * 3).kept  # 16 % behind in a phase
    assert result(atop=[(10.0, 10.0)] * 3, auto=[(10.1, 10.1)] * 3).kept  # nothing to be won


def test_the_page_tells_who_is_always_best_and_what_is_chance() -> None:
    text = page([result(atop=[(10.0, 20.0)] * 3, token=[(10.0, 5.0)] * 3, auto=[(10.2, 5.0), (10.0, 5.0), (10.1, 5.0)])], 3, "x")
    assert "As good as the best in every phase: `token`." in text
    assert "| 1.007 | 95 %: 0.99" in text


def test_trials_differ_and_have_names_of_their_own() -> None:
    trials = [*LOOKED_AT, *DRAWN, *HELD_OUT]
    assert len({trial.name for trial in trials}) == len({trial[1:] for trial in trials}) == len(trials) == 55
