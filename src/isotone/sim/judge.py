"""Runs one seed of the swarm and judges it: safety over all rows, then liveness after the healing.

Liveness: within `LIVENESS_NS` of virtual time after the healing, all running processes are in one view together, whose
members they are, for `STABLE_NS` at least; and a probe message that each of them sends then is delivered by all of them
in that view. Whether everything is safe, and all messages of the last view are delivered, is for the checker to say, a
function of rows that knows nothing of protocols.

With primary membership a group that lost the majority of its last view for good, or whose founders have not all come, stands
still, and everybody must know it. And always the chain is judged, and that nobody sends while it is blocked (`chain`).
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence

import msgspec

from isotone.model.errors import InvariantViolation
from isotone.model.events import Blockage, DeliveryBatch, SwitchRefused, Upcall
from isotone.model.ids import ViewId
from isotone.model.settings import MembershipKind
from isotone.protocol.endpoint import Endpoint
from isotone.sim import chain
from isotone.sim.draw import Drawn, draw
from isotone.sim.interface import EndpointFactory
from isotone.sim.latency import nanoseconds
from isotone.sim.process import AppFactory, Context, Process
from isotone.sim.simulation import Result, Simulation
from isotone.sim.sometimes import LOST, sometimes
from isotone.trace.schema import Row

LIVENESS_NS = 20_000_000_000
"""How much virtual time after the healing the group may take to come together and to deliver a probe of everyone."""

STEP_NS = 100_000_000
STABLE_NS = 1_000_000_000
PROBE = b"probe of "

Checker = Callable[[Sequence[Row], Sequence[str], int], list[str]]
"""Given the rows, who must be together at the end, and by when: what is violated, in words."""


class Verdict(msgspec.Struct):
    """The outcome of one seed."""

    seed: int
    failures: list[str]
    digest: str = ""
    order: str = ""
    members: int = 0
    rows: int = 0
    converged_ns: int = 0
    sometimes: dict[str, int] = {}
    seconds: float = 0.0


class Probing:
    """The swarm's application: remembers whose probes it has delivered, and what it was refused."""

    def __init__(self, process: str) -> None:
        self.probes: set[bytes] = set()
        self.blockages: list[tuple[int, bool]] = []
        self.refusals: list[str] = []

    def on_start(self, ctx: Context) -> None:
        """Nothing to do."""

    def on_upcalls(self, ctx: Context, upcalls: Sequence[Upcall]) -> None:
        """Look for probes among the deliveries."""
        for upcall in upcalls:
            if type(upcall) is Blockage:
                self.blockages.append((ctx.now, upcall.blocked))
            elif type(upcall) is SwitchRefused:
                self.refusals.append(upcall.reason)
            elif type(upcall) is DeliveryBatch:
                self.probes.update(bytes(payload) for payload in upcall.payloads if payload[:9] == PROBE)


def judge(
    seed: int,
    orders: list[str],
    checker: Checker | None,
    endpoint_factory: EndpointFactory | None = None,
    membership: MembershipKind = "partitionable",
    app: AppFactory = Probing,
    prepare: Callable[[Simulation, Drawn], None] | None = None,
    switches: bool = False,
) -> tuple[Verdict, Result | None]:
    """Run and judge one seed. The application, if it is another one, must be a kind of `Probing`."""
    began = time.perf_counter()
    drawn = draw(seed, orders, LIVENESS_NS / 1_000_000, membership, switches)
    scenario = drawn.scenario
    verdict = Verdict(seed, [], order=scenario.order, members=len(scenario.everybody()))
    sound = True
    try:
        simulation = Simulation(scenario, app=app, endpoint_factory=endpoint_factory, wire=drawn.wire)
        if prepare is not None:
            prepare(simulation, drawn)
    except (Exception, InvariantViolation) as error:
        verdict.failures.append(_told(error, 0))
        return verdict, None
    try:
        final = _play(simulation, drawn, verdict)
    except (Exception, InvariantViolation) as error:  # a broken endpoint must not end the swarm
        verdict.failures.append(_told(error, simulation.now))
        final, sound = [], False
    if membership == "primary" and not final:
        sound = False  # who stands still keeps what it sent: nobody has come to a good end
    result = simulation.finish(stop=sound)
    verdict.digest, verdict.rows = result.digest, len(result.rows)
    semantic = scenario.conflicts is not None
    verdict.sometimes = sometimes(result.rows, list(result.processes.values()), membership == "primary", semantic, switches)
    if membership == "primary":
        verdict.sometimes[LOST] = int(not final)
        verdict.failures += chain.judge(result.rows, scenario.founders)
        blockages = {pid: process.app.blockages for pid, process in result.processes.items() if isinstance(process.app, Probing)}
        verdict.failures += chain.silence(result.rows, blockages)
    for ended in simulation.processes.values():
        if ended.ended is not None and not ended.expelled:
            verdict.failures.append(f"{ended.pid} was ended: {ended.ended}")
    for moment, process, peer, text in simulation.dialler.remote_errors:
        verdict.failures.append(f"{process} refuses a packet of {peer} at {moment} ns: {text}")
    if checker is not None:
        names = [process.pid for process in final]
        verdict.failures += checker(result.rows, names, nanoseconds(drawn.healed_ms) + LIVENESS_NS)
    verdict.seconds = time.perf_counter() - began
    return verdict, result


