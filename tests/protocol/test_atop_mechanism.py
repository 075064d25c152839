"""The mechanism of `atop`: slots given up on demand, moves between distributions, causality, the end of a view, bad stamps."""

from __future__ import annotations

import pytest

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import Ordering
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.atop.distribution import MOST_INDEX, most_weight
from isotone.protocol.ordering.atop.mechanism import Atop
from tests.protocol.atop_bench import DUMMY, POLICY, SKIP, dummy, first, ids, message, positions, site, skip
from tests.protocol.orderer_bench import Bench, batch

A, B, C, D = range(4)
NEW = 4  # distribution 1 of a, with four members
WEIGHTS = (1, 2, 3, 4)


def said(bench: Bench) -> list[tuple[int, list[int]]]:
    return [(record.kind, record.stamp) for _, record in bench.directs]


# Slots are given up on demand


def test_who_has_nothing_to_send_gives_up_what_others_wait_for() -> None:
    """d's third message has slot 11; b's slots below it are 1, 5 and 9, and all of them go in one record."""
    orderer, bench = site(B, 4)
    orderer.accept(D, [message(1, 0, 0), message(2, 0, 2)], 0)
    orderer.turn(0)
    assert said(bench) == [(SKIP, [0, 3])]
    orderer.turn(0)
    assert len(bench.directs) == 1  # once is enough


def test_who_sends_gives_up_what_is_before_its_message() -> None:
    """b takes its last slot before what it has seen: nothing seen waits for b, and b for as little as possible."""
    orderer, bench = site(B, 4)
    orderer.accept(D, [message(1, 0, 0), message(2, 0, 2)], 0)
    orderer.submit(batch(b"x"), 0)
    orderer.turn(0)
    assert bench.casts[0].stamp == [0, 2]
    assert bench.directs == []
    orderer.submit(batch(b"y"), 0)
    assert bench.casts[1].stamp == [0, 3]


def test_nothing_is_given_up_for_messages_before_the_own_slot() -> None:
    orderer, bench = site(D, 4)
    orderer.accept(A, [message(1, 0, 0)], 0)
    orderer.turn(0)
    assert bench.directs == []
    assert ids(bench) == [(A, 1)]


def test_who_stays_silent_gives_up_more_each_time() -> None:
    """d sends on and on; b answers the first two times with what is needed, then for 1, 2, 4, … up to 64 periods ahead."""
    orderer, bench = site(B, 4)
    ahead = []
    for index in range(400):
        orderer.accept(D, [message(index + 1, 0, index)], 0)
        before = len(bench.directs)
        orderer.turn(0)
        if len(bench.directs) > before:
            ahead.append(bench.directs[-1][1].stamp[1] - index - 1)
    assert ahead == [0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64]
    orderer.submit(batch(b"x"), 0)  # far ahead by now
    orderer.accept(D, [message(401, 0, 600)], 0)
    orderer.turn(0)
    assert bench.directs[-1][1].stamp == [0, 601]  # and no more generous than needed


def test_a_message_gets_a_larger_slot_than_all_that_its_sender_had_delivered() -> None:
    """However the others jump ahead and b gives up, what b sends then has a later position."""
    orderer, bench = site(B, 4)
    for turn, (jumper, index) in enumerate([(D, 3), (C, 7), (A, 20), (D, 21), (C, 40)]):
        orderer.accept(jumper, [message(1 + (turn > 2), 0, index)], 0)
        for other in {A, C, D} - {jumper}:
            if orderer.index[other] <= index:
                orderer.direct(other, skip(0, index + 1), 0)
        orderer.turn(0)
        orderer.submit(batch(b"x"), 0)
        delivered = [position for (sender, _, position, _) in bench.delivered if sender != B]
        own = orderer.known[0].slots.slot(B, bench.casts[-1].stamp[1])
        assert all(position is not None and position[2] < own for position in delivered)
    assert len([sender for sender, _ in ids(bench) if sender != B]) == 5


