"""The trials of `benchmarks/policy.py`: groups, networks, and phases of load one after the other.

Those of `LOOKED_AT` were made by hand, and what `auto` observes was tuned while looking at them. Those of `DRAWN` were drawn from
five seeds and held out at first, eight each; then links were made to repeat sooner for what the first and the third had shown,
`auto` to decide sooner and for less for what the first two had, and to count losses with their packets when the fourth had been
seen; switches were made shorter after the fifth. Those of `HELD_OUT` are drawn from another seed, which was fixed before any of
them was run: nothing was set by their results. `drawn` with other seeds makes more of the same kind to tune with.
"""

from __future__ import annotations

from math import exp, log
from random import Random
from typing import Final, NamedTuple

from cells import member

from isotone.sim.rand import between, chance, pick, sample, stream


class Load(NamedTuple):
    """What is sent in a phase: messages a second of the whole group, and whose share of them is how large.

    Who is not named shares the rest evenly with others that are not named; without names all send alike.
    """

    seconds: int
    per_second: float
    shares: tuple[tuple[int, float], ...] = ()
    delay_ms: float = 0
    """Of the network from here on; 0 for no change."""
    loss: float | None = None
    """Of the network from here on; None for no change."""

    def told(self) -> str:
        """In words."""
        rate = f"{self.per_second:g}/s"
        who = ", ".join(f"{share:.0%} from {member(rank)}" for rank, share in self.shares) or "even"
        changes = [f", delays now {self.delay_ms:g} ms"] if self.delay_ms else []
        changes += [f", loss now {100 * self.loss:g} %"] if self.loss is not None else []
        return f"{who}, {rate}" + "".join(changes)

    def busiest(self) -> int | None:
        """The member that sends most, if there is one."""
        return max(self.shares, key=lambda entry: entry[1])[0] if self.shares else None


class Trial(NamedTuple):
    """A group, its network, and what it goes through."""

    name: str
    members: int
    delay_ms: float
    loss: float
    loads: tuple[Load, ...]

    def told(self) -> str:
        """In words."""
        loss = f", {100 * self.loss:g} % of the packets lost" if self.loss else ""
        return f"{self.members} members, delays of {self.delay_ms:g} ms ± 30 %{loss}"


LOOKED_AT: Final = (
    Trial("office", 7, 1.5, 0, (Load(20, 40), Load(20, 60, ((5, 1.0),)), Load(20, 60, ((2, 0.65),)), Load(20, 6))),
    Trial("continents", 4, 50, 0, (Load(20, 240), Load(20, 60, ((3, 0.9),)), Load(20, 5), Load(20, 40, ((1, 0.5), (2, 0.5))))),
    Trial("a hot member that moves", 6, 12, 0, tuple(Load(15, 50, ((rank, 0.75),)) for rank in (4, 1, 5, 0))),
    Trial(
        "a network that slows down",
        7,
        2,
        0,
        (Load(20, 150), Load(20, 150, (), 60), Load(20, 25, ((3, 0.8),)), Load(20, 150, (), 2)),
    ),
    Trial("lossy", 4, 25, 0.01, (Load(30, 40), Load(30, 40, ((2, 1.0),)), Load(30, 40, ((1, 0.45), (3, 0.45))))),
    Trial(
        "a network that turns lossy",
        4,
        40,
        0,
        (Load(20, 200), Load(30, 200, loss=0.015), Load(30, 25, ((3, 0.7),)), Load(30, 200, loss=0)),
    ),
    Trial("a large group", 12, 15, 0, (Load(10, 120), Load(10, 30, ((7, 0.9),)), Load(10, 120, (), 110))),
)


class _Weather(NamedTuple):
    """In which phases packets get lost."""

    name: str
    lossy: tuple[bool, ...]


_WEATHERS: Final = (
    _Weather("without loss", (False, False, False, False)),
    _Weather("loss begins", (False, True, True)),
    _Weather("loss ends", (True, False, False)),
    _Weather("loss comes and goes", (False, True, False, False)),
)


def _geometric(rng: Random, low: float, high: float) -> float:
    """A number whose logarithm is anywhere between, with two digits."""
    return float(f"{exp(log(low) + rng.random() * (log(high) - log(low))):.2g}")


def _shares(rng: Random, members: int) -> tuple[tuple[int, float], ...]:
    """All alike, one that sends much, or two."""
    busy = pick(rng, (0, 1, 1, 2))
    least, most = {0: (0, 0), 1: (40, 100), 2: (30, 50)}[busy]
    return tuple((rank, between(rng, least, most) / 100) for rank in sample(rng, range(members), busy))


def drawn(name: str, seed: int, count: int, first: int = 1) -> tuple[Trial, ...]:
    """Trials at random, one of every kind of weather in turn. What changes is the loss alone, the load alone, or both.

    Where packets get lost, or where that has just ended, enough is sent that a phase sees more than a few losses: with few of
    them the mean of a phase is chance.
    """
    trials = []
    for index in range(count):
        rng = stream(seed, "trial", index)
        weather = _WEATHERS[index % len(_WEATHERS)]
        members = between(rng, 3, 10)
        delay_ms = _geometric(rng, 1, 100)
        loss = between(rng, 5, 30) / 1_000
        loads: list[Load] = []
        for phase, lossy in enumerate(weather.lossy):
            changed = phase > 0 and lossy != weather.lossy[phase - 1]
            now = (loss if lossy else 0) if changed else None
            seconds = between(rng, 20, 30)
            least = 30 if lossy or changed else 4
            rate, shares = _geometric(rng, least, 1_200 / members), _shares(rng, members)
            if changed and chance(rng, 0.5) and loads[-1].per_second >= least:
                rate, shares = loads[-1].per_second, loads[-1].shares
            slower = _geometric(rng, 1, 100) if phase and not changed and chance(rng, 0.25) else 0
            loads.append(Load(seconds, rate, shares, slower, now))
        trials.append(
            Trial(f"{name} {first + index}: {weather.name}", members, delay_ms, loss if weather.lossy[0] else 0, tuple(loads))
        )
    return tuple(trials)


DRAWN: Final = (
    *drawn("drawn", 20260711, 8),
    *drawn("drawn", 20261118, 8, first=9),
    *drawn("drawn", 20261205, 8, first=17),
    *drawn("drawn", 20261218, 8, first=25),
    *drawn("drawn", 20261219, 8, first=33),
)
HELD_OUT: Final = drawn("held out", 20261220, 8)
