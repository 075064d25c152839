"""The failure detector: two thresholds of silence per peer, soft and hard (paper 001 §4).

It measures its own lag first: if this process was not run when it had asked to be (a pause, a busy loop), the time that
it slept is not held against its peers. A suspicion is withdrawn as soon as the peer is heard again.
"""

from __future__ import annotations

from isotone.model.ids import ProcessId
from isotone.model.settings import Timing

SOFT = "soft"
HARD = "hard"
_FORMER = 1024


class Detector:
    """Who was heard when, and who is suspected how much."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.heard: dict[ProcessId, int] = {}
        self.levels: dict[ProcessId, str] = {}
        self._closed: dict[ProcessId, int] = {}
        self._former: dict[ProcessId, str] = {}  # suspected when they ceased to be watched
        self.expected: int | None = None  # when this process asked to be woken
        self.changes: list[tuple[ProcessId, str, bool]] = []

    def watch(self, peers: frozenset[ProcessId], now: int) -> None:
        """Watch exactly `peers`; one that is new counts as heard now."""
        for peer in [p for p in self.heard if p not in peers]:
            del self.heard[peer]
            self._closed.pop(peer, None)
            level = self.levels.pop(peer, None)
            if level is not None and len(self._former) < _FORMER:
                self._former[peer] = level
        for peer in sorted(peers):
            self.heard.setdefault(peer, now)
            level = self._former.pop(peer, None)
            if level is not None:
                self.changes.append((peer, level, False))

    def hear(self, peer: ProcessId, now: int) -> bool:
        """Anything came from `peer`. Whether this process runs later than it had asked for."""
        if peer in self.heard:
            self.heard[peer] = now
            if self._closed:
                self._closed.pop(peer, None)
            level = self.levels.pop(peer, None) if self.levels else None
            if level is not None:
                self.changes.append((peer, level, False))
        return self.expected is not None and now > self.expected

    def closed(self, peer: ProcessId, now: int) -> None:
        """The connection to `peer` broke: less patience from here on."""
        if peer in self.heard:
            self._closed.setdefault(peer, now)

    def opened(self, peer: ProcessId) -> None:
        """There is a connection to `peer` again."""
        self._closed.pop(peer, None)

    def lag(self, now: int) -> int:
        """How long this process slept beyond what it had asked for; its peers' silence is forgiven for that long."""
        expected, self.expected = self.expected, None
        if expected is None or now <= expected:
            return 0
        late = now - expected
        if late > self._timing.heartbeat_ns:
            for peer, time in self.heard.items():
                self.heard[peer] = min(now, time + late)
            for peer, time in self._closed.items():
                self._closed[peer] = min(now, time + late)
        return late

    def check(self, now: int) -> bool:
        """Raise suspicions that are due; whether any became hard."""
        soft, hard, closed = self._timing.soft_ns, self._timing.hard_ns, self._timing.closed_ns
        worse = False
        for peer, time in self.heard.items():
            silence = now - time
            shut = self._closed.get(peer)
            if silence >= hard or (shut is not None and now - shut >= closed):
                level = HARD
            elif silence >= soft or shut is not None:
                level = SOFT
            else:
                continue
            known = self.levels.get(peer)
            if known in (level, HARD):
                continue
            self.levels[peer] = level
            self.changes.append((peer, level, True))
            worse = worse or level == HARD
        return worse

    def is_hard(self, peer: ProcessId) -> bool:
        """Whether `peer` should be left out of the next view."""
        return self.levels.get(peer) == HARD
