"""External members of a token, served by others or given up, in the middle of a switch."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast
from isotone.model.settings import MS
from isotone.model.view import Ordering
from isotone.protocol.switching.channel import BITS
from tests.protocol.bag import Bag
from tests.protocol.external_storm import Storm

GIVEN_UP = "records of the next orderer reached a member that was given up, without the casts before them"
TOO_SOON = "the storm was judged before an external member had fetched what it lacked"
FOUND = {523: GIVEN_UP, 745: GIVEN_UP, 1682: GIVEN_UP, 2138: GIVEN_UP, 2389: GIVEN_UP, 2393: GIVEN_UP, 12985: TOO_SOON}


def passes(seed: int) -> None:
    assert not Storm(seed).run().report().violated(), f"tests.protocol.external_storm.Storm({seed}).run()"


@pytest.mark.parametrize("first", range(1, 241, 40))
def test_a_storm_breaks_nothing(first: int) -> None:
    for seed in range(first, first + 40):
        passes(seed)


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_a_storm_that_found_something_passes(seed: int) -> None:
    passes(seed)


@pytest.mark.long
def test_many_storms_break_nothing() -> None:
    for seed in range(10_000, 20_000):
        passes(seed)


def test_what_was_fetched_and_is_refused_when_the_view_ends_is_left_out() -> None:
    """A member that breaks its stream must not break the end of the view for those who fetched it."""
    bag = Bag(3, Ordering("token", "k", 2))
    assert bag.settle()
    bag.run(60 * MS)
    lanes = bag.live["a#1"].epoch.begin_switching().lanes
    lanes.start(1, Ordering("single_phase"), bag.now)
    held = bag.live["a#1"].epoch.held[1]
    kind = 1 << BITS
    for seq, stamp in ((held + 1, [5]), (held + 2, [4]), (held + 3, [6])):
        assert lanes.postpone(1, Cast(seq, kind, stamp, seq, [b"x"]))
    lanes.all_arrived(bag.now)
    assert "do not increase" in lanes.broken[1]
    assert lanes.of[1].lcv[1] == 5
    lanes.all_arrived(bag.now)
    with pytest.raises(RemoteProtocolError, match="do not increase"):
        lanes.accept(1, [Cast(held + 4, kind, [7], held + 4, [b"x"])], bag.now)
