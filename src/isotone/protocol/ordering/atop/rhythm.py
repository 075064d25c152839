"""Who is likely to send next: from the gaps between each member's messages, as one member sees them.

The gap after a message is guessed to be the one that followed the most similar of the last gaps: that covers a steady pace and
one that repeats, such as two messages in quick succession and a pause. Of a member that this guess fails, or that is overdue,
nothing is known but how often it sent: it is expected one mean gap from now, or later if it has been silent for longer.

Invariants: integers only; a wrong guess costs a delay and nothing else.
"""

from __future__ import annotations

_KEPT = 8
_SHARE = 4  # a guess is off if it misses by more than this part of the mean gap


class _Pace:
    """What is known of one member; times in ns."""

    __slots__ = ("error", "expected", "gaps", "last", "mean")

    def __init__(self) -> None:
        self.last = -1
        self.gaps: list[int] = []  # the last ones, oldest first
        self.mean = 0  # of the gaps, a running mean; 0 is not known
        self.error = 0  # a running mean of what the guesses missed by
        self.expected = 0

    def heard(self, now: int) -> None:
        last, self.last = self.last, now
        if last < 0:
            return
        gap, gaps = now - last, self.gaps
        if gaps:
            share = min(len(gaps) + 1, _KEPT)
            self.error += (abs(now - self.expected) - self.error) // share
            self.mean = max(1, self.mean + (gap - self.mean) // share)
        else:
            self.mean = self.error = max(1, gap)
        self.expected = now + self._guess(gap)
        gaps.append(gap)
        if len(gaps) > _KEPT:
            del gaps[0]

    def _guess(self, gap: int) -> int:
        """What follows a gap: what followed the most similar one before it, the latest of equals."""
        gaps, likely, least = self.gaps, gap, -1
        for place in range(len(gaps) - 1):
            off = abs(gaps[place] - gap)
            if least < 0 or off <= least:
                likely, least = gaps[place + 1], off
        return likely

    def next(self, now: int) -> tuple[int, bool]:
        """When it will send, and whether that is more than a mean."""
        if _SHARE * max(self.error, now - self.expected) > self.mean:
            return now + max(self.mean, now - self.last), False
        return self.expected, True


class Rhythm:
    """The paces of all members."""

    __slots__ = ("_paces",)

    def __init__(self, count: int) -> None:
        self._paces = [_Pace() for _ in range(count)]

    def heard(self, member: int, now: int) -> None:
        """A member has sent something."""
        self._paces[member].heard(now)

    def expects(self, now: int) -> int | None:
        """The member that is expected first; None if its time is known only as a mean, or nobody has sent twice."""
        best, who, sure = 0, None, False
        for member, pace in enumerate(self._paces):
            if pace.mean:
                expected, known = pace.next(now)
                if who is None or expected < best:
                    best, who, sure = expected, member, known
        return who if sure else None
