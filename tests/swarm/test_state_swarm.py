"""The swarm of state transfer: seeds pass, and transfers were interrupted in all the ways that matter.

Seed 19 is among them: all sources' applications failed at once, and nobody asked for another view.
"""

from __future__ import annotations

from collections import Counter

from isotone.sim.stateful import COUNTERS, judge_state
from isotone.sim.swarm import CHECKER, find_checker

SEEDS = 48
ORDERS = ["fifo", "causal", "sequencer", "single_phase"]


def test_joiners_have_the_state_of_the_others() -> None:
    check = find_checker(CHECKER)
    failed = []
    seen: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        verdict = judge_state(seed, ORDERS, check)
        if verdict.failures:
            failed.append(f"python -m isotone.sim.stateful --seed {seed}: {verdict.failures[0]}")
        seen.update(verdict.sometimes)
    assert not failed, "\n".join(failed)
    assert not [what for what in COUNTERS.values() if not seen[what]], seen


def test_joiners_have_the_state_of_the_others_in_primary_membership() -> None:
    for seed in range(1, 9):
        verdict = judge_state(seed, ORDERS, None, "primary")
        assert not verdict.failures, f"python -m isotone.sim.stateful --membership primary --seed {seed}: {verdict.failures[0]}"
