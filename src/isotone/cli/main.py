"""The `isotone` command: one file per subcommand, heavy imports inside them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from isotone.cli import bench, demo, learn, metrics, node, probe, report, reproduce, simulate, sweep, verify, watch
from isotone.model.errors import GroupError

BAD_INPUT = 2

app = typer.Typer(
    name="isotone",
    help="Totally ordered group communication: run it, simulate it, verify it.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("node")(node.node)
app.command("probe")(probe.probe)
app.command("simulate")(simulate.simulate)
app.command("verify")(verify.verify)
app.command("metrics")(metrics.metrics)
app.command("report")(report.report)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("learn")(learn.learn)
app.command("watch")(watch.watch)
app.command("bench")(bench.bench)


def _keep_standard_files() -> None:
    """A closed standard file would give its number to a socket."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _not_an_interrupted_call(record: logging.LogRecord) -> bool:
    """py4j logs a traceback when Ctrl-C comes in the middle of a call to Spark; one line of our own says it."""
    return "while sending command" not in str(record.msg)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its status."""
    _keep_standard_files()
    logging.getLogger().addFilter(_not_an_interrupted_call)
    try:
        status = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except TyperException as error:
        text = error.format_message()
        print(text if text.startswith("Usage:") else f"isotone: {text}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except GroupError as error:
        print(f"isotone: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        print(f"isotone: {named}{error.strerror or error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        print("isotone: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)
