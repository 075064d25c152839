"""Dependencies that a cast names: what nobody can have received is refused, since others would wait for it without end."""

from __future__ import annotations

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.protocol.ordering.dependencies import Dependencies

NONSENSE = [[1], [3, 1], [-1, 1], [0, 1], [1, 0], [1, -5], [2, 1, 0, 9]]
"""Stamps of rank 0 in a group of three; the last ones say something true first."""


@pytest.mark.parametrize("stamp", NONSENSE)
def test_nonsense_is_refused(stamp: list[int]) -> None:
    for ask in (Dependencies(1, 3).check, Dependencies(1, 3).missed):
        with pytest.raises(RemoteProtocolError, match=r"depends on cast -?\d+ of rank -?\d+: that cannot be|are not pairs"):
            ask(stamp, 0, 0)


def test_nobody_has_received_more_own_casts_than_were_sent() -> None:
    received = Dependencies(1, 3)
    received.delivered[1] = 4
    assert received.missed([1, 4], 0, 0) == 0
    with pytest.raises(RemoteProtocolError, match="cast 5 of rank 1"):
        received.missed([1, 5], 0, 0)


def test_what_is_still_under_way_is_told_from_what_was_not_known_there() -> None:
    received = Dependencies(1, 3)
    received.delivered[:] = [0, 4, 7]
    assert received.missed([1, 3, 2, 5], 0, 0) == 3
    assert received.missed([1, 3, 2, 8], 0, 0) == -1
    received.check([1, 3, 2, 8], 0, 0)
