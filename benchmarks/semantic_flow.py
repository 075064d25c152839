"""Throughput of semantic orders, simulated: all members hand in more than their network ports carry.

Computing takes no time in the simulator, so what counts is what an order sends besides the messages, and whether it lets the
ports stand idle. How much computing costs is seen live (`semantic_live.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cells import NS, START_MS, Network, Variant, play, scenario
from semantic_chart import paragraph
from semantic_loads import LOADS, SHARES, phases, table_of

from isotone.protocol.ordering import registry

MEMBERS: Final = 5
PORT_BPS: Final = 100_000_000
SIZE: Final = 1_000
OFFERED: Final = 40_000
"""Messages per second, all members together: more than twice what the ports carry."""
MESSAGES: Final = 8_000
SEED: Final = 21
NETWORK: Final = Network(
    {"kind": "uniform", "min_ms": 0.4, "max_ms": 0.6},
    (("heartbeat_ms", 300.0),),
    (("bandwidth_bps", PORT_BPS), ("interface", "node")),
)
PLAIN, GAIN, BOUND = "single_phase", "semantic_total", "causal"
ORDERS: Final = (PLAIN, GAIN, BOUND)
Place = tuple[str, float, str]
"""A load, a share, an order."""
Flows = dict[Place, float]


def places() -> list[Place]:
    """All that is measured."""
    return [(load, share, order) for load in LOADS for share in SHARES for order in ORDERS]


def flow(place: Place) -> float:
    """Messages per second that all members have delivered, from the first send to the last delivery."""
    load, share, order = place
    wide = [{**phase, "size_min": SIZE, "size_max": SIZE} for phase in phases(load, share, MEMBERS, OFFERED, MESSAGES)]
    relation = table_of(load) if registry.find(order).semantic else None
    tally = play(scenario(Variant(order), MEMBERS, NETWORK, wide, seed=SEED, conflicts=relation))
    last = max(now for _, _, now in tally.delivered)
    return round(len(tally.sent) / (last - START_MS * NS) * 1e9, 1)


def run_all(mapped: Callable[..., Any]) -> Flows:
    """Simulate all, with a `map` that may use several processes."""
    return dict(zip(places(), mapped(flow, places()), strict=True))


def section(flows: Flows) -> list[str]:
    """The part of the page."""
    most = PORT_BPS / 8 / SIZE / (MEMBERS - 1) * MEMBERS
    gains = [flows[load, share, GAIN] / flows[load, share, PLAIN] for load in LOADS for share in SHARES]
    lines = [
        "## Throughput, simulated",
        "",
        *paragraph(f"""Messages per second that every member has delivered, where all hand in more than their network ports carry:
            messages of {SIZE:,} bytes, a port of {PORT_BPS // 1_000_000} Mbit/s per member, which a message crosses once for each
            receiver, so that {most:,.0f} a second would fill all ports; delays of 0.5 ± 0.1 ms, {MESSAGES:,} messages handed in
            within {MESSAGES / OFFERED:g} s, one seed. Computing takes no time here, so no order can gain much: against
            `{PLAIN}`, `{GAIN}` reaches {min(gains):.3f} to {max(gains):.3f} times as much."""),
        f"| load | conflicting | `{PLAIN}` | `{GAIN}` | `{BOUND}` |",
        "| --- " + "| ---: " * 4 + "|",
    ]
    for load in LOADS:
        for share in SHARES:
            plain, gain, bound = (flows[load, share, order] for order in ORDERS)
            lines.append(f"| {load} | {share:.0%} | {plain:,.0f} | {gain:,.0f} ({gain / plain:.3f}) | {bound:,.0f} |")
    return lines
