"""The streaming query behind `isotone watch`.

How it is cut: executors read, check and sort rows, file by file, and pack them into arrays (`source`, `condense`); the
driver, once per micro-batch, takes the chunks into a small state (`judge`) and makes state and verdicts final with one rename
(`checkpoint`). The part that grows with the traffic is thus spread over the cluster; what is left for the driver is
array work per process and one merge of what is not yet stable, within a limit of bytes per batch. A keyed
state inside Spark (`transformWithState`) would put the run's one merge into one task as well, since a total order has
one place where all processes meet, and would add a state store and its serialisation to every batch.

Exactly once: Spark's offset log names the input of a batch before it runs, and the state file of a batch holds everything that
follows from it. Whatever is killed in between, the batch is either run again on the same input or known to be done.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

from isotone.model.errors import ConfigError
from isotone.pipeline.stream.checkpoint import Checkpoint
from isotone.pipeline.stream.condense import Chunk, Quarantine
from isotone.pipeline.stream.files import advance, listing
from isotone.pipeline.stream.judge import Limits, State, settled, take

TRIGGER: Final = "500 milliseconds"
RETRIES_MAX: Final = 5
_SLOW_START: Final = "failed to connect back"
"""Spark gives a Python process ten seconds to come up, which on an overloaded machine may be too short."""


class Watch:
    """A query over one directory. `on_batch` is called in the query's thread, with a state that nobody else changes then."""

    def __init__(
        self,
        session: Any,
        directory: str,
        checkpoint: str,
        on_batch: Callable[[State], None],
        *,
        clock: Callable[[], float],
        limits: Limits | None = None,
    ) -> None:
        self._session = session
        self._directory = directory
        self._checkpoint = Checkpoint(checkpoint, directory)
        self._on_batch = on_batch
        self._clock = clock
        self._limits = limits or Limits()
        self._query: Any = None
        self._failure: ConfigError | None = None
        self._busy = threading.Lock()
        self._stopping = False
        self._once = False
        self._retries = 0
        self._state = self._checkpoint.load()
        for run in self._state.runs.values():  # the clock of another life means nothing here
            for follower in run.followers.values():
                follower.held_since = self._clock() if follower.held else None

    def start(self, *, once: bool = False) -> None:
        """Begin; with `once` the query ends when what is there now has been read."""
        from isotone.pipeline.stream.source import NAME, TraceSource

        self._once = once
        self._session.dataSource.register(TraceSource)
        tasks = max(1, self._session.sparkContext.defaultParallelism)
        stream = self._session.readStream.format(NAME).option("path", self._directory).option("tasks", str(tasks)).load()
        writer = stream.writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint.for_spark)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=TRIGGER)
        self._query = writer.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most about so long for the end of the query; whether it has ended. Raises what made it fail.

        A query that failed because a worker was slow to start is started again: batches are taken exactly once all the same.
        """
        try:
            return bool(self._query.awaitTermination(seconds))
        except Exception as error:
            if self._failure is not None:
                raise self._failure from None
            if _SLOW_START not in str(error) or self._retries == RETRIES_MAX:
                raise
        self._retries += 1
        self.start(once=self._once)
        return self.wait(seconds)

    def is_quiet(self) -> bool:
        """Whether all that there is has been read, as far as one can tell now."""
        status = self._query.status
        if status["isDataAvailable"] or not status["message"].startswith("Waiting"):
            return False
        progress = self._query.lastProgress
        if progress is None:
            return True
        read = msgspec.json.decode(progress["sources"][0]["endOffset"] or "null")
        return read is None or advance(self._directory, read, listing(self._directory), None, last=False) == read

    def stop(self) -> State:
        """End the query, after the batch that is under way, and say what is known: rows behind a gap are judged as they are."""
        with self._busy:
            self._stopping = True
        self._query.stop()
        return self.final()

    def final(self) -> State:
        """What would be known if nothing more came."""
        return settled(self._state, self._limits)

    @property
    def state(self) -> State:
        """What is known; it changes while the query runs."""
        return self._state

    def _take(self, frame: Any, batch: int) -> None:
        with self._busy:
            if batch <= self._state.batch:
                return  # done in a former life
            if self._stopping:
                raise RuntimeError("the watch is being stopped")  # to return would tell Spark that the batch is done
            if batch != self._state.batch + 1:
                self._failure = ConfigError(f"the checkpoint lacks the state of batch {batch - 1}: remove it and start anew")
                raise self._failure
            table = frame.toArrow()
            decode = msgspec.msgpack.decode
            given: list[Chunk | Quarantine] = [
                decode(data.as_buffer(), type=Chunk) if is_chunk else decode(data.as_buffer(), type=Quarantine)
                for is_chunk, data in zip(table["chunk"].to_pylist(), table["data"], strict=True)
            ]
            take(self._state, batch, given, self._clock(), self._limits)
            self._checkpoint.save(self._state)
            self._on_batch(self._state)
