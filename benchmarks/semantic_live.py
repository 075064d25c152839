"""Semantic orders live: five processes on the loopback interface, each order in a group of its own, measured in turn.

Throughput (T): every member sends typed messages of 50 bytes as fast as it can and takes everything. Latency (L): every member
sends 20 messages a second. All groups run at the same time and only one of them works, so that what slows the machine slows
all of them; figures are medians of the rounds, and means within a round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from statistics import fmean, median
from typing import Any, Final

from semantic_chart import paragraph
from semantic_loads import kinds, table_of

from isotone.protocol.ordering import registry
from isotone.runtime.bench import Bench
from isotone.runtime.loop import run

MEMBERS: Final = 5
SIZE: Final = 50
RATE: Final = 20.0
ROUNDS: Final = 5
ROUND_S: Final = 0.3
LATENCY_ROUNDS: Final = 11
LATENCY_S: Final = 0.7
PLAIN, GAIN, BOUND = "single_phase", "semantic_total", "causal"
ORDERS: Final = (PLAIN, GAIN, BOUND)


def measure(load: str, shares: Sequence[float], rounds: int, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Some shares of one load, with so many rounds of latency; others are taken over from an earlier record."""
    record = run(_measure(load, shares, rounds))
    record["rows"] += [row for row in (known or {"rows": []})["rows"] if row["share"] not in shares]
    return record


