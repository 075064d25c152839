"""Every deliberate fault of state transfer is caught within a bounded number of seeds of its swarm."""

from __future__ import annotations

import pytest

from isotone.sim.stateful import judge_state
from isotone.sim.swarm import all_orders
from tests.mutants.state_mutants import STATE_MUTANTS, StateMutant

SEEDS = 400


@pytest.mark.parametrize("mutant", STATE_MUTANTS, ids=str)
def test_a_mutant_of_state_transfer_is_caught(mutant: StateMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    failures: list[str] = []
    for seed in range(1, SEEDS + 1):
        failures += judge_state(seed, all_orders(), None).failures
        if any(words in failure for failure in failures for words in mutant.seen):
            return
    pytest.fail(f"{mutant} survives {SEEDS} seeds; what failed was {failures[:3] or 'nothing'}")