# Slots are given up ahead


def expecting(rank: int, member: int | None) -> tuple[Atop, Bench]:
    """A site whose policy always expects the same member."""
    orderer, bench = site(rank, 4)
    orderer.policy.expects = lambda now: member  # type: ignore[method-assign]
    return orderer, bench


def test_who_is_not_expected_gives_up_what_is_before_the_next_message() -> None:
    """a has sent in slot 0, d is next, in slot 3: b gives up slot 1, before it is asked, and once."""
    orderer, bench = expecting(B, D)
    orderer.accept(A, [message(1, 0, 0)], 0)
    orderer.turn(0)
    assert ids(bench) == [(A, 1)]
    assert said(bench) == [(SKIP, [0, 1])]
    orderer.turn(0)
    assert len(bench.directs) == 1


def test_who_has_sent_gives_up_ahead_too() -> None:
    orderer, bench = expecting(A, D)
    orderer.direct(D, skip(0, 1), 0)  # d's next slot is 7
    orderer.submit(batch(b"x"), 0)
    for other, index in ((B, 1), (C, 1)):
        orderer.direct(other, skip(0, index), 0)
    orderer.turn(0)
    assert ids(bench) == [(A, 1)]
    assert said(bench) == [(SKIP, [0, 2])]


@pytest.mark.parametrize("member", [B, None])
def test_who_is_expected_or_knows_of_nobody_gives_up_nothing(member: int | None) -> None:
    orderer, bench = expecting(B, member)
    orderer.accept(A, [message(1, 0, 0)], 0)
    orderer.turn(0)
    assert bench.directs == []


def test_members_that_expect_each_other_fall_silent() -> None:
    """An answer to a skip with a skip would never end."""
    orderer, bench = expecting(B, D)
    orderer.accept(A, [message(1, 0, 0)], 0)
    orderer.turn(0)
    for index in range(1, 9):
        orderer.direct(D, skip(0, index), 0)  # d gives way to b, again and again
        orderer.turn(0)
    assert len(bench.directs) == 1


def test_what_is_asked_for_and_what_will_be_is_given_up_in_one_record() -> None:
    """c's message in slot 6 asks for b's slots 1 and 5; d, who must give up 3, will then be next in 7."""
    orderer, bench = expecting(B, D)
    orderer.accept(C, [message(1, 0, 1)], 0)
    orderer.turn(0)
    assert said(bench) == [(SKIP, [0, 2])]
    orderer, bench = expecting(B, A)  # a will be next in 8; b's next slot is 9
    orderer.accept(C, [message(1, 0, 1)], 0)
    orderer.turn(0)
    assert said(bench) == [(SKIP, [0, 2])]
    orderer, bench = expecting(A, B)  # b will be next in 9; a's slot 8 goes with 0 and 4
    orderer.accept(C, [message(1, 0, 1)], 0)
    orderer.turn(0)
    assert said(bench) == [(SKIP, [0, 3])]


def test_nothing_is_given_up_ahead_while_messages_wait() -> None:
    """c's message waits for b; a, whose slot 8 is behind it, gives it up only when all is delivered."""
    orderer, bench = expecting(A, B)
    orderer.direct(B, skip(0, 1), 0)
    orderer.submit(batch(b"x"), 0)
    orderer.submit(batch(b"y"), 0)
    orderer.accept(C, [message(1, 0, 0), message(2, 0, 1)], 0)
    orderer.direct(D, skip(0, 2), 0)
    orderer.turn(0)
    assert ids(bench) == [(A, 1), (C, 1), (A, 2)]
    assert bench.directs == []
    orderer.direct(B, skip(0, 2), 0)
    orderer.turn(0)
    assert ids(bench)[-1] == (C, 2)
    assert said(bench) == [(SKIP, [0, 3])]


