"""Hypothesis drives a handful of endpoints through schedules that no network would produce, then asks the oracle.

`ISOTONE_EXAMPLES=2000` looks longer than the default run does.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isotone.model.events import Ended, ViewInstalled
from isotone.model.settings import MS, Limits
from isotone.model.view import Level, Ordering
from tests.protocol.bag import LIMITS, Bag

ORDERINGS: list[tuple[str, dict[str, int | str | bool]]] = [
    ("fifo", {}),
    ("causal", {}),
    ("sequencer", {}),
    ("single_phase", {}),
    ("single_phase", {"protocol": 1, "sites": "dynamic"}),
]
LEVELS: list[Level] = ["agreed", "k", "safe"]
TINY = Limits(
    payload_bytes=16, batch_bytes=16, batch_messages=2, pending_bytes=64, pending_messages=6, window_bytes=32, window_casts=2,
    link_records=4, backlog_bytes=100, contacts=16,
)  # fmt: skip
PROCESS = st.integers(0, 7)


class Machine(RuleBasedStateMachine):
    """Submit, deliver in any order, drop, repeat, cut, part, disconnect, pause, crash, restart, leave, lag, let time pass."""

    bag: Bag

    @initialize(
        count=st.integers(2, 6),
        which=st.sampled_from(ORDERINGS),
        level=st.sampled_from(LEVELS),
        limits=st.sampled_from([LIMITS, TINY]),
        settled=st.booleans(),
    )
    def begin(
        self, count: int, which: tuple[str, dict[str, int | str | bool]], level: Level, limits: Limits, settled: bool
    ) -> None:
        order, options = which
        self.bag = Bag(count, Ordering(order, level, 2 if level == "k" else 1, options), limits=limits)
        self.lagging: set[str] = set()
        if settled:
            assert self.bag.settle()

    def pick(self, index: int) -> str:
        """One of the processes that run now or are paused."""
        names = sorted(self.bag.live)
        return names[index % len(names)]

    # Applications

    @rule(process=PROCESS, count=st.integers(1, 3))
    @precondition(lambda self: self.bag.live)
    def submit(self, process: int, count: int) -> None:
        self.submit_to(process, count)

    @rule(process=PROCESS)
    @precondition(lambda self: self.bag.live)
    def submit_many(self, process: int) -> None:
        self.submit_to(process, 12)

    def submit_to(self, process: int, count: int) -> None:
        names = sorted(set(self.bag.live) - set(self.bag.asleep))
        names = [name for name in names if not self.bag.live[name]._leave_wanted]
        if names:
            self.bag.submit(names[process % len(names)], count)

    @rule(process=PROCESS, lags=st.booleans())
    @precondition(lambda self: self.bag.live)
    def backlog(self, process: int, lags: bool) -> None:
        self.lag(self.pick(process), lags)

    def lag(self, name: str, lags: bool) -> None:
        if name not in self.bag.asleep:
            (self.lagging.add if lags else self.lagging.discard)(name)
            endpoint = self.bag.live[name]
            endpoint.backlog(1 << 30 if lags else 0, self.bag.now)
            self.bag.collect(endpoint)

    # The network

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

    @rule(source=PROCESS, to=PROCESS, both=st.booleans())
    @precondition(lambda self: len(self.bag.live) > 1)
    def cut(self, source: int, to: int, both: bool) -> None:
        pair = (self.pick(source), self.pick(to))
        self.bag.cut.add(pair)
        if both:
            self.bag.cut.add(pair[::-1])

    @rule(left=st.sets(PROCESS, min_size=1, max_size=4), submits=st.lists(PROCESS, max_size=3), delivered=st.integers(0, 12))
    @precondition(lambda self: len(self.bag.live) > 1)
    def partition(self, left: set[int], submits: list[int], delivered: int) -> None:
        for process in submits:
            self.submit_to(process, 1)
        self.deliver_some(delivered)
        if not self.bag.live:
            return
        side = {self.pick(index) for index in left}
        others = set(self.bag.live) - side
        self.bag.cut |= {(a, b) for a in side for b in others} | {(b, a) for a in side for b in others}

    @rule()
    def heal(self) -> None:
        self.bag.cut.clear()

    @rule(process=PROCESS, peer=PROCESS, both=st.booleans())
    @precondition(lambda self: len(self.bag.live) > 1)
    def disconnect(self, process: int, peer: int, both: bool) -> None:
        pair = (self.pick(process), self.pick(peer))
        if pair[0] != pair[1]:
            self.bag.disconnect(*pair)
            if both:
                self.bag.disconnect(*pair[::-1])

    @rule(index=st.integers(0, 100))
    @precondition(lambda self: self.bag.apart)
    def connect(self, index: int) -> None:
        pairs = sorted(self.bag.apart)
        self.bag.connect(*pairs[index % len(pairs)])

    # Time and processes

    @rule(step=st.sampled_from([1, 5, 20, 35, 80, 200, 400]))
    def pass_time(self, step: int) -> None:
        self.bag.advance(step * MS)

    @rule(step=st.sampled_from([20, 80, 200]), times=st.integers(1, 4))
    def run(self, step: int, times: int) -> None:
        for _ in range(times):
            while self.bag.packets:
                self.bag.deliver(0)
            self.bag.advance(step * MS // 4)

    @rule(process=PROCESS)
    @precondition(lambda self: len(self.bag.live) > len(self.bag.asleep) + 1)
    def pause(self, process: int) -> None:
        name = self.pick(process)
        if name not in self.bag.asleep:
            self.bag.pause(name)

    @rule(index=PROCESS, timer_first=st.booleans())
    @precondition(lambda self: self.bag.asleep)
    def resume(self, index: int, timer_first: bool) -> None:
        names = sorted(self.bag.asleep)
        self.bag.resume(names[index % len(names)], timer_first)

    @rule(process=PROCESS, again=st.booleans())
    @precondition(lambda self: len(self.bag.live) > 1)
    def crash(self, process: int, again: bool) -> None:
        name = self.pick(process)
        self.bag.crash(name)
        if again and max(self.bag.incarnations.values()) < 4:
            self.bag.begin(name.partition("#")[0])

    @rule(process=PROCESS, witness=PROCESS)
    @precondition(lambda self: len(self.bag.live) > 1)
    def crash_while_sending(self, process: int, witness: int) -> None:
        """The last messages of a process reach one other process, or none."""
        name, other = self.pick(process), self.pick(witness)
        if name not in self.bag.asleep and not self.bag.live[name]._leave_wanted:
            self.bag.submit(name, 2)
            self.bag.packets = [entry for entry in self.bag.packets if entry[0] != name or entry[1] == other]
            self.bag.crash(name)

    @rule(process=PROCESS)
    @precondition(lambda self: len(self.bag.live) > 2)
    def leave(self, process: int) -> None:
        name = self.pick(process)
        if name not in self.bag.asleep:
            self.bag.leave(name)

    @invariant()
    def nothing_is_over_its_limit(self) -> None:
        if not hasattr(self, "bag"):
            return
        limits = self.bag.limits
        for endpoint in self.bag.live.values():
            assert len(endpoint.pending) <= limits.pending_messages
            if endpoint.epoch is not None:
                epoch = endpoint.epoch
                assert sum(1 for cast in epoch.buffers[epoch.rank] if cast.payloads) <= limits.window_casts
                assert all(len(link.unacked) <= limits.link_records for _, link in epoch.links.peers)

    def teardown(self) -> None:
        if not hasattr(self, "bag"):
            return
        for process in list(self.bag.asleep):
            self.bag.resume(process)
        for process in sorted(self.lagging & set(self.bag.live)):
            self.lag(process, False)
        settled = self.bag.settle()
        violated = [check for check in self.bag.report().checks if check.verdict == "violated"]
        assert not violated, violated
        assert settled, {name: endpoint.status() for name, endpoint in self.bag.live.items()}
        for process, upcalls in self.bag.upcalls.items():
            left = upcalls and isinstance(upcalls[-1], Ended) and any(isinstance(upcall, ViewInstalled) for upcall in upcalls)
            if process not in self.bag.live and not left:
                continue  # crashed, or never was in a group
            own = sorted(number for origin, number in self.bag.received[process] if origin == process)
            assert own == list(range(1, self.bag.sent[process] + 1)), f"{process} lost or repeated a message of its own"


Machine.TestCase.settings = settings(
    max_examples=int(os.environ.get("ISOTONE_EXAMPLES", "150")),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink),
    print_blob=True,
)
TestEndpoints = Machine.TestCase
