"""Groups under a policy that never rests, in the storms of the swarm: safety does not depend on what is decided, or when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from isotone.model.settings import MS, EndpointConfig
from isotone.model.view import Ordering
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.ordering import registry
from isotone.protocol.switching import policy as policies
from isotone.protocol.switching.observe import Observation
from isotone.protocol.switching.policy import Policy, register_policy
from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker

SEEDS = 24
TOTAL = [name for name in registry.names() if registry.find(name).total and not registry.find(name).semantic]


class Restless(Policy):
    """Another order every time, with the sequencer at whoever is the busiest."""

    name = "restless"

    def decide(self, observation: Observation, current: Ordering, now: int) -> Ordering | None:
        order = TOTAL[(TOTAL.index(current.order) + 1 + now % 2) % len(TOTAL)]
        at = self.members[observation.busiest].partition("#")[0]
        return Ordering(order, options={"at": at} if order == "sequencer" else {})


def restless(config: EndpointConfig, recorder: Any) -> Endpoint:
    """An endpoint whose group is under that policy."""
    ordering = Ordering("auto", config.ordering.level, config.ordering.k, {"policy": "restless"})
    return Endpoint(msgspec.structs.replace(config, ordering=ordering), recorder)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(policies, "DWELL_NS", 300 * MS)
    register_policy(Restless)
    yield
    del policies.POLICIES._known["restless"]


@pytest.mark.usefixtures("policy")
def test_a_restless_policy_breaks_nothing() -> None:
    switches = 0
    for seed in range(1, SEEDS + 1):
        verdict, result = judge(seed, TOTAL, find_checker(CHECKER), endpoint_factory=restless)
        assert not verdict.failures, f"seed {seed}: {verdict.failures}"
        switches += sum(row["kind"] == "switch" and row["detail"]["phase"] == "done" for row in result.rows)
    assert switches > 5 * SEEDS
