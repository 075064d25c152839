"""All orderers side by side, from the simulator: latency, control records, bytes, and recovery after a crash.

    python benchmarks/comparison.py [--out docs/comparison.md] [--quick] [--seed 1] [--jobs 2] [--json]

A cell is one simulated run of one orderer with N members over one network under one load (`cells.py`). Cells are independent
and run side by side in `--jobs` processes; the result does not depend on how many. `--quick` leaves out N = 64 and
sends a quarter of the messages.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from cells import START_MS, Network, Phase, Variant, even, measure, rare, recovery, scenario, skewed, variants
from rich.progress import track

HEARTBEAT = ("heartbeat_ms", 300.0)  # in large groups heartbeats are most of what there is to simulate
NETWORKS = {
    "LAN": Network({"kind": "uniform", "min_ms": 0.4, "max_ms": 0.6}, (HEARTBEAT,)),
    "WAN": Network({"kind": "uniform", "min_ms": 30.0, "max_ms": 50.0}, (HEARTBEAT, ("retransmit_ms", 300.0))),
}
NETWORK_WORDS = {"LAN": "delays of 0.5 ± 0.1 ms", "WAN": "delays of 40 ± 10 ms, retransmission after 300 ms"}
LOADS = {
    "even": "all members send at random, 200 messages a second all together",
    "skewed": "200 messages a second, four of five from the last member",
    "idle": "one message in 300 ms, each from another member",
}
PER_SECOND = 200
SIZES = {3: 240, 5: 240, 16: 120, 64: 16}
"""How many messages a cell has, about; an idle one has 24 at most. In large groups a message is dear to simulate."""
CRASH_MS = START_MS + 300.0
CRASH_PER_SECOND = 50
CRASH_WORDS = "all members send, 50 messages a second all together (25 with N = 64)"
GATHERED = Variant("single_phase", (("acks", "gathered"),))


PREFACE = """\
# All orderers compared

Made by `{command}`, from the simulator. The same command makes the same page. Delays, loads and crashes are simulated and
computing takes no time: these are the costs of the protocols, not of their code (for that see `benchmarks/live.py`). A cell
is one run of a group of N members that has formed before the load begins. All options are at their defaults but for those
named, the delivery level is `agreed`, a message has 64 bytes and travels alone, heartbeats come every 300 ms. Semantic
orders have no conflict relation here, so that everything conflicts. Loads:

{loads}

How to read the tables:

- **Latency** is from send to deliver, in ms, over all messages and all members, the sender among them: *mean (p50, p99)*. `fifo`
  and `causal` show what the network itself takes; they promise no total order.
- **Control records** are the orderer's own (acknowledgements, order records, proposals, …) per message, each counted once per
  receiver. **Bytes** are those of all records on the view's links, messages and control, per message and other member: without
  any control that is the size of the encoded message.
- **Recovery**: the first member crashes (the one that numbers the messages in `sequencer`) and its connections close. The
  *stall* is the longest time that a survivor delivers nothing, in ms; in brackets, the time until every survivor has
  installed the next view. An order that needs a word of every member, or of the one that crashed, waits for that view, and
  the view for the failure detector's patience (500 ms after a connection closed). The stall of an order that waits for
  nobody is a gap between two messages, or the flush; in `token` it depends on who had the token.

