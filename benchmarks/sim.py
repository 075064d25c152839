"""How fast the simulator is: simulated deliveries per second of real time, on one core.

    python benchmarks/sim.py [--members 5] [--messages 40000] [--interval-ms 1.0] [--order single_phase …] [--json]

No faults, no batching (one message per submit, the members' sends spread evenly over time), tracing off. The row `engine`
is the cost of the engine and the network alone: an endpoint that does nothing but send.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from isotone.model.events import Upcall
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Packet
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch
from isotone.protocol.ordering import registry
from isotone.sim.interface import EndpointFactory
from isotone.sim.scenario import Scenario, parse_scenario
from isotone.sim.simulation import Simulation

WARM_UP_MS = 2_000


class Nothing:
    """Effects of a turn in which nothing happened, or only packets."""

    __slots__ = ("drop", "packets", "upcalls")

    def __init__(self) -> None:
        self.packets: list[tuple[ProcessId, Packet]] = []
        self.upcalls: list[Upcall] = []
        self.drop: list[ProcessId] = []


class Sender:
    """The least an endpoint can do: a packet to every peer for every submit."""

    view = None
    closed = False

    def __init__(self, config: EndpointConfig, recorder: Any = None) -> None:
        self.peers: list[ProcessId] = []
        self.submitted = False
        self.packet = Packet(0, "", 0, 0, [], [])
        self.nothing = Nothing()

    def start(self, now: int) -> None:
        """Nothing to start."""

    def submit(self, payloads: Sequence[bytes], now: int, types: Any = None, items: Any = None) -> int:
        """Take everything."""
        self.submitted = True
        return len(payloads)

    def writable(self) -> bool:
        """Always."""
        return True

    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None:
        """Ignore it."""

    def switch(self, switch: Switch, now: int) -> None:
        """Nothing to switch."""

    def provide(self, cut: ViewId, data: bytes | None, now: int, problem: str = "") -> None:
        """No state."""

    def connected(self, peer: ProcessId, address: str, now: int) -> None:
        """Remember the peer."""
        self.peers.append(peer)

    def disconnected(self, peer: ProcessId, now: int) -> None:
        """Does not happen here."""

    def wake(self, now: int) -> None:
        """Does not happen here."""

    def deadline(self) -> int | None:
        """Never."""
        return None

    def collect(self, now: int) -> Nothing:
        """One packet per peer after a submit."""
        if not self.submitted:
            return self.nothing
        self.submitted = False
        effects = Nothing()
        effects.packets = [(peer, self.packet) for peer in self.peers]
        return effects

    def leave(self, now: int) -> None:
        """Does not happen here."""

    def address_of(self, peer: ProcessId) -> str | None:
        """Not needed."""
        return None


def scenario(order: str, members: int, messages: int, interval_ms: float) -> Scenario:
    """All members send one message per interval, each at its own phase."""
    names = [f"n{index}" for index in range(members)]
    sending_ms = messages / members * interval_ms
    phases = [
        {
            "members": [name],
            "kind": "periodic",
            "spread": False,
            "start_ms": WARM_UP_MS + interval_ms * index / members,
            "interval_ms": interval_ms,
            "count": messages // members,
            "size_min": 50,
            "size_max": 50,
        }
        for index, name in enumerate(names)
    ]
    return parse_scenario(
        {
            "name": "benchmark",
            "members": names,
            "duration_ms": WARM_UP_MS + sending_ms + 1_000,
            "order": order,
            "network": {"latency": {"kind": "constant", "ms": 1.0}},
            "workload": phases,
        }
    )


def measure(run: Scenario, factory: EndpointFactory | None = None) -> dict[str, float]:
    """Seconds, packets and deliveries of the sending part of a run."""
    simulation = Simulation(run, endpoint_factory=factory, trace=False)
    simulation.run_until(WARM_UP_MS * 1_000_000 - 1)
    packets = simulation.network.counters.sent
    began = time.perf_counter()
    simulation.run_until(run.duration_ns)
    seconds = time.perf_counter() - began
    packets = simulation.network.counters.sent - packets
    delivered = simulation.stats()["delivered"]
    return {
        "deliveries": delivered,
        "packets": packets,
        "seconds": round(seconds, 3),
        "deliveries_per_second": round(delivered / seconds),
        "ns_per_packet": round(seconds * 1e9 / packets),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--interval-ms", type=float, default=1.0, help="between two messages of one member")
    parser.add_argument("--order", nargs="*", default=registry.names())
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for order in ["engine", *arguments.order]:
        name = "fifo" if order == "engine" else order
        run = scenario(name, arguments.members, arguments.messages, arguments.interval_ms)
        factory = Sender if order == "engine" else None
        results[order] = min((measure(run, factory) for _ in range(arguments.repeat)), key=lambda result: result["seconds"])
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"simulator, {arguments.members} members, one message per submit, one core, tracing off")
    for order, result in results.items():
        rate = f"{result['deliveries_per_second']:>10,} deliveries/s" if result["deliveries"] else " " * 23
        print(f"  {order:<14}{rate}  {result['packets']:>9,} packets  {result['ns_per_packet']:>6,} ns per packet")


if __name__ == "__main__":
    main()
