"""Who holds what in one view: counts of casts per sender, at every member.

One mechanism serves the freeing of buffers, the delivery levels and the senders' windows. All entries only grow, so
reports may be lost, repeated or reordered. `changed` asks for a new frontier; what arrives here sets it only where
somebody waits for it, otherwise the next report does.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.errors import RemoteProtocolError


class Stability:
    """`matrix[r][s]`: how many casts of the member of rank s the member of rank r is known to hold."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.count = count
        self.matrix = [[0] * count for _ in range(count)]
        self.held = self.matrix[rank]
        self.changed = False

    def report(self, member: int, held: Sequence[int]) -> None:
        """`member` says that it holds this many casts of each sender."""
        if len(held) != self.count:
            raise RemoteProtocolError(f"a report of {len(held)} counts in a view of {self.count}")
        row = self.matrix[member]
        if row != held:
            self.matrix[member] = [a if a > b else b for a, b in zip(row, held, strict=True)]
        self.changed = True  # also without news of `member`: this process may have held the others up

    def frontier(self, k: int) -> list[int]:
        """Per sender, how many of its casts at least k members hold."""
        if k >= self.count:
            return [min(column) for column in zip(*self.matrix, strict=True)]
        return [sorted(column)[self.count - k] for column in zip(*self.matrix, strict=True)]
