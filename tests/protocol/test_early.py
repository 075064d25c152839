"""Casts from behind a gap, with real endpoints: delivered at once, and in the common set of a view that ends (ADR 0011)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.events import DeliveryBatch, ReturnedBatch
from isotone.model.records import EARLY, Cast, Install, Packet, Plan, Propose, Ready, Relay, State
from isotone.model.settings import MS, SECOND
from isotone.model.view import Level, Ordering
from isotone.protocol.epoch import Epoch
from tests.protocol.bag import Bag, Fate, carries
from tests.protocol.primary_bag import PrimaryBag

A, B, C, D = "a#1", "b#1", "c#1", "d#1"
BOTH = pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])
KINDS = pytest.mark.parametrize("kind", [Bag, PrimaryBag])


def settled(order: str, count: int = 3, kind: type[Bag] = Bag, level: Level = "agreed") -> Bag:
    bag = kind(count, Ordering(order, level, conflicts=Conflicts.by_item()))
    assert bag.settle()
    bag.run(100 * MS)
    bag.packets.clear()
    return bag


def send(bag: Bag, process: str, text: str) -> None:
    """A process sends a message on the item that its first letter names."""
    endpoint = bag.live[process]
    assert endpoint.submit([text.encode()], bag.now, None, [[text[0]]]) == 1
    bag.collect(endpoint)


def told(bag: Bag, process: str) -> list[str]:
    """What a process has delivered."""
    return [
        payload.decode() for upcall in bag.upcalls[process] if isinstance(upcall, DeliveryBatch) for payload in upcall.payloads
    ]


def carried(packet: Packet) -> list[str]:
    """The messages that a packet brings, those that are passed on too."""
    casts = [record.cast if isinstance(record, Relay) else record for record in packet.records]
    return [payload.decode() for cast in casts if isinstance(cast, Cast) and cast.number for payload in cast.payloads]


def without(*lost: tuple[str, str]) -> Callable[[str, str, Packet], Packet | Fate]:
    """Messages (target, text) are lost, whenever they are sent."""

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if any((target, text) in lost for text in carried(packet)) else packet

    return rule


def gap(order: str, count: int = 3, kind: type[Bag] = Bag) -> Bag:
    """a sends x1, y1, x2, y2 and ends; b has none, c has y1, x2 and y2, of which it has delivered y1 and y2."""
    bag = settled(order, count, kind)
    for text in ("x1", "y1", "x2", "y2"):
        send(bag, A, text)
    kept = [entry for entry in bag.packets if entry[1] == C and carried(entry[2])[0] != "x1"]
    bag.packets = kept
    bag.hand_out()
    bag.crash(A)
    assert told(bag, C) == ["y1", "y2"]
    return bag


@BOTH
def test_a_lost_packet_holds_back_only_what_conflicts(order: str) -> None:
    bag = settled(order)
    for text in ("x1", "y1", "x2", "y2"):
        send(bag, A, text)
    bag.run(5 * MS, without((C, "x1")))
    assert told(bag, B) == ["x1", "y1", "x2", "y2"]
    assert told(bag, C) == ["y1", "y2"]
    assert bag.live[C].counters["casts_early"] == 2
    assert bag.settle()
    assert told(bag, C) == ["y1", "y2", "x1", "x2"]
    assert bag.report().verdict == "ok"


@BOTH
@pytest.mark.parametrize("level", ["k", "safe"])
def test_a_level_above_agreed_waits_for_the_gap(order: str, level: Level) -> None:
    bag = Bag(3, Ordering(order, level, 2, conflicts=Conflicts.by_item()))
    assert bag.settle()
    send(bag, A, "x1")
    send(bag, A, "y1")
    bag.run(10 * MS, without((C, "x1")))
    assert told(bag, C) == []
    assert bag.settle()
    assert told(bag, C) == ["x1", "y1"]


@BOTH
@KINDS
def test_what_one_has_delivered_early_all_deliver(order: str, kind: type[Bag]) -> None:
    bag = gap(order, 3, kind)
    assert bag.settle()
    assert told(bag, B) == told(bag, C) == ["y1", "y2"]
    assert bag.live[B].counters["casts_early_common"] == 2
    assert bag.report().verdict == "ok"


@BOTH
def test_two_have_different_ones(order: str) -> None:
    """b has the beginning, c what is behind a gap: the common set has both, and what nobody has delivered is left out."""
    bag = settled(order)
    for text in ("x1", "y1", "z1", "x2", "y2"):
        send(bag, A, text)
    wanted = {B: {"x1", "y1"}, C: {"x2", "y2"}}
    bag.packets = [entry for entry in bag.packets if set(carried(entry[2])) & wanted[entry[1]]]
    bag.hand_out()
    bag.crash(A)
    assert (told(bag, B), told(bag, C)) == (["x1", "y1"], [])
    assert bag.settle()
    assert told(bag, B) == told(bag, C) == ["x1", "y1"]
    bag = settled(order)
    for text in ("x1", "y1", "z1", "x2", "w1"):
        send(bag, A, text)
    wanted = {B: {"x1"}, C: {"w1", "x2", "y1"}}
    bag.packets = [entry for entry in bag.packets if set(carried(entry[2])) & wanted[entry[1]]]
    bag.hand_out()
    bag.crash(A)
    assert (told(bag, B), told(bag, C)) == (["x1"], ["y1", "w1"])
    assert bag.settle()
    assert (told(bag, B), told(bag, C)) == (["x1", "y1", "w1"], ["y1", "w1", "x1"])
    assert bag.report().verdict == "ok"


@BOTH
@KINDS
def test_a_round_that_is_superseded(order: str, kind: type[Bag]) -> None:
    """d dies between the plan and the view: what was passed on for the first round need not come again, or come twice."""
    bag = gap(order, 5, kind)
    planned: list[str] = []

    def first(source: str, target: str, packet: Packet) -> Packet | Fate:
        if carries(packet, Plan):
            planned.append(target)
        return Fate.DROP if carries(packet, Install, Ready) or (packet.loose and D in (source, target) and planned) else packet

    bag.run(2 * SECOND, first, until=lambda: len(planned) >= 3 and bag.live[B].counters.get("relays_received", 0) > 0)
    bag.crash(D)
    assert bag.settle()
    for process in (B, C, "e#1"):
        assert told(bag, process) == ["y1", "y2"]
    assert bag.report().verdict == "ok"


@BOTH
def test_the_gap_closes_after_the_freeze(order: str) -> None:
    """What c has delivered early is in its stream, in order, when the plan comes; the report said otherwise."""
    bag = settled(order)
    for text in ("x1", "y1", "x2", "y2"):
        send(bag, A, text)
    late = [entry for entry in bag.packets if entry[1] == C and carried(entry[2]) == ["x1"]]
    bag.packets = [entry for entry in bag.packets if entry[1] == C and entry not in late]
    bag.hand_out()
    bag.crash(A)
    proposed: list[str] = []

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        if carries(packet, State) and source == C:
            proposed.append(source)
        return packet

    assert bag.run(3 * SECOND, rule, until=lambda: bool(proposed))
    bag.packets += late
    assert bag.settle()
    assert set(told(bag, B)) == set(told(bag, C)) >= {"y1", "y2"}
    assert bag.report().verdict == "ok"


@BOTH
def test_components_keep_what_their_own_delivered(order: str) -> None:
    bag = settled(order, 4)
    for text in ("x1", "y1", "x2", "z1"):
        send(bag, A, text)
    wanted = {B: {"x1"}, C: {"y1", "x2"}, D: {"z1"}}
    bag.packets = [entry for entry in bag.packets if set(carried(entry[2])) & wanted[entry[1]]]
    bag.hand_out()
    assert (told(bag, B), told(bag, C), told(bag, D)) == (["x1"], ["y1"], ["z1"])
    bag.split("ab", "cd")
    bag.run(2 * SECOND)
    assert told(bag, B) == ["x1", "y1", "x2", "z1"]
    assert (set(told(bag, C)), set(told(bag, D))) == ({"y1", "z1"}, {"y1", "z1"})
    bag.packets.clear()
    assert bag.settle()
    assert bag.report().verdict == "ok"


@BOTH
def test_no_more_than_a_bounded_number_is_delivered_early(order: str) -> None:
    bag = settled(order)
    for index in range(EARLY + 10):
        send(bag, A, f"{chr(ord('A') + index)}")
    bag.run(5 * MS, without((C, "A")))
    assert len(told(bag, C)) == EARLY
    assert bag.live[C].counters["casts_early_refused"] > 0
    assert bag.settle()
    assert len(told(bag, C)) == EARLY + 10
    assert bag.report().verdict == "ok"


def test_orders_that_do_not_ask_are_not_offered_anything() -> None:
    bag = settled("semantic_fifo")
    plain = Bag(3, Ordering("causal"))
    assert plain.settle()
    for group in (bag, plain):
        endpoint = group.live[A]
        endpoint.submit([b"one"], group.now)
        group.collect(endpoint)
        endpoint.submit([b"two"], group.now)
        group.collect(endpoint)
        group.run(5 * MS, without((C, "one")))
        assert told(group, C) == []
    assert plain.live[C].counters.get("casts_early", 0) == 0


def test_a_cast_that_cannot_have_that_number_is_refused() -> None:
    bag = settled("semantic_fifo")
    send(bag, A, "x1")
    source, _, packet = next(entry for entry in bag.packets if entry[1] == C)
    (cast,) = packet.records
    assert isinstance(cast, Cast)
    far = msgspec.structs.replace(packet, first=packet.first + 1, records=[msgspec.structs.replace(cast, seq=3)])
    with pytest.raises(RemoteProtocolError, match="at most be its cast 2"):
        bag.live[C].receive(source, far, bag.now)


def _frozen(order: str) -> tuple[Bag, Epoch, State]:
    """c has delivered early, is asked for its state, and answers."""
    bag = gap(order)
    states: list[State] = []

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        found = [record for record in packet.loose if isinstance(record, State)]
        states.extend(found)
        return Fate.DROP if found else packet

    assert bag.run(3 * SECOND, rule, until=lambda: bool(states))
    epoch = bag.live[C].epoch
    assert epoch is not None
    return bag, epoch, states[0]


@BOTH
def test_a_frozen_view_delivers_nothing_more_and_says_what_it_delivered(order: str) -> None:
    bag, epoch, state = _frozen(order)
    assert (state.held, state.early) == ([0, 0, 0], [(0, 2), (0, 4)])
    assert epoch.flush.still_ahead() == state.early
    x1 = Cast(1, 0, [0, 0] if order == "semantic_causal" else [], 1, [b"x1"], None, Column([("x",)]))
    epoch.receive(B, Packet(*epoch.view.id, 1, 0, [Relay(0, x1)], []), bag.now)
    assert epoch.held == [1, 0, 0]
    assert epoch.flush.still_ahead() == [(0, 2), (0, 4)]
    assert told(bag, C) == ["y1", "y2"]


def test_more_than_can_be_early_is_not_taken_from_a_peer() -> None:
    bag, epoch, _ = _frozen("semantic_fifo")
    relays = [Relay(0, Cast(seq, 0, [], seq, [b"z"], None, Column([("z",)]))) for seq in range(3, 3 * EARLY + 4)]
    with pytest.raises(RemoteProtocolError, match="early casts"):
        epoch.receive(B, Packet(*epoch.view.id, 1, 0, list(relays), []), bag.now)


@BOTH
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_packets_are_lost(order: str, data: st.DataObject) -> None:
    """Much is sent over a network that loses and reorders, members crash, the rest comes together; the oracle judges."""
    members = data.draw(st.integers(3, 4))
    bag = settled(order, members, data.draw(st.sampled_from([Bag, PrimaryBag])))
    least = members // 2 + 2 if isinstance(bag, PrimaryBag) else 3  # a majority goes on, or nothing is promised
    for number in range(data.draw(st.integers(5, 30))):
        act = data.draw(st.sampled_from(["send", "send", "send", "deliver", "deliver", "drop", "time", "crash"]))
        if act == "send":
            process = data.draw(st.sampled_from(sorted(bag.live)))
            if bag.live[process].writable():
                send(bag, process, f"{data.draw(st.sampled_from('xyz'))}{number}")
        elif act == "time":
            bag.advance(data.draw(st.sampled_from([1, 40, 200])) * MS)
        elif act == "crash" and len(bag.live) >= least and data.draw(st.integers(0, 3)) == 0:
            bag.crash(data.draw(st.sampled_from(sorted(bag.live))))
        elif bag.packets:
            index = data.draw(st.integers(0, len(bag.packets) - 1))
            if act == "deliver":
                bag.deliver(index)
            else:
                del bag.packets[index]
    assert bag.settle()
    assert bag.report().verdict == "ok"


@BOTH
def test_proposals_are_answered_alike_again_and_again(order: str) -> None:
    """A proposal that is repeated gets the same early casts, in order."""
    bag, epoch, state = _frozen(order)
    endpoint = bag.live[C]
    change = endpoint.membership.rounds.change
    assert change is not None
    proposer = change.round.proposer
    again = Propose(change.round, list(change.participants), ["" for _ in change.participants])
    if proposer != C:
        endpoint.receive(proposer, Packet(0, "", 0, 0, [], [again]), bag.now)
        effects = endpoint.collect(bag.now)
        (answer,) = [r for _, packet in effects.packets for r in packet.loose if isinstance(r, State)]
        assert answer.early == state.early
    assert all(one < two for one, two in pairwise(epoch.flush.still_ahead()))
    assert not any(isinstance(upcall, ReturnedBatch) for upcall in bag.upcalls[C])
