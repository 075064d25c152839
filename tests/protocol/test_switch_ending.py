"""How components end a view in the middle of a switch: no two of them contradict each other, whatever each has heard."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from isotone.protocol.switching.ending import Ending, decide, quorum


def subsets(count: int) -> list[frozenset[int]]:
    """All components that a view of so many members can have."""
    return [frozenset(chosen) for size in range(1, count + 1) for chosen in combinations(range(count), size)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_cut_and_stay_never_meet(count: int) -> None:
    """Everybody has said nothing (0), what makes it willing (1), or what binds it (2); a component has heard all
    that its own members said and any part of what others said."""
    for said in product((0, 1, 2), repeat=count):
        if 2 in said and 0 in said:
            continue  # nobody is bound before all are willing
        endings = set()
        for present in subsets(count):
            choices = [(said[rank],) if rank in present else range(said[rank] + 1) for rank in range(count)]
            for heard in product(*choices):
                willing = frozenset(rank for rank in range(count) if heard[rank] >= 1)
                bound = frozenset(rank for rank in range(count) if heard[rank] == 2)
                endings.add(decide(count, present, willing, bound, False))
        assert not {Ending.CUT, Ending.STAY} <= endings, said
        if set(said) == {2}:  # somebody may have passed the cut before the view ended
            assert Ending.STAY not in endings


@pytest.mark.parametrize("count", range(1, 8))
def test_two_quorums_have_a_member_in_common(count: int) -> None:
    quorums = [ranks for ranks in subsets(count) if quorum(ranks, count)]
    assert all(one & other for one, other in product(quorums, quorums))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_all_together_are_never_unsure(count: int) -> None:
    """A join or a leave parts nobody: nothing goes back."""
    everybody = frozenset(range(count))
    for said in product((0, 1, 2), repeat=count):
        if 2 in said and 0 in said:
            continue
        willing = frozenset(rank for rank in everybody if said[rank] >= 1)
        bound = frozenset(rank for rank in everybody if said[rank] == 2)
        ending = decide(count, everybody, willing, bound, False)
        assert ending is not Ending.UNSURE or bound, said
