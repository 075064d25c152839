"""Seeds of the swarm in which the token once failed. What a seed draws may change; what once found something stays."""

from __future__ import annotations

import pytest

from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker

EARLY = "a hop of a later ring was dropped because a void one had its number"
START = "of two rings with one start the earlier one's first member was waited for"
FOUND = {
    75: "safe was proven by all of the ring in one component, and by nobody in another",
    1023: EARLY,
    1451: EARLY,
    1634: EARLY,
    1767: START,
    2072: START,
    2418: EARLY,
    2455: "a hop that numbers nothing was not waited for, and the chain was broken without it",
}


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_a_seed_that_found_something_passes(seed: int) -> None:
    verdict, _ = judge(seed, ["token"], find_checker(CHECKER))
    assert not verdict.failures, f"python -m isotone.sim.swarm --seed {seed} --order token\n" + "\n".join(verdict.failures)
