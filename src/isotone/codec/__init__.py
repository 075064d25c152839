"""The wire: frames, packets and the handshake, versioned. Garbage becomes `RemoteProtocolError`, nothing else."""

from isotone.codec.frames import FRAME_BYTES, FrameDecoder, frame
from isotone.codec.hello import (
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
)
from isotone.codec.packets import PacketEncoder, decode_packet, encode_packet

__all__ = [
    "BYE_FIRST_BYTE",
    "FRAME_BYTES",
    "HELLO_BYTES",
    "WIRE_VERSION",
    "Bye",
    "FrameDecoder",
    "Hello",
    "PacketEncoder",
    "Refused",
    "decode_bye",
    "decode_hello",
    "decode_packet",
    "encode_bye",
    "encode_hello",
    "encode_packet",
    "frame",
]
