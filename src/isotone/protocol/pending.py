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


class _Gathering:
    """A batch that may still grow."""

    __slots__ = ("items", "payloads", "size", "types")

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.types: list[str | None] | None = None
        self.items: list[list[str] | None] | None = None
        self.size = 0

    def add(self, payloads: Sequence[bytes], types: Types, items: Items, size: int) -> None:
        before, count = len(self.payloads), len(payloads)
        self.payloads += payloads
        self.size += size
        if types is not None or self.types is not None:
            self.types = self.types if self.types is not None else [None] * before
            self.types += types if types is not None else [None] * count
        if items is not None or self.items is not None:
            self.items = self.items if self.items is not None else [None] * before
            self.items += [list(i) if i is not None else None for i in items] if items is not None else [None] * count


class Pending:
    """A queue of messages."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[_Gathering] = deque()
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def room(self) -> bool:
        """Whether another message may be taken; a large one may have to wait all the same."""
        return self._bytes < self._limits.pending_bytes and self._count < self._limits.pending_messages

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
        if self._bytes + size > limits.pending_bytes or self._count + count > limits.pending_messages:
            room = bisect_right(list(accumulate(map(len, payloads))), limits.pending_bytes - self._bytes)
            count = min(room, max(0, limits.pending_messages - self._count))
            payloads = payloads[:count]
            types = types[:count] if types is not None else None
            items = items[:count] if items is not None else None
            size = sum(map(len, payloads))
        if not count:
            return 0, 0
        if size <= limits.batch_bytes and count <= limits.batch_messages:
            self._gather(payloads, types, items, size)
        else:
            self._cut(payloads, types, items)
        self._bytes += size
        self._count += count
        return count, size

    def _gather(self, payloads: Sequence[bytes], types: Types, items: Items, size: int) -> None:
        limits = self._limits
        last = self._queue[-1] if self._queue else None
        if last is None or last.size + size > limits.batch_bytes or len(last.payloads) + len(payloads) > limits.batch_messages:
            last = _Gathering()
            self._queue.append(last)
        last.add(payloads, types, items, size)

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
        self._count -= len(batch.payloads)
        return Batch(batch.payloads, brief(batch.types), brief(batch.items), batch.size)
