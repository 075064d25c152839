"""Live throughput and latency against the raw mesh: a thin caller of `isotone.runtime.bench`.

python benchmarks/live.py [--members 5] [--size 50 1024] [--order single_phase] [--repeats 5] [--slow-consumer]
python benchmarks/live.py --one-sends [--members 5] [--size 50] [--order atop causal] [--rate 20]
"""

from __future__ import annotations

import argparse
import json
import sys

from isotone.model.errors import GroupError
from isotone.runtime.bench import run_bench, run_one_sends, run_slow_consumer


def main() -> None:
    """One JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--size", type=int, nargs="+", default=[50, 1024])
    parser.add_argument("--order", nargs="+", default=["single_phase"])
    parser.add_argument("--level", default="agreed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--slow-consumer", action="store_true")
    parser.add_argument("--one-sends", action="store_true", help="one member sends, the others are silent: latency only")
    parser.add_argument("--rate", type=float, default=20.0, help="messages per second of the one that sends")
    given = parser.parse_args()
    try:
        measure(given)
    except GroupError as error:
        sys.exit(f"{parser.prog}: {error}")


def measure(given: argparse.Namespace) -> None:
    """All combinations that were asked for."""
    if given.one_sends:
        for size in given.size:
            result = run_one_sends(
                given.members, size, given.order, given.level,
                repeats=given.repeats, rate=given.rate, seconds=given.seconds or 1.5,
            )  # fmt: skip
            print(json.dumps(result), flush=True)
        return
    for order in given.order:
        for size in given.size:
            if given.slow_consumer:
                result = run_slow_consumer(given.members, size, order, given.level, seconds=given.seconds or 60.0)
            else:
                result = run_bench(given.members, size, order, given.level, repeats=given.repeats, seconds=given.seconds or 1.0)
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
