"""Messages that the application handed in and that have not been multicast yet, gathered into batches.

Bounded in bytes and number. Messages keep their order. What was submitted in one turn travels as one batch if it fits;
messages are only looked at one by one where one submission exceeds a batch or the room that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from isotone.model.columns import brief
from isotone.model.errors import LocalProtocolError
from isotone.model.settings import Limits
from isotone.protocol.ordering.orderer import Batch

Types = Sequence[str | None] | None
Items = Sequence[Sequence[str] | None] | None


def _joined(batch: Batch, payloads: Sequence[bytes], types: Types, items: Items, size: int) -> Batch:
    """A batch that has grown; a column is made as soon as one message has an entry in it."""
    before, count = len(batch.payloads), len(payloads)
    batch.payloads.extend(payloads)
    all_types, all_items = batch.types, batch.items
    if types is not None or all_types is not None:
        all_types = [None] * before if all_types is None else all_types
        all_types.extend([None] * count if types is None else types)
    if items is not None or all_items is not None:
        all_items = [None] * before if all_items is None else all_items
        all_items.extend([None] * count if items is None else _lists(items))
    return Batch(batch.payloads, all_types, all_items, batch.size + size)


def _lists(items: Sequence[Sequence[str] | None]) -> list[list[str] | None]:
    return [list(one) if one is not None else None for one in items]


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

    def add(self, payloads: Sequence[bytes], types: Types, items: Items) -> tuple[int, int]:
        """Take as many messages as there is room for; returns their number and size."""
        limits = self._limits
        size = sum(map(len, payloads))
        count = len(payloads)
        if size > limits.payload_bytes and max(map(len, payloads)) > limits.payload_bytes:
            raise LocalProtocolError(
                f"a payload of {max(map(len, payloads))} bytes is over the limit of {limits.payload_bytes}: "
                "send it in parts, or raise payload_bytes"
            )
        if (types is not None and len(types) != count) or (items is not None and len(items) != count):
            raise LocalProtocolError("types and items must have one entry per payload")
        if self._bytes + size > limits.pending_bytes or self.count + count > limits.pending_messages:
            room = bisect_right(list(accumulate(map(len, payloads))), limits.pending_bytes - self._bytes)
            count = min(room, max(0, limits.pending_messages - self.count))
            payloads = payloads[:count]
            types = types[:count] if types is not None else None
            items = items[:count] if items is not None else None
            size = sum(map(len, payloads))
        if not count:
            return 0, 0
        if size <= limits.batch_bytes and count <= limits.batch_messages:
            if types is None and items is None and not self._queue:
                self._queue.append(Batch(list(payloads), None, None, size))
            else:
                self._gather(payloads, types, items, size)
        else:
            self._cut(payloads, types, items)
        self._bytes += size
        self.count += count
        return count, size

    def _gather(self, payloads: Sequence[bytes], types: Types, items: Items, size: int) -> None:
        limits = self._limits
        queue = self._queue
        last = queue[-1] if queue else None
        count = len(payloads)
        if last is not None and last.size + size <= limits.batch_bytes and len(last.payloads) + count <= limits.batch_messages:
            queue[-1] = _joined(last, payloads, types, items, size)
        else:
            columns = None if types is None else list(types), None if items is None else _lists(items)
            queue.append(Batch(list(payloads), *columns, size))

    def _cut(self, payloads: Sequence[bytes], types: Types, items: Items) -> None:
        """Cut a long submission into batches."""
        limits = self._limits
        ends = list(accumulate(map(len, payloads)))
        start = done = 0
        while start < len(payloads):
            fitting = bisect_right(ends, done + limits.batch_bytes, start)
            end = min(max(fitting, start + 1), start + limits.batch_messages)
            part = slice(start, end)
            size = ends[end - 1] - done
            self._gather(payloads[part], types[part] if types else None, items[part] if items else None, size)
            start, done = end, ends[end - 1]

    def take(self) -> Batch:
        """The next batch."""
        batch = self._queue.popleft()
        self._bytes -= batch.size
        self.count -= len(batch.payloads)
        if batch.types is None and batch.items is None:
            return batch
        return Batch(batch.payloads, brief(batch.types), brief(batch.items), batch.size)
