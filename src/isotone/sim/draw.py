"""Draws a whole scenario from a seed: group, timing, network, workload and faults, for the swarm.

A drawn scenario has a safety phase with faults at random, and ends with the healing of everything at a known instant.
From there on the network is good, nobody is paused, and no fault follows; what happens then is the swarm's matter.
Virtual time, rates and counts are small, so that one seed takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from isotone.model.settings import MembershipKind
from isotone.model.switch import RULES, STRATEGIES, Strategy
from isotone.model.view import Level
from isotone.protocol.ordering import registry
from isotone.sim import faults
from isotone.sim.faults import AnyFault
from isotone.sim.flapping import Flapping
from isotone.sim.latency import Constant, Exponential, Heavy, Latency, Uniform
from isotone.sim.network import Release
from isotone.sim.rand import below, between, chance, pick, sample, shuffled, stream
from isotone.sim.relations import draw_semantic
from isotone.sim.scenario import NetworkSettings, Scenario, takes_conflicts
from isotone.sim.workload import Phase

NAMES = ("a", "b", "c", "d", "e", "f", "g")
LATE = ("h", "i")
GOOD: dict[str, object] = {"latency": Uniform(min_ms=0.5, max_ms=3.0), "loss": 0.0, "duplicate": 0.0, "reorder": 0.0}
OPTIONS: dict[str, dict[str, tuple[int | str | bool, ...]]] = {
    "single_phase": {"protocol": (1, 2), "sites": ("static", "dynamic"), "idle": ("catch_up", "silent")},
    "sequencer": {"fallback": ("returned",)},
    "all_ack": {"silent": ("acknowledge", "wait"), "interval_ms": (1, 10, 50)},
}
"""Options whose values keep the promises; the classical fallback of the sequencer does not, and is not drawn."""


LEFT_MS = 5_000
"""So long after the healing everybody has left who was about to."""
DEADLY = faults.Crash | faults.Restart | faults.Leave
"""What ends a process."""


class Drawn(msgspec.Struct, frozen=True):
    """A scenario, when it has healed, and whether its packets go through the codec."""

    scenario: Scenario
    healed_ms: float
    wire: bool


def draw(
    seed: int, orders: list[str], liveness_ms: float, membership: MembershipKind = "partitionable", switches: bool = False
) -> Drawn:
    """The scenario of a seed; its order is one of `orders`. The kind of membership changes nothing but what belongs to it.

    With `switches` processes ask for other orderers at random instants; the rest of the seed stays what it is.
    """
    rng = stream(seed, "swarm")
    order = pick(rng, orders)
    options = {name: pick(rng, values) for name, values in OPTIONS.get(order, {}).items() if chance(rng, 0.6)}
    if order == "single_phase" and chance(stream(seed, "acks"), 0.3):  # a stream of its own: the rest of a seed stays what it was
        options["acks"] = "gathered"
    if order == "atop":
        options = _atop(stream(seed, "atop"))
    if order == "sequencer" and chance(stream(seed, "seat"), 0.4):
        options["at"] = pick(stream(seed, "seat", "name"), NAMES)
    members = list(NAMES[: between(rng, 2, len(NAMES))])
    late = list(LATE[: below(rng, 3)])
    level: Level = pick(rng, ("agreed", "agreed", "k", "safe"))
    safety_ms = float(between(rng, 2_500, 6_000))
    begin_ms = float(between(rng, 0, 1_500))
    network = _network(rng)
    wire = chance(rng, 0.2)
    seeds = members if chance(rng, 0.7) else sample(rng, members, between(rng, 1, len(members)))
    plan = _Faults(rng, members, seeds, late, begin_ms, safety_ms)
    storm = plan.draw()
    k = between(rng, 1, 4) if level == "k" else 1
    dial_ms = float(between(rng, 50, 300))
    found_after_ms = float(between(rng, 0, 600))
    timing = _timing(rng)
    limits = _limits(rng)
    if order == "token":
        flapping = Flapping(seed, level, timing)
        level, timing, k = flapping.level, flapping.timing, flapping.k if flapping.rough else k
        storm = flapping.faults(members, begin_ms, safety_ms) + storm
        limits |= flapping.limits
    if registry.find(order).takes_early:
        level, network = _gaps(stream(seed, "gaps"), level, network)
    if switches:
        wishes = _switches(stream(seed, "switches"), orders if len(orders) > 1 else registry.names(), [*members, *late], storm)
        begun = faults.Switch(at_ms=0.0, who="", order=order, level=level, k=k if level == "k" else 1, options=options)
        storm = [*_askers(stream(seed, "askers"), wishes, begun, [*members, *late], storm[-1].at_ms), *wishes, *storm]
    founders: list[str] = []
    if membership == "primary":
        founders, storm = _primary(stream(seed, "membership"), members, late, storm)
    load = _workload(rng, [*members, *late], safety_ms) + _hot(rng, plan.hot_ms)
    conflicts = None
    if takes_conflicts(order):
        conflicts, load = draw_semantic(seed, load)
    scenario = Scenario(
        name=f"swarm-{seed}",
        members=members,
        duration_ms=safety_ms + liveness_ms,
        seed=seed,
        order=order,
        level=level,
        k=k if level == "k" else 1,
        options=options,
        conflicts=conflicts,
        membership=membership,
        founders=founders,
        trace_receives=level != "agreed" or switches,
        seeds=seeds,
        dial_ms=dial_ms,
        found_after_ms=found_after_ms,
        timing=timing,
        limits=limits,
        network=network,
        workload=load,
        faults=storm,
    )
    return Drawn(scenario, safety_ms, wire)


def _atop(rng: Random) -> dict[str, int | str | bool]:
    """Windows so small that distributions change often, and now and then none at all."""
    policy = pick(rng, ("bookkeeper", "bookkeeper", "least_variance", "backoff", "patterns", "none"))
    options: dict[str, int | str | bool] = {"slots": pick(rng, ("even", "random")), "policy": policy}
    options |= {"window": between(rng, 1, 4), "epsilon": between(rng, 1, 3), "threshold": between(rng, 0, 300)}
    if policy == "patterns":
        options["patterns"] = pick(rng, ("a:9", "a:3 b:2; c:8", "a:1 b:50; a:50 b:1; d:7 e:7 f:7 g:7"))
    return options


def _gaps(rng: Random, level: Level, network: NetworkSettings) -> tuple[Level, NetworkSettings]:
    """Mostly a network that loses and reorders much, and a level at which casts are taken from behind the gaps."""
    if chance(rng, 0.3):
        return level, network
    loss, reorder = pick(rng, (0.02, 0.1, 0.3)), pick(rng, (0.0, 0.2, 0.5))
    return "agreed", msgspec.structs.replace(network, loss=loss, reorder=reorder, reorder_ms=float(between(rng, 5, 100)))


def _options(rng: Random, order: str) -> dict[str, int | str | bool]:
    if order == "atop":
        return _atop(rng)
    return {name: pick(rng, values) for name, values in OPTIONS.get(order, {}).items() if chance(rng, 0.6)}


def _switches(rng: Random, orders: list[str], names: list[str], storm: list[AnyFault]) -> list[faults.Switch]:
    """Requests at random instants, some of them by two members at once, some close to another fault."""
    end = storm[-1].at_ms
    result: list[faults.Switch] = []
    for _ in range(between(rng, 1, 8)):
        at = float(between(rng, 300, int(end) + 1_500))
        if chance(rng, 0.5):
            at = pick(rng, storm).at_ms + between(rng, -60, 60)
        at = max(0.0, at)
        order = pick(rng, orders)
        level: Level = pick(rng, ("agreed", "agreed", "k", "safe"))
        strategy: Strategy = pick(rng, STRATEGIES)
        if not registry.find(order).total or chance(rng, 0.1):
            strategy = "stop"
        for _ in range(2 if chance(rng, 0.3) else 1):
            result.append(
                faults.Switch(
                    at_ms=at, who=pick(rng, names), order=order, level=level, k=between(rng, 1, 4) if level == "k" else 1,
                    options=_options(rng, order), strategy=strategy, rule=pick(rng, RULES), fresh=chance(rng, 0.8),
                )
            )  # fmt: skip
            order = pick(rng, [other for other in orders if registry.find(other).total or strategy == "stop"] or orders)
    return result


def _askers(rng: Random, wishes: list[faults.Switch], begun: faults.Switch, names: list[str], end_ms: float) -> list[AnyFault]:
    """Now and then somebody asks for what the group began with, or crashes just after it has asked."""
    result: list[AnyFault] = []
    if chance(rng, 0.15):
        at = float(between(rng, 700, 2_000))
        result.append(msgspec.structs.replace(begun, at_ms=at, who=pick(rng, names)))
    if chance(rng, 0.15):
        wish = pick(rng, wishes)
        at = wish.at_ms + between(rng, 0, 40)
        if at < end_ms:
            result.append(faults.Crash(at_ms=at, who=wish.who, silent=chance(rng, 0.5)))
    return result


def _primary(rng: Random, members: list[str], late: list[str], storm: list[AnyFault]) -> tuple[list[str], list[AnyFault]]:
    """The founders, and a storm that mostly spares a majority of the members; sometimes all of them may be lost for good."""
    founders = members if chance(rng, 0.6) else sample(rng, members, between(rng, 1, len(members)))
    end = storm[-1].at_ms
    storm = [fault for fault in storm if fault.at_ms <= end]  # who left its majority does not come back to it
    if chance(rng, 0.6):
        storm = [*storm[:-5], *_interrupted(rng, members, late, end), *storm[-5:]]
    if chance(rng, 0.2):
        return founders, storm
    mortal = {*sample(rng, members, (len(members) - 1) // 2), *late}
    gentle = [fault for fault in storm if not isinstance(fault, DEADLY) or set(faults.names(fault.who)) <= mortal]
    return founders, [*gentle, faults.Join(at_ms=end, who=members)]


def _interrupted(rng: Random, members: list[str], late: list[str], end_ms: float) -> list[AnyFault]:
    """View changes whose likely proposer is cut off at some moment of them, for so long that the others go on without it."""
    result: list[AnyFault] = []
    for _ in range(between(rng, 1, 3)):
        at = between(rng, 1_000, max(1_001, int(end_ms) - 1_500))
        who = pick(rng, members)
        trigger: AnyFault = faults.Leave(at_ms=at, who=who) if chance(rng, 0.5) else faults.Restart(at_ms=at, who=who)
        cut = at + between(rng, 0, 150)
        alone = pick(rng, [name for name in members[:3] if name != who] or members)
        others = [name for name in (*members, *late) if name != alone]
        back = cut + between(rng, 300, 2_500)
        result += [trigger, faults.Partition(at_ms=cut, groups=[[alone], others])]
        result += [faults.Heal(at_ms=back), faults.Join(at_ms=back, who=who)]
    return [fault for fault in result if fault.at_ms <= end_ms]


def _timing(rng: Random) -> dict[str, float]:
    heartbeat = between(rng, 25, 100)
    soft = heartbeat * between(rng, 2, 5)
    hard = soft * between(rng, 1, 4)
    return {
        "heartbeat_ms": heartbeat,
        "soft_ms": soft,
        "hard_ms": hard,
        "closed_ms": between(rng, heartbeat, hard),
        "probe_ms": between(rng, 20, max(25, min(250, hard // 2))),  # rarer probes look like silence
        "settle_ms": between(rng, 20, 150),
        "change_ms": between(rng, 300, 1_000),
        "resend_ms": between(rng, 40, 150),
        "ack_delay_ms": between(rng, 1, 40),
        "retransmit_ms": between(rng, 30, 150),
        "retransmit_max_ms": between(rng, 300, 1_500),
        "name_conflict_ms": between(rng, 6_000, 9_000),
    }


def _limits(rng: Random) -> dict[str, int]:
    if chance(rng, 0.6):
        return {}
    return {
        "payload_bytes": 65_536,
        "batch_messages": between(rng, 1, 32),
        "window_casts": between(rng, 1, 32),
        "link_records": between(rng, 16, 256),
        "pending_messages": between(rng, 4, 64),
    }


def _latency(rng: Random) -> Latency:
    kind = below(rng, 4)
    if kind == 0:
        return Constant(ms=float(pick(rng, (1, 1, 5, 20))))
    if kind == 1:
        return Uniform(min_ms=0.2, max_ms=float(between(rng, 1, 40)))
    if kind == 2:
        return Exponential(min_ms=0.2, mean_ms=float(between(rng, 1, 20)))
    return Heavy(min_ms=0.2, median_ms=float(between(rng, 1, 10)), shape=1.5, max_ms=200.0)


def _network(rng: Random) -> NetworkSettings:
    return NetworkSettings(
        latency=_latency(rng),
        loss=pick(rng, (0.0, 0.0, 0.01, 0.05, 0.2)),
        duplicate=pick(rng, (0.0, 0.0, 0.02, 0.2)),
        reorder=pick(rng, (0.0, 0.0, 0.05, 0.3)),
        reorder_ms=float(between(rng, 1, 60)),
        bandwidth_bps=pick(rng, (0, 0, 0, 2_000_000, 20_000_000)),
        interface="node" if chance(rng, 0.3) else "pair",
    )


def _workload(rng: Random, names: list[str], stop_ms: float) -> list[Phase]:
    phases: list[Phase] = []
    for _ in range(between(rng, 1, 3)):
        senders = [] if chance(rng, 0.5) else sample(rng, names, between(rng, 1, len(names)))
        start = float(between(rng, 0, int(stop_ms) // 2))
        size = between(rng, 0, 200)
        phases.append(
            Phase(
                kind=pick(rng, ("periodic", "poisson", "bursty")),
                members=senders,
                start_ms=start,
                stop_ms=min(start + between(rng, 200, int(stop_ms)), stop_ms + 500),
                interval_ms=float(between(rng, 10, 200)),
                on_ms=float(between(rng, 20, 200)),
                off_ms=float(between(rng, 100, 800)),
                burst=pick(rng, (1, 1, 1, 3, 10)),
                count=between(rng, 5, 40),
                size_min=size,
                size_max=size + below(rng, 300),
                types=["read", "write"] if chance(rng, 0.3) else [],
                items=["x", "y", "z"] if chance(rng, 0.3) else [],
            )
        )
    return phases


def _hot(rng: Random, moments_ms: list[float]) -> list[Phase]:
    """Everybody sends in quick succession just when the network comes apart."""
    phases: list[Phase] = []
    for moment in moments_ms[:3]:
        if chance(rng, 0.6):
            start = max(0.0, moment - between(rng, 0, 60))
            interval = float(between(rng, 2, 20))
            phases.append(Phase(kind="poisson", start_ms=start, stop_ms=start + 150, interval_ms=interval, count=10))
    return phases


class _Faults:
    """The timed list of faults of one seed: what happens in the safety phase, and the healing at its end."""

    def __init__(
        self, rng: Random, members: list[str], seeds: list[str], late: list[str], begin_ms: float, end_ms: float
    ) -> None:
        self.rng = rng
        self.members = members
        self.seeds = seeds  # somebody must be there to be found
        self.late = late
        self.everybody = [*members, *late]
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.list: list[AnyFault] = []
        self.hot_ms: list[float] = []  # when it is worth while to have much under way

    def draw(self) -> list[AnyFault]:
        """The whole list."""
        rng = self.rng
        kinds: list[Callable[[float], None]] = [
            self._crash,
            self._restart,
            self._pause,
            self._partition,
            self._tear,
            self._cut,
            self._clog,
            self._weather,
            self._leave,
            self._reset,
        ]
        mix = sample(rng, kinds, between(rng, 1, len(kinds)))
        for _ in range(between(rng, 0, 12)):
            pick(rng, mix)(self._time())
        for name in self.late:
            self.list.append(faults.Join(at_ms=self._time(), who=name))
        self._heal()
        return self.list

    def _time(self, after_ms: float | None = None) -> float:
        low = self.begin_ms if after_ms is None else min(after_ms, self.end_ms)
        return low + (self.end_ms - low) * self.rng.random()

    def _some(self) -> list[str]:
        return sample(self.rng, self.everybody, between(self.rng, 1, max(1, len(self.everybody) // 2)))

    def _crash(self, at: float) -> None:
        rng = self.rng
        who = pick(rng, self.everybody)
        self.list.append(
            faults.Crash(
                at_ms=at,
                who=who,
                during=pick(rng, ("now", "prefix", "subset")),
                within_ms=float(between(rng, 1, 100)),
                silent=chance(rng, 0.5),
            )
        )
        if chance(rng, 0.6):
            self.list.append(faults.Join(at_ms=self._time(at), who=who))

    def _restart(self, at: float) -> None:
        self.list.append(faults.Restart(at_ms=at, who=pick(self.rng, self.everybody)))

    def _pause(self, at: float) -> None:
        self.list.append(faults.Pause(at_ms=at, who=self._some(), for_ms=float(between(self.rng, 5, 2_000))))

    def _groups(self) -> list[list[str]]:
        rng = self.rng
        names = shuffled(rng, self.everybody)
        groups: list[list[str]] = [[] for _ in range(between(rng, 2, min(4, len(names))))]
        for index, name in enumerate(names):
            groups[index if index < len(groups) else below(rng, len(groups))].append(name)
        return groups

    def _partition(self, at: float) -> None:
        self.hot_ms.append(at)
        self.list.append(faults.Partition(at_ms=at, groups=self._groups()))
        if chance(self.rng, 0.7):
            self.list.append(faults.Heal(at_ms=self._time(at)))

    def _tear(self, at: float) -> None:
        """A partition that comes piece by piece, link by link, within some milliseconds."""
        rng = self.rng
        groups = self._groups()
        self.hot_ms.append(at)
        done = min(self.end_ms, at + between(rng, 1, 80))
        for group in groups:
            for source in group:
                for target in self.everybody:
                    if target not in group and chance(rng, 0.5):
                        torn = at + (done - at) * rng.random()
                        self.list.append(faults.Cut(at_ms=torn, source=source, target=target))
        self.list.append(faults.Partition(at_ms=done, groups=groups))
        self.list.append(faults.Heal(at_ms=self._time(done)))

    def _cut(self, at: float) -> None:
        source, target = self._some(), self._some()
        self.list.append(faults.Cut(at_ms=at, source=source, target=target, both=chance(self.rng, 0.2)))
        if chance(self.rng, 0.7):
            self.list.append(faults.Heal(at_ms=self._time(at), source=source, target=target))

    def _clog(self, at: float) -> None:
        source, target, both = self._some(), self._some(), chance(self.rng, 0.5)
        self.list.append(faults.Clog(at_ms=at, source=source, target=target, both=both))
        until = min(self.end_ms, at + between(self.rng, 5, 1_500))
        self.list.append(faults.Unclog(at_ms=until, source=source, target=target, both=both, release=self._release()))

    def _release(self) -> Release:
        return pick(self.rng, ("fifo", "lifo", "shuffle"))

    def _weather(self, at: float) -> None:
        rng = self.rng
        loss = pick(rng, (0.0, 0.1, 0.4))
        self.list.append(
            faults.SetNetwork(at_ms=at, source=self._some(), both=chance(rng, 0.5), latency=_latency(rng), loss=loss)
        )

    def _leave(self, at: float) -> None:
        who = pick(self.rng, self.everybody)
        self.list.append(faults.Leave(at_ms=at, who=who))
        if chance(self.rng, 0.5):
            self.list.append(faults.Join(at_ms=self._time(at), who=who))

    def _reset(self, at: float) -> None:
        self.list.append(faults.Reset(at_ms=at, source=self._some(), target=self._some()))

    def _heal(self) -> None:
        """Everything is good again; at least the seeds and two members are alive, if need be anew."""
        rng, end = self.rng, self.end_ms
        back = self.members if chance(rng, 0.5) else [*self.seeds, *sample(rng, self.members, 2)]
        leaving = {name for fault in self.list if isinstance(fault, faults.Leave) for name in faults.names(fault.who)}
        if not leaving.isdisjoint(self.seeds):  # who is still about to leave at the end does so after it
            self.list.append(faults.Join(at_ms=end + LEFT_MS, who=self.seeds))
        self.list += [
            faults.SetNetwork(at_ms=end, bandwidth_bps=0, **GOOD),  # type: ignore[arg-type]
            faults.Heal(at_ms=end),
            faults.Unclog(at_ms=end, release=self._release()),
            faults.Resume(at_ms=end, who=self.everybody),
            faults.Join(at_ms=end, who=back),
        ]
