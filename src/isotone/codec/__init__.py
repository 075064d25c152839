"""The wire: frames, packets and the handshake, versioned. Garbage becomes `RemoteProtocolError`, nothing else."""

from isotone.codec.frames import FRAME_BYTES, FrameDecoder, frame
from isotone.codec.hello import (
    BYE_FIRST_BYTE,
    HELLO_BYTES,
    WIRE_VERSION,
    Bye,
    Hello,
    Refused,
    decode_answer,
    decode_bye,
    decode_hello,
    encode_bye,
    encode_hello,
)
from isotone.codec.packets import PacketEncoder, decode_packet, encode_packet
from isotone.codec.probe import (
    ANSWER_BYTES,
    Answer,
    Declined,
    Probe,
    StatusTold,
    StatusWanted,
    SwitchTold,
    SwitchWanted,
    encode_answer,
    encode_probe,
)

__all__ = [
    "ANSWER_BYTES",
    "BYE_FIRST_BYTE",
    "FRAME_BYTES",
    "HELLO_BYTES",
    "WIRE_VERSION",
    "Answer",
    "Bye",
    "Declined",
    "FrameDecoder",
    "Hello",
    "PacketEncoder",
    "Probe",
    "Refused",
    "StatusTold",
    "StatusWanted",
    "SwitchTold",
    "SwitchWanted",
    "decode_answer",
    "decode_bye",
    "decode_hello",
    "decode_packet",
    "encode_answer",
    "encode_bye",
    "encode_hello",
    "encode_packet",
    "encode_probe",
    "frame",
]
