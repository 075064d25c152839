"""The loads of paper 000, §6.2, as points of a sweep: who sends how often, over which network, ordered by what.

Six members: three quick ones (about 10, 10 and 20 messages a second) and three slow ones, 50 bytes. Intervals of the quick ones
are a little off 100, 100 and 50 ms (the paper says "approximately"), so that the order in which they send drifts. The paper's
All-Ack has no acknowledgements of its own: silence lasts until the next message (`silent = "wait"`, with an interval that is
longer than any sender's).
"""

from collections.abc import Sequence
from typing import Any, Final

from isotone.reproduce.parts import Parameters

QUICK_MS: Final = {"quick1": 97.0, "quick2": 103.0, "quick3": 51.0}
SLOW: Final = ("slow1", "slow2", "slow3")
MEMBERS: Final = (*QUICK_MS, *SLOW)
START_MS: Final = 1_500.0
D_MS: Final = 1.0
"""The mean delay of a link; delays are 0.8 to 1.2 ms."""
FIXED_MS: Final = 3_000.0
"""The slow members' interval in the second series."""
ORDERS: Final = {
    "all_ack": ("All-Ack", 1),
    "even": ("atop, even slots", 0),
    "random": ("atop, random slots", 2),
    "causal": ("causal", 3),
}
POLICIES: Final = ("none", "bookkeeper", "least_variance", "backoff", "patterns")
DEFAULT_POLICY: Final = "bookkeeper"
SLOTS: Final = ("even", "random")
LOADS: Final = {"changing": "rates that change", "coming": "one comes and goes", "paused": "one is stopped", "wan": "wide area"}


def intervals(quick: bool) -> list[float]:
    """The slow members' intervals of the first series, in ms."""
    return [250.0, FIXED_MS] if quick else [250.0, 500.0, 1_000.0, 2_000.0, FIXED_MS, 5_000.0]


def _phase(members: Sequence[str], interval: float, start: float, stop: float, **more: Any) -> dict[str, Any]:
    size = {"size_min": 50, "size_max": 50}
    return {"members": [*members], "interval_ms": interval, "start_ms": start, "stop_ms": stop, **size, **more}


def steady(slow_ms: float, length: float) -> list[dict[str, Any]]:
    """The load of §6.2."""
    stop = START_MS + length
    quick = [_phase([name], interval, START_MS, stop) for name, interval in QUICK_MS.items()]
    return [*quick, _phase(SLOW, slow_ms, START_MS, stop)]


def _ordering(order: str, slow_ms: float) -> dict[str, Any]:
    if order == "all_ack":
        return {"order": "all_ack", "options.silent": "wait", "options.interval_ms": int(1.5 * slow_ms)}
    return {"order": "causal"} if order == "causal" else {"order": "atop", "options.slots": order}


def _length(slow_ms: float, quick: bool) -> float:
    """Long enough for the slow members to send a dozen times, of which the first third does not count."""
    return max(12_000.0, 7 * slow_ms) if quick else max(40_000.0, 16 * slow_ms)


def _series(slow_ms: float, order: str, quick: bool) -> dict[str, Any]:
    length = _length(slow_ms, quick)
    rest = 1.6 * slow_ms + 1_000  # until everything is delivered
    return {**_ordering(order, slow_ms), "workload": steady(slow_ms, length), "duration_ms": START_MS + length + rest}


def in_turn(order: Sequence[str], length: float) -> list[dict[str, Any]]:
    """The quick members at exactly 10, 10 and 20 messages a second, one after another in this order; nobody else sends."""
    gap = 100.0 / len(order)
    stop = START_MS + length
    return [_phase([name], 100.0, START_MS + gap * place, stop, spread=False) for place, name in enumerate(order)]


TURNS: Final = {
    "in the order of the slots": ("quick3", "quick3", "quick1", "quick2"),
    "in another fixed order": ("quick3", "quick1", "quick3", "quick2"),
}


