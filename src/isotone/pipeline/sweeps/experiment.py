"""Experiments: a scenario, grids of its parameters, seeds, checks and measures, as data; and the cells they span.

`docs/sweep.md` documents every key. All of it is checked before anything runs: an unknown key, check, measure or scenario key
is an error that names the nearest valid one, and every point of the grid is built once.

Invariants: cells have distinct ids; the id of a cell covers all that decides its row (the scenario with the parameters and
the seed in place, the checks and their conflict relation, whether there
are metrics, the measures' code, the code of this package) and nothing else.
"""

import hashlib
import math
import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from isotone.model.conflicts import load_conflicts
from isotone.model.errors import ConfigError, unknown
from isotone.pipeline.oracle import CHECKS, Expectation
from isotone.pipeline.ship import sources
from isotone.pipeline.sweeps.measures import Measure, load_measure
from isotone.protocol.ordering.registry import validate
from isotone.sim import Scenario, parse_scenario, read_scenario

KEYS: Final = ("description", "scenario", "grid", "seeds", "checks", "conflicts", "metrics", "measures", "timeout_s")
TIMEOUT_S: Final = 600.0
INLINE: Final = "scenario.toml"
"""The file that a sweep writes for a scenario that stands in the experiment, for replays."""
_DECIDING: Final = ("model", "protocol", "trace", "sim", "pipeline/oracle", "pipeline/metrics", "pipeline/sweeps")
"""The packages whose code decides what stands in a row."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a scenario with parameters and a seed."""

    id: str
    scenario: int
    """Index in `Experiment.scenarios`."""
    parameters: Mapping[str, Any]
    seed: int
    cost: float
    """Expected, in no unit: decides the order of work only."""


@dataclass(frozen=True, slots=True)
class Base:
    """A scenario as its file has it."""

    path: str | None
    """None if it stands in the experiment."""
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A checked experiment."""

    scenarios: tuple[Base, ...]
    cells: tuple[Cell, ...]
    parameters: tuple[str, ...]
    checks: tuple[str, ...] | None
    """None for those that the protocols promise."""
    expected: Expectation
    metrics: tuple[str, ...] | None
    """Those that the table shows; None for all, and none are measured if empty."""
    measures: tuple[Measure, ...]
    timeout_s: float

    def replay(self, cell: Cell, inline: str) -> str:
        """The command that simulates the cell alone; `inline` is the file of a scenario that stands in the experiment."""
        path = self.scenarios[cell.scenario].path or inline
        words = ["isotone", "simulate", path, "--seed", str(cell.seed)]
        for key, value in cell.parameters.items():
            words += ["--set", f"{key}={toml_text(value)}"]
        return shlex.join(words)


def load_experiment(path: str | Path) -> Experiment:
    """Read the TOML file of an experiment; files it names are looked for beside it."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        return parse_experiment(data, Path(path).parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_experiment(data: Mapping[str, Any], directory: str | Path = ".") -> Experiment:
    """An experiment from what a TOML file holds; files it names are looked for in `directory`."""
    for key in data:
        if key not in KEYS:
            raise unknown("experiment key", key, KEYS)
    if "scenario" not in data:
        raise ConfigError("scenario is missing: the path of a scenario, several paths, or a table")
    scenarios = tuple(_base(given, Path(directory)) for given in _some(data["scenario"]))
    checks = _names(data, "checks")
    for name in checks or ():
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    conflicts, relation = _conflicts(data.get("conflicts"), Path(directory))
    measures = tuple(load_measure(name, Path(directory)) for name in _names(data, "measures") or ())
    timeout_s = data.get("timeout_s", TIMEOUT_S)
    if not _is_number(timeout_s) or timeout_s <= 0:
        raise ConfigError("timeout_s must be a positive number of seconds")
    points = [point for grid in _some(data.get("grid", {})) for point in _points(grid)]
    metrics = _names(data, "metrics")
    if metrics:
        _know(metrics)
    judged = msgspec.json.encode([checks, conflicts, metrics != (), [(one.name, one.code) for one in measures], _code()])
    cells: dict[str, Cell] = {}
    for index, base in enumerate(scenarios):
        for point in points:
            for cell in _cells(index, base, point, data.get("seeds"), judged):
                cells.setdefault(cell.id, cell)
    keys = dict.fromkeys(key for point in points for key in point)
    return Experiment(scenarios, tuple(cells.values()), tuple(keys), checks, relation, metrics, measures, float(timeout_s))


