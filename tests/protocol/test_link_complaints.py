"""What a link misses: when it complains, how the peer answers, and what it counts as lost or takes for late."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.settings import MS
from isotone.protocol.link.links import Links
from isotone.protocol.link.peer_link import PeerLink
from tests.protocol.link_bench import TIMING, acknowledge, link, numbers, packet, records, repetition, run

# What got lost

LATER = 1000 * MS


def test_a_hole_that_a_repetition_fills_was_a_loss() -> None:
    receiver = link()
    for early in (run(1, 1), run(3, 3), run(4, 4), run(6, 6)):
        receiver.receive(early, 0)
    assert (receiver.packets, receiver.losses.lost(0)) == (4, 0)
    assert numbers(receiver.receive(repetition(2, 6), 20 * MS)) == [2, 3, 4, 5, 6]
    assert (receiver.packets, receiver.losses.lost(LATER)) == (4, 2)


def test_what_only_a_repetition_brought_was_a_loss_too() -> None:
    """The last packets before a silence leave no hole; also not those behind the last hole."""
    receiver = link()
    receiver.receive(run(1, 1), 0)
    receiver.receive(repetition(2, 2), 20 * MS)
    assert (receiver.packets, receiver.losses.lost(LATER)) == (1, 1)
    receiver.receive(run(4, 4), LATER)
    receiver.receive(repetition(2, 6), LATER)
    assert (receiver.packets, receiver.losses.lost(2 * LATER)) == (2, 3)


def test_the_last_packet_that_comes_after_its_repetition_was_not_lost() -> None:
    """Nor if it is longer than that."""
    receiver = link()
    receiver.receive(run(1, 1), 0)
    receiver.receive(repetition(2, 3), 20 * MS)
    receiver.receive(run(2, 3), 25 * MS)
    receiver.receive(repetition(4, 6), 30 * MS)
    receiver.receive(run(4, 20), 35 * MS)
    assert (receiver.received, receiver.losses.lost(LATER)) == (20, 0)


def test_what_was_missing_at_the_end_is_one_loss_in_however_many_parts_it_comes() -> None:
    receiver = link()
    receiver.receive(run(1, 1), 0)
    for first in range(2, 80, 8):
        receiver.receive(repetition(first, first + 7), first * 10 * MS)
    assert receiver.losses.lost(2 * LATER) == 1
    receiver.receive(run(82, 82), LATER)
    receiver.receive(repetition(83, 84), LATER)
    assert receiver.losses.lost(3 * LATER) == 2


def test_a_repetition_that_ends_with_the_hole_does_not_say_that_anything_was_late() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(repetition(1, 1), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (1, 0)


def test_a_repetition_counts_also_if_it_begins_with_what_is_known() -> None:
    receiver = link()
    receiver.receive(run(1, 2), 0)
    receiver.receive(run(4, 4), 0)
    assert numbers(receiver.receive(repetition(1, 4), 20 * MS)) == [3, 4]
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
    receiver.receive(repetition(1, 4), 10 * MS)
    assert receiver.losses.lost(10 * MS) == 0
    receiver.receive(repetition(1, 4), 12 * MS)  # a copy of the repetition is not what was missing
    receiver.receive(run(2, 2), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (0, 25 * MS)


def test_a_loss_counts_when_what_is_missing_is_not_expected_any_more() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(repetition(1, 2), 10 * MS)
    assert [receiver.losses.lost(now * MS) for now in (10, 39, 40)] == [0, 0, 1]


def test_holes_that_are_not_yet_losses_are_bounded() -> None:
    receiver = link(window=1000)
    for number in range(1, 400, 4):
        receiver.receive(run(number + 1, number + 1), 0)
        receiver.receive(repetition(number, number + 1), 0)
        receiver.receive(run(number + 2, number + 3), 0)
    assert receiver.losses.lost(0) == 100 - 64
    assert receiver.losses.lost(LATER) == 100


def test_a_repetition_that_was_not_needed_is_no_loss() -> None:
    """The receiver, or its acknowledgement, was late: after a pause, say."""
    sender, receiver = link(), link()
    sender.fresh = records(1, 3)
    first, _, given, _ = sender.next_packet(0)
    waiting = [packet(first, given)]
    for _ in range(4):
        now = sender.resend_at
        again = sender.retransmit(now)
        waiting.append(packet(*again, again=True))
    sender.fresh = records(4, 4)
    first, _, given, _ = sender.next_packet(now)
    waiting.append(packet(first, given))
    assert numbers([record for late in waiting for record in receiver.receive(late, now)]) == [1, 2, 3, 4]
    assert receiver.losses.lost(LATER) == 0


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
    """And not after the time-out."""
    sender = sent(3)
    complain(sender, 108 * MS)
    assert sender.complaint
    again = sender.retransmit(108 * MS)
    assert again is not None
    assert (again[0], numbers(again[1])) == (2, [2, 3, 4])
    assert (sender.complaint, sender.deadline()) == (False, 132 * MS)


def test_a_complaint_acknowledges_too() -> None:
    sender = sent(3)
    complain(sender, 108 * MS, ack=3)
    again = sender.retransmit(108 * MS)
    assert again is not None
    assert (again[0], numbers(again[1])) == (4, [4])


def test_the_first_complaint_is_a_measure_too() -> None:
    """At the beginning of a view nothing is known of the way, and a repetition that gets lost would wait for a time-out."""
    sender = link()
    sender.fresh += records(1, 2)
    sender.next_packet(0)
    complain(sender, 4 * MS, ack=0)
    assert (sender.rtt_mean, sender.rtt_least) == (4 * MS, 4 * MS)
    assert sender.retransmit(4 * MS) is not None
    complain(sender, 11 * MS, ack=0)
    assert sender.retransmit(11 * MS) is None
    complain(sender, 12 * MS, ack=0)
    assert sender.retransmit(12 * MS) is not None
    assert sender.rtt_mean == 4 * MS


def test_a_complaint_after_a_repetition_is_no_measure() -> None:
    """It may be about something else, and older than the packet that is timed."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    sender.retransmit(30 * MS)
    acknowledge(sender, 1, 34 * MS)
    sender.fresh += records(2, 3)
    sender.next_packet(40 * MS)
    complain(sender, 40 * MS + 1000)
    assert sender.rtt_mean == 0


