"""The header of a frame as the documentation has it, apart from the code: for headers that `frame` would not make."""

from __future__ import annotations

import struct


def head(length: int, crc: int = 0) -> bytes:
    """A header that says `length`, with a check of it that is right, and says `crc` of the body."""
    return struct.pack(">IHI", length, (length * 40_503 + 18_771) % 65_521, crc)
