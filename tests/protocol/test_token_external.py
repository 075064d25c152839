"""External members: served by the core across a broken link, waited for within bounds, expelled beyond them, and back again."""

from __future__ import annotations

import msgspec
import pytest

from isotone.model.events import CoreChanged
from isotone.model.records import Packet
from isotone.model.settings import MS, SECOND, Limits
from isotone.model.view import Ordering
from isotone.protocol.switching.channel import BITS
from isotone.protocol.switching.control import READY
from tests.contract.cases import Case
from tests.contract.watch import Watch
from tests.protocol.bag import TIMING, Fate, Rule

A, B, C, D = "a#1", "b#1", "c#1", "d#1"
PATIENT = msgspec.structs.replace(TIMING, hard_ns=20 * SECOND, closed_ns=20 * SECOND)


def group(limits: Limits | None = None, k: int = 2) -> Watch:
    watch = Watch(0, Case("token", "k", ()), limits or Limits())
    watch.timing = PATIENT
    watch.ordering = Ordering("token", "k", k)
    for name in "abcd":
        watch.begin(name)
    assert watch.settle()
    watch.run(200 * MS)
    return watch


def apart(victim: str) -> Rule:
    """Nothing gets through to the victim, nor from it."""
    return lambda source, target, packet: Fate.DROP if victim in (source, target) else packet


def core(watch: Watch, process: str) -> object:
    return watch.live[process].status()["core"]


def test_a_member_is_served_by_the_core_across_a_broken_link() -> None:
    """Nothing of a's stream reaches d, only its signs of life: what d lacks of it comes from the others, and once only."""
    watch = group()

    def no_stream(source: str, target: str, packet: Packet) -> Packet | Fate:
        if (source, target) == (A, D) and packet.records:
            return msgspec.structs.replace(packet, first=0, records=[])
        return packet

    for _ in range(5):
        for process in (A, B, C):
            watch.submit(process, 1)
        watch.run(100 * MS, no_stream)
    assert watch.run(2 * SECOND, no_stream, until=lambda: len(watch.told(D)) == 15)
    assert watch.live[D].counters["casts_fetched"] > 0
    assert watch.told(D) == watch.told(A)
    assert watch.settle()  # the link works again and brings everything once more
    watch.check(A, B, C, D)
    assert len(watch.told(D)) == 15
    assert {len(watch.views(process)) for process in (A, B, C, D)} == {len(watch.views(A))}


def test_a_member_leaves_the_core_and_comes_back() -> None:
    watch = group()
    view = watch.live[A].view.id
    watch.submit(A, 1)
    watch.submit(D, 1)
    assert watch.run(SECOND, apart(D), until=lambda: core(watch, A) == core(watch, C) == [A, B, C])
    assert watch.live[A].status()["external"] == [D]
    for process in (A, B, C):
        watch.submit(process, 3)
    watch.submit(D, 2)
    watch.run(200 * MS, apart(D))
    assert len(watch.told(A)) == len(watch.told(C)) >= 10  # the core goes on
    assert watch.run(5 * SECOND, until=lambda: core(watch, D) == core(watch, A) == [A, B, C, D])
    assert watch.settle()
    watch.check(A, B, C, D)
    for process in (A, B, C, D):
        assert watch.live[process].view.id == view
        assert len(watch.told(process)) == 13
        changes = [upcall for upcall in watch.upcalls[process] if isinstance(upcall, CoreChanged)]
        assert set(changes[0].core) == {A, B, C}
        assert set(changes[-1].core) == {A, B, C, D}


def test_an_absent_external_member_does_not_close_the_window() -> None:
    watch = group(Limits(window_casts=4, batch_messages=1))
    assert watch.run(SECOND, apart(D), until=lambda: core(watch, A) == [A, B, C])
    for _ in range(20):
        watch.submit(B, 2)
        watch.run(50 * MS, apart(D))
    assert len(watch.told(A)) == 40
    assert watch.settle()
    watch.check(A, B, C, D)
    assert len(watch.told(D)) == 40


@pytest.mark.parametrize("limits", [Limits(keep_casts=20, batch_messages=1), Limits(keep_bytes=100)], ids=["casts", "bytes"])
def test_who_lacks_too_much_is_expelled_and_joins_again(limits: Limits) -> None:
    watch = group(limits)
    assert watch.run(SECOND, apart(D), until=lambda: core(watch, A) == [A, B, C])
    watch.submit(D, 2)
    for _ in range(40):
        for process in (A, B):
            watch.submit(process, 3)
        watch.run(30 * MS, apart(D))
    assert watch.run(2 * SECOND, apart(D), until=lambda: watch.live[A].view.members == (A, B, C))
    assert watch.live[A].counters["externals_expelled"] == 1
    assert watch.now < 15 * SECOND  # long before the hard threshold
    link = watch.live[A].epoch.links.peers
    assert all(len(queue.fresh) < 100 for _, queue in link)
    assert watch.settle()
    assert watch.live[D].view.members == (A, B, C, D)
    watch.check(A, B, C)
    watch.submit(D, 1)
    assert watch.settle()
    assert watch.told(C)[-1].origin == D


def test_who_was_given_up_gets_no_records_that_count_on_casts_which_it_does_not_get() -> None:
    """Such a member may get the casts from others when the view ends, and then finds them behind what followed them."""
    watch = group()
    epoch = watch.live[A].epoch
    assert epoch is not None
    link = epoch.links.of[epoch.rank_of[D]]
    assert link is not None
    epoch.begin_switching().lanes.start(1, Ordering("single_phase"), watch.now)
    epoch.store.lost.add(epoch.rank_of[D])
    before = len(link.fresh)
    epoch.direct(1 << BITS | 1, [7])
    epoch.direct(1 << BITS | READY, [])
    assert len(link.fresh) == before
    epoch.direct(1, [7])  # the token's own: it goes ahead of casts anyhow
    assert len(link.fresh) == before + 1
    other = epoch.links.of[epoch.rank_of[B]]
    assert other is not None
    assert len(other.fresh) >= 3
