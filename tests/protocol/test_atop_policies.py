"""The policies of `atop`, each by itself and under the contract, one written by a user, and one that never leaves off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.ids import name_of
from isotone.model.settings import MS
from isotone.model.view import LEVELS, Level, Ordering
from isotone.protocol.ordering.atop.mechanism import Atop
from isotone.protocol.ordering.atop.policies import (
    Backoff,
    BookKeeper,
    LeastVariance,
    Patterns,
    Static,
    difference,
    fitted,
    parse_patterns,
)
from isotone.protocol.ordering.atop.policy import POLICIES, Group, Policy, register_policy
from isotone.sim import draw
from isotone.sim.judge import judge
from isotone.sim.swarm import CHECKER, find_checker
from tests.contract import test_changes, test_partitions, test_quiet
from tests.contract.cases import Case
from tests.protocol.bag import Bag

MEMBERS = ("a#1", "b#1", "c#1", "d#2")


def group(rank: int = 0, window: int = 5, threshold: int = 200, patterns: str = "", tell: object = None) -> Group:
    return Group(MEMBERS, rank, window, 1, threshold, patterns, tell or (lambda stamp, to: None))  # type: ignore[arg-type]


def feed(policy: Policy, senders: Sequence[int], now: int = 0) -> list[list[int]]:
    """One batch of each sender, each in a turn of its own; every proposal is adopted."""
    proposals = []
    for sender in senders:
        policy.observe(sender, 1, now)
        weights = policy.propose(now)
        if weights is not None:
            proposals.append(list(weights))
            policy.adopted(tuple(weights))
    return proposals


def test_differences_are_thousandths_of_all_slots() -> None:
    assert difference((1, 1), (5, 5)) == 0
    assert difference((1, 1), (3, 1)) == 500
    assert difference((1000, 1, 1), (1, 1, 1000)) == 1994


def test_weights_are_made_to_fit() -> None:
    assert fitted([3, 2, 1]) == [3, 2, 1]
    assert fitted([40_000, 40_000, 4]) == [2047, 2047, 1]


def test_no_policy_never_adapts() -> None:
    assert feed(Static(group()), [2] * 500) == []


def test_the_book_keeper_follows_the_window() -> None:
    """20 batches in the window: 10 of a, 10 of c. Weights are counts plus ε."""
    policy = BookKeeper(group())
    assert feed(policy, [0, 2] * 10) == [[11, 1, 11, 1]]
    assert feed(policy, [0, 2] * 100) == []  # no news
    assert feed(policy, [3] * 20)[-1] == [1, 1, 1, 21]


def test_only_one_keeps_the_books_and_not_before_the_window_is_full() -> None:
    assert feed(BookKeeper(group(rank=1)), [2] * 100) == []
    assert feed(BookKeeper(group()), [2] * 19) == []


def test_the_threshold_keeps_small_changes_out() -> None:
    lopsided = [0, 1, 2, 3, 0] * 40
    assert feed(BookKeeper(group(threshold=400)), lopsided) == []
    assert feed(BookKeeper(group(threshold=50)), lopsided) != []


def test_pauses_make_a_member_count_less_and_less() -> None:
    """d comes and goes. The book-keeper changes the distribution every time, back-off only at first."""
    comes_and_goes = ([0, 1, 2] * 14 + [3] * 10) * 12
    restless, patient = BookKeeper(group()), Backoff(group())
    changes, fewer = feed(restless, comes_and_goes), feed(patient, comes_and_goes)
    assert len(changes) > 20
    assert len(fewer) < len(changes) // 2
    assert patient.pauses[3] == Backoff.MOST
    assert max(weights[3] for weights in changes) > 8
    assert feed(patient, comes_and_goes) == []  # it has settled


def test_who_keeps_on_for_long_counts_again() -> None:
    policy = Backoff(group())
    feed(policy, ([0, 1, 2] * 14 + [3] * 10) * 3)
    assert policy.pauses[3] > 0
    feed(policy, [0, 1, 2, 3] * 400)
    assert policy.pauses == [0, 0, 0, 0]
    assert difference(policy.weigh(), (1, 1, 1, 1)) < 100


def test_a_declared_pattern_is_recognised_in_half_a_window() -> None:
    policy = Patterns(group(patterns="a:8 b:4; d:12"))
    assert feed(policy, [3] * 10) == [[1, 1, 1, 12]]
    assert feed(policy, [0, 0, 1] * 5)[-1] == [8, 4, 1, 1]
    assert feed(policy, [0, 1, 2, 3] * 8)[-1] == [1, 1, 1, 1]  # equal weights are always a pattern


def test_patterns_go_by_name_not_by_incarnation() -> None:
    assert Patterns(group(patterns="d:7")).patterns == [(1, 1, 1, 1), (1, 1, 1, 7)]
    assert parse_patterns(" a:2  b:3 ;; c:1; ") == [{"a": 2, "b": 3}, {"c": 1}]


def test_the_member_with_the_steadiest_round_trips_keeps_the_books() -> None:
    """Trips between a and others take 4 or 40 ms in turn, those between c and d 30 or 50, the rest of b's always 40."""
    now = 0
    queue: list[tuple[int, int, int, list[int]]] = []  # arrival, from, to, stamp

    def delay(one: int, two: int) -> int:
        odd = now // (50 * MS) % 2
        if 0 in (one, two):
            return (20 if odd else 2) * MS
        if {one, two} == {2, 3}:
            return (25 if odd else 15) * MS
        return 20 * MS

    def teller(rank: int) -> object:
        def tell(stamp: list[int], to: int | None) -> None:
            for other in range(4) if to is None else [to]:
                if other != rank:
                    queue.append((now + delay(rank, other), rank, other, stamp))

        return tell

    policies = [LeastVariance(group(rank, tell=teller(rank))) for rank in range(4)]
    assert [policy.keeps() for policy in policies] == [True, False, False, False]  # as long as nobody knows
    proposals: list[int] = []
    for step in range(4000):
        now = step * MS
        for entry in sorted(entry for entry in queue if entry[0] <= now):
            queue.remove(entry)
            policies[entry[2]].heard(entry[1], entry[3], now)
        if step % 5 == 0:
            for rank, policy in enumerate(policies):
                policy.observe(3 if step < 2000 else 2, 1, now)
                if policy.propose(now) is not None:
                    proposals.append(rank)
                    for other in policies:
                        other.adopted(tuple(fitted(other.weigh())))
    assert [policy.keeps() for policy in policies] == [False, True, False, False]
    assert proposals[-1] == 1


