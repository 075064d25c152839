"""The levels `k` and `safe`: nothing is delivered before enough members hold it; what a view leaves over has the lower name.

`Watch` checks at every delivery of every contract test that enough members hold the message; here the reports and the
messages themselves are kept away from members on purpose.
"""

from __future__ import annotations

import msgspec
import pytest

from isotone.model.events import DeliveryBatch, Transitional
from isotone.model.records import Heartbeat, Packet, Relay
from isotone.model.settings import MS, SECOND
from tests.contract.cases import Case, K
from tests.contract.marks import A, B, C, D, above_agreed, by_reports, extrinsic_safe, group, safe, safe_by_reports
from tests.protocol.bag import Fate, Rule


def silent_reports(*silenced: str) -> Rule:
    """Heartbeats of these processes say that they hold nothing."""

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        if source not in silenced:
            return packet
        loose = [
            msgspec.structs.replace(record, held=[0] * len(record.held)) if isinstance(record, Heartbeat) else record
            for record in packet.loose
        ]
        return msgspec.structs.replace(packet, loose=loose)

    return rule


def deprived(victim: str, *senders: str) -> Rule:
    """No record of these senders' streams reaches the victim, by way of another member neither; heartbeats do."""

    def rule(source: str, target: str, packet: Packet) -> Packet | Fate:
        if target == victim and (source in senders or Relay in map(type, packet.records)) and packet.records:
            return msgspec.structs.replace(packet, first=0, records=[])
        return packet

    return rule


@safe_by_reports
@pytest.mark.parametrize("silenced", [A, B, C])
def test_safe_waits_for_the_report_of_every_member(case: Case, silenced: str) -> None:
    """Everybody holds the messages, but one member's reports are lost: nobody else delivers its peers' messages."""
    watch = group(case)
    others = [process for process in (A, B, C) if process != silenced]
    for process in others:
        watch.submit(process, 2)
    watch.run(300 * MS, silent_reports(silenced))
    for process in others:
        assert watch.told(process) == []
    view = watch.live[A].view.id
    assert watch.settle()
    watch.check(A, B, C)
    for process in (A, B, C):
        assert {told.level for told in watch.told(process, view)} == {"safe"}
        assert len(watch.told(process, view)) == 4


@by_reports
def test_without_reports_a_receiver_counts_the_sender_and_itself(case: Case) -> None:
    """A message proves that its sender holds it: with the receiver that is k = 2, and never enough for safe among three."""
    watch = group(case)
    watch.submit(B, 1)
    watch.submit(C, 1)
    watch.run(300 * MS, silent_reports(A, B, C))
    if case.level == "safe":
        assert all(watch.told(process) == [] for process in (A, B, C))
    else:
        assert K == 2
        assert all(told.origin != process for process in (A, B, C) for told in watch.told(process)[:1])
    assert watch.settle()
    watch.check(A, B, C)
    assert all(len(watch.told(process)) == 2 for process in (A, B, C))


@safe
@pytest.mark.parametrize("victim", [A, B, C])
def test_nothing_is_safe_while_a_member_lacks_it(case: Case, victim: str) -> None:
    """All reports arrive, and say truly that one member does not hold the messages."""
    watch = group(case)
    others = [process for process in (A, B, C) if process != victim]
    view = watch.live[A].view.id
    for process in others:
        watch.submit(process, 1)
    watch.run(300 * MS, deprived(victim, *others))
    assert all(watch.told(process) == [] for process in (A, B, C))
    assert watch.settle()
    watch.check(A, B, C)
    assert {told.level for process in (A, B, C) for told in watch.told(process, view)} == {"safe"}


@extrinsic_safe
def test_what_orders_a_message_must_be_held_by_all_too(case: Case) -> None:
    """Everybody holds the message of b, but c lacks a's record that numbers it."""
    watch = group(case)
    watch.submit(B, 1)
    watch.run(300 * MS, deprived(C, A))
    assert [len(watch.live[process].epoch.buffers[1]) for process in (A, B, C)] == [0, 0, 0]
    assert all(watch.told(process) == [] for process in (A, B, C))
    assert watch.settle()
    watch.check(A, B, C)
    assert [told.level for told in watch.told(A)] == ["safe"]


@above_agreed
def test_when_the_view_ends_the_rest_is_delivered_as_agreed(case: Case) -> None:
    """d never gets the last messages and crashes: the others deliver them after the transitional signal, by the lower name.

    Two of the survivors hold them, so that with k = 2 nothing is left to wait for.
    """
    watch = group(case, 4)
    watch.submit(A, 1)
    assert watch.settle()
    view = watch.live[A].view.id
    for process in (A, B, C):
        watch.submit(process, 2)
    watch.run(100 * MS, deprived(D, A, B, C))
    watch.crash(D)
    assert watch.run(2 * SECOND, until=lambda: len(watch.live[A].view) == 3)
    assert watch.settle()
    watch.check(A, B, C)
    for process in (A, B, C):
        upcalls = watch.upcalls[process]
        signal = next(i for i, u in enumerate(upcalls) if isinstance(u, Transitional) and u.view.id == view)
        before = [u.level for u in upcalls[:signal] if isinstance(u, DeliveryBatch) and u.view.id == view]
        after = [u.level for u in upcalls[signal:] if isinstance(u, DeliveryBatch) and u.view.id == view]
        assert set(before) == {case.level}
        assert set(after) <= {"agreed"}
        back = sum(len(watch.returned(other)) for other in (A, B, C))  # what d would have ordered
        assert len(watch.told(process, view)) == 7 - back
        assert back == 0 or case.order == "token"
        if case.level == "safe":
            assert sum(told.level == "safe" for told in watch.told(process, view)) == 1


@above_agreed
def test_a_group_of_one_needs_nobody(case: Case) -> None:
    """k is at most the number of members."""
    watch = group(case, 1)
    watch.submit(A, 3)
    numbers = [told.number for told in watch.told(A)]
    assert (sorted(numbers) if case.conflicts is not None else numbers) == [1, 2, 3]  # what commutes may pass the others
    assert {told.level for told in watch.told(A)} == {case.level}


@above_agreed
def test_the_level_is_promised_again_in_the_next_view(case: Case) -> None:
    watch = group(case)
    watch.submit(A, 1)
    watch.crash(B)
    assert watch.settle()
    watch.submit(C, 2)
    assert watch.settle()
    watch.check(A, C)
    view = watch.live[A].view.id
    for process in (A, C):
        assert [told.level for told in watch.told(process, view)] == [case.level] * len(watch.told(process, view))
        assert [told.origin for told in watch.told(process, view)][-2:] == [C, C]
