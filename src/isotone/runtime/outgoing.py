"""From the application to the endpoint: a small buffer in front of `submit`, and the wait for an open window.

A message is accepted when it is in the buffer; the buffer goes to the endpoint at the end of the turn, or when it is full, as one
batch. Invariants: messages reach the endpoint in the order they were accepted, each once; what the endpoint does not
take stays here, and until it is taken nothing more is accepted, so the buffer is bounded by its size and one payload.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from isotone.model.columns import copied
from isotone.model.conflicts import Conflicts
from isotone.model.errors import Blocked, Closed, LocalProtocolError

_BUFFER_BYTES = 64 * 1024
_MESSAGE_BYTES = 16

Types = Sequence[str | None] | None
Items = Sequence[Sequence[str] | None] | None


class Submitter(Protocol):
    """The part of an endpoint that takes messages."""

    def submit(self, payloads: Sequence[bytes], now: int, types: Types = None, items: Items = None) -> int: ...
    def writable(self) -> bool: ...


def as_bytes(payload: object) -> bytes:
    """A payload that nobody can change any more."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise LocalProtocolError(f"a payload must be bytes, not {type(payload).__name__}")


class Outgoing:
    """See the module. `schedule` asks the driver for a turn; `conflicts` is the relation that messages have to fit."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Submitter,
        payload_bytes: int,
        schedule: Callable[[], None],
        conflicts: Conflicts | None = None,
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._payload_bytes = payload_bytes
        self._schedule = schedule
        self._conflicts = conflicts
        self._types_known = conflicts.table if conflicts is not None and conflicts.by == "operation" else {}  # they say it all
        self.buffer: list[bytes] = []
        """What the endpoint has not taken yet."""
        self.unsure = True
        """Whether `refresh` may find the window other than it was."""
        self._types: list[str | None] | None = None
        self._items: list[Sequence[str] | None] | None = None
        self._room = _BUFFER_BYTES
        self._open = True
        self._error: BaseException | None = None
        self._blocked: str | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()

    # --- the application's side ------------------------------------------------------------------------------------

    def try_send(self, payload: bytes, type: str | None = None, items: Sequence[str] | None = None) -> bool:
        """Accept one message, if the window is open."""
        if not self._open:
            self._raise_if_closed()
            return False
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > self._payload_bytes:
            raise self._too_long(size)
        if type is not None or items is not None:  # here, since the caller is not there any more when the buffer is handed on
            items = copied(type, items)
        if self._conflicts is not None and type not in self._types_known:
            self._conflicts.validate(type, items)
        buffer = self.buffer
        buffer.append(payload)
        if type is not None or items is not None or self._types is not None:
            self._annotate(1, (type,), (items,))
        self._room -= size + _MESSAGE_BYTES
        if self._room <= 0:
            self.flush(time.monotonic_ns())
        elif len(buffer) == 1:
            self._schedule()
        return True

    def try_send_many(self, payloads: Sequence[bytes], types: Types = None, items: Items = None) -> int:
        """Accept as many messages as the window admits, from the first; returns how many.

        The endpoint checks lengths and columns, and takes nothing if something is wrong with them.
        """
        self._raise_if_closed()
        if not payloads:
            return 0
        if set(map(type, payloads)) != {bytes}:
            payloads = list(map(as_bytes, payloads))
        now = time.monotonic_ns()
        self.flush(now)
        if not self._open:
            return 0
        self.unsure = True
        accepted = self._endpoint.submit(payloads, now, types, items)
        if accepted < len(payloads):
            # The first that was not taken is kept here: when it is gone, there is room again.
            self.buffer.append(payloads[accepted])
            if types is not None or items is not None:
                self._annotate(1, types and types[accepted : accepted + 1], items and items[accepted : accepted + 1])
            self._open = False
            accepted += 1
        self._schedule()
        return accepted

    async def drain(self) -> None:
        """Wait until the window is open; the waiting ones get their turns in order."""
        while not self._open:
            self._raise_if_closed()
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        self._raise_if_closed()
        self._wake_next()

    async def send(self, payload: bytes, type: str | None = None, items: Sequence[str] | None = None) -> None:
        """Accept one message, waiting for the window if need be."""
        while not self.try_send(payload, type, items):
            await self.drain()

    async def send_many(self, payloads: Sequence[bytes], types: Types = None, items: Items = None) -> None:
        """Accept many messages, waiting for the window as often as need be."""
        while True:
            accepted = self.try_send_many(payloads, types, items)
            if accepted == len(payloads):
                return
            payloads = payloads[accepted:]
            types = None if types is None else types[accepted:]
            items = None if items is None else items[accepted:]
            await self.drain()

    # --- the driver's side -----------------------------------------------------------------------------------------

    def flush(self, now: int) -> None:
        """Hand the buffer to the endpoint."""
        buffer = self.buffer
        if not buffer or self._error is not None or self._blocked is not None:
            return
        self.unsure = True
        accepted = self._endpoint.submit(buffer, now, self._types, self._items)
        if accepted == len(buffer):
            self.buffer, self._types, self._items = [], None, None
            self._room = _BUFFER_BYTES
            return
        self._open = False
        self.buffer = buffer[accepted:]
        if self._types is not None and self._items is not None:
            self._types, self._items = self._types[accepted:], self._items[accepted:]

    def refresh(self) -> None:
        """After a turn: is the window open now?"""
        self._open = self._error is None and self._blocked is None and not self.buffer and self._endpoint.writable()
        self.unsure = not self._open
        if self._open and self._waiters:
            self._wake_next()

    def close(self, error: BaseException) -> None:
        """Nothing more is accepted from the application: it gets `error`."""
        if self._error is None:
            self._error = error
        self._shut()

    def block(self, reason: str | None) -> None:
        """Nothing is accepted for the time being: the application gets `Blocked`; None ends that."""
        self._blocked = reason
        self.unsure = True
        if reason is not None:
            self._shut()

    def rebind(self, endpoint: Submitter) -> None:
        """Another endpoint takes the place of one that was expelled; what that had not taken is void with it."""
        self._endpoint = endpoint
        self.buffer, self._types, self._items = [], None, None
        self._room = _BUFFER_BYTES

    def _shut(self) -> None:
        self._open = False
        self.unsure = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def last_flush(self, now: int) -> None:
        """Like `flush`, for what was accepted before `close`."""
        error, self._error = self._error, None
        try:
            self.flush(now)
        finally:
            self._error = error
            self._open = False

    # --- inside ----------------------------------------------------------------------------------------------------

    def _annotate(self, count: int, types: Types, items: Items) -> None:
        """Bring the columns of types and items to the length of the buffer, whose last `count` messages have these."""
        before = len(self.buffer) - count
        if self._types is None or self._items is None:
            self._types, self._items = [None] * before, [None] * before
        self._types.extend(types or [None] * count)
        self._items.extend(items or [None] * count)

    def _wake_next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        """A waiting one was cancelled: if it had been woken, the next is."""
        if waiter.done() and not waiter.cancelled():
            if self._open:
                self._wake_next()
            return
        try:
            self._waiters.remove(waiter)
        except ValueError:
            pass

    def _raise_if_closed(self) -> None:
        if isinstance(self._error, Closed):
            raise Closed(*self._error.args)
        if self._error is not None:
            raise self._error
        if self._blocked is not None:
            raise Blocked(self._blocked)

    def _too_long(self, size: int) -> LocalProtocolError:
        return LocalProtocolError(f"a payload of {size} bytes is over the limit of {self._payload_bytes} (payload_bytes)")
