"""From the driver to the application: a queue of upcalls and the two ways to iterate over it.

Invariants: every upcall is handed out once, in order, to one iteration; a cancelled or abandoned iteration takes
nothing with it that it has not handed out, and the next one goes on from there; an iteration that never suspends by itself
still lets the event loop run every few milliseconds.

`backlog` is what waits here, in bytes. Sizes are only worked out when the application lags by a whole turn: one
that keeps up pays nothing for being measured.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import chain, islice

from isotone.model.errors import Closed, LocalProtocolError, Overloaded
from isotone.model.events import DeliveryBatch, Ended, Expulsion, ReturnedBatch, SnapshotWanted, StateReceived, Upcall
from isotone.runtime.events import Batch, Delivery, Event, StateRestored, split
from isotone.runtime.state import Keeper

_STRETCH = 32
"""Messages handed out between two looks at the clock, unless the application proves to be quick."""
_QUICK_S = 0.001
"""Who takes a stretch in less than this gets the rest of the batch in one go."""
_SLICE_S = 0.002
"""How long an iteration may keep the event loop."""
_WAITING = 100_000
"""Upcalls that may wait here."""
_SAMPLE = 64
_MESSAGE_BYTES = 40
"""What a message costs besides its payload."""


def _size(upcall: Upcall | StateRestored | Expulsion) -> int:
    """What an upcall occupies; of a long batch, which cannot have large messages, a sample is measured."""
    if not isinstance(upcall, DeliveryBatch | ReturnedBatch):
        return _MESSAGE_BYTES
    payloads = upcall.payloads
    every = len(payloads) // _SAMPLE or 1
    return sum(map(len, payloads[::every])) * every + _MESSAGE_BYTES * len(payloads)


class Inbox:
    """The upcalls that the application has not yet taken. `consumed` is called when a measured backlog shrinks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, consumed: Callable[[], None], keeper: Keeper | None = None) -> None:
        self._loop = loop
        self._consumed = consumed
        self._keeper = keeper
        self._queue: deque[Batch | SnapshotWanted | StateReceived] = deque()
        self._unsized = 0  # upcalls in the queue whose size is not known: all of them, or none
        self._sizes: deque[int] = deque()
        self._rest: Iterator[Event] | None = None  # of the batch that is being split
        self._waiter: asyncio.Future[None] | None = None
        self._turn: object = None  # whose turn it is to iterate
        self._slice_end = 0.0
        self._ended = False
        self._error: BaseException | None = None
        self.backlog = 0
        self.others = 0
        """Upcalls handed out that were no deliveries."""

    # --- the driver's side -----------------------------------------------------------------------------------------

    def put(self, upcalls: Sequence[Upcall | Expulsion]) -> None:
        """Take the upcalls of a turn. What follows an `Ended` is not looked at."""
        caught_up = not self._queue
        if self._unsized:
            self._sizes.extend(map(_size, self._queue))
            self.backlog = sum(self._sizes)
            self._unsized = 0
        for upcall in upcalls:
            if isinstance(upcall, Ended):
                self.end(None if upcall.error is None else Closed(upcall.error))
                break
            self._queue.append(upcall)
            if len(self._queue) > _WAITING and not self._ended:
                # Senders are held back long before; only views and suspicions of a restless group can pile up like this.
                self.end(Overloaded(f"the application has not taken {_WAITING} events: iterate over the group"))
                break
            if caught_up:
                self._unsized += 1
            else:
                size = _size(upcall)
                self._sizes.append(size)
                self.backlog += size
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def end(self, error: BaseException | None) -> None:
        """Nothing follows: iterations end, or raise `error`, when the queue is empty."""
        if not self._ended:
            self._ended = True
            self._error = error
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- the application's side ------------------------------------------------------------------------------------

    async def batches(self) -> AsyncIterator[Batch]:
        """Upcalls as they come, deliveries in batches."""
        turn = self._begin()
        if self._rest is not None:
            event = next(self._rest, None)
            if event is not None:
                self._rest = chain((event,), self._rest)
                raise LocalProtocolError("an iteration by messages stopped inside a batch: take its rest so first")
            self._rest = None
        while await self._more(turn):
            yield self._pop()

    async def events(self) -> AsyncIterator[Event]:
        """Message by message."""
        turn = self._begin()
        while self._rest is not None or await self._more(turn):
            rest = self._rest
            if rest is None:
                batch = self._pop()
                if type(batch) is DeliveryBatch and len(batch.payloads) == 1:
                    yield Delivery(batch.payloads[0], batch, batch.first)
                    continue
                rest = self._rest = split(batch)
            stretch: Iterator[Event] = islice(rest, _STRETCH)
            while True:
                began, event = time.monotonic(), None
                for event in stretch:
                    yield event
                if turn is not self._turn:
                    raise LocalProtocolError("another iteration over this group has begun")
                if event is None:
                    self._rest = None
                    break
                now = time.monotonic()
                stretch = rest if now - began < _QUICK_S else islice(rest, _STRETCH)
                if now > self._slice_end:
                    await self._breathe()

    def _begin(self) -> object:
        if self._waiter is not None:
            raise LocalProtocolError("this group is being iterated over already: one iteration at a time")
        self._turn = object()
        return self._turn

    async def _more(self, turn: object) -> bool:
        """Whether there is another upcall; waits for one."""
        while True:
            if turn is not self._turn:
                raise LocalProtocolError("another iteration over this group has begun")
            if self._queue:
                if time.monotonic() > self._slice_end:
                    await self._breathe()
                    continue
                if self._keeper is None or not await self._state_first(self._keeper):
                    return True
                continue
            if self._ended:
                if isinstance(self._error, Closed):
                    raise Closed(*self._error.args)
                if self._error is not None:
                    raise self._error
                return False
            if self._waiter is not None:
                raise LocalProtocolError("this group is being iterated over already: one iteration at a time")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            self._slice_end = time.monotonic() + _SLICE_S

    async def _state_first(self, keeper: Keeper) -> bool:
        """The application has handled all that was before: give its state, or replace it. Whether there was anything to do."""
        first = self._queue[0]
        if type(first) is SnapshotWanted:
            self._queue.popleft()
            if self._unsized:
                self._unsized -= 1
            else:
                self._shrink()
            keeper.snapshot(first)
        elif type(first) is StateReceived:
            await keeper.restore(first)
            if self._queue and self._queue[0] is first:
                self._queue[0] = StateRestored(first.view, first.provider, len(first.data))
        else:
            return False
        return True

    async def _breathe(self) -> None:
        """Let the event loop run once."""
        await asyncio.sleep(0)
        self._slice_end = time.monotonic() + _SLICE_S

    def _pop(self) -> Batch:
        upcall: Batch = self._queue.popleft()  # type: ignore[assignment]  # what is about the state was taken before
        if type(upcall) is not DeliveryBatch:
            self.others += 1
        if self._unsized:
            self._unsized -= 1
        else:
            self._shrink()
        return upcall

    def _shrink(self) -> None:
        """Something whose size was known is gone."""
        if self._sizes:
            self.backlog -= self._sizes.popleft()
            self._consumed()
