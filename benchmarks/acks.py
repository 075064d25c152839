"""Acknowledgements of `single_phase` by multicast and gathered, in a network of point-to-point links, over load and size.

    python benchmarks/acks.py [--members 3 5 8 16 32] [--seed 1] [--json]

Simulated, without faults; every link has a delay of D = 1 ms, so latencies are in units of D. `printed` is Protocol 2 as
the paper has it (`idle = "silent"`), `multicast` the default, which lets idle members catch up later, `gathered` the
scheme of `ordering/gathering.py`. An acknowledgement counts once per receiver.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cells import Network, Phase, Variant, even, measure, one, rare, scenario
from rich.progress import track

SCHEMES = {
    "printed": Variant("single_phase", (("idle", "silent"),)),
    "multicast": Variant("single_phase"),
    "gathered": Variant("single_phase", (("acks", "gathered"),)),
}
NETWORK = Network({"kind": "constant", "ms": 1.0})


def loads(members: int) -> dict[str, list[Phase]]:
    """From one sender rarely to all busily."""
    return {
        "one member, 5 a second": one(members // 2, 5, 40),
        "one member, 500 a second": one(members // 2, 500, 300),
        "all in turn, 10 a second": rare(members, 100, 40),
        "all, 100 a second together": even(members, 100, 200),
        "all, 1,000 a second together": even(members, 1_000, 400),
        "all, 200 a second each": even(members, 200 * members, 100 * members),
    }


def table(sizes: list[int], seed: int, show: bool) -> list[dict[str, Any]]:
    """One row per load, number of members and scheme."""
    cells = [(load, members, scheme) for load in loads(3) for members in sizes for scheme in SCHEMES]
    return [
        {
            "load": load,
            "members": members,
            "scheme": scheme,
            **measure(scenario(SCHEMES[scheme], members, NETWORK, loads(members)[load], seed=seed)),
        }
        for load, members, scheme in track(cells, "measuring", disable=not show, transient=True)
    ]


def lines(rows: list[dict[str, Any]], sizes: list[int]) -> list[str]:
    """A Markdown table for people: one line per load and scheme, one column per size."""
    found = {(row["load"], row["scheme"], row["members"]): row for row in rows}
    result = [
        "| load | acknowledgements | " + " | ".join(f"N = {members}" for members in sizes) + " |",
        "| --- " * (2 + len(sizes)) + "|",
    ]
    for load in loads(3):
        for scheme in SCHEMES:
            cells = [found[load, scheme, members] for members in sizes]
            texts = [f"{cell['control']:.1f} · {cell['p50']:.1f} / {cell['p99']:.1f}" for cell in cells]
            result.append(f"| {load if scheme == 'printed' else ''} | {scheme} | " + " | ".join(texts) + " |")
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, nargs="+", default=[3, 5, 8, 16, 32])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = table(arguments.members, arguments.seed, sys.stderr.isatty())
    if arguments.json:
        print(json.dumps(rows))
        return
    print("acknowledgements (one per receiver) per message · latency p50 / p99 in units of the delay D\n")
    print("\n".join(lines(rows, arguments.members)))


if __name__ == "__main__":
    main()
