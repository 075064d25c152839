"""Schedules that need an instant too rare for the swarm; with a fault put in, each of them shows it."""

from __future__ import annotations

import msgspec

from isotone.model.conflicts import Conflicts
from isotone.model.events import DeliveryBatch
from isotone.model.records import Cast, Packet
from isotone.model.settings import MS, SECOND
from isotone.model.switch import Strategy, Switch
from isotone.model.view import Level, Ordering
from isotone.protocol.ordering import registry
from isotone.protocol.switching.channel import KINDS
from isotone.protocol.switching.control import KNOWN, READY
from tests.protocol.bag import Bag, Fate
from tests.protocol.switch_bag import A, B, C, D, ask, group, order_of
from tests.protocol.test_early import carried, send, settled

BY_ITEM = Conflicts.by_item()


def tells_of_the_cut(packet: Packet, knows: bool = False) -> bool:
    """Whether a packet says that its sender has reached a cut, or knows that all have."""
    said = [record.stamp for record in packet.records if isinstance(record, Cast) and record.kind & KINDS == READY]
    return (KNOWN in said) if knows else bool(said)


def stop_at(bag: Bag, process: str, order: str, level: Level = "agreed") -> None:
    """A process asks for another order by `stop`, which reaches all of them."""
    conflicts = BY_ITEM if registry.find(order).semantic else None
    bag.live[process].switch(Switch(Ordering(order, level, conflicts=conflicts), "stop", fresh=True), bag.now)
    bag.collect(bag.live[process])


def safe(bag: Bag, process: str) -> list[tuple[str, int]]:
    """What a process has delivered as safe."""
    batches = [upcall for upcall in bag.upcalls[process] if isinstance(upcall, DeliveryBatch) and upcall.level == "safe"]
    return [(batch.origin, batch.first) for batch in batches]


def one_does_not_hear_the_last_word(before: str, after: str, level: Level = "agreed") -> Bag:
    """All have reached the cut to a safe order, or, from a level above agreed, know that all have; c does not hear it of b. a and
    b pass, and a sends. Then c is cut off, and can only be unsure."""
    bag = group(before, level=level)
    ask(bag, A, after, level="safe", fresh=True)

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if (source, target) == (B, C) and tells_of_the_cut(packet, level != "agreed") else packet

    assert bag.run(SECOND, rule, until=lambda: order_of(bag, A) == order_of(bag, B) == after)
    assert order_of(bag, C) == before
    bag.submit(A, 1)
    bag.run(100 * MS, rule)
    assert (A, 1) not in bag.received[C]
    bag.split("ab", "c")
    assert bag.run(SECOND, until=lambda: len(bag.live[A].view) == 2 and len(bag.live[C].view) == 1)
    assert bag.live[C].counters["switches_unsure_at_the_end"] == 1
    assert bag.settle()
    return bag


def _around_d(source: str, target: str, packet: Packet, silent: tuple[str, ...] = (A, B)) -> Packet | Fate:
    """d gets nothing of a and b but through c."""
    return msgspec.structs.replace(packet, records=[], first=0) if source in silent and target == D else packet


def fetched_before_the_switch_began() -> Bag:
    """d gets nothing of a and b but through c, and of a's stream the flag and messages of the next orderer at once."""
    bag = group("token", 4)
    ask(bag, A, "single_phase", "dual_ids")
    bag.submit(A, 2)
    bag.run(10 * MS, lambda *sent: _around_d(*sent, (A, B, C)), until=lambda: bag.live[C].epoch.regime[1] == 1)
    bag.run(250 * MS, _around_d, until=lambda: bag.live[D].counters.get("casts_fetched", 0) >= 7)
    assert bag.settle()
    return bag


def fetched_for_a_lane_that_has_not_begun(strategy: Strategy) -> Bag:
    """d hears a and b through c alone. Two switches from token to token follow each other, and d, which has not passed the first
    when the second begins, fetches casts for the last lane before and after that begins there."""
    bag = group("token", 4)
    ask(bag, A, "token", strategy, fresh=True)
    asked = False
    for _ in range(120):
        bag.run(5 * MS, _around_d)
        if not asked and bag.live[A].epoch.switching.current == 1:
            ask(bag, A, "token", strategy, fresh=True)
            asked = True
        bag.submit(A, 1)
        if bag.live[D].epoch.begin_switching().current == 2:
            break
    assert bag.settle()
    return bag


def early_casts_of_a_crashed_member_while_a_switch_by_stop_is_asked_for(order: str) -> Bag:
    """c sends x1, y1 and x2; d alone gets x1, and x2 from behind the gap. c crashes, and a's flag for a stop reaches b alone."""
    bag = settled(order, 4)
    for text in ("x1", "y1", "x2"):
        send(bag, C, text)
    bag.packets = [entry for entry in bag.packets if entry[1] == D and carried(entry[2])[:1] != ["y1"]]
    bag.hand_out()
    bag.crash(C)
    stop_at(bag, A, "sequencer")
    bag.packets = [entry for entry in bag.packets if entry[1] == B]
    bag.hand_out()
    assert bag.settle()
    return bag


def _not_passed_by_c(order: str) -> Bag:
    """a and b have passed the cut to an order that takes casts early; c has reached it, and lacks b's word for that."""
    before = "semantic_fifo" if order == "semantic_causal" else "semantic_causal"
    bag = settled(before)
    stop_at(bag, A, order)
    assert bag.run(SECOND, _not_heard_by_c, until=lambda: order_of(bag, A) == order_of(bag, B) == order)
    assert order_of(bag, C) == before
    bag.packets.clear()
    return bag


def _not_heard_by_c(source: str, target: str, packet: Packet) -> Packet | Fate:
    return Fate.DROP if (source, target) == (B, C) and tells_of_the_cut(packet) else packet


def _a_crashes(bag: Bag) -> Bag:
    """b and c end the view before c has heard any more of b."""
    bag.crash(A)
    assert bag.run(SECOND, _not_heard_by_c, until=lambda: bag.live[B].epoch.frozen and bag.live[C].epoch.frozen)
    assert bag.settle()
    assert bag.live[C].counters["switches_cut_at_the_end"] == 1
    return bag


def early_where_the_cut_is_passed(order: str) -> Bag:
    """b delivers y1 from behind a gap, c has not passed yet, and a crashes."""
    bag = _not_passed_by_c(order)
    for text in ("w1", "x1", "y1"):
        send(bag, A, text)
    bag.packets = [entry for entry in bag.packets if entry[1] == B and carried(entry[2])[:1] != ["x1"]]
    bag.hand_out()
    return _a_crashes(bag)


def early_where_the_cut_is_not_passed(order: str) -> Bag:
    """y1 comes to c from behind a gap; b, which has passed, gets the message before the gap alone, and a crashes."""
    bag = _not_passed_by_c(order)
    for text in ("w1", "x1", "y1"):
        send(bag, A, text)
    bag.packets = [entry for entry in bag.packets if carried(entry[2])[:1] in ([["w1"]] if entry[1] == B else [["w1"], ["y1"]])]
    bag.hand_out()
    return _a_crashes(bag)
