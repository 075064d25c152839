"""Orderers by name. A user may register one of their own."""

from __future__ import annotations

from typing import Final

from isotone.model.errors import ConfigError, RemoteProtocolError, unknown
from isotone.model.view import LEVELS, Ordering
from isotone.protocol.named import Named
from isotone.protocol.ordering.all_ack import AllAck
from isotone.protocol.ordering.atop.mechanism import Atop
from isotone.protocol.ordering.causal import Causal
from isotone.protocol.ordering.fifo import Fifo
from isotone.protocol.ordering.orderer import Orderer
from isotone.protocol.ordering.sequencer import Sequencer
from isotone.protocol.ordering.single_phase import SinglePhase
from isotone.protocol.ordering.token.token import Token
from isotone.protocol.ordering.two_phase import TwoPhase
from isotone.protocol.semantic.causal import SemanticCausal
from isotone.protocol.semantic.fifo import SemanticFifo
from isotone.protocol.semantic.total import SemanticTotal
from isotone.protocol.switching.policy import AUTO, concrete, find_policy

ORDERERS: Final = Named[Orderer]("an orderer", "order", AUTO)
register = ORDERERS.register
find = ORDERERS.find
names = ORDERERS.names

for _orderer in (
    Fifo, Causal, Sequencer, SinglePhase, AllAck, TwoPhase, Atop, Token, SemanticFifo, SemanticCausal, SemanticTotal,
):  # fmt: skip
    register(_orderer)


def validate_remote(peer: str, ordering: Ordering) -> None:
    """Raise `RemoteProtocolError` unless an ordering that `peer` names can be run here."""
    try:
        if ordering.order == AUTO:
            raise ConfigError(f"order {AUTO!r} names no orderer")
        validate(ordering)
    except ConfigError as error:
        raise RemoteProtocolError(f"{peer} orders in a way that is not known here: {error}") from None


def validate(ordering: Ordering) -> None:
    """Raise `ConfigError` unless a view can be run with `ordering`."""
    asked = ordering
    ordering = concrete(asked)
    orderer = find(ordering.order)
    if ordering.policy:
        find_policy(ordering.policy)
        if not orderer.total:
            raise ConfigError(f"policy {ordering.policy!r} chooses among total orders: {ordering.order!r} is none")
    if ordering.level not in LEVELS:
        raise unknown("level", ordering.level, LEVELS)
    if ordering.k < 1:
        raise ConfigError(f"k is {ordering.k}: must be at least 1")
    orderer.check_options(ordering.options)
    conflicts = asked.conflicts
    if conflicts is not None:
        if not orderer.semantic:
            semantic = ", ".join(name for name in names() if find(name).semantic) or "semantic orders"
            raise ConfigError(f"order {asked.order!r} looks at no conflict relation: one goes with {semantic}")
        if conflicts.by == "predicate":
            _ = conflicts.function  # raises where this process does not have it
