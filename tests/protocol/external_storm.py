"""Random schedules in which members of a token's view become external, are served by others, given up, and a switch goes on.

Links stand still for a while, some longer than the soft threshold, and bring everything afterwards. The limits are so small that
external members are given up. The order changes from and to `token` meanwhile, and the view ends at any moment.
"""

from __future__ import annotations

from random import Random

import msgspec

from isotone.model.errors import LocalProtocolError
from isotone.model.settings import MS, SECOND, Limits
from isotone.model.switch import Rule, Strategy, Switch
from isotone.model.view import Level, Ordering
from tests.protocol.bag import TIMING, Bag

ORDERS = ("token", "token", "token", "atop", "single_phase", "all_ack", "two_phase", "sequencer")
LEVELS: tuple[Level, ...] = ("agreed", "agreed", "k", "k", "safe")
STRATEGIES: tuple[Strategy, ...] = ("dual_ids", "dual", "rabp", "stop")
RULES: tuple[Rule, ...] = ("all", "majority")


class Storm:
    """One group, and what happens to it."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = Random(seed)
        timing = msgspec.structs.replace(TIMING, hard_ns=draw.choice((300, 900, 3000)) * MS, closed_ns=3 * SECOND)
        limits = Limits(keep_casts=draw.choice((1, 3, 10, 1000)), batch_messages=draw.choice((1, 8)))
        first = Ordering("token", "k", 2) if draw.random() < 0.7 else Ordering(draw.choice(ORDERS))
        self.bag = Bag(draw.choice((3, 4, 4, 5)), first, limits=limits, timing=timing, limit=3000)
        assert self.bag.settle()
        self.bag.run(60 * MS)
        self.members = sorted(self.bag.live)
        self.slow: dict[tuple[str, str], int] = {}  # until when links stand still
        self.loss = draw.choice((0.0, 0.0, 0.03, 0.1))

    def run(self) -> Bag:
        """Some tenths of a second; then everything works, and the group has to come together."""
        draw, bag = self.draw, self.bag
        length, sending = draw.randint(40, 300), draw.choice((0.05, 0.2, 0.5))
        asking = {draw.randint(0, length) for _ in range(draw.choice((1, 1, 2, 3)))}
        parting = {min(length, draw.choice(sorted(asking)) + draw.randint(0, 120)) for _ in range(draw.randint(1, 2))}
        self._slow_down()
        for moment in range(length + 1):
            if moment in asking:
                self._ask()
            if moment in parting:
                self._part()
            if draw.random() < 0.03:
                self._slow_down()
            for process in sorted(bag.live):
                if draw.random() < sending / 2:
                    bag.submit(process, draw.choice((1, 1, 2)))
            self._bring()
            bag.advance(MS)
        bag.run(draw.choice((100, 1000, 2000)) * MS)
        for process in bag.live:
            bag.submit(process, 1)
        for _ in range(2):
            assert bag.settle(3000), "the group does not come together"
            bag.run(SECOND)  # who is external still fetches what it lacks, or comes back
        return bag

    def _slow_down(self) -> None:
        """Some links stand still: many of one member, in either direction, or a few."""
        draw, now = self.draw, self.bag.now
        if draw.random() < 0.4:
            victim = draw.choice(self.members)
            for other in self.members:
                if other != victim and draw.random() < 0.6:
                    way = (victim, other) if draw.random() < 0.5 else (other, victim)
                    self.slow[way] = now + draw.randint(5, 250) * MS
        else:
            for _ in range(draw.randint(1, 3)):
                one, two = draw.sample(self.members, 2)
                self.slow[one, two] = now + draw.randint(5, 200) * MS

    def _ask(self) -> None:
        draw, bag = self.draw, self.bag
        level = draw.choice(LEVELS)
        ordering = Ordering(draw.choice(ORDERS), level, 2 if level == "k" else 1)
        process = draw.choice(sorted(bag.live))
        try:
            bag.live[process].switch(Switch(ordering, draw.choice(STRATEGIES), draw.choice(RULES), True), bag.now)
        except LocalProtocolError:
            return  # it has asked before
        bag.collect(bag.live[process])

    def _part(self) -> None:
        """The network falls into two parts, heals, or loses a member."""
        draw, bag = self.draw, self.bag
        if draw.random() < 0.2 and len(bag.live) > 2:
            bag.crash(draw.choice(sorted(bag.live)))
            return
        bag.cut.clear()
        if draw.random() < 0.8:
            some = draw.sample(self.members, draw.randrange(1, len(self.members)))
            bag.split("".join(one[0] for one in some), "".join(one[0] for one in self.members if one not in some))

    def _bring(self) -> None:
        """Up to some packets arrive, those of one link in their order."""
        draw, bag = self.draw, self.bag
        for _ in range(draw.choice((10, 30, 60))):
            fit = [i for i, (source, target, _) in enumerate(bag.packets) if self.slow.get((source, target), 0) <= bag.now]
            if not fit:
                return
            index = fit[0]
            if bag.packets[index][2].records and draw.random() < self.loss:
                del bag.packets[index]
            else:
                bag.deliver(index)
