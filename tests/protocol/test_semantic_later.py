"""What appears for the first time is numbered and counted later, many at once: nobody can tell the difference."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.protocol.semantic import leads
from isotone.protocol.semantic.leads import Leader, Numbers
from isotone.protocol.semantic.shapes import Shape, Shapes

BY_ITEM = Conflicts.by_item()


def item(shapes: Shapes, *names: str) -> Shape:
    return shapes.of(1, None, Column([names]))


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["later", "see", "ask"])), max_size=600))
def test_numbers_are_the_same_whenever_they_are_given(steps: list[tuple[int, str]]) -> None:
    one, other = Shapes(BY_ITEM), Shapes(BY_ITEM)
    late, soon = Numbers(3), Numbers(3)
    kept = [(item(one, str(name)), item(other, str(name))) for name in range(401)]
    for name, step in steps:
        mine, theirs = kept[name]
        if step == "ask":
            assert late.number(mine) == soon.number(theirs)
            continue
        if step == "see" or not late.later(mine):
            late.see(mine)
        soon.see(theirs)
    assert [late.number(mine) for mine, _ in kept] == [soon.number(theirs) for _, theirs in kept]
    assert (late.newest, late.forgotten) == (soon.newest, soon.forgotten)
    for number in range(late.newest + 2):
        found, expected = late.shape(number), soon.shape(number)
        assert (found and found.descriptions) == (expected and expected.descriptions)


def promises(seed: int) -> list[object]:
    """All that the promises of a member say, and all that is asked of them, in a run at random."""
    rng = Random(seed)
    items, own = rng.choice([3, 30, 3000]), rng.choice([0.1, 0.3, 0.6])
    shapes = Shapes(BY_ITEM)
    appeared = [Numbers(site) for site in range(3)]
    leader = Leader(shapes, rng.choice([1, 3, 9]), appeared, 0)
    said: list[object] = []
    ts = 0
    for _ in range(1_500):
        names = {str(rng.randrange(items)) for _ in range(rng.choice([1, 1, 1, 1, 2]))}
        shape = item(shapes, *sorted(names))
        if rng.random() < own:
            ts = leader.stamp(shape, ts + 1)
            said.append(ts)
            sender = 0
        else:
            ts += 1
            sender = rng.choice([1, 2])
            said.append(leader.covers(shape, ts, sender))
        if leader.truce.names or not appeared[sender].later(shape):
            appeared[sender].see(shape)
        if leader.due(ts):
            said.append(leader.announce(ts))
        elif leader.truce_due(ts):
            said.append(leader.announce_truce(ts))
        leader.stirred = False
    return said


@pytest.mark.parametrize("seed", range(60))
def test_promises_are_the_same_whenever_uses_are_counted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    late = promises(seed)
    monkeypatch.setattr(leads, "LATER_MAX", 0)
    assert late == promises(seed)


def test_there_are_promises_in_these_runs() -> None:
    runs = [promises(seed) for seed in range(60)]
    assert sum(isinstance(one, list) for run in runs for one in run) > 500
    assert sum(one is True for run in runs for one in run) > 5_000


def test_an_item_that_somebody_remembers_has_one_shape() -> None:
    shapes = Shapes(BY_ITEM)
    kept, known = item(shapes, "kept"), item(shapes, "two", "items")
    for number in range(5_000):
        item(shapes, str(number))
    assert item(shapes, "kept") is kept
    assert item(shapes, "two", "items") is known
    assert item(shapes, "4999") is item(shapes, "4999")
