"""What is not as it was sent is noticed: a length before anything is waited for, a body before it is handed out."""

from __future__ import annotations

import itertools
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.codec import FrameDecoder, Hello, PacketEncoder, encode_hello, encode_packet, frame
from isotone.codec.frames import CHECKED_BYTES, HEADER_BYTES, check_body, header, open_header
from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ViewId
from isotone.model.records import Cast, Packet, Ready
from tests.codec.test_frames import read
from tests.codec.wire import head

SMALL = [
    b"x",
    b"\0" * 7,
    encode_hello(Hello(1, "test", "a#1", "127.0.0.1:7001", 1024, 1 << 20)),
    encode_packet(Packet(3, "a#1", 17, 16, [Cast(1, 0, [1], 1, [b"hello"])], [])),
    encode_packet(Packet(3, "a#1", 18, 300, [], [])),
]
LENGTHS = [1, 2, 59, 255, 256, 4096, 65_521, 70_000, 524_288, (1 << 24) - 1, 1 << 24]


def changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes((value,)) + data[at + 1 :]


def taken_at_once(data: bytes) -> list[bytes]:
    """As a connection does it with what one read brought."""
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    body = decoder.only(len(data))
    return [bytes(body)] if body is not None else [bytes(body) for body in decoder.received(0)]


def noticed(data: bytes, *, step: int = 1 << 20) -> bool:
    """Whether a damaged frame is refused as one, whichever way it comes in."""
    for take in (taken_at_once, lambda data: read(FrameDecoder(), data, step)):
        said = ""
        try:
            take(data)
        except RemoteProtocolError as error:
            said = str(error)
        assert "\n" not in said
        if not said.startswith("frame damaged: "):
            return False
    return True


def test_the_header() -> None:
    assert frame(b"abc") == bytes.fromhex("00000003 2416 352441c2") + b"abc"
    assert all(frame(bytes(n)) == head(n, zlib.crc32(bytes(n)[:8192])) + bytes(n) for n in (1, 60, 8191, 8192, 8193, 70_000))


@pytest.mark.parametrize("body", SMALL)
def test_every_change_of_one_byte_is_noticed(body: bytes) -> None:
    data = frame(body)
    assert taken_at_once(data) == [body]
    for at, value in itertools.product(range(len(data)), range(256)):
        assert data[at] == value or noticed(changed(data, at, value)), (at, value)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8), st.integers(1, 400), st.data())
def test_what_comes_before_the_damage_comes_out_and_nothing_else(bodies: list[bytes], step: int, chosen: st.DataObject) -> None:
    data = b"".join(map(frame, bodies))
    at = chosen.draw(st.integers(0, len(data) - 1))
    damaged = changed(data, at, data[at] ^ chosen.draw(st.integers(1, 255)))
    decoder, found = FrameDecoder(), []
    pieces = [damaged[begin : begin + step] for begin in range(0, len(damaged), step)]
    with pytest.raises(RemoteProtocolError, match=r"^frame damaged: "):
        found.extend(bytes(body) for piece in pieces for body in decoder.feed(piece))
    whole = [end for end in itertools.accumulate(len(frame(body)) for body in bodies) if end <= at]
    assert found == bodies[: len(whole)]


@pytest.mark.parametrize("size", [CHECKED_BYTES - 1, CHECKED_BYTES, CHECKED_BYTES + 1, 60_000])
def test_damage_of_the_beginning_of_a_long_frame(size: int) -> None:
    body = random.Random(size).randbytes(size)
    data = frame(body)
    end = HEADER_BYTES + min(size, CHECKED_BYTES)
    for at in [*range(HEADER_BYTES + 3), *range(200, end, 997), end - 2, end - 1]:
        assert noticed(changed(data, at, data[at] ^ 0x10), step=30_000), at
    if end < len(data):  # what is behind that is TCP's business
        assert not noticed(changed(data, end, data[end] ^ 0x10))