def test_slots_are_given_up_ahead_only_where_the_expected_member_is() -> None:
    """d is still in the default distribution: where it will send in the new one nobody knows."""
    orderer, bench = expecting(B, D)
    orderer.accept(A, [first(1, NEW, 0, WEIGHTS)], 0)
    orderer.turn(0)
    slot = orderer.known[NEW].slots.slot(A, 0)
    assert said(bench) == [(DUMMY, [NEW, orderer.known[NEW].slots.index(B, slot), *WEIGHTS])]


# Distributions


def test_a_silent_member_announces_a_larger_distribution_at_once() -> None:
    orderer, bench = site(B, 4)
    orderer.accept(A, [first(1, NEW, 0, WEIGHTS)], 0)
    orderer.turn(0)
    slot = orderer.known[NEW].slots.slot(A, 0)
    index = orderer.known[NEW].slots.index(B, slot)
    assert said(bench) == [(DUMMY, [NEW, index, *WEIGHTS])]
    orderer.turn(0)
    assert len(bench.directs) == 1


def test_who_has_messages_announces_it_with_them() -> None:
    orderer, bench = site(B, 4)
    orderer.direct(A, dummy(NEW, 0, WEIGHTS), 0)
    orderer.submit(batch(b"x"), 0)
    orderer.submit(batch(b"y"), 0)
    orderer.turn(0)
    assert [(cast.kind, cast.stamp) for cast in bench.casts] == [(1, [NEW, 0, *WEIGHTS]), (0, [NEW, 1])]
    assert bench.directs == []


def test_the_first_messages_carry_the_weights_also_after_a_dummy() -> None:
    """The flush covers messages, not dummies: who has b's messages must be able to place them."""
    orderer, bench = site(B, 4)
    orderer.direct(A, dummy(NEW, 0, WEIGHTS), 0)
    orderer.turn(0)
    orderer.submit(batch(b"x"), 0)
    assert bench.casts[0].kind == 1
    assert bench.casts[0].stamp[2:6] == list(WEIGHTS)


def test_who_has_been_silent_is_as_generous_in_a_new_distribution() -> None:
    orderer, bench = site(B, 4)
    for index in range(20):
        orderer.accept(D, [message(index + 1, 0, index)], 0)
        orderer.turn(0)
    assert orderer.skips == 6
    orderer.direct(A, dummy(NEW, 0, WEIGHTS), 0)
    orderer.turn(0)
    assert said(bench)[-1] == (DUMMY, [NEW, 16 * WEIGHTS[B], *WEIGHTS])


def test_the_largest_distribution_counts_and_a_smaller_one_is_still_ordered_first() -> None:
    """c and d inject at once; a sends by c's, b by d's, and everybody orders a's message before b's."""
    orderer, bench = site(A, 4)
    of_c, of_d = 4 + C, 4 + D
    orderer.accept(D, [first(1, of_d, 0, WEIGHTS)], 0)
    orderer.turn(0)
    assert orderer.sending.id == of_d
    orderer.accept(C, [first(1, of_c, 0, WEIGHTS)], 0)
    orderer.turn(0)
    assert orderer.sending.id == of_d
    assert ids(bench) == []
    orderer.direct(B, dummy(of_d, 9, WEIGHTS), 0)
    assert ids(bench) == [(C, 1)]
    orderer.direct(C, dummy(of_d, 9, WEIGHTS), 0)
    assert ids(bench) == [(C, 1), (D, 1)]
    assert set(orderer.known) == {of_d}  # what is over is forgotten


