"""How long a packet travels: distributions of one-way delays, described by data and drawn as integer nanoseconds.

The arithmetic uses `+ - * /` and `math.log` only. The exponential function is summed here, since the last bit of a
library's may differ from one platform to another and one differing nanosecond would change a whole run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import msgspec

from isotone.model.errors import ConfigError

MS = 1_000_000
_LN2 = 0.6931471805599453
_TERMS = 14


def nanoseconds(milliseconds: float) -> int:
    """Milliseconds of a scenario as integer nanoseconds."""
    if not math.isfinite(milliseconds):
        raise ConfigError(f"{milliseconds} ms: a time must be a finite number")
    return round(milliseconds * MS)


def exponential_function(x: float) -> float:
    """e to the x, by a power series within half a factor of two; the same bits everywhere."""
    halvings = math.floor(x / _LN2 + 0.5)
    rest = x - halvings * _LN2
    total = 1.0
    for term in range(_TERMS, 0, -1):
        total = 1.0 + total * rest / term
    return math.ldexp(total, halvings)


class Constant(msgspec.Struct, frozen=True, tag_field="kind", tag="constant"):
    """Always `ms`."""

    ms: float = 1.0


class Uniform(msgspec.Struct, frozen=True, tag_field="kind", tag="uniform"):
    """Every delay from `min_ms` to `max_ms` is as likely as any other."""

    min_ms: float
    max_ms: float


class Exponential(msgspec.Struct, frozen=True, tag_field="kind", tag="exponential"):
    """`min_ms` (the floor) plus an exponentially distributed delay of mean `mean_ms`."""

    min_ms: float
    mean_ms: float


class Heavy(msgspec.Struct, frozen=True, tag_field="kind", tag="heavy"):
    """`min_ms` plus a log-logistic delay: a body like a lognormal one's, a tail that falls like a power of the delay.

    Half of the packets have an extra delay below `median_ms`; the smaller `shape`, the heavier the tail (the share of
    packets later than x times the median is about 1 / x ** shape). `max_ms` cuts the extra delay off.
    """

    median_ms: float
    min_ms: float = 0.0
    shape: float = 2.0
    max_ms: float = 1_000.0


Latency = Constant | Uniform | Exponential | Heavy


def check_latency(latency: Latency) -> None:
    """Raise `ConfigError` unless the numbers make sense."""
    for name in latency.__struct_fields__:
        if getattr(latency, name) < 0:
            raise ConfigError(f"latency {name} must not be negative")
    if isinstance(latency, Uniform) and latency.max_ms < latency.min_ms:
        raise ConfigError("latency max_ms must not be below min_ms")
    if isinstance(latency, Heavy) and latency.shape <= 0:
        raise ConfigError("latency shape must be positive")


def constant_ns(latency: Latency) -> int | None:
    """The delay if it is always the same, else None."""
    return nanoseconds(latency.ms) if isinstance(latency, Constant) else None


def sampler(latency: Latency, rng: Random) -> Callable[[], int]:
    """A function that draws one delay after another."""
    draw = rng.random
    if isinstance(latency, Constant):
        fixed = nanoseconds(latency.ms)
        return lambda: fixed
    if isinstance(latency, Uniform):
        low = nanoseconds(latency.min_ms)
        width = nanoseconds(latency.max_ms) - low + 1
        return lambda: low + int(draw() * width)
    floor = nanoseconds(latency.min_ms)
    if isinstance(latency, Exponential):
        mean = latency.mean_ms * MS
        log = math.log
        return lambda: floor - int(log(1.0 - draw()) * mean)
    median, power, most = latency.median_ms * MS, 1.0 / latency.shape, latency.max_ms * MS

    def heavy() -> int:
        u = draw()
        if u <= 0.0:
            return floor
        return floor + int(min(most, median * exponential_function(power * math.log(u / (1.0 - u)))))

    return heavy
