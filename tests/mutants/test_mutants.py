"""Every deliberate fault is caught, within a bounded number of swarm seeds, by a check that it should trip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isotone.model.errors import RemoteProtocolError
from isotone.model.settings import MembershipKind
from isotone.model.view import Ordering
from isotone.pipeline.oracle import check_history
from isotone.sim.judge import Verdict, judge
from isotone.sim.swarm import CHECKER, find_checker
from tests.mutants.atop import ATOP_MUTANTS
from tests.mutants.baselines import BASELINES
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.primary_mutants import CUT_OFF_MUTANTS, PRIMARY_MUTANTS
from tests.mutants.semantic_total import SEMANTIC_TOTAL_MUTANTS
from tests.mutants.switching import DIRECTED_SWITCHING_MUTANTS, STORM_MUTANTS, SWITCHING_MUTANTS
from tests.mutants.token import TOKEN_MUTANTS
from tests.mutants.weak import WEAK_MUTANTS
from tests.protocol.bag import Bag
from tests.protocol.primary_bag import proposer_cut_off_when_it_decides
from tests.protocol.switch_storm import storm

SEEDS = 200


def tripped(verdict: Verdict) -> set[str]:
    """The names before the colon of what failed."""
    return {failure.partition(":")[0].split(" ")[0] for failure in verdict.failures}


EVERY = [*MUTANTS, *BASELINES, *ATOP_MUTANTS, *TOKEN_MUTANTS, *SEMANTIC_TOTAL_MUTANTS, *WEAK_MUTANTS]


@pytest.mark.parametrize("mutant", EVERY, ids=str)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _catch(mutant, monkeypatch, "partitionable")


@pytest.mark.parametrize("mutant", PRIMARY_MUTANTS, ids=str)
def test_a_mutant_of_primary_membership_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _catch(mutant, monkeypatch, "primary")


@pytest.mark.parametrize("mutant", SWITCHING_MUTANTS, ids=str)
def test_a_mutant_of_switching_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    _catch(mutant, monkeypatch, "partitionable", switches=True)


@pytest.mark.parametrize(
    ("mutant", "schedule"), DIRECTED_SWITCHING_MUTANTS, ids=[str(mutant) for mutant, _ in DIRECTED_SWITCHING_MUTANTS]
)
def test_a_schedule_shows_a_mutant_of_switching(
    mutant: Mutant, schedule: Callable[[], Bag], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not schedule().report().violated()
    mutant.break_it(monkeypatch)
    try:
        seen = set(schedule().report().violated())
    except RemoteProtocolError:
        seen = {"refused"}
    assert seen & set(mutant.trips), seen


@pytest.mark.parametrize("mutant", STORM_MUTANTS, ids=str)
def test_a_storm_shows_a_mutant_of_switching(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    seen: set[str] = set()
    for seed in range(mutant.first, mutant.first + SEEDS):
        seen |= set(storm(seed).report().violated())
        if seen & set(mutant.trips):
            return
    raise AssertionError(f"{mutant}: {seen}")


def _catch(mutant: Mutant, monkeypatch: pytest.MonkeyPatch, membership: MembershipKind, switches: bool = False) -> None:
    check = find_checker(CHECKER)
    mutant.break_it(monkeypatch)
    seen: set[str] = set()
    for seed in range(mutant.first, mutant.first + SEEDS):
        verdict, _ = judge(seed, list(mutant.orders), check, membership=membership, switches=switches)
        seen |= tripped(verdict)
        if seen & set(mutant.trips):
            return
    pytest.fail(f"{mutant.name} survives {SEEDS} seeds; what tripped was {sorted(seen) or 'nothing'}")


def test_a_reused_incarnation_is_caught() -> None:
    """A process that restarts under its old id numbers its messages from 1 again."""
    bag = Bag(3, Ordering("fifo"))
    assert bag.settle()
    bag.submit("c#1", 2)
    assert bag.settle()
    rows = list(bag.recorders["c#1"].rows())
    bag.crash("c#1")
    bag.packets.clear()
    assert bag.settle()
    bag.incarnations["c"] = 0
    bag.begin("c")
    assert bag.settle()
    bag.submit("c#1", 1)
    assert bag.settle()
    rows += [row | {"step": row["step"] + len(rows)} for row in bag.recorders["c#1"].rows()]
    for process in ("a#1", "b#1"):
        rows += bag.recorders[process].rows()
    report = check_history(rows)
    assert set(report.violated()) & {"integrity", "duplication"}, report.violated()


@pytest.mark.parametrize("mutant", CUT_OFF_MUTANTS, ids=str)
def test_a_proposer_that_is_cut_off_shows_it(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too rare an instant for the swarm: the proposer has decided, and nobody hears of it."""
    assert proposer_cut_off_when_it_decides(Ordering("fifo")).broken_chain() == []
    mutant.break_it(monkeypatch)
    try:
        broken = proposer_cut_off_when_it_decides(Ordering("fifo")).broken_chain()
    except RemoteProtocolError as error:
        broken = [f"chain: {error}"]
    assert any(text.startswith(mutant.trips) for text in broken), broken
