"""The experiment of paper 004, §4 and §5, as points of a sweep: five members, 100 Mbit/s, 5,000 messages of 5 kB from each.

A run switches between two instances of one order, again and again; the paper names neither the order, nor the period, nor the
delay of a link. Here it is `sequencer`, 101 ms and 1 ms, chosen after trial runs because they bring the level near the paper's,
and other periods, delays and networks beside it. A sender hands in its next message an interval after the last one was taken:
what a switch holds up is not caught up later (`waits`).

The set-up is in constants and in `load` and `switches`, so that the same experiment can be run elsewhere.
"""

from typing import Any, Final

from isotone.reproduce.parts import Parameters

MEMBERS: Final = ("n1", "n2", "n3", "n4", "n5")
ASKER: Final = MEMBERS[0]
ORDER: Final = "sequencer"
BITS: Final = 100_000_000
SIZE: Final = 5_000
DELAY_MS: Final = 1.0
START_MS: Final = 1_500.0
PERIOD_MS: Final = 101.0
"""Between two switches, for the throughput (Figures 2 and 3); odd, so that switches meet senders in every phase."""
CALM_PERIOD_MS: Final = 503.0
"""The same for the time-lines (Figures 4 to 9), so that what one switch does is over before the next."""
CALM_RATE: Final = 200
"""Messages a second of each member in the time-lines: twice the traffic fits into the links."""
STRATEGIES: Final = {"none": "no switch", "dual": "dual", "dual_ids": "dual_ids", "stop": "stop", "rabp": "rabp"}
LIMITS: Final = {"pending_messages": 1, "window_bytes": 500_000}
"""A sender is held back when 100 of its messages are under way, and notices at once."""
TIMING: Final = {"heartbeat_ms": 500.0, "soft_ms": 4_000.0, "hard_ms": 9_000.0, "retransmit_ms": 2_000.0}
"""The network loses nothing, and queues are long: patience."""
CAPACITY: Final = {"node": BITS / (8 * SIZE * 4), "multicast": BITS / (8 * SIZE * 4), "pair": BITS / (8 * SIZE)}
"""Messages a second of each of five members that the links carry, without headers. `node`: four copies leave through one
interface; `multicast`: those of four others come in through one port; `pair`: every pair has a wire of its own."""


def rates(quick: bool) -> list[int]:
    """Messages a second of each member (Figures 2 and 3)."""
    return [200, 400, 600] if quick else [100, 300, 400, 500, 600, 700]


def link_rates(interface: str, quick: bool) -> list[int]:
    """The same where links are shared otherwise."""
    if interface == "pair":
        return [1_000, 3_000] if quick else [1_000, 1_500, 2_000, 2_500, 3_000]
    return [300, 600] if quick else [300, 400, 500, 600, 700]


def periods(quick: bool) -> list[float]:
    """Between two switches, at the largest rate."""
    return [51.0, 401.0] if quick else [26.0, 51.0, 201.0, 401.0, 801.0]


def calm_rates(quick: bool) -> list[int]:
    """Rates at which the gap around a switch is measured."""
    return [CALM_RATE, 400] if quick else [100, CALM_RATE, 300, 400, 500]


def delays(quick: bool) -> list[float]:
    """Delays of a link at which it is measured."""
    return [DELAY_MS, 5.0] if quick else [0.1, DELAY_MS, 2.0, 5.0, 10.0]


def load(rate: float, count: int) -> dict[str, Any]:
    """Everybody sends at a steady rate."""
    return {
        "interval_ms": 1000.0 / rate,
        "start_ms": START_MS,
        "count": count,
        "waits": True,
        "size_min": SIZE,
        "size_max": SIZE,
    }


def switches(strategy: str, period_ms: float, length_ms: float) -> list[dict[str, Any]]:
    """Requests for a fresh instance of the same order; one that comes during a switch is refused."""
    if strategy == "none":
        return []
    times = range(1, int(length_ms / period_ms) + 1)
    wish = {"kind": "switch", "who": ASKER, "order": ORDER, "strategy": strategy, "fresh": True}
    return [{**wish, "at_ms": START_MS + (place - 0.5) * period_ms} for place in times]


def _point(
    strategy: str, rate: float, count: int, period_ms: float, interface: str = "node", delay_ms: float = DELAY_MS
) -> dict[str, Any]:
    length = 1000.0 * count / min(rate, 0.45 * CAPACITY[interface])  # less than half is left where all is sent twice
    return {
        "network.latency": {"kind": "constant", "ms": delay_ms},
        "network.interface": interface,
        "workload": [load(rate, count)],
        "faults": switches(strategy, period_ms, length),
        "duration_ms": START_MS + length + 1_000,
    }


def points(quick: bool) -> dict[str, Parameters]:
    """All runs."""
    found: dict[str, Parameters] = {}
    whole, part = (400, 300) if quick else (5_000, 1_500)
    for rate in rates(quick):
        for strategy in ("none", "dual", "dual_ids", "stop"):
            found[f"figure {strategy} {rate}"] = _point(strategy, rate, whole, PERIOD_MS)
    for interface in ("multicast", "pair"):
        for rate in link_rates(interface, quick):
            for strategy in ("none", "dual"):
                found[f"{interface} {strategy} {rate}"] = _point(strategy, rate, part, PERIOD_MS, interface)
    for period_ms in periods(quick):
        found[f"period {period_ms:g}"] = _point("dual", rates(quick)[-1], part, period_ms)
    for strategy in ("dual", "dual_ids", "rabp", "stop"):
        for rate in calm_rates(quick):
            count = whole if rate == CALM_RATE and strategy in ("dual", "rabp") else part
            found[f"calm {strategy} {rate}"] = _point(strategy, rate, count, CALM_PERIOD_MS)
        for delay_ms in delays(quick):
            if delay_ms != DELAY_MS:
                found[f"delay {strategy} {delay_ms:g}"] = _point(strategy, CALM_RATE, part, CALM_PERIOD_MS, delay_ms=delay_ms)
    return found
