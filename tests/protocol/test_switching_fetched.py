"""A switch from `token`, in which members fetch what they lack: what was fetched, and what comes from behind a gap."""

from __future__ import annotations

import msgspec
import pytest

from isotone.model.conflicts import Conflicts
from isotone.model.events import CoreChanged
from isotone.model.records import Direct, Packet
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering
from isotone.protocol.ordering.token.token import Token
from tests.protocol.bag import TIMING, Bag, Fate
from tests.protocol.switch_bag import A, B, C, D, order_of
from tests.protocol.test_early import carried, send, told
from tests.protocol.test_switching_semantic import ask, switched

PATIENT = msgspec.structs.replace(TIMING, hard_ns=3 * SECOND, closed_ns=3 * SECOND)


@pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])
def test_what_was_fetched_comes_before_what_came_early_when_the_view_ends(order: str) -> None:
    """d fetches the first casts of an instance, b has delivered a later one from behind a gap, and their sender crashes."""
    bag = Bag(4, Ordering("semantic_fifo", conflicts=Conflicts.by_item()), timing=PATIENT)
    assert bag.settle()
    bag.run(100 * MS)
    switched(bag, "token")
    for text in ("p0", "p1", "p2"):
        send(bag, A, text)
        bag.run(30 * MS)

    asked: list[str] = []

    def slow(source: str, target: str, packet: Packet) -> Packet | Fate:
        """The way from c to d stands still, and that of d's first question from there on."""
        if (source, target) == (C, D) and packet.records:
            return Fate.KEEP
        if source == D:
            if not asked and any(
                isinstance(one, Direct) and Token.packets.get(one.kind & 255) == "fetch" for one in packet.records
            ):
                asked.append(target)
            if target in asked:
                return Fate.KEEP
        return packet

    ask(bag, A, order)
    assert bag.run(SECOND, slow, until=lambda: order_of(bag, C) == order)
    assert asked == [A]
    assert order_of(bag, A) == "token"  # it has not heard that d has reached the cut
    send(bag, C, "w1")
    send(bag, C, "x1")
    bag.run(MS, slow)

    def lossy(source: str, target: str, packet: Packet) -> Packet | Fate:
        if source == C and ("x2" in carried(packet) or ("y2" in carried(packet) and target != B)):
            return Fate.DROP
        return slow(source, target, packet)

    send(bag, C, "x2")
    send(bag, C, "y2")
    bag.run(MS, lossy)
    assert told(bag, B)[-1] == "y2"

    def only_late(source: str, target: str, packet: Packet) -> Packet | Fate:
        """What d had asked for comes; c's own link to it stands still, and what was lost stays so."""
        if (source, target) == (C, D) and packet.records:
            return Fate.KEEP
        return Fate.DROP if source == C and {"x2", "y2"} & set(carried(packet)) else packet

    bag.run(3 * MS, only_late)
    assert bag.live[D].epoch.switching.lanes._late[2]  # fetched, and not taken in yet
    bag.crash(C)
    bag.packets = [one for one in bag.packets if C not in one[:2]]
    assert bag.settle(3000)
    assert told(bag, A)[-1] == "y2"
    assert sorted(told(bag, A)) == sorted(told(bag, B)) == sorted(told(bag, D))
    assert bag.report().verdict == "ok"


def test_the_core_of_an_orderer_is_told_when_it_is_in_force() -> None:
    bag = Bag(3, Ordering("token", "k", 2))
    assert bag.settle()
    lanes = bag.live[A].epoch.begin_switching().lanes
    lanes.start(1, Ordering("token", "k", 2), bag.now)

    def cores() -> list[tuple[str, ...]]:
        bag.collect(bag.live[A])
        return [upcall.core for upcall in bag.upcalls[A] if isinstance(upcall, CoreChanged)]

    outbox = lanes.of[1].outbox
    outbox.core((0, 1), 1)
    assert cores() == []
    lanes.move_on()
    assert cores() == [(A, B)]
    outbox.core((0, 1, 2), 2)
    assert cores() == [(A, B), (A, B, C)]
