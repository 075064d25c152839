"""Virtual synchrony at each end of a view: who goes together from one view to the next has delivered the same in the first.

State: per pair of views (ended, next) the count and the fingerprint of the first process that went that way; the others are
compared with it when they come. Different counts or fingerprints prove different sets; equal ones are equal sets but for
a chance of 2**-64 per comparison. At most `PAIRS_MAX` pairs are kept, the newest; a process that
comes later than that is *unknown*.
"""

from typing import Final

import msgspec

from isotone.pipeline.stream.follower import Stretch

PAIRS_MAX: Final = 1_000


class Way(msgspec.Struct):
    """The first process that went from one view to the next."""

    process: str
    count: int
    fingerprint: int


class Synchrony(msgspec.Struct):
    """See the module."""

    ways: dict[str, dict[str, Way]] = {}
    """By ended view, then by next view; views in the order in which they were first seen to end."""
    dropped: tuple[int, str] | None = None
    """The largest ended view of which nothing is kept any more."""

    def leave(self, process: str, ended: Stretch, ended_id: tuple[int, str], following: str) -> Way | str | None:
        """A process goes on: the one it differs from, a reason why that is open, or None if all is well."""
        known = self.ways.get(ended.view, {}).get(following)
        if known is None:
            if self.dropped is not None and ended_id <= self.dropped:
                return f"{process} ends view {ended.view} so late that what the others delivered in it is forgotten"
            self.ways.setdefault(ended.view, {})[following] = Way(process, ended.count, ended.fingerprint)
            return None
        same = (known.count, known.fingerprint) == (ended.count, ended.fingerprint)
        return None if same else known

    def forget(self, ids: dict[str, tuple[int, str]]) -> None:
        """Keep the newest pairs only."""
        pairs = sum(map(len, self.ways.values()))
        while pairs > PAIRS_MAX:
            oldest = min(self.ways, key=lambda view: ids[view])
            pairs -= len(self.ways.pop(oldest))
            self.dropped = max(self.dropped or ids[oldest], ids[oldest])
