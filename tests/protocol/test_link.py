"""The link to one peer: order out of loss, repetition and reordering, and what it never exceeds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Packet
from isotone.model.settings import MS
from isotone.protocol.link.peer_link import ACK_EVERY
from tests.protocol.link_bench import acknowledge, link, numbers, packet, records, repetition, run

BURST = 64


# Receiving


def test_records_come_up_once_and_in_order() -> None:
    receiver = link()
    assert numbers(receiver.receive(run(1, 2), 0)) == [1, 2]
    assert numbers(receiver.receive(run(3, 3), 0)) == [3]
    assert receiver.received == 3


def test_a_run_that_comes_early_waits_for_the_gap_to_close() -> None:
    receiver = link()
    assert receiver.receive(run(4, 5), 0) == []
    assert receiver.receive(run(2, 2), 0) == []
    assert receiver.received == 0
    assert numbers(receiver.receive(run(1, 1), 0)) == [1, 2]
    assert numbers(receiver.receive(run(3, 3), 0)) == [3, 4, 5]
    assert (receiver.stash, receiver.stashed) == ({}, 0)


def test_what_is_known_is_skipped_also_where_runs_overlap() -> None:
    receiver = link()
    receiver.receive(run(1, 3), 0)
    assert receiver.receive(run(1, 3), 0) == []
    assert receiver.receive(run(2, 2), 0) == []
    assert numbers(receiver.receive(run(2, 5), 0)) == [4, 5]
    assert receiver.receive(run(7, 9), 0) == []
    assert numbers(receiver.receive(run(6, 8), 0)) == [6, 7, 8, 9]
    assert (receiver.received, receiver.stashed) == (9, 0)


def test_of_two_early_runs_with_one_beginning_the_longer_is_kept() -> None:
    receiver = link()
    receiver.receive(run(3, 4), 0)
    receiver.receive(run(3, 6), 0)
    receiver.receive(run(3, 3), 0)
    assert receiver.stashed == 4
    assert numbers(receiver.receive(run(1, 2), 0)) == [1, 2, 3, 4, 5, 6]
    assert receiver.stashed == 0


def test_the_stash_is_bounded_and_what_it_refused_can_come_again() -> None:
    receiver = link(window=4)
    for first in range(2, 40, 2):
        assert receiver.receive(run(first, first + 1), 0) == []
        assert receiver.stashed <= 8
    assert numbers(receiver.receive(run(1, 1), 0)) == list(range(1, 10))
    assert numbers(receiver.receive(run(10, 13), 0)) == [10, 11, 12, 13]


# Acknowledging


def test_an_acknowledgement_waits_a_little_for_company() -> None:
    receiver = link()
    receiver.receive(run(1, 1), 7 * MS)
    assert (receiver.next_packet(7 * MS), receiver.deadline()) == (None, 12 * MS)
    receiver.receive(run(2, 2), 9 * MS)
    assert receiver.deadline() == 12 * MS  # the delay counts from the first
    assert receiver.acknowledge(10 * MS) == 0  # no news yet for a packet that goes out anyway
    assert receiver.acknowledge(12 * MS) == 2
    assert (receiver.deadline(), receiver.owed) == (None, 0)


def test_company_takes_an_acknowledgement_along_when_half_of_it_is_due() -> None:
    receiver = link()
    for number in range(1, ACK_EVERY // 2):
        receiver.receive(run(number, number), 0)
    assert receiver.acknowledge(0) == 0
    receiver.receive(run(ACK_EVERY // 2, ACK_EVERY // 2), 0)
    assert receiver.acknowledge(0) == ACK_EVERY // 2


def test_many_packets_a_gap_or_a_repetition_are_acknowledged_at_once() -> None:
    many = link()
    for number in range(1, ACK_EVERY + 1):
        assert many.next_packet(0) is None
        many.receive(run(number, number), 0)
    assert many.next_packet(0) == (1, ACK_EVERY, [], False)
    gap, known, new = link(), link(), link()
    gap.receive(run(2, 2), 0)
    known.receive(run(1, 1), 0)
    known.acknowledge(1000 * MS)
    known.receive(run(1, 1), 1000 * MS)
    new.receive(repetition(1, 1), 0)
    assert gap.next_packet(0) == (1, -1, [], False)
    assert known.next_packet(1000 * MS) == (1, 1, [], False)
    assert new.next_packet(0) == (1, 1, [], False)


def test_an_acknowledgement_of_what_was_never_sent_is_the_peers_fault() -> None:
    sender = link()
    sender.fresh += records(1, 2)
    sender.next_packet(0)
    with pytest.raises(RemoteProtocolError, match="acknowledgement of 3 records, of which 2 were sent"):
        sender.receive(packet(0, [], 3), 0)


def test_an_old_acknowledgement_changes_nothing() -> None:
    sender = link()
    sender.fresh += records(1, 3)
    sender.next_packet(0)
    acknowledge(sender, 2)
    acknowledge(sender, 1)
    assert (sender.acked, numbers(list(sender.unacked))) == (2, [3])


# Sending


def test_no_more_than_a_window_is_under_way() -> None:
    sender = link(window=3)
    sender.fresh += records(1, 8)
    first, _, taken, _ = sender.next_packet(0)
    assert (first, numbers(taken)) == (1, [1, 2, 3])
    assert sender.next_packet(0) is None
    acknowledge(sender, 2)
    packet = sender.next_packet(0)
    assert packet is not None
    first, _, taken, _ = packet
    assert (first, numbers(taken)) == (4, [4, 5])
    acknowledge(sender, 5)
    first, _, taken, _ = sender.next_packet(0)
    assert (first, numbers(taken), sender.fresh) == (6, [6, 7, 8], [])


def test_what_is_not_acknowledged_goes_out_again_ever_more_slowly_up_to_a_cap() -> None:
    sender = link()
    sender.fresh += records(1, 2)
    sender.next_packet(0)
    waits, now = [], 0
    for _ in range(6):
        due = sender.deadline()
        assert due is not None
        assert sender.retransmit(due - 1) is None
        again = sender.retransmit(due)
        assert again is not None
        assert (again[0], numbers(again[1])) == (1, [1, 2])
        waits.append((due - now) // MS)
        now = due
    assert waits == [30, 60, 120, 200, 200, 200]
    assert sender.retransmitted == 12


def test_an_acknowledgement_ends_the_back_off() -> None:
    sender = link()
    sender.fresh += records(1, 3)
    sender.next_packet(0)
    for now in (30 * MS, 90 * MS):
        assert sender.retransmit(now) is not None
    acknowledge(sender, 1, 100 * MS)
    assert sender.deadline() == 130 * MS
    acknowledge(sender, 3, 110 * MS)
    assert sender.deadline() is None
    assert sender.retransmit(1000 * MS) is None


def test_only_the_oldest_go_out_again() -> None:
    sender = link(window=1000)
    sender.fresh += records(1, 300)
    sender.next_packet(0)
    again = sender.retransmit(30 * MS)
    assert again is not None
    assert numbers(again[1]) == list(range(1, BURST + 1))


# Two links and a channel that does what it likes

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 1), st.integers(1, 9)),
        st.tuples(st.sampled_from(["deliver", "repeat", "lose"]), st.integers(0, 1), st.integers(0, 99)),
        st.tuples(st.just("time"), st.integers(0, 1), st.integers(1, 300)),
        st.tuples(st.just("reconnect"), st.integers(0, 1), st.just(0)),
    ),
    max_size=80,
)


class Pair:
    """Two links; `channel[i]` holds what is under way to i."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.now = 0
        self.ends = (link(window), link(window))
        self.sent = [0, 0]
        self.got: list[list[int]] = [[], []]
        self.channel: list[list[Packet]] = [[], []]

    def flush(self, end: int) -> None:
        """What the view does at the end of a turn."""
        me = self.ends[end]
        again = me.retransmit(self.now)
        if again is not None:
            self.channel[1 - end].append(packet(again[0], again[1], me.acknowledge(self.now), True))
        following = me.next_packet(self.now)
        if following is not None:
            first, ack, taken, known = following
            self.channel[1 - end].append(packet(first, taken, ack, known))

    def step(self, what: str, end: int, value: int) -> None:
        me, channel = self.ends[end], self.channel[end]
        if what == "submit":
            me.fresh += records(self.sent[end] + 1, self.sent[end] + value)
            self.sent[end] += value
        elif what == "time":
            self.now += value * MS
        elif what == "reconnect":
            me.reconnect()
        elif channel:
            index = value % len(channel)
            if what != "lose":
                self.got[end] += numbers(me.receive(channel[index], self.now))
            if what != "repeat":
                del channel[index]
        for other in (0, 1):
            self.flush(other)
            assert len(self.ends[other].unacked) <= self.window
            assert self.ends[other].stashed <= 2 * self.window

    def done(self) -> bool:
        return all(not end.fresh and not end.unacked for end in self.ends)


@settings(max_examples=150, deadline=None)
@given(window=st.integers(1, 8), steps=STEPS)
def test_everything_arrives_once_and_in_order(window: int, steps: list[tuple[str, int, int]]) -> None:
    """Whatever the channel did, what has arrived is a prefix; when it is kind at last, it is everything."""
    pair = Pair(window)
    for step in steps:
        pair.step(*step)
        for end in (0, 1):
            assert pair.got[end] == list(range(1, len(pair.got[end]) + 1))
            assert len(pair.got[end]) <= pair.sent[1 - end]
    for _ in range(2000):
        if pair.done():
            break
        for end in (0, 1):
            while pair.channel[end]:
                pair.step("deliver", end, 0)
        pair.step("time", 0, 5)
    assert pair.done()
    for end in (0, 1):
        assert pair.got[end] == list(range(1, pair.sent[1 - end] + 1))
