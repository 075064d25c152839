"""A bag of packets between processes with primary membership."""

from __future__ import annotations

from typing import Any

from isotone.model.events import Blockage
from isotone.model.ids import name_of
from isotone.model.records import Packet, Vote
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering
from isotone.protocol.membership.consensus import DECIDE
from isotone.sim import chain
from tests.protocol.bag import Bag, Fate


class PrimaryBag(Bag):
    """The first `count` names found the group. Who is expelled may end with an error."""

    def __init__(self, count: int, ordering: Ordering) -> None:
        self.founders = tuple("abcdefgh"[:count])
        super().__init__(count, ordering)

    def begin(self, name: str, **overrides: Any) -> str:
        process = super().begin(name, **{"membership": "primary", "founders": self.founders, **overrides})
        self.refusable.add(process)
        return process

    def names(self, process: str) -> str:
        """The members of a process's view, by their first letters."""
        view = self.live[process].view
        return "".join(name_of(member) for member in view.members) if view is not None else ""

    def blocked(self, process: str) -> list[bool]:
        """What a process was told of being blocked."""
        return [upcall.blocked for upcall in self.upcalls[process] if isinstance(upcall, Blockage)]

    def rejoin(self) -> bool:
        """Who was expelled starts anew; whether anybody did."""
        before = len(self.live)
        for process in sorted(self.refused):
            if process not in self.live and self.incarnations[name_of(process)] == int(process.partition("#")[2]):
                self.begin(name_of(process))
        return len(self.live) > before

    def meet(self) -> bool:
        """A good network from here on, and who is expelled comes back: whether all come together."""
        for _ in range(6):
            settled = self.settle(rounds=200)
            if not self.rejoin() and settled:
                return True
        return False

    def check(self) -> None:
        """The history, and the chain of views."""
        report = self.report()
        assert report.verdict == "ok", [(check.name, check.witness) for check in report.checks if check.verdict == "violated"]
        assert self.broken_chain() == []

    def broken_chain(self) -> list[str]:
        """What is wrong with the chain."""
        rows = [row for recorder in self.recorders.values() for row in recorder.rows()]
        return chain.judge(sorted(rows, key=lambda row: (row["time"], row["step"])), self.founders)


def proposer_cut_off_when_it_decides(ordering: Ordering) -> PrimaryBag:
    """e leaves; a proposes, decides and enters the view without e, and from then on nothing passes between it and the others."""
    bag = PrimaryBag(5, ordering)
    assert bag.settle()
    bag.run(100 * MS)
    first = bag.live["a#1"].view.id
    bag.leave("e#1")

    def silent(source: str, target: str, packet: Packet) -> Packet | Fate:
        told = any(isinstance(record, Vote) and record.phase == DECIDE for record in packet.loose)
        return Fate.DROP if source == "a#1" and told else packet

    assert bag.run(SECOND, silent, until=lambda: bag.live["a#1"].view.id != first)
    bag.packets = [entry for entry in bag.packets if "a#1" not in entry[:2]]
    bag.split("a", "bcde")
    bag.crash("e#1")  # the others will want another view than the decided one
    bag.run(4 * SECOND)
    return bag
