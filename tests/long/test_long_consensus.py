"""Consensus under many more seeds than the quick suite has."""

import pytest

from tests.protocol.consensus_swarm import failures


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 70_000, 10_000))
def test_consensus(first: int) -> None:
    assert failures(first, 10_000) == []
