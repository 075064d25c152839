"""Runs the parts: a sweep for each, live processes where a part has them, and one page about all.

The directory has `report.html`, `results.json` (all claims with their numbers), `figures` (the plots as SVG), and a directory per
part with its sweep: what is finished there is not run again.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from isotone.model.errors import ConfigError, GroupError, unknown
from isotone.pipeline.session import open_session
from isotone.pipeline.sweeps.experiment import Experiment, parse_experiment
from isotone.pipeline.sweeps.run import sweep
from isotone.reproduce import atop, atop_live, measures, semantic, single_phase, switching, switching_live, token
from isotone.reproduce.figures import standalone
from isotone.reproduce.live import LiveRun, measure_live
from isotone.reproduce.page import render
from isotone.reproduce.parts import Claim, Paper, Part, Results, Section, Verified, identity

PARTS: Final = {part.name: part for part in (atop.PART, token.PART, semantic.PART, single_phase.PART, switching.PART)}
"""Whatever is here is what `isotone reproduce` knows; `all` is all of it."""
LIVE: Final[dict[str, Callable[[bool], list[list[LiveRun]]]]] = {
    atop.PART.name: atop_live.live_runs,
    switching.PART.name: switching_live.live_runs,
}
"""What also runs on live processes: batches of runs, of `quick`."""
ALL: Final = "all"
CELL_TIMEOUT_S: Final = 900

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is finished, and how much there is."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came out."""

    verified: Verified
    claims: Sequence[tuple[str, Claim]]
    """With the name of the part."""
    report: Path
    ran: int
    """Cells that were run now."""
    seconds: float


def chosen(name: str) -> list[Part]:
    """The parts that a name stands for."""
    if name == ALL:
        return list(PARTS.values())
    if name not in PARTS:
        raise unknown("paper", name, [*PARTS, ALL])
    return [PARTS[name]]


def experiment_of(part: Part, points: Mapping[str, Mapping[str, Any]], seeds: int) -> Experiment:
    """The sweep of a part."""
    grid = [{key: [value] for key, value in parameters.items()} for parameters in points.values()]
    names = [measures.name_of(measure) for measure in part.measures]
    return parse_experiment(
        {
            "scenario": dict(part.scenario),
            "grid": grid,
            "seeds": seeds,
            "metrics": [],
            "measures": names,
            "timeout_s": CELL_TIMEOUT_S,
        }
    )


def reproduce(
    parts: Sequence[Part],
    out: Path,
    *,
    quick: bool = False,
    live: bool = True,
    master: str | None = None,
    session: Any = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run what is not finished, and write the report."""
    show = progress or (lambda _what, _done, _all: None)
    began = time.monotonic()
    _prepare(out)
    plans = [(part, points, experiment_of(part, points, part.seeds(quick))) for part in parts for points in [part.points(quick)]]
    show("starting Spark", 0, 0)
    spark = session if session is not None else open_session(master)
    total, ran = Verified(), 0
    pages: list[tuple[str, Paper, Sequence[Section], Verified]] = []
    for part, points, experiment in plans:
        result = sweep(experiment, out / part.name, session=spark, progress=partial(show, part.name))
        ran += result.ran
        rows = _rows(experiment, result.table)
        verified = _verified(rows)
        computed = part.compute(out / part.name, quick, spark, partial(show, f"{part.name}, computing")) if part.compute else None
        results = Results(points, rows, computed)
        if not results.complete():
            raise GroupError(f"{part.name}: runs failed, the first so: {(verified.failed or ['no row'])[0]}")
        measured: Results | None = None
        if live and part.name in LIVE:
            batches = LIVE[part.name](quick)
            measured, checked = measure_live(batches, out / part.name, spark, partial(show, f"{part.name}, live"))
            verified.add(checked)
        sections = part.sections(results, quick, measured)
        pages.append((part.name, part.paper, sections, verified))
        total.add(verified)
    seconds = time.monotonic() - began
    claims = [(name, claim) for name, _, sections, _ in pages for section in sections for claim in section.claims]
    report = out / "report.html"
    _write(report, render(pages, total, quick, seconds))
    _draw(out / "figures", pages)
    _write(out / "results.json", json.dumps(_told(pages, total, quick), indent=2) + "\n")
    return Reproduction(total, claims, report, ran, seconds)


def _draw(place: Path, pages: Sequence[tuple[str, Paper, Sequence[Section], Verified]]) -> None:
    """Every plot as a file, named by its address in the report."""
    place.mkdir(exist_ok=True)
    for name, _, sections, _ in pages:
        for index, section in enumerate(sections):
            images = [image for figure in section.figures for image in standalone(figure)]
            for number, image in enumerate(images, start=1):
                _write(place / f"{name}-{index}-{number}.svg", image)


def _prepare(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(out / "report.html", (out / "report.html").read_text(encoding="utf-8") if (out / "report.html").exists() else "")
    except OSError as error:
        raise ConfigError(f"cannot write to {out}: {error.strerror or error}") from None


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None


def _rows(experiment: Experiment, table: Any) -> list[dict[str, Any]]:
    point = {cell.id: identity(cell.parameters) for cell in experiment.cells}
    return [{**row, "point": point[row["cell"]]} for row in table.to_pylist()]


def _verified(rows: Sequence[Mapping[str, Any]]) -> Verified:
    found = Verified()
    for row in rows:
        found.runs += 1
        found.events += row["events"]
        if row["error"] is not None:
            found.failed.append(f"{row['error']} — {row['replay']}")
        elif row["verdict"] == "violated":
            found.violated.append(f"{row['witness']} — {row['replay']}")
        elif row["verdict"] != "ok":
            found.undecided += 1
    return found


def _told(pages: Sequence[tuple[str, Paper, Sequence[Section], Verified]], total: Verified, quick: bool) -> dict[str, Any]:
    parts = []
    for name, paper, sections, verified in pages:
        claims = [
            {"figure": section.title, "place": section.place, "claim": claim.says, "paper": claim.paper, "ours": claim.ours,
             "criterion": claim.criterion, "holds": claim.holds, "why": "" if claim.holds else claim.why}
            for section in sections
            for claim in section.claims
        ]  # fmt: skip
        part = {"part": name, "paper": paper.title, "runs": verified.runs, "events": verified.events}
        parts.append({**part, "verdict": verified.verdict, "claims": claims})
    return {"quick": quick, "runs": total.runs, "events": total.events, "verdict": total.verdict, "parts": parts}
