"""Partitions and merges: every component goes on by itself, they meet again, and nobody contradicts anybody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isotone.model.settings import MS, SECOND
from tests.contract.cases import Case
from tests.contract.marks import A, B, C, D, E, every_case, every_order, group
from tests.contract.watch import Watch

TWO = ("ab", "cde")
THREE = ("ab", "cd", "e")


def members(component: str) -> tuple[str, ...]:
    return tuple(f"{name}#1" for name in component)


def separated(watch: Watch, components: Sequence[str]) -> bool:
    """Whether each component has its own view."""
    return all(watch.live[process].view.members == members(c) for c in components for process in members(c))


@every_case
@pytest.mark.parametrize("components", [TWO, THREE], ids="/".join)
def test_components_go_on_and_merge(case: Case, components: Sequence[str]) -> None:
    """Traffic before, at, during and after the partition."""
    watch = group(case, 5)
    watch.traffic()
    watch.split(*components)
    watch.traffic(rounds=2)
    assert watch.run(2 * SECOND, until=lambda: separated(watch, components))
    apart = {process: watch.live[process].view.id for process in watch.live}
    watch.run(20 * MS)
    before = dict(watch.sent)
    watch.traffic()
    watch.run(50 * MS)
    for component in components:
        for receiver in members(component):
            told = {told.id for told in watch.told(receiver, apart[receiver])}
            assert told >= {(p, n) for p in members(component) for n in range(before[p] + 1, watch.sent[p] + 1)}
            assert {origin for origin, _ in told} <= set(members(component))
    assert watch.settle()
    after = dict(watch.sent)
    watch.traffic()
    assert watch.settle()
    for component in components:
        watch.check(*members(component))
    for receiver in (A, B, C, D, E):
        told = {told.id for told in watch.told(receiver)}
        assert told >= {(p, n) for p in (A, B, C, D, E) for n in range(after[p] + 1, watch.sent[p] + 1)}
    assert watch.live[A].view.members == (A, B, C, D, E)


@every_case
def test_a_partition_that_heals_before_anybody_noticed_changes_nothing(case: Case) -> None:
    watch = group(case, 5)
    view = watch.live[A].view.id
    watch.split(*TWO)
    watch.traffic()
    watch.run(watch.timing.soft_ns)
    assert watch.settle()
    watch.check(A, B, C, D, E)
    assert {endpoint.view.id for endpoint in watch.live.values()} == {view}
    assert {len(watch.told(process)) for process in watch.live} == {sum(watch.sent.values())}


@every_case
def test_a_partition_that_moves(case: Case) -> None:
    """ab/cde becomes abc/de without ever healing as a whole; c carries nothing of one component into the other."""
    watch = group(case, 5)
    watch.traffic()
    for components in (TWO, ("abc", "de")):
        watch.cut.clear()
        watch.split(*components)
        watch.traffic(rounds=2)
        assert watch.run(4 * SECOND, until=lambda c=components: separated(watch, c))
        watch.traffic(rounds=2)
    assert watch.settle()
    watch.check(A, B)
    watch.check(D, E)


@every_case
def test_a_merge_is_interrupted(case: Case) -> None:
    """The components have met and are flushing when they are separated again."""
    watch = group(case, 4)
    watch.split("ab", "cd")
    assert watch.run(2 * SECOND, until=lambda: separated(watch, ("ab", "cd")))
    watch.traffic()
    watch.cut.clear()
    assert watch.run(2 * SECOND, until=lambda: any(endpoint.epoch.frozen for endpoint in watch.live.values()))
    watch.split("ab", "cd")
    watch.traffic(rounds=2)
    watch.run(SECOND // 2)
    watch.traffic(rounds=2)
    assert watch.settle()
    watch.check()
    assert watch.live[A].view.members == (A, B, C, D)


@every_case
def test_one_way_only(case: Case) -> None:
    """c hears a, a does not hear c: they part, and meet again when the network is whole."""
    watch = group(case)
    watch.traffic()
    watch.cut.add((C, A))
    watch.traffic(rounds=2)
    assert watch.run(2 * SECOND, until=lambda: C not in watch.live[A].view.members)
    watch.traffic(rounds=2)
    watch.run(SECOND // 2)
    assert watch.settle()
    watch.check()
    assert watch.live[A].view.members == (A, B, C)


def break_connection(watch: Watch, one: str, other: str) -> None:
    """Both ends hear that the way is gone; what was under way is lost, and nothing passes."""
    for pair in ((one, other), (other, one)):
        watch.disconnect(*pair)
        watch.cut.add(pair)


@every_order
def test_a_broken_connection_that_comes_back_costs_no_view_and_no_wait(case: Case) -> None:
    """What was lost with the connection goes out at once on the new one, not when a timer remembers it."""
    watch = group(case)
    view = watch.live[A].view.id
    for process in (A, B, C):
        watch.submit(process, 2)
    break_connection(watch, A, B)
    watch.run(20 * MS)
    assert len(watch.told(A)) < 6
    watch.cut.clear()
    for pair in ((A, B), (B, A)):
        watch.connect(*pair)
    watch.run(5 * MS)
    assert {len(watch.told(process)) for process in (A, B, C)} == {6}
    assert watch.settle()
    watch.check(A, B, C)
    assert watch.live[A].view.id == view


@every_order
def test_a_closed_connection_shortens_the_patience(case: Case) -> None:
    """c crashes. Where its connections close, it is left out long before silence alone would show it."""
    took = []
    for closes in (True, False):
        watch = group(case)
        began = watch.now
        watch.crash(C)
        if closes:
            for process in (A, B):
                watch.disconnect(process, C)
        assert watch.run(SECOND, until=lambda: all(len(endpoint.view) == 2 for endpoint in watch.live.values()))  # noqa: B023
        took.append(watch.now - began)
    assert took[0] < watch.timing.closed_ns + 3 * watch.timing.heartbeat_ns
    assert took[1] >= watch.timing.hard_ns - watch.timing.heartbeat_ns
