"""The swarm of state transfer: replicas whose state is a digest of all that they have delivered, in the swarm's storms.

    python -m isotone.sim.stateful --seeds 500 [--first 1] [--order single_phase]
    python -m isotone.sim.stateful --seed 17

Besides the faults of `draw`, providers crash half-way, snapshots come late or not at all, and those of different members have
different bytes.
Judged are, besides everything that `judge` demands: at the beginning of a view all replicas in it that have the group's
state have the same one, whether they were there, joined or were merged; no delivery comes twice, or before the state; a
snapshot arrives as it was taken, made of nobody else's bytes; and after the healing all replicas have the state, and it is one.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from itertools import zip_longest
from random import Random
from typing import Any

import msgspec

from isotone.model.events import (
    DeliveryBatch,
    SnapshotWanted,
    StateLost,
    StateProgress,
    StateReceived,
    Upcall,
    ViewInstalled,
)
from isotone.model.ids import ProcessId, ViewId, name_of
from isotone.model.settings import MEMBERSHIPS, EndpointConfig, MembershipKind
from isotone.protocol.endpoint import Endpoint
from isotone.sim.draw import Drawn
from isotone.sim.judge import Checker, Probing, Verdict, judge
from isotone.sim.latency import nanoseconds
from isotone.sim.process import Context
from isotone.sim.rand import between, chance, pick, stream
from isotone.sim.simulation import Simulation
from isotone.sim.sometimes import LOST
from isotone.sim.swarm import CHECKER, all_orders, find_checker

COUNTERS = {
    "states_received": "state received",
    "state_providers_lost": "provider lost half-way",
    "state_resumptions": "transfer resumed at another provider",
    "state_resumptions_refused": "resumption refused, snapshots differ",
    "state_cuts_replaced": "transfer begun again with a later view",
    "states_lost": "state lost",
}
"""Counters of endpoints, and the rare states they stand for."""


class Image(msgspec.Struct, array_like=True):
    """A replica's state: of each origin the number of its last message and a digest of all; if there is one, of the order too."""

    chains: dict[str, tuple[int, bytes]]
    order: bytes = b""

    def take(self, origin: str, number: int, payload: bytes, total: bool) -> bool:
        """Add a message; False if it, or a later one of its origin, has been added before."""
        last, chain = self.chains.get(origin, (0, b""))
        text = f"{origin} {number} ".encode() + payload
        self.chains[origin] = (number, hashlib.blake2b(chain + text, digest_size=8).digest())
        if total:
            self.order = hashlib.blake2b(self.order + text, digest_size=8).digest()
        return number > last

    def digest(self) -> str:
        """Equal for equal states."""
        ordered = [sorted(self.chains.items()), self.order]
        return hashlib.blake2b(msgspec.msgpack.encode(ordered), digest_size=8).hexdigest()


def pack(image: Image, salt: str, filler: int, first: bool) -> bytes:
    """A snapshot: the state, and a filler that depends on `salt`, before or after it."""
    body = msgspec.msgpack.encode([sorted(image.chains.items()), image.order])
    head = msgspec.msgpack.encode([len(body), salt if first else "", filler, first])
    stuff = _stuff(salt, filler)
    parts = (stuff, body) if first else (body, stuff)
    return len(head).to_bytes(2, "big") + head + b"".join(parts) + salt.encode()


def unpack(data: bytes) -> Image:
    """The state in a snapshot; `ValueError` if its bytes are not those of one `pack`."""
    start = 2 + int.from_bytes(data[:2], "big")
    length, _, filler, first = msgspec.msgpack.decode(data[2:start])
    salt = data[start + length + filler :].decode()
    low = start + filler if first else start
    chains, order = msgspec.msgpack.decode(data[low : low + length])
    image = Image({origin: (last, chain) for origin, (last, chain) in chains}, order)
    if pack(image, salt, filler, first) != data:
        raise ValueError("a snapshot is made of pieces of different ones")
    return image


def _stuff(salt: str, length: int) -> bytes:
    return hashlib.shake_128(salt.encode()).digest(length)


