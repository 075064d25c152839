"""Mean latencies of orderers over group size, skew, rate, delay and loss; and what they are between the measured points.

The packaged `table.json` is what `isotone learn` makes of the sweep `experiments/policy.toml` (docs/policy.md). Between two
points of an axis the logarithm of the latency is a straight line over the logarithm of rate, delay and group size, and over
the skew as it is; over loss the latency itself is one, since every loss adds its wait. Beyond the ends of an axis it stays what
it is at the end, but for a skew below 0, which goes on as it begins. Logarithms are integers (`log2`), so that a prediction is
the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Final

import msgspec

from isotone.model.errors import ConfigError
from isotone.protocol.switching.observe import Observation

AXES: Final = ("members", "skew", "per_second", "delay_us", "loss")
"""Skew and loss in thousandths; the rate and the skew are those of batches."""
OCTAVE: Final = 4096
_ONE: Final = 1024
_SKEW_LEAST: Final = -500


def log2(number: int) -> int:
    """`OCTAVE` times the binary logarithm, by straight lines between the powers of two; for numbers from 1 on."""
    bits = number.bit_length() - 1
    return bits * OCTAVE + ((number * OCTAVE) >> bits) - OCTAVE


def exp2(logarithm: int) -> int:
    """The number of that `log2`, rounded down."""
    bits, rest = divmod(logarithm, OCTAVE)
    return ((OCTAVE + rest) << bits) // OCTAVE if bits >= 0 else 0


def _plain(number: int) -> int:
    return number


_SCALES: Final[dict[str, Callable[[int], int]]] = {
    "members": log2, "skew": _plain, "per_second": lambda rate: log2(1 + 1_000 * rate),
    "delay_us": lambda delay: log2(1 + 1_000 * delay), "loss": _plain,
}  # fmt: skip


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`orders` has, for each orderer, mean latencies in microseconds, the last axis running fastest."""

    axes: dict[str, list[int]]
    orders: dict[str, list[int]]
    description: str = ""

    def __post_init__(self) -> None:
        if tuple(self.axes) != AXES:
            raise ConfigError(f"axes are {', '.join(self.axes) or 'missing'}: must be {', '.join(AXES)}")
        for name, axis in self.axes.items():
            least = 0 if name in ("skew", "loss") else 1
            if len(axis) < 2 or axis[0] < least or any(one >= other for one, other in pairwise(axis)):
                raise ConfigError(f"axis {name} is {axis}: must be two or more growing numbers from {least} on")
        if not self.orders:
            raise ConfigError("orders are missing")
        cells = prod(len(axis) for axis in self.axes.values())
        for order, latencies in self.orders.items():
            if len(latencies) != cells:
                raise ConfigError(f"{order} has {len(latencies)} cells: the axes span {cells}")
            if min(latencies) < 1:
                raise ConfigError(f"{order} has a latency of {min(latencies)}: must be at least 1 µs")


class Predictor:
    """A table that is asked."""

    def __init__(self, table: Table) -> None:
        self.orders = tuple(table.orders)
        self._axes = [[_SCALES[name](number) for number in axis] for name, axis in table.axes.items()]
        self._logs = {order: [log2(latency) for latency in latencies] for order, latencies in table.orders.items()}
        skew = prod(len(axis) for axis in self._axes[AXES.index("skew") + 1 :])
        cycle = skew * len(self._axes[AXES.index("skew")])
        even = {order: sum(log for index, log in enumerate(logs) if index % cycle < skew) for order, logs in self._logs.items()}
        self.safest = best(even)
        """What is good when nothing is known yet: of all points with an even load, it has the least geometric mean."""

    def latency(self, order: str, observation: Observation, skew: int) -> int:
        """The mean latency to be expected of an orderer, in microseconds."""
        place = (
            log2(observation.members), max(_SKEW_LEAST, skew), log2(1 + observation.per_1000_s), log2(1 + observation.delay_ns),
        )  # fmt: skip
        *axes, losses = self._axes
        values = self._logs[order]
        for depth, (axis, number) in enumerate(zip(axes, place, strict=True)):
            index, part = _between(axis, number, beyond=AXES[depth] == "skew")
            size = len(values) // len(axis)
            low, high = values[index * size : (index + 1) * size], values[(index + 1) * size : (index + 2) * size]
            values = [(one * (_ONE - part) + other * part) // _ONE for one, other in zip(low, high, strict=True)]
        index, part = _between(losses, observation.loss, beyond=False)
        return (exp2(values[index]) * (_ONE - part) + exp2(values[index + 1]) * part) // _ONE


def _between(axis: list[int], number: int, beyond: bool) -> tuple[int, int]:
    """After which point of an axis a number lies, and how far on the way to the next, in parts of `_ONE`."""
    number = min(number, axis[-1]) if beyond else max(axis[0], min(number, axis[-1]))
    index = max(0, min(sum(point <= number for point in axis), len(axis) - 1) - 1)
    return index, (number - axis[index]) * _ONE // (axis[index + 1] - axis[index])


def parse_table(text: bytes, source: str) -> Table:
    """A table from its JSON text; `ConfigError` says what is wrong with it."""
    try:
        return msgspec.json.decode(text, type=Table)
    except (msgspec.MsgspecError, ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: not a table of latencies: {error}") from None


def load_table(path: str | Path) -> Table:
    """Read a table that `isotone learn` has written."""
    try:
        return parse_table(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


@cache
def packaged() -> Predictor:
    """The table that comes with the library."""
    file = resources.files(__package__) / "table.json"
    return Predictor(parse_table(file.read_bytes(), "table.json"))


def best(predictions: Mapping[str, int]) -> str:
    """The order of the least latency; of equals the first by name."""
    return min(sorted(predictions), key=lambda order: predictions[order])
