"""What semantic orders gain: latency and throughput over the share that conflicts, against plain total order and causal order.

    python benchmarks/semantic.py [--out docs] [--quick] [--jobs 2] [--json]            # simulated; the page is docs/semantic.md
    python benchmarks/semantic.py --live types counter [--record docs/semantic-live.json]    # processes on this machine

The page holds what was simulated, and the live figures of the record beside it. A cell is one load (`semantic_loads.py`) at one
rate over one network, run with every order on the same messages at the same times. `semantic_total` learns what the members
send; what counts are the messages after the first third of a run, and the first third is told beside it. Other acknowledgements
make other clocks, so two orders order the same messages differently here and there: chance, which ratios state (`ratios.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import semantic_flow
import semantic_live
from cells import NS, START_MS, Network, Variant, play, scenario
from ratios import Ratio, Requirement, beside, judged, ratio, short
from rich.progress import track
from semantic_chart import Line, Panel, chart, paragraph
from semantic_loads import LOADS, SHARES, conflicts, phases, table_of

from isotone.protocol.ordering import registry

MEMBERS: Final = 5
HEARTBEAT: Final = ("heartbeat_ms", 300.0)
NETWORKS: Final = {
    "LAN": Network({"kind": "uniform", "min_ms": 0.4, "max_ms": 0.6}, (HEARTBEAT,)),
    "WAN": Network({"kind": "uniform", "min_ms": 30.0, "max_ms": 50.0}, (HEARTBEAT, ("retransmit_ms", 300.0))),
}
NETWORK_WORDS: Final = {"LAN": "0.5 ± 0.1 ms", "WAN": "40 ± 10 ms"}
RATES: Final = {"low": (20, 300), "high": (500, 1500)}
"""Messages per second, all members together, and how many."""
PLAIN, GAIN, BOUND = "single_phase", "semantic_total", "causal"
ORDERS: Final = (PLAIN, GAIN, BOUND)
WEAK: Final = ("fifo", "semantic_fifo", "semantic_causal")
"""Measured with the load `types` only."""
SEEDS: Final = (11, 12, 13, 14, 15)
TOLERANCE: Final = 1.10


class Cell(NamedTuple):
    """One load with one order."""

    network: str
    rate: str
    load: str
    share: float
    order: str


Found = dict[Cell, dict[str, Any]]


def cells_of() -> list[Cell]:
    """All cells, in the order of the tables."""
    return [
        Cell(network, rate, load, share, order)
        for network in NETWORKS
        for rate in RATES
        for load in LOADS
        for share in SHARES
        for order in (*ORDERS, *(WEAK if load == "types" else ()))
    ]


def simulate(cell: Cell, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Sums of latencies by seed: of all messages, of the share that conflicts, of the one that commutes, of that at the start."""
    per_second, messages = RATES[cell.rate]
    load = phases(cell.load, cell.share, MEMBERS, per_second, messages)
    relation = table_of(cell.load) if registry.find(cell.order).semantic else None
    found: dict[str, Any] = {name: [] for name in ("all", "conflicting", "commuting", "learning")}
    sent = control = 0
    for seed in seeds:
        took: dict[str, list[int]] = {name: [] for name in found}
        tally = play(scenario(Variant(cell.order), MEMBERS, NETWORKS[cell.network], load, seed=seed, conflicts=relation))
        settled = START_MS * NS + int(messages / per_second / 3 * 1e9)
        for _, payload, now in tally.delivered:
            when, clashes = tally.sent[payload], conflicts(cell.load, *tally.about[payload])
            if when >= settled:
                took["conflicting" if clashes else "commuting"].append(now - when)
                took["all"].append(now - when)
            elif not clashes:
                took["learning"].append(now - when)
        for name, values in took.items():
            found[name].append((round(sum(values) / NS, 4), len(values)))
        sent, control = sent + len(tally.sent), control + tally.control
    return {**found, "messages": sent, "control": round(control / sent, 3)}


