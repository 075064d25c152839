"""State transfer over slow links, in virtual time: how fast it is, and that messages do not wait behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from isotone.model.events import DeliveryBatch, SnapshotWanted, StateProgress, StateReceived, Upcall, ViewInstalled
from isotone.model.settings import EndpointConfig
from isotone.protocol.endpoint import Endpoint
from isotone.sim import faults
from isotone.sim.latency import Constant
from isotone.sim.process import Context
from isotone.sim.scenario import NetworkSettings, Scenario
from isotone.sim.simulation import Simulation

SECOND = 1_000_000_000


class Keeper:
    """Has a state of so many bytes; sends the time now and then, and notes how long that takes to come."""

    def __init__(self, process: str, size: int) -> None:
        self.size = size
        self.begun = self.done = 0
        self.delays: list[tuple[int, int]] = []

    def on_start(self, ctx: Context) -> None:
        def tick() -> None:
            ctx.send([str(ctx.now).encode()])
            ctx.after(SECOND // 50, tick)

        ctx.after(SECOND // 50, tick)

    def on_upcalls(self, ctx: Context, upcalls: Sequence[Upcall]) -> None:
        for upcall in upcalls:
            if isinstance(upcall, SnapshotWanted):
                ctx.provide(upcall.view.id, bytes(self.size))
            elif isinstance(upcall, StateProgress) and upcall.provider is None:
                self.begun = ctx.now
            elif isinstance(upcall, StateReceived):
                self.done = ctx.now
            elif isinstance(upcall, DeliveryBatch):
                self.delays += [(ctx.now, ctx.now - int(bytes(payload))) for payload in upcall.payloads]


def stateful(config: EndpointConfig, recorder: Any) -> Endpoint:
    return Endpoint(msgspec.structs.replace(config, state=True), recorder)


def transfer(size: int, network: NetworkSettings) -> tuple[float, float]:
    """How long the third member waits for the state, and the longest delay of a message at the first one meanwhile."""
    scenario = Scenario(
        name="state", members=["a", "b"], duration_ms=60_000, order="fifo", network=network,
        faults=[faults.Join(at_ms=5_000, who="c")],
    )  # fmt: skip
    simulation = Simulation(scenario, app=lambda process: Keeper(process, size), endpoint_factory=stateful, trace=False)
    simulation.run_until(5 * SECOND)
    while simulation.now < 60 * SECOND:
        simulation.run_until(simulation.now + SECOND // 10)
        joiner = simulation.process("c").app
        if isinstance(joiner, Keeper) and joiner.done:
            break
    first = simulation.app("a")
    assert isinstance(joiner, Keeper)
    assert isinstance(first, Keeper)
    assert joiner.done, "no state"
    during = [delay for time, delay in first.delays if joiner.begun <= time <= joiner.done]
    return (joiner.done - joiner.begun) / SECOND, max(during, default=0) / SECOND


@pytest.mark.parametrize("one_way_ms", [1.0, 30.0, 150.0])
def test_a_long_way_is_filled(one_way_ms: float) -> None:
    seconds, _ = transfer(4_000_000, NetworkSettings(latency=Constant(ms=one_way_ms)))
    round_trips = seconds / (2 * one_way_ms / 1000)
    assert round_trips < 20, f"{seconds} s"


def test_messages_do_not_wait_behind_the_state_on_a_narrow_link() -> None:
    narrow = NetworkSettings(latency=Constant(ms=2.0), bandwidth_bps=20_000_000)
    seconds, delay = transfer(4_000_000, narrow)
    assert seconds < 4.0  # at least 1.6 s on the wire
    assert delay < 0.3


class Diary:
    """Its state is everything it has delivered, in order; all but d write into it all the time."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.lines: list[str] = []
        self.views: list[int] = []
        self.states = 0

    def on_start(self, ctx: Context) -> None:
        def tick() -> None:
            ctx.send([f"{self.process} {ctx.now}".encode()])
            ctx.after(SECOND // 100, tick)

        if not self.process.startswith("d"):
            ctx.after(SECOND // 100, tick)

    def on_upcalls(self, ctx: Context, upcalls: Sequence[Upcall]) -> None:
        for upcall in upcalls:
            if isinstance(upcall, ViewInstalled):
                self.views.append(len(upcall.view.members))
            elif isinstance(upcall, SnapshotWanted):
                ctx.provide(upcall.view.id, "\n".join(self.lines).encode())
            elif isinstance(upcall, StateReceived):
                self.lines = bytes(upcall.data).decode().splitlines()
                self.states += 1
            elif isinstance(upcall, DeliveryBatch):
                self.lines += [bytes(payload).decode() for payload in upcall.payloads]


@pytest.mark.parametrize("membership", ["partitionable", "primary"])
def test_who_was_expelled_for_what_it_lacks_comes_back_with_the_state(membership: Any) -> None:
    """The core of `token` keeps 50 casts for a member that nobody hears; then that member has to fetch the state instead."""
    scenario = Scenario(
        name="expelled", members=["a", "b", "c", "d"], duration_ms=60_000, order="token", level="k", k=2,
        membership=membership, founders=["a", "b", "c", "d"] if membership == "primary" else [],
        limits={"keep_casts": 50}, timing={"hard_ms": 20_000.0, "closed_ms": 20_000.0},
        network=NetworkSettings(latency=Constant(ms=1.0)),
        faults=[faults.Partition(at_ms=5_000, groups=[["a", "b", "c"], ["d"]]), faults.Heal(at_ms=10_000)],
    )  # fmt: skip
    simulation = Simulation(scenario, app=Diary, endpoint_factory=stateful, trace=False)

    def diaries() -> dict[str, Diary]:
        return {name: app for name in "abcd" if isinstance(app := simulation.app(name), Diary)}

    simulation.run_until(9 * SECOND)
    assert diaries()["a"].views[-1] == 3, "d is given up long before the hard threshold"
    missed = len(diaries()["a"].lines) - len(diaries()["d"].lines)
    assert missed > 500
    before = diaries()["d"].states  # d may have joined the first members with one
    simulation.run_until(40 * SECOND)
    assert {diary.views[-1] for diary in diaries().values()} == {4}
    assert diaries()["d"].states == (before + 1 if membership == "partitionable" else 1)
    shortest = min(len(diary.lines) for diary in diaries().values())
    assert shortest > 9_000
    assert len({tuple(diary.lines[:shortest]) for diary in diaries().values()}) == 1
