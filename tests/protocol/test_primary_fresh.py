"""Which views a process without a view enters: none that could contradict a later round that it was ready for."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import INITIAL_VIEW, ViewId
from isotone.model.records import Cohort, Decision, Loose, Packet, Plan, Propose, Vote
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering, View
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.membership.consensus import DECIDE

A, B, C = "a#1", "b#1", "c#1"
EARLY, LATE = ViewId(5, A), ViewId(9, B)


def tell(endpoint: Endpoint, peer: str, *records: Loose) -> None:
    endpoint.receive(peer, Packet(0, "", 0, 0, [], list(records)), 0)
    endpoint.collect(0)


def decision(view: ViewId, first: bool) -> Vote:
    members = (A, B, C)
    cohort = None if first else Cohort(ViewId(2, A), [A, B], [A, B], [0, 0], [], [])
    previous = INITIAL_VIEW if cohort is None else cohort.view
    return Vote(previous, DECIDE, 0, -1, Decision(previous, View(view, members, Ordering()), ["", "", ""], cohort, [], []))


@pytest.fixture
def fresh() -> Endpoint:
    """c, which was ready for the round 9@b of a, b and itself."""
    endpoint = Endpoint(EndpointConfig(C, "c", membership="primary", founders=("a", "b", "c")))
    endpoint.start(0)
    tell(endpoint, B, Propose(LATE, [A, B, C], ["a", "b", "c"]), Plan(LATE, []))
    return endpoint


def test_a_view_below_the_round_is_not_entered_and_that_of_the_round_is(fresh: Endpoint) -> None:
    tell(fresh, A, decision(EARLY, first=False))
    assert fresh.view is None
    tell(fresh, A, decision(LATE, first=False))
    assert fresh.view is not None
    assert fresh.view.id == LATE


def test_a_first_view_is_entered_if_a_participant_of_the_round_is_in_it(fresh: Endpoint) -> None:
    """a is in the earlier view, so it cannot have been ready for the later round, which will not complete."""
    tell(fresh, A, decision(EARLY, first=True))
    assert fresh.view is not None
    assert fresh.view.id == EARLY


def test_a_first_view_is_not_entered_on_the_word_of_one_that_has_been_replaced(fresh: Endpoint) -> None:
    tell(fresh, B, Propose(ViewId(11, B), ["a#2", B, C], ["a", "b", "c"]), Plan(ViewId(11, B), []))
    tell(fresh, A, decision(EARLY, first=True))  # under way since before a restarted
    assert fresh.view is None


def test_a_decision_that_speaks_of_the_deliveries_of_other_members_is_refused(fresh: Endpoint) -> None:
    tell(fresh, A, decision(LATE, first=False))
    cohort = Cohort(LATE, [A, B, C], [A, B, C], [0, 0, 0], [], [], delivered=[0])
    value = Decision(LATE, View(ViewId(12, A), (A, B, C), Ordering()), ["", "", ""], cohort, [], [])
    with pytest.raises(RemoteProtocolError, match="does not follow view"):
        tell(fresh, A, Vote(LATE, DECIDE, 0, -1, value))
