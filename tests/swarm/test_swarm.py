"""The swarm of `make test`: some hundred seeds, spread over all orderers, each a storm of faults followed by a healing.

Safety is judged by the oracle over every row, liveness by the swarm itself. What must have happened *sometimes* is counted: a
swarm that never reaches the rare states proves little. `make test-long N=…` runs any number of seeds.
"""

from __future__ import annotations

from collections import Counter

import pytest

from isotone.model.settings import MEMBERSHIPS, MembershipKind
from isotone.protocol.ordering import registry
from isotone.sim import sometimes
from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker

SEEDS = 90
SOMETIMES = (
    "crash during a flush",
    "merge of three components",
    "retransmission just after a view change",
    "suspicion withdrawn",
    "message recovered from a third member",
)
EARLY = (
    "message delivered from behind a gap",
    "message recovered without those before it, which nobody has",
)
"""Where casts are taken early."""

PRIMARY = 50
PRIMARY_SOMETIMES = (
    "member blocked without a majority",
    "member expelled",
    "decision heard from a third member",
    "majority lost for good",
)


def test_primary_membership() -> None:
    """All orders; duels and decisions that another one proposed are rarer (1 and 3 % of the seeds), and left to the long run."""
    check = find_checker(CHECKER)
    seen: Counter[str] = Counter()
    failed = []
    for seed in range(1, PRIMARY + 1):
        verdict, _ = judge(seed, registry.names(), check, membership="primary")
        if verdict.failures:
            failed.append(f"python -m isotone.sim.swarm --seed {seed} --membership primary: {verdict.failures[0]}")
        seen.update(verdict.sometimes)
    assert not failed, "\n".join(failed)
    assert not [what for what in PRIMARY_SOMETIMES if not seen[what]], seen


SWITCHES = range(4, 34)
"""Seeds that together reach every state that only a switch has."""


@pytest.mark.parametrize("membership", MEMBERSHIPS)
def test_switches(membership: MembershipKind) -> None:
    """Among all orders, at random instants, with all other faults."""
    check = find_checker(CHECKER)
    seen: Counter[str] = Counter()
    failed = []
    for seed in SWITCHES if membership == "partitionable" else SWITCHES[:15]:
        verdict, _ = judge(seed, registry.names(), check, membership=membership, switches=True)
        if verdict.failures:
            failed.append(
                f"python -m isotone.sim.swarm --seed {seed} --switches --membership {membership}: {verdict.failures[0]}"
            )
        seen.update(verdict.sometimes)
    assert not failed, "\n".join(failed)
    wanted = sometimes.SWITCHES if membership == "partitionable" else (sometimes.SWITCHED, sometimes.SWITCH_STAYED)
    assert not [what for what in wanted if not seen[what]], seen


@pytest.mark.parametrize("order", registry.names())
def test_seeds_pass_and_reach_the_rare_states(order: str) -> None:
    check = find_checker(CHECKER)
    failed = []
    seen: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        verdict, _ = judge(seed, [order], check)
        if verdict.failures:
            failed.append(f"python -m isotone.sim.swarm --seed {seed} --order {order}: {verdict.failures[0]}")
        seen.update(verdict.sometimes)
    assert not failed, "\n".join(failed)
    wanted = (*SOMETIMES, *EARLY) if registry.find(order).takes_early else SOMETIMES
    assert not [what for what in wanted if not seen[what]], seen
