"""The containment of the classes of paper 002 on all histories of a larger bound."""

import pytest

from isotone.pipeline.schedulers.containment import count
from isotone.pipeline.schedulers.page import BOUNDS, inside

pytestmark = pytest.mark.long


def test_four_messages_at_three_sites_say_the_same() -> None:
    found = count(4, 3)
    assert found.histories > 300_000
    assert inside([found]) == inside([count(*bound) for bound in BOUNDS])
