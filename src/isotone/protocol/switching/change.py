"""A switch under way at one member, and what it needs of its view."""

from __future__ import annotations

from typing import Protocol

from isotone.model.conflicts import Conflicts
from isotone.model.records import Cast
from isotone.model.switch import Switch
from isotone.protocol.ordering.orderer import Evidence, Outbox
from isotone.protocol.switching.channel import Position


class Host(Outbox, Protocol):
    """What the view does for a switch."""

    frozen: bool
    next_number: int
    relation: Conflicts | None
    """What all members were told of conflicts; semantic orders of the view look at it."""
    own: dict[int, Cast]
    """Own messages that were not delivered yet, by number."""
    suspected: dict[int, str]

    def admit(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        """The next messages that go up."""

    def passed(self, switch: Switch, instance: int) -> None:
        """Another ordering is in force from here on; everybody holds all that was admitted."""

    def phase(self, switch: Switch, instance: int, phase: str) -> None:
        """A switch came to a phase, for the trace."""

    def refused(self, switch: Switch, reason: str) -> None:
        """The switch that this member asked for will not take place."""


class Change:
    """A switch under way, as one member sees it."""

    def __init__(self, instance: int, asker: int, switch: Switch) -> None:
        self.instance = instance
        self.asker = asker
        self.switch = switch
        self.requests = {asker: switch}  # of an order that is not total: all that came before the cut
        self.flagged = switch.strategy == "rabp"  # whether the own flag is sent
        self.reached = switch.strategy == "rabp"
        self.said = False  # that it is reached
        self.knows = False  # that all have reached it, and said so

    @property
    def strategy(self) -> str:
        return self.switch.strategy
