"""Seeds of the swarm that once failed. What a seed draws may change with the simulator; what once found something stays."""

from __future__ import annotations

import pytest

from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, all_orders, find_checker

FREED = "a cast that a member lacks was freed"
ENDLESS = "proposals without end in one turn"

ORDERS = ["causal", "fifo", "sequencer", "single_phase"]
"""What the seeds were drawn from."""

EVERY_ORDER = ["all_ack", "atop", "causal", "fifo", "sequencer", "single_phase", "token", "two_phase"]

FOUND = {
    13: FREED,
    16: FREED,
    20: FREED,
    21: FREED,
    45: "a process that left before its first view went on asking to be woken",
    56: ENDLESS,
    60: ENDLESS,
    179: "a frozen leaver waited for others who ignored it",
    1248: "late casts of a frozen member counted as held, so that safe was not uniform",
    2421: "an estimate of who should be in the view flapped for ever",
    4096: "the only process that two others both knew had left",
}


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_a_seed_that_found_something_passes(seed: int) -> None:
    verdict, _ = judge(seed, ORDERS, find_checker(CHECKER))
    assert not verdict.failures, f"python -m isotone.sim.swarm --seed {seed}\n" + "\n".join(verdict.failures)


FOUND_PRIMARY = {
    ("all_ack", 30707): "a late proposal froze a member for a round that another's decision had ended",
    ("token", 52091): "members gave one up, lost others, and had no majority without it",
}


@pytest.mark.parametrize(("order", "seed"), FOUND_PRIMARY, ids=lambda value: str(value))
def test_a_seed_of_primary_membership_that_found_something_passes(order: str, seed: int) -> None:
    verdict, _ = judge(seed, EVERY_ORDER, find_checker(CHECKER), membership="primary")
    assert verdict.order == order
    assert not verdict.failures, f"python -m isotone.sim.swarm --seed {seed} --membership primary\n" + "\n".join(verdict.failures)


@pytest.mark.parametrize("seed", [1321, 1459, 1468, 2236])
def test_safe_asks_for_what_the_sender_knew(seed: int) -> None:
    """A message was delivered as safe; a member in another component held it, but lacked what its sender had known."""
    verdict, _ = judge(seed, ["semantic_total"], find_checker(CHECKER))
    assert not verdict.failures, "\n".join(verdict.failures)


def test_who_is_still_leaving_at_the_healing_comes_back_to_be_found() -> None:
    """The only seed of the group left after the healing, so that its processes could never find each other."""
    verdict, _ = judge(1871, all_orders(), find_checker(CHECKER))
    assert not verdict.failures, "\n".join(verdict.failures)
