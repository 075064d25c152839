"""Frames are cut out of any sequence of reads, with work linear in the bytes; wrong lengths end the connection."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.codec import FRAME_BYTES, FrameDecoder, frame
from isotone.model.errors import RemoteProtocolError
from tests.codec.wire import head


def read(decoder: FrameDecoder, data: bytes, step: int) -> list[bytes]:
    """As a transport does it: into the decoder's own buffer, at most `step` bytes at a time."""
    found = []
    while data:
        room = decoder.get_buffer()
        count = min(len(room), len(data), step)
        assert count > 0
        room[:count] = data[:count]
        found += [bytes(body) for body in decoder.received(count)]
        data = data[count:]
    return found


@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=20), st.integers(1, 3000))
def test_bodies_come_out_whatever_the_reads_are(bodies: list[bytes], step: int) -> None:
    decoder = FrameDecoder()
    assert read(decoder, b"".join(map(frame, bodies)), step) == bodies
    assert decoder.pending == 0


@pytest.mark.parametrize("size", [65_525, 65_526, 65_536, 524_288, 3_000_000])
def test_frames_longer_than_the_buffer(size: int) -> None:
    bodies = [b"a" * size, b"b", b"c" * size]
    assert read(FrameDecoder(), b"".join(map(frame, bodies)), 70_001) == bodies


def test_one_long_frame_in_small_reads_is_not_copied_again_and_again() -> None:
    data = frame(bytes(8_000_000))
    decoder, view, began = FrameDecoder(), memoryview(frame(bytes(8_000_000))), time.process_time()
    found = 0
    for at in range(0, len(data), 4000):
        room = decoder.get_buffer()
        piece = view[at : at + 4000]
        room[: len(piece)] = piece
        found += sum(1 for _ in decoder.received(len(piece)))
    assert found == 1
    assert time.process_time() - began < 2  # copying it all for each of 2,000 reads would take longer


def test_the_buffer_shrinks_after_a_long_frame() -> None:
    decoder = FrameDecoder()
    assert read(decoder, frame(bytes(5_000_000)), 100_000) == [bytes(5_000_000)]
    assert len(decoder.get_buffer()) < 2_000_000


@pytest.mark.parametrize("length", [0, 101, 2**32 - 1])
def test_a_length_outside_the_limits(length: int) -> None:
    decoder = FrameDecoder(limit=100)
    with pytest.raises(RemoteProtocolError, match=f"frame of {length} bytes: must have 1 to 100"):
        list(decoder.feed(head(length) + b"x"))


def test_a_length_outside_the_limits_in_one_read() -> None:
    decoder, data = FrameDecoder(limit=100), frame(bytes(101))
    decoder.get_buffer()[: len(data)] = data
    assert decoder.only(len(data)) is None
    with pytest.raises(RemoteProtocolError, match="frame of 101 bytes: must have 1 to 100"):
        list(decoder.received(0))


def test_the_limit_may_change_between_two_frames() -> None:
    decoder = FrameDecoder(limit=10)
    bodies = decoder.feed(frame(b"short") + frame(b"x" * 100))
    assert bytes(next(bodies)) == b"short"
    decoder.limit = FRAME_BYTES
    assert bytes(next(bodies)) == b"x" * 100


@given(st.binary(max_size=400), st.integers(1, 50))
def test_garbage_gives_bodies_or_a_remote_error(data: bytes, step: int) -> None:
    with suppress(RemoteProtocolError):
        read(FrameDecoder(limit=4096), data, step)
