"""What takes a minute or more: `make test-long` runs it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from isotone.runtime.bench import run_slow_consumer
from tests.protocol.test_endpoint_machine import Machine

pytestmark = pytest.mark.long


@pytest.mark.live
@pytest.mark.parametrize("size", [50, 1024])
def test_memory_stays_flat_for_a_minute_with_a_slow_consumer(size: int) -> None:
    result = run_slow_consumer(5, size, seconds=60.0)
    assert result["view_members"] == [5] * 5
    assert all(taken > 0 for taken in result["taken"])
    assert result["max_growth_mib"] < 20


def test_many_schedules_of_endpoints() -> None:
    run_state_machine_as_test(Machine, settings=settings(Machine.TestCase.settings, max_examples=3000))
