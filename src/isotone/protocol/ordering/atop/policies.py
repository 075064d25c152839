"""The policies of paper 000: none, the book-keeper with its sliding window (§6.1), and the three that §7 suggests.

All count in a sliding window of window · members batches, in integers: the weight of a member is its count plus ε, so that none
is 0, and two distributions differ by the sum of |difference| of their shares, in thousandths (0 to 2000). They are compared
four times per window, whenever enough batches have come; without traffic nothing happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.ids import name_of
from isotone.protocol.ordering.atop.distribution import most_weight
from isotone.protocol.ordering.atop.policy import Group, Policy, register_policy
from isotone.protocol.ordering.atop.rhythm import Rhythm

DEFAULT = "bookkeeper"


def difference(one: Sequence[int], other: Sequence[int]) -> int:
    """How far two weights are apart, in thousandths of all slots."""
    total, other_total = sum(one), sum(other)
    gap = sum(abs(a * other_total - b * total) for a, b in zip(one, other, strict=True))
    return gap * 1000 // (total * other_total)


def fitted(weights: Sequence[int]) -> list[int]:
    """Weights with nearly the same proportions whose sum is allowed; each is at least 1."""
    total, most = sum(weights), most_weight(len(weights)) - len(weights)
    return [max(1, w) if total <= most else max(1, w * most // total) for w in weights]


class Static(Policy):
    """Never adapts: equal weights throughout."""

    name = "none"


class BookKeeper(Policy):
    """§6.1: the member of rank 0 keeps the window, and injects when the weights have changed by more than the threshold."""

    name = "bookkeeper"

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.window: deque[int] = deque()
        self.size = group.window * self.count
        self.counts = [0] * self.count
        self.fresh = 0  # batches since the last comparison
        self.rhythm = Rhythm(self.count)

    def observe(self, sender: int, batches: int, now: int) -> None:
        self.rhythm.heard(sender, now)
        window, counts = self.window, self.counts
        window.extend([sender] * batches)
        counts[sender] += batches
        self.fresh += batches
        while len(window) > self.size:
            counts[window.popleft()] -= 1

    def propose(self, now: int) -> Sequence[int] | None:
        if 4 * self.fresh < self.size or len(self.window) < self.size:
            return None
        self.fresh = 0
        if not self.keeps():
            return None
        weights = fitted(self.weigh())
        return weights if difference(weights, self.current) > self.group.threshold else None

    def expects(self, now: int) -> int | None:
        return self.rhythm.expects(now)

    def keeps(self) -> bool:
        """Whether this member is the book-keeper."""
        return self.group.rank == 0

    def weigh(self) -> list[int]:
        """The weights that the window suggests."""
        return [count + self.group.epsilon for count in self.counts]


class Backoff(BookKeeper):
    """§7: a member that pauses and resumes counts for half as much after each pause, until it keeps on for long enough.

    A pause is a window without a message after one with some; the last of p pauses is forgotten after 4 · 2^p windows with some.
    So a member that comes and goes no longer changes the distribution each time.
    """

    name = "backoff"
    MOST = 8

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.pauses = [0] * self.count
        self.active = [False] * self.count
        self.steady = [0] * self.count  # comparisons since the last change of activity

    def weigh(self) -> list[int]:
        for member, count in enumerate(self.counts):
            if (count > 0) != self.active[member]:
                self.active[member] = count > 0
                self.steady[member] = 0
                if not count:
                    self.pauses[member] = min(self.MOST, self.pauses[member] + 1)
            elif count and self.pauses[member]:
                self.steady[member] += 1
                if self.steady[member] >= 16 << self.pauses[member]:  # four comparisons are a window
                    self.steady[member] = 0
                    self.pauses[member] -= 1
        return [(count >> pauses) + self.group.epsilon for count, pauses in zip(self.counts, self.pauses, strict=True)]


class Patterns(BookKeeper):
    """§7: the application declares what its traffic may look like; the policy takes the pattern that is nearest.

    The option `patterns` is a list such as "a:4 b:2; c:8": one pattern after another, each with the weights of members by name;
    who is not named has weight 1. Equal weights are always a pattern. Half a window is enough to recognise one.
    """

    name = "patterns"

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.size = max(self.count, self.size // 2)
        names = [name_of(member) for member in group.members]
        self.patterns: list[tuple[int, ...]] = [(1,) * self.count]
        for pattern in parse_patterns(group.patterns):
            self.patterns.append(tuple(fitted([pattern.get(name, 1) for name in names])))

    @classmethod
    def check_patterns(cls, patterns: str) -> None:
        if not parse_patterns(patterns):
            raise ConfigError("policy 'patterns' needs the option patterns, such as \"a:4 b:2; c:8\"")

    def weigh(self) -> list[int]:
        counts = [count + self.group.epsilon for count in self.counts]
        gaps = [difference(pattern, counts) for pattern in self.patterns]
        return list(self.patterns[gaps.index(min(gaps))])


def parse_patterns(text: str) -> list[dict[str, int]]:
    """Patterns as mappings from names to weights."""
    result = []
    for part in filter(str.strip, text.split(";")):
        pattern: dict[str, int] = {}
        for entry in part.split():
            name, _, weight = entry.rpartition(":")
            if not name or name in pattern or not (weight.isascii() and weight.isdigit()) or not 1 <= int(weight) <= 4096:
                raise ConfigError(f"patterns: {entry!r} is not a new name with a weight from 1 to 4096, such as a:4")
            pattern[name] = int(weight)
        result.append(pattern)
    return result


class LeastVariance(BookKeeper):
    """§7, for wide-area networks: the member whose round trips to the others vary least keeps the books.

    While there is traffic every member sends pings at times and tells with them how much its round trips vary (a running mean of
    squared differences, in µs²). Who knows of nobody better is the book-keeper; for a while that may be two or none, which
    costs a distribution too many or a moment, and no safety.
    """

    name = "least_variance"
    PING_NS = 50_000_000
    _PING, _PONG = 0, 1
    _UNKNOWN = (1 << 60) - 1

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.ping_at = 0
        self.means = [0] * self.count
        self.squares: list[int | None] = [None] * self.count  # per peer, once two round trips are known
        self.variances = [self._UNKNOWN] * self.count

    def propose(self, now: int) -> Sequence[int] | None:
        if now >= self.ping_at:
            self.ping_at = now + self.PING_NS
            self.group.tell([self._PING, now, self.variances[self.group.rank]], None)
        return super().propose(now)

    def keeps(self) -> bool:
        return min((variance, rank) for rank, variance in enumerate(self.variances))[1] == self.group.rank

    def heard(self, sender: int, stamp: list[int], now: int) -> None:
        if len(stamp) == 3 and stamp[0] == self._PING and stamp[2] >= 0:
            self.variances[sender] = stamp[2]
            self.group.tell([self._PONG, stamp[1]], sender)
        elif len(stamp) == 2 and stamp[0] == self._PONG and 0 <= stamp[1] <= now:
            self._measured(sender, (now - stamp[1]) // 1000)
        else:
            raise RemoteProtocolError(f"malformed round trip {stamp[:4]} from rank {sender}")

    def _measured(self, peer: int, trip_us: int) -> None:
        mean = self.means[peer]
        if not mean:
            self.means[peer] = max(1, trip_us)
            return
        square = self.squares[peer]
        error = trip_us - mean
        self.squares[peer] = error * error if square is None else square + (error * error - square) // 8
        self.means[peer] = max(1, mean + error // 8)
        known = [square for square in self.squares if square is not None]
        if len(known) == self.count - 1:
            self.variances[self.group.rank] = min(self._UNKNOWN - 1, sum(known) // len(known))


for _policy in (Static, BookKeeper, Backoff, Patterns, LeastVariance):
    register_policy(_policy)
