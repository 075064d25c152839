"""`isotone bench`: throughput and latency of a group of processes on this machine, beside a plain TCP mesh in the same run."""

from __future__ import annotations

from typing import Annotated

import typer


def bench(
    members: Annotated[int, typer.Option(help="Number of processes, 2 to 64.")] = 5,
    size: Annotated[int, typer.Option(help="Average size of a message in bytes, 16 to 524288.")] = 50,
    order: Annotated[str, typer.Option(help="The orderer.")] = "single_phase",
    level: Annotated[str, typer.Option(help="agreed, k (2 members) or safe.")] = "agreed",
    seconds: Annotated[float, typer.Option(min=0.2, max=60, help="Length of each measurement.")] = 1.0,
    repeats: Annotated[int, typer.Option(min=1, max=20, help="Measurements of each kind; the median is reported.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Measure a group on loopback against a plain TCP mesh without order."""
    import json

    from isotone.runtime.bench import run_bench

    result = run_bench(members, size, order, level, k=2 if level == "k" else 1, seconds=seconds, repeats=repeats)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f"  {key}: {value}")
    return 0 if result["identical"] else 1