class Stage:
    """What the replicas of one seed share: what was drawn for it, and what they found wrong."""

    def __init__(self, seed: int) -> None:
        self.rng: Random = stream(seed, "state")
        rng = self.rng
        self.failures: list[str] = []
        self.at: dict[ViewId, dict[ProcessId, str]] = {}  # the state of each replica at the beginning of a view
        self.bystanders: set[ProcessId] = set()
        self.filler = pick(rng, (0, 300, 3_000, 30_000))
        self.chunk = pick(rng, (64, 300, 2_000, 65_536)) if self.filler < 30_000 else pick(rng, (300, 2_000))
        self.backlog = pick(rng, (1_000, 1_000_000))
        self.salted = chance(rng, 0.4)
        self.salt_first = chance(rng, 0.5)
        self.late_ms = pick(rng, (0, 0, 5, 300))
        self.failing = pick(rng, (0.0, 0.0, 0.2))
        self.killing = pick(rng, (0.0, 0.1, 0.4))
        self.idle = pick(rng, (0.0, 0.0, 0.2))
        self._simulation: Simulation | None = None
        self._healed = 0

    def prepare(self, simulation: Simulation, drawn: Drawn) -> None:
        """The run is about to begin."""
        self._simulation = simulation
        self._healed = nanoseconds(drawn.healed_ms)

    @property
    def stormy(self) -> bool:
        """Whether faults may still happen."""
        return self._simulation is not None and self._simulation.now < self._healed

    def endpoint(self, config: EndpointConfig, recorder: Any) -> Endpoint:
        """An endpoint with a state; now and then one without."""
        limits = msgspec.structs.replace(config.limits, state_chunk_bytes=self.chunk, state_backlog_bytes=self.backlog)
        takes_part = not chance(stream(config.seed, "idle"), self.idle)
        if not takes_part:
            self.bystanders.add(config.process)
        return Endpoint(msgspec.structs.replace(config, limits=limits, state=takes_part), recorder)

    def progress(self, provider: ProcessId) -> None:
        """A transfer has come some way: its provider may crash, and come back."""
        simulation = self._simulation
        if simulation is None or not self.stormy or not chance(self.rng, self.killing):
            return
        simulation.engine.crash(simulation.processes[provider], silent=chance(self.rng, 0.5))
        if chance(self.rng, 0.7):
            back = simulation.now + nanoseconds(float(between(self.rng, 1, 1_500)))
            simulation.at(min(back, self._healed), lambda one: self._restart(one, provider))

    @staticmethod
    def _restart(simulation: Simulation, process: ProcessId) -> None:
        simulation.start(name_of(process))

    def beginning(self, view: ViewId, process: ProcessId, digest: str) -> None:
        """A replica's state as of the beginning of a view."""
        known = self.at.setdefault(view, {})
        for other, theirs in known.items():
            if theirs != digest:
                self.failures.append(f"state: {process} and {other} begin view {view} with different states")
                break
        known[process] = digest


