"""The application's state in a live group: `snapshot` and `restore` are called at exact places of the stream of events.

The state of an application is what it has made of the events that it has taken, not of those that wait for it. So the request for
a snapshot travels in the stream, and is answered when the iteration reaches it: everything before it has been handled, nothing
after it. Invariants: an error in `snapshot` is logged and told to who asked, it harms nobody; one in `restore` reaches the
iteration, and the state is handed over again when the iteration goes on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from isotone.model.events import SnapshotWanted, StateReceived
from isotone.model.ids import ViewId
from isotone.runtime.logs import logger
from isotone.runtime.outgoing import as_bytes


class Stateful(Protocol):
    """An application's state, as `join(state=…)` takes it."""

    def snapshot(self) -> bytes | Awaitable[bytes]:
        """The state as it is now, as bytes.

        What returns an awaitable must have copied the state before: it is awaited in the background while deliveries go on.
        """

    def restore(self, data: bytes) -> Awaitable[None] | None:
        """Replace the state by that of a snapshot; deliveries wait until it is done."""


Provide = Callable[[ViewId, bytes | None, str], None]


class Keeper:
    """Calls the application's `snapshot` and `restore`."""

    def __init__(self, state: Stateful, provide: Provide) -> None:
        self._state = state
        self._provide = provide
        self._tasks: set[asyncio.Task[None]] = set()

    def snapshot(self, wanted: SnapshotWanted) -> None:
        """The iteration has come to the place at which the state is wanted."""
        try:
            result = self._state.snapshot()
        except Exception as error:
            self._failed(wanted, error)
            return
        if inspect.isawaitable(result):
            task = asyncio.get_running_loop().create_task(self._later(wanted, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(wanted, result)

    async def _later(self, wanted: SnapshotWanted, result: Awaitable[Any]) -> None:
        try:
            data = await result
        except Exception as error:
            self._failed(wanted, error)
            return
        self._answer(wanted, data)

    def _answer(self, wanted: SnapshotWanted, data: object) -> None:
        try:
            given = as_bytes(data)
        except Exception as error:
            self._failed(wanted, error)
            return
        self._provide(wanted.view.id, given, "")

    def _failed(self, wanted: SnapshotWanted, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        logger.warning("snapshot of the state at the beginning of view %s failed: %s", wanted.view.id, text)
        self._provide(wanted.view.id, None, f"snapshot failed: {text}")

    async def restore(self, received: StateReceived) -> None:
        """The iteration has come to the place at which the state replaces the application's."""
        result = self._state.restore(received.data)
        if inspect.isawaitable(result):
            await result

    def close(self) -> None:
        """Nobody needs snapshots any more."""
        for task in self._tasks:
            task.cancel()
