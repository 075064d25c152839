"""Messages that the application handed in and that have not been multicast yet, cut into batches when the window admits them.

Bounded in bytes and number. Messages keep their order; what was submitted in one turn travels as one batch if it fits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from isotone.model.errors import LocalProtocolError
from isotone.model.settings import Limits
from isotone.protocol.ordering.orderer import Batch


class Pending:
    """A queue of messages."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._payloads: list[bytes] = []
        self._types: list[str | None] | None = None
        self._items: list[list[str] | None] | None = None
        self._fresh_bytes = 0
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def room(self) -> bool:
        """Whether another message would be taken."""
        return self._bytes < self._limits.pending_bytes and self._count < self._limits.pending_messages

    def add(
        self,
        payloads: Sequence[bytes],
        types: Sequence[str | None] | None,
        items: Sequence[Sequence[str] | None] | None,
    ) -> tuple[int, int]:
        """Take as many messages as there is room for; returns their number and size."""
        limits = self._limits
        sizes = list(map(len, payloads))
        if sizes and max(sizes) > limits.payload_bytes:
            raise LocalProtocolError(
                f"a payload of {max(sizes)} bytes is over the limit of {limits.payload_bytes}: "
                "send it in parts, or raise payload_bytes"
            )
        if (types is not None and len(types) != len(payloads)) or (items is not None and len(items) != len(payloads)):
            raise LocalProtocolError("types and items must have one entry per payload")
        size = sum(sizes)
        count = len(sizes)
        if self._bytes + size > limits.pending_bytes or self._count + count > limits.pending_messages:
            count = min(
                bisect_right(list(accumulate(sizes)), limits.pending_bytes - self._bytes),
                max(0, limits.pending_messages - self._count),
            )
            if count < len(sizes):
                payloads = payloads[:count]
                size = sum(sizes[:count])
        if not count:
            return 0, 0
        before = len(self._payloads)
        self._payloads += payloads
        if types is not None or self._types is not None:
            self._types = self._types if self._types is not None else [None] * before
            self._types += list(types[:count]) if types is not None else [None] * count
        if items is not None or self._items is not None:
            self._items = self._items if self._items is not None else [None] * before
            self._items += [list(i) if i is not None else None for i in items[:count]] if items is not None else [None] * count
        self._fresh_bytes += size
        self._bytes += size
        self._count += count
        return count, size

    def take(self) -> Batch:
        """The next batch."""
        if not self._batches:
            self._cut()
        batch = self._batches.popleft()
        self._bytes -= batch.size
        self._count -= len(batch.payloads)
        return batch

    def _cut(self) -> None:
        limits = self._limits
        payloads, types, items = self._payloads, self._types, self._items
        if self._fresh_bytes <= limits.batch_bytes and len(payloads) <= limits.batch_messages:
            self._batches.append(Batch(payloads, types, items, self._fresh_bytes))
        else:
            ends = list(accumulate(map(len, payloads)))
            start = done = 0
            while start < len(payloads):
                end = min(max(bisect_right(ends, done + limits.batch_bytes, start), start + 1), start + limits.batch_messages)
                size = ends[end - 1] - done
                self._batches.append(
                    Batch(payloads[start:end], types[start:end] if types else None, items[start:end] if items else None, size)
                )
                start, done = end, ends[end - 1]
        self._payloads, self._types, self._items, self._fresh_bytes = [], None, None, 0
