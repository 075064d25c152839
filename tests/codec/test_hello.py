"""The handshake is understood across versions, as far as it says which version it is."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.codec import (
    BYE_FIRST_BYTE,
    HELLO_BYTES,
    WIRE_VERSION,
    Bye,
    Hello,
    Refused,
    decode_bye,
    decode_hello,
    encode_bye,
    encode_hello,
    encode_packet,
)
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Packet

HELLO = Hello(WIRE_VERSION, "g", "a#1", "127.0.0.1:7001", 1024, 65536)


def test_hello_and_bye_come_out_as_they_went_in() -> None:
    assert decode_hello(encode_hello(HELLO)) == HELLO
    assert decode_hello(encode_bye("no\nroom")) == Bye("no room")
    assert decode_bye(encode_bye("no room")) == Bye("no room")
    assert len(encode_bye("x" * 10_000)) < HELLO_BYTES


def test_a_bye_is_no_packet() -> None:
    assert encode_bye("x")[0] == BYE_FIRST_BYTE
    assert encode_packet(Packet(1, "a#1", 1, 1, [], []))[0] != BYE_FIRST_BYTE


@pytest.mark.parametrize(
    "later",
    [
        ["isotone", 2],
        ["isotone", 2, {"all": "different"}, 7],
        ["isotone", 99, "g", "a#1", "127.0.0.1:7001", 1024, 65536, "more"],
    ],
)
def test_another_version_is_recognised_whatever_follows_it(later: list[object]) -> None:
    with pytest.raises(Refused, match=r"wire version \d+, this process speaks version 1"):
        decode_hello(msgspec.msgpack.encode(later))


def test_a_later_revision_may_add_fields() -> None:
    assert decode_hello(msgspec.msgpack.encode(["isotone", 1, "g", "a#1", "127.0.0.1:7001", 1024, 65536, "new"])) == HELLO


@pytest.mark.parametrize(
    "wrong",
    [
        ["isotone", 1, "", "a#1", "x:1", 1024, 65536],
        ["isotone", 1, "g" * 300, "a#1", "x:1", 1024, 65536],
        ["isotone", 1, "g", "a", "x:1", 1024, 65536],
        ["isotone", 1, "g", "a#1", "", 1024, 65536],
        ["isotone", 1, "g", "a#1", "x:1", 0, 65536],
        ["isotone", 1, "g", "a#1", "x:1", 1024, 10],
        ["isotone", "1"],
        ["other", 1, "g"],
        {"isotone": 1},
        [],
    ],
)
def test_what_is_no_hello(wrong: object) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_hello(msgspec.msgpack.encode(wrong))


@given(st.binary(max_size=100))
def test_any_bytes_give_a_handshake_or_a_remote_error(body: bytes) -> None:
    for decode in (decode_hello, decode_bye):
        with suppress(RemoteProtocolError):
            decode(body)
