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

    def check(self, stamp: Sequence[int], start: int, sender: int) -> None:
        """Raise `RemoteProtocolError` unless `stamp[start:]` is something that a cast of `sender` may say."""
        if (len(stamp) - start) % 2:
            raise RemoteProtocolError("a cast's dependencies are not pairs")
        count = len(self.delivered)
        for i in range(start, len(stamp), 2):
            if not 0 <= stamp[i] < count or stamp[i] == sender or stamp[i + 1] <= 0:
                raise self._nonsense(sender, stamp[i], stamp[i + 1])

    def missed(self, stamp: Sequence[int], start: int, sender: int) -> int:
        """`check`, and how many casts that are delivered here `stamp[start:]` does not name; -1 unless it is satisfied.

        For those that deliver own casts at once: so nobody can name more of them.
        """
        delivered, found, satisfied = self.delivered, 0, True
        count = len(delivered)
        if (len(stamp) - start) % 2:
            self.check(stamp, start, sender)
        for other, named in zip(stamp[start::2], stamp[start + 1 :: 2], strict=True):
            if other < 0 or other >= count or other == sender or named < 1:
                raise self._nonsense(sender, other, named)
            lack = delivered[other] - named
            found += lack
            if lack < 0:
                if other == self.rank:
                    raise self._nonsense(sender, other, named)
                satisfied = False
        return found if satisfied else -1

    @staticmethod
    def _nonsense(sender: int, other: int, named: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"a cast of rank {sender} depends on cast {named} of rank {other}: that cannot be")
