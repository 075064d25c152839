"""The link to one peer: order out of loss, repetition and reordering; when it sends again, and what it never exceeds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Direct, Packet, Sequenced
from isotone.model.settings import MS, Timing
from isotone.protocol.link.peer_link import ACK_EVERY, PeerLink

TIMING = Timing(ack_delay_ns=5 * MS, retransmit_ns=30 * MS, retransmit_max_ns=200 * MS)
BURST = 64


def link(window: int = 100) -> PeerLink:
    return PeerLink(TIMING, window)


def records(first: int, last: int) -> list[Sequenced]:
    """Records that say their number."""
    return [Direct(0, [number]) for number in range(first, last + 1)]


def numbers(run: list[Sequenced]) -> list[int]:
    return [record.stamp[0] for record in run]


def packet(first: int, run: list[Sequenced], ack: int = 0) -> Packet:
    return Packet(1, "p#1", first, ack, run, [])


def run(first: int, last: int) -> Packet:
    return packet(first, records(first, last))


def acknowledge(sender: PeerLink, ack: int, now: int = 0) -> None:
    assert sender.receive(packet(0, [], ack), now) == []


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


# What got lost

LATER = 1000 * MS


def test_a_hole_that_a_repetition_fills_was_a_loss() -> None:
    receiver = link()
    for early in (run(1, 1), run(3, 3), run(4, 4), run(6, 6)):
        receiver.receive(early, 0)
    assert (receiver.followed, receiver.losses.lost(0)) == (3, 0)
    assert numbers(receiver.receive(run(2, 6), 20 * MS)) == [2, 3, 4, 5, 6]
    assert (receiver.followed, receiver.losses.lost(LATER)) == (4, 2)


def test_a_repetition_counts_also_if_it_begins_with_what_is_known() -> None:
    receiver = link()
    receiver.receive(run(1, 2), 0)
    receiver.receive(run(4, 4), 0)
    assert numbers(receiver.receive(run(1, 4), 20 * MS)) == [3, 4]
    assert receiver.losses.lost(LATER) == 1


def test_what_comes_late_was_not_lost() -> None:
    """On a network that reorders, a hole is filled by just what was missing."""
    receiver = link()
    for late in (run(2, 2), run(1, 1), run(5, 5), run(4, 4), run(3, 3), run(8, 8), run(6, 6), run(7, 7)):
        receiver.receive(late, 0)
    assert (receiver.received, receiver.losses.lost(LATER)) == (8, 0)


def test_what_comes_after_its_repetition_was_not_lost() -> None:
    """It was later than anything lately, and overtaken by what was sent for the complaint."""
    receiver = link()
    receiver.receive(run(3, 4), 0)
    receiver.receive(run(1, 4), 10 * MS)
    assert receiver.losses.lost(10 * MS) == 0
    receiver.receive(run(1, 4), 12 * MS)  # a copy of the repetition is not what was missing
    receiver.receive(run(2, 2), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (0, 25 * MS)


def test_a_loss_counts_when_what_is_missing_is_not_expected_any_more() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(run(1, 2), 10 * MS)
    assert [receiver.losses.lost(now * MS) for now in (10, 39, 40)] == [0, 0, 1]


def test_holes_that_are_not_yet_losses_are_bounded() -> None:
    receiver = link(window=1000)
    for number in range(1, 400, 4):
        receiver.receive(run(number + 1, number + 1), 0)
        receiver.receive(run(number, number + 3), 0)
    assert receiver.losses.lost(0) == 100 - 64
    assert receiver.losses.lost(LATER) == 100


def test_a_repetition_that_was_not_needed_is_no_loss() -> None:
    """The receiver, or its acknowledgement, was late: after a pause, say."""
    sender, receiver = link(), link()
    sender.fresh = records(1, 3)
    first, _, given = sender.next_packet(0)
    waiting = [packet(first, given)]
    for _ in range(4):
        now = sender.resend_at
        again = sender.retransmit(now)
        waiting.append(packet(*again))
    sender.fresh = records(4, 4)
    first, _, given = sender.next_packet(now)
    waiting.append(packet(first, given))
    assert numbers([record for late in waiting for record in receiver.receive(late, now)]) == [1, 2, 3, 4]
    assert receiver.losses.lost(LATER) == 0


def test_packets_count_where_a_loss_between_them_would_show() -> None:
    """One that comes long after the last may follow a loss that was repaired meanwhile, which nobody saw."""
    receiver = link()
    for number, now in enumerate((0, 10, 20, 60, 100, 110), 1):
        receiver.receive(run(number, number), now * MS)
    assert receiver.followed == 3


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
    assert many.next_packet(0) == (1, ACK_EVERY, [])
    gap, repetition = link(), link()
    gap.receive(run(2, 2), 0)
    repetition.receive(run(1, 1), 0)
    repetition.acknowledge(1000 * MS)
    repetition.receive(run(1, 1), 1000 * MS)
    assert gap.next_packet(0) == (1, -1, [])
    assert repetition.next_packet(1000 * MS) == (1, 1, [])


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
    first, _, taken = sender.next_packet(0)
    assert (first, numbers(taken)) == (1, [1, 2, 3])
    assert sender.next_packet(0) is None
    acknowledge(sender, 2)
    packet = sender.next_packet(0)
    assert packet is not None
    first, _, taken = packet
    assert (first, numbers(taken)) == (4, [4, 5])
    acknowledge(sender, 5)
    first, _, taken = sender.next_packet(0)
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


def test_the_timeout_follows_the_round_trip_time() -> None:
    """Mean and spread as of old: a peer 100 ms away is given 100 + 4·50 ms and the peer's acknowledgement delay."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    acknowledge(sender, 1, 100 * MS)
    assert (sender.rtt_mean, sender.rtt_spread) == (100 * MS, 50 * MS)
    sender.fresh += records(2, 2)
    sender.next_packet(1000 * MS)
    assert sender.deadline() == (1000 + 100 + 4 * 50 + 5) * MS
    acknowledge(sender, 2, 1100 * MS)
    assert (sender.rtt_mean, sender.rtt_spread) == (100 * MS, 37_500_000)  # steady: the spread shrinks