def run_all(cells: list[Cell], seeds: tuple[int, ...], jobs: int) -> Found:
    """Simulate all cells in so many processes; the result does not depend on how many."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        results = pool.map(simulate, cells, [seeds] * len(cells), chunksize=4)
        shown = track(results, "cells", len(cells), disable=not sys.stderr.isatty(), transient=True)
        return dict(zip(cells, shown, strict=True))


def verdicts(found: Found) -> list[Requirement]:
    """What is required: in words, the bound, and the ratios measured."""
    at = {cell[:4]: cell for cell in found if cell.order == GAIN}

    def against(cell: Cell, other: str, which: str = "all") -> Ratio:
        return ratio(found[cell][which], found[cell._replace(order=other)][which])

    types = [cell for cell in at.values() if cell.load == "types"]
    free = [cell for cell in types if cell.share < 1]
    mixed = [cell for cell in at.values() if cell.share < 1]
    return [
        Requirement(
            f"a type that conflicts with nothing, in `{GAIN}`, against the same messages in `{BOUND}`",
            TOLERANCE,
            [against(cell, BOUND, "commuting") for cell in free],
        ),
        Requirement(
            "the same in the first third of the run",
            TOLERANCE,
            [against(cell, BOUND, "learning") for cell in free],
        ),
        Requirement(
            f"mean of all messages in `{GAIN}`, against `{PLAIN}`: never slower",
            1.0,
            [against(cell, PLAIN) for cell in at.values()],
        ),
        Requirement(
            f"the commuting share, of all loads and in the first third too, against the same messages in `{PLAIN}`",
            1.0,
            [against(cell, PLAIN, which) for cell in mixed for which in ("commuting", "learning")],
        ),
        Requirement(
            f"the conflicting share of the loads *types* and *items*, against the same messages in `{PLAIN}`",
            1.0,
            [against(cell, PLAIN, "conflicting") for cell in at.values() if cell.load != "counter" and cell.share > 0],
        ),
        Requirement(
            "the mean falls with the share that commutes: the mean at a share, against that at the next larger one",
            1.0,
            [
                ratio(found[at[(*place[:3], one)]]["all"], found[at[(*place[:3], two)]]["all"])
                for place in at
                if place[3] == 0
                for one, two in pairwise(SHARES)
            ],
        ),
        Requirement(
            f"everything in the conflicting share: `{GAIN}` against `{PLAIN}`",
            TOLERANCE,
            [against(cell, PLAIN) for cell in at.values() if cell.share == 1],
        ),
        Requirement(
            "`semantic_fifo` and `semantic_causal`, against `fifo` and `causal`",
            TOLERANCE,
            [against(c, order) for order in ("fifo", "causal") for c in found if c.order == f"semantic_{order}"],
        ),
    ]


def picture(found: Found) -> str:
    """Mean latency of each load, relative to the plain total order, over the share that conflicts."""
    panels = []
    for network in NETWORKS:
        for rate, (per_second, _) in RATES.items():

            def means(order: str, load: str, network: str = network, rate: str = rate) -> list[float]:
                at = (Cell(network, rate, load, share, order) for share in SHARES)
                return [ratio(found[cell]["all"], found[cell._replace(order=PLAIN)]["all"]).value for cell in at]

            lines = [Line(load, means(GAIN, load)) for load in LOADS]
            panels.append(Panel(f"{network}, {per_second} messages/s", lines, means(BOUND, "types")))
    return chart(
        panels, [f"{share:.0%}" for share in SHARES], "share of messages that conflict", f"mean latency, {PLAIN} = 1", BOUND
    )


def page(found: Found, flows: semantic_flow.Flows, live: dict[str, Any], command: str) -> str:
    """The whole page."""
    quoted = ", but for the live figures, which are those of the record `docs/semantic-live.json`" if live else ""
    rates = " or ".join(str(per_second) for per_second, _ in RATES.values())
    lines = [
        "# What semantic orders gain",
        "",
        *paragraph(f"""Made by `{command}`; the same command makes the same page{quoted}. Simulated: {MEMBERS} members, delays
            of {NETWORK_WORDS["LAN"]} (LAN) or {NETWORK_WORDS["WAN"]} (WAN), all members send at random, {rates} messages a second
            all together, computing takes no time. Every order gets the same messages at the same times. Counted are the messages
            after the first third of a run: in the loads *counter* and *items* `{GAIN}` learns what the members send, and
            meanwhile many wait as in `{PLAIN}`. The figures are of {_seeds(found)}. When a lead is worth while was first tuned on
            these loads with another seed, and the last rules were found with other shares, rates and seeds."""),
        "Loads:",
        "",
        "- **types**: a share of the messages is of a type that conflicts with itself, the others of one that conflicts with",
        "  nothing;",
        "- **counter**: a share are updates, the others increments and decrements; an update conflicts with everything, the",
        "  others with updates only;",
        "- **items M**: a share touches one of M items that all members use, the others an item of their sender's own; messages",
        "  conflict if they touch the same item.",
        "",
        *paragraph(f"""The plain total order is `{PLAIN}`, on which `{GAIN}` is built; `{BOUND}` is what the network
            itself takes, and promises no total order."""),
    ]
    lines += [
        "## What is required",
        "",
        *paragraph(f"""Of the ratios of all cells the worst, with half the width of its 95 % interval, from leaving out one seed
            at a time. The same messages are acknowledged at other instants, and so ordered differently here and there: where
            nothing is gained ratios lie on both sides of 1. *Chance* is said of a requirement if some ratio is above the bound,
            and the interval of each of these reaches down to it. An interval fails one time in forty on that side, and there are
            {sum(len(one.ratios) for one in verdicts(found))} ratios."""),
        *judged(verdicts(found), "simulated"),
        "",
        *paragraph(f"""What conflicts finds the clocks where they are in `{PLAIN}`, and takes as long as there: what commutes is
            acknowledged too, after it was handed over, or, where its type conflicts with nothing and little is under way, it does
            not move the clocks. In the load *counter* an update conflicts with all that others send. Where updates are rare
            nearly every one breaks a promise of its sender, which costs time: nothing is required of these, and they take longer
            than in `{PLAIN}` (docs/protocols/semantic_total.md says why)."""),
        "![Mean latency over the share of conflicting messages](semantic.svg)",
        "",
    ]
    for network in NETWORKS:
        for rate, (per_second, _) in RATES.items():
            lines += [f"## {network}, {per_second} messages a second", ""]
            lines += [
                *paragraph(f"""Mean latency in ms, send to deliver at all members. In brackets the ratio to `{PLAIN}`;
                    for the commuting share, to the same messages in `{BOUND}`."""),
                f"| load | conflicting | `{PLAIN}` | `{BOUND}` | `{GAIN}` | conflicting share | commuting share "
                "| control records |",
                "| --- " + "| ---: " * 7 + "|",
            ]
            for load in LOADS:
                for share in SHARES:
                    mine, plain, bound = (found[Cell(network, rate, load, share, order)] for order in (GAIN, PLAIN, BOUND))
                    parts = [
                        load, f"{share:.0%}", short(plain["all"]), short(bound["all"]), beside(mine["all"], plain["all"]),
                        beside(mine["conflicting"], plain["conflicting"]), beside(mine["commuting"], bound["commuting"]),
                        f"{mine['control']:.1f} ({plain['control']:.1f})",
                    ]  # fmt: skip
                    lines.append("| " + " | ".join(parts) + " |")
            lines.append("")
    lines += ["## Weaker orders", "", "The load *types*, mean latency in ms of all messages.", ""]
    lines += [
        "| network | conflicting | `fifo` | `semantic_fifo` | `causal` | `semantic_causal` |",
        "| --- " + "| ---: " * 5 + "|",
    ]
    for network in NETWORKS:
        for rate, (per_second, _) in RATES.items():
            for share in SHARES:
                at = Cell(network, rate, "types", share, "")
                numbers = [
                    short(found[at._replace(order=o)]["all"]) for o in ("fifo", "semantic_fifo", "causal", "semantic_causal")
                ]
                lines.append(f"| {network}, {per_second}/s | {share:.0%} | " + " | ".join(numbers) + " |")
    lines += ["", *semantic_flow.section(flows)]
    if live:
        lines += ["", *semantic_live.section(live)]
    return "\n".join(lines) + "\n"


def _seeds(found: Found) -> str:
    count = len(next(iter(found.values()))["all"])
    return "one seed" if count == 1 else f"{count} seeds"


def main() -> None:
    """Measure, then write or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="the directory to write the page and its chart to")
    parser.add_argument("--quick", action="store_true", help="one seed: no intervals")
    parser.add_argument("--json", action="store_true", help="print the numbers of all cells as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="processes that work side by side")
    parser.add_argument("--live", nargs="+", choices=LOADS, metavar="LOAD", help="measure five processes on this machine instead")
    parser.add_argument("--shares", nargs="+", type=float, choices=SHARES, default=SHARES, help="with --live: only these shares")
    parser.add_argument("--sets", type=int, default=semantic_live.SETS, help="with --live: sets of groups, one after the other")
    parser.add_argument("--record", type=Path, help="with --live: write the figures into this file, beside those of other loads")
    arguments = parser.parse_args()
    if arguments.live:
        if arguments.record and arguments.shares != SHARES:
            parser.error("a record holds all shares of a load: leave out --shares or --record")
        live = json.loads(arguments.record.read_text("utf-8")) if arguments.record and arguments.record.exists() else {}
        for load in arguments.live:
            live[load] = semantic_live.measure(load, arguments.shares, arguments.sets)
            print("\n".join(semantic_live.section({load: live[load]})), flush=True)
            if arguments.record:
                arguments.record.write_text(semantic_live.written(live), encoding="utf-8")
        return
    found = run_all(cells_of(), SEEDS[:1] if arguments.quick else SEEDS, arguments.jobs)
    if arguments.json:
        print(json.dumps([{**cell._asdict(), **result} for cell, result in found.items()]))
        return
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        flows = semantic_flow.run_all(pool.map)
    record = (arguments.out or Path("docs")) / "semantic-live.json"
    live = json.loads(record.read_text("utf-8")) if record.exists() else {}
    command = "python benchmarks/semantic.py --out docs" + (" --quick" if arguments.quick else "")
    text = page(found, flows, live, command)
    if arguments.out is None:
        print(text, end="")
    else:
        (arguments.out / "semantic.md").write_text(text, encoding="utf-8")
        (arguments.out / "semantic.svg").write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
