"""One cell of a comparison: a simulated group under one load, and what it measured.

The group has formed before the load begins. Latencies are from send to deliver, at all members, the sender among them;
percentiles are of nearest rank (docs/metrics.md). Control records are those of the orderer (acknowledgements, order
records, …), one per receiver, not the heartbeats that all orderers share. Bytes are those of all records of the view's
links, messages and control, encoded, in all copies, repetitions included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from isotone.model.events import DeliveryBatch, Switched, ViewInstalled
from isotone.model.records import Cast, Direct
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering
from isotone.pipeline.metrics.plain.sums import spread
from isotone.protocol.endpoint import Effects, Endpoint
from isotone.protocol.ordering import registry
from isotone.sim.scenario import Scenario, parse_scenario
from isotone.sim.simulation import Simulation

START_MS = 1_000
REST_MS = 600
NS = 1_000_000
WAIT_NS = 60_000_000_000
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
    """How long packets travel, the endpoints' clocks that fit, and what else is said of the links."""

    latency: dict[str, Any]
    timing: tuple[tuple[str, float], ...] = ()
    links: tuple[tuple[str, int | str], ...] = ()


def scenario(
    variant: Variant,
    members: int,
    network: Network,
    load: Sequence[Phase],
    *,
    seed: int,
    crash_ms: float | None = None,
    conflicts: dict[str, Any] | None = None,
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
            **({"conflicts": conflicts} if conflicts else {}),
            "timing": dict(network.timing),
            "network": {"latency": network.latency, **dict(network.links)},
            "workload": [dict(phase) for phase in load],
            "faults": [] if crash_ms is None else [{"kind": "crash", "at_ms": crash_ms, "who": [member(0)]}],
        }
    )


class Tally:
    """What the endpoints of a run do, noted as they do it; a trace would say the same (tests/sim/test_cells.py) and take longer.

    Records count from when the load begins, once for each receiver.
    """

    def __init__(self) -> None:
        self.sent: dict[bytes, int] = {}
        self.about: dict[bytes, tuple[str | None, tuple[str, ...] | None]] = {}
        """Type and items, of messages that have any."""
        self.delivered: list[tuple[str, bytes, int]] = []
        self.views: list[tuple[str, int]] = []
        self.switches: list[tuple[str, int, Ordering]] = []
        self.control = 0
        self.bytes = 0

    def endpoint(self, config: EndpointConfig, recorder: Any) -> Endpoint:
        """An endpoint that is noted here."""
        return _Noted(self, config, recorder)

    def note(self, process: str, effects: Effects, now: int) -> None:
        """The effects of a turn."""
        for upcall in effects.upcalls:
            if type(upcall) is DeliveryBatch:
                self.delivered += [(process, bytes(payload), now) for payload in upcall.payloads]
            elif type(upcall) is ViewInstalled:
                self.views.append((process, now))
            elif type(upcall) is Switched:
                self.switches.append((process, now, upcall.view.ordering))
        if now < START_MS * NS:
            return
        sizes: dict[int, int] = {}
        for _, packet in effects.packets:
            for record in packet.records:
                self.control += type(record) is Direct or (type(record) is Cast and not record.payloads)
                if id(record) not in sizes:
                    sizes[id(record)] = len(msgspec.msgpack.encode(record))
                self.bytes += sizes[id(record)]


class _Noted(Endpoint):
    def __init__(self, tally: Tally, config: EndpointConfig, recorder: Any) -> None:
        super().__init__(config, recorder)
        self.tally = tally

    def submit(self, payloads: Sequence[bytes], now: int, types: Any = None, items: Any = None) -> int:
        taken = super().submit(payloads, now, types, items)
        self.tally.sent.update((bytes(payload), now) for payload in payloads[:taken])
        for index in range(taken if types or items else 0):
            touched = items[index] if items else None
            self.tally.about[payloads[index]] = (types[index] if types else None, None if touched is None else tuple(touched))
        return taken

    def collect(self, now: int) -> Effects:
        effects = super().collect(now)
        self.tally.note(self.process, effects, now)
        return effects


def wait(simulation: Simulation, until: Callable[[], bool]) -> None:
    """Let a run go on until something is so, but not for ever."""
    limit = simulation.now + WAIT_NS
    while not until() and simulation.now < limit:
        simulation.run_until(simulation.now + 200 * NS)


def play(run: Scenario) -> Tally:
    """Simulate a cell until every member has delivered every message."""
    tally, members = Tally(), len(run.members)
    simulation = Simulation(run, endpoint_factory=tally.endpoint, trace=False)
    simulation.run_until(run.duration_ns)
    wait(simulation, lambda: len(tally.delivered) == len(tally.sent) * members)
    messages = len(tally.sent)
    if len(tally.delivered) != messages * members or not messages:
        raise RuntimeError(f"{run.order}, {members} members: {messages} messages, {len(tally.delivered)} deliveries")
    return tally


def measure(run: Scenario) -> dict[str, Any]:
    """Latencies in ms, control records per message, bytes per message and other member."""
    tally, members = play(run), len(run.members)
    messages = len(tally.sent)
    latency = spread("latency", np.array([now - tally.sent[payload] for _, payload, now in tally.delivered], dtype=np.int64))
    return {
        "messages": messages,
        **{name: round(latency[f"latency_{name}_ns"] / NS, 3) for name in ("mean", "p50", "p99", "max")},
        "control": round(tally.control / messages, 3),
        "bytes": round(tally.bytes / messages / (members - 1), 1),
    }


def recovery(run: Scenario, crash_ms: float) -> dict[str, float]:
    """After the crash, in ms: until all survivors have the next view, and the longest time that one of them delivers nothing."""
    tally, crash = Tally(), int(crash_ms * NS)
    survivors = {f"{name}#1" for name in run.members[1:]}
    simulation = Simulation(run, endpoint_factory=tally.endpoint, trace=False)

    def new_views() -> dict[str, int]:
        return {process: now for process, now in reversed(tally.views) if now > crash and process in survivors}

    def back() -> bool:
        views = new_views()
        return views.keys() == survivors == {who for who, _, now in tally.delivered if now > views.get(who, now)}

    simulation.run_until(run.duration_ns)
    wait(simulation, back)
    if not back():
        raise RuntimeError(f"{run.order}, {len(run.members)} members: no recovery from the crash")
    last: dict[str, int] = {}
    stall = 0
    for process, _, now in tally.delivered:  # in the order of time
        if process in survivors and now > crash:
            stall = max(stall, now - last.get(process, now))
        last[process] = now
    return {"view": round((max(new_views().values()) - crash) / NS, 1), "stall": round(stall / NS, 1)}
