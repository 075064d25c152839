"""Randomness of the simulator: one stream per purpose, each made from the run's seed and the purpose's name.

Streams are `random.Random` seeded with an integer, of which only `random()` and `getrandbits` are used: Python promises
that their sequences stay the same from version to version. The integer is a BLAKE2 hash of the seed and the names, so
that nothing depends on `PYTHONHASHSEED`, and a draw for one purpose never shifts the draws for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def derive(seed: int, *names: object) -> int:
    """A 64-bit seed for the purpose that `names` spell out."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def stream(seed: int, *names: object) -> Random:
    """The stream of random numbers for one purpose."""
    return Random(derive(seed, *names))


def below(rng: Random, bound: int) -> int:
    """An integer in [0, bound), each as likely as any other."""
    bits = bound.bit_length()
    value = rng.getrandbits(bits)
    while value >= bound:
        value = rng.getrandbits(bits)
    return value


def between(rng: Random, low: int, high: int) -> int:
    """An integer in [low, high]."""
    return low + below(rng, high - low + 1)


def chance(rng: Random, probability: float) -> bool:
    """True with the given probability."""
    return rng.random() < probability


def pick(rng: Random, choices: Sequence[T]) -> T:
    """One of the choices."""
    return choices[below(rng, len(choices))]


def shuffled(rng: Random, values: Sequence[T]) -> list[T]:
    """The values in a random order (Fisher and Yates)."""
    result = list(values)
    for last in range(len(result) - 1, 0, -1):
        other = below(rng, last + 1)
        result[last], result[other] = result[other], result[last]
    return result


def sample(rng: Random, values: Sequence[T], count: int) -> list[T]:
    """`count` different ones of the values, in the order in which they stand."""
    chosen = sorted(shuffled(rng, range(len(values)))[:count])
    return [values[index] for index in chosen]
