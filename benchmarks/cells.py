"""One cell of a comparison: a simulated group under one load, and what it measured.

The group has formed before the load begins. Latencies are from send to deliver, at all members, the sender among them;
percentiles are of nearest rank (docs/metrics.md). Control records are those of the orderer (acknowledgements, order
records, …), one per receiver, not the heartbeats that all orderers share. Bytes are those of all records of the view's
links, messages and control, encoded, in all copies, repetitions included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from isotone.model.settings import EndpointConfig
from isotone.pipeline.metrics.plain.sums import spread
from isotone.protocol.endpoint import Effects, Endpoint
from isotone.protocol.ordering import registry
from isotone.sim.scenario import Scenario, parse_scenario
from isotone.sim.simulation import Result, Simulation

START_MS = 1_000
REST_MS = 600
NS = 1_000_000
Phase = dict[str, Any]


class Variant(NamedTuple):
    """An orderer and its options."""

    order: str
    options: tuple[tuple[str, int | str | bool], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.order, *(str(value) for _, value in self.options)])


def variants(*extra: Variant) -> list[Variant]:
    """Every registered orderer with its defaults, and some more, sorted."""
    return sorted([*(Variant(order) for order in registry.names()), *extra])


def member(index: int) -> str:
    """The name of the member of that rank."""
    return f"n{index:02}"


def even(members: int, per_second: float, messages: int) -> list[Phase]:
    """All members send, at random, so many messages per second all together."""
    stop = START_MS + 1_000 * messages / per_second
    return [{"kind": "poisson", "interval_ms": 1_000 * members / per_second, "start_ms": START_MS, "stop_ms": stop}]


def one(sender: int, per_second: float, messages: int) -> list[Phase]:
    """One member sends at random."""
    stop = START_MS + 1_000 * messages / per_second
    return [
        {"kind": "poisson", "members": [member(sender)], "interval_ms": 1_000 / per_second, "start_ms": START_MS, "stop_ms": stop}
    ]


def skewed(members: int, per_second: float, messages: int) -> list[Phase]:
    """The last member sends four messages of five, all others share the rest."""
    rest = even(members - 1, per_second / 5, messages // 5)
    rest[0]["members"] = [member(index) for index in range(members - 1)]
    return [*one(members - 1, per_second * 4 / 5, messages * 4 // 5), *rest]


def rare(members: int, gap_ms: float, messages: int) -> list[Phase]:
    """One message at a time, of another member each, and then silence."""
    return [
        {"members": [member(7 * index % members)], "count": 1, "spread": False, "start_ms": START_MS + gap_ms * index}
        for index in range(messages)
    ]


class Network(NamedTuple):
    """How long packets travel, and the endpoints' clocks that fit."""

    latency: dict[str, Any]
    timing: tuple[tuple[str, float], ...] = ()


def scenario(
    variant: Variant, members: int, network: Network, load: Sequence[Phase], *, seed: int, crash_ms: float | None = None
) -> Scenario:
    """The run of a cell; after the load there is time for what is still under way."""
    end = max(phase.get("stop_ms") or phase["start_ms"] for phase in load)
    return parse_scenario(
        {
            "name": "cell",
            "members": [member(index) for index in range(members)],
            "duration_ms": end + REST_MS,
            "seed": seed,
            "order": variant.order,
            "options": dict(variant.options),
            "timing": dict(network.timing),
            "network": {"latency": network.latency},
            "workload": [dict(phase) for phase in load],
            "faults": [] if crash_ms is None else [{"kind": "crash", "at_ms": crash_ms, "who": [member(0)]}],
        }
    )


class _Bytes:
    """Endpoints that count the bytes of the records that they send on the links of their view."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, config: EndpointConfig, recorder: Any) -> Endpoint:
        bytes_ = self

        class Counting(Endpoint):
            def collect(self, now: int) -> Effects:
                effects = super().collect(now)
                if now >= START_MS * NS:
                    sizes: dict[int, int] = {}
                    for _, packet in effects.packets:
                        for record in packet.records:
                            if id(record) not in sizes:
                                sizes[id(record)] = len(msgspec.msgpack.encode(record))
                            bytes_.total += sizes[id(record)]
                return effects

        return Counting(config, recorder)


def measure(run: Scenario) -> dict[str, Any]:
    """Latencies in ms, control records per message, bytes per message and other member."""
    counted = _Bytes()
    result = Simulation(run, endpoint_factory=counted).run()
    sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
    took = [r["time"] - sent[r["origin"], r["number"]] for r in result.rows if r["kind"] == "deliver"]
    if len(took) != len(sent) * len(run.members) or not sent:
        raise RuntimeError(f"{run.order}, {len(run.members)} members: {len(sent)} messages, {len(took)} deliveries")
    latency = spread("latency", np.array(took, dtype=np.int64))
    return {
        "messages": len(sent),
        **{name: round(latency[f"latency_{name}_ns"] / NS, 3) for name in ("mean", "p50", "p99", "max")},
        "control": round(control_records(result) / len(sent), 3),
        "bytes": round(counted.total / len(sent) / (len(run.members) - 1), 1),
    }


def control_records(result: Result) -> int:
    """The orderer's own records since the load began, one per receiver."""
    kinds = {*registry.find(result.scenario.order).packets.values(), "control"}
    return sum(
        row["count"] * row["fanout"]
        for row in result.rows
        if row["kind"] == "packet" and row["packet"] in kinds and row["time"] >= START_MS * NS
    )


def recovery(run: Scenario, crash_ms: float) -> dict[str, float]:
    """After the crash, in ms: until all survivors have the next view, and the longest time that one of them delivers nothing."""
    result = Simulation(run).run()
    crash = int(crash_ms * NS)
    survivors = [process for process in result.processes if process != f"{member(0)}#1"]
    view: dict[str, int] = {}
    last = dict.fromkeys(survivors, 0)
    stall = dict.fromkeys(survivors, 0)
    for row in result.rows:  # in the order of time
        process = row["process"]
        if process not in last:
            continue
        if row["kind"] == "view" and row["time"] > crash:
            view.setdefault(process, row["time"])
        elif row["kind"] == "deliver":
            if row["time"] > crash:
                stall[process] = max(stall[process], row["time"] - last[process])
            last[process] = row["time"]
    if len(view) < len(survivors) or any(last[process] <= view[process] for process in survivors):
        raise RuntimeError(f"{run.order}, {len(run.members)} members: no recovery from the crash")
    return {"view": round((max(view.values()) - crash) / NS, 1), "stall": round(max(stall.values()) / NS, 1)}
