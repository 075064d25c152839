"""The pure functions of a view change: who can be together, what each cohort recovers, which ordering the next view has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ViewId
from isotone.model.records import Cohort, State
from isotone.model.view import Ordering
from isotone.protocol.membership import plan

A, B, C, D = "a#1", "b#1", "c#1", "d#1"
ROUND = ViewId(9, A)
OLD, NEW = ViewId(3, A), ViewId(5, C)


def state(
    view: ViewId | None, members: list[str], held: list[int], order: str = "fifo", early: list[tuple[int, int]] | None = None
) -> State:
    return State(ROUND, view, members, held, [], False, Ordering(order), None, early or [])


# clique


def test_without_suspicions_everybody_can_be_together() -> None:
    assert plan.clique(B, [A, B, C], {}) == [A, B, C]


def test_nobody_is_kept_with_one_it_suspects_or_that_suspects_it() -> None:
    assert plan.clique(A, [B, C], {B: frozenset({C})}) == [A, B]
    assert plan.clique(A, [B, C], {C: frozenset({B})}) == [A, B]
    assert plan.clique(A, [B, C], {B: frozenset({A})}) == [A, C]
    assert plan.clique(A, [B, C], {A: frozenset({C})}) == [A, B]


def test_the_given_order_says_who_is_preferred() -> None:
    """Members come first, so that a newcomer does not push one of them out of the view."""
    doubts = {B: frozenset({D})}
    assert plan.clique(A, [B, C, D], doubts) == [A, B, C]
    assert plan.clique(A, [C, D, B], doubts) == [A, C, D]


def test_the_first_is_always_in() -> None:
    everyone = frozenset({A, B, C})
    assert plan.clique(A, [B, C], {B: everyone, C: everyone}) == [A]
    assert plan.clique(A, [], {}) == [A]


@given(st.data())
def test_a_clique_is_free_of_suspicion_and_cannot_be_enlarged(data: st.DataObject) -> None:
    names = [f"{name}#1" for name in "abcdef"]
    suspects = {name: data.draw(st.frozensets(st.sampled_from(names), max_size=3)) - {name} for name in names}
    kept = plan.clique(names[0], names, suspects)

    def apart(one: str, other: str) -> bool:
        return other in suspects[one] or one in suspects[other]

    assert names[0] in kept
    assert kept == sorted(kept)
    assert not any(apart(one, other) for one in kept for other in kept if one != other)
    for name in set(names) - set(kept):
        assert any(apart(name, other) for other in kept)


# newest


def test_of_one_name_only_the_latest_incarnation_counts() -> None:
    assert plan.newest([A, "a#2", B, "a#10", "c#3"]) == {"a#10", B, "c#3"}
    assert plan.newest([]) == set()


# cohorts


def test_participants_are_grouped_by_the_view_they_come_from() -> None:
    states = {
        B: state(OLD, [A, B], [1, 2]),
        A: state(OLD, [A, B], [3, 0]),
        D: state(None, [], []),
        C: state(NEW, [C], [7]),
    }
    assert plan.cohorts(states) == [
        Cohort(OLD, [A, B], [A, B], [3, 2], [A, B], [[3, 0], [1, 2]]),
        Cohort(NEW, [C], [C], [7], [C], [[7]]),
    ]


def test_a_cohort_recovers_as_much_as_its_best_member_holds() -> None:
    """Also of members that are gone; the first of those that hold most passes it on."""
    states = {B: state(OLD, [A, B, C, D], [2, 5, 4, 0]), C: state(OLD, [A, B, C, D], [2, 3, 4, 0])}
    (cohort,) = plan.cohorts(states)
    assert (cohort.present, cohort.target, cohort.holders) == ([B, C], [2, 5, 4, 0], [B, B, B, B])
    states[B] = state(OLD, [A, B, C, D], [1, 5, 4, 0])
    (cohort,) = plan.cohorts(states)
    assert (cohort.target, cohort.holders) == ([2, 5, 4, 0], [C, B, B, B])


def test_processes_without_a_view_have_nothing_to_recover() -> None:
    assert plan.cohorts({A: state(None, [], []), B: state(None, [], [])}) == []


def test_the_order_in_which_states_came_does_not_matter() -> None:
    rows = {A: [3, 0, 1], B: [1, 2, 1], C: [3, 2, 0]}
    forwards = {process: state(OLD, [A, B, C], rows[process]) for process in (A, B, C)}
    backwards = {process: forwards[process] for process in (C, B, A)}
    assert plan.cohorts(forwards) == plan.cohorts(backwards)


# check_state


def test_possible_states_pass() -> None:
    plan.check_state(A, state(OLD, [A, B], [0, 0]), [state(OLD, [A, B], [3, 0]), state(NEW, [C], [1]), state(None, [], [])])
    plan.check_state(A, state(None, [], []), [state(OLD, [A, B], [0, 0])])


@pytest.mark.parametrize(
    "wrong",
    [state(OLD, [B, C], [0, 0]), state(OLD, [A, B], [0]), state(OLD, [A, B], [0, 0, 0]), state(OLD, [], [])],
    ids=["not a member", "too few counts", "too many counts", "nobody"],
)
def test_a_state_that_does_not_fit_its_view_is_refused(wrong: State) -> None:
    with pytest.raises(RemoteProtocolError, match="does not fit view 3@a#1"):
        plan.check_state(A, wrong, [])


def test_two_states_of_one_view_must_name_the_same_members() -> None:
    with pytest.raises(RemoteProtocolError):
        plan.check_state(A, state(OLD, [A, B], [0, 0]), [state(OLD, [A, B, C], [0, 0, 0])])


# check_cohort

MEMBERS = (A, B, C)
GOOD = Cohort(OLD, [A, B, C], [A, B], [2, 3, 1], [A, B, A], [[2, 1, 1], [0, 3, 1]])


def check(
    cohort: Cohort,
    held: list[int] | None = None,
    ordered: list[int] | None = None,
    ahead: list[tuple[int, int]] | None = None,
    report: list[int] | None = None,
) -> None:
    """As seen by b, which holds (0, 3, 1) and has ordered all of it."""
    plan.check_cohort(B, cohort, MEMBERS, held or [0, 3, 1], ordered or [0, 3, 1], ahead or [], report or [])


def test_the_right_cohort_passes() -> None:
    check(GOOD)
    check(GOOD, held=[2, 3, 1])  # more has come since the process reported
    check(GOOD, ordered=[0, 1, 0])


@pytest.mark.parametrize(
    "change",
    [
        {"members": [A, B]},
        {"members": [A, C, B]},
        {"present": [A, B, B]},
        {"present": [A, B, D]},
        {"present": [A, B, C]},
        {"held": [[2, 1, 1]]},
        {"held": [[2, 1], [0, 3, 1]]},
        {"holders": [A, B]},
        {"holders": [A, B, A, B]},
        {"target": [2, 4, 1]},
        {"target": [2, 3, 0]},
        {"target": [2, 3]},
    ],
    ids=str,
)
def test_a_cohort_that_does_not_fit_the_view_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match="does not fit that view"):
        check(msgspec.structs.replace(GOOD, **change))


@pytest.mark.parametrize("row", [[1, 3, 1], [0, 4, 1], [0, 2, 1]], ids=["more", "far more", "less than is ordered"])
def test_a_cohort_that_says_something_else_of_me_is_refused(row: list[int]) -> None:
    held = [[2, 1, 1], row]
    target = [max(column) for column in zip(*held, strict=True)]
    with pytest.raises(RemoteProtocolError, match="says something else of b#1"):
        check(msgspec.structs.replace(GOOD, held=held, target=target))


def test_a_cohort_that_wants_me_to_pass_on_what_i_lack_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="says something else of b#1"):
        check(msgspec.structs.replace(GOOD, holders=[B, B, A]))


@given(st.data())
def test_every_planned_cohort_passes_the_check_of_each_of_its_members(data: st.DataObject) -> None:
    members = [A, B, C, D]
    present = data.draw(st.lists(st.sampled_from(members), min_size=1, unique=True))
    rows = {p: data.draw(st.lists(st.integers(0, 5), min_size=4, max_size=4)) for p in present}
    places = st.sets(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=3)
    ahead = {p: sorted(one for one in data.draw(places) if one[1] > rows[p][one[0]]) for p in present}
    reports = {p: data.draw(st.just([]) | st.tuples(*(st.integers(0, count) for count in rows[p])).map(list)) for p in present}
    states = {p: state(OLD, members, rows[p], early=ahead[p]) for p in present}
    (cohort,) = plan.cohorts({p: msgspec.structs.replace(one, report=reports[p]) for p, one in states.items()})
    delivered = set().union(*ahead.values())
    assert set(cohort.early) == {one for one in delivered if one[1] > cohort.target[one[0]]}
    for process in present:
        more = [count + data.draw(st.integers(0, 2)) for count in rows[process]]
        plan.check_cohort(process, cohort, members, more, rows[process], ahead[process], reports[process])


EARLY = msgspec.structs.replace(GOOD, early=[(0, 4), (2, 7)], ahead=[[(0, 4)], [(0, 2), (2, 7)]])


def test_early_casts_beyond_the_target_are_common() -> None:
    """b has delivered a's second cast, which a's stream reaches, and c's seventh."""
    states = {A: state(OLD, [A, B, C], [2, 1, 1], early=[(0, 4)]), B: state(OLD, [A, B, C], [0, 3, 1], early=[(0, 2), (2, 7)])}
    assert plan.cohorts(states) == [EARLY]
    check(EARLY, ahead=[(0, 2), (2, 7)])
    check(GOOD, ahead=[(0, 2)])


