"""How far long work is, on a terminal and not in a pipe: a bar of the parts that are done, or what Spark is doing."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_S = 0.2


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar, moved by what is called with what is being done, how many parts are done, and of how many (0: not known yet)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total or None)


@contextmanager
def spark_progress(doing: str) -> Iterator[None]:
    """Show what is done and how far Spark's tasks are while the body runs."""
    from rich.console import Console

    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    # While Spark starts, the process's standard error is its log file; the terminal stays reachable through a copy.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal, Console(file=terminal).status(f"{doing}: Spark starts") as line:

        def tick() -> None:
            while not done.wait(TICK_S):
                line.update(f"{doing}{_tasks()}")

        watcher = threading.Thread(target=tick, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _tasks() -> str:
    """How many tasks of the running stages are finished."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return ": Spark starts"
    try:
        tracker = context.statusTracker()
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    except (Py4JError, OSError):  # the session ends at this moment
        return ""
    return f": {sum(s.numCompletedTasks for s in stages)} of {sum(s.numTasks for s in stages)} tasks" if stages else ""
