"""A member whose stream in the view is broken: the group refuses it, agrees on what was good, and goes on without it."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Packet, Relay
from isotone.model.view import Ordering
from tests.protocol.bag import Bag


@pytest.mark.parametrize("order", ["fifo", "causal", "sequencer", "single_phase"])
def test_the_good_part_of_a_broken_run_counts_and_the_rest_does_not(order: str) -> None:
    """b gets a run of a that is good up to its second record, c gets all of a's casts: b and c end the view alike."""
    bag = Bag(3, Ordering(order))
    assert bag.settle()
    bag.submit("a#1", 2)
    bag.submit("a#1", 1)
    a, b = bag.live["a#1"], bag.live["b#1"]
    assert a.view is not None
    link = a.epoch.links.of[1] if a.epoch is not None else None
    assert link is not None
    first = link.unacked[0]
    assert isinstance(first, Cast)
    bad = Packet(a.view.id.epoch, a.view.id.proposer, 1, 0, [first, Relay(99, first)], [])
    with pytest.raises(RemoteProtocolError):
        b.receive("a#1", bad, bag.now)
    bag.packets = [packet for packet in bag.packets if packet[1] != "b#1"]
    bag.cut |= {("a#1", "b#1"), ("b#1", "a#1")}
    bag.crash("a#1")
    assert bag.settle()
    report = bag.report()
    assert report.verdict == "ok", [(check.name, check.witness) for check in report.checks if check.verdict == "violated"]


def test_what_an_orderer_refuses_is_not_held() -> None:
    """Two casts with one timestamp: the first is good, the second is refused and forgotten, and its sender left out."""
    bag = Bag(3, Ordering("single_phase"))
    assert bag.settle()
    a, b = bag.live["a#1"], bag.live["b#1"]
    assert a.view is not None
    assert b.epoch is not None
    ahead = b.epoch.links.of[0].received + 1 if b.epoch.links.of[0] is not None else 1
    clock = 1_000
    casts = [Cast(b.epoch.held[0] + 1, 0, [clock], 1, [b"x"]), Cast(b.epoch.held[0] + 2, 0, [clock], 2, [b"y"])]
    held = b.epoch.held[0]
    with pytest.raises(RemoteProtocolError, match="do not increase"):
        b.receive("a#1", Packet(a.view.id.epoch, a.view.id.proposer, ahead, 0, list(casts), []), bag.now)
    assert b.epoch.held[0] == held + 1
    bag.cut.add(("b#1", "a#1"))  # a never sent that, and would object to the acknowledgement
    bag.run(500_000_000)
    assert b.view is not None
    assert "a#1" not in b.view.members
