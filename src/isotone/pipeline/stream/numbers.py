"""A set of message numbers of one origin, kept as intervals: one, as long as nothing is missing in between.

Invariant: the intervals are sorted and neither overlap nor touch. There are at most `INTERVALS_MAX`: beyond that the oldest
gap is closed, and what lies at or below `doubt` can be *maybe* in the set (`has` says None), never wrongly in or out.
"""

from bisect import bisect_right

import msgspec

INTERVALS_MAX = 1_000


class Numbers(msgspec.Struct):
    """See the module."""

    lows: list[int] = []
    highs: list[int] = []
    doubt: int | None = None

    @property
    def last(self) -> int | None:
        """The largest number."""
        return self.highs[-1] if self.highs else None

    def has(self, number: int) -> bool | None:
        """Whether the number is in the set; None if that is no longer known."""
        at = bisect_right(self.lows, number) - 1
        inside = at >= 0 and number <= self.highs[at]
        return None if inside and self.doubt is not None and number <= self.doubt else inside

    def add(self, low: int, high: int) -> None:
        """Put the numbers `low` to `high` in; none of them may be there already."""
        lows, highs = self.lows, self.highs
        at = bisect_right(lows, low)
        joins_left = at > 0 and highs[at - 1] == low - 1
        joins_right = at < len(lows) and lows[at] == high + 1
        if joins_left and joins_right:
            highs[at - 1] = highs[at]
            del lows[at], highs[at]
        elif joins_left:
            highs[at - 1] = high
        elif joins_right:
            lows[at] = low
        else:
            lows.insert(at, low)
            highs.insert(at, high)
            if len(lows) > INTERVALS_MAX:
                self.doubt = highs[1]
                highs[0] = highs[1]
                del lows[1], highs[1]
