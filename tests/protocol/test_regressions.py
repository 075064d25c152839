"""What an adversary found in view changes, one schedule each: told in words, played on a bag, fixed since.

Each docstring tells what was scheduled and what went wrong then; the assertions say what must happen instead.
"""

from __future__ import annotations

import pytest

from isotone.codec.packets import decode_packet, encode_packet
from isotone.model.records import Direct, Heartbeat, Install, Packet, Plan, Propose, Ready
from isotone.model.settings import MS, SECOND, EndpointConfig, Timing
from isotone.model.view import Ordering
from isotone.protocol.endpoint import Endpoint
from tests.protocol.bag import Bag, Fate, carries

A, B, C, D = "a#1", "b#1", "c#1", "d#1"
DEFAULTS = Timing()


def settled(count: int, ordering: Ordering, timing: Timing | None = None) -> Bag:
    """A group with nothing under way."""
    bag = Bag(count, ordering, timing=timing)
    assert bag.settle(3000)
    bag.packets.clear()
    return bag


def assert_fine(bag: Bag) -> None:
    report = bag.report()
    assert report.verdict == "ok", [(check.name, check.witness) for check in report.checks if check.verdict == "violated"]


def proposals(bag: Bag, process: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times at which a process proposes from here on; more than a few at one moment fail at once instead of for ever."""
    rounds = bag.live[process].membership.rounds
    propose = rounds.propose
    times: list[int] = []

    def counted(participants: tuple[str, ...], now: int) -> None:
        times.append(now)
        assert times.count(now) < 5, f"{process} proposes without end at {now}"
        propose(participants, now)

    monkeypatch.setattr(rounds, "propose", counted)
    return times


def test_a_frozen_member_does_not_report_what_came_late() -> None:
    """c leaves and a proposes, but the proposal to b is late: a and c are frozen, b still sends.

    The frozen members got b's cast and said so in their heartbeats, b freed it, and had to pass it on afterwards, because
    their answers to the proposal had been given without it.
    """
    bag = settled(3, Ordering("fifo"))
    bag.leave(C)

    def late(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.KEEP if target == B and carries(packet, Propose) else packet

    assert bag.run(SECOND, late, until=lambda: bag.live[A].epoch.frozen and bag.live[C].epoch.frozen)
    bag.submit(B, 1)
    bag.run(60 * MS, late)
    assert bag.live[A].epoch.held[1] == 1  # it is there, but it does not count
    assert bag.live[B].epoch.freed == [0, 0, 0]
    assert bag.settle()
    assert_fine(bag)
    assert bag.received[A] == bag.received[B] == bag.received[C] == [(B, 1)]


def test_a_joiner_that_answers_and_dies_is_not_proposed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """x joins a and b, answers a's proposal, which b never gets, and x's connections close.

    x was suspected hard because of the closed connection while the directory still counted it as heard of late: the round
    was given up and proposed again, with x, without end within one turn.
    """
    bag = settled(2, Ordering("fifo"), DEFAULTS)
    x = bag.begin("x")
    membership = bag.live[A].membership

    def lost(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if target == B and carries(packet, Propose) else packet

    def answered_and_just_heard() -> bool:
        change = membership.rounds.change
        return change is not None and change.mine and x in change.states and membership.directory.said[x].time == bag.now

    assert bag.run(3 * SECOND, lost, until=answered_and_just_heard)
    bag.crash(x)
    times = proposals(bag, A, monkeypatch)
    for process in (A, B):
        bag.disconnect(process, x)
    bag.run(1500 * MS, lost)
    assert len(times) <= 3
    assert bag.settle(3000)
    assert bag.live[A].view.members == (A, B)
    assert_fine(bag)


def test_an_install_that_is_lost_for_long_comes_in_the_end() -> None:
    """d joins; what a, the proposer, sends to c is lost for 1.2 s from the first install on, less than it takes to suspect a.

    The proposer repeated the install for a second and gave up; c went on waiting for as long as it heard the proposer.
    """
    bag = settled(3, Ordering("single_phase"), DEFAULTS)
    bag.begin("d")
    first: list[int] = []

    def outage(source: str, target: str, packet: Packet) -> Packet | Fate:
        if carries(packet, Install) and not first:
            first.append(bag.now)
        return Fate.DROP if (source, target) == (A, C) and first and bag.now - first[0] < 1200 * MS else packet

    bag.run(4 * SECOND, outage, step_ns=5 * MS)
    assert first
    assert bag.settle()
    bag.submit(B, 1)
    assert bag.settle()
    assert {len(bag.received[process]) for process in (A, B, C, D)} == {1}
    assert_fine(bag)


def test_positions_of_the_rest_do_not_depend_on_how_much_of_it_there_is() -> None:
    """`sequencer`: a, which orders, leaves. b ends the view with a and d but without c, whose second cast only c holds; then b's
    installs to a and d are lost and b crashes, so that a and d end the same view with c, in another round and with that cast.

    The rest was numbered on from the last order record, so d's message had another position here than there.
    """
    bag = settled(4, Ordering("sequencer"))
    deaf = {(C, A), (D, A), (C, D), (B, A)}  # no casts reach the sequencer; c's reach b only

    def lossy(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if (source, target) in deaf and packet.records else packet

    def lossy_without_installs(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if source == B and carries(packet, Install) else lossy(source, target, packet)

    bag.submit(C, 1)
    bag.run(2 * MS, lossy)
    deaf.add((C, B))
    bag.submit(C, 1)
    bag.submit(D, 1)
    bag.run(2 * MS, lossy)
    assert {process: bag.live[process].epoch.held[2:] for process in (A, B, C, D)} == {A: [0, 0], B: [1, 1], C: [2, 1], D: [0, 1]}
    bag.pause(C)
    bag.leave(A)
    deaf -= {(B, A), (D, A)}
    assert bag.run(2 * SECOND, lossy_without_installs, until=lambda: C not in bag.live[B].view.members)
    assert bag.received[B] == [(C, 1), (D, 1)]
    bag.crash(B)
    bag.packets.clear()
    bag.asleep[C].clear()
    assert bag.settle(2000)
    assert_fine(bag)
    assert bag.received[C] == [(C, 1), (C, 2), (D, 1)]


def test_who_leaves_before_its_first_view_is_done() -> None:
    """A process that found nobody leaves: it went on asking to be woken and probing for ever."""
    endpoint = Endpoint(EndpointConfig(A, "a", founder=False))
    endpoint.start(0)
    endpoint.connected(B, "b", 0)
    endpoint.collect(0)
    endpoint.leave(0)
    endpoint.collect(0)
    assert endpoint.closed
    assert endpoint.deadline() is None
    endpoint.wake(SECOND)
    assert endpoint.collect(SECOND).packets == []


def test_the_last_view_of_all_travels_over_the_wire() -> None:
    """All three leave at once. The view that nobody is in any more was encoded but not decoded: two of them never heard of it."""
    bag = settled(3, Ordering("fifo"))
    for process in (A, B, C):
        bag.live[process].leave(bag.now)
    for process in (A, B, C):
        bag.collect(bag.live[process])
    empty = 0

    def wire(source: str, target: str, packet: Packet) -> Packet | Fate:
        nonlocal empty
        empty += any(isinstance(record, Install) and not record.view.members for record in packet.loose)
        return decode_packet(encode_packet(packet))

    assert bag.run(2 * SECOND, wire, until=lambda: not bag.live)
    assert empty


def test_a_gate_asks_again_when_what_it_waits_for_was_there_before() -> None:
    """`safe`: everybody holds b's message long before the acknowledgements come that make it stable.

    The gate looked only when the frontier moved; the message came to the gate afterwards and stayed there.
    """
    bag = settled(3, Ordering("single_phase", "safe"))
    bag.submit(B, 1)

    def late(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.KEEP if any(isinstance(record, Direct) for record in packet.records) else packet

    bag.run(100 * MS, late)
    assert [bag.live[process].epoch.held[1] for process in (A, B, C)] == [1, 1, 1]
    assert bag.received[B] == bag.received[C] == []
    bag.run(200 * MS)
    assert bag.received == {process: [(B, 1)] for process in (A, B, C)}
    assert_fine(bag)


def test_what_a_frozen_member_gets_late_is_not_safe() -> None:
    """`safe`, the view {b, c}: a joins b only, because c does not hear a. The rest of that round is slow, and c sends meanwhile.

    b was frozen and had answered without the message, yet reported it: c delivered as safe what b, ending the view, did not.
    """
    bag = Bag(0, Ordering("fifo", "safe"))
    for name in "bc":
        bag.begin(name)
    assert bag.settle()
    bag.packets.clear()
    bag.begin("a")

    def slow(source: str, target: str, packet: Packet) -> Packet | Fate:
        if (source, target) == (A, C):
            return Fate.DROP
        return Fate.KEEP if carries(packet, Plan, Ready, Install) else packet

    def without_c(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if C in (source, target) else packet

    assert bag.run(SECOND, slow, until=lambda: bag.live[B].epoch.frozen)
    assert bag.live[B].membership.rounds.change.participants == (A, B)
    bag.submit(C, 1)
    bag.run(60 * MS, slow)
    assert bag.live[B].epoch.held == [0, 1]
    assert bag.received[C] == []
    assert bag.run(100 * MS, without_c, until=lambda: A in bag.live[B].view.members)
    assert bag.settle(2000)
    assert_fine(bag)


@pytest.mark.parametrize("both", [True, False], ids=["both ways", "one way"])
def test_a_triangle_with_a_missing_side_comes_to_rest(both: bool) -> None:
    """a and c do not hear each other, b hears both, for ever.

    The views {a, b} and {b, c} and {a, b, c} followed each other without end, dozens in a minute.
    """
    bag = settled(3, Ordering("single_phase"), DEFAULTS)
    bag.cut = {(C, A), (A, C)} if both else {(C, A)}
    bag.run(10 * SECOND, step_ns=5 * MS)
    rested = {process: bag.live[process].view.id for process in (A, B, C)}
    bag.run(20 * SECOND, step_ns=5 * MS)
    assert {process: bag.live[process].view.id for process in (A, B, C)} == rested
    assert not any(endpoint.epoch.frozen for endpoint in bag.live.values())
    assert bag.settle(3000)
    assert_fine(bag)


def test_a_heartbeat_from_the_dead_disturbs_nobody() -> None:
    """One heartbeat of c, which has crashed and was left out, comes three seconds late.

    It counted as news of a living process: the group froze and proposed a view with the dead.
    """
    bag = settled(3, Ordering("fifo"), DEFAULTS)
    kept: list[Packet] = []

    def copied(source: str, target: str, packet: Packet) -> Packet | Fate:
        if (source, target) == (C, A) and carries(packet, Heartbeat):
            kept.append(packet)
        return packet

    bag.run(200 * MS, copied)
    bag.crash(C)
    assert bag.settle(3000)
    bag.run(3 * SECOND, step_ns=5 * MS)
    view = bag.live[A].view.id
    bag.packets.append((C, A, kept[-1]))
    assert not bag.run(4 * SECOND, until=lambda: any(e.epoch.frozen for e in bag.live.values()), step_ns=5 * MS)
    assert bag.live[A].view.id == view
