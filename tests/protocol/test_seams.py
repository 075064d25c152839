"""Schedules in which features that are fine by themselves once harmed each other; each kept as a test."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from isotone.model.events import CoreChanged
from isotone.model.ids import ProcessId
from isotone.model.records import Packet, Vote
from isotone.model.settings import MS, SECOND, Limits
from isotone.model.view import Ordering
from isotone.protocol.membership.consensus import ACCEPTED
from tests.protocol.bag import TIMING, Bag, Fate
from tests.protocol.primary_bag import PrimaryBag
from tests.protocol.test_token_rings import RING, kinds
from tests.protocol.token_sites import Sites


@pytest.mark.parametrize("late", [False, True])
def test_a_ring_never_starts_before_the_one_that_it_follows(late: bool) -> None:
    """The only holder of hop 1 answers, and is suspected: ring 1 starts at 2, and its core does not hold hop 1 then."""
    walk = Sites(5, "k", 3)
    walk.submit(0, b"x")
    walk.bring(0, 4, 2)
    for rank in (1, 2, 3):
        walk.suspect(rank, 0)
    for rank in (1, 2, 3):
        walk.turn(rank)
    for rank in (1, 2, 3):
        while walk.queues[rank, 4]:
            walk.bring(rank, 4)
    for rank in (1, 2, 3):
        while walk.queues[4, rank]:
            walk.bring(4, rank)
    for rank in (1, 2, 3):
        walk.suspect(rank, 4)
    walk.wait(300 * MS, 0, 4)
    for rank in (1, 2, 3):
        walk.trust(rank, 0)
    walk.suspect(1, 2)
    walk.turn(1)
    walk.trust(1, 2)
    walk.turn(1)
    if late:
        for rank in (2, 3):
            while walk.queues[1, rank]:
                walk.bring(1, rank)
        for rank in (1, 2, 3):
            walk.bring(0, rank, 2)
    else:
        for rank in (1, 2, 3):
            while walk.queues[rank, 4]:
                walk.bring(rank, 4)
    walk.wait(300 * MS, 0, 4)
    walk.settle()
    walk.wait(300 * MS)
    starts: dict[int, int] = {stamp[0]: stamp[1] for _, stamp in kinds(walk, RING)}
    assert len(starts) >= 2
    assert [starts[ring] for ring in sorted(starts)] == sorted(starts.values())
    assert all(walk.delivered(rank) == [(b"x", 1)] for rank in range(5))


@pytest.mark.parametrize(("source", "target"), [("b", "d"), ("e", "d")])
def test_nothing_passes_in_one_direction_of_one_link(source: str, target: str) -> None:
    """Who lacks casts asks for them although others come; and one member's suspicion does not change the core again and again."""
    timing = msgspec.structs.replace(TIMING, hard_ns=SECOND, closed_ns=SECOND)
    bag = Bag(5, Ordering("token", "k", 3), timing=timing, limits=Limits(), limit=20_000)
    assert bag.settle()
    view = bag.live["a#1"].view
    bag.cut.add((f"{source}#1", f"{target}#1"))
    before = len(bag.received[f"{target}#1"])
    sent = 0
    for step in range(900):
        under_way, bag.packets = bag.packets, []
        for sender, receiver, packet in under_way:
            bag._hand(sender, receiver, packet)
        if step % 10 == 0:
            bag.submit("abcde"[step // 10 % 5] + "#1", 1)
            sent += 1
        bag.advance(MS)
    assert all(endpoint.view == view for endpoint in bag.live.values())
    assert len(bag.received[f"{target}#1"]) - before > sent * 2 // 3
    for upcalls in bag.upcalls.values():
        assert sum(isinstance(upcall, CoreChanged) for upcall in upcalls) <= 12


def test_joiners_enter_the_view_that_was_decided_though_they_were_ready_for_a_later_round() -> None:
    """Both rounds follow the same view, of which only one successor is decided."""
    bag = PrimaryBag(2, Ordering("sequencer"))
    assert bag.settle()
    bag.run(100 * MS)
    lost: list[ProcessId] = []

    def rule(source: ProcessId, target: ProcessId, packet: Packet) -> Any:
        if any(isinstance(record, Vote) and record.phase == ACCEPTED for record in packet.loose):
            lost.append(source)
            return Fate.DROP
        return packet

    bag.begin("c")
    bag.begin("d")
    assert bag.run(2 * SECOND, rule, until=lambda: bool(lost))
    bag.packets = [entry for entry in bag.packets if {entry[0], entry[1]} != {"a#1", "b#1"}]
    bag.cut |= {("a#1", "b#1"), ("b#1", "a#1")}
    bag.run(160 * MS, step_ns=5 * MS)
    bag.cut.clear()
    assert bag.run(30 * SECOND, step_ns=5 * MS, until=lambda: all(bag.names(process) == "abcd" for process in bag.live))


class SmallBag(PrimaryBag):
    """Little is kept for members outside the core."""

    def begin(self, name: str, **overrides: Any) -> str:
        return super().begin(name, **{"limits": Limits(keep_casts=30, window_casts=64), **overrides})


def test_who_was_given_up_is_taken_back_if_there_is_no_majority_without_it() -> None:
    """a and b expel c, and b crashes before the next view is decided: a and c go on."""
    bag = SmallBag(3, Ordering("token", "k", 2))
    assert bag.settle()
    bag.run(100 * MS)

    def rule(source: ProcessId, target: ProcessId, packet: Packet) -> Any:
        if source == "c#1" and (bag.now // MS) % 100 >= 25:
            return Fate.DROP
        return msgspec.structs.replace(packet, records=[]) if target == "c#1" else packet

    epoch = bag.live["a#1"].epoch
    assert epoch is not None
    for _ in range(400):
        bag.run(10 * MS, rule)
        if epoch.store.lost:
            break
        bag.submit("a#1", 2)
        bag.submit("b#1", 1)
    assert epoch.store.lost == {2}
    bag.crash("b#1")
    bag.packets.clear()
    assert bag.run(20 * SECOND, step_ns=5 * MS, until=lambda: all(bag.names(process) == "ac" for process in bag.live))