def _told(error: BaseException, now: int) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-3:]]
    return f"{type(error).__name__} at {now} ns, {' > '.join(places)}: {error}"


def _play(simulation: Simulation, drawn: Drawn, verdict: Verdict) -> list[Process]:
    """Safety phase, healing, convergence, probes. Returns the processes that ended up together, if they did."""
    healed = nanoseconds(drawn.healed_ms)
    deadline = healed + LIVENESS_NS
    simulation.run_until(healed)
    final: list[Process] = []
    attempt = 0
    while True:
        view = _settled(simulation, deadline)
        if view is None:
            if simulation.scenario.membership == "primary":
                verdict.failures += chain.stands(simulation)
            elif not _nothing_to_expect(simulation):
                verdict.failures.append("liveness: no lasting common view; " + _where(simulation))
            return []
        verdict.converged_ns = simulation.now - healed - STABLE_NS
        final = simulation.running()
        attempt += 1
        for process in final:
            if process.ctx is not None:
                process.ctx.send([_probe(attempt, process)])
        while _lacking(final, attempt) and _common_view(simulation) == view:
            if simulation.now >= deadline:
                verdict.failures.append("liveness: probes are missing; " + "; ".join(_lacking(final, attempt)))
                return []
            simulation.run_until(min(deadline, simulation.now + STEP_NS))
        simulation.run_until(min(deadline, simulation.now + STABLE_NS))  # for what is still on its way
        if _common_view(simulation) == view:
            return final


def _nothing_to_expect(simulation: Simulation) -> bool:
    """Whether all have left or crashed but for processes that may not found a group: they wait for one for ever."""
    endpoints = [process.endpoint for process in simulation.running()]
    return all(one.view is None and isinstance(one, Endpoint) and not one.config.founder for one in endpoints)


def _settled(simulation: Simulation, deadline: int) -> ViewId | None:
    """Wait until all running processes have been together in one view for `STABLE_NS`; None if that takes too long."""
    view, since = _common_view(simulation), simulation.now
    while view is None or simulation.now - since < STABLE_NS:
        if simulation.now >= deadline:
            return None
        simulation.run_until(min(deadline, simulation.now + STEP_NS))
        found = _common_view(simulation)
        if found != view:
            view, since = found, simulation.now
    return view


def _common_view(simulation: Simulation) -> ViewId | None:
    """The view that all running processes are in, if its members are exactly they and none wants to leave."""
    running = simulation.running()
    members = sorted(process.pid for process in running)
    found: ViewId | None = None
    for process in running:
        view = process.endpoint.view
        if process.leaving or view is None or list(view.members) != members or found not in (None, view.id):
            return None
        found = view.id
    return found


def _probe(attempt: int, process: Process) -> bytes:
    return PROBE + f"{process.pid} {attempt}".encode()


def _lacking(processes: list[Process], attempt: int) -> list[str]:
    """Who has not delivered whose probe, in words."""
    gaps = []
    for process in processes:
        have = process.app.probes if isinstance(process.app, Probing) else set()
        lacks = [other.pid for other in processes if _probe(attempt, other) not in have]
        if lacks:
            gaps.append(f"{process.pid} lacks the probe of {', '.join(lacks)}")
    return gaps


def _where(simulation: Simulation) -> str:
    places = []
    for process in simulation.running():
        view = process.endpoint.view
        asked = " (leaving)" if process.leaving else ""
        places.append(f"{process.pid}{asked} in {view.id if view else None} {list(view.members) if view else ''}")
    return "; ".join(places)
