"""What commuting messages gain behind a gap: `fifo` and `causal` against their semantic forms, simulated, with loss.

Five members, one-way delay 5 ms, each member sends on an item at random every 20 ms on the mean (Poisson) for 20 s,
5 % of the packets are lost, and are sent again when they are missed, or after 50 ms. Latency is from send to delivery: at the
four others, and at the sender, which in `semantic_causal` may have to wait too. Run: `python benchmarks/gaps.py`; the same on
every machine.
"""

from __future__ import annotations

from isotone.model.conflicts import Conflicts
from isotone.protocol.ordering import registry
from isotone.sim.latency import Constant
from isotone.sim.scenario import NetworkSettings, Scenario
from isotone.sim.simulation import Simulation
from isotone.sim.workload import Phase

MEMBERS = ["a", "b", "c", "d", "e"]
ITEMS = (1, 4, 16, 256)


def measure(order: str, items: int, loss: float = 0.05) -> tuple[list[float], list[float], int]:
    """Latencies in ms at others and at senders, sorted, and how many casts were delivered from behind a gap."""
    scenario = Scenario(
        name=f"gaps-{order}-{items}",
        members=MEMBERS,
        duration_ms=22_000,
        seed=7,
        order=order,
        conflicts=Conflicts.by_item() if registry.find(order).semantic else None,
        network=NetworkSettings(latency=Constant(ms=5.0), loss=loss),
        timing={"retransmit_ms": 50, "ack_delay_ms": 5, "hard_ms": 5_000, "soft_ms": 2_000},
        workload=[
            Phase(kind="poisson", interval_ms=20, start_ms=1_500, stop_ms=21_500, items=[f"x{i}" for i in range(items)]),
        ],
    )
    result = Simulation(scenario).run()
    sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
    others: list[float] = []
    own: list[float] = []
    for row in result.rows:
        if row["kind"] == "deliver":
            latency = (row["time"] - sent[row["origin"], row["number"]]) / 1e6
            (own if row["process"] == row["origin"] else others).append(latency)
    counters: list[dict[str, int]] = [getattr(process.endpoint, "counters", {}) for process in result.processes.values()]
    early = sum(one.get("casts_early", 0) for one in counters)
    return sorted(others), sorted(own), early


def told(values: list[float]) -> str:
    """Mean and 99th percentile."""
    return f"{sum(values) / len(values):.2f} | {values[int(0.99 * (len(values) - 1))]:.0f}"


def main() -> None:
    print("| order | items | mean ms | p99 ms | at the sender: mean ms | p99 ms | deliveries from behind a gap |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for plain in ("fifo", "causal"):
        for order, items in ((plain, 16), *((f"semantic_{plain}", items) for items in ITEMS)):
            others, own, early = measure(order, items)
            share = f"{100 * early / len(others):.1f} %"
            print(f"| `{order}` | {items if order != plain else ''} | {told(others)} | {told(own)} | {share} |")


if __name__ == "__main__":
    main()