def test_a_record_that_was_sent_twice_is_no_measure() -> None:
    """One cannot tell which of the two was acknowledged."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    sender.retransmit(30 * MS)
    acknowledge(sender, 1, 31 * MS)
    assert sender.rtt_mean == 0


def test_a_new_connection_sends_at_once_and_forgets_the_back_off() -> None:
    sender = link()
    sender.fresh += records(1, 2)
    sender.next_packet(0)
    for now in (30 * MS, 90 * MS, 210 * MS):
        sender.retransmit(now)
    sender.reconnect()
    again = sender.retransmit(220 * MS)
    assert again is not None
    assert numbers(again[1]) == [1, 2]
    assert sender.deadline() == 280 * MS  # one attempt on the new connection, not the fifth
    assert sender.retransmit(221 * MS) is None


def test_a_new_connection_repeats_nothing_where_nothing_is_under_way() -> None:
    sender = link()
    sender.reconnect()
    assert sender.retransmit(0) is None
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    assert sender.retransmit(1) is None


# Complaints


def sent(count: int, rtt: int = 8 * MS) -> PeerLink:
    """A link that knows its round trip time, and has sent so many records at 100 ms that are not acknowledged."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    acknowledge(sender, 1, rtt)
    sender.fresh += records(2, count + 1)
    sender.next_packet(100 * MS)
    return sender


def complain(sender: PeerLink, now: int, ack: int = 1) -> None:
    assert sender.receive(packet(0, [], -1 - ack), now) == []