def _random(length: float) -> list[dict[str, Any]]:
    stop = START_MS + length
    poisson = [_phase([name], interval, START_MS, stop, kind="poisson") for name, interval in QUICK_MS.items()]
    return [*poisson, _phase(SLOW, FIXED_MS, START_MS, stop, kind="poisson")]


def _changing(length: float) -> list[dict[str, Any]]:
    """The roles of quick and slow members are exchanged four times."""
    share = length / 4
    load = []
    for turn in range(4):
        begin, end = START_MS + turn * share, START_MS + (turn + 1) * share
        quick, slow = (list(QUICK_MS), list(SLOW)) if turn % 2 == 0 else (list(SLOW), list(QUICK_MS))
        load += [_phase([name], ms, begin, end) for name, ms in zip(quick, QUICK_MS.values(), strict=True)]
        load.append(_phase(slow, FIXED_MS, begin, end))
    return load


def _coming(length: float) -> list[dict[str, Any]]:
    """The quickest member sends for six seconds and is silent for six, again and again."""
    load = steady(FIXED_MS, length)
    load[2] = {**load[2], "kind": "bursty", "on_ms": 6_000.0, "off_ms": 6_000.0}
    return load


def _paused(length: float) -> list[dict[str, Any]]:
    """The quickest member is stopped for 300 ms every three seconds: it neither sends nor answers."""
    times = range(int(START_MS) + 2_000, int(START_MS + length) - 500, 3_000)
    return [{"kind": "pause", "at_ms": float(at), "who": "quick3", "for_ms": 300.0} for at in times]


FAR: Final = {
    "network.latency": {"kind": "uniform", "min_ms": 38.0, "max_ms": 42.0},
    "network.links": [{"from": "quick1", "both": True, "latency": {"kind": "uniform", "min_ms": 20.0, "max_ms": 140.0}}],
    "timing.retransmit_ms": 400.0,
}
"""Delays of 40 ± 2 ms, but for those of the member of rank 0, which vary from 20 to 140 ms."""


def _choice(policy: str) -> dict[str, Any]:
    if policy != "patterns":
        return {"options.policy": policy}
    return {
        "options.policy": policy,
        "options.patterns": "quick1:4 quick2:4 quick3:8; slow1:4 slow2:4 slow3:8; quick1:4 quick2:4",
    }


def _beyond(load: str, policy: str | None, quick: bool) -> dict[str, Any]:
    length = 12_000.0 if quick else 60_000.0
    made = {"changing": _changing, "coming": _coming}.get(load)
    point: dict[str, Any] = {
        "order": "causal" if policy is None else "atop",
        "workload": made(length) if made else steady(FIXED_MS, length),
        "duration_ms": START_MS + length + 2_000,
    }
    if policy is not None:
        point |= _choice(policy)
    if load == "coming" and policy is not None:
        point["options.window"] = 10  # of 60 messages: shorter than the pauses
    if load == "wan":
        point |= FAR
    if load == "paused":
        point["faults"] = _paused(length)
    return point


def points(quick: bool) -> dict[str, Parameters]:
    """All runs."""
    found: dict[str, Parameters] = {}
    for slow_ms in intervals(quick):
        for order in ORDERS:
            found[f"{order} {slow_ms:g}"] = _series(slow_ms, order, quick)
    length = 10_000.0 if quick else 30_000.0
    loads = {**{name: in_turn(turn, length) for name, turn in TURNS.items()}, "at random": _random(length)}
    for name, load in loads.items():
        for order in ("even", "random", "causal"):
            ordering = _ordering(order, FIXED_MS)
            found[f"{order} {name}"] = {**ordering, "workload": load, "duration_ms": START_MS + length + 2_000}
    for slots in SLOTS:
        for name in POLICIES:
            if name != DEFAULT_POLICY:
                found[f"{slots} {name}"] = {**_series(FIXED_MS, slots, quick), **_choice(name)}
    for load_name in ("changing", "wan") if quick else LOADS:
        for policy in (None, *POLICIES):
            found[f"{load_name} {policy}"] = _beyond(load_name, policy, quick)
    return found
