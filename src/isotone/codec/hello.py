"""The handshake: both sides send `Hello` first on every connection; who refuses the other says `Bye` and hangs up.

Who is no member, and only asks something, sends a `Probe` in the place of its `Hello`.

What every version of the wire format keeps: the first frame is a msgpack array that begins with the text `isotone` and
the version (that of a probe: `probe` and the version), so that processes of different versions can tell each other so.
"""

from __future__ import annotations

import msgspec

from isotone.codec.check import well_formed
from isotone.codec.frames import DAMAGED
from isotone.codec.packets import decoding
from isotone.codec.probe import Answer, Probe
from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId

WIRE_VERSION = 1
HELLO_BYTES = 4096
"""The limit of a frame before the handshake is complete."""

BYE_FIRST_BYTE = 0x92
"""Of a frame after the handshake: it is a `Bye` and not a packet."""
_REASON_CHARACTERS = 400


class Refused(RemoteProtocolError):
    """One of the two sides cannot have the other: it speaks another version, or belongs to another group."""


class Hello(msgspec.Struct, array_like=True, tag="isotone", frozen=True):
    """Who is at this end of the connection, where it listens, and what it takes."""

    version: int
    group: str
    process: ProcessId
    address: str
    payload_bytes: int
    frame_bytes: int


class Bye(msgspec.Struct, array_like=True, tag="bye", frozen=True):
    """The last frame of a connection that its sender closes for a reason."""

    reason: str

    @property
    def refuses(self) -> bool:
        """Whether it would be no use to come again. Damage happens on the way, and the next connection may have none."""
        return not self.reason.startswith(DAMAGED)


class _Head(msgspec.Struct, array_like=True, tag="isotone"):
    """What all versions of `Hello` have in common."""

    version: int


class _ProbeHead(msgspec.Struct, array_like=True, tag="probe"):
    """What all versions of `Probe` have in common."""

    version: int


_encoder = msgspec.msgpack.Encoder()
_head = msgspec.msgpack.Decoder(_Head | _ProbeHead | Bye)
_hello = msgspec.msgpack.Decoder(Hello)
_probe = msgspec.msgpack.Decoder(Probe)
_bye = msgspec.msgpack.Decoder(Bye)
_answer = msgspec.msgpack.Decoder(Answer | Bye)


def encode_hello(hello: Hello) -> bytes:
    """The body of the first frame."""
    return _encoder.encode(hello)


def encode_bye(reason: str) -> bytes:
    """The body of the last frame; a reason is one line."""
    return _encoder.encode(Bye(" ".join(reason.split())[:_REASON_CHARACTERS]))


def decode_bye(body: memoryview | bytes) -> Bye:
    """The reason for the end of the connection."""
    with decoding("farewell"):
        bye = _bye.decode(body)
    return Bye(" ".join(bye.reason.split())[:_REASON_CHARACTERS])


def decode_hello(body: memoryview | bytes) -> Hello | Probe | Bye:
    """The first frame of a peer or a probe. Another wire version is an error that says so."""
    with decoding("handshake"):
        head = _head.decode(body)
        if isinstance(head, Bye):
            return decode_bye(body)
        if head.version != WIRE_VERSION:
            raise Refused(f"wire version {head.version}, this process speaks version {WIRE_VERSION}")
        if isinstance(head, _ProbeHead):
            return _probe.decode(body)
        hello = _hello.decode(body)
    if not well_formed(hello.process):
        raise RemoteProtocolError(f"handshake: {hello.process[:80]!r} is not a process id")
    if hello.payload_bytes < 1 or hello.frame_bytes < HELLO_BYTES:
        raise RemoteProtocolError("handshake: impossible limits")
    if not 0 < len(hello.group) <= 255 or not 0 < len(hello.address) <= 255:
        raise RemoteProtocolError("handshake: group and address must have 1 to 255 characters")
    return hello


def decode_answer(body: bytes) -> Answer | Bye:
    """What a process says to a probe."""
    with decoding("answer"):
        answer: Answer | Bye = _answer.decode(body)
    return decode_bye(body) if isinstance(answer, Bye) else answer
