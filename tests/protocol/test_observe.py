"""What the member that decides sees of its group: the load, the delay, and what gets lost."""

from __future__ import annotations

import random

from isotone.model.records import Seen
from isotone.model.settings import MS, SECOND
from isotone.protocol.switching.observe import ENOUGH, PERIOD_NS, PERIODS, REPAIRS, TRIPS, Observation, Observer

MEMBERS = ("a#1", "b#1", "c#1")
NOTHING = Seen(0, 0, 0)


def observation(batches: tuple[int, ...]) -> Observation:
    return Observation(batches, SECOND, MS, 0)


class Watched:
    """An observer with something to see."""

    def __init__(self, trip: int | None = 2 * MS) -> None:
        self.observer = Observer(MEMBERS, 0)
        self.now = 0
        self.seen = dict.fromkeys(MEMBERS, NOTHING)
        for member in MEMBERS:
            self.observer.told(member, NOTHING)
        if trip is not None:
            self.echo("b#1", trip)

    def period(self, counts: tuple[int, ...] = (0, 0, 0), packets: int = 0, lost: int = 0, but: str = "") -> Observation | None:
        """All have sent so many batches, and the links of b have heard so many packets; `but` one does not tell."""
        for member, count in zip(MEMBERS, counts, strict=True):
            before = self.seen[member]
            heard = (packets, lost) if member == "b#1" else (0, 0)
            self.seen[member] = Seen(before.batches + count, before.packets + heard[0], before.lost + heard[1])
            if member != but:
                self.observer.told(member, self.seen[member])
        self.now += PERIOD_NS
        self.observer.note(self.now)
        return self.observer.look()

    def echo(self, peer: str, trip: int | None) -> None:
        self.observer.asked(peer, self.now)
        if trip is not None:
            self.observer.answered(peer, self.now, self.seen[peer], self.now + trip)


# --- the load ------------------------------------------------------------------------------------------------------


