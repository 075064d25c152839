"""Packets on the wire: msgpack arrays, decoded by one call, encoded once for all receivers of a record.

Invariants: `decode_packet` turns any bytes into a packet or into `RemoteProtocolError`; what it lets through has the
declared types, no counters that are negative (but for `ack`) or too large, well-formed process ids and columns of equal
length. What the numbers mean is the endpoint's business. `PacketEncoder` gives the same bytes as `encode_packet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from isotone.codec.check import check_packet
from isotone.codec.frames import FRAME_BYTES, header
from isotone.model.errors import RemoteProtocolError, require
from isotone.model.records import Cast, Direct, Loose, Packet, Sequenced

JOIN_BELOW_BYTES = 8 * 1024
"""Shorter frames are joined into one buffer; of longer ones the records are handed to the transport as they are."""

CUT_BYTES = 512 * 1024
"""A packet much longer than this goes as several frames: the receiver decodes the first while the next is on its way."""

_HEAD_BYTES = 256
_TINY_BYTES = 1024
"""A packet of one or two records that are shorter than this is encoded as a whole: sharing their bytes would save nothing."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packet).decode

Frame = list[bytes]
"""The buffers of one frame, in order."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Whatever a decoder may raise on bad bytes becomes a `RemoteProtocolError` of one line."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise _refusal(what, error) from None


def _refusal(what: str, error: Exception) -> RemoteProtocolError:
    text = " ".join(str(error).split())[:200]
    return RemoteProtocolError(f"malformed {what}: {text}")


def encode_packet(packet: Packet) -> bytes:
    """The body of a frame."""
    return _encode(packet)


def decode_packet(body: memoryview | bytes) -> Packet:
    """The packet in the body of a frame, checked."""
    try:
        packet = _decode(body)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise _refusal("packet", error) from None
    check_packet(packet)
    return packet


class PacketEncoder:
    """Encodes the packets of one turn; a record object that several packets share is encoded once.

    A long packet is cut into several frames, which the link allows: record i of a packet has the sequence number
    `first + i`. Only a frame of a single record is longer than `CUT_BYTES`, and none is longer than the receiver's limit.
    """

    __slots__ = ("_last", "_records")

    def __init__(self) -> None:
        self._records: dict[int, bytes] = {}
        self._last: tuple[Packet, int, list[Frame]] | None = None

    def end_turn(self) -> None:
        """Forget the records of this turn (their ids may be used again)."""
        self._records.clear()
        self._last = None

    def frames(self, packet: Packet, limit: int = FRAME_BYTES) -> list[Frame]:
        """The frames of a packet, normally one. The packet must be kept alive until `end_turn`."""
        last = self._last
        if last is not None and last[0] is packet and last[1] == limit:
            return last[2]
        frames = self._frames(packet, limit)
        self._last = (packet, limit, frames)
        return frames

    def _frames(self, packet: Packet, limit: int) -> list[Frame]:
        if len(packet.records) <= 2 and not packet.loose:
            for record in packet.records:
                if type(record) is not Direct and (
                    type(record) is not Cast
                    or len(record.payloads) > 1
                    or (record.payloads and len(record.payloads[0]) >= _TINY_BYTES)
                ):
                    break
            else:
                body = _encode(packet)
                if len(body) <= limit:
                    return [[header(body) + body]]
        records = self._all(packet.records)
        loose = self._all(packet.loose)
        size = _HEAD_BYTES + sum(map(len, records)) + sum(map(len, loose))
        if size <= min(limit, CUT_BYTES):
            return [_frame(packet, packet.first, records, loose, size)]
        return list(_cut(packet, records, loose, limit))

    def _all(self, records: Sequence[Sequenced | Loose]) -> list[bytes]:
        known = self._records
        encoded = []
        for record in records:
            data = known.get(id(record))
            if data is None:
                data = known[id(record)] = _encode(record)
            encoded.append(data)
        return encoded


def _array(length: int) -> bytes:
    """The msgpack header of an array."""
    if length < 16:
        return bytes((0x90 | length,))
    if length < 1 << 16:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


def _frame(packet: Packet, first: int, records: list[bytes], loose: list[bytes], size: int) -> Frame:
    # An array of four, made into the beginning of an array of seven.
    head = b"\x97" + _encode((packet.epoch, packet.proposer, first, packet.ack))[1:] + _array(len(records))
    rest = [*records, _array(len(loose)), *loose, b"\xc3" if packet.again else b"\xc2"]
    if size <= JOIN_BELOW_BYTES:
        body = head + b"".join(rest)
        return [header(body) + body]
    return [header(head, rest), head, *rest]


def _cut(packet: Packet, records: list[bytes], loose: list[bytes], limit: int) -> Iterator[Frame]:
    for begin, end, size in _pieces(records, limit):
        yield _frame(packet, packet.first + begin, records[begin:end], [], size)
    for begin, end, size in _pieces(loose, limit):
        yield _frame(packet, packet.first + len(records), [], loose[begin:end], size)


def _pieces(records: list[bytes], limit: int) -> Iterator[tuple[int, int, int]]:
    """Begin, end and size of each frame's share of the records."""
    begin, size, most = 0, _HEAD_BYTES, min(limit, CUT_BYTES)
    for index, record in enumerate(records):
        require(_HEAD_BYTES + len(record) <= limit, "a record is longer than a frame may be")
        if size + len(record) > most and begin < index:
            yield begin, index, size
            begin, size = index, _HEAD_BYTES
        size += len(record)
    if begin < len(records):
        yield begin, len(records), size
