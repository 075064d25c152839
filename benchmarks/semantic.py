"""What semantic orders gain: latency over the share of messages that conflict, against the plain total order and causal order.

    python benchmarks/semantic.py [--out docs] [--quick] [--jobs 2] [--json]            # simulated; the page is docs/semantic.md
    python benchmarks/semantic.py --live types counter [--record docs/semantic-live.json]    # processes on this machine

The page holds what was simulated, and the live figures of the record beside it. A cell is one load (`semantic_loads.py`) at one
rate over one network, run with every order on the same messages at the same times. `semantic_total` learns what the members
send; what counts are the messages after the first third of a run, and the first third is told beside it.
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

import numpy as np
import semantic_live
from cells import NS, START_MS, Network, Variant, play, scenario
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
SEEDS: Final = (1, 2)
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
    """Mean latencies in ms: of all messages, of the share that conflicts, of the one that commutes, and of that at the start."""
    per_second, messages = RATES[cell.rate]
    load = phases(cell.load, cell.share, MEMBERS, per_second, messages)
    relation = table_of(cell.load) if registry.find(cell.order).semantic else None
    took: dict[str, list[int]] = {"conflicting": [], "commuting": [], "learning": []}
    sent = control = size = 0
    for seed in seeds:
        tally = play(scenario(Variant(cell.order), MEMBERS, NETWORKS[cell.network], load, seed=seed, conflicts=relation))
        settled = START_MS * NS + int(messages / per_second / 3 * 1e9)
        for _, payload, now in tally.delivered:
            when, clashes = tally.sent[payload], conflicts(cell.load, *tally.about[payload])
            if when >= settled:
                took["conflicting" if clashes else "commuting"].append(now - when)
            elif not clashes:
                took["learning"].append(now - when)
        sent, control, size = sent + len(tally.sent), control + tally.control, size + tally.bytes
    numbers = {"all": took["conflicting"] + took["commuting"], **took}
    return {
        "messages": sent,
        **{name: round(float(np.mean(values)) / 1e6, 4) if values else None for name, values in numbers.items()},
        "p99": round(float(np.percentile(numbers["all"], 99)) / 1e6, 4),
        "control": round(control / sent, 3),
        "bytes": round(size / sent / (MEMBERS - 1), 1),
    }


def run_all(cells: list[Cell], seeds: tuple[int, ...], jobs: int) -> Found:
    """Simulate all cells in so many processes; the result does not depend on how many."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        results = pool.map(simulate, cells, [seeds] * len(cells), chunksize=4)
        shown = track(results, "cells", len(cells), disable=not sys.stderr.isatty(), transient=True)
        return dict(zip(cells, shown, strict=True))


def verdicts(found: Found) -> list[tuple[str, float, float]]:
    """What is required: in words, the bound, and the worst ratio measured."""
    at = {cell[:4]: cell for cell in found if cell.order == GAIN}

    def ratio(cell: Cell, other: str, which: str = "all") -> float:
        return float(found[cell][which] / found[cell._replace(order=other)][which])

    total = [ratio(cell, PLAIN) for cell in at.values()]
    mixed = [cell for cell in at.values() if cell.share < 1]
    commuting = [ratio(cell, PLAIN, which) for cell in mixed for which in ("commuting", "learning")]
    rare = [ratio(cell, PLAIN, "conflicting") for cell in at.values() if cell.load == "types" and cell.share > 0]
    types = [cell for cell in at.values() if cell.load == "types" and cell.share < 1]
    free = [ratio(cell, BOUND, "commuting") for cell in types]
    early = [ratio(cell, BOUND, "learning") for cell in types]
    whole = [ratio(cell, PLAIN) for cell in at.values() if cell.share == 1]
    rising = [
        found[at[(*place[:3], one)]]["all"] / found[at[(*place[:3], two)]]["all"]
        for place in at
        if place[3] == 0
        for one, two in pairwise(SHARES)
    ]
    weak = [ratio(c, order) for order in ("fifo", "causal") for c in found if c.order == f"semantic_{order}"]
    return [
        (f"a type that conflicts with nothing, in `{GAIN}`, against the same messages in `{BOUND}`", TOLERANCE, max(free)),
        ("the same in the first third of the run", TOLERANCE, max(early)),
        (f"mean of all messages in `{GAIN}`, against `{PLAIN}`: never slower", 1.0, max(total)),
        (
            f"the commuting share, of all loads and in the first third too, against the same messages in `{PLAIN}`",
            1.0,
            max(commuting),
        ),
        (
            f"of the load *types*, the type that conflicts with itself, against the same messages in `{PLAIN}`",
            TOLERANCE,
            max(rare),
        ),
        (
            "the mean falls with the share that commutes: the mean at a share, against that at the next larger one",
            1.0,
            max(rising),
        ),
        (f"everything in the conflicting share: `{GAIN}` against `{PLAIN}`", TOLERANCE, max(whole)),
        ("`semantic_fifo` and `semantic_causal`, against `fifo` and `causal`", TOLERANCE, max(weak)),
    ]


