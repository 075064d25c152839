"""The end of a view, where messages carry their causal past: what lacks its past is not delivered, everything else is.

Four members; the component that goes on is without the member d. A message of d that c had seen never reached this
component, so what c sent afterwards must not be delivered here (PROTOCOLS §1). Timestamps begin at 2, because d could
not come before 1 any more: those would be stable without a word of d.
"""

from __future__ import annotations

import pytest

from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.orderer import Orderer
from tests.protocol.orderer_bench import Bench, batch, make

A, B, C, D = range(4)
PRESENT = frozenset({A, B, C})


def ids(bench: Bench) -> list[tuple[int, int]]:
    """(sender, seq) of what was delivered."""
    return [(sender, cast.seq) for sender, cast, _, _ in bench.delivered]


def cast(seq: int, *stamp: int) -> Cast:
    return Cast(seq, 0, list(stamp), seq, [b"x"])


def site(**options: int | str | bool) -> tuple[Orderer, Bench]:
    return make("single_phase", A, 4, **options)


def test_the_rest_is_delivered_sorted_by_timestamp_and_site() -> None:
    orderer, bench = site()
    orderer.accept(C, [cast(1, 2), cast(2, 4)], 0)
    orderer.accept(B, [cast(1, 3)], 0)
    assert ids(bench) == []  # d has said nothing: nothing is stable
    orderer.freeze(0)
    assert orderer.conclude(PRESENT, 0) == []
    assert ids(bench) == [(C, 1), (B, 1), (C, 2)]
    assert [position for _, _, position, _ in bench.delivered] == [(0, 2, C), (0, 3, B), (0, 4, C)]


def test_with_dynamic_sites_the_rest_is_sorted_by_f_of_site_and_timestamp() -> None:
    """At timestamp 2 the sites 0 1 2 3 count as 2 3 0 1: c comes before b."""
    orderer, bench = site(sites="dynamic")
    orderer.accept(B, [cast(1, 2)], 0)
    orderer.accept(C, [cast(1, 2)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(C, 1), (B, 1)]
    assert [position for _, _, position, _ in bench.delivered] == [(0, 2, 0), (0, 2, 3)]


def test_what_depends_on_a_message_that_nobody_here_holds_is_not_delivered() -> None:
    """c's second message follows d's first, which is lost to this component; c's first and b's are not affected."""
    orderer, bench = site()
    orderer.accept(C, [cast(1, 2), cast(2, 3, D, 1)], 0)
    orderer.accept(B, [cast(1, 4)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(C, 1), (B, 1)]


def test_what_its_sender_sent_afterwards_is_not_delivered_either() -> None:
    """A dependency is named once; the later message of the same sender depends on the earlier one by itself."""
    orderer, bench = site()
    orderer.accept(C, [cast(1, 2, D, 1), cast(2, 3), cast(3, 5, B, 1)], 0)
    orderer.accept(B, [cast(1, 4)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(B, 1)]


def test_the_gap_is_passed_on_to_those_that_had_seen_the_message() -> None:
    """b sent its second message after it had delivered c's second, which is not delivered here."""
    orderer, bench = site()
    orderer.accept(C, [cast(1, 2), cast(2, 3, D, 1)], 0)
    orderer.accept(B, [cast(1, 4), cast(2, 5, C, 2)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(C, 1), (B, 1)]


def test_a_dependency_that_is_here_does_no_harm() -> None:
    orderer, bench = site()
    orderer.accept(D, [cast(1, 1)], 0)
    orderer.accept(C, [cast(1, 2, D, 1)], 0)
    orderer.accept(B, [cast(1, 3, D, 1, C, 1)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(D, 1), (C, 1), (B, 1)]


def test_what_was_stable_is_not_delivered_twice() -> None:
    orderer, bench = site()
    orderer.accept(B, [cast(1, 1)], 0)
    for other in (C, D):
        orderer.direct(other, Direct(1, [1]), 0)
    assert ids(bench) == [(B, 1)]
    orderer.accept(C, [cast(1, 2, B, 1)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(B, 1), (C, 1)]


def test_own_messages_are_delivered_in_their_place() -> None:
    orderer, bench = site()
    orderer.accept(B, [cast(1, 1)], 0)
    orderer.submit(batch(b"own"), 0)
    orderer.accept(C, [cast(1, 4)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(B, 1), (A, 1), (C, 1)]


def test_all_members_conclude_alike_whatever_they_had_delivered_before() -> None:
    """b had d's acknowledgement and had delivered two messages already; a had delivered none."""
    first = [cast(1, 2), cast(2, 4)]
    other = [cast(1, 3), cast(2, 5, D, 1)]
    sequences = []
    for acknowledged in (False, True):
        orderer, bench = make("single_phase", A, 4)
        orderer.accept(B, first, 0)
        orderer.accept(C, other, 0)
        if acknowledged:
            orderer.direct(D, Direct(1, [2]), 0)
            assert ids(bench) == [(B, 1), (C, 1)]
        orderer.conclude(PRESENT, 0)
        sequences.append([(sender, c.seq, position) for sender, c, position, _ in bench.delivered])
    assert sequences[0] == sequences[1]
    assert [entry[:2] for entry in sequences[0]] == [(B, 1), (C, 1), (B, 2)]


# causal


def test_causal_never_delivers_what_still_waits_for_its_past() -> None:
    orderer, bench = make("causal", A, 4)
    orderer.accept(C, [cast(1), cast(2, D, 1), cast(3)], 0)
    orderer.accept(B, [cast(1, C, 1), cast(2, C, 2)], 0)
    assert ids(bench) == [(C, 1), (B, 1)]
    assert orderer.conclude(PRESENT, 0) == []
    assert ids(bench) == [(C, 1), (B, 1)]


def test_causal_delivers_what_the_flush_brings() -> None:
    """The common set contains d's message after all: everything that waited follows it, each in its sender's order."""
    orderer, bench = make("causal", A, 4)
    orderer.accept(C, [cast(1, D, 1), cast(2)], 0)
    orderer.accept(B, [cast(1, C, 2)], 0)
    assert ids(bench) == []
    orderer.accept(D, [cast(1)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(D, 1), (C, 1), (C, 2), (B, 1)]


# sequencer, whose order is another member's word


@pytest.mark.parametrize("present", [frozenset({A, B, C}), frozenset({B, C})], ids=["with", "without"])
def test_the_sequencers_rest_is_delivered_only_if_the_sequencer_goes_on_too(present: frozenset[int]) -> None:
    orderer, bench = make("sequencer", B, 4)
    orderer.submit(batch(b"one"), 0)
    orderer.submit(batch(b"two"), 0)
    orderer.accept(C, [cast(1)], 0)
    orderer.accept(A, [Cast(1, 1, [B, 1])], 0)
    returned = orderer.conclude(present, 0)
    if A in present:
        assert ids(bench) == [(B, 1), (B, 2), (C, 1)]
        assert returned == []
    else:
        assert ids(bench) == [(B, 1)]
        assert [c.seq for c in returned] == [2]  # c's goes back to c, not to this process


def test_the_classical_fallback_delivers_everything_and_that_is_its_fault() -> None:
    orderer, bench = make("sequencer", B, 4, fallback="classical")
    orderer.submit(batch(b"one"), 0)
    orderer.accept(C, [cast(1)], 0)
    assert orderer.conclude(frozenset({B, C}), 0) == []
    assert ids(bench) == [(B, 1), (C, 1)]