def test_who_hears_a_complaint_repeats_at_once() -> None:
    """And not after the time-out of 30 ms."""
    sender = sent(3)
    complain(sender, 108 * MS)
    assert sender.complaint
    again = sender.retransmit(108 * MS)
    assert again is not None
    assert (again[0], numbers(again[1])) == (2, [2, 3, 4])
    assert (sender.complaint, sender.deadline()) == (False, 138 * MS)


def test_a_complaint_acknowledges_too() -> None:
    sender = sent(3)
    complain(sender, 108 * MS, ack=3)
    again = sender.retransmit(108 * MS)
    assert again is not None
    assert (again[0], numbers(again[1])) == (4, [4])


def test_complaints_about_what_was_repeated_just_now_are_not_heard() -> None:
    """The answer to a repetition takes a round trip; one that comes later says that it was lost too. And so on, more slowly."""
    sender = sent(3)
    complain(sender, 108 * MS)
    sender.retransmit(108 * MS)
    for now in range(109, 132):  # a round trip of 8 ms, give or take 4 · 4 ms
        complain(sender, now * MS)
        assert sender.retransmit(now * MS) is None
    complain(sender, 132 * MS)
    assert sender.retransmit(132 * MS) is not None
    sender.resend_at = 1000 * MS
    complain(sender, 179 * MS)
    assert sender.retransmit(179 * MS) is None
    complain(sender, 180 * MS)
    assert sender.retransmit(180 * MS) is not None
    acknowledge(sender, 2, 188 * MS)
    assert sender.answers == 0


def test_a_complaint_about_what_was_not_repeated_is_heard_at_once() -> None:
    sender = sent(3)
    complain(sender, 108 * MS)
    sender.retransmit(108 * MS)
    sender.fresh += records(5, 6)
    sender.next_packet(109 * MS)
    complain(sender, 116 * MS, ack=4)
    again = sender.retransmit(116 * MS)
    assert again is not None
    assert (again[0], numbers(again[1])) == (5, [5, 6])


def test_an_answer_to_a_complaint_is_short() -> None:
    """What one packet had: a wire that is full should not be filled with all that is under way."""
    sender = sent(40)
    complain(sender, 108 * MS)
    again = sender.retransmit(108 * MS)
    assert again is not None
    assert numbers(again[1]) == list(range(2, 10))


def test_old_complaints_and_those_about_nothing_are_not_heard() -> None:
    sender = sent(2)
    acknowledge(sender, 2, 106 * MS)
    complain(sender, 107 * MS, ack=1)
    assert (sender.retransmit(107 * MS), sender.deadline()) == (None, 136 * MS)
    complain(sender, 108 * MS, ack=3)
    assert (sender.retransmit(108 * MS), sender.deadline()) == (None, None)


def test_a_complaint_about_what_was_never_sent_is_the_peers_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="acknowledgement of 9 records, of which 4 were sent"):
        complain(sent(3), 0, ack=9)


def test_who_misses_something_complains_at_once_and_then_now_and_then() -> None:
    """From the first record on: that nothing came yet is no reason not to."""
    receiver = link()
    receiver.receive(run(2, 2), 0)
    assert receiver.next_packet(0) == (1, -1, [])
    for now in range(1, 5):
        receiver.receive(run(2 + now, 2 + now), now * MS)
        assert receiver.next_packet(now * MS) is None
    receiver.receive(run(7, 7), 5 * MS)
    assert receiver.next_packet(5 * MS) == (1, -1, [])
    receiver.receive(run(1, 7), 6 * MS)
    assert receiver.next_packet(11 * MS) == (1, 7, [])


def test_company_takes_a_complaint_along() -> None:
    receiver = link()
    receiver.receive(run(1, 1), 0)
    receiver.receive(run(3, 3), 0)
    receiver.fresh += records(1, 1)
    packet = receiver.next_packet(0)
    assert packet is not None
    assert packet[:2] == (1, -2)


