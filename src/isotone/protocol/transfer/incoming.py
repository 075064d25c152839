"""One state on its way to this process: which member it comes from, which pieces are there, which have been asked for.

The receiver pulls: a few pieces are on their way at a time, more while answers come quickly, fewer when they take longer (they
queue somewhere, and messages with them). What does not come is asked for again. A provider that is gone, fails or is silent for
long is followed by another that has offered the same cut; what has come so far is kept if its snapshot begins with it.

Invariants: what is here are the first `received` bytes of the provider's snapshot, all of it once `complete`; memory grows
with the bytes that have come, whatever a peer says they will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId
from isotone.model.records import Differs, Offer, Piece, Want
from isotone.model.settings import MS, EndpointConfig
from isotone.model.view import View
from isotone.protocol.transfer.snapshots import Sender, prefix_digest

WINDOW = 16
"""Pieces that may be on their way."""
_FIRST_WINDOW = 2
_QUEUE_NS = 50 * MS
"""Answers that take so much longer than twice the fastest wait in a queue."""
_STEPS = 10
"""How often progress is reported, about."""


class Incoming:
    """The fetching of one snapshot. `sources` come in the order of preference; `progress` is called now and then."""

    def __init__(
        self,
        view: View,
        sources: Sequence[ProcessId],
        config: EndpointConfig,
        sender: Sender,
        progress: Callable[[], None],
        now: int,
    ) -> None:
        self.view = view
        self.sources = list(sources)
        self.problems: dict[ProcessId, str] = {}
        self.provider: ProcessId | None = None
        self.received = 0
        self.total = 0
        self._timing = config.timing
        self._limits = config.limits
        self._sender = sender
        self._progress = progress
        self._offers: dict[ProcessId, int] = {}
        self._patient_until = now + config.timing.resend_ns
        self._attempt = 0
        self._base = 0
        self._digest = b""
        self._hasher = prefix_digest()
        self._data = BytesIO()  # grows in place and hands its buffer over: a large state is not copied
        self._early: dict[int, bytes] = {}
        self._asked: dict[int, int] = {}  # offset: when
        self._again: set[int] = set()  # asked for more than once: their answers tell nothing about time
        self._next = 0
        self._window = _FIRST_WINDOW
        self._shrunk_at = now
        self._fastest: int | None = None
        self._patience = config.timing.resend_ns
        self._came_at = now
        self._told = 0

    @property
    def complete(self) -> bool:
        """Whether all of it is here."""
        return self.provider is not None and self.received == self.total

    @property
    def hopeless(self) -> bool:
        """Whether no source can give it."""
        return all(source in self.problems for source in self.sources)

    def data(self) -> bytes:
        """The whole state."""
        return self._data.getvalue()

    # Who gives it

    def offer(self, peer: ProcessId, record: Offer, now: int) -> None:
        """A source has the snapshot, or cannot give it."""
        if peer not in self.sources or (self.complete and peer == self.provider):
            return
        problem = record.problem
        if not problem and record.total > self._limits.state_bytes:
            problem = f"a snapshot of {record.total} bytes is above the limit state_bytes, {self._limits.state_bytes}"
        if problem:
            self.problems[peer] = problem
            self._offers.pop(peer, None)
            if peer == self.provider:
                self.provider = None
        elif peer not in self._offers:
            self._offers[peer] = record.total
        elif self._offers[peer] != record.total:
            raise RemoteProtocolError(f"{peer} changes the size of the snapshot of {record.cut}")
        self._choose(now)

    def restrict(self, sources: Sequence[ProcessId], now: int) -> None:
        """Only these members can give it from here on."""
        self.sources = [source for source in self.sources if source in sources]
        self._offers = {source: total for source, total in self._offers.items() if source in self.sources}
        if self.provider is not None and self.provider not in self.sources and not self.complete:
            self.provider = None
            self._sender.count("state_providers_lost")
        self._choose(now)

    def _choose(self, now: int) -> None:
        """Take the first source that is ready; the one before it is waited for a moment, so that sources share the work."""
        if self.provider is not None:
            return
        able = [source for source in self.sources if source not in self.problems]
        ready = [source for source in able if source in self._offers]
        if ready and (ready[0] == able[0] or now >= self._patient_until):
            self._begin(ready[0], now)

    def _begin(self, provider: ProcessId, now: int) -> None:
        """Fetch from `provider` what is missing, or all if it has less than what is here."""
        self.provider = provider
        self.total = self._offers[provider]
        if self.received >= self.total:
            self._forget()
        if self.received:
            self._sender.count("state_resumptions")
        self._attempt += 1
        self._base = self.received
        self._digest = self._hasher.copy().digest() if self._base else b""
        self._next = self._base
        self._early.clear()
        self._asked.clear()
        self._again.clear()
        self._window = _FIRST_WINDOW
        self._fastest = None
        self._patience = self._timing.resend_ns
        self._came_at = now
        self._told = self.received
        self._progress()
        self._ask(now)

    def _forget(self) -> None:
        self._data = BytesIO()
        self._hasher = prefix_digest()
        self.received = 0

    def differs(self, peer: ProcessId, record: Differs, now: int) -> None:
        """The provider's snapshot begins otherwise: all of it is needed."""
        if peer == self.provider and record.attempt == self._attempt and self._base:
            self._forget()
            self._begin(peer, now)

    # Pieces

    def _ask(self, now: int) -> None:
        chunk = self._limits.state_chunk_bytes
        end = min(self.total, self.received + 2 * WINDOW * chunk)
        while len(self._asked) < self._window and self._next < end:
            self._want(self._next, now)
            self._next = min(self._next + chunk, self.total)

    def _want(self, offset: int, now: int) -> None:
        if self.provider is not None:
            self._asked[offset] = now
            count = min(self._limits.state_chunk_bytes, self.total - offset)
            record = Want(self.view.id, self._attempt, offset, count, self._base, self._digest)
            self._sender.send(self.provider, record)

    def piece(self, peer: ProcessId, record: Piece, now: int) -> None:
        """A piece came: late, repeated, or wanted."""
        if peer != self.provider or record.attempt != self._attempt or record.offset not in self._asked:
            return
        if len(record.data) != min(self._limits.state_chunk_bytes, self.total - record.offset):
            raise RemoteProtocolError(f"{peer} sends {len(record.data)} bytes of the state, which were not asked for")
        asked = self._asked.pop(record.offset)
        if record.offset in self._again:
            self._again.discard(record.offset)
        else:
            self._adapt(asked, now)
        self._came_at = now
        self._early[record.offset] = record.data
        while (data := self._early.pop(self.received, None)) is not None:
            self._data.write(data)
            self._hasher.update(data)
            self.received += len(data)
        self._ask(now)
        if self.received - self._told >= self.total // _STEPS and not self.complete:
            self._told = self.received
            self._progress()

    def _adapt(self, asked: int, now: int) -> None:
        """More pieces at a time while they come at once, half as many when they wait in a queue."""
        took = now - asked
        self._fastest = took if self._fastest is None else min(self._fastest, took)
        if took <= 2 * self._fastest + _QUEUE_NS:
            self._window = min(WINDOW, self._window + 1)
        elif asked >= self._shrunk_at:
            self._window = max(1, self._window // 2)
            self._shrunk_at = now
        self._patience = max(self._timing.resend_ns, 2 * self._fastest + 2 * _QUEUE_NS)

    # Time

    def wake(self, now: int) -> None:
        """Ask again for what does not come; go to another source when the provider has been silent for very long."""
        if self.provider is None:
            self._choose(now)
            return
        if self.complete or not self._asked or now < min(self._asked.values()) + self._patience:
            return
        others = [source for source in self.sources if source in self._offers and source != self.provider]
        if others and now - self._came_at >= 2 * self._timing.hard_ns:
            self._sender.count("state_providers_silent")
            self._begin(others[0], now)
            return
        late = [offset for offset, asked in self._asked.items() if now >= asked + self._patience]
        for offset in late:
            self._again.add(offset)
            self._want(offset, now)
        self._window = max(1, self._window // 2)
        self._shrunk_at = now
        self._patience = min(2 * self._patience, max(self._patience, self._timing.retransmit_max_ns))

    def deadline(self) -> int | None:
        """When to wake."""
        if self.complete:
            return None
        if self.provider is not None:
            return min(self._asked.values()) + self._patience if self._asked else None
        return self._patient_until if self._offers else None