def test_there_are_no_pings_without_traffic() -> None:
    told: list[list[int]] = []
    policy = LeastVariance(group(tell=lambda stamp, to: told.append(stamp)))
    for step in range(10):
        policy.observe(0, 1, step * MS)
        policy.propose(step * MS)
    assert len(told) == 1
    assert not hasattr(policy, "deadline")  # a policy has no clock of its own


@pytest.mark.parametrize("stamp", [[], [0], [0, 1, -1], [0, 1, 2, 3], [1], [1, 5], [1, -1], [2, 0, 0]])
def test_malformed_round_trips_are_refused(stamp: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed round trip"):
        LeastVariance(group()).heard(1, stamp, 4)


# Under the contract, with distributions that change all the time

EAGER = {"window": 1, "threshold": 0}


def case(policy: str, level: Level, slots: str = "even") -> Case:
    options = {"slots": slots, "policy": policy, **EAGER}
    if policy == "patterns":
        options["patterns"] = "a:5 b:2; c:9"
    return Case("atop", level, tuple(options.items()))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("policy", sorted({"none", "bookkeeper", "backoff", "patterns", "least_variance"}))
def test_the_contract_holds_with_every_policy(policy: str, level: Level) -> None:
    asked = case(policy, level)
    test_quiet.test_everyone_delivers_everything(asked)
    test_quiet.test_everyone_delivers_everything_over_a_network_that_loses_repeats_and_reorders(asked)
    test_changes.test_survivors_of_a_crash_agree(asked, 0)
    test_changes.test_a_leave_under_traffic_loses_nothing(asked, 0)
    test_partitions.test_components_go_on_and_merge(asked, test_partitions.TWO)
    test_partitions.test_a_merge_is_interrupted(asked)


# Written by a user


class Favour(Policy):
    """The members named in the pattern get ten times as much as the others, from the first message on."""

    name = "favour"

    @classmethod
    def check_patterns(cls, patterns: str) -> None:
        if not patterns:
            raise ConfigError("policy 'favour' needs names in the option patterns")

    def propose(self, now: int) -> Sequence[int] | None:
        names = self.group.patterns.split()
        wanted = tuple(10 if name_of(member) in names else 1 for member in self.group.members)
        return wanted if self.group.rank == 0 and wanted != self.current else None


class Restless(Policy):
    """Every member injects something else at the end of every turn."""

    name = "restless"

    def propose(self, now: int) -> Sequence[int] | None:
        return [1 + (weight + member * self.group.rank + 3) % 7 for member, weight in enumerate(self.current)]


class Wrong(Policy):
    """Gives somebody no slots at all."""

    name = "wrong"

    def propose(self, now: int) -> Sequence[int] | None:
        return [0] * self.count


for own in (Favour, Restless, Wrong):
    register_policy(own)


def test_a_user_can_write_a_policy() -> None:
    bag = Bag(3, Ordering("atop", options={"policy": "favour", "patterns": "b"}))
    assert bag.settle()
    bag.submit("c#1", 2)
    assert bag.settle()
    for endpoint in bag.live.values():
        orderer = endpoint.epoch.orderer
        assert isinstance(orderer, Atop)
        assert orderer.sending.weights == (1, 10, 1)
    bag.submit("b#1", 2)
    assert bag.settle()
    assert bag.report().verdict == "ok"
    assert {"favour", "bookkeeper"} <= set(POLICIES.names())


def test_the_policy_of_the_documentation_works() -> None:
    """Whoever sends gets most slots; the trace names what is said about it."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "protocols" / "atop.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(code) == 1
    exec(code[0], {"__name__": "documentation"})
    bag = Bag(3, Ordering("atop", options={"policy": "loudest"}))
    assert bag.settle()
    for sender, expected in (("c#1", (1, 1, 8)), ("b#1", (1, 8, 1))):
        bag.submit(sender, 2)
        assert bag.settle()
        assert {endpoint.epoch.orderer.sending.weights for endpoint in bag.live.values()} == {expected}
    packets = {row["packet"] for recorder in bag.recorders.values() for row in recorder.rows() if row["kind"] == "packet"}
    assert {"skip", "dummy"} <= packets
    assert bag.report().verdict == "ok"


def test_two_policies_cannot_have_one_name() -> None:
    class Other(Policy):
        name = "favour"

    with pytest.raises(ConfigError, match="registered already"):
        register_policy(Other)


def test_a_policy_that_proposes_nonsense_is_named() -> None:
    bag = Bag(2, Ordering("atop", options={"policy": "wrong"}))
    assert bag.settle()
    with pytest.raises(ConfigError, match="policy 'wrong' proposes a weight of 0"):
        bag.submit("a#1", 1)


@pytest.mark.parametrize("slots", ["even", "random"])
def test_safety_does_not_depend_on_the_policy(slots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storms of faults under a policy with which every member injects a distribution in every turn."""
    monkeypatch.setattr(draw, "_atop", lambda rng: {"slots": slots, "policy": "restless"})
    check = find_checker(CHECKER)
    for seed in (1, 2):
        verdict, result = judge(seed, ["atop"], check)
        assert verdict.failures == []
        assert result is not None
    assert test_quiet.test_everyone_delivers_everything(case("restless", "agreed", slots)) is None