def test_where_one_complaint_follows_the_other_answers_become_longer_up_to_a_bound() -> None:
    sender = sent(90)
    now, lengths = 108 * MS, []
    for number in range(1, 6):
        complain(sender, now, ack=10 * number)  # which has more than was repeated: holes here and there
        again = sender.retransmit(now)
        assert again is not None
        lengths.append(len(again[1]))
        now += 17 * MS
    complain(sender, LATER, ack=55)
    again = sender.retransmit(LATER)
    assert again is not None
    assert (lengths, len(again[1])) == ([8, 16, 32, 32, 32], 8)


def test_complaints_about_what_was_repeated_just_now_are_not_heard() -> None:
    """The answer to a repetition takes a round trip, twice the least at most; one that comes later says that it was lost too.

    And so on, more slowly.
    """
    sender = sent(3)
    complain(sender, 108 * MS)
    sender.retransmit(108 * MS)
    for now in range(109, 124):  # a round trip is 8 ms
        complain(sender, now * MS)
        assert sender.retransmit(now * MS) is None
    complain(sender, 124 * MS)
    assert sender.retransmit(124 * MS) is not None
    sender.resend_at = 1000 * MS
    complain(sender, 155 * MS)
    assert sender.retransmit(155 * MS) is None
    complain(sender, 156 * MS)
    assert sender.retransmit(156 * MS) is not None
    acknowledge(sender, 2, 164 * MS)
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
    assert (sender.retransmit(107 * MS), sender.deadline()) == (None, 130 * MS)
    complain(sender, 108 * MS, ack=3)
    assert (sender.retransmit(108 * MS), sender.deadline()) == (None, None)


def test_a_complaint_about_what_was_never_sent_is_the_peers_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="acknowledgement of 9 records, of which 4 were sent"):
        complain(sent(3), 0, ack=9)


