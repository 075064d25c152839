"""The first series of paper 000, §6.2, on live processes: the same load on real sockets, beside the simulated curves.

For each interval of the slow members four groups of six processes run at once, one per order; rates are low, so they hardly
disturb each other.
"""

from collections.abc import Callable
from typing import Any, Final

from isotone.reproduce.atop_points import MEMBERS, ORDERS, QUICK_MS
from isotone.reproduce.live import LiveRun, Sending
from isotone.reproduce.measures import MS, Messages


def live_intervals(quick: bool) -> list[float]:
    """The slow members' intervals, in ms: of the simulated ones those for which there is time."""
    return [250.0] if quick else [250.0, 500.0, 1_000.0, 2_000.0]


def seconds_of(slow_ms: float) -> float:
    """How long the members send: long enough to adapt, and to learn the pace of the slow ones."""
    return max(9.0, 8.5 * slow_ms / 1000)


def live_runs(quick: bool) -> list[list[LiveRun]]:
    """Batches of runs; names are those of the simulated points."""
    return [[_run(order, slow_ms) for order in ORDERS] for slow_ms in live_intervals(quick)]


def _run(order: str, slow_ms: float) -> LiveRun:
    options: dict[str, Any] = {}
    if order == "all_ack":
        options = {"silent": "wait", "interval_ms": int(1.5 * slow_ms)}
    elif order != "causal":
        options = {"slots": order}
    sending = {
        name: Sending(QUICK_MS.get(name, slow_ms) / 1000, (place * 0.37 + 0.1) % 1, seconds_of(slow_ms))
        for place, name in enumerate(MEMBERS)
    }
    name = "atop" if order in ("even", "random") else order
    return LiveRun(f"{order} {slow_ms:g}", name, sending, latency_until(slow_ms), options)


def latency_until(slow_ms: float) -> Callable[[Any], dict[str, Any]]:
    """A measure: mean latency of what was sent after the first third, and early enough to be delivered before members leave."""

    def measure(table: Any) -> dict[str, Any]:
        messages = Messages(table)
        done = messages.deliver
        sent = messages.send_time[done.message]
        counts = (sent >= messages.settled) & (sent <= messages.send_time.max() - int(1.2 * slow_ms * MS))
        remote = counts & (done.process != messages.send_process[done.message])
        took = done.time - sent
        return {
            "deliveries": int(counts.sum()),
            "mean_ms": float(took[counts].mean()) / MS,
            "remote_ms": float(took[remote].mean()) / MS,
        }

    return measure


LIVE_NOTE: Final = (
    "Diamonds are live processes of one machine, on loopback, all orders at the same time. Their delay D is not chosen: it "
    "is what "
    "the causal order takes to the other members, processing included."
)