def test_who_has_seen_that_something_was_late_waits_so_long_before_it_complains() -> None:
    """And a quarter longer; less, slowly, when it sees that things are late by less."""
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.say(0)
    receiver.receive(run(1, 1), 4 * MS)
    assert receiver.losses.late == 5 * MS
    receiver.say(9 * MS)
    receiver.receive(run(4, 4), 100 * MS)
    assert (receiver.next_packet(104 * MS), receiver.deadline()) == (None, 105 * MS)
    assert receiver.next_packet(105 * MS) == (1, -3, [])
    receiver.receive(run(3, 3), 108 * MS)
    assert receiver.losses.late == 10 * MS
    receiver.receive(run(6, 6), 200 * MS)
    receiver.receive(run(8, 8), 201 * MS)
    receiver.receive(run(5, 5), 202 * MS)
    assert receiver.losses.late == (10 - 8 / 16) * MS
    assert receiver.say(210 * MS) == 6
    assert receiver.deadline() == 210_500_000  # what is missing now is so since another one came
    assert receiver.say(211 * MS) == -7


def test_an_acknowledgement_before_its_time_does_not_take_a_complaint_away() -> None:
    receiver = link()
    receiver.losses.late = 10 * MS
    receiver.receive(run(2, 2), 0)
    assert receiver.say(3 * MS) == 0
    assert receiver.deadline() == 10 * MS
    assert receiver.next_packet(10 * MS) == (1, -1, [])


def test_what_may_still_come_is_not_counted_as_lost() -> None:
    """A repetition that was sent for one hole fills the next one too, which is younger than what is late may be."""
    receiver = link()
    receiver.losses.late = 10 * MS
    receiver.receive(run(2, 2), 0)
    receiver.receive(run(4, 4), 15 * MS)
    receiver.receive(run(1, 4), 20 * MS)
    assert (receiver.received, receiver.losses.lost(LATER)) == (4, 1)


def test_where_packets_get_lost_and_are_not_late_any_more_that_is_forgotten() -> None:
    receiver = link()
    receiver.losses.late = 10 * MS
    for number in range(1, 2000, 2):
        receiver.receive(run(number + 1, number + 1), number * MS)
        receiver.receive(run(number, number + 1), number * MS)
    assert receiver.losses.late < MS


def test_a_part_of_a_hole_says_nothing() -> None:
    """A repetition may end within a large one."""
    receiver = link()
    receiver.receive(run(20, 20), 0)
    receiver.receive(run(1, 8), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (0, 0)


def test_a_repetition_says_nothing_of_what_is_late() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(run(1, 2), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (1, 0)


def test_nothing_is_waited_for_much_longer_than_a_time_out() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(run(1, 1), 1000 * MS)
    assert receiver.losses.late == TIMING.retransmit_ns * 5 // 4


def test_a_packet_without_records_tells_that_the_last_ones_are_missing() -> None:
    """Not at once, or two that both miss something would tell each other so without end."""
    receiver = link()
    receiver.receive(run(1, 1), 0)
    receiver.acknowledge(10 * MS)
    receiver.receive(packet(2, []), 10 * MS)
    assert receiver.deadline() is None
    receiver.receive(packet(3, []), 10 * MS)
    receiver.receive(packet(3, []), 12 * MS)
    assert (receiver.next_packet(14 * MS), receiver.deadline()) == (None, 15 * MS)
    assert receiver.next_packet(15 * MS) == (1, -2, [])
    assert receiver.next_packet(16 * MS) is None
    receiver.receive(packet(3, []), 17 * MS)
    assert receiver.deadline() == 20 * MS
    assert numbers(receiver.receive(run(2, 2), 18 * MS)) == [2]
    assert receiver.next_packet(23 * MS) == (1, 2, [])


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
            self.channel[1 - end].append(packet(again[0], again[1], me.acknowledge(self.now)))
        following = me.next_packet(self.now)
        if following is not None:
            first, ack, taken = following
            self.channel[1 - end].append(packet(first, taken, ack))

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
