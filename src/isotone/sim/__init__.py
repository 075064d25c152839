"""The deterministic simulator: virtual time, a network with faults, and the very code that runs live."""

from isotone.sim.interface import EndpointFactory, EndpointLike
from isotone.sim.process import App, AppFactory, Context, Process
from isotone.sim.run import run
from isotone.sim.scenario import Scenario, load_scenario, parse_overrides, parse_scenario, read_scenario
from isotone.sim.simulation import Result, Simulation

__all__ = [
    "App",
    "AppFactory",
    "Context",
    "EndpointFactory",
    "EndpointLike",
    "Process",
    "Result",
    "Scenario",
    "Simulation",
    "load_scenario",
    "parse_overrides",
    "parse_scenario",
    "read_scenario",
    "run",
]