async def _measure(load: str, shares: Sequence[float], rounds: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        benches = {order: await stack.enter_async_context(Bench(MEMBERS, _settings(order, load))) for order in ORDERS}
        for share in shares:
            mixes = [_mix(load, share, rank) for rank in range(MEMBERS)]
            quota = max([await _quota(bench, mixes) for bench in benches.values()])  # the same for all: rounds begin and end
            fast: dict[str, list[float]] = {order: [] for order in ORDERS}
            late: dict[str, list[dict[str, float]]] = {order: [] for order in ORDERS}
            same = dict.fromkeys(ORDERS, True)
            for _ in range(ROUNDS):
                for order, bench in benches.items():
                    per_second, identical = await _throughput(bench, mixes, quota)
                    fast[order].append(per_second)
                    same[order] &= identical
            for _ in range(rounds):
                for order, bench in benches.items():
                    late[order].append(await _latency(bench, mixes))
            if not same["single_phase"] or (share == 1 and load in ("types", "items 1") and not same["semantic_total"]):
                raise RuntimeError(f"{load}, {share:.0%}: members delivered in different orders")
            for order in ORDERS:
                names = dict.fromkeys(name for one in late[order] for name in one)  # a round may have none of a rare kind
                groups = {name: median(one[name] for one in late[order] if name in one) for name in names}
                rows.append({"share": share, "order": order, "messages_per_s": round(median(fast[order])), "latency_ms": groups})
    return {"members": MEMBERS, "size": SIZE, "rate": RATE, "rounds": ROUNDS, "latency_rounds": rounds, "rows": rows}


def _settings(order: str, load: str) -> dict[str, Any]:
    relation = table_of(load) if registry.find(order).semantic else None
    return {"order": order, "level": "agreed", "k": 1, "options": {}, "limits": {}, "trace": None, "conflicts": relation}


def _mix(load: str, share: float, rank: int) -> dict[str, Any]:
    conflicting, commuting = kinds(load, f"m{rank}")
    return {"share": share, "conflicting": conflicting, "commuting": commuting}


async def _throughput(bench: Bench, mixes: list[dict[str, Any]], quota: int) -> tuple[float, bool]:
    start = time.monotonic() + 0.1
    order = {"via": "batches", "size": SIZE, "quota": quota, "members": MEMBERS, "start": start}
    answers = await bench.each("throughput", 120, [{**order, "mix": mix} for mix in mixes])
    seconds = max(answer["end"] for answer in answers) - start
    return quota * MEMBERS / seconds, len({answer["digest"] for answer in answers}) == 1


async def _quota(bench: Bench, mixes: list[dict[str, Any]]) -> int:
    """How many messages per member take about as long as a round."""
    per_second, _ = await _throughput(bench, mixes, 4_000)
    return max(200, int(per_second * ROUND_S / MEMBERS))


async def _latency(bench: Bench, mixes: list[dict[str, Any]]) -> dict[str, float]:
    """Means in ms of one round: of all messages, of those that conflict, of the others."""
    start = time.monotonic() + 0.1
    count = round(RATE * LATENCY_S)
    order = {"via": "group", "size": SIZE, "rate": RATE, "count": count, "members": MEMBERS, "senders": MEMBERS, "start": start}
    answers = await bench.each("latency", LATENCY_S + 60, [{**order, "mix": mix} for mix in mixes])
    found = [pair for answer in answers for pair in zip(answer["latencies"], answer["conflicting"], strict=True)]
    parts = {
        "all": [delay for delay, _ in found],
        "conflicting": [delay for delay, marked in found if marked],
        "commuting": [delay for delay, marked in found if not marked],
    }
    return {name: round(fmean(delays) / 1e6, 4) for name, delays in parts.items() if delays}


def _span(live: dict[str, Any], order: str, what: str, other: str, shares: Sequence[float] = (), only: Sequence[str] = ()) -> str:
    """The smallest and the largest ratio of what two orders take, or reach, in all cells or in some."""
    found: list[float] = []
    for load, record in live.items():
        at = {(row["share"], row["order"]): {**row, **row["latency_ms"]} for row in record["rows"]}
        for share in {share for share, _ in at}:
            one, two = at[share, order].get(what), at[share, other].get(what)
            if one and two and (not shares or share in shares) and (not only or load in only):
                found.append(one / two)
    return f"{min(found):.2f} to {max(found):.2f}" if found else "–"


def section(live: dict[str, Any]) -> list[str]:
    """The live part of the page, of a record."""
    one = next(iter(live.values()))
    rounds = sorted({record["latency_rounds"] for record in live.values()})
    loads = " ".join(f"'{load}'" if " " in load else load for load in live)
    lines = [
        "## Live",
        "",
        *paragraph(f"""{one["members"]} processes on the loopback interface, messages of {one["size"]} bytes, all orders
            measured in turn in one run per load: messages per second with all members sending as fast as they can, and the
            mean latency in ms at {one["rate"]:g} messages per second and member; medians of {one["rounds"]} rounds, of the
            latency of {" or ".join(map(str, rounds))} after them. In brackets the ratio to `single_phase`, and for the commuting
            share to the same messages in `causal`. Made by
            `python benchmarks/semantic.py --live {loads} --record docs/semantic-live.json`, some shares at a time."""),
        *paragraph(f"""Rounds are short, and two cores carry fifteen processes: take the throughput of `causal`, which looks at
            nothing, against `single_phase` ({_span(live, BOUND, "messages_per_s", PLAIN)}) as a measure of how far figures
            scatter. The groups are new, so the latencies of *counter* and *items* are those of the time in which leads are
            learned. On this interface a message takes as long as several processes need to compute, so what `semantic_total`
            computes for
            each is seen, and the acknowledgements that share the two cores with it."""),
        *paragraph(f"""Against `single_phase`, where everything conflicts, it takes {_span(live, GAIN, "all", PLAIN, (1.0,))}
            times as long, and with less than that {_span(live, GAIN, "all", PLAIN, (0.0, 0.01, 0.1, 0.5))} times; what conflicts
            with nothing (the load *types*) takes {_span(live, GAIN, "commuting", BOUND, only=("types",))} times as long as in
            `causal`. Its throughput is {_span(live, GAIN, "messages_per_s", PLAIN)} times that of `single_phase`."""),
        "| load | conflicting | `single_phase`, msg/s | `semantic_total`, msg/s | `causal`, msg/s | `single_phase`, ms "
        "| `semantic_total`, ms | commuting share, ms | `causal`, ms |",
        "| --- " + "| ---: " * 8 + "|",
    ]
    for load, record in live.items():
        for share in sorted({row["share"] for row in record["rows"]}):
            plain, gain, bound = (next(r for r in record["rows"] if r["share"] == share and r["order"] == o) for o in ORDERS)
            free, floor = gain["latency_ms"].get("commuting"), bound["latency_ms"].get("commuting")
            parts = [
                load,
                f"{share:.0%}",
                f"{plain['messages_per_s']:,}",
                f"{gain['messages_per_s']:,} ({gain['messages_per_s'] / plain['messages_per_s']:.2f})",
                f"{bound['messages_per_s']:,}",
                f"{plain['latency_ms']['all']:.2f}",
                f"{gain['latency_ms']['all']:.2f} ({gain['latency_ms']['all'] / plain['latency_ms']['all']:.2f})",
                f"{free:.2f} ({free / floor:.2f})" if free and floor else "–",
                f"{bound['latency_ms']['all']:.2f}",
            ]
            lines.append("| " + " | ".join(parts) + " |")
    return lines
