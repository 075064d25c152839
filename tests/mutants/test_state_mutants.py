"""Every deliberate fault of state transfer is caught within a bounded number of seeds of its swarm."""

from __future__ import annotations

import pytest

from isotone.sim.stateful import judge_state
from tests.mutants.state_mutants import STATE_MUTANTS, StateMutant

SEEDS = 400
ORDERS = ["fifo", "causal", "sequencer", "single_phase"]


@pytest.mark.parametrize("mutant", STATE_MUTANTS, ids=str)
def test_a_mutant_of_state_transfer_is_caught(mutant: StateMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    failures: list[str] = []
    for seed in range(mutant.first, mutant.first + SEEDS):
        failures += judge_state(seed, ORDERS, None).failures
        if any(words in failure for failure in failures for words in mutant.seen):
            return
    pytest.fail(f"{mutant} survives {SEEDS} seeds; what failed was {failures[:3] or 'nothing'}")
