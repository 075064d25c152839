"""Consensus: an example message by message, its own swarm, and what the swarm catches."""

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.protocol.membership.consensus import (
    ACCEPT,
    ACCEPTED,
    DECIDE,
    NONE,
    PREPARE,
    PROMISE,
    REJECT,
    Ballot,
    Consensus,
)
from tests.protocol.consensus_mutants import MUTANTS, AnswererForgotten, NeverAgain
from tests.protocol.consensus_swarm import Run, failures


def three() -> list[Consensus[str]]:
    return [Consensus(rank, 3, retry_ns=100, seed=1) for rank in range(3)]


def test_an_example_message_by_message() -> None:
    """Proposer 0 gets its value accepted at 1 and falls silent; proposer 2 must find that value and finish with it."""
    a, b, c = three()
    a.propose("left", 0)
    assert a.take() == [(None, Ballot(PREPARE, 0))]
    b.receive(0, Ballot(PREPARE, 0), 1)
    assert b.take() == [(0, Ballot(PROMISE, 0, NONE, None))]
    a.receive(1, Ballot(PROMISE, 0, NONE, None), 2)  # 0 and 1 are a majority; nothing is bound, so a sends its own value
    assert a.take() == [(None, Ballot(ACCEPT, 0, NONE, "left"))]
    b.receive(0, Ballot(ACCEPT, 0, NONE, "left"), 3)  # decided from here on, though nobody knows
    assert b.take() == [(0, Ballot(ACCEPTED, 0))]

    c.propose("right", 4)
    assert c.take() == [(None, Ballot(PREPARE, 2))]
    b.receive(2, Ballot(PREPARE, 2), 5)
    assert b.take() == [(2, Ballot(PROMISE, 2, 0, "left"))]  # the promise tells what was accepted in ballot 0
    c.receive(1, Ballot(PROMISE, 2, 0, "left"), 6)
    assert c.take() == [(None, Ballot(ACCEPT, 2, NONE, "left"))]  # "right" is given up

    b.receive(0, Ballot(ACCEPT, 0, NONE, "left"), 7)  # a's message again, late: ballot 2 was promised
    assert b.take() == [(0, Ballot(REJECT, 0, 2))]
    b.receive(2, Ballot(ACCEPT, 2, NONE, "left"), 8)
    assert b.take() == [(2, Ballot(ACCEPTED, 2))]
    c.receive(1, Ballot(ACCEPTED, 2), 9)
    assert c.decided == "left"
    assert c.take() == [(None, Ballot(DECIDE, 2, NONE, "left"))]
    assert c.deadline() is None

    a.receive(1, Ballot(REJECT, 0, 2), 10)  # a was outbid; the decision does not reach it: it tries again, and hears
    at = a.deadline()
    assert at is not None
    assert at > 10
    a.wake(at)
    assert a.take() == [(None, Ballot(PREPARE, 3))]
    c.receive(0, Ballot(PREPARE, 3), at)
    assert c.take() == [(0, Ballot(DECIDE, 3, NONE, "left"))]
    a.receive(2, Ballot(DECIDE, 3, NONE, "left"), at)
    assert a.decided == "left"
    assert a.take() == []
    assert a.deadline() is None


def test_a_member_alone_decides_at_once() -> None:
    alone: Consensus[str] = Consensus(0, 1, 100, 0)
    alone.propose("x", 0)
    assert alone.decided == "x"
    assert alone.take() == []
    assert alone.deadline() is None


def test_proposing_again_repeats_nothing() -> None:
    a = three()[0]
    a.propose("x", 0)
    a.take()
    a.propose("x", 1)
    assert a.take() == []


def test_a_question_without_an_answer_is_repeated_to_those_that_did_not_answer() -> None:
    a = Consensus[str](0, 5, 100, 0)
    a.propose("x", 0)
    a.take()
    a.receive(3, Ballot(PROMISE, 0), 1)
    at = a.deadline()
    assert at is not None
    a.wake(at)
    assert a.take() == [(rank, Ballot(PREPARE, 0)) for rank in (1, 2, 4)]


def test_who_only_answered_asks_for_itself_and_proposes_nothing_of_its_own() -> None:
    _a, b, _ = three()
    b.receive(0, Ballot(PREPARE, 0), 0)
    b.take()
    at = b.deadline()
    assert at is not None
    b.wake(at)
    assert b.take() == [(None, Ballot(PREPARE, 4))]
    b.receive(2, Ballot(PROMISE, 4), at)
    assert b.take() == []
    assert b.decided is None


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        (0, Ballot(PREPARE, 1)),  # a ballot of another's
        (0, Ballot(ACCEPT, 0)),  # no value
        (0, Ballot(DECIDE, 0)),
        (0, Ballot(PROMISE, 1, 5, "x")),  # accepted above what is promised
        (0, Ballot(PROMISE, 2)),  # an answer to another's ballot
        (0, Ballot(PREPARE, -3)),
        (0, Ballot(PREPARE, 3 << 60)),
        (0, Ballot(6, 0)),
        (1, Ballot(PREPARE, 1)),  # from oneself
        (3, Ballot(PREPARE, 0)),
    ],
)
def test_impossible_messages_are_refused(sender: int, message: Ballot[str]) -> None:
    b = three()[1]
    with pytest.raises(RemoteProtocolError):
        b.receive(sender, message, 0)


def test_another_decision_is_refused() -> None:
    b = three()[1]
    b.receive(0, Ballot(DECIDE, 0, NONE, "x"), 0)
    with pytest.raises(RemoteProtocolError, match="something else"):
        b.receive(2, Ballot(DECIDE, 2, NONE, "y"), 0)


def test_swarm() -> None:
    assert failures(0, 4_000) == []


def test_a_ballot_that_waits_for_its_own_proposer_is_given_up() -> None:
    """Found by the swarm: rank 1 has crashed, 2 has answered, 0 has promised another ballot: who is left to answer?"""
    a = three()[0]
    a.propose("x", 0)
    a.receive(1, Ballot(PREPARE, 1), 1)  # rank 1 asks, and crashes
    a.receive(2, Ballot(PROMISE, 0), 2)
    a.receive(2, Ballot(ACCEPTED, 0), 3)  # with 0 itself that would be a majority
    a.take()
    at = a.deadline()
    assert at is not None
    a.wake(at)
    assert a.take() == [(None, Ballot(PREPARE, 3))]


def test_the_swarm_sees_duels_late_decisions_and_lost_majorities() -> None:
    runs = [Run(seed) for seed in range(300)]
    for run in runs:
        run.run()
    assert any(sum(member.outbid > 0 for member in run.members) >= 2 for run in runs)
    assert any(run.lost[rank] and run.decided[rank] is not None for run in runs for rank in range(run.count))
    assert any(2 * sum(run.lost) >= run.count and not any(run.decided) for run in runs)
    assert sum(any(run.decided) for run in runs) > 250


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_swarm_catches(mutant: type[Consensus[str]]) -> None:
    broken = failures(0, 6_000, mutant)
    assert broken
    liveness = mutant in (NeverAgain, AnswererForgotten)
    assert ("termination" in broken[0]) == liveness, broken


def test_swarm_catches_members_that_vote_after_a_restart() -> None:
    assert "termination" not in failures(0, 6_000, restarts_vote=True)[0]
