"""Causal dependencies as differences.

A cast names, for each member whose count changed since the sender's previous cast, how many of that member's casts the sender had
delivered. Since a sender's casts are delivered in order, the earlier differences are satisfied whenever they matter: a
cast's causal past is delivered once its own difference is.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.errors import RemoteProtocolError


class Dependencies:
    """Counts of delivered casts per member, and what the own casts have said of them."""

    __slots__ = ("_said", "delivered", "rank")

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.delivered = [0] * count
        self._said = [0] * count

    def difference(self) -> list[int]:
        """Pairs (rank, count) that changed since the last call, flattened; own casts are implied."""
        delivered = self.delivered
        if delivered == self._said:
            return []
        rank = self.rank
        result: list[int] = []
        for other, (count, said) in enumerate(zip(delivered, self._said, strict=True)):
            if count != said and other != rank:
                result += (other, count)
        self._said = delivered[:]
        return result

    def satisfied(self, stamp: Sequence[int], start: int) -> bool:
        """Whether everything that `stamp[start:]` names is delivered here."""
        delivered = self.delivered
        for i in range(start, len(stamp), 2):  # noqa: SIM110 - this is on the way of every cast
            if delivered[stamp[i]] < stamp[i + 1]:
                return False
        return True

    def check(self, stamp: Sequence[int], start: int) -> None:
        """Raise `RemoteProtocolError` unless `stamp[start:]` has the right form."""
        if (len(stamp) - start) % 2:
            raise RemoteProtocolError("a cast's dependencies are not pairs")
        count = len(self.delivered)
        for i in range(start, len(stamp), 2):
            if not 0 <= stamp[i] < count:
                raise RemoteProtocolError(f"a cast depends on rank {stamp[i]} of {count}")

    def met(self, stamp: Sequence[int], start: int) -> bool:
        """`check` and `satisfied` in one call."""
        delivered, met = self.delivered, True
        count = len(delivered)
        if (len(stamp) - start) % 2:
            self.check(stamp, start)
        for i in range(start, len(stamp), 2):
            other = stamp[i]
            if not 0 <= other < count:
                self.check(stamp, start)
            elif delivered[other] < stamp[i + 1]:
                met = False
        return met
