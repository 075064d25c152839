"""The failure detector: two thresholds of silence, suspicions that are withdrawn, and a detector that doubts itself first."""

from __future__ import annotations

from isotone.model.settings import MS, Timing
from isotone.protocol.membership.detector import HARD, SOFT, Detector

A, B = "a#1", "b#1"
TIMING = Timing(heartbeat_ns=20 * MS, soft_ns=60 * MS, hard_ns=150 * MS, closed_ns=50 * MS)


def watching(*peers: str, now: int = 0) -> Detector:
    detector = Detector(TIMING)
    detector.watch(frozenset(peers), now)
    return detector


def changes(detector: Detector) -> list[tuple[str, str, bool]]:
    taken, detector.changes = detector.changes, []
    return taken


def test_silence_is_suspected_softly_then_hard() -> None:
    detector = watching(A, B)
    detector.hear(B, 100 * MS)
    assert not detector.check(59 * MS)
    assert changes(detector) == []
    assert not detector.check(60 * MS)
    assert changes(detector) == [(A, SOFT, True)]
    assert not detector.check(149 * MS)
    assert changes(detector) == []  # told once
    assert detector.check(150 * MS)
    assert changes(detector) == [(A, HARD, True)]
    assert (detector.is_hard(A), detector.is_hard(B)) == (True, False)


def test_a_long_silence_is_hard_at_once() -> None:
    detector = watching(A)
    assert detector.check(500 * MS)
    assert changes(detector) == [(A, HARD, True)]


def test_a_suspicion_is_withdrawn_when_the_peer_is_heard() -> None:
    detector = watching(A)
    detector.check(60 * MS)
    detector.hear(A, 70 * MS)
    detector.check(129 * MS)
    detector.check(220 * MS)
    detector.hear(A, 221 * MS)
    assert changes(detector) == [(A, SOFT, True), (A, SOFT, False), (A, HARD, True), (A, HARD, False)]
    assert not detector.is_hard(A)


def test_the_soft_level_can_flap_hundreds_of_times_without_becoming_hard() -> None:
    detector = watching(A)
    for turn in range(1, 301):
        now = turn * 100 * MS
        assert not detector.check(now - 1 * MS)
        detector.hear(A, now)
    told = changes(detector)
    assert len(told) == 600
    assert {level for _, level, _ in told} == {SOFT}


def test_a_hard_suspicion_does_not_soften_by_itself() -> None:
    detector = watching(A)
    detector.closed(A, 0)
    detector.check(50 * MS)
    detector.opened(A)
    detector.check(70 * MS)
    assert changes(detector) == [(A, HARD, True)]


def test_a_closed_connection_is_a_soft_suspicion_and_soon_a_hard_one() -> None:
    detector = watching(A)
    detector.hear(A, 40 * MS)
    detector.closed(A, 41 * MS)
    detector.check(42 * MS)
    assert changes(detector) == [(A, SOFT, True)]
    detector.check(90 * MS)
    assert changes(detector) == []
    assert detector.check(91 * MS)  # 50 ms after the close, 51 ms after the last word
    assert changes(detector) == [(A, HARD, True)]


def test_closing_again_does_not_prolong_the_patience() -> None:
    detector = watching(A)
    for now in range(0, 50, 10):
        detector.closed(A, now * MS)
    assert detector.check(50 * MS)


def test_an_opened_connection_or_a_word_restores_the_patience() -> None:
    for restore in (Detector.opened, lambda detector, peer: detector.hear(peer, 30 * MS)):
        detector = watching(A)
        detector.closed(A, 0)
        restore(detector, A)
        assert not detector.check(59 * MS)
        assert changes(detector) == []


def test_a_stranger_is_neither_heard_nor_suspected() -> None:
    detector = watching(A)
    detector.hear(B, 0)
    detector.closed(B, 0)
    detector.check(500 * MS)
    assert changes(detector) == [(A, HARD, True)]


def test_who_is_watched_anew_counts_as_heard_now() -> None:
    detector = watching(A)
    detector.watch(frozenset({A, B}), 100 * MS)
    detector.check(155 * MS)
    assert changes(detector) == [(A, HARD, True)]


def test_who_is_no_longer_watched_is_forgotten_and_cleared_on_return() -> None:
    """The application heard of the suspicion, so it hears that it is over; not while nobody knows."""
    detector = watching(A, B)
    detector.check(200 * MS)
    changes(detector)
    detector.watch(frozenset({B}), 210 * MS)
    assert not detector.is_hard(A)
    assert changes(detector) == []
    detector.watch(frozenset({A, B}), 300 * MS)
    assert changes(detector) == [(A, HARD, False)]
    detector.watch(frozenset({A, B}), 310 * MS)
    assert changes(detector) == []


def test_own_lag_is_not_held_against_the_peers() -> None:
    """The process asked to be woken at 20 ms and was woken at 400 ms: 380 ms of the silence were its own."""
    detector = watching(A)
    detector.expected = 20 * MS
    assert detector.lag(400 * MS) == 380 * MS
    detector.check(400 * MS)
    assert changes(detector) == []
    detector.check(439 * MS)
    assert changes(detector) == []
    detector.check(440 * MS)  # 60 ms of silence that count: 20 before the sleep, 40 after it
    assert changes(detector) == [(A, SOFT, True)]


def test_own_lag_prolongs_the_patience_with_a_closed_connection() -> None:
    detector = watching(A)
    detector.closed(A, 10 * MS)
    detector.expected = 20 * MS
    detector.lag(400 * MS)
    assert not detector.check(400 * MS)
    assert detector.check(440 * MS)


def test_a_small_lag_is_no_excuse() -> None:
    detector = watching(A)
    detector.expected = 50 * MS
    assert detector.lag(70 * MS) == 20 * MS
    detector.check(70 * MS)
    assert changes(detector) == [(A, SOFT, True)]


def test_waking_early_or_unasked_is_no_lag() -> None:
    detector = watching(A)
    detector.expected = 50 * MS
    assert detector.lag(40 * MS) == 0
    assert detector.lag(400 * MS) == 0  # the expectation was for one waking
    detector.expected = None
    assert detector.lag(800 * MS) == 0


def test_forgiveness_never_reaches_into_the_future() -> None:
    detector = watching(A)
    detector.hear(A, 390 * MS)
    detector.expected = 20 * MS
    detector.lag(400 * MS)
    assert detector.heard[A] == 400 * MS
