"""Who wishes a switch, and who grants it.

A member tells its wish to the first member of the view, which grants one at a time. So all members agree which of two came
first, whatever the orderer in force does; and where the first member itself wishes it, everybody knows of it after one delay.
A wish that is under way when another one is granted, or when the view ends, is refused.
"""

from __future__ import annotations

from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError
from isotone.model.ids import ProcessId
from isotone.model.switch import Switch, check_names
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry
from isotone.protocol.switching.change import Host
from isotone.protocol.switching.control import FIRST, REFUSED, Arrivals, Flag, ready_kind, wish


class Wishes:
    """The own wish, and at the first member those of all."""

    def __init__(self, host: Host, rank: int, first: ProcessId) -> None:
        self.own: Switch | None = None  # until it is fulfilled or refused
        self._host = host
        self._rank = rank
        self._first = first

    def ask(self, switch: Switch, ordering: Ordering, told: Arrivals, instance: int) -> None:
        """This member wishes a switch from what is in force, to an instance of which so much was told."""
        reason = "another switch is under way" if self.own is not None else fault(switch, ordering, self._host.relation)
        if reason is not None:
            self._host.refused(switch, reason)
            return
        self.own = switch
        if self._rank == FIRST:
            told.wishes[FIRST] = switch
        else:
            self._host.direct(ready_kind(instance), wish(switch), FIRST)

    def refuse(self, reason: str) -> None:
        """What this member wished, if anything, will not be."""
        if self.own is not None:
            switch, self.own = self.own, None
            self._host.refused(switch, reason)

    def next(self, ordering: Ordering, told: Arrivals, instance: int) -> Flag | None:
        """The first member's flag for the wish that came first, if there is one that it can grant."""
        if told.refused:
            told.refused = False
            self.refuse(f"{self._first} does not know how to do it")
        while told.wishes and self._rank == FIRST:
            asker, switch = next(iter(told.wishes.items()))
            del told.wishes[asker]
            reason = fault(switch, ordering, self._host.relation)
            if reason is None:
                return Flag(asker, switch)
            if asker == FIRST:
                self.refuse(reason)
            else:
                self._host.direct(ready_kind(instance), REFUSED, asker)
        return None


def fault(switch: Switch, ordering: Ordering, relation: Conflicts | None) -> str | None:
    """Why a switch from `ordering` in a group with this conflict relation is not possible; the same for every member."""
    try:
        registry.validate(switch.ordering)
        check_names(switch.strategy, switch.rule)
    except ConfigError as error:
        return str(error)
    if registry.find(switch.ordering.order).semantic and switch.ordering.relation != relation:
        return f"{switch.ordering.order} with another conflict relation than the group's"
    if switch.ordering == ordering and not switch.fresh:
        return f"{switch.ordering.order} is in force already"
    if switch.strategy != "stop":
        for order in (ordering.order, switch.ordering.order):
            if not registry.find(order).total:
                return f"{order} is not a total order: only the strategy stop can switch from or to it"
    return None
