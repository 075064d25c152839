"""A long run of the swarm of state transfer, over all orders."""

from __future__ import annotations

import pytest

from isotone.protocol.ordering import registry
from isotone.sim.stateful import judge_state
from isotone.sim.swarm import CHECKER, find_checker

pytestmark = pytest.mark.long


@pytest.mark.parametrize("order", registry.names())
def test_many_seeds_of_state_transfer(order: str) -> None:
    check = find_checker(CHECKER)
    failed = [seed for seed in range(1000, 1250) if judge_state(seed, [order], check).failures]
    assert not failed, f"python -m isotone.sim.stateful --order {order} --seed {failed[0]}"
