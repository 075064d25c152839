"""Whether another process has the same kind of membership, and the same founders: else the two cannot be in one group.

A process with primary membership sends its `Charter` before each probe; a probe without one comes from partitionable membership.
"""

from __future__ import annotations

from isotone.model.ids import ProcessId
from isotone.model.records import Charter
from isotone.model.settings import EndpointConfig


class Charters:
    """The founders that this process and its peers name; None stands for partitionable membership."""

    def __init__(self, config: EndpointConfig) -> None:
        self._me = config.process
        self._own = frozenset(config.founders) if config.membership == "primary" else None
        self._peers: dict[ProcessId, frozenset[str]] = {}
        self._limit = config.limits.contacts

    def learn(self, peer: ProcessId, record: Charter, now: int) -> None:
        """A peer says who founds its group."""
        if peer in self._peers or len(self._peers) < self._limit:
            self._peers[peer] = frozenset(record.founders)

    def difference(self, peer: ProcessId) -> str | None:
        """Why `peer` cannot be in a group with this process, in one line; None if it can."""
        theirs = self._peers.get(peer)
        if theirs == self._own:
            return None
        return f"{self._me} has {_kind(self._own)}, {peer} has {_kind(theirs)}"


def _kind(founders: frozenset[str] | None) -> str:
    return "partitionable membership" if founders is None else f"primary membership with founders {', '.join(sorted(founders))}"
