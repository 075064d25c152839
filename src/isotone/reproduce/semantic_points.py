"""The runs of paper 002: the message phases of each protocol (§7.1), and latency over the share of messages that conflict.

The paper has no experiment. The load is the simplest that its classes tell apart: a share of the messages is of a type that
conflicts with itself, the others of one that conflicts with nothing. Every order gets the same messages at the same times.
"""

from typing import Any, Final

from isotone.pipeline.schedulers import phases
from isotone.reproduce.parts import Parameters

MEMBERS: Final = 5
SHARES: Final = (0.0, 0.01, 0.1, 0.5, 1.0)
PAIRS: Final = {"semantic_total": "single_phase", "semantic_causal": "causal", "semantic_fifo": "fifo"}
"""Each semantic order and the plain one that it is compared with."""
NETWORKS: Final = {
    "steady": "no packet is lost",
    "lossy": "2 % of the packets are lost",
}
LOSS: Final = 0.02
PER_SECOND: Final = 100.0
"""Messages of all members together."""
START_MS: Final = 1_500.0
RELATION: Final = {"by": "operation", "operations": {"ordered": ["ordered"], "free": []}}
LOADS: Final = ("alone", "busy")


def shares(quick: bool) -> tuple[float, ...]:
    """Shares of conflicting messages."""
    return (0.0, 0.1, 1.0) if quick else SHARES


def length_ms(quick: bool) -> float:
    """How long the members send."""
    return 6_000.0 if quick else 20_000.0


def _load(share: float, quick: bool) -> list[dict[str, Any]]:
    found = []
    for kind, part in (("ordered", share), ("free", 1.0 - share)):
        if part:
            interval = 1000.0 * MEMBERS / PER_SECOND / part
            when = {"interval_ms": interval, "start_ms": START_MS, "stop_ms": START_MS + length_ms(quick)}
            found.append({"kind": "poisson", **when, "types": [kind]})
    return found


def points(quick: bool) -> dict[str, Parameters]:
    """All runs."""
    found: dict[str, Parameters] = {}
    for protocol in phases.PROTOCOLS:
        for load in LOADS:
            scenario = phases.scenario(protocol, load)
            point = {key: scenario[key] for key in ("members", "duration_ms", "order", "workload")}
            found[f"{load} {protocol}"] = {**point, "network.latency": scenario["network"]["latency"]}
    for network in NETWORKS:
        for share in shares(quick):
            for semantic, plain in PAIRS.items():
                for order in (semantic, plain):
                    point = {"order": order, "workload": _load(share, quick), "duration_ms": START_MS + length_ms(quick) + 2_000}
                    if order == semantic:
                        point["conflicts"] = RELATION
                    if network == "lossy":
                        point["network.loss"] = LOSS
                    found[f"{network} {order} {share:g}"] = point
    return found


SCENARIO: Final = {
    "name": "semantic",
    "members": [f"n{index}" for index in range(MEMBERS)],
    "duration_ms": 10_000.0,
    "order": "single_phase",
    "network": {"latency": {"kind": "uniform", "min_ms": 30.0, "max_ms": 50.0}},
    "timing": {"heartbeat_ms": 300.0, "soft_ms": 1_500.0, "hard_ms": 6_000.0, "retransmit_ms": 150.0},
}
