"""What the name of an orderer in the `protocol` column promises, as far as the choice of checks depends on it."""

import re
from collections.abc import Collection, Iterable
from enum import IntEnum

from isotone.model.conflicts import named


class Strength(IntEnum):
    """From weak to strong. A semantic order is weaker than any incidental one: it orders conflicting messages only."""

    SEMANTIC = 0
    FIFO = 1
    CAUSAL = 2
    TOTAL = 3


def strength(protocol: str) -> Strength:
    """`fifo` and `causal` are what they say, also inside a wrapper; `semantic…` anywhere weakens; the rest is total."""
    if any(word.startswith("semantic") for word in _words(protocol)):
        return Strength.SEMANTIC
    return strength_of_conflicting(protocol)


def strength_of_conflicting(protocol: str) -> Strength:
    """What holds among conflicting messages: `semantic_causal` and `semantic(causal)` are causal, and so on."""
    words = {word.removeprefix("semantic_") for word in _words(protocol)}
    if "fifo" in words:
        return Strength.FIFO
    return Strength.CAUSAL if "causal" in words else Strength.TOTAL


def promised(protocols: Iterable[str], relations: Collection[str]) -> set[str]:
    """Protocols by what they promise: where all conflict relations that a trace names are of everything, the plain order."""
    if not relations or any(text != named(None) for text in relations):
        return set(protocols)
    return {protocol.replace("semantic_", "") for protocol in protocols}


def _words(protocol: str) -> list[str]:
    return re.split(r"[^a-z0-9_]+", protocol.lower())


def weakest(protocols: Iterable[str]) -> Strength:
    """What a history promises as a whole; a log that names no protocol is held to everything."""
    return min(map(strength, protocols), default=Strength.TOTAL)


def weakest_of_conflicting(protocols: Iterable[str]) -> Strength:
    """What a history promises as a whole for messages that conflict."""
    return min(map(strength_of_conflicting, protocols), default=Strength.TOTAL)
