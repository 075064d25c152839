"""Steele, Lea and Flood's SplitMix64: random numbers that are the same on every machine and in every version."""

from __future__ import annotations

_MASK = (1 << 64) - 1


class SplitMix64:
    """A counter with a mixing function, 64 bits at a time."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """The next 64 bits."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)
