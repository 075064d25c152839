"""Back-pressure: with tiny limits `submit` takes a prefix, windows close and reopen, nothing is lost, no buffer grows too far.

`Watch` checks the bounds of every endpoint at every turn of every contract test.
"""

from __future__ import annotations

import pytest

from isotone.model.events import SlowMember
from isotone.model.records import Packet
from isotone.model.settings import MS, Limits
from tests.contract.cases import Case
from tests.contract.marks import A, B, C, every_case, group
from tests.contract.watch import Watch
from tests.protocol.bag import Fate

TINY = Limits(
    payload_bytes=32, batch_bytes=32, batch_messages=3, pending_bytes=100, pending_messages=12, window_bytes=64, window_casts=3,
    link_records=6, backlog_bytes=200,
)  # fmt: skip
FEW_BYTES = Limits(
    payload_bytes=16, batch_bytes=16, batch_messages=100, pending_bytes=60, pending_messages=1000, window_bytes=40,
    window_casts=1000, link_records=100, backlog_bytes=200,
)  # fmt: skip
tight = pytest.mark.parametrize("limits", [TINY, FEW_BYTES], ids=["few messages", "few bytes"])


def slow(upcalls: Watch, process: str) -> list[tuple[str, bool]]:
    return [(upcall.peer, upcall.holding) for upcall in upcalls.upcalls[process] if isinstance(upcall, SlowMember)]


@every_case
@tight
def test_submit_takes_a_prefix_and_nothing_of_it_is_lost(case: Case, limits: Limits) -> None:
    """The network stands still: submit takes what the window and the queue hold and not one message more."""
    watch = group(case, limits=limits)
    payloads = [b"a#1/%d" % i for i in range(60)]
    accepted = [watch.live[A].submit(payloads[:40], watch.now)]
    watch.collect(watch.live[A])  # a window full goes out, and makes room
    while accepted[-1]:
        accepted.append(watch.live[A].submit(payloads[sum(accepted) :], watch.now))
        watch.collect(watch.live[A])
    watch.sent[A] = sum(accepted)
    assert 10 <= accepted[0] < 40
    assert accepted[0] < watch.sent[A] < 60
    assert watch.live[A].writable() == (limits is FEW_BYTES)  # a shorter message would still be taken there
    assert watch.settle()
    assert watch.live[A].writable()
    watch.check(A, B, C)
    for process in (A, B, C):
        assert [told.payload for told in watch.told(process)] == payloads[: watch.sent[A]]


@every_case
@tight
def test_the_window_reopens_until_everything_is_through(case: Case, limits: Limits) -> None:
    """Three applications push as hard as they may through tiny windows, over a network that loses and reorders."""
    watch = group(case, limits=limits)
    refused = turn = 0
    while min(watch.sent.values()) < 60:
        turn += 1
        assert turn < 2000
        for process in (A, B, C):
            refused += 20 - watch.submit(process, 20)
        for index in range(len(watch.packets) // 2):
            if index % 7 == 6:
                watch.packets.pop(0)
            else:
                watch.deliver(index * 5 % len(watch.packets))
        watch.advance(MS)
    assert refused
    assert watch.settle(2000)
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {sum(watch.sent.values())}


@every_case
def test_tiny_windows_survive_a_view_change(case: Case) -> None:
    """What the old view's window had not admitted goes into the next view; credits of the old view do not count there."""
    watch = group(case, limits=TINY)
    for process in (A, B, C):
        watch.submit(process, 40)
    watch.crash(C)
    for process in (A, B):
        watch.submit(process, 40)
    assert watch.settle(2000)
    watch.check(A, B)
    for process in (A, B):
        watch.submit(process, 12)
    assert watch.settle(2000)
    watch.check(A, B)


@every_case
def test_who_leaves_with_a_full_queue_sends_it_first(case: Case) -> None:
    """Several windows are waiting when b asks to leave; it stays until the last has gone out."""
    watch = group(case, limits=TINY)
    watch.submit(B, 40)
    watch.submit(B, 40)
    assert len(watch.live[B].pending) > 3
    watch.leave(B)
    assert watch.settle(2000)
    assert B not in watch.live
    watch.check(A, B, C)
    for process in (A, B, C):
        assert sorted(told.number for told in watch.told(process)) == list(range(1, watch.sent[B] + 1))


@every_case
def test_a_slow_application_holds_the_senders_back_and_is_named(case: Case) -> None:
    """Messages wait at their senders while b's application lags, and flow as soon as it has caught up; the view stays."""
    watch = group(case, limits=TINY)
    view = watch.live[A].view.id
    watch.live[B].backlog(201, watch.now)
    watch.collect(watch.live[B])
    watch.run(5 * MS)
    assert slow(watch, A) == slow(watch, C) == [(B, True)]
    for process in (A, B, C):
        watch.submit(process, 3)
    watch.run(500 * MS)
    assert all(watch.told(process) == [] for process in (A, B, C))
    assert watch.live[A].status()["held_back_by"] == [B]
    watch.live[B].backlog(150, watch.now)  # still more than half: no flapping
    watch.collect(watch.live[B])
    watch.run(100 * MS)
    assert watch.told(A) == []
    watch.live[B].backlog(100, watch.now)
    watch.collect(watch.live[B])
    assert watch.settle()
    assert slow(watch, A) == slow(watch, C) == [(B, True), (B, False)]
    assert slow(watch, B) == []
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {9}
    assert watch.live[A].view.id == view


@every_case
def test_a_slow_application_holds_back_in_the_next_view_too(case: Case) -> None:
    """The state belongs to the member, not to the view: a new view does not open the window."""
    watch = group(case, limits=TINY)
    watch.live[B].backlog(1000, watch.now)
    watch.collect(watch.live[B])
    watch.run(30 * MS)
    watch.crash(C)
    assert watch.settle()
    watch.run(30 * MS)
    before = len(watch.told(A))
    watch.submit(A, 2)
    watch.submit(B, 1)
    watch.run(200 * MS)
    assert len(watch.told(A)) == len(watch.told(B)) == before
    watch.live[B].backlog(0, watch.now)
    watch.collect(watch.live[B])
    assert watch.settle()
    watch.check(A, B)
    assert len(watch.told(B)) == before + 3


@every_case
def test_a_slow_member_that_crashes_holds_nobody_back(case: Case) -> None:
    watch = group(case, limits=TINY)
    watch.live[B].backlog(1000, watch.now)
    watch.collect(watch.live[B])
    watch.run(30 * MS)
    watch.submit(A, 2)
    watch.crash(B)
    assert watch.settle()
    watch.check(A, C)
    assert len(watch.told(C)) == 2


@every_case
def test_what_a_silent_network_holds_back_is_bounded(case: Case) -> None:
    """No sequenced record gets through for a while: everything stays within the limits and comes through afterwards."""
    watch = group(case, limits=TINY)

    def signs_of_life_only(source: str, target: str, packet: Packet) -> Packet | Fate:
        return Fate.DROP if packet.records else packet

    for _ in range(30):
        for process in (A, B, C):
            watch.submit(process, 12)
        watch.run(5 * MS, signs_of_life_only)
    assert all(not endpoint.writable() for endpoint in watch.live.values())
    assert watch.settle(2000)
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {sum(watch.sent.values())}
