"""Questions of a probe and their answers. A probe is no member: it asks one thing, is answered, and is hung up on.

Its first frame, in the place of `Hello`, is a msgpack array that begins with the text `probe` and the version, whatever the
version; what it wants is in the same frame, so that nothing is kept about it but its connection.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ANSWER_BYTES = 4 * 1024 * 1024
"""The limit of an answer."""


class StatusWanted(msgspec.Struct, array_like=True, tag="status", frozen=True):
    """How are you?"""


class SwitchWanted(msgspec.Struct, array_like=True, tag="switch", frozen=True):
    """Let the group order its messages in another way; what is None stays as it is, or is chosen by the group."""

    order: str
    level: str | None = None
    k: int | None = None
    options: dict[str, bool | int | str] = {}
    strategy: str | None = None
    rule: str = "all"
    fresh: bool = False


class Probe(msgspec.Struct, array_like=True, tag="probe", frozen=True):
    """The first and only frame of a probe. `group` is the group that it means to talk to."""

    version: int
    group: str
    wanted: StatusWanted | SwitchWanted


class StatusTold(msgspec.Struct, array_like=True, tag="status", frozen=True):
    """The state of a process, for people: texts, numbers, lists and maps of them."""

    status: dict[str, Any]


class SwitchTold(msgspec.Struct, array_like=True, tag="switched", frozen=True):
    """The switch is in force at the process that was asked, so many seconds after it was."""

    process: str
    view: str
    before: str
    after: str
    seconds: float


class Declined(msgspec.Struct, array_like=True, tag="declined", frozen=True):
    """No, because: `input` (the question is wrong), `closed` (this process does not take such questions), `refused` (the group
    goes on as before) or `unknown` (what was asked for has not come about, and may still)."""

    why: Literal["input", "closed", "refused", "unknown"]
    reason: str


Answer = StatusTold | SwitchTold | Declined

_encoder = msgspec.msgpack.Encoder(enc_hook=str)


def encode_probe(probe: Probe) -> bytes:
    """The body of a probe's frame."""
    return _encoder.encode(probe)


def encode_answer(answer: Answer) -> bytes:
    """The body of the frame that answers it."""
    body = _encoder.encode(answer)
    if len(body) > ANSWER_BYTES:
        return _encoder.encode(Declined("refused", f"the answer has {len(body)} bytes, more than {ANSWER_BYTES}"))
    return body
