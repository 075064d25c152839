"""Frames: a header of ten bytes, big-endian, and a body.

The header is the body's length (4 bytes), a check of the length alone (2), and the CRC-32 of the first `CHECKED_BYTES` of
the body (4). TCP's own checksum lets some damage through, and a damaged packet may well be a plausible one: an
acknowledgement of what was never sent, another timestamp, a length of which nothing more will come. So nothing is waited
for before its length has been checked, and no body is handed out before its beginning has been. What is damaged ends the
connection, and the links above send again what is missing. Behind the checked bytes a body is as TCP delivers it: a large
batch, and whatever follows it in the same frame. (Frames of half a megabyte would have to be checked once more for each
peer, since the head of a packet differs per peer.)

`FrameDecoder` owns the buffer that the transport reads into and cuts it into bodies without copying them. Invariants: a
body is a view of the buffer and is valid until the next `get_buffer`; a byte is moved at most once to make room and
once more for every doubling of the buffer, so the work is linear in the bytes received; the buffer never grows beyond
one frame of the permitted length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

from isotone.model.errors import RemoteProtocolError

HEADER_BYTES = 10
FRAME_BYTES = 16 * 1024 * 1024
"""The default limit of a frame's body."""
CHECKED_BYTES = 8 * 1024
"""So much of a body, from its beginning, is checked. Without a large batch that is all of it."""
DAMAGED = "frame damaged"
"""With these words begins the error about a frame that is not what was sent, or that a stranger sent who knows no frames."""

_SMALL_BYTES = 8 * 1024
_FIRST_BYTES = 64 * 1024
_LARGE_BYTES = 1024 * 1024
_LEAST_SPACE = 16 * 1024
_HEADER = Struct(">IHI")
_pack = _HEADER.pack
_header_at = _HEADER.unpack_from

# The check of a length is (length * _FACTOR + _OFFSET) % _PRIME: a prime, so that a change of any one byte shows; a factor with
# which any two bits show too, also one of the length and one of the check (TCP's sum misses that); an offset because of zeros.
_FACTOR = 40_503
_OFFSET = 0x4953
_PRIME = 65_521


def header(body: bytes, more: Sequence[bytes] = ()) -> bytes:
    """The header of a frame whose body is `body` and, if it is made of several buffers, those after it."""
    length = len(body)
    crc = crc32(body if length <= CHECKED_BYTES else memoryview(body)[:CHECKED_BYTES])
    for part in more:
        unchecked = CHECKED_BYTES - length
        if unchecked > 0:
            crc = crc32(part if len(part) <= unchecked else memoryview(part)[:unchecked], crc)
        length += len(part)
    return _pack(length, (length * _FACTOR + _OFFSET) % _PRIME, crc)


def frame(body: bytes) -> bytes:
    """`body` as a frame (for the few small ones; packets are assembled in `PacketEncoder`)."""
    return header(body) + body


def open_header(data: bytes | memoryview, start: int, limit: int) -> tuple[int, int]:
    """The length of the body that belongs to the header at `start`, and the CRC of its beginning for `check_body`."""
    length, check, crc = _header_at(data, start)
    if (length * _FACTOR + _OFFSET) % _PRIME != check:
        begin = bytes(data[start : start + HEADER_BYTES])
        raise RemoteProtocolError(f"{DAMAGED}: it begins with {begin!r}, where a length and its check should be")
    if not 0 < length <= limit:
        raise RemoteProtocolError(f"frame of {length} bytes: must have 1 to {limit}")
    return length, crc


def check_body(body: bytes | memoryview, crc: int) -> None:
    """Raise `RemoteProtocolError` unless the beginning of a body is what its sender meant."""
    if crc32(body if len(body) <= CHECKED_BYTES else body[:CHECKED_BYTES]) != crc:
        raise RemoteProtocolError(f"{DAMAGED}: a body of {len(body)} bytes does not match its check")


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
        length = end - start - HEADER_BYTES
        if length <= 0:
            return None
        told, check, crc = _header_at(self._view, start)
        if told != length or (length * _FACTOR + _OFFSET) % _PRIME != check or length > self.limit:
            return None
        body = self._view[start + HEADER_BYTES : end]
        if crc32(body if length <= CHECKED_BYTES else body[:CHECKED_BYTES]) != crc:
            return None  # `received` says what is wrong
        self._start = end
        return body

    def received(self, count: int) -> Iterator[memoryview]:
        """Take note of `count` bytes read into the buffer; yield the bodies that are complete."""
        self._end += count
        if self._end == self._size < min(_LARGE_BYTES, self.limit):
            self._resize(2 * self._size)
        while self._end - self._start >= HEADER_BYTES:
            length, crc = open_header(self._view, self._start, self.limit)
            begin = self._start + HEADER_BYTES
            if self._end - begin < length:
                return
            body = self._view[begin : begin + length]
            check_body(body, crc)
            self._start = begin + length
            yield body

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """The same for bytes that arrive by other ways than `get_buffer`."""
        rest = memoryview(data)
        while rest:
            room = self.get_buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            yield from self.received(count)

    def _missing(self) -> int:
        """How many bytes the frame that has begun still lacks (its header alone, as long as that is incomplete)."""
        held = self._end - self._start
        if held < HEADER_BYTES:
            return HEADER_BYTES - held
        return max(HEADER_BYTES + open_header(self._view, self._start, self.limit)[0] - held, 1)

    def _resize(self, size: int) -> None:
        held = self._end - self._start
        view = memoryview(bytearray(size))
        view[:held] = self._view[self._start : self._end]
        self._view, self._size, self._start, self._end = view, size, 0, held
