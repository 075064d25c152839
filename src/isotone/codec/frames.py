"""Frames: a length of four bytes, big-endian, and a body.

`FrameDecoder` owns the buffer that the transport reads into and cuts it into bodies without copying them. Invariants: a
body is a view of the buffer and is valid until the next `get_buffer`; a byte is moved at most once to make room and
once more for every doubling of the buffer, so the work is linear in the bytes received; the buffer never grows beyond
one frame of the permitted length.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from isotone.model.errors import RemoteProtocolError

HEADER_BYTES = 4
FRAME_BYTES = 16 * 1024 * 1024
"""The default limit of a frame's body."""

_SMALL_BYTES = 8 * 1024
_FIRST_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024
_LEAST_SPACE = 16 * 1024
_length_at = Struct(">I").unpack_from


def frame(body: bytes) -> bytes:
    """`body` as a frame (for the few small ones; packets are assembled in `PacketEncoder`)."""
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class FrameDecoder:
    """Cuts received bytes into bodies. `limit` may be changed between two bodies."""

    __slots__ = ("_end", "_size", "_start", "_view", "limit")

    def __init__(self, limit: int = FRAME_BYTES) -> None:
        self.limit = limit
        self._size = min(_FIRST_BYTES, max(_SMALL_BYTES, limit + HEADER_BYTES))  # little for strangers
        self._view = memoryview(bytearray(self._size))
        self._start = 0
        self._end = 0

    @property
    def pending(self) -> int:
        """Bytes received that do not yet make a whole frame."""
        return self._end - self._start

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Room for the transport to read into; what earlier bodies showed is void from here on."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            if self._size > _LARGE_BYTES:
                self._resize(_LARGE_BYTES)
            elif self._size < _FIRST_BYTES <= self.limit:
                self._resize(_FIRST_BYTES)
            return self._view
        missing, room, held = self._missing(), self._size - end, end - start
        if room >= missing and (start == 0 or room >= _LEAST_SPACE):
            return self._view[end:]
        if held + missing > self._size:
            self._resize(max(held + missing, min(2 * self._size, _LARGE_BYTES)))
        else:
            self._view[:held] = self._view[start:end]
            self._start, self._end = 0, held
        return self._view[self._end :]

    def only(self, count: int) -> memoryview | None:
        """Take note of `count` bytes read into the buffer; the body, if they are exactly one frame.

        In a quiet group that is what every read brings. After None the bytes are still to be taken with `received(0)`.
        """
        start = self._start
        end = self._end = self._end + count
        begin = start + HEADER_BYTES
        if end <= begin or end != begin + _length_at(self._view, start)[0] or end - begin > self.limit:
            return None
        self._start = end
        return self._view[begin:end]

    def received(self, count: int) -> Iterator[memoryview]:
        """Take note of `count` bytes read into the buffer; yield the bodies that are complete."""
        self._end += count
        if self._end == self._size < min(_LARGE_BYTES, self.limit):
            self._resize(2 * self._size)
        while self._end - self._start >= HEADER_BYTES:
            begin = self._start + HEADER_BYTES
            length = self._length()
            if self._end - begin < length:
                return
            self._start = begin + length
            yield self._view[begin : self._start]

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """The same for bytes that arrive by other ways than `get_buffer`."""
        rest = memoryview(data)
        while rest:
            room = self.get_buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            yield from self.received(count)

    def _length(self) -> int:
        length = int.from_bytes(self._view[self._start : self._start + HEADER_BYTES], "big")
        if not 0 < length <= self.limit:
            raise RemoteProtocolError(f"frame of {length} bytes: must have 1 to {self.limit}")
        return length

    def _missing(self) -> int:
        """How many bytes the frame that has begun still lacks (its header alone, as long as that is incomplete)."""
        held = self._end - self._start
        if held < HEADER_BYTES:
            return HEADER_BYTES - held
        return max(HEADER_BYTES + self._length() - held, 1)

    def _resize(self, size: int) -> None:
        held = self._end - self._start
        view = memoryview(bytearray(size))
        view[:held] = self._view[self._start : self._end]
        self._view, self._size, self._start, self._end = view, size, 0, held
