"""Hypothesis drives a handful of endpoints through schedules that no network would produce, then asks the oracle."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from isotone.model.settings import MS
from isotone.model.view import Level, Ordering
from tests.protocol.bag import Bag

ORDERINGS: list[tuple[str, dict[str, int | str | bool]]] = [
    ("fifo", {}),
    ("causal", {}),
    ("sequencer", {}),
    ("single_phase", {}),
    ("single_phase", {"protocol": 1, "sites": "dynamic"}),
]
LEVELS: list[Level] = ["agreed", "safe"]


class Machine(RuleBasedStateMachine):
    """Submit, deliver in any order, drop, repeat, cut, crash, restart, leave, let time pass."""

    bag: Bag

    @initialize(
        count=st.integers(2, 4),
        which=st.sampled_from(ORDERINGS),
        level=st.sampled_from(LEVELS),
        settled=st.booleans(),
    )
    def begin(self, count: int, which: tuple[str, dict[str, int | str | bool]], level: Level, settled: bool) -> None:
        order, options = which
        self.bag = Bag(count, Ordering(order, level, options=options))
        if settled:
            assert self.bag.settle()

    @rule(process=st.integers(0, 7), count=st.integers(1, 3))
    @precondition(lambda self: self.bag.live)
    def submit(self, process: int, count: int) -> None:
        names = sorted(name for name, endpoint in self.bag.live.items() if not endpoint.membership.rounds.leaving)
        names = [name for name in names if not self.bag.live[name]._leave_wanted]
        if names:
            self.bag.submit(names[process % len(names)], count)

    @rule(index=st.integers(0, 10_000))
    @precondition(lambda self: self.bag.packets)
    def deliver(self, index: int) -> None:
        self.bag.deliver(index % len(self.bag.packets))

    @rule(count=st.integers(1, 30))
    def deliver_some(self, count: int) -> None:
        for _ in range(min(count, len(self.bag.packets))):
            self.bag.deliver(0)

    @rule(index=st.integers(0, 10_000))
    @precondition(lambda self: self.bag.packets)
    def repeat(self, index: int) -> None:
        self.bag.deliver(index % len(self.bag.packets), keep=True)

    @rule(index=st.integers(0, 10_000), count=st.integers(1, 5))
    @precondition(lambda self: self.bag.packets)
    def drop(self, index: int, count: int) -> None:
        start = index % len(self.bag.packets)
        del self.bag.packets[start : start + count]

    @rule(step=st.sampled_from([1, 5, 20, 35, 80, 200, 400]))
    def pass_time(self, step: int) -> None:
        self.bag.advance(step * MS)

    @rule(step=st.sampled_from([20, 80, 200]), times=st.integers(1, 4))
    def run(self, step: int, times: int) -> None:
        for _ in range(times):
            while self.bag.packets:
                self.bag.deliver(0)
            self.bag.advance(step * MS // 4)

    @rule(source=st.integers(0, 7), to=st.integers(0, 7), both=st.booleans())
    @precondition(lambda self: len(self.bag.live) > 1)
    def cut(self, source: int, to: int, both: bool) -> None:
        names = sorted(self.bag.live)
        pair = (names[source % len(names)], names[to % len(names)])
        self.bag.cut.add(pair)
        if both:
            self.bag.cut.add(pair[::-1])

    @rule()
    def heal(self) -> None:
        self.bag.cut.clear()

    @rule(process=st.integers(0, 7), again=st.booleans())
    @precondition(lambda self: len(self.bag.live) > 1)
    def crash(self, process: int, again: bool) -> None:
        names = sorted(self.bag.live)
        name = names[process % len(names)]
        self.bag.crash(name)
        if again and max(self.bag.incarnations.values()) < 4:
            self.bag.begin(name.partition("#")[0])

    @rule(process=st.integers(0, 7))
    @precondition(lambda self: len(self.bag.live) > 2)
    def leave(self, process: int) -> None:
        names = sorted(self.bag.live)
        endpoint = self.bag.live[names[process % len(names)]]
        endpoint.leave(self.bag.now)
        self.bag.collect(endpoint)

    def teardown(self) -> None:
        if not hasattr(self, "bag"):
            return
        settled = self.bag.settle()
        report = self.bag.report()
        assert report.verdict != "violated", [check for check in report.checks if check.verdict == "violated"]
        assert settled, {name: endpoint.status() for name, endpoint in self.bag.live.items()}


Machine.TestCase.settings = settings(
    max_examples=int(os.environ.get("ISOTONE_EXAMPLES", "60")),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink),
    print_blob=True,
)
TestEndpoints = Machine.TestCase
