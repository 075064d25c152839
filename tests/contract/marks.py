"""Which cases a test is asked of, and a settled group to begin with."""

from __future__ import annotations

import pytest

from isotone.model.settings import MS, Limits
from tests.contract.cases import ABOVE_AGREED, BY_REPORTS, CASES, EVERY_ORDER, EXTRINSIC_SAFE, SAFE, SAFE_BY_REPORTS, Case
from tests.contract.watch import Watch
from tests.protocol.bag import LIMITS

A, B, C, D, E = "a#1", "b#1", "c#1", "d#1", "e#1"

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_order = pytest.mark.parametrize("case", EVERY_ORDER, ids=str)
above_agreed = pytest.mark.parametrize("case", ABOVE_AGREED, ids=str)
by_reports = pytest.mark.parametrize("case", BY_REPORTS, ids=str)
safe = pytest.mark.parametrize("case", SAFE, ids=str)
safe_by_reports = pytest.mark.parametrize("case", SAFE_BY_REPORTS, ids=str)
extrinsic_safe = pytest.mark.parametrize("case", EXTRINSIC_SAFE, ids=str)


def group(case: Case, count: int = 3, limits: Limits = LIMITS) -> Watch:
    """A settled group, long enough after its last view that nothing holds the next change back."""
    watch = Watch(count, case, limits, case.first)
    assert watch.settle()
    watch.run(100 * MS)
    if case.begins:
        first = min(watch.live)
        watch.live[first].switch(case.switch, watch.now)
        watch.collect(watch.live[first])
        assert watch.settle()
        assert all(endpoint.view.ordering == case.ordering for endpoint in watch.live.values())
        watch.ordering = case.ordering
        watch.run(100 * MS)
    return watch