def _some(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    given = data.get(key)
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"{key} must be a list of names")
    return tuple(dict.fromkeys(given))


def _conflicts(given: Any, directory: Path) -> tuple[str, Expectation]:
    """What a conflict relation is identified by, and what it makes the checks expect."""
    if given is None:
        return "", Expectation()
    if not isinstance(given, str):
        raise ConfigError("conflicts must be the path of a conflict relation")
    path = directory / given
    relation = load_conflicts(path)
    return hashlib.sha256(path.read_bytes()).hexdigest(), Expectation(conflicts=relation)


def _know(metrics: Sequence[str]) -> None:
    try:
        from isotone.pipeline.metrics import COLUMNS
    except ImportError:
        raise ConfigError("metrics need Spark: pip install 'isotone[spark]'") from None
    for name in metrics:
        if name not in COLUMNS or name == "run":
            raise unknown("metric", name, [column for column in COLUMNS if column != "run"])


def _base(given: Any, directory: Path) -> Base:
    if isinstance(given, dict):
        data = {"name": Path(INLINE).stem, **given}
        return Base(None, data)
    if not isinstance(given, str):
        raise ConfigError("scenario must be the path of a scenario, several paths, or a table")
    path = os.path.normpath(directory / given)
    return Base(path, read_scenario(path))


# --- the grid ------------------------------------------------------------------------------------------------------


def _points(grid: Any) -> Iterator[dict[str, Any]]:
    """All combinations of one value per key."""
    if not isinstance(grid, dict):
        raise ConfigError("grid must be a table of lists, or several such tables")
    axes = dict(_axes(grid, ""))
    if "seed" in axes:
        raise ConfigError("grid: seed is no parameter, write seeds = COUNT or seeds = [...]")
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _axes(table: Mapping[str, Any], where: str) -> Iterator[tuple[str, list[Any]]]:
    """Dotted keys with their values: tables lead on, lists are values, anything else is one value."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _axes(value, f"{where}{key}.")
        else:
            values = _some(value)
            if not values:
                raise ConfigError(f"grid: {where}{key} has no values")
            yield where + key, values


def _cells(index: int, base: Base, point: Mapping[str, Any], seeds: Any, judged: bytes) -> Iterator[Cell]:
    try:
        scenario = parse_scenario(base.data, point)
        validate(scenario.ordering())
    except ConfigError as error:
        where = f"{base.path or 'scenario'}: "
        if not point:
            raise ConfigError(f"{where}{error}") from None
        shown = ", ".join(f"{key} = {toml_text(value)}" for key, value in point.items())
        raise ConfigError(f"{where}grid point {shown}: {error}") from None
    cost = expected_cost(scenario)
    content = msgspec.to_builtins(msgspec.structs.replace(scenario, description=""))
    for seed in _seeds(seeds, scenario.seed):
        content["seed"] = seed
        digest = hashlib.sha256(judged + msgspec.json.encode(content, order="sorted")).hexdigest()
        yield Cell(digest[:16], index, point, seed, cost)


def _seeds(given: Any, own: int) -> Sequence[int]:
    if given is None:
        return (own,)
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return range(1, given + 1)
    if isinstance(given, list) and given and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in given):
        return list(dict.fromkeys(given))
    raise ConfigError("seeds must be a positive count or a list of integers")


def expected_cost(scenario: Scenario) -> float:
    """About how many deliveries and heartbeats a run will see."""
    members = len(scenario.everybody())
    heartbeats = scenario.duration_ms / (scenario.timing_settings().heartbeat_ns / 1e6) * members * members
    sent = 0.0
    for phase in scenario.workload:
        time_ms = max(0.0, (phase.stop_ms or scenario.duration_ms) - phase.start_ms)
        if phase.kind == "bursty":
            time_ms *= phase.on_ms / (phase.on_ms + phase.off_ms)
        each = time_ms / phase.interval_ms * phase.burst
        sent += (min(each, phase.count) if phase.count else each) * (len(phase.members) or members)
    return heartbeats + sent * members


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for name, data in sources(*_DECIDING):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


# --- TOML ----------------------------------------------------------------------------------------------------------


def toml_text(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {toml_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def toml_file(data: Mapping[str, Any]) -> str:
    """A table as a TOML file, one line per key."""
    return "".join(f"{_quoted(key)} = {toml_text(value)}\n" for key, value in data.items())
