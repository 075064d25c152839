"""Every packet round-trips, by both encoders; no bytes make the decoder raise anything but `RemoteProtocolError`."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.codec import FrameDecoder, PacketEncoder, decode_packet, encode_packet
from isotone.codec.packets import CUT_BYTES, JOIN_BELOW_BYTES
from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import InvariantViolation, RemoteProtocolError
from isotone.model.ids import ViewId
from isotone.model.records import (
    Cast,
    Cohort,
    Direct,
    Echo,
    Have,
    Heartbeat,
    Install,
    Offer,
    Packet,
    Piece,
    Plan,
    Probe,
    Ready,
    Relay,
    Seen,
    Share,
    State,
    Want,
)
from isotone.model.view import Ordering, View
from tests.codec.strategies import packets


def bodies(frames: list[list[bytes]]) -> list[bytes]:
    decoder = FrameDecoder()
    return [bytes(body) for frame in frames for body in decoder.feed(b"".join(frame))]


def decode_or_refuse(body: bytes) -> None:
    """Nothing but a packet or a one-line error of that kind may come of it."""
    refusal = ""
    try:
        assert isinstance(decode_packet(body), Packet)
    except RemoteProtocolError as error:
        refusal = str(error)
    assert "\n" not in refusal


@given(packets)
def test_a_packet_comes_out_as_it_went_in(packet: Packet) -> None:
    body = encode_packet(packet)
    assert decode_packet(body) == packet
    assert decode_packet(memoryview(body)) == packet


@given(packets)
def test_the_assembled_frame_has_the_same_bytes(packet: Packet) -> None:
    assert bodies(PacketEncoder().frames(packet)) == [encode_packet(packet)]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 70_000])
def test_array_headers_of_all_lengths(count: int) -> None:
    packet = Packet(1, "a#1", 1, 0, [Direct(1, [])] * count, [Ready(ViewId(1, "a#1"))] * (count % 100))
    assert decode_packet(b"".join(map(bytes, bodies(PacketEncoder().frames(packet))[:1]))).epoch == 1
    again = [decode_packet(body) for body in bodies(PacketEncoder().frames(packet))]
    assert [record for one in again for record in one.records] == packet.records
    assert [record for one in again for record in one.loose] == packet.loose


def test_a_record_of_several_packets_is_encoded_once() -> None:
    cast = Cast(1, 0, [1], 1, [b"x" * 50_000])
    encoder = PacketEncoder()
    frames = [encoder.frames(Packet(1, "a#1", first, 0, [cast], [])) for first in (1, 7, 9)]
    shared = {id(part) for (frame,) in frames for part in frame if len(part) > JOIN_BELOW_BYTES}
    assert len(shared) == 1
    encoder.end_turn()


def test_records_made_in_different_turns_are_not_mixed_up() -> None:
    encoder = PacketEncoder()
    for number in range(1, 200):
        packet = Packet(1, "a#1", number, 0, [Cast(number, 0, [])], [])
        assert [decode_packet(body) for body in bodies(encoder.frames(packet))] == [packet]
        encoder.end_turn()


def test_a_long_packet_is_cut_where_the_link_allows() -> None:
    casts: list[Any] = [Cast(n, 0, [n], n, [bytes([n]) * 100_000]) for n in range(1, 31)]
    packet = Packet(4, "a#1", 21, 5, casts, [Ready(ViewId(4, "a#1"))])
    frames = PacketEncoder().frames(packet)
    assert len(frames) > 3
    assert all(sum(map(len, frame)) <= CUT_BYTES + 300 for frame in frames)
    found = {}
    for body in bodies(frames):
        piece = decode_packet(body)
        assert (piece.epoch, piece.proposer, piece.ack) == (4, "a#1", 5)
        found.update({piece.first + i: record for i, record in enumerate(piece.records)})
    assert found == {21 + i: cast for i, cast in enumerate(casts)}


def test_a_record_longer_than_a_frame_is_a_bug_here() -> None:
    packet = Packet(1, "a#1", 1, 0, [Cast(1, 0, [], 1, [b"x" * 9000])], [])
    assert len(PacketEncoder().frames(packet, limit=20_000)) == 1
    with pytest.raises(InvariantViolation):
        PacketEncoder().frames(packet, limit=8000)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_packet_or_a_remote_error(body: bytes) -> None:
    decode_or_refuse(body)


@given(packets, st.randoms(use_true_random=False))
def test_damaged_packets_give_a_packet_or_a_remote_error(packet: Packet, source: random.Random) -> None:
    body = bytearray(encode_packet(packet))
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(body))
        match source.randrange(4):
            case 0:
                body[at] = source.randrange(256)
            case 1:
                body[at] ^= 1 << source.randrange(8)
            case 2:
                del body[at : at + source.randint(1, 8)]
                body = body or bytearray(b"\x90")
            case _:
                body[at:at] = source.randbytes(source.randint(1, 8))
    decode_or_refuse(bytes(body))


def related(conflicts: Conflicts) -> Packet:
    state = State(ViewId(1, "a#1"), None, [], [], [], False, Ordering("fifo", conflicts=conflicts))
    return Packet(1, "a#1", 0, 0, [], [state])


def early(places: list[tuple[int, int]], *ahead: list[tuple[int, int]]) -> Packet:
    """A state, or a plan's cohort, with early casts of two members."""
    here, who = ViewId(1, "a#1"), ["a#1", "b#1"]
    if not ahead:
        return Packet(1, "a#1", 0, 0, [], [State(here, here, who, [0, 0], [], False, Ordering("fifo"), None, places)])
    return Packet(1, "a#1", 0, 0, [], [Plan(here, [Cohort(here, who, who, [0, 0], who, [], places, list(ahead))])])