def test_a_distribution_that_lasts_for_ages_is_followed_by_its_like() -> None:
    """So that indices stay bounded."""
    orderer, bench = site(B, 4)
    orderer.accept(A, [message(1, 0, MOST_INDEX // 2 + 1)], 0)
    orderer.turn(0)
    assert said(bench)[-1][0] == SKIP
    orderer.turn(0)
    assert said(bench)[-1] == (DUMMY, [4 + B, 0, 1, 1, 1, 1])
    orderer.turn(0)
    assert len(bench.directs) == 2


def test_dummies_and_skips_are_no_traffic() -> None:
    orderer, _ = site(A, 4, policy="bookkeeper")
    orderer.direct(B, skip(0, 5), 0)
    orderer.direct(C, dummy(NEW + 2, 0, WEIGHTS), 0)
    assert not orderer.traffic
    assert sum(orderer.policy.counts) == 0
    orderer.accept(C, [first(1, NEW + 2, 0, WEIGHTS)], 0)
    assert orderer.policy.counts == [0, 0, 1, 0]


# The end of a view: d is elsewhere


PRESENT = frozenset({A, B, C})


def test_the_rest_is_delivered_by_distribution_and_slot() -> None:
    orderer, bench = site(A, 4)
    orderer.accept(C, [message(1, 0, 0), first(2, NEW, 0, WEIGHTS)], 0)
    orderer.accept(B, [message(1, 0, 1)], 0)
    orderer.submit(batch(b"own"), 0)
    assert ids(bench) == [(C, 1)]  # a has left the default distribution, b is beyond; d has slot 3
    assert orderer.conclude(PRESENT, 0) == []
    slots = orderer.sending.slots
    assert slots.slot(A, 0) > slots.slot(C, 0)
    assert ids(bench) == [(C, 1), (B, 1), (C, 2), (A, 1)]
    assert positions(bench) == [(0, 0, 2), (0, 0, 5), (0, NEW, slots.slot(C, 0)), (0, NEW, slots.slot(A, 0))]


def test_what_depends_on_a_message_that_nobody_here_holds_is_not_delivered() -> None:
    """c's second message follows d's first; so does, through c's second, b's second."""
    orderer, bench = site(A, 4)
    orderer.accept(C, [message(1, 0, 0), message(2, 0, 1, D, 1)], 0)
    orderer.accept(B, [message(1, 0, 1), first(2, NEW, 0, WEIGHTS, C, 2)], 0)
    orderer.conclude(PRESENT, 0)
    assert ids(bench) == [(C, 1), (B, 1)]


def test_all_members_conclude_alike_whatever_they_had_delivered_before() -> None:
    """One site had heard d give up its slots and had delivered already; the other had not."""
    sequences = []
    for early in (False, True):
        orderer, bench = site(A, 4)
        orderer.accept(B, [message(1, 0, 0), message(2, 0, 1)], 0)
        orderer.accept(C, [message(1, 0, 0), message(2, 0, 1)], 0)
        orderer.turn(0)
        if early:
            orderer.direct(D, skip(0, 1), 0)
        before = len(bench.delivered)
        assert before == (4 if early else 2)
        orderer.conclude(PRESENT, 0)
        sequences.append([(sender, cast.seq, position) for sender, cast, position, _ in bench.delivered])
    assert sequences[0] == sequences[1]


# What no member sends


def settled() -> tuple[Atop, Bench]:
    """b is at index 3 of the default distribution, c in distribution `NEW` with a message at 2."""
    orderer, bench = site(A, 4)
    orderer.accept(B, [message(1, 0, 2)], 0)
    orderer.accept(C, [first(1, NEW, 2, WEIGHTS)], 0)
    return orderer, bench


def state(orderer: Atop) -> tuple[object, ...]:
    lists = [*orderer.dist], [*orderer.index], [*orderer.last_cast], [*orderer.bounds]
    return (*lists, len(orderer.pending), orderer.sending.id, orderer.seen, set(orderer.known), orderer.policy.current)


BAD_CASTS = {
    "empty stamp": (B, Cast(2, 0, [], 2, [b"x"])),
    "no index": (B, Cast(2, 0, [0], 2, [b"x"])),
    "index used before": (B, message(2, 0, 2)),
    "negative index": (C, message(2, NEW, -1)),
    "huge index": (B, message(2, 0, MOST_INDEX)),
    "huge distribution": (B, first(2, MOST_INDEX, 0, WEIGHTS)),
    "a distribution left before": (C, message(2, 0, 9)),
    "no weights": (B, message(2, NEW, 0)),
    "weights again": (C, first(2, NEW, 5, WEIGHTS)),
    "other weights": (B, first(2, NEW, 0, (1, 1, 1, 1))),
    "too few weights": (B, first(2, NEW + 1, 0, (1, 1, 1))),
    "weight zero": (B, first(2, NEW + 1, 0, (1, 0, 1, 1))),
    "too heavy": (B, first(2, NEW + 1, 0, (1, 1, 1, most_weight(4)))),
    "no messages": (B, Cast(2, 0, [0, 5], 0, [])),
    "unknown kind": (B, Cast(2, 7, [0, 5], 2, [b"x"])),
    "half a dependency": (B, message(2, 0, 5, C)),
    "a rank that is none": (B, message(2, 0, 5, 9, 1)),
}


@pytest.mark.parametrize("name", BAD_CASTS)
def test_bad_casts_are_refused_with_all_that_came_with_them(name: str) -> None:
    """A good cast comes before the bad one: nothing of it may stay."""
    sender, bad = BAD_CASTS[name]
    orderer, _ = settled()
    before = state(orderer)
    good = message(2, orderer.dist[sender], 3)
    with pytest.raises(RemoteProtocolError):
        orderer.accept(sender, [good, bad], 0)
    assert state(orderer) == before
    orderer.accept(sender, [good], 0)


def test_a_distribution_that_comes_with_a_bad_cast_is_not_learned() -> None:
    orderer, _ = settled()
    before = state(orderer)
    with pytest.raises(RemoteProtocolError):
        orderer.accept(B, [first(2, NEW + 3, 0, WEIGHTS), message(3, NEW + 3, 0)], 0)
    assert state(orderer) == before


@pytest.mark.parametrize(
    ("sender", "record"),
    [
        (B, Direct(SKIP, [])),
        (B, skip(0, 3)),  # nothing is given up
        (B, skip(0, 1)),
        (B, skip(0, MOST_INDEX)),
        (B, skip(NEW, 9)),  # b is not there
        (C, skip(0, 9)),
        (B, Direct(SKIP, [0, 9, 9])),
        (B, dummy(0, 9, WEIGHTS)),
        (C, dummy(NEW, 9, WEIGHTS)),
        (B, dummy(NEW, -1, WEIGHTS)),
        (B, dummy(NEW, 0, (4, 3, 2, 1))),
        (B, dummy(NEW + 1, 0, (1, 1, 1))),
        (B, dummy(NEW + 1, 0, (1, 1, 1, -5))),
        (B, dummy(MOST_INDEX, 0, WEIGHTS)),
        (B, Direct(POLICY, [1, 2, 3])),
        (B, Direct(9, [0, 9])),
    ],
)
def test_bad_directs_are_refused(sender: int, record: Direct) -> None:
    orderer, _ = settled()
    before = state(orderer)
    with pytest.raises(RemoteProtocolError):
        orderer.direct(sender, record, 0)
    assert state(orderer) == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"policy": "bookeeper"}, "did you mean 'bookkeeper'"),
        ({"policy": 3}, "must be a text"),
        ({"slots": "odd"}, "valid are even, random"),
        ({"window": 0}, "from 1 to 1000"),
        ({"patterns": "a:3"}, "has no patterns"),
        ({"policy": "patterns"}, "needs the option patterns"),
        ({"policy": "patterns", "patterns": "a:0"}, "weight from 1 to 4096"),
        ({"policy": "patterns", "patterns": "a:2 a:3"}, "not a new name"),
        ({"policy": "patterns", "patterns": "a"}, "such as a:4"),
        ({"speed": 3}, "unknown option of atop"),
    ],
)
def test_bad_options_are_one_clear_line(options: dict[str, int | str | bool], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        registry.validate(Ordering("atop", options=options))
