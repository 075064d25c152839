"""View changes under traffic: crashes of every member, of a proposer half way, joins, leaves, and what is submitted meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from isotone.model.events import Transitional, ViewInstalled
from isotone.model.records import Install, Packet, Plan
from isotone.model.settings import MS, SECOND
from tests.contract.cases import Case
from tests.contract.marks import A, B, C, D, every_case, every_order, group
from tests.contract.watch import Watch
from tests.protocol.bag import Fate, carries


def lose_half(watch: Watch, victim: str) -> None:
    """Of what a crashed process sent last, only its first peer gets anything."""
    first = min(process for process in watch.live if process != victim)
    watch.packets = [entry for entry in watch.packets if entry[0] != victim or entry[1] == first]


@every_case
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_survivors_of_a_crash_agree(case: Case, rank: int) -> None:
    """A member stops in the middle of traffic; its last messages reach one survivor, hence all or none deliver them."""
    watch = group(case, 4)
    watch.traffic()
    victim = (A, B, C, D)[rank]
    watch.submit(victim, 2)
    watch.crash(victim)
    lose_half(watch, victim)
    survivors = sorted(watch.live)
    watch.traffic(rounds=2)
    assert watch.settle()
    assert watch.live[survivors[0]].view.members == tuple(survivors)
    watch.check(*survivors)
    first, *rest = ([(told.view, told.position, told.id) for told in watch.told(survivor)] for survivor in survivors)
    for other in rest:
        assert other == first if case.one_order else sorted(other) == sorted(first)


@every_case
def test_two_crashes_at_once(case: Case) -> None:
    watch = group(case, 4)
    watch.traffic()
    for victim in (A, C):
        watch.submit(victim, 1)
        watch.crash(victim)
        lose_half(watch, victim)
    watch.traffic(rounds=2)
    assert watch.settle()
    watch.check(B, D)
    assert watch.live[B].view.members == (B, D)


@every_case
def test_a_crash_during_the_flush_of_another(case: Case) -> None:
    """d has crashed and the others are frozen, when c crashes too, with its answer under way."""
    watch = group(case, 4)
    watch.traffic()
    watch.crash(D)
    assert watch.run(SECOND, until=lambda: all(endpoint.epoch.frozen for endpoint in watch.live.values()))
    watch.crash(C)
    watch.packets = [entry for entry in watch.packets if entry[0] != C]
    assert watch.settle()
    watch.check(A, B)


@every_case
def test_a_proposer_crashes_between_two_installs(case: Case) -> None:
    """a ends the view of the crashed d, tells b and stops: b is in the new view, c still in the old one."""
    watch = group(case, 4)
    watch.traffic()
    watch.crash(D)
    lose_half(watch, D)

    def only_to_b(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if carries(packet, Install) and target != B else packet

    assert watch.run(SECOND, only_to_b, until=lambda: watch.live[B].view.members == (A, B, C))
    assert watch.live[C].epoch.frozen
    assert len(watch.live[C].view) == 4
    watch.submit(B, 2)
    watch.submit(C, 2)
    watch.crash(A)
    watch.packets = [entry for entry in watch.packets if entry[0] != A]
    assert watch.settle()
    assert watch.live[C].view.members == (B, C)
    watch.check()
    assert sorted(told.number for told in watch.told(B) if told.origin == C)[-2:] == [watch.sent[C] - 1, watch.sent[C]]
    assert watch.views(C)[-1].together == (C,)  # b came from a view that c never saw


@every_case
def test_a_view_does_not_end_before_its_common_set_is_complete(case: Case) -> None:
    """d's last message reached c only, and what c passes on to a is late: nobody is in the next view before a has it."""
    watch = group(case, 4)
    watch.submit(D, 1)
    watch.packets = [entry for entry in watch.packets if entry[:2] != (C, A) and (entry[0] != D or entry[1] == C)]
    watch.crash(D)

    def nothing_sequenced_from_c_to_a(source: str, target: str, packet: Packet) -> Packet | Fate:
        late = (source, target) == (C, A) and packet.records
        return msgspec.structs.replace(packet, first=0, records=[]) if late else packet

    assert watch.run(SECOND, nothing_sequenced_from_c_to_a, until=lambda: watch.live[C].membership.rounds.change is not None)
    watch.run(100 * MS, nothing_sequenced_from_c_to_a)
    assert [len(endpoint.view) for endpoint in watch.live.values()] == [4, 4, 4]
    assert watch.settle()
    watch.check(A, B, C)
    expected = [(D, 1)] if case.intrinsic else []  # who orders it did not: nobody may
    for process in (A, B, C):
        assert [told.id for told in watch.told(process)] in (expected, [(D, 1)])