def said(count: int, types: Any = None, items: Any = None) -> Packet:
    """A cast of so many messages with these columns."""
    return Packet(1, "a#1", 1, 0, [Cast(1, 0, [], 1, [b""] * count, types, items)], [])


CROWD = View(ViewId(1, "a#1"), ("a#1",), Ordering("token", policy="x" * 5000))
BAD: list[tuple[str, Any]] = [
    (r"int. >= 0 - at .\$\[0\]", Packet(-1, "", 0, 0, [], [])),
    (r"int. >= 0 - at .\$\[2\]", Packet(0, "", -2, 0, [], [])),
    (r"int. <= .* at .\$\[3\]", Packet(0, "", 0, 2**63, [], [])),
    ("process id", Packet(1, "no id", 0, 0, [], [])),
    ("process id", Packet(1, "a#" + "9" * 400, 0, 0, [], [])),
    ("int. >= 1", Packet(1, "a#1", 1, 0, [Cast(0, 0, [])], [])),
    ("int. >= 0", Packet(1, "a#1", 1, 0, [Cast(1, -1, [])], [])),
    ("int. >= 0", Packet(1, "a#1", 1, 0, [Cast(1, 0, [], -1)], [])),
    ("types: 1 values for 0", said(0, Column(["t"]))),
    ("types: 2 values for 3", said(3, Column(["t", "u"]))),
    ("types: 2 codes for 3", said(3, Column(["t", "u"], b"\0\1"))),
    ("types: 4 codes for 3", said(3, Column(["t", "u"], b"\0\1\0\1"))),
    ("types: codes that are none of its 2", said(3, Column(["t", "u"], b"\0\1\2"))),
    ("types: codes that are none of its 1", said(3, Column(["t"], b"\0\0\0"))),
    ("types: codes that are none of its 0", said(3, Column([], b"\0\0\0"))),
    ("types: codes that are none of its 257", said(3, Column([str(one) for one in range(257)], b"\0\1\2"))),
    ("types: the same value twice", said(3, Column(["t", None, "t"], b"\0\1\2"))),
    ("types: 2 values for 0", Packet(1, "a#1", 1, 0, [Relay(0, Cast(1, 0, [], 1, [], Column(["t", "u"])))], [])),
    ("items: 0 values for 1", said(1, None, Column([]))),
    ("items: the same value twice", said(2, None, Column([("x",), ("x",)], b"\0\1"))),
    ("got `int`", said(1, None, Column([(5,)]))),
    ("int. <= ", Packet(1, "a#1", 1, 0, [Direct(1, [2**63])], [])),
    ("int. >= 0", Packet(1, "a#1", 1, 0, [Relay(-1, Cast(1, 0, []))], [])),
    ("int. >= 0", Packet(1, "a#1", 0, 0, [], [Heartbeat(ViewId(1, "a#1"), ViewId(1, "a#1"), [-1], 0, False, False, [])])),
    ("0 shares for 1", Packet(1, "a#1", 0, 0, [], [Plan(ViewId(1, "a#1"), [], ["a#1"], [])])),
    ("int. <= 2", Packet(1, "a#1", 0, 0, [], [Plan(ViewId(1, "a#1"), [], ["a#1"], [Share(3, [])])])),
    ("process id", Packet(1, "a#1", 0, 0, [], [Have(ViewId(1, "nobody"))])),
    ("digest of 17", Packet(1, "a#1", 0, 0, [], [Want(ViewId(1, "a#1"), 1, 0, 1, 0, bytes(17))])),
    ("int. >= 0", Packet(1, "a#1", 0, 0, [], [Piece(ViewId(1, "a#1"), 1, -1, b"")])),
    ("problem of 5000", Packet(1, "a#1", 0, 0, [], [Offer(ViewId(1, "a#1"), 0, "x" * 5000)])),
    ("int. >= 0", Packet(1, "a#1", 0, 0, [], [Echo(-1)])),
    ("int. >= 0", Packet(1, "a#1", 0, 0, [], [Echo(1, Seen(0, 0, -1))])),
    ("policy of 5000", Packet(1, "a#1", 0, 0, [], [Install(ViewId(1, "a#1"), CROWD, ["here"])])),
    ("addresses", Packet(1, "a#1", 0, 0, [], [Probe("", None, ViewId(0, ""), [], ["a#1"], [], False, False, False)])),
    ("conflict relation whose", related(Conflicts("operation", ("a", "b"), (("a", "b"),)))),
    ("conflict relation whose", related(Conflicts("operation", ("b", "a")))),
    ("conflict relation whose", related(Conflicts("operation", ("a",), (("a", "b"), ("b", "a"))))),
    ("conflict relation whose", related(Conflicts("item", ("a",)))),
    ("conflict relation whose", related(Conflicts("predicate"))),
    ("conflict relation whose", related(Conflicts("operation", ("a",), (), (("a", "a"),)))),
    ("word of a conflict relation of 2000", related(Conflicts("predicate", name="x" * 2000))),
    ("early casts that are not sorted", early([(1, 3), (0, 3)])),
    ("early casts that are not sorted", early([(1, 3), (1, 3)])),
    ("early casts that are not sorted", early([(2, 3)])),
    ("early casts that are not sorted", early([(0, 0)])),
    ("int. >= 0", early([(-1, 3)])),
    ("65 early casts", early([(0, seq) for seq in range(2, 67)])),
    ("65 early casts", early([], [(0, seq) for seq in range(2, 67)])),
    ("129 early casts", early([(0, seq) for seq in range(2, 131)], [])),
    ("early casts that are not sorted", early([], [(1, 3), (0, 3)])),
]


@pytest.mark.parametrize(("reason", "packet"), BAD)
def test_what_is_wrong_is_named(reason: str, packet: Packet) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_packet(msgspec.msgpack.encode(packet))
