"""A simulation: a scenario, the code that runs in it, and hands on it (advance, crash, partition, ask).

`Simulation` is the public door. `run()` plays the scenario to its end; a test can also advance step by step with
`run_until`, act in between, and look at the endpoints and applications by name. The same inputs give the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from isotone.model.errors import ConfigError
from isotone.model.ids import ProcessId, process_id
from isotone.model.settings import EndpointConfig
from isotone.sim import faults
from isotone.sim.dial import Dialler
from isotone.sim.engine import Engine
from isotone.sim.faults import AnyFault, names, pairs
from isotone.sim.interface import EndpointFactory, EndpointLike
from isotone.sim.latency import nanoseconds
from isotone.sim.network import LinkSettings, Network
from isotone.sim.process import App, AppFactory, Process
from isotone.sim.rand import derive, stream
from isotone.sim.scenario import Scenario
from isotone.sim.workload import start_sources
from isotone.trace.recorder import TraceRecorder, digest_rows
from isotone.trace.schema import Row

NETWORK = "network#0"
"""The process whose rows tell what was done to the network."""


RESTART_NS = 1_000_000
"""An expelled process is back after this."""


class Result(msgspec.Struct, frozen=True):
    """What a run leaves behind. `rows` is empty and `digest` is that of no rows when tracing was off.

    The recorders still hold their events, for a writer that builds columns from them.
    """

    scenario: Scenario
    rows: list[Row]
    digest: str
    stats: dict[str, Any]
    processes: dict[ProcessId, Process]
    recorders: list[TraceRecorder]


def default_factory(config: EndpointConfig, recorder: Any) -> EndpointLike:
    """The real endpoint."""
    from isotone.protocol.endpoint import Endpoint

    return Endpoint(config, recorder)


def _network_detail(scenario: Scenario) -> dict[str, str]:
    """What the trace says about the network: the seed, and the parameters of its links."""
    detail = {"seed": str(scenario.seed), "interface": scenario.network.interface}
    for name in LinkSettings.__struct_fields__:
        detail[name] = msgspec.json.encode(getattr(scenario.network, name), order="sorted").decode()
    if scenario.network.links:
        detail["links"] = msgspec.json.encode(scenario.network.links, order="sorted").decode()
    return detail


class Simulation:
    """One run of a scenario.

    `app` makes an application per process instance; `endpoint_factory` makes other endpoints than the library's (fakes,
    mutants); `trace` False records nothing; `wire` True sends every packet through the codec, bytes and all.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        app: AppFactory | None = None,
        endpoint_factory: EndpointFactory | None = None,
        trace: bool = True,
        wire: bool = False,
    ) -> None:
        self.scenario = scenario
        self.processes: dict[ProcessId, Process] = {}
        self.engine = Engine()
        self.network = Network(scenario.seed, self.engine.arrive, scenario.network.defaults(), scenario.network.interface)
        self.engine.network = self.network
        self._latest: dict[str, Process] = {}
        self.dialler = Dialler(self.engine, self._latest, nanoseconds(scenario.dial_ms))
        self.engine.on_expelled = lambda process: self.engine.at(self.now + RESTART_NS, self._restart, process)
        self._app = app
        self._factory = endpoint_factory or default_factory
        self._trace = trace
        self._recorders: list[TraceRecorder] = []
        self._everybody = scenario.everybody()
        self._seeds = tuple(scenario.seeds or scenario.members)
        self._ordering = scenario.ordering()
        self._timing = scenario.timing_settings()
        self._limits = scenario.limit_settings()
        self._fault_rng = stream(scenario.seed, "faults")
        self._finished = False
        if wire:
            from isotone.codec import decode_packet, encode_packet

            self.engine.encode, self.engine.decode = encode_packet, decode_packet
        self._net_recorder = self._recorder(NETWORK)
        if self._net_recorder is not None:
            self._net_recorder.start(0, _network_detail(scenario))
        for link in scenario.network.links:
            chosen = pairs(link.source, link.target, self._everybody, link.both)
            self.network.configure(chosen, link.changes(), 0)
        for fault in sorted(scenario.faults, key=lambda entry: entry.at_ms):
            self.engine.at(nanoseconds(fault.at_ms), self.apply, fault)
        for name in scenario.members:
            self.start(name)

    def _recorder(self, pid: ProcessId) -> TraceRecorder | None:
        if not self._trace:
            return None
        recorder = TraceRecorder(pid, self.scenario.name, "virtual")
        self._recorders.append(recorder)
        return recorder

    # --- looking and advancing -------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The virtual time in nanoseconds."""
        return self.engine.now

    def process(self, name: str) -> Process:
        """The latest process instance of a name."""
        if name not in self._latest:
            raise ConfigError(f"no process of the name {name!r} has started")
        return self._latest[name]

    def running(self) -> list[Process]:
        """The process instances that are running now, in the order of their start."""
        return [process for process in self.processes.values() if process.state == "running"]

    def app(self, name: str) -> App | None:
        """The application of the latest process instance of a name."""
        return self.process(name).app

    def run_until(self, time_ns: int) -> None:
        """Advance to a time."""
        self.engine.run_until(time_ns)

    def at(self, time_ns: int, function: Callable[[Simulation], None]) -> None:
        """Call a function with this simulation at a time."""
        self.engine.at(time_ns, function, self)

    def run(self) -> Result:
        """Advance to the scenario's end and close the books."""
        self.run_until(self.scenario.duration_ns)
        return self.finish()

    def finish(self, stop: bool = True) -> Result:
        """End all processes that are still running (their traces end in `stop`, if wanted) and gather the result."""
        if stop and not self._finished:
            self._finished = True
            for process in self.running():
                if process.recorder is not None:
                    process.recorder.stop(self.now)
        rows = [row for recorder in self._recorders for row in recorder.rows()]
        order = {recorder.process: index for index, recorder in enumerate(self._recorders)}
        rows.sort(key=lambda row: (row["time"], order[row["process"]], row["step"]))
        return Result(self.scenario, rows, digest_rows(rows), self.stats(), dict(self.processes), self._recorders)

    def stats(self) -> dict[str, Any]:
        """Counters of the run: of the engine, of the network, of each process."""
        return {
            "time_ns": self.now,
            "events": self.engine.events,
            "delivered": sum(process.delivered for process in self.processes.values()),
            "submitted": sum(process.submitted for process in self.processes.values()),
            "packets": self.network.counters.as_dict(),
            "dials": self.dialler.dials,
            "connections": self.dialler.connections,
            "remote_errors": len(self.dialler.remote_errors),
            "processes": {pid: process.stats() for pid, process in self.processes.items()},
        }

    # --- acting ----------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Process:
        """Start a name that is not alive, with the next incarnation."""
        old = self._latest.get(name)
        if old is not None and old.alive:
            return old
        incarnation = 1 if old is None else old.incarnation + 1
        pid = process_id(name, incarnation)
        scenario = self.scenario
        founder = name in self._seeds
        config = EndpointConfig(
            process=pid,
            address=name,
            founder=founder,
            found_after_ns=0 if name == self._seeds[0] and old is None else nanoseconds(scenario.found_after_ms),
            ordering=self._ordering,
            timing=self._timing,
            limits=self._limits,
            membership=scenario.membership,
            founders=tuple(scenario.founders),
            trace_receives=scenario.trace_receives,
            seed=derive(scenario.seed, "endpoint", pid),
        )
        recorder = self._recorder(pid)
        app = self._app(pid) if self._app is not None else None
        process = self.engine.start(name, incarnation, pid, self._factory(config, recorder), app, recorder)
        self.processes[pid] = process
        self._latest[name] = process
        if old is not None:
            self.dialler.replaced(old)
        self.dialler.begin(process, self._seeds)
        start_sources(self.engine, process, scenario.workload, scenario.seed)
        return process

    def _restart(self, process: Process) -> None:
        """A process that was expelled comes back with the next incarnation, unless it wanted to leave."""
        if self._latest[process.name] is process and not process.leaving:
            self.engine.crash(process)
            self.start(process.name)

    def apply(self, fault: AnyFault) -> None:
        """Carry out a fault now, whatever its time says."""
        self._note(fault)
        now, network = self.now, self.network
        if isinstance(fault, faults.Partition):
            network.partition(fault.groups, now)
        elif isinstance(fault, faults.Heal):
            named = names(fault.source) or names(fault.target)
            network.heal(pairs(fault.source, fault.target, self._everybody) if named else None, now)
        elif isinstance(fault, faults.Reset):
            for one, other in pairs(fault.source, fault.target, self._everybody):
                if one in self._latest and other in self._latest:
                    self.dialler.reset(self._latest[one], self._latest[other])
        elif isinstance(fault, faults.Cut | faults.Clog | faults.Unclog | faults.SetNetwork):
            chosen = pairs(fault.source, fault.target, self._everybody, fault.both)
            if isinstance(fault, faults.Cut):
                network.cut(chosen, now)
            elif isinstance(fault, faults.Clog):
                network.clog(chosen, now)
            elif isinstance(fault, faults.Unclog):
                network.unclog(chosen, fault.release, now)
            else:
                network.configure(chosen, fault.changes(), now)
        else:
            for name in names(fault.who):
                self._apply_to(fault, name)

    def _apply_to(self, fault: AnyFault, name: str) -> None:
        engine, process = self.engine, self._latest.get(name)
        if isinstance(fault, faults.Join | faults.Restart):
            if process is not None and (isinstance(fault, faults.Restart) or process.endpoint.closed):
                engine.crash(process)
            self.start(name)
        elif process is None:
            return
        elif isinstance(fault, faults.Crash):
            if fault.during == "now":
                engine.crash(process, fault.silent)
            else:
                engine.doom(process, fault.during, self._fault_rng, nanoseconds(fault.within_ms))
        elif isinstance(fault, faults.Pause):
            engine.pause(process)
            if fault.for_ms:
                engine.at(self.now + nanoseconds(fault.for_ms), engine.resume, process)
        elif isinstance(fault, faults.Resume):
            engine.resume(process)
        elif isinstance(fault, faults.Leave):
            engine.leave(process)
        elif isinstance(fault, faults.Switch):
            engine.switch(process, fault.wish)

    def _note(self, fault: AnyFault) -> None:
        recorder = self._net_recorder
        if recorder is None:
            return
        kind = str(type(fault).__struct_config__.tag)
        detail = {"kind": kind}
        for key, value in msgspec.to_builtins(fault).items():
            if key not in ("kind", "at_ms") and value not in (None, [], False):
                detail[key] = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
        healing = isinstance(fault, faults.Heal | faults.Unclog | faults.Resume | faults.Restart | faults.Join)
        (recorder.heal if healing else recorder.fault)(self.now, None, detail)
