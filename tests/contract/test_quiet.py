"""Without faults: every orderer delivers everything, everywhere, in its order, with all that belongs to a message."""

from __future__ import annotations

import pytest

from isotone.model.errors import Closed, LocalProtocolError
from isotone.model.events import DeliveryBatch
from isotone.model.settings import MS, Limits
from isotone.protocol.ordering import registry
from tests.contract.cases import CASES, Case
from tests.contract.marks import A, B, C, every_case, every_order, group
from tests.contract.watch import Watch
from tests.protocol.bag import Fate


def test_every_registered_orderer_is_here() -> None:
    assert {case.order for case in CASES} == set(registry.names())
    assert {case.level for case in CASES} == {"agreed", "k", "safe"}


@every_case
def test_everyone_delivers_everything(case: Case) -> None:
    watch = group(case)
    watch.traffic(rounds=6)
    assert watch.settle()
    watch.check(A, B, C)
    everything = {(process, number) for process in (A, B, C) for number in range(1, watch.sent[process] + 1)}
    for process in (A, B, C):
        assert {told.id for told in watch.told(process)} == everything
        assert {told.level for told in watch.told(process)} == {case.level}
    if case.total:
        assert sorted(watch.told(A)) == sorted(watch.told(B)) == sorted(watch.told(C))
    if case.one_order:
        assert watch.told(A) == watch.told(B) == watch.told(C)
    if case.total:
        positions = [told.position for told in watch.told(A)]
        assert len(set(positions)) == len(positions)


@every_case
def test_everyone_delivers_everything_over_a_network_that_loses_repeats_and_reorders(case: Case) -> None:
    """Of the packets every fourth is lost, every third repeated, and the newest goes first."""
    watch = group(case)
    for turn in range(8):
        for process in (A, B, C):
            watch.submit(process, 1 + turn % 2)
        for index in range(min(12, len(watch.packets))):
            if index % 4 == 3:
                watch.packets.pop()
            else:
                watch.deliver(len(watch.packets) - 1, keep=index % 3 == 0)
        watch.advance(MS)
    assert watch.settle()
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {sum(watch.sent.values())}


@every_case
def test_a_group_of_one_delivers_to_itself(case: Case) -> None:
    watch = group(case, count=1)
    watch.traffic()
    assert watch.settle()
    watch.check(A)
    assert [told.number for told in watch.told(A)] == list(range(1, watch.sent[A] + 1))


@every_order
def test_types_and_items_arrive_with_their_messages(case: Case) -> None:
    watch = group(case)
    types = ["update", None, "increment"]
    items = [["x", "y"], None, ["z"]]
    assert watch.live[B].submit([b"b#1/0", b"b#1/1", b"b#1/2"], watch.now, types, items) == 3
    assert watch.live[B].submit([b"b#1/3"], watch.now) == 1
    watch.sent[B] = 4
    watch.collect(watch.live[B])
    assert watch.settle()
    watch.check(A, B, C)
    for process in (A, B, C):
        told = [(message.payload, message.type, message.items) for message in watch.told(process)]
        assert told == [
            (b"b#1/0", "update", ("x", "y")),
            (b"b#1/1", None, None),
            (b"b#1/2", "increment", ("z",)),
            (b"b#1/3", None, None),
        ]


@every_order
def test_one_submit_of_many_messages_is_split_where_a_batch_is_full(case: Case) -> None:
    limits = Limits(batch_bytes=64, batch_messages=5)
    watch = group(case, limits=limits)
    assert watch.submit(A, 40) == 40
    watch.submit(B, 3)
    assert watch.settle()
    watch.check(A, B, C)
    for process in (A, B, C):
        batches = [upcall for upcall in watch.upcalls[process] if isinstance(upcall, DeliveryBatch) and upcall.origin == A]
        assert sorted(told.number for told in watch.told(process) if told.origin == A) == list(range(1, 41))
        assert all(len(batch.payloads) <= 5 and sum(map(len, batch.payloads)) <= 64 for batch in batches)
        assert len(batches) == 8
        together = [len(u.payloads) for u in watch.upcalls[process] if isinstance(u, DeliveryBatch) and u.origin == B]
        assert together == [3] if case.conflicts is None else sum(together) == 3  # what commutes may travel apart


@every_order
def test_a_message_larger_than_a_batch_travels_alone(case: Case) -> None:
    watch = group(case, limits=Limits(batch_bytes=8, payload_bytes=64))
    payloads = [b"small", b"x" * 60, b"tiny"]
    assert watch.live[C].submit(payloads, watch.now) == 3
    watch.collect(watch.live[C])
    assert watch.settle()
    for process in (A, B, C):
        assert [list(upcall.payloads) for upcall in watch.upcalls[process] if isinstance(upcall, DeliveryBatch)] == [
            [b"small"],
            [b"x" * 60],
            [b"tiny"],
        ]


@every_order
def test_what_is_submitted_before_the_first_view_is_delivered_in_it(case: Case) -> None:
    """A group that is not there yet takes messages; they wait for the view of all three."""
    watch = Watch(0, case)
    for name in "abc":
        watch.begin(name, found_after_ns=50 * MS)
        watch.submit(f"{name}#1", 2)
    assert watch.settle()
    watch.check(A, B, C)
    assert {len(watch.told(process)) for process in (A, B, C)} == {6}
    assert {told.view for told in watch.told(A)} == {watch.views(A)[0].view.id}


@every_order
def test_a_payload_over_the_limit_is_the_callers_error_and_nothing_of_the_call_is_taken(case: Case) -> None:
    watch = group(case, limits=Limits(payload_bytes=100))
    with pytest.raises(LocalProtocolError, match="101 bytes is over the limit of 100"):
        watch.live[A].submit([b"fine", b"x" * 101, b"fine"], watch.now)
    with pytest.raises(LocalProtocolError, match="one entry per payload"):
        watch.live[A].submit([b"fine", b"fine"], watch.now, ["update"])
    watch.submit(A, 1)
    assert watch.settle()
    assert [told.payload for told in watch.told(B)] == [b"a#1/0"]
    watch.check(A, B, C)


@every_order
def test_who_leaves_can_neither_submit_nor_leave_again(case: Case) -> None:
    watch = group(case)
    leaver = watch.live[B]
    watch.leave(B)
    with pytest.raises(Closed):
        leaver.submit([b"late"], watch.now)
    assert watch.settle()
    assert leaver.closed
    assert leaver.deadline() is None
    with pytest.raises(Closed):
        leaver.submit([b"later"], watch.now)
    with pytest.raises(Closed):
        leaver.leave(watch.now)


@every_order
def test_nothing_is_delivered_by_a_member_that_is_cut_off_before_it_heard_anything(case: Case) -> None:
    """Agreed delivery may go on without the silent member only as far as its order allows; what it brings later is the same."""
    watch = group(case)
    watch.submit(A, 2)
    watch.submit(C, 2)
    watch.run(40 * MS, lambda source, target, packet: Fate.DROP if target == B and packet.records else packet)
    assert watch.told(B) == []
    assert watch.settle()
    watch.check(A, B, C)
    assert len(watch.told(B)) == 4
