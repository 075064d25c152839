"""Messages that the application handed in and that have not been multicast yet, gathered into batches.

Bounded in bytes and number. Messages keep their order. What was submitted in one turn travels as one batch if it fits;
messages are only looked at one by one where one submission exceeds a batch or the room that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from isotone.model.columns import Items, Types, joined
from isotone.model.errors import LocalProtocolError
from isotone.model.settings import Limits
from isotone.protocol.ordering.orderer import Batch


class Pending:
    """A queue of messages."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[Batch] = deque()
        self._bytes = 0
        self.count = 0
        """Messages that wait."""

    def __len__(self) -> int:
        return self.count

    def room(self) -> bool:
        """Whether another message may be taken; a large one may have to wait all the same."""
        return self._bytes < self._limits.pending_bytes and self.count < self._limits.pending_messages

    def add(self, payloads: Sequence[bytes], types: Types | None, items: Items | None) -> tuple[int, int]:
        """Take as many messages as there is room for; returns their number and size."""
        limits = self._limits
        size = sum(map(len, payloads))
        count = len(payloads)
        if size > limits.payload_bytes and max(map(len, payloads)) > limits.payload_bytes:
            raise LocalProtocolError(
                f"a payload of {max(map(len, payloads))} bytes is over the limit of {limits.payload_bytes}: "
                "send it in parts, or raise payload_bytes"
            )
        if self._bytes + size > limits.pending_bytes or self.count + count > limits.pending_messages:
            room = bisect_right(list(accumulate(map(len, payloads))), limits.pending_bytes - self._bytes)
            count = min(room, max(0, limits.pending_messages - self.count))
            if not count:
                return 0, 0
            payloads = payloads[:count]
            types = types.slice(0, count) if types is not None else None
            items = items.slice(0, count) if items is not None else None
            size = sum(map(len, payloads))
        elif not count:
            return 0, 0
        if size <= limits.batch_bytes and count <= limits.batch_messages:
            if not self._queue:
                self._queue.append(Batch(list(payloads), types, items, size))
            else:
                self._gather(payloads, types, items, size)
        else:
            self._cut(payloads, types, items)
        self._bytes += size
        self.count += count
        return count, size

    def _gather(self, payloads: Sequence[bytes], types: Types | None, items: Items | None, size: int) -> None:
        limits = self._limits
        queue = self._queue
        last = queue[-1] if queue else None
        count = len(payloads)
        if last is not None and last.size + size <= limits.batch_bytes and len(last.payloads) + count <= limits.batch_messages:
            before = len(last.payloads)
            columns = joined(last.types, before, types, count), joined(last.items, before, items, count)
            last.payloads.extend(payloads)
            queue[-1] = Batch(last.payloads, *columns, last.size + size)
        else:
            queue.append(Batch(list(payloads), types, items, size))

    def _cut(self, payloads: Sequence[bytes], types: Types | None, items: Items | None) -> None:
        """Cut a long submission into batches."""
        limits = self._limits
        ends = list(accumulate(map(len, payloads)))
        start = done = 0
        while start < len(payloads):
            fitting = bisect_right(ends, done + limits.batch_bytes, start)
            end = min(max(fitting, start + 1), start + limits.batch_messages)
            columns = (
                types.slice(start, end) if types is not None else None,
                items.slice(start, end) if items is not None else None,
            )
            size = ends[end - 1] - done
            self._gather(payloads[start:end], *columns, size)
            start, done = end, ends[end - 1]

    def take(self) -> Batch:
        """The next batch."""
        batch = self._queue.popleft()
        self._bytes -= batch.size
        self.count -= len(batch.payloads)
        return batch
