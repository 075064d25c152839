"""The experiment that the table of `order = "auto"` is learned from: its axes, and how long each load lasts.

    python benchmarks/policy_grid.py --out experiments/policy.toml

A cell needs enough losses to say something about loss, and larger groups lose more at once: the loads of small groups last
longer, and all of them last three times as long where packets get lost. One member sends a share of the messages, all others
evenly the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

from cells import member

RATES: Final = (2, 15, 120, 1_000)
"""Messages a second of the whole group."""
SECONDS: Final = {3: (100, 24, 5, 1), 5: (60, 16, 3, 0.7), 9: (30, 8, 1.6, 0.4), 16: (10, 2.5, 0.6, 0.3)}
"""By group size: how long the load of each rate lasts where nothing is lost."""
LONGER: Final = 3
"""With loss it lasts so many times as long: what loss adds is made by few mishaps."""
SKEWS: Final = (0, 0.5, 0.8, 1)
"""How far the busiest member is on the way from an even share to all."""
DELAYS_MS: Final = (0.5, 6, 22, 80)
LOSSES: Final = (0, 0.02)
ORDERS: Final = ("all_ack", "atop", "sequencer", "single_phase", "token", "two_phase")
LAST: Final = ("all_ack", "single_phase")
"""These favour the first member: here the busiest is the last one."""
START_MS: Final = 4_000
REST_MS: Final = 4_000

HEAD = """\
# Which orderer is best where: the table of order = "auto" (docs/policy.md) is learned from this sweep, {cells:,} cells.
#   isotone sweep experiments/policy.toml --out results/policy
#   isotone learn results/policy --cells experiments/policy.csv --out src/isotone/protocol/switching/table.json
# Made by `python benchmarks/policy_grid.py --out experiments/policy.toml`, which has the axes: group size × who sends (one table
# of the grid each) × messages a second of the whole group × delay ± 25 % × loss × orderer. In `sequencer` the busiest member is
# the first one, which numbers: where the policy chooses that order, it names the busiest. In `all_ack` and `single_phase`,
# which favour the first member, it is the last.
description = "Mean latency of all total orders over group size, load, skew, delay and loss"
seeds = 1
checks = []
metrics = []
measures = ["latency:mean"]

[scenario]
members = ["n00", "n01", "n02"]
duration_ms = {duration_ms}
[scenario.timing] # heartbeats are rare, for they are most of what there is to simulate in an idle group
heartbeat_ms = 5_000
soft_ms = 25_000
hard_ms = 50_000
retransmit_ms = 300
"""


def names(ranks: list[int]) -> str:
    """The names of members in TOML."""
    return "[" + ", ".join(f'"{member(rank)}"' for rank in ranks) + "]"


def load(members: int, skew: float, busiest: int, rate: int, seconds: float) -> str:
    """One workload."""
    most = 1 / members + skew * (1 - 1 / members)
    others = [rank for rank in range(members) if rank != busiest]
    parts = [([busiest], most)] + ([(others, (1 - most) / len(others))] if skew < 1 else [])
    phases = [
        f'{{ kind = "poisson", members = {names(ranks)}, start_ms = {START_MS}, '
        f"stop_ms = {START_MS + 1_000 * seconds:g}, interval_ms = {1_000 / (rate * share):g} }}"
        for ranks, share in parts
    ]
    return "[" + ", ".join(phases) + "]"


def duration_ms(members: int, longer: int = 1) -> int:
    """How long the runs of a group take, with time for what is still under way."""
    return round(START_MS + 1_000 * longer * max(SECONDS[members]) + REST_MS)


def tables() -> Iterator[str]:
    """The tables of the grid."""
    latencies = ", ".join(f'{{ kind = "uniform", min_ms = {0.75 * ms:g}, max_ms = {1.25 * ms:g} }}' for ms in DELAYS_MS)
    for (members, lengths), skew, loss in product(SECONDS.items(), SKEWS, LOSSES):
        longer = LONGER if loss else 1
        share = 1 / members + skew * (1 - 1 / members)
        first = [order for order in ORDERS if not skew or order not in LAST]
        for orders, busiest in ((first, 0), *([(list(LAST), members - 1)] if skew else [])):
            who = f"{member(busiest)} sends {share:.0%}" if skew else "all send alike"
            yield "\n".join(
                [
                    f"[[grid]] # {members} members, {who}, loss {loss:g}",
                    "order = [" + ", ".join(f'"{order}"' for order in orders) + "]",
                    f"members = [{names(list(range(members)))}]",
                    f"duration_ms = [{duration_ms(members, longer)}]",
                    "workload = [",
                    *(
                        f"  {load(members, skew, busiest, rate, longer * seconds)},"
                        for rate, seconds in zip(RATES, lengths, strict=True)
                    ),
                    "]",
                    f"network.latency = [{latencies}]",
                    f"network.loss = [{float(loss)}]",
                ]
            )


def experiment() -> str:
    """The whole file."""
    cells = len(SECONDS) * len(SKEWS) * len(RATES) * len(DELAYS_MS) * len(LOSSES) * len(ORDERS)
    head = HEAD.format(cells=cells, duration_ms=duration_ms(3))
    return "\n\n".join([head.rstrip("\n"), *tables()]) + "\n"


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.parse_args().out.write_text(experiment(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
