"""A live trace: the endpoint's recorder, drained into a writer off the event loop's thread.

Whoever watches the directory sees what happened within about a second: a Parquet file is finished a second after the first
row worth reading, also if the group falls silent then.

Invariants: one write is under way at a time, so rows stay in order; what the recorder holds is bounded, because a
writer that cannot keep up counts as a slow consumer (`overloaded`) and holds the group's senders back; a disk that refuses
ends the trace with one line, never the group.
"""

from __future__ import annotations

import asyncio
import importlib.util
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from isotone.model.errors import TraceFormatError
from isotone.model.ids import ProcessId
from isotone.runtime.logs import logger
from isotone.trace.recorder import Taken, TraceRecorder
from isotone.trace.writer import Form, TraceWriter, open_writer

_INTERVAL_S = 0.2
_ROTATE_NS = 1_000_000_000
_IDLE_TICKS = 5
_EVENTS_WRITE = 256
_EVENTS_MAX = 1024


def host_clock() -> str:
    """A name for this host's monotonic clock: times of processes that give the same one can be compared."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = f"{uuid.getnode():x}"
    return f"monotonic:{boot}"


class _Handed(TraceRecorder):
    """Events that were taken in the event loop's thread, for a writer that runs in another one."""

    __slots__ = ("_taken",)

    def __init__(self, taken: Taken) -> None:
        super().__init__(taken.process, taken.run)
        self._taken = taken

    def take(self) -> Taken:
        return self._taken


class LiveTrace:
    """Recorder and writer of one process."""

    def __init__(self, directory: str | Path, process: ProcessId, form: Form | None = None) -> None:
        if form is None:
            form = "parquet" if importlib.util.find_spec("pyarrow") else "jsonl"
        self.recorder = TraceRecorder(process, clock=host_clock())
        self._directory = Path(directory)
        self._writer: TraceWriter | None = open_writer(self._directory, process, form, rotate_ns=_ROTATE_NS)
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle_ticks = 0
        self._news = False
        """Whether something other than control records was written since the last pause."""

    def start(self) -> None:
        """Begin to drain from time to time."""
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._tick)

    def turn(self) -> None:
        """After a turn of the driver: write if much has gathered."""
        if len(self.recorder) >= _EVENTS_WRITE and self._writing is None:
            self._write()

    @property
    def overloaded(self) -> bool:
        """Whether the writer cannot keep up."""
        return len(self.recorder) > _EVENTS_MAX

    async def close(self) -> None:
        """Write the rest."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await self._writing
        if len(self.recorder):
            self._write()
            if self._writing is not None:
                await self._writing
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(None, writer.close)
            except TraceFormatError as error:
                logger.error("trace %s is incomplete: %s", self._directory, error)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._tick)
        if self._writing is not None:
            return
        if len(self.recorder):
            self._idle_ticks = 0
            self._write()
        else:
            self._idle_ticks += 1
            if self._news and self._idle_ticks >= _IDLE_TICKS and self._writer is not None:
                self._news = False
                self._begin(self._writer.rotate)

    def _write(self) -> None:
        taken = self.recorder.take()
        self._news = self._news or any(event[0] != "packet" for event in taken.events)
        if self._writer is not None:
            self._begin(partial(self._writer.write_recorder, _Handed(taken)))

    def _begin(self, action: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._writing = loop.create_task(self._written(loop.run_in_executor(None, action)))

    async def _written(self, future: asyncio.Future[None]) -> None:
        try:
            await future
        except TraceFormatError as error:
            logger.error("trace %s ends here: %s", self._directory, error)
            self._writer = None
        finally:
            self._writing = None