def test_who_misses_something_complains_at_once_and_then_now_and_then() -> None:
    """From the first record on: that nothing came yet is no reason not to."""
    receiver = link()
    receiver.receive(run(2, 2), 0)
    assert receiver.next_packet(0) == (1, -1, [], False)
    for now in range(1, 5):
        receiver.receive(run(2 + now, 2 + now), now * MS)
        assert receiver.next_packet(now * MS) is None
    receiver.receive(run(7, 7), 5 * MS)
    assert receiver.next_packet(5 * MS) == (1, -1, [], False)
    receiver.receive(run(1, 7), 6 * MS)
    assert receiver.next_packet(11 * MS) == (1, 7, [], False)


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
    assert receiver.next_packet(105 * MS) == (1, -3, [], False)
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
    assert receiver.next_packet(10 * MS) == (1, -1, [], False)


def test_what_may_still_come_is_not_counted_as_lost() -> None:
    """A repetition that was sent for one hole fills the next one too, which is younger than what is late may be."""
    receiver = link()
    receiver.losses.late = 10 * MS
    receiver.receive(run(2, 2), 0)
    receiver.receive(run(4, 4), 15 * MS)
    receiver.receive(repetition(1, 4), 20 * MS)
    assert (receiver.received, receiver.losses.lost(LATER)) == (4, 1)


def test_where_packets_get_lost_and_are_not_late_any_more_that_is_forgotten() -> None:
    receiver = link()
    receiver.losses.late = 10 * MS
    for number in range(1, 2000, 2):
        receiver.receive(run(number + 1, number + 1), number * MS)
        receiver.receive(repetition(number, number + 1), number * MS)
    assert receiver.losses.late < MS


def test_a_part_of_a_hole_says_nothing() -> None:
    """A repetition may end within a large one."""
    receiver = link()
    receiver.receive(run(20, 20), 0)
    receiver.receive(repetition(1, 8), 20 * MS)
    assert (receiver.losses.lost(LATER), receiver.losses.late) == (0, 0)


def test_a_repetition_says_nothing_of_what_is_late() -> None:
    receiver = link()
    receiver.receive(run(2, 2), 0)
    receiver.receive(repetition(1, 2), 20 * MS)
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
    assert receiver.next_packet(15 * MS) == (1, -2, [], False)
    assert receiver.next_packet(16 * MS) is None
    receiver.receive(packet(3, []), 17 * MS)
    assert receiver.deadline() == 20 * MS
    assert numbers(receiver.receive(run(2, 2), 18 * MS)) == [2]
    assert receiver.next_packet(23 * MS) == (1, 2, [], False)


def test_who_still_misses_something_after_a_repetition_says_so_at_once() -> None:
    """So a long hole is closed by one repetition per round trip; but not before what is late may have come."""
    receiver = link()
    receiver.receive(packet(20, []), 0)
    assert receiver.next_packet(5 * MS) == (1, -1, [], False)
    receiver.receive(repetition(1, 8), 6 * MS)
    assert receiver.next_packet(6 * MS) == (1, -9, [], False)
    receiver.losses.late = 2 * MS
    receiver.receive(repetition(9, 16), 7 * MS)
    assert receiver.next_packet(7 * MS) == (1, 16, [], False)
    assert receiver.deadline() == 7 * MS + receiver.losses.late
    receiver.receive(repetition(17, 19), 8 * MS)
    assert receiver.next_packet(8 * MS) == (1, 19, [], False)
    assert receiver.deadline() is None


# When a link wants to be woken


def links() -> tuple[Links, PeerLink]:
    two = Links(0, 2, TIMING, 100)
    other = two.of[1]
    assert other is not None
    return two, other


def test_the_alarm_hears_of_an_acknowledgement_that_is_due_before_a_repetition() -> None:
    two, other = links()
    two.give(1, records(1, 1)[0])
    two.packets(0)
    two.wake(30 * MS)
    other.receive(run(1, 1), 30 * MS)  # in the turn of the repetition
    two.dirty.add(1)
    two.packets(30 * MS)
    assert other.deadline() == 35 * MS
    assert two.alarm == 35 * MS


def test_the_alarm_hears_of_a_complaint_that_a_heartbeat_came_too_early_for() -> None:
    two, other = links()
    other.losses.late = 10 * MS
    other.receive(run(2, 2), 0)
    assert two.say(1, 3 * MS) == (1, 0)
    assert two.alarm == 10 * MS
