"""Groups in a bag that are asked to switch."""

from __future__ import annotations

from isotone.model.events import SwitchRefused
from isotone.model.settings import MS
from isotone.model.switch import Rule, Strategy, Switch
from isotone.model.view import Level, Ordering
from tests.protocol.bag import Bag

A, B, C, D, E = "a#1", "b#1", "c#1", "d#1", "e#1"


def group(order: str = "sequencer", count: int = 3, level: Level = "agreed", k: int = 1) -> Bag:
    """A settled group, some time after its last view."""
    bag = Bag(count, Ordering(order, level, k))
    assert bag.settle()
    bag.run(100 * MS)
    return bag


def ask(
    bag: Bag,
    process: str,
    order: str,
    strategy: Strategy = "dual_ids",
    fresh: bool = False,
    rule: Rule = "all",
    level: Level = "agreed",
) -> None:
    """A process asks for another order."""
    bag.live[process].switch(Switch(Ordering(order, level), strategy, rule, fresh), bag.now)
    bag.collect(bag.live[process])


def step(bag: Bag, packets: int) -> None:
    """The network brings so many packets, in the order sent; where there is none a millisecond passes."""
    for _ in range(packets):
        if bag.packets:
            bag.deliver(0)
        else:
            bag.advance(MS)


def refusals(bag: Bag, process: str) -> list[str]:
    """Why a process did not get what it asked for."""
    return [upcall.reason for upcall in bag.upcalls[process] if isinstance(upcall, SwitchRefused)]


def order_of(bag: Bag, process: str) -> str:
    """The order in force at a process."""
    view = bag.live[process].view
    assert view is not None
    return view.ordering.order
