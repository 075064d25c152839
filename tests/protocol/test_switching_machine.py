"""Hypothesis drives endpoints that are asked to switch at any moment through the schedules of `test_endpoint_machine`."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from isotone.model.settings import Limits
from isotone.model.switch import RULES, STRATEGIES, Rule, Strategy, Switch
from isotone.model.view import LEVELS, Level, Ordering
from isotone.protocol.ordering import registry
from tests.protocol.bag import LIMITS, Bag
from tests.protocol.test_endpoint_machine import PROCESS, TINY, Machine

ORDERS = registry.names()


class SwitchingMachine(Machine):
    """All that a machine does, among all orders, with requests for others."""

    @initialize(
        count=st.integers(2, 5),
        order=st.sampled_from(ORDERS),
        level=st.sampled_from(LEVELS),
        limits=st.sampled_from([LIMITS, TINY]),
        settled=st.booleans(),
    )
    def begin(self, count: int, order: str, level: Level, limits: Limits, settled: bool) -> None:
        self.bag = Bag(count, Ordering(order, level, 2 if level == "k" else 1), limits=limits)
        self.lagging: set[str] = set()
        if settled:
            assert self.bag.settle()

    @rule(
        process=PROCESS,
        order=st.sampled_from(ORDERS),
        level=st.sampled_from(LEVELS),
        strategy=st.sampled_from(STRATEGIES),
        rule=st.sampled_from(RULES),
        fresh=st.booleans(),
        delivered=st.integers(0, 20),
    )
    @precondition(lambda self: self.bag.live)
    def switch(self, process: int, order: str, level: Level, strategy: Strategy, rule: Rule, fresh: bool, delivered: int) -> None:
        """A process asks, and the network brings some packets at once, so that most requests get somewhere."""
        name = self.pick(process)
        endpoint = self.bag.live[name]
        if name in self.bag.asleep or endpoint._leave_wanted or endpoint._wanted is not None:
            return
        if not registry.find(order).total:
            strategy = "stop"
        endpoint.switch(Switch(Ordering(order, level, 2 if level == "k" else 1), strategy, rule, fresh), self.bag.now)
        self.bag.collect(endpoint)
        self.deliver_some(delivered)

    @invariant()
    def nothing_is_over_its_limit(self) -> None:
        """During a switch a message may be there twice, and who sends again sends at once all that the window held."""
        if not hasattr(self, "bag"):
            return
        limits = self.bag.limits
        for endpoint in self.bag.live.values():
            assert len(endpoint.pending) <= limits.pending_messages
            if endpoint.epoch is not None:
                epoch = endpoint.epoch
                assert sum(1 for cast in epoch.buffers[epoch.rank] if cast.number) <= 2 * (limits.window_casts + 1)
                assert all(len(link.unacked) <= limits.link_records for _, link in epoch.links.peers)


SwitchingMachine.TestCase.settings = Machine.TestCase.settings
TestSwitching = SwitchingMachine.TestCase