@pytest.mark.parametrize(
    "change",
    [
        {"early": []},
        {"early": [(0, 4)]},
        {"early": [(0, 2), (0, 4), (2, 7)]},
        {"early": [(2, 7), (0, 4)]},
        {"ahead": [[(0, 4), (2, 7)]]},
        {"ahead": []},
        {"ahead": [[(0, 4)], [(0, 2)]]},
    ],
    ids=str,
)
def test_a_cohort_whose_early_casts_are_not_those_of_its_members_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        check(msgspec.structs.replace(EARLY, **change), ahead=[(0, 2), (2, 7)])


@pytest.mark.parametrize("ahead", [[(2, 8)], [(0, 2), (2, 7), (2, 9)], []], ids=str)
def test_a_cohort_that_says_something_else_of_my_early_casts_is_refused(ahead: list[tuple[int, int]]) -> None:
    with pytest.raises(RemoteProtocolError, match="not true of the early casts of b#1"):
        check(EARLY, ahead=ahead)


def test_a_cohort_without_my_early_cast_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="not true of the early casts of b#1"):
        check(GOOD, ahead=[(2, 7)])


def test_a_state_with_early_casts_that_it_holds_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        plan.check_state(A, state(OLD, [A, B], [3, 0], early=[(0, 3)]), [])