What each protocol does is in [protocols](protocols/README.md).\
"""


class Cell(NamedTuple):
    """What one run measures. The load `crash` is an even one, in which the first member crashes."""

    network: str
    load: str
    variant: Variant
    members: int
    messages: int
    seed: int


def load_of(cell: Cell) -> list[Phase]:
    """When who sends."""
    if cell.load == "skewed":
        return skewed(cell.members, PER_SECOND, cell.messages)
    if cell.load == "idle":
        return rare(cell.members, 300, min(24, cell.messages // 4))
    return even(cell.members, PER_SECOND, cell.messages)


def simulate(cell: Cell) -> dict[str, Any]:
    """Simulate one cell."""
    network = NETWORKS[cell.network]
    if cell.load == "crash":
        rate = CRASH_PER_SECOND if cell.members < 64 else CRASH_PER_SECOND // 2
        load = even(cell.members, rate, rate * 18 // 10)
        run = scenario(cell.variant, cell.members, network, load, seed=cell.seed, crash_ms=CRASH_MS)
        return recovery(run, CRASH_MS)
    return measure(scenario(cell.variant, cell.members, network, load_of(cell), seed=cell.seed))


def cells_of(seed: int, quick: bool) -> list[Cell]:
    """All cells, in the order of the tables."""
    sizes = {members: messages // 4 for members, messages in SIZES.items() if members < 64} if quick else SIZES
    return [
        Cell(network, load, variant, members, messages, seed)
        for network in NETWORKS
        for load in (*LOADS, "crash")
        for variant in variants(GATHERED)
        for members, messages in sizes.items()
    ]


def run_all(cells: list[Cell], jobs: int, show: bool) -> list[dict[str, Any]]:
    """Simulate all cells, the large ones first, so that both processes are done at the same time."""
    order = sorted(range(len(cells)), key=lambda index: -cells[index].members)
    found: list[dict[str, Any]] = [{} for _ in cells]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        results = pool.map(simulate, [cells[index] for index in order])
        for index, result in zip(order, track(results, "cells", len(cells), disable=not show, transient=True), strict=True):
            found[index] = result
    return found


def _table(head: str, cells: list[Cell], texts: dict[tuple[str, int], str]) -> list[str]:
    sizes = list(dict.fromkeys(cell.members for cell in cells))
    lines = ["", f"| {head} | " + " | ".join(f"N = {members}" for members in sizes) + " |", "| --- " * (1 + len(sizes)) + "|"]
    for name in dict.fromkeys(str(cell.variant) for cell in cells):
        lines.append(f"| `{name}` | " + " | ".join(texts[name, members] for members in sizes) + " |")
    return lines


def page(cells: list[Cell], results: list[dict[str, Any]], command: str) -> str:
    """The whole comparison as Markdown."""
    lines = [PREFACE.format(command=command, loads="\n".join(f"- **{name}**: {words}." for name, words in LOADS.items()))]
    found = dict(zip(cells, results, strict=True))
    for network in NETWORKS:
        for load in (*LOADS, "crash"):
            mine = [cell for cell in cells if cell.network == network and cell.load == load]
            lines += ["", f"## {network}, {'recovery' if load == 'crash' else load + ' load'}", ""]
            if load == "crash":
                lines.append(f"{NETWORK_WORDS[network].capitalize()}; {CRASH_WORDS}.")
                texts = {(str(c.variant), c.members): f"{found[c]['stall']:.0f} ({found[c]['view']:.0f})" for c in mine}
                lines += _table("stall (view), ms", mine, texts)
                continue
            lines.append(f"{NETWORK_WORDS[network].capitalize()}; {LOADS[load]}.")
            texts = {}
            costs = {}
            for cell in mine:
                result = found[cell]
                place = (str(cell.variant), cell.members)
                texts[place] = f"{_short(result['mean'])} ({_short(result['p50'])}, {_short(result['p99'])})"
                costs[place] = f"{_short(result['control'])}, {result['bytes']:.0f} B"
            lines += _table("mean (p50, p99), ms", mine, texts)
            lines += _table("control records, bytes", mine, costs)
    return "\n".join(lines) + "\n"


def _short(number: float) -> str:
    """Three digits that matter, or whole."""
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:,.0f}"


def main() -> None:
    """Measure all cells, then write or print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the page here instead of printing it")
    parser.add_argument("--quick", action="store_true", help="without N = 64 and with a quarter of the messages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes that work side by side")
    parser.add_argument("--json", action="store_true", help="print the numbers of all cells as JSON")
    arguments = parser.parse_args()
    cells = cells_of(arguments.seed, arguments.quick)
    results = run_all(cells, arguments.jobs, sys.stderr.isatty())
    if arguments.json:
        print(json.dumps([{**c._asdict(), "variant": str(c.variant), **r} for c, r in zip(cells, results, strict=True)]))
        return
    flags = " --quick" if arguments.quick else ""
    command = f"python benchmarks/comparison.py --seed {arguments.seed}{flags} --out docs/comparison.md"
    text = page(cells, results, command)
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
