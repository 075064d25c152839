"""`isotone watch`: running verdicts over the trace that a live group is writing, with Spark Structured Streaming."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import threading

    from isotone.cli.watch_output import Output
    from isotone.pipeline.stream.judge import State

STATUS = {"ok": 0, "violated": 1, "unknown": 3}
POLL_S = 0.2


def watch(
    directory: Annotated[str, typer.Argument(help="The directory a trace is being written to (or its URI).")],
    checkpoint: Annotated[str, typer.Option(help="Where the watch remembers how far it is; default: DIR/.watch.")] = "",
    master: Annotated[str, typer.Option(help="Spark master; default: this machine.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per change and per summary.")] = False,
    until_idle: Annotated[float, typer.Option(help="End after so many seconds without a new row; 0: never.")] = 0.0,
    once: Annotated[bool, typer.Option("--once", help="Judge what is there now, and end.")] = False,
) -> int:
    """Watch a trace that grows; exit status when it ends: 0 ok, 1 violated, 2 bad input, 3 unknown."""
    from isotone.cli.watch_output import open_output
    from isotone.model.errors import ConfigError
    from isotone.pipeline.plan import filesystem
    from isotone.pipeline.session import open_session

    if once and until_idle:
        raise ConfigError("--once and --until-idle exclude each other")
    if "://" in directory and not checkpoint:
        raise ConfigError(f"{directory} is a URI: say with --checkpoint where the watch may remember how far it is")
    where = directory if "://" in directory else filesystem(directory)[1]
    output = open_output(as_json)
    if not _await_directory(where, once, until_idle, output):
        return STATUS["unknown"]
    return _run(open_session(master or None), where, checkpoint or f"{where}/.watch", once, until_idle, output)


def _await_directory(where: str, once: bool, until_idle: float, output: Output) -> bool:
    """Wait until the directory is there; False if that took too long or was interrupted."""
    import time

    from pyarrow import fs

    from isotone.model.errors import TraceFormatError
    from isotone.pipeline.plan import filesystem

    files, root = filesystem(where)
    began = time.monotonic()
    said = False
    while True:
        kind = files.get_file_info(root).type
        if kind == fs.FileType.Directory:
            return True
        if kind == fs.FileType.File:
            raise TraceFormatError(f"{where} is a file: watch needs the directory a trace is written to")
        if once:
            raise TraceFormatError(f"no trace at {where}: there is no such directory")
        if not said:
            said = True
            output.note(f"waiting for {where}")
        if until_idle and time.monotonic() - began > until_idle:
            return False
        try:
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            return False


def _run(session: object, where: str, checkpoint: str, once: bool, until_idle: float, output: Output) -> int:
    import queue
    import time

    from isotone.pipeline.session import spark_errors
    from isotone.pipeline.stream.judge import Standing, overall, summary
    from isotone.pipeline.stream.query import Watch

    news: queue.SimpleQueue[tuple[list[Standing], dict[str, object]]] = queue.SimpleQueue()

    def on_batch(state: State) -> None:
        news.put((list(state.changes), summary(state)))

    with spark_errors(session), _terminable() as interrupted:
        watching = Watch(session, where, checkpoint, on_batch, clock=time.monotonic)
        resumed = watching.state.batch >= 0
        output.begin(where, summary(watching.state) if resumed else None)
        watching.start(once=once)
        quiet_since: float | None = None
        with output:
            while True:
                ended = watching.wait(POLL_S)
                while not news.empty():
                    quiet_since = None
                    changes, told = news.get()
                    for standing in changes:
                        output.change(standing)
                    output.summary(told)
                if ended or interrupted.is_set():
                    break
                output.tick()
                if until_idle and quiet_since is None and watching.is_quiet():
                    quiet_since = time.monotonic()
                if quiet_since is not None and time.monotonic() - quiet_since > until_idle:
                    if watching.is_quiet():
                        break
                    quiet_since = None
        final = watching.stop()
    output.end(summary(final))
    return STATUS[overall(final)]


@contextmanager
def _terminable() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM ask for the end; an exception in the middle of a call to Spark would break its connection."""
    import signal
    import threading

    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