DELIVERED = msgspec.structs.replace(GOOD, delivered=[2, 1, 0])


def test_of_what_members_have_delivered_a_cohort_has_the_most() -> None:
    states = {A: state(OLD, [A, B, C], [2, 1, 1]), B: state(OLD, [A, B, C], [0, 3, 1])}
    assert plan.cohorts(states) == [GOOD]
    states[A] = msgspec.structs.replace(states[A], report=[2, 0, 0])
    states[B] = msgspec.structs.replace(states[B], report=[0, 1, 0])
    assert plan.cohorts(states) == [DELIVERED]
    check(DELIVERED, report=[0, 1, 0])


@pytest.mark.parametrize("delivered", [[2, 1], [2, 4, 0], [0, 0, 0], []], ids=str)
def test_a_cohort_that_says_less_of_deliveries_or_what_cannot_be_is_refused(delivered: list[int]) -> None:
    with pytest.raises(RemoteProtocolError):
        check(msgspec.structs.replace(GOOD, delivered=delivered), report=[0, 1, 0])


@pytest.mark.parametrize("report", [[0], [0, 0, 0], [4, 0]], ids=str)
def test_a_state_with_deliveries_that_cannot_be_is_refused(report: list[int]) -> None:
    with pytest.raises(RemoteProtocolError):
        plan.check_state(A, msgspec.structs.replace(state(OLD, [A, B], [3, 0]), report=report), [])


# choose_ordering


def test_without_views_the_first_process_decides() -> None:
    states = {B: state(None, [], [], "causal"), A: state(None, [], [], "sequencer")}
    assert plan.choose_ordering(states).order == "sequencer"


def test_a_view_counts_more_than_none() -> None:
    states = {A: state(None, [], [], "causal"), B: state(None, [], [], "causal"), C: state(OLD, [C], [0], "fifo")}
    assert plan.choose_ordering(states).order == "fifo"


def test_the_largest_cohort_decides_then_the_latest_view() -> None:
    large = {A: state(OLD, [A, B], [0, 0], "causal"), B: state(OLD, [A, B], [0, 0], "causal")}
    assert plan.choose_ordering({**large, C: state(NEW, [C], [0], "fifo")}).order == "causal"
    small = {A: state(OLD, [A, B], [0, 0], "causal")}
    assert plan.choose_ordering({**small, C: state(NEW, [C], [0], "fifo")}).order == "fifo"