def picture(found: Found) -> str:
    """Mean latency of each load, relative to the plain total order, over the share that conflicts."""
    panels = []
    for network in NETWORKS:
        for rate, (per_second, _) in RATES.items():

            def means(order: str, load: str, network: str = network, rate: str = rate) -> list[float]:
                rows = (found[Cell(network, rate, load, share, order)]["all"] for share in SHARES)
                plain = (found[Cell(network, rate, load, share, PLAIN)]["all"] for share in SHARES)
                return [mine / other for mine, other in zip(rows, plain, strict=True)]

            lines = [Line(load, means(GAIN, load)) for load in LOADS]
            panels.append(Panel(f"{network}, {per_second} messages/s", lines, means(BOUND, "types")))
    return chart(
        panels, [f"{share:.0%}" for share in SHARES], "share of messages that conflict", f"mean latency, {PLAIN} = 1", BOUND
    )


def page(found: Found, live: dict[str, Any], command: str) -> str:
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
            meanwhile many wait as in `{PLAIN}`. How long it waits with a lead was tuned on these loads and
            this seed: others may gain less."""),
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
    lines += ["## What is required", "", "| requirement | bound | worst ratio, simulated | |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {text} | {bound:.2f} | {worst:.3f} | {_verdict(worst, bound)} |" for text, bound, worst in verdicts(found)]
    lines += ["", "![Mean latency over the share of conflicting messages](semantic.svg)", ""]
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
                        load, f"{share:.0%}", _short(plain["all"]), _short(bound["all"]), _beside(mine["all"], plain["all"]),
                        _beside(mine["conflicting"], plain["conflicting"]), _beside(mine["commuting"], bound["commuting"]),
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
                    _short(found[at._replace(order=o)]["all"]) for o in ("fifo", "semantic_fifo", "causal", "semantic_causal")
                ]
                lines.append(f"| {network}, {per_second}/s | {share:.0%} | " + " | ".join(numbers) + " |")
    if live:
        lines += ["", *semantic_live.section(live)]
    return "\n".join(lines) + "\n"


def _verdict(worst: float, bound: float) -> str:
    return "holds" if worst <= bound + 0.0005 else "does not hold"


def _short(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}" if number < 10 else f"{number:.1f}"


def _beside(number: float | None, other: float | None) -> str:
    return "–" if number is None or not other else f"{_short(number)} ({number / other:.2f})"


def main() -> None:
    """Measure, then write or print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="the directory to write the page and its chart to")
    parser.add_argument("--quick", action="store_true", help="one seed instead of two")
    parser.add_argument("--json", action="store_true", help="print the numbers of all cells as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="processes that work side by side")
    parser.add_argument("--live", nargs="+", choices=LOADS, metavar="LOAD", help="measure five processes on this machine instead")
    parser.add_argument("--shares", nargs="+", type=float, choices=SHARES, default=SHARES, help="with --live: only these shares")
    parser.add_argument("--record", type=Path, help="with --live: write the figures into this file, beside those of other loads")
    arguments = parser.parse_args()
    if arguments.live:
        live = json.loads(arguments.record.read_text("utf-8")) if arguments.record and arguments.record.exists() else {}
        for load in arguments.live:
            live[load] = semantic_live.measure(load, arguments.shares, live.get(load))
            print("\n".join(semantic_live.section({load: live[load]})), flush=True)
        if arguments.record:
            arguments.record.write_text(json.dumps(live, indent=1) + "\n", encoding="utf-8")
        return
    found = run_all(cells_of(), SEEDS[:1] if arguments.quick else SEEDS, arguments.jobs)
    if arguments.json:
        print(json.dumps([{**cell._asdict(), **result} for cell, result in found.items()]))
        return
    record = (arguments.out or Path("docs")) / "semantic-live.json"
    live = json.loads(record.read_text("utf-8")) if record.exists() else {}
    command = "python benchmarks/semantic.py --out docs" + (" --quick" if arguments.quick else "")
    text = page(found, live, command)
    if arguments.out is None:
        print(text, end="")
    else:
        (arguments.out / "semantic.md").write_text(text, encoding="utf-8")
        (arguments.out / "semantic.svg").write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