class Replica(Probing):
    """An application whose state is a digest of all it has delivered."""

    def __init__(self, process: ProcessId, stage: Stage) -> None:
        super().__init__(process)
        self.process = process
        self.stage = stage
        self.image = Image({})
        self.pending = False
        self._alone_until: ViewId | None = None

    def on_upcalls(self, ctx: Context, upcalls: Sequence[Upcall]) -> None:
        """Keep the state."""
        if self.process in self.stage.bystanders:
            super().on_upcalls(ctx, upcalls)
            return
        for upcall, following in zip_longest(upcalls, upcalls[1:]):
            if type(upcall) is DeliveryBatch:
                self._deliver(upcall)
            elif type(upcall) is ViewInstalled:
                self.pending = self.pending or (type(following) is StateProgress and following.provider is None)
                self._begin(upcall.view.id)
            elif type(upcall) is SnapshotWanted:
                self._snapshot(ctx, upcall)
            elif type(upcall) is StateProgress:
                self._progress(upcall)
            elif type(upcall) is StateReceived:
                self._receive(upcall)
            elif type(upcall) is StateLost and upcall.outcome != "waiting":
                self.pending = False
                self._alone_until = ctx.view.id if ctx.view is not None else None
                if upcall.outcome == "anew" and self.image.chains:
                    self._fail("is to begin anew, and has a state")
        super().on_upcalls(ctx, upcalls)

    def _fail(self, text: str) -> None:
        self.stage.failures.append(f"state: {self.process} {text}")

    def _deliver(self, batch: DeliveryBatch) -> None:
        if self.pending:
            self._fail(f"delivers {batch.origin} {batch.first} before it has the state")
        for index, payload in enumerate(batch.payloads):
            if not self.image.take(batch.origin, batch.first + index, payload, batch.position is not None):
                self._fail(f"delivers {batch.origin} {batch.first + index}, which its state contains")

    def _begin(self, view: ViewId) -> None:
        if self._alone_until is not None and view < self._alone_until:
            return  # it went through this view with a state of its own
        self._alone_until = None
        if not self.pending:
            self.stage.beginning(view, self.process, self.image.digest())

    def _progress(self, progress: StateProgress) -> None:
        if progress.provider is not None and progress.received:
            self.stage.progress(progress.provider)

    def _receive(self, received: StateReceived) -> None:
        if not self.pending:
            self._fail(f"gets a state of {received.view.id} that it was not told of")
        self.pending = False
        try:
            self.image = unpack(received.data)
        except (ValueError, msgspec.MsgspecError) as error:
            self._fail(f"gets a broken state from {received.provider}: {error}")
            return
        self.stage.beginning(received.view.id, self.process, self.image.digest())

    def _snapshot(self, ctx: Context, wanted: SnapshotWanted) -> None:
        stage = self.stage
        if stage.stormy and chance(stage.rng, stage.failing):
            ctx.provide(wanted.view.id, None, "the application failed")
            return
        data = pack(self.image, self.process if stage.salted else "", stage.filler, stage.salt_first)
        ctx.after(nanoseconds(float(stage.late_ms)), lambda: ctx.provide(wanted.view.id, data))


def judge_state(seed: int, orders: list[str], checker: Checker | None, membership: MembershipKind = "partitionable") -> Verdict:
    """Run and judge one seed with replicas."""
    stage = Stage(seed)
    verdict, result = judge(
        seed, orders, checker, stage.endpoint, membership, lambda process: Replica(process, stage), stage.prepare
    )
    verdict.failures += stage.failures[:8]
    stuck = verdict.sometimes.get(LOST, 0) > 0  # primary membership, and nobody can go on
    verdict.sometimes = dict.fromkeys(COUNTERS.values(), 0)
    if result is None:
        return verdict
    for process in result.processes.values():
        counters: dict[str, int] = getattr(process.endpoint, "counters", {})
        for name, state in COUNTERS.items():
            verdict.sometimes[state] += counters.get(name, 0)
        lacking = process.state == "running" and isinstance(process.app, Replica) and process.app.pending
        if lacking and not stuck and not verdict.failures:
            verdict.failures.append(f"state: {process.pid} never gets the state")
    return verdict


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m isotone.sim.stateful", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--order", choices=all_orders(), help="draw everything but the order")
    parser.add_argument("--membership", choices=MEMBERSHIPS, default="partitionable", help="the kind of membership")
    given = parser.parse_args(argv)
    orders = [given.order] if given.order else all_orders()
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else [given.seed]
    check = find_checker(CHECKER)
    totals: dict[str, int] = {}
    failed = 0
    for seed in seeds:
        verdict = judge_state(seed, orders, check, given.membership)
        for state, times in verdict.sometimes.items():
            totals[state] = totals.get(state, 0) + times
        if verdict.failures:
            failed += 1
            print(f"seed {seed} FAILED ({verdict.order}, {verdict.members} processes)")
            for failure in verdict.failures[:6]:
                print(f"  {failure}")
            order = f" --order {given.order}" if given.order else ""
            print(f"  replay: python -m isotone.sim.stateful --seed {seed}{order} --membership {given.membership}")
    print(f"{len(seeds)} seeds, {failed} failed")
    for state, times in totals.items():
        print(f"  sometimes: {state}: {times} times" + ("" if times else "  NEVER"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
