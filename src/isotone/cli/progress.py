"""What Spark is doing, as one moving line on a terminal; nothing in a pipe."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TICK_S = 0.2


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
