"""What `order = "auto"` sees of a network that loses packets, and what it does not take for loss."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.protocol.link.losses import Losses
from isotone.sim import Simulation, parse_scenario

S = 1_000_000_000
LOSSY_S = 8
"""When something happens to the network, or to a member."""


def simulation(fault: dict[str, Any], network: dict[str, Any] | None = None) -> Simulation:
    """Four members that send much."""
    return Simulation(
        parse_scenario(
            {
                "members": ["a", "b", "c", "d"],
                "duration_ms": 20_000,
                "seed": 5,
                "order": "auto",
                "timing": {"heartbeat_ms": 300, "soft_ms": 3_000, "hard_ms": 6_000, "retransmit_ms": 300},
                "network": {"latency": {"kind": "uniform", "min_ms": 20, "max_ms": 30}, **(network or {})},
                "workload": [{"kind": "poisson", "interval_ms": 20, "start_ms": 2_000, "stop_ms": 18_000}],
                "faults": [{"at_ms": LOSSY_S * 1_000, **fault}],
            }
        ),
        trace=False,
    )


def losses(run: Simulation, until_s: float) -> list[int]:
    """The loss that is seen, every quarter of a second from the fault on."""
    seen = []
    for quarter in range(1, int(4 * (until_s - LOSSY_S)) + 1):
        run.run_until(LOSSY_S * S + quarter * S // 4)
        controller = run.process("a").endpoint.controller
        found = controller.observer.look() if controller is not None else None
        seen.append(found.loss if found is not None else -1)
    return seen


def notices(run: Simulation) -> bool:
    """Whether 1.5 % are seen within a second and a half, and about right."""
    seen = losses(run, 14)
    return seen[0] == 0 and all(loss >= 7 for loss in seen[6:]) and 10 <= sum(seen[6:]) / len(seen[6:]) <= 20


LOSS = {"kind": "set", "loss": 0.015}


def test_loss_under_load_is_seen_at_once() -> None:
    assert notices(simulation(LOSS))


def test_a_member_that_ignores_what_its_links_repeat_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Losses, "lost", lambda self, now: 0)
    assert not notices(simulation(LOSS))


def test_a_pause_is_no_loss() -> None:
    """The others repeat what the paused one does not acknowledge: when it is back, it finds all of it twice."""
    run = simulation({"kind": "pause", "who": "c", "for_ms": 1_500})
    assert losses(run, 14) == [0] * 24
    assert run.process("b").endpoint.counters["retransmissions"] > 50


def test_jitter_that_reorders_is_no_loss() -> None:
    run = simulation({"kind": "set", "reorder": 0.2, "reorder_ms": 60.0})
    assert losses(run, 14) == [0] * 24
