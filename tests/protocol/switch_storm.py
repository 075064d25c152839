"""Random schedules around the cut of a switch: who hears what in which order, and a partition or a crash at any moment."""

from __future__ import annotations

from random import Random

from isotone.model.settings import MS, SECOND
from isotone.model.switch import Rule, Strategy
from isotone.model.view import Level, Ordering
from tests.protocol.bag import Bag
from tests.protocol.switch_bag import ask

LEVELS: tuple[Level, ...] = ("agreed", "agreed", "agreed", "agreed", "safe")
STRATEGIES: tuple[Strategy, ...] = ("dual_ids", "dual_ids", "dual", "dual", "rabp", "stop")
RULES: tuple[Rule, ...] = ("all", "all", "all", "majority")
ORDERS = ("sequencer", "single_phase", "all_ack", "two_phase", "atop", "token")


def storm(seed: int) -> Bag:
    """A group that switches while some links stand still, and parts, or loses a member, before or after it has passed the cut."""
    draw = Random(seed)
    count = draw.choice((3, 4, 4, 5, 5))
    level = draw.choice(LEVELS)
    bag = Bag(count, Ordering(draw.choice(ORDERS), level))
    assert bag.settle()
    bag.run(100 * MS)
    members = sorted(bag.live)
    for process in members:
        bag.submit(process, draw.randrange(3))
    for asker in draw.sample(members, draw.choice((1, 1, 1, 2))):
        ask(bag, asker, draw.choice(ORDERS), draw.choice(STRATEGIES), True, draw.choice(RULES), draw.choice(LEVELS))
    slow = {(one, other) for one in members for other in members if draw.random() < draw.choice((0.0, 0.15, 0.4))}
    for _ in range(draw.randrange(25 * count)):
        _step(bag, draw, members, slow)
    for _ in range(draw.choice((1, 1, 1, 2))):
        _part(bag, draw, sorted(bag.live))
        for _ in range(draw.randrange(8 * count)):
            _step(bag, draw, sorted(bag.live), slow)
    bag.run(SECOND)
    for process in bag.live:
        bag.submit(process, 1)
    assert bag.settle()
    return bag


def _step(bag: Bag, draw: Random, members: list[str], slow: set[tuple[str, str]]) -> None:
    """A packet is delivered, a message sent, or time passes."""
    fit = [index for index, (source, target, _) in enumerate(bag.packets) if (source, target) not in slow]
    if draw.random() < 0.12:
        bag.submit(draw.choice(members), 1)
    elif fit and draw.random() < 0.95:
        index = fit[0] if draw.random() < 0.7 else draw.choice(fit)
        bag.deliver(index)
    else:
        bag.advance(MS)


def _part(bag: Bag, draw: Random, members: list[str]) -> None:
    """The network falls into two parts, or a member crashes."""
    if draw.random() < 0.2 and len(members) > 2:
        bag.crash(draw.choice(members))
        return
    bag.cut.clear()
    some = draw.sample(members, draw.randrange(1, len(members)))
    bag.split("".join(one[0] for one in some), "".join(one[0] for one in members if one not in some))
