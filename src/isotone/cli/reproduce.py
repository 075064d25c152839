"""`isotone reproduce`: the experiments of the papers, run again and judged, as one HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotone.cli.verify import STATUS, Master


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="atop, token, semantic, single-phase, switching or all: docs/papers.md says which is which.")
    ] = "all",
    out: Annotated[
        Path, typer.Option(help="Directory of the report and of the runs; what is finished there is not run again.")
    ] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter runs: a first look in a minute or two.")] = False,
    live: Annotated[
        bool | None, typer.Option("--live/--no-live", help="Live processes too; default: yes, but not with --quick.")
    ] = None,
    master: Master = None,
) -> int:
    """Run the papers' experiments: exit status 0 all runs are right, 1 some run is not, 2 bad input, 3 unknown or failed."""
    from isotone.cli.progress import bar
    from isotone.reproduce.run import chosen
    from isotone.reproduce.run import reproduce as run

    parts = chosen(paper)
    with bar() as progress:
        found = run(parts, out, quick=quick, live=not quick if live is None else live, master=master, progress=progress)
    last = ""
    for part, claim in found.claims:
        if part != last:
            print(f"{part}:")
            last = part
        print(f"  {'holds        ' if claim.holds else 'does not hold'}  {claim.says} [{claim.ours}]")
    checked = found.verified
    for text in (*checked.violated, *checked.failed)[:5]:
        print(f"  {text}")
    held = sum(claim.holds for _, claim in found.claims)
    print(f"{held} of {len(found.claims)} claims hold")
    print(
        f"{checked.verdict}: {checked.runs:,} runs ({found.ran:,} now), {checked.events:,} events checked, {found.seconds:.0f} s"
    )
    print(f"report: {found.report}")
    return STATUS[checked.verdict]
