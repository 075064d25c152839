"""Two processes that never hear each other, though both hear the others: somebody has to stay outside, and it has to last."""

from __future__ import annotations

import pytest

from isotone.model.events import ViewInstalled
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering
from tests.protocol.bag import Bag

C, D = "c#1", "d#1"


def views(bag: Bag, process: str) -> int:
    return sum(isinstance(upcall, ViewInstalled) for upcall in bag.upcalls[process])


@pytest.mark.parametrize("cut", [{(C, D)}, {(C, D), (D, C)}], ids=["one way", "both ways"])
def test_the_others_go_on_without_new_views(cut: set[tuple[str, str]]) -> None:
    """Where only one way was broken, members of both views were in a new round every 40 ms, and frozen half of the time."""
    bag = Bag(4, Ordering("sequencer"))
    bag.cut |= cut
    bag.run(10 * SECOND, step_ns=5 * MS)
    before = {process: views(bag, process) for process in bag.live}
    frozen = 0
    for _ in range(100):
        bag.run(50 * MS, step_ns=5 * MS)
        frozen += bag.live["a#1"].epoch.frozen
    assert frozen <= 5
    assert all(views(bag, process) - before[process] <= 2 for process in bag.live)
    assert len(bag.live["a#1"].view) == 3
    bag.cut.clear()
    assert bag.settle(4000)
    assert len(bag.live["a#1"].view) == 4
    assert bag.report().verdict == "ok"
