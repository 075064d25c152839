"""Whether another process has the same kind of membership, the same founders and the same conflict relation.

Else the two cannot be in one group: nobody may take part in an order whose conflicts it was not told by its own application, and
components that rest on different ones do not merge. A process with primary membership or with a relation sends its `Charter`
before each probe; a probe without one comes from partitionable membership without a relation.
"""

from __future__ import annotations

from isotone.model.conflicts import Conflicts, difference
from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId
from isotone.model.records import Charter
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry


class Charters:
    """What this process and its peers say their group rests on."""

    def __init__(self, config: EndpointConfig) -> None:
        self._me = config.process
        self._own = Charter(list(config.founders) if config.membership == "primary" else [], config.ordering.relation)
        self._peers: dict[ProcessId, Charter] = {}
        self._limit = config.limits.contacts

    @property
    def own(self) -> Charter | None:
        """What goes with each probe; None: nothing has to be said."""
        return self._own if self._own.founders or self._own.conflicts is not None else None

    def learn(self, peer: ProcessId, record: Charter, now: int) -> None:
        """A peer says what its group rests on."""
        if peer in self._peers or len(self._peers) < self._limit:
            self._peers[peer] = record

    def difference(self, peer: ProcessId) -> str | None:
        """Why `peer` cannot be in a group with this process, in one line; None if it can."""
        theirs = self._peers.get(peer, _SILENT)
        if set(theirs.founders) != set(self._own.founders):
            return f"{self._me} has {_kind(self._own)}, {peer} has {_kind(theirs)}"
        return _other_relation(self._me, self._own.conflicts, peer, theirs.conflicts)


_SILENT = Charter([])


def check_ordering(config: EndpointConfig, peer: ProcessId, ordering: Ordering) -> None:
    """Raise `RemoteProtocolError` unless an ordering that `peer` names can be run here, with the relation of this process."""
    registry.validate_remote(peer, ordering)
    other = _other_relation(config.process, config.ordering.relation, peer, ordering.relation)
    if other is not None and registry.find(ordering.order).semantic:  # the group may have switched to an order without one
        raise RemoteProtocolError(other)


def _other_relation(me: ProcessId, mine: Conflicts | None, peer: ProcessId, theirs: Conflicts | None) -> str | None:
    if mine == theirs:
        return None
    return f"{me} and {peer} have different conflict relations: {difference(me, mine, peer, theirs)}"


def _kind(charter: Charter) -> str:
    founders = ", ".join(sorted(charter.founders))
    return f"primary membership with founders {founders}" if founders else "partitionable membership"
