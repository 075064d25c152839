"""Who is expected to send next: steady and repeated paces, members that come at random or not at all."""

from __future__ import annotations

from random import Random

from isotone.model.settings import MS
from isotone.protocol.ordering.atop.rhythm import Rhythm

A, B, C = range(3)


def heard(paces: dict[int, list[int]]) -> Rhythm:
    """Members that sent at these times, in ms."""
    rhythm = Rhythm(3)
    for time, member in sorted((time, member) for member, times in paces.items() for time in times):
        rhythm.heard(member, time * MS)
    return rhythm


def test_nobody_is_expected_before_somebody_has_a_pace() -> None:
    rhythm = heard({A: [10], B: [20]})
    assert rhythm.expects(30 * MS) is None
    for time in (110, 210, 310):
        rhythm.heard(A, time * MS)
        assert rhythm.expects((time + 1) * MS) is None  # a few gaps are no pace
    rhythm.heard(A, 410 * MS)
    assert rhythm.expects(411 * MS) == A


def test_who_sends_at_a_steady_pace_is_expected_in_its_turn() -> None:
    """a every 100 ms, b every 40, c every 1,000: whose time comes next, sends next."""
    rhythm = heard({A: list(range(0, 2_400, 100)), B: list(range(30, 2_400, 40)), C: [350, 1_350, 2_350]})
    assert rhythm.expects(2_391 * MS) == A  # a at 2,400, b at 2,430
    rhythm.heard(A, 2_400 * MS)
    assert rhythm.expects(2_401 * MS) == B
    rhythm.heard(B, 2_430 * MS)
    assert rhythm.expects(2_431 * MS) == B
    rhythm.heard(B, 2_470 * MS)
    assert rhythm.expects(2_471 * MS) == A  # a at 2,500, b at 2,510


def test_a_pace_that_repeats_is_recognised() -> None:
    """a sends twice in 25 ms and then rests for 75; b sends every 100 ms, in between."""
    twice = [time for start in range(0, 2_000, 100) for time in (start, start + 25)]
    rhythm = heard({A: twice, B: list(range(50, 2_000, 100))})
    assert rhythm.expects(1_951 * MS) == A
    rhythm.heard(A, 2_000 * MS)
    assert rhythm.expects(2_001 * MS) == A
    rhythm.heard(A, 2_025 * MS)
    assert rhythm.expects(2_026 * MS) == B


def test_a_slow_member_is_expected_when_its_time_has_come() -> None:
    rhythm = heard({A: list(range(0, 30_000, 100)), C: list(range(15_050, 30_000, 3_000))})
    assert rhythm.expects(29_901 * MS) == A
    rhythm.heard(A, 30_000 * MS)
    assert rhythm.expects(30_001 * MS) == C  # at 30,050


def test_who_sends_at_random_cannot_be_foreseen() -> None:
    rng = Random(7)
    times, now = [], 0
    for _ in range(200):
        now += 1 + int(rng.expovariate(1 / 50))
        times.append(now)
    assert heard({A: times}).expects((now + 1) * MS) is None


def test_who_is_overdue_is_no_longer_expected() -> None:
    """a has stopped: after a quarter of its gap b is next, and at last nobody is."""
    rhythm = heard({A: list(range(0, 1_000, 40)), B: list(range(10, 1_000, 200))})
    assert rhythm.expects(961 * MS) == A  # at 1,000
    assert rhythm.expects(1_005 * MS) == A
    assert rhythm.expects(1_009 * MS) == A
    assert rhythm.expects(1_011 * MS) == B  # expected at 1,010, a at 1,062 or so
    assert rhythm.expects(9_000 * MS) is None
