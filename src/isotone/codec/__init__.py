"""The wire: frames, packets and the handshake, versioned. Garbage becomes `RemoteProtocolError`, nothing else."""

from isotone.codec.frames import FRAME_BYTES, FrameDecoder, frame
from isotone.codec.hello import (
    HELLO_BYTES,
    WIRE_VERSION,
    Bye,
    Hello,
    Refused,
    decode_bye,
    decode_hello,
    encode_bye,
    encode_hello,
    is_bye,
)
from isotone.codec.packets import PacketEncoder, decode_packet, encode_packet

__all__ = [
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
    "is_bye",
]
