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
    progress: list[int]
    """The last cast of each sender that the orderer in force has delivered."""

    def admit(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        """The next messages that go up."""

    def passed(self, switch: Switch, instance: int) -> None:
        """Another ordering is in force from here on; everybody holds all that was admitted."""

    def phase(self, switch: Switch, instance: int, phase: str) -> None:
        """A switch came to a phase, for the trace."""

    def refused(self, switch: Switch, reason: str) -> None:
        """The switch that this member asked for will not take place."""


class Change:
    """A switch under way, as one member sees it. `quick`: one round of words will do, though messages are in both (`ending`)."""

    def __init__(self, instance: int, asker: int, switch: Switch, flagged: bool, quick: bool) -> None:
        self.instance = instance
        self.asker = asker
        self.switch = switch
        self.quick = quick
        self.flagged = flagged  # whether the own flag is sent, or none is needed
        self.reached = False
        self.said = False  # that it is reached
        self.knows = False  # that all have reached it, and said so

    @property
    def strategy(self) -> str:
        return self.switch.strategy

    @property
    def one_round(self) -> bool:
        """Whether it is passed when all have reached the cut."""
        return self.quick or self.strategy == "stop"