@pytest.mark.parametrize("length", LENGTHS)
def test_damage_of_the_length_is_noticed_as_soon_as_the_header_is_there(length: int) -> None:
    data = head(length, 12_345)
    decoder = FrameDecoder(limit=2**32 - 1)
    assert list(decoder.feed(data)) == []
    for at, value in itertools.product(range(6), range(256)):
        if data[at] != value:
            with pytest.raises(RemoteProtocolError, match=r"^frame damaged: it begins with"):
                list(FrameDecoder(limit=2**32 - 1).feed(changed(data, at, value)))


@pytest.mark.parametrize("length", LENGTHS)
def test_any_two_bits_of_a_length_and_its_check(length: int) -> None:
    told = int.from_bytes(head(length)[:6], "big")
    for one, other in itertools.combinations(range(48), 2):
        data = (told ^ 1 << one ^ 1 << other).to_bytes(6, "big") + b"\0\0\0\0"
        with pytest.raises(RemoteProtocolError, match=r"^frame damaged: "):
            open_header(data, 0, 2**32 - 1)


@pytest.mark.parametrize(
    "data",
    [bytes(10), b"\xff" * 10, b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"HTTP/1.1 400 Bad Request", b"SSH-2.0-OpenSSH_9.2",
     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", b"hello hello", (59).to_bytes(4, "big") + b"\x96\xa7isotone\x01"],
)  # fmt: skip
def test_who_knows_no_frames_is_told_what_came(data: bytes) -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(data[:9])) == []
    with pytest.raises(RemoteProtocolError) as caught:
        list(decoder.feed(data[9:]))
    assert str(caught.value) == f"frame damaged: it begins with {data[:10]!r}, where a length and its check should be"


def test_a_length_that_is_noticed_at_once_is_not_waited_for() -> None:
    """What used to make a connection mute for ever: a length too large, but within the limit."""
    data = frame(SMALL[3])
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = changed(data, 1, 0x40)
    assert decoder.only(len(data)) is None
    with pytest.raises(RemoteProtocolError, match=r"^frame damaged: "):
        list(decoder.received(0))


@pytest.mark.parametrize("body", [SMALL[2], bytes(range(256)) * 40])
def test_byte_by_byte(body: bytes) -> None:
    assert read(FrameDecoder(), frame(body) * 3, 1) == [body] * 3
    decoder = FrameDecoder()
    assert [bytes(got) for at in frame(body) * 2 for got in decoder.feed(bytes((at,)))] == [body] * 2


@given(st.lists(st.sampled_from([0, 1, 90, 4000, 8191, 8192, 9000]), min_size=1, max_size=8), st.integers(0, 99))
def test_a_frame_of_several_buffers_is_a_frame(sizes: list[int], seed: int) -> None:
    source = random.Random(seed)
    parts = [source.randbytes(size) for size in sizes]
    body = b"".join(parts)
    assert header(parts[0], parts[1:]) + body == frame(body)


@pytest.mark.parametrize("sizes", [[9000], [3000, 5000, 9000], [20_000, 100], [8000, 150, 70, 5], [500] * 40])
def test_a_packet_of_several_buffers_is_a_frame(sizes: list[int]) -> None:
    source = random.Random(7)
    casts = [Cast(n, 0, [n], n, [source.randbytes(size)]) for n, size in enumerate(sizes, 1)]
    packet = Packet(3, "a#1", 17, 16, list(casts), [Ready(ViewId(3, "a#1"))])
    [made] = PacketEncoder().frames(packet)
    assert len(made) > 2
    data = b"".join(made)
    assert data == frame(encode_packet(packet))
    for at in (HEADER_BYTES, HEADER_BYTES + 20, HEADER_BYTES + 4000, HEADER_BYTES + CHECKED_BYTES - 1):
        assert noticed(changed(data, at, data[at] ^ 1))


def test_opening_a_header_by_hand() -> None:
    data = b"??" + frame(b"body")
    length, crc = open_header(data, 2, 4)
    assert length == 4
    check_body(b"body", crc)
    with pytest.raises(RemoteProtocolError, match=r"^frame damaged: a body of 4 bytes does not match its check$"):
        check_body(b"bodz", crc)
    with pytest.raises(RemoteProtocolError, match=r"^frame of 4 bytes: must have 1 to 3$"):
        open_header(data, 2, 3)
    with pytest.raises(struct.error):
        open_header(data, len(data) - 5, 4)
