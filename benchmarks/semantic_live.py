"""Semantic orders live: five processes on the loopback interface, each order in a group of its own, measured in turn.

Throughput: every member sends typed messages of 50 bytes as fast as it can and takes everything. Latency: every member sends 20
messages a second. The groups of all orders run at the same time and only one of them works, so that what slows the machine slows
all of them. Processes keep what they are favoured or hampered by, so several sets of groups are measured one after the other:
a set's figure is the median of the means of its rounds, an order's the mean over the sets, and how far ratios scatter is told
from leaving out one set at a time (`ratios.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Final

from ratios import Ratio, Requirement, Sums, judged, mean, ratio
from rich.console import Console
from rich.progress import track
from semantic_chart import paragraph
from semantic_loads import kinds, table_of

from isotone.protocol.ordering import registry
from isotone.runtime.bench import Bench
from isotone.runtime.loop import run

MEMBERS: Final = 5
SIZE: Final = 50
RATE: Final = 20.0
SETS: Final = 4
ROUNDS: Final = 2
"""Of latency, with each set."""
ROUND_S: Final = 1.5
RARE_ROUND_S: Final = 4.0
"""Where few messages conflict a round must be long, or their mean says little."""
FAST_ROUNDS: Final = 2
"""Of throughput, with each set."""
FAST_ROUND_S: Final = 0.3
PLAIN, GAIN, BOUND = "single_phase", "semantic_total", "causal"
ORDERS: Final = (PLAIN, GAIN, BOUND)
WHICH: Final = ("all", "conflicting", "commuting")
FAST: Final = "messages_per_s"
RARE: Final = 0.1
"""What conflicts is rare up to this share."""
TOLERANCE: Final = 1.10

Live = dict[str, dict[str, Any]]
"""By load, what was measured: rows of a share and an order, with a figure of each set."""


def measure(load: str, shares: Sequence[float], sets: int) -> dict[str, Any]:
    """One load."""
    return run(_measure(load, shares, sets))


async def _measure(load: str, shares: Sequence[float], sets: int) -> dict[str, Any]:
    rows: dict[tuple[float, str], dict[str, Any]] = {
        (share, order): {"share": share, "order": order, FAST: [], **{which: [] for which in WHICH}}
        for share in shares
        for order in ORDERS
    }
    told = Console(stderr=True)  # once a second: whoever draws it takes time from the groups
    for one in track(range(sets), f"{load}, sets of groups", console=told, refresh_per_second=1, disable=not told.is_terminal):
        async with AsyncExitStack() as stack:
            benches = {order: await stack.enter_async_context(Bench(MEMBERS, _settings(order, load))) for order in ORDERS}
            for share in shares:
                mixes = [_mix(load, share, rank) for rank in range(MEMBERS)]
                late = await _latencies(benches, mixes, RARE_ROUND_S if 0 < share <= RARE else ROUND_S, one)
                for order in ORDERS:
                    for which in WHICH:
                        means = [one[which] for one in late[order] if which in one]  # a round may have none of a rare kind
                        rows[share, order][which].append(round(median(means), 4) if means else None)
            for share in shares:  # afterwards, since promises of a crowd stay for a while
                mixes = [_mix(load, share, rank) for rank in range(MEMBERS)]
                fast = await _speeds(benches, mixes)
                if not fast[PLAIN][1] or (share == 1 and load in ("types", "items 1") and not fast[GAIN][1]):
                    raise RuntimeError(f"{load}, {share:.0%}: members delivered in different orders")
                for order in ORDERS:
                    rows[share, order][FAST].append(round(fast[order][0]))
    return {"members": MEMBERS, "size": SIZE, "rate": RATE, "sets": sets, "rows": list(rows.values())}


async def _latencies(
    benches: dict[str, Bench], mixes: list[dict[str, Any]], seconds: float, group: int
) -> dict[str, list[dict[str, float]]]:
    """One set, one share: of each order the means of its rounds. In a round all orders get the same messages."""
    late: dict[str, list[dict[str, float]]] = {order: [] for order in benches}
    for number in range(ROUNDS):
        for order, bench in benches.items():
            late[order].append(await _latency(bench, mixes, seconds, ROUNDS * group + number))
    return late


async def _speeds(benches: dict[str, Bench], mixes: list[dict[str, Any]]) -> dict[str, tuple[float, bool]]:
    """One set, one share: of each order the throughput, and whether all delivered the same."""
    quota = max([await _quota(bench, mixes) for bench in benches.values()])  # the same for all: rounds begin and end
    fast: dict[str, list[tuple[float, bool]]] = {order: [] for order in benches}
    for _ in range(FAST_ROUNDS):
        for order, bench in benches.items():
            fast[order].append(await _throughput(bench, mixes, quota))
    return {order: (fmean(one for one, _ in found), all(same for _, same in found)) for order, found in fast.items()}


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
    return max(200, int(per_second * FAST_ROUND_S / MEMBERS))


async def _latency(bench: Bench, mixes: list[dict[str, Any]], seconds: float, seed: int) -> dict[str, float]:
    """Means in ms of one round: of all messages, of those that conflict, of the others."""
    start = time.monotonic() + 0.1
    count = round(RATE * seconds)
    order = {
        "via": "group", "size": SIZE, "rate": RATE, "count": count, "members": MEMBERS, "senders": MEMBERS, "start": start,
        "seed": seed,
    }  # fmt: skip
    answers = await bench.each("latency", seconds + 60, [{**order, "mix": mix} for mix in mixes])
    found = [pair for answer in answers for pair in zip(answer["latencies"], answer["conflicting"], strict=True)]
    parts = {
        "all": [delay for delay, _ in found],
        "conflicting": [delay for delay, marked in found if marked],
        "commuting": [delay for delay, marked in found if not marked],
    }
    return {name: fmean(delays) / 1e6 for name, delays in parts.items() if delays}


def written(live: Live) -> str:
    """A record as JSON, a row on a line."""
    rows = {load: ",\n".join("  " + json.dumps(row) for row in record["rows"]) for load, record in live.items()}
    heads = {load: json.dumps({**record, "rows": []})[:-2] for load, record in live.items()}
    return "{\n" + ",\n".join(f" {json.dumps(load)}: {heads[load]}\n{rows[load]}\n ]}}" for load in live) + "\n}\n"


class _Table:
    """The figures of a record."""

    def __init__(self, live: Live) -> None:
        self._rows = {(load, row["share"], row["order"]): row for load, record in live.items() for row in record["rows"]}
        self.cells = sorted({place[:2] for place in self._rows}, key=lambda cell: (list(live).index(cell[0]), cell[1]))

    def figures(self, load: str, share: float, order: str, what: str) -> Sums:
        """What each set of groups says, as sums of one message each."""
        return [(value or 0.0, int(value is not None)) for value in self._rows[load, share, order][what]]

    def against(self, cell: tuple[str, float], other: str, what: str = "all") -> Ratio:
        """`semantic_total` by another order."""
        return ratio(self.figures(*cell, GAIN, what), self.figures(*cell, other, what))

    def gains(self, cell: tuple[str, float]) -> Sums:
        """The mean of `semantic_total` by that of the plain order, for each set."""
        pairs = zip(self.figures(*cell, GAIN, "all"), self.figures(*cell, PLAIN, "all"), strict=True)
        return [(one / two, 1) for (one, _), (two, _) in pairs]


def verdicts(live: Live) -> list[Requirement]:
    """What is required: in words, the bound, and the ratios measured."""
    table = _Table(live)
    free = [cell for cell in table.cells if cell[0] == "types" and cell[1] < 1]
    rare = [cell for cell in table.cells if cell[1] <= RARE]
    all_conflict = [cell for cell in table.cells if cell[1] == 1]
    return [
        Requirement(
            f"a type that conflicts with nothing, in `{GAIN}`, against the same messages in `{BOUND}`",
            TOLERANCE,
            [table.against(cell, BOUND, "commuting") for cell in free],
        ),
        Requirement(
            f"mean of all messages in `{GAIN}` where at most {RARE:.0%} conflict, against `{PLAIN}`: never slower",
            1.0,
            [table.against(cell, PLAIN) for cell in rare],
        ),
        Requirement(
            "the commuting share of these, against the same messages in `single_phase`",
            1.0,
            [table.against(cell, PLAIN, "commuting") for cell in rare],
        ),
        Requirement(
            f"the conflicting share of these in the loads *types* and *items*, against the same messages in `{PLAIN}`",
            1.0,
            _rare_conflicts(table),
        ),
        Requirement(
            f"the gain grows with the share that commutes: the mean, by that of `{PLAIN}`, against that at the next larger share",
            1.0,
            [ratio(table.gains(one), table.gains(two)) for one, two in pairwise(table.cells) if one[0] == two[0]],
        ),
        Requirement(
            f"everything in the conflicting share: `{GAIN}` against `{PLAIN}`",
            TOLERANCE,
            [table.against(cell, PLAIN) for cell in all_conflict],
        ),
        Requirement(
            f"messages per second there: those of `{PLAIN}` by those of `{GAIN}`",
            TOLERANCE,
            [ratio(table.figures(*cell, PLAIN, FAST), table.figures(*cell, GAIN, FAST)) for cell in all_conflict],
        ),
    ]


def _rare_conflicts(table: _Table) -> list[Ratio]:
    """What conflicts rarely, taken by itself, in the loads where it has hardly anything to jump over."""
    cells = [cell for cell in table.cells if 0 < cell[1] <= RARE and cell[0] != "counter"]
    return [table.against(cell, PLAIN, "conflicting") for cell in cells]


def section(live: Live) -> list[str]:
    """The live part of the page, of a record."""
    one, table = next(iter(live.values())), _Table(live)
    rare = [found.value for found in _rare_conflicts(table)] or [0.0]
    alone = paragraph(f"""What conflicts rarely, taken by itself, takes on average over the loads *types* and *items*
        {fmean(rare):.2f} times as long as in `{PLAIN}`; simulated, where computing takes no time, it takes as long as there.""")
    loads = " ".join(f"'{load}'" if " " in load else load for load in live)

    def span(order: str, other: str) -> str:
        found = [ratio(*(table.figures(*cell, o, FAST) for o in (order, other))).value for cell in table.cells]
        return f"{min(found):.2f} to {max(found):.2f}"

    lines = [
        "## Live",
        "",
        *paragraph(f"""{one["members"]} processes on the loopback interface, messages of {one["size"]} bytes, all orders
            measured in turn in one run per load: messages per second with all members sending as fast as they can, and the
            mean latency in ms at {one["rate"]:g} messages per second and member. There are {one["sets"]} sets of groups one after
            the other. With each set there are {ROUNDS} rounds of latency for each share, and then {FAST_ROUNDS} of throughput;
            intervals are from leaving out one set at a time. A round of latency takes {ROUND_S:g} s, or {RARE_ROUND_S:g} s with
            up to {RARE:.0%} of conflicting messages; in each all orders get the same messages at the same times. Made by `python
            benchmarks/semantic.py --live {loads} --record docs/semantic-live.json`."""),
        *judged(verdicts(live), "live"),
        "",
        *paragraph(f"""Rounds are short, and two cores carry fifteen processes: take the throughput of `{BOUND}`, which looks at
            nothing, against `{PLAIN}` ({span(BOUND, PLAIN)}) as a measure of how far figures scatter; that of `{GAIN}` is
            {span(GAIN, PLAIN)} times that of `{PLAIN}`. The groups are new, so the latencies of *counter* and *items* are those
            of the time in which leads are learned. On this interface a message takes as long as several processes need to
            compute, so what `{GAIN}` computes for each is seen, and, except for what conflicts with nothing, the
            acknowledgements that share the two cores with it."""),
        *paragraph("""Latency comes before throughput, since a crowd leaves promises behind, and as long as these hold everybody
            looks at what each message is (docs/protocols/semantic_total.md)."""),
        *(alone if any(rare) else ()),
        "In brackets the ratio to `single_phase`, and for the commuting share to the same messages in `causal`.",
        "",
        f"| load | conflicting | `{PLAIN}`, msg/s | `{GAIN}`, msg/s | `{BOUND}`, msg/s | `{PLAIN}`, ms "
        f"| `{GAIN}`, ms | conflicting share, ms | commuting share, ms | `{BOUND}`, ms |",
        "| --- " + "| ---: " * 9 + "|",
    ]
    for cell in table.cells:
        load, share = cell
        fast = {order: mean(table.figures(load, share, order, FAST)) or 0.0 for order in ORDERS}
        late = {(order, what): mean(table.figures(load, share, order, what)) for order in ORDERS for what in WHICH}

        def beside(what: str, other: str, late: dict[tuple[str, str], float | None] = late) -> str:
            mine, theirs = late[GAIN, what], late[other, what]
            return f"{mine:.2f} ({mine / theirs:.2f})" if mine and theirs else "–"

        parts = [
            load,
            f"{share:.0%}",
            f"{fast[PLAIN]:,.0f}",
            f"{fast[GAIN]:,.0f} ({fast[GAIN] / fast[PLAIN]:.2f})",
            f"{fast[BOUND]:,.0f}",
            f"{late[PLAIN, 'all']:.2f}",
            beside("all", PLAIN),
            beside("conflicting", PLAIN),
            beside("commuting", BOUND),
            f"{late[BOUND, 'all']:.2f}",
        ]
        lines.append("| " + " | ".join(parts) + " |")
    return lines
