"""Measures of paper 004: throughput, and what happens around a switch; of simulated runs and of traces of live processes alike.

Latencies are from the instant at which the application handed a message in. Around a switch is, at each process, from a
little before the old order delivered the request until a little after the new one took over; a *calm* window is just as long and
lies in the middle between two switches.
"""

import json
from typing import Any, Final, NamedTuple

import numpy as np

from isotone.reproduce.measures import MS, Messages

BEFORE_NS: Final = 10_000_000
AFTER_NS: Final = 60_000_000
TICK_NS: Final = 10_000_000
"""Deliveries are counted per 10 ms (Figures 8 and 9)."""
SHOWN_NS: Final = 1_200_000_000
"""The stretch of the time-lines (Figures 4 to 9)."""


class Around(NamedTuple):
    """A switch at one process."""

    process: int
    request: int
    cut: int
    done: int


def throughput(table: Any) -> dict[str, Any]:
    """Messages a second of each sender that a member delivers, from the first send to its last delivery; mean of the members."""
    run = Messages(table)
    done = run.deliver
    here = [done.time[done.process == code] for code in np.unique(run.send_process)]
    members = len(here)
    rates = [len(times) / ((int(times.max()) - run.first_send) / 1e9) for times in here if len(times)]
    found = switches_of(table, run)
    last = int(done.time.max(initial=run.first_send))
    spent = sum(min(one.done, last) - one.request for one in found if one.request < last)
    return {
        "throughput": float(np.mean(rates)) / members if rates else 0.0,
        "switches": len(found) / max(1, members),
        "switching": spent / max(1, members) / max(1, last - run.first_send),
        "undelivered": run.sent * members - len(done.time),
    }


def around(table: Any) -> dict[str, Any]:
    """Latency, longest time without a delivery and deliveries per tick around switches, and between them; and one time-line."""
    run = Messages(table)
    found = [one for one in switches_of(table, run) if one.done + AFTER_NS < int(run.send_time.max(initial=0))]
    if not found:
        return {}
    handed = handed_in(table, run)
    flows = {code: _flow(run, code, handed) for code in {one.process for one in found}}
    near = [_window(flows[one.process], one.request - BEFORE_NS, one.done + AFTER_NS) for one in found]
    far = [_window(flows[one.process], *_calm(one, found)) for one in found]
    result: dict[str, Any] = {
        "switch_ms": float(np.mean([one.done - one.request for one in found])) / MS,
        "closing_ms": float(np.mean([one.done - one.cut for one in found])) / MS,
    }
    for word, windows in (("", near), ("calm_", far)):
        result[f"{word}latency_ms"] = float(np.mean([window.mean for window in windows])) / MS
        result[f"{word}spike_ms"] = float(np.mean([window.worst for window in windows])) / MS
        result[f"{word}gap_ms"] = float(np.mean([window.gap for window in windows])) / MS
        result[f"{word}low"] = float(np.mean([window.low for window in windows]))
        result[f"{word}high"] = float(np.mean([window.high for window in windows]))
    result["spike_max_ms"] = max(window.worst for window in near) / MS
    result["gap_max_ms"] = max(window.gap for window in near) / MS
    shown = max(flows)
    return {**result, "shown": json.dumps(_shown(flows[shown], [one for one in found if one.process == shown]))}


def switches_of(table: Any, run: Messages) -> list[Around]:
    """The switches that were finished, process by process."""
    places = run.where("switch")
    begun: dict[tuple[int, str], dict[str, int]] = {}
    found = []
    for place, detail in zip(places, table["detail"].take(places).to_pylist(), strict=True):
        told = dict(detail)
        process = int(run.process[place])
        phases = begun.setdefault((process, told["instance"]), {})
        phases[told["phase"]] = int(run.time[place])
        if told["phase"] == "done" and "request" in phases:
            found.append(Around(process, phases["request"], phases.get("cut", phases["request"]), phases["done"]))
    return found


def handed_in(table: Any, run: Messages) -> Any:
    """When the application handed in each message; its send, where the trace does not tell."""
    result = run.send_time.copy()
    places = run.where("submit")
    count = table["count"].cast("int64").fill_null(0).to_numpy()
    for code in range(len(run.processes)):
        mine = places[run.process[places] == code]
        times = np.repeat(run.time[mine], count[mine])
        own = np.flatnonzero(run.send_process == code)
        index = run.send_number[own] - 1
        known = index < len(times)
        result[own[known]] = np.minimum(times[index[known]], result[own[known]])
    return result


class _Flow(NamedTuple):
    """The deliveries at one process in the order of time, and how long each had taken."""

    time: Any
    took: Any


class _Window(NamedTuple):
    mean: float
    worst: int
    gap: int
    low: int
    high: int


def _flow(run: Messages, code: int, handed: Any) -> _Flow:
    done = run.deliver
    here = done.process == code
    order = np.argsort(done.time[here], kind="stable")
    time = done.time[here][order]
    return _Flow(time, time - handed[done.message[here][order]])


def _calm(one: Around, found: list[Around]) -> tuple[int, int]:
    """As long as what is around the switch, and as far as possible from the next."""
    later = [other.request for other in found if other.process == one.process and other.request > one.done]
    middle = (one.done + min(later, default=one.done + 2 * (AFTER_NS + BEFORE_NS))) // 2
    length = one.done - one.request + BEFORE_NS + AFTER_NS
    return middle - length // 2, middle + length // 2


def _window(flow: _Flow, begin: int, end: int) -> _Window:
    inside = (flow.time >= begin) & (flow.time < end)
    times, took = flow.time[inside], flow.took[inside]
    ticks = max(1, (end - begin) // TICK_NS)
    counts = np.bincount((times - begin) // TICK_NS, minlength=ticks)[:ticks]
    gap = int(np.diff(times, prepend=begin, append=end).max())
    mean = float(took.mean()) if len(took) else 0.0
    return _Window(mean, int(took.max(initial=0)), gap, int(counts.min()), int(counts.max()))


def _shown(flow: _Flow, switches: list[Around]) -> dict[str, Any]:
    """A stretch with a few switches, in ms from its beginning: deliveries and latencies, in two lists; and the switches."""
    begin = switches[min(2, len(switches) - 1)].request - 100 * int(MS)
    inside = (flow.time >= begin) & (flow.time < begin + SHOWN_NS)
    times = flow.time[inside]
    ticks = SHOWN_NS // TICK_NS
    between = [one for one in switches if begin <= one.request < begin + SHOWN_NS]
    return {
        "at": [round((int(time) - begin) / MS, 2) for time in times],
        "took": [round(int(took) / MS, 2) for took in flow.took[inside]],
        "ticks": np.bincount((times - begin) // TICK_NS, minlength=ticks)[:ticks].tolist(),
        "switches": [[round((one.request - begin) / MS, 2), round((one.done - begin) / MS, 2)] for one in between],
    }
