"""`isotone report`: recorded histories and what the checks make of them, as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isotone.cli.verify import STATUS, Master, Traces

if TYPE_CHECKING:
    from isotone.pipeline.scan import Outcome
    from isotone.report import Chosen, Material


def report(
    traces: Traces,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    conflicts: Annotated[Path | None, typer.Option(help="A conflict relation in TOML, for the semantic checks.")] = None,
    master: Master = None,
    around: Annotated[str, typer.Option(help="PROCESS:STEP, for example a#1:120: show this part too.")] = "",
    span: Annotated[str, typer.Option("--range", help="START:END in seconds since the run's start: show this part too.")] = "",
) -> int:
    """Write a report: verdicts, figures and space-time diagrams in one file. Exit status as of verify."""
    from isotone.cli.progress import spark_progress
    from isotone.cli.verify import check

    chosen = parse_chosen(around, span)
    with place_for(out) as part:
        with spark_progress("verifying"):
            outcome = check(traces, (), conflicts, master)
        with spark_progress("drawing the report"):
            write_report(part, f"Isotone report: {_names(traces)}", traces, outcome, chosen)
    found = outcome.report
    print(f"{found.verdict}: {len(found.checks)} checks over {found.events:,} events; report written to {out}")
    return STATUS[found.verdict]


def _names(traces: list[str]) -> str:
    return ", ".join(trace.rstrip("/").rpartition("/")[2] or trace for trace in traces)


def write_report(path: Path, title: str, traces: list[str], outcome: Outcome, chosen: Chosen | None = None) -> Material:
    """Write the page about traces that were just checked, and say what is on it; the session that checked them is used again."""
    from isotone.model.errors import ConfigError
    from isotone.pipeline.session import open_session
    from isotone.report import gather, render_report

    material = gather(open_session(), traces, outcome.report, chosen)
    page = render_report(material, outcome.report, title)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the report: {error.strerror or error}") from None
    return material


@contextmanager
def place_for(out: Path) -> Iterator[Path]:
    """A file beside `out` that becomes `out` if all goes well; that it cannot be written is said before the long work."""
    from isotone.model.errors import ConfigError

    if out.is_dir():
        raise ConfigError(f"cannot write the report {out}: it is a directory; name a file")
    if out.exists() and not out.is_file():  # a device or a pipe is not replaced
        yield out
        return
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    except OSError as error:
        raise ConfigError(f"cannot write the report {out}: {error.strerror or error}") from None
    try:
        yield part
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def parse_chosen(around: str, span: str) -> Chosen:
    """What the user wants to see besides the violations."""
    from isotone.report import Chosen

    return Chosen(parse_around(around) if around else None, parse_span(span) if span else None)


def parse_around(text: str) -> tuple[str, int]:
    """`PROCESS:STEP`."""
    from isotone.model.errors import ConfigError

    process, _, step = text.rpartition(":")
    try:
        return process, int(step)
    except ValueError:
        raise ConfigError(f"--around {text}: give PROCESS:STEP, for example a#1:120") from None


def parse_span(text: str) -> tuple[int, int]:
    """`START:END` in seconds as nanoseconds."""
    from isotone.model.errors import ConfigError

    start, _, end = text.partition(":")
    try:
        span = int(float(start) * 1e9), int(float(end) * 1e9)
    except (ValueError, OverflowError):
        raise ConfigError(f"--range {text}: give START:END in seconds, for example 2.5:3") from None
    if span[0] >= span[1]:
        raise ConfigError(f"--range {text}: the end must be later than the start")
    return span