def test_what_the_members_have_sent_is_counted() -> None:
    seen = Watched().period((ENOUGH, 7, 0))
    assert seen == Observation((ENOUGH, 7, 0), PERIOD_NS, MS, 0)
    assert (seen.busiest, seen.members, seen.per_1000_s) == (0, 3, (ENOUGH + 7) * 1_000 * SECOND // PERIOD_NS)


def test_what_was_sent_before_somebody_looked_does_not_count() -> None:
    """A policy may come into force in the middle of a view."""
    observer = Observer(MEMBERS, 0)
    observer.asked("b#1", 0)
    observer.answered("b#1", 0, Seen(1_000, 9_000, 800), 2 * MS)
    observer.told("b#1", Seen(1_000 + ENOUGH, 9_100, 800))
    observer.note(PERIOD_NS)
    assert observer.look() == Observation((0, ENOUGH, 0), PERIOD_NS, MS, 0)


def test_a_member_that_begins_to_count_anew_is_in_another_view() -> None:
    watched = Watched()
    watched.period((0, 200, 0), packets=300)
    watched.observer.told("b#1", Seen(2, 3, 0))
    watched.observer.told("b#1", Seen(2 + ENOUGH, 50, 0))
    watched.observer.note(watched.now + PERIOD_NS)
    assert watched.observer.look() == Observation((0, ENOUGH, 0), PERIOD_NS, MS, 0)


def test_an_answer_that_is_missing_is_no_change_of_the_load() -> None:
    """It is taken, once, that the member goes on as before; what it tells next sets that right."""
    watched = Watched()
    seen = [watched.period((20, 20, 20), but="c#1" if index % 5 == 4 else "") for index in range(PERIODS)]
    assert seen[-1].span_ns >= PERIODS // 2 * PERIOD_NS
    assert max(seen[-1].batches) - min(seen[-1].batches) <= 20
    for _ in range(PERIODS):
        silent = watched.period((20, 20, 20), but="c#1")
    assert silent.batches[2] == 0  # it does not go on so for ever


def test_who_does_not_answer_goes_on_as_in_the_last_periods_and_not_as_in_the_last_one() -> None:
    for last in ((0, 0, 8, 0), (0, 8, 0, 0), (0, 0, 0, 8)):
        watched = Watched()
        for count in last:
            watched.period((20, 20, count))
        watched.period((20, 20, 2), but="c#1")
        assert watched.observer._sent(1, 0) == (20, 20, 2)


def test_answers_that_come_unevenly_are_no_change_of_the_load() -> None:
    """Round trips of about a period: now there is no answer, now there are two. What was missing is not taken to be missed."""
    watched = Watched()
    seen = [watched.period((20, 20, 20), but="c#1" if index % 5 in (2, 3) else "") for index in range(PERIODS)]
    assert seen[-1].span_ns >= PERIODS // 2 * PERIOD_NS
    assert min(one.batches[2] * 3 / one.total for one in seen[8:]) > 0.8


def test_over_a_long_way_it_looks_back_further_than_answers_are_apart() -> None:
    """Within a round trip somebody's answer may be missing, and another's be there twice."""
    seen = []
    for trip in (2 * MS, 2 * PERIOD_NS):
        watched = Watched(trip)
        for _ in range(8):
            watched.period((10, 10, 10))
        seen.append(watched.period((0, 60, 0)).batches)
    assert seen == [(0, 60, 0), (30, 90, 30)]


def test_a_rate_that_changes_is_seen_in_the_sum_where_each_member_sends_little() -> None:
    members = tuple(f"n{rank:02}#1" for rank in range(12))
    observer = Observer(members, 0)
    observer.asked(members[1], 0)
    observer.answered(members[1], 0, NOTHING, 2 * MS)
    for member in members:
        observer.told(member, NOTHING)

    def periods(first: int, last: int, every: int) -> None:
        for index in range(first, last):
            for rank, member in enumerate(members):
                sent[rank] += (index + rank) % every == 0
                observer.told(member, Seen(sent[rank], 0, 0))
            observer.note((index + 1) * PERIOD_NS)

    sent = [0] * len(members)
    periods(0, PERIODS, 6)
    assert observer.look().span_ns >= PERIODS // 2 * PERIOD_NS
    periods(PERIODS, PERIODS + 2, 1)
    assert observer.look() == Observation((2,) * 12, 2 * PERIOD_NS, MS, 0)


def test_it_looks_back_as_far_as_needed_but_not_for_ever() -> None:
    watched = Watched()
    assert watched.period((100, 0, 0)).batches == (100, 0, 0)
    assert watched.period((0, 100, 0)).batches == (0, 100, 0)  # enough in one period
    seen = [watched.period((0, 0, index % 16 == 0)) for index in range(PERIODS)]
    assert seen[0].batches == (0, 100, 1)
    assert seen[-1] == Observation((0, 0, PERIODS // 16), PERIODS * PERIOD_NS, MS, 0)
    assert [watched.period() for _ in range(PERIODS)][-1] is None


def test_the_longer_a_load_lasts_the_more_of_it_is_seen() -> None:
    """Chance is averaged out: who of two alike members sent more in a moment says nothing after some seconds."""
    watched = Watched()
    rng = random.Random(5)
    seen = [watched.period((rng.randint(15, 25), rng.randint(15, 25), rng.randint(15, 25))) for _ in range(PERIODS)]
    assert seen[-1].span_ns > 4 * SECOND
    assert not any(one.busier(0, 1) or one.busier(1, 0) for one in seen[-8:])


def test_after_a_change_only_what_came_since_is_seen() -> None:
    watched = Watched()
    for _ in range(PERIODS):
        watched.period((10, 10, 10))
    assert watched.period((10, 10, 10)).span_ns >= PERIODS // 2 * PERIOD_NS
    assert watched.period((1, 28, 1)).batches == (1, 28, 1)  # other shares
    assert [watched.period((1, 28, 1)) for _ in range(3)][-1].batches == (4, 112, 4)
    assert watched.period((9, 250, 9)).batches == (9, 250, 9)  # another rate
    seen = [watched.period((0, 3, 0)) for _ in range(10)]
    assert seen[1].batches == (9, 256, 9)  # too few by themselves
    assert [one.batches for one in (seen[2], seen[5])] == [(0, 9, 0), (0, 18, 0)]


def test_who_is_busier_is_no_matter_of_chance() -> None:
    assert not observation((15, 8, 1)).busier(0, 1)
    assert observation((18, 2, 4)).busier(0, 1)
    assert not observation((2, 18, 4)).busier(0, 1)
    assert not observation((10, 10, 10)).busier(0, 1)
    assert observation((150, 80, 10)).busier(0, 1)


# --- the delay -----------------------------------------------------------------------------------------------------


def test_without_a_round_trip_nothing_is_said() -> None:
    watched = Watched(trip=None)
    watched.echo("b#1", None)
    assert watched.period((100, 0, 0)) is None


def test_the_delay_is_half_the_median_round_trip() -> None:
    watched = Watched()
    watched.echo("c#1", 80 * MS)
    assert watched.period((100, 0, 0)).delay_ns == 40 * MS
    watched.echo("c#1", 40 * MS)
    assert watched.period((100, 0, 0)).delay_ns == 20 * MS
    watched.observer.answered("c#1", 0, NOTHING, watched.now)  # a repetition, a lie, or of another time
    watched.observer.answered("d#1", watched.now, NOTHING, watched.now)  # of somebody else
    assert watched.period((100, 0, 0)).delay_ns == 20 * MS


def test_the_delay_is_that_of_the_last_round_trips() -> None:
    watched = Watched()
    for _ in range(50):
        for peer in ("b#1", "c#1"):
            watched.echo(peer, 100 * MS)
        watched.period((10, 0, 0))
    for _ in range(TRIPS):
        for peer in ("b#1", "c#1"):
            watched.echo(peer, 4 * MS)
    assert watched.period((10, 0, 0)).delay_ns == 2 * MS


# --- what gets lost ------------------------------------------------------------------------------------------------


def test_what_the_links_miss_is_loss() -> None:
    watched = Watched()
    for _ in range(PERIODS):
        assert watched.period((10, 10, 10), packets=200).loss == 0
    seen = [watched.period((10, 10, 10), packets=200, lost=3).loss for _ in range(REPAIRS)]
    assert max(seen[:2]) <= 1  # six may be chance
    assert seen[2:4] == [5, 7]  # but not nine: half a second tells
    assert seen[-1] == 15
    for _ in range(PERIODS):
        assert 10 <= watched.period((10, 10, 10), packets=200, lost=3).loss <= 15
    assert [watched.period((10, 10, 10), packets=200).loss for _ in range(REPAIRS)][-1] == 0


def test_where_much_is_sent_at_once_losses_that_are_not_yet_counted_are_not_missed() -> None:
    """A link counts a loss half a second after its packet. Else a load that begins would look like a network without loss."""
    watched, counted = Watched(), [1, 0, 1, 0] * 100
    for _ in range(PERIODS):
        watched.period((2, 2, 2), packets=20, lost=counted.pop())
    seen = [watched.period((20, 20, 20), packets=200, lost=counted.pop() if late < 4 else 5).loss for late in range(2 * REPAIRS)]
    assert min(seen) >= 20
    assert max(seen) <= 30


def test_a_single_loss_says_little() -> None:
    watched = Watched()
    for _ in range(PERIODS):
        watched.period((10, 10, 10), packets=8)
    assert [watched.period((10, 10, 10), packets=8, lost=index == 0).loss for index in range(4)] == [1, 1, 1, 1]


def test_loss_and_load_are_looked_at_each_for_itself() -> None:
    """The load changes, and the loss does not: it is still that of some seconds; and the other way round."""
    watched = Watched()
    for _ in range(PERIODS):
        watched.period((10, 10, 10), packets=40, lost=1)
    seen = watched.period((40, 0, 0), packets=80, lost=0)
    assert seen.batches == (40, 0, 0)
    assert 20 <= seen.loss <= 25
    for _ in range(PERIODS):
        watched.period((40, 0, 0), packets=80)
    seen = [watched.period((40, 0, 0), packets=80, lost=8) for _ in range(REPAIRS)][-1]
    assert (seen.loss, seen.span_ns >= PERIODS // 2 * PERIOD_NS) == (100, True)


def test_an_echo_is_lost_when_a_later_one_is_answered() -> None:
    watched = Watched()
    for index in range(2 * PERIODS):
        watched.echo("b#1", None if index % 10 == 5 else 2 * MS)  # 10 % of the round trips: 5 % each way
        seen = watched.period((10, 0, 0))
    assert 40 <= seen.loss <= 60


def test_a_member_that_pauses_loses_nothing() -> None:
    """It answers late, all at once, and in order."""
    watched = Watched()
    for _ in range(PERIODS):
        watched.echo("b#1", 2 * MS)
        watched.period((10, 0, 0))
    asked = []
    for _ in range(12):
        asked.append(watched.now)
        watched.observer.asked("b#1", watched.now)
        assert watched.period((10, 0, 0)).loss == 0
    for at in asked:
        watched.observer.answered("b#1", at, NOTHING, watched.now)
    assert watched.period((10, 0, 0)).loss == 0


def test_a_member_that_is_cut_off_for_a_while_is_one_mishap() -> None:
    watched = Watched()
    for index in range(2 * PERIODS):
        watched.echo("b#1", None if 60 <= index < 68 else 2 * MS)
        seen = watched.period((10, 0, 0))
    assert seen.loss <= 1_000 // PERIODS


def test_a_long_way_is_no_loss() -> None:
    """Echoes that take several periods to come back do come back."""
    watched = Watched()
    under_way: list[int] = []
    for _ in range(100):
        watched.observer.asked("b#1", watched.now)
        under_way.append(watched.now)
        if len(under_way) > 3:
            watched.observer.answered("b#1", under_way.pop(0), NOTHING, watched.now)
        seen = watched.period((10, 0, 0))
    assert seen.loss == 0
    assert seen.delay_ns == 3 * PERIOD_NS // 2
