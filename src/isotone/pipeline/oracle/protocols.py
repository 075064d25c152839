"""What the name of an orderer in the `protocol` column promises, as far as the choice of checks depends on it."""

import re
from collections.abc import Iterable
from enum import IntEnum


class Strength(IntEnum):
    """From weak to strong. A semantic order is weaker than any incidental one: it orders conflicting messages only."""

    SEMANTIC = 0
    FIFO = 1
    CAUSAL = 2
    TOTAL = 3


def strength(protocol: str) -> Strength:
    """`fifo` and `causal` are what they say, also inside a wrapper; `semantic…` anywhere weakens; the rest is total."""
    words = re.split(r"[^a-z0-9_]+", protocol.lower())
    if any(word.startswith("semantic") for word in words):
        return Strength.SEMANTIC
    if "fifo" in words:
        return Strength.FIFO
    return Strength.CAUSAL if "causal" in words else Strength.TOTAL


def weakest(protocols: Iterable[str]) -> Strength:
    """What a history promises as a whole; a log that names no protocol is held to everything."""
    return min(map(strength, protocols), default=Strength.TOTAL)