@every_order
def test_what_comes_before_its_view_is_kept(case: Case) -> None:
    """The install to c is late: c has the messages that b sends in the new view before it has the view, and needs none again."""
    watch = group(case)
    watch.begin("d")

    def late(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.KEEP if target == C and carries(packet, Install) else packet

    assert watch.run(SECOND, late, until=lambda: D in watch.live[B].view.members and D in watch.live[A].view.members)
    watch.submit(B, 3)
    watch.run(5 * MS, late)
    assert D not in watch.live[C].view.members
    assert watch.told(C) == []
    watch.run(5 * MS)
    assert len(watch.told(C)) == 3
    assert all("retransmissions" not in endpoint.counters for endpoint in watch.live.values())


@every_case
def test_what_is_submitted_during_a_flush_belongs_to_the_next_view(case: Case) -> None:
    """The plans of a joining are late: three frozen members take messages meanwhile, and deliver none of them too early."""
    watch = group(case)
    watch.traffic()
    old = watch.live[A].view.id
    watch.begin("d")
    late = watch.run(
        SECOND,
        lambda source, target, packet: Fate.KEEP if carries(packet, Plan) else packet,
        until=lambda: all(watch.live[process].epoch.frozen for process in (A, B, C)),
    )
    assert late
    before = {process: watch.sent[process] for process in (A, B, C)}
    delivered = {process: len(watch.told(process)) for process in (A, B, C)}
    for process in (A, B, C):
        assert watch.submit(process, 3) == 3
    watch.run(10 * MS, lambda source, target, packet: Fate.KEEP if carries(packet, Plan) else packet)
    assert {process: len(watch.told(process)) for process in (A, B, C)} == delivered  # a frozen view delivers nothing
    assert watch.settle()
    watch.check(A, B, C, D)
    for receiver in (A, B, C, D):
        for sender in (A, B, C):
            views = [told.view for told in watch.told(receiver) if told.origin == sender and told.number > before[sender]]
            assert len(views) == 3
            assert min(views) > old


@every_case
def test_a_join_under_traffic(case: Case) -> None:
    """The others go on sending while d joins; everybody delivers every message of each view that it is in."""
    watch = group(case)
    watch.traffic()
    watch.begin("d")
    for _ in range(20):
        watch.traffic(rounds=1)
        watch.run(10 * MS)
    assert watch.settle()
    assert watch.live[D].view.members == (A, B, C, D)
    watch.check(A, B, C, D)
    assert {told.origin for told in watch.told(D)} == {A, B, C, D}
    for process in (A, B, C):
        assert len(watch.told(process)) + sum(told.origin == D for told in watch.told(D)) >= sum(watch.sent.values())


@every_case
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_leave_under_traffic_loses_nothing(case: Case, rank: int) -> None:
    """Who leaves first sends what it was given; in the view that ends with it everybody delivers the same, the leaver too."""
    watch = group(case)
    watch.traffic()
    leaver = (A, B, C)[rank]
    others = [process for process in (A, B, C) if process != leaver]
    watch.submit(leaver, 3)
    watch.leave(leaver)
    watch.traffic(rounds=4)
    assert watch.settle()
    assert leaver not in watch.live
    watch.check(A, B, C)
    last = watch.views(leaver)[-1].view.id
    assert watch.views(others[0])[-2].view.id == last  # the view that ended is the one before the others' last
    for process in (A, B, C):
        own = [told.number for told in watch.told(process) if told.origin == leaver]
        assert sorted(own) == list(range(1, watch.sent[leaver] + 1))
        assert not watch.returned(process)
    for process in others:
        assert len(watch.told(process)) == sum(watch.sent.values())


@every_case
def test_everybody_leaves_at_once(case: Case) -> None:
    watch = group(case)
    watch.traffic()
    for process in (A, B, C):
        watch.submit(process, 1)
        watch.leave(process)
    assert watch.run(5 * SECOND, until=lambda: not watch.live)
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {sum(watch.sent.values())}


@every_case
def test_views_come_with_their_transitional_signal(case: Case) -> None:
    """Every view but the first ends the one before with exactly one signal, which names who goes on together."""
    watch = group(case)
    watch.traffic()
    watch.crash(C)
    assert watch.settle()
    watch.begin("d")
    watch.traffic()
    assert watch.settle()
    for process in (A, B):
        signals = [upcall for upcall in watch.upcalls[process] if isinstance(upcall, Transitional | ViewInstalled)]
        for signal, installed in zip(signals[1::2], signals[2::2], strict=True):
            assert isinstance(signal, Transitional)
            assert isinstance(installed, ViewInstalled)
            assert installed.previous == signal.view.id
            assert installed.together == tuple(p for p in signal.together if p in installed.view.members)
    assert watch.views(A)[-1].together == (A, B)
    assert watch.views(D)[-1].view == watch.views(A)[-1].view


@every_case
def test_a_paused_member_comes_back(case: Case) -> None:
    """c is not run for so long that the others go on without it; then it gets everything at once, and rejoins."""
    watch = group(case)
    watch.traffic()
    watch.pause(C)
    assert watch.run(2 * SECOND, until=lambda: watch.live[A].view.members == (A, B))
    for process in (A, B):
        watch.submit(process, 2)
    watch.run(20 * MS)
    watch.resume(C)
    watch.submit(C, 2)
    assert watch.settle()
    watch.check(A, B)
    assert watch.live[C].view.members == (A, B, C)
