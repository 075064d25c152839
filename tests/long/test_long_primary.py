"""Consensus and primary membership under many more seeds than the quick suite has."""

import pytest

from isotone.protocol.ordering import registry
from isotone.sim.judge import judge
from isotone.sim.sometimes import ADOPTED, DUEL
from isotone.sim.swarm import CHECKER, find_checker
from tests.protocol.consensus_swarm import failures


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 70_000, 10_000))
def test_consensus(first: int) -> None:
    assert failures(first, 10_000) == []


@pytest.mark.long
@pytest.mark.parametrize("order", registry.names())
def test_primary_membership(order: str) -> None:
    check = find_checker(CHECKER)
    rare = 0
    for seed in range(1_000, 1_300):
        verdict, _ = judge(seed, [order], check, membership="primary")
        assert not verdict.failures, f"seed {seed}: {verdict.failures[0]}"
        rare += verdict.sometimes[DUEL] + verdict.sometimes[ADOPTED]
    assert rare
