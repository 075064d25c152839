"""Two-level storms for the swarm: members that flap between soft suspicion and trust, while the hard threshold is far away.

Only drawn for orders with a core (`token`), from a stream of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from isotone.model.view import Level
from isotone.sim import faults
from isotone.sim.faults import AnyFault
from isotone.sim.rand import between, chance, pick, sample, stream


class Flapping:
    """What a seed draws beyond the common storm; `rough` seeds have a hard threshold many times the soft one."""

    def __init__(self, seed: int, level: Level, timing: dict[str, float]) -> None:
        self.rng: Random = stream(seed, "flapping")
        self.level = level
        self.timing = timing
        self.rough = chance(self.rng, 0.7)
        if self.rough:
            soft = int(timing["soft_ms"])
            hard = min(4_000, soft * between(self.rng, 4, 12))
            self.timing = {**timing, "hard_ms": max(hard, soft), "closed_ms": max(hard, soft)}
            if chance(self.rng, 0.8):
                self.level = "k"
        self.k = between(self.rng, 2, 5)
        self.limits = {"keep_casts": between(self.rng, 1, 40)} if self.rough and chance(self.rng, 0.3) else {}

    def faults(self, members: Sequence[str], begin_ms: float, end_ms: float) -> list[AnyFault]:
        """Pauses, cuts in one direction or both, and crashes, most of them shorter than the hard threshold."""
        rng, result = self.rng, list[AnyFault]()
        if not self.rough:
            return result
        soft, hard = self.timing["soft_ms"], self.timing["hard_ms"]
        flaky = sample(rng, list(members), between(rng, 1, max(1, len(members) // 2)))
        for _ in range(between(rng, 1, 12)):
            at = begin_ms + (end_ms - 200 - begin_ms) * rng.random()  # a crash takes its time, and must not follow the healing
            long = soft + (hard - soft) * rng.random() * 0.9
            who = pick(rng, flaky)
            kind = pick(rng, ("pause", "pause", "cut", "apart", "crash"))
            if kind == "pause":
                result.append(faults.Pause(at_ms=at, who=who, for_ms=long))
                continue
            if kind == "crash":
                if chance(rng, 0.3):
                    result.append(faults.Crash(at_ms=at, who=who, during="prefix", silent=chance(rng, 0.5)))
                    result.append(faults.Join(at_ms=min(end_ms, at + 2 * hard), who=who))
                continue
            others = sample(rng, list(members), between(rng, 1, len(members)))
            both = kind == "apart"
            result.append(faults.Cut(at_ms=at, source=who, target=others, both=both))
            until = min(end_ms, at + long)
            result.append(faults.Heal(at_ms=until, source=who, target=others))
            if both:
                result.append(faults.Heal(at_ms=until, source=others, target=who))
        return result
