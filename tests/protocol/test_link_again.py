"""When a link sends again without being asked, how much of it, and what it knows of the round trip."""

from __future__ import annotations

from isotone.model.records import Cast, Relay
from isotone.model.settings import MS
from isotone.protocol.link.peer_link import PeerLink
from tests.protocol.link_bench import acknowledge, link, numbers, packet, records, repetition, run

BURST = 64


def test_the_timeout_follows_the_round_trip_time() -> None:
    """Mean and spread as of old: a peer 100 ms away is given 100 + 4·50 ms; and then twice that."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    acknowledge(sender, 1, 100 * MS)
    assert (sender.rtt_mean, sender.rtt_spread) == (100 * MS, 50 * MS)
    sender.fresh += records(2, 2)
    sender.next_packet(1000 * MS)
    assert sender.deadline() == (1000 + 100 + 4 * 50) * MS
    acknowledge(sender, 2, 1100 * MS)
    assert (sender.rtt_mean, sender.rtt_spread) == (100 * MS, 46_875_000)  # steady: the spread shrinks slowly
    sender.fresh += records(3, 3)
    sender.next_packet(2000 * MS)
    assert sender.deadline() == (2000 + 100 + 4 * 46.875) * MS
    sender.retransmit(2300 * MS)
    assert sender.deadline() == (2300 + 100 + 4 * 46.875) * MS  # no more than that: the longest time-out is 200 ms
    acknowledge(sender, 3, 2100 * MS)
    sender.fresh += records(4, 4)
    sender.next_packet(3000 * MS)
    acknowledge(sender, 4, 3200 * MS)
    assert sender.rtt_spread == 46_875_000 + 53_125_000 // 4  # and grows fast


def known(rtt: int, window: int = 1000) -> PeerLink:
    """A link that has seen many round trips, all alike."""
    sender = link(window)
    for now in range(50):
        sender.fresh += records(now + 1, now + 1)
        sender.next_packet(now * 1000 * MS)
        acknowledge(sender, now + 1, now * 1000 * MS + rtt)
    return sender


def test_what_should_be_acknowledged_by_now_goes_out_again_long_before_the_time_out() -> None:
    """After a round trip and the delay of acknowledgements: a few, and more after longer. Every acknowledgement begins anew."""
    sender = known(4 * MS)
    sender.fresh += records(51, 150)
    sender.next_packet(0)
    waits, counts, now = [], [], 0
    for _ in range(5):
        due = sender.deadline()
        assert due is not None
        again = sender.retransmit(due)
        assert again is not None
        waits.append((due - now) // MS)
        counts.append(len(again[1]))
        now = due
    assert (waits, counts) == ([9, 18, 36, 72, 144], [8, 8, BURST, BURST, BURST])
    acknowledge(sender, 60, now)
    assert sender.deadline() == now + 9 * MS


def test_no_acknowledgement_that_keeps_to_its_delay_is_taken_for_lost() -> None:
    """Whether those before were sent at once or not."""
    sender = known(4 * MS)
    sender.fresh += records(51, 51)
    sender.next_packet(0)
    assert sender.retransmit(9 * MS - 1) is None
    acknowledge(sender, 51, 9 * MS)
    assert sender.deadline() is None


def test_the_least_round_trip_follows_a_way_that_becomes_longer() -> None:
    sender = known(4 * MS)
    for now in range(300):
        sender.fresh += records(now + 51, now + 51)
        sender.next_packet(now * 1000 * MS)
        acknowledge(sender, now + 51, now * 1000 * MS + 20 * MS)
    assert 19 * MS < sender.rtt_least <= 20 * MS


def test_of_large_records_few_go_out_again_early() -> None:
    """Eight of them would fill a slow wire. Also of those that are passed on for others, and one at least."""
    casts = [Cast(number, 0, [], number, [bytes(size)] * 2) for number, size in enumerate((900, 900, 900, 9000, 1), 51)]
    for several, count in ((casts, 2), (casts[2:], 1), (casts[3:], 1), ([Relay(1, cast) for cast in casts], 2)):
        sender = known(4 * MS)
        sender.fresh += several
        sender.next_packet(0)
        again = sender.retransmit(9 * MS)
        assert again is not None
        assert len(again[1]) == count


def test_what_followed_a_repetition_and_was_not_acknowledged_with_it_goes_out_too() -> None:
    """All of it was lost, as far as anybody knows: a round trip for 8, for 16, for 32 and so on, and no time-out between."""
    sender = known(4 * MS)
    sender.fresh += records(51, 350)
    sender.next_packet(0)
    now, lengths = 9 * MS, []
    while (again := sender.retransmit(now)) is not None:
        lengths.append(len(again[1]))
        now += 4 * MS
        acknowledge(sender, again[0] + len(again[1]) - 1, now)
    assert lengths == [8, 16, 32, 64, 64, 64, 52]
    assert sender.deadline() is None


def test_what_was_sent_after_a_repetition_need_not_be_lost() -> None:
    sender = known(4 * MS)
    sender.fresh += records(51, 51)
    sender.next_packet(0)
    sender.retransmit(9 * MS)
    sender.fresh += records(52, 60)
    sender.next_packet(10 * MS)
    acknowledge(sender, 51, 13 * MS)
    assert sender.retransmit(13 * MS) is None
    assert sender.deadline() == 22 * MS


def test_a_record_that_was_sent_twice_is_no_measure() -> None:
    """One cannot tell which of the two was acknowledged."""
    sender = link()
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    sender.retransmit(30 * MS)
    acknowledge(sender, 1, 31 * MS)
    assert sender.rtt_mean == 0


def test_round_trips_that_become_longer_than_the_time_out_are_noticed() -> None:
    """Then everything is sent twice before it is acknowledged. The peer says so, after it has acknowledged the first."""
    for sender, last in ((known(4 * MS), 50), (link(), 0)):
        now, again = 100_000 * MS, []
        for number in range(last + 1, last + 50):
            sender.fresh += records(number, number)
            sender.next_packet(now)
            answer = now + 150 * MS
            while (due := sender.deadline()) is not None and due < answer:
                assert sender.retransmit(due) is not None
                again.append(number)
            acknowledge(sender, number, answer)
            if again and again[-1] == number:
                sender.receive(packet(0, [], number, again=True), answer + 1 * MS)
            now = answer + 1000 * MS
        assert set(again) <= set(range(last + 1, last + 5))


def test_a_pause_of_the_peer_does_not_make_its_link_slow() -> None:
    """It acknowledges the first packet after two seconds, and then says that it had all of them."""
    sender = known(4 * MS)
    sender.fresh += records(51, 51)
    sender.next_packet(0)
    while (due := sender.deadline()) is not None and due < 2000 * MS:
        sender.retransmit(due)
    acknowledge(sender, 51, 2000 * MS)
    for _ in range(8):
        sender.receive(packet(0, [], 51, again=True), 2000 * MS)
    sender.fresh += records(52, 52)
    sender.next_packet(3000 * MS)
    assert sender.deadline() is not None
    assert sender.deadline() < 3020 * MS


def test_a_repetition_that_was_needed_says_nothing_of_the_round_trip() -> None:
    """Nor one that brought the acknowledgement, which was lost, or one that was too late for anything."""
    sender = known(4 * MS)
    usual = sender.rtt_mean, sender.rtt_spread, sender.rtt_least
    for number in range(51, 60):
        sender.fresh += records(number, number)
        sender.next_packet(number * 1000 * MS)
        now = sender.deadline()
        assert now == number * 1000 * MS + 9 * MS
        sender.retransmit(now)
        sender.receive(packet(0, [], number, again=number % 2 == 0), now + 4 * MS)
        assert (sender.rtt_mean, sender.rtt_spread, sender.rtt_least) == usual


def test_who_hears_again_what_is_here_says_so() -> None:
    receiver = link()
    receiver.receive(run(1, 2), 0)
    receiver.receive(repetition(1, 2), 10 * MS)
    assert receiver.next_packet(10 * MS) == (1, 2, [], True)
    receiver.receive(repetition(1, 3), 20 * MS)
    assert receiver.next_packet(20 * MS) == (1, 3, [], False)
    receiver.receive(repetition(1, 3), 30 * MS)
    receiver.fresh += records(1, 1)
    answer = receiver.next_packet(30 * MS)
    assert answer is not None
    assert (len(answer[2]), answer[3]) == (1, False)  # that would say that these records were sent before
    receiver.receive(run(4, 4), 40 * MS)
    assert receiver.next_packet(45 * MS) == (2, 4, [], False)


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


def test_a_new_connection_repeats_all_that_is_under_way() -> None:
    """Whatever the old one held is gone."""
    sender = known(4 * MS)
    sender.fresh += records(51, 350)
    sender.next_packet(0)
    sender.receive(packet(0, [], -51), 1 * MS)  # a complaint changes nothing
    sender.reconnect()
    again = sender.retransmit(2 * MS)
    assert again is not None
    assert numbers(again[1]) == list(range(51, 351))
    assert sender.deadline() == 20 * MS


def test_a_new_connection_repeats_nothing_where_nothing_is_under_way() -> None:
    sender = link()
    sender.reconnect()
    assert sender.retransmit(0) is None
    sender.fresh += records(1, 1)
    sender.next_packet(0)
    assert sender.retransmit(1) is None
