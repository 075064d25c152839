"""The message phases of each order (paper 002, §7.1), counted in simulated runs of the protocols.

All packets take the same time D and computing takes none, so that the time from a send to the last delivery is a number of
delays: how many messages have to follow each other. *Alone*: one message, long after the one before it. *Busy*: all members
send all the time, and what one has to say about the messages of others travels with its own.
"""

from dataclasses import dataclass
from typing import Any, Final

from isotone.protocol.ordering import registry
from isotone.sim.scenario import parse_scenario
from isotone.sim.simulation import Simulation

PROTOCOLS: Final = ("fifo", "causal", "sequencer", "two_phase", "single_phase")
MEMBERS: Final = 5
DELAY_MS: Final = 20.0
_START_MS: Final = 1_000.0
_ALONE: Final = 20
_BUSY_MS: Final = 400.0
_BUSY_INTERVAL_MS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Phases:
    """What one protocol needs."""

    protocol: str
    least: int
    """Delays from the send of a message alone to its last delivery, in the best case: the sender is in the right place."""
    most: int
    busy: float
    """The mean in a busy group."""
    records: float
    """Control records per message alone, one for each receiver."""
    records_busy: float


def phases(protocol: str) -> Phases:
    """Count the phases of a protocol."""
    alone, records = _run(protocol, "alone")
    busy, records_busy = _run(protocol, "busy")
    return Phases(protocol, round(min(alone)), round(max(alone)), sum(busy) / len(busy), records, records_busy)


def scenario(protocol: str, load: str) -> dict[str, Any]:
    """The run of a protocol, `alone` or `busy`."""
    names = [f"n{index}" for index in range(MEMBERS)]
    if load == "alone":
        single = {"count": 1, "spread": False}
        workload = [
            {**single, "members": [names[index % MEMBERS]], "start_ms": _START_MS + 300.0 * index} for index in range(_ALONE)
        ]
        end_ms = _START_MS + 300.0 * _ALONE
    else:
        workload = [{"interval_ms": _BUSY_INTERVAL_MS, "start_ms": _START_MS, "stop_ms": _START_MS + _BUSY_MS}]
        end_ms = _START_MS + _BUSY_MS + 500.0
    return {
        "members": names,
        "duration_ms": end_ms,
        "order": protocol,
        "network": {"latency": {"kind": "constant", "ms": DELAY_MS}},
        "workload": workload,
    }


def _run(protocol: str, load: str) -> tuple[list[float], float]:
    """Of each message, the delays until its last delivery; and the orderer's records per message, one for each receiver."""
    run = parse_scenario(scenario(protocol, load))
    sent: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    kinds, records = set(registry.find(protocol).packets.values()), 0
    for row in Simulation(run).run().rows:
        if row["kind"] == "send":
            sent[row["origin"], row["number"]] = row["time"]
        elif row["kind"] == "deliver":
            message = (row["origin"], row["number"])
            last[message] = max(last.get(message, 0), row["time"])
        elif row["kind"] == "packet" and row["packet"] in kinds:
            records += row["count"] * row["fanout"]
    return [(last[message] - time) / (DELAY_MS * 1e6) for message, time in sent.items()], records / len(sent)
