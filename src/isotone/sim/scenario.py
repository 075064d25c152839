"""Scenarios: everything that decides a simulated run, as data, and their TOML form.

`docs/scenarios.md` documents every key. An unknown key is an error that names the nearest valid one; so is a member, a
fault or a workload phase that cannot be. A scenario that loads can be run.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from isotone.model.conflicts import Conflicts, conflicts_from, load_conflicts, read_conflicts
from isotone.model.errors import ConfigError, unknown
from isotone.model.ids import process_id
from isotone.model.settings import Limits, MembershipKind, Timing, check_membership
from isotone.model.view import Level, Ordering
from isotone.protocol.ordering import registry
from isotone.sim.faults import AnyFault, Fault, Names, Partition, given, names
from isotone.sim.latency import Latency, nanoseconds
from isotone.sim.network import Interface, LinkSettings
from isotone.sim.workload import Phase


class LinkOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other parameters for some directions; later entries win."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")
    both: bool = False
    latency: Latency | None = None
    bandwidth_bps: int | None = None
    queue_ms: float | None = None
    loss: float | None = None
    duplicate: float | None = None
    reorder: float | None = None
    reorder_ms: float | None = None

    def changes(self) -> dict[str, object]:
        """The parameters that are given."""
        return given(self)


class NetworkSettings(LinkSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of all links, and exceptions for some."""

    interface: Interface = "pair"
    links: list[LinkOverride] = msgspec.field(default_factory=list)

    def defaults(self) -> LinkSettings:
        """The parameters of a link without an exception."""
        return LinkSettings(**{name: getattr(self, name) for name in LinkSettings.__struct_fields__})


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run, but for the code that runs in it."""

    name: str = "scenario"
    description: str = ""
    members: list[str]
    duration_ms: float
    seed: int = 0
    order: str = "single_phase"
    level: Level = "agreed"
    k: int = 1
    options: dict[str, int | str | bool] = {}
    conflicts: Conflicts | None = None
    membership: MembershipKind = "partitionable"
    founders: list[str] = []
    trace_receives: bool = False
    seeds: list[str] = []
    dial_ms: float = 100.0
    found_after_ms: float = 1_000.0
    timing: dict[str, float] = {}
    limits: dict[str, int] = {}
    network: NetworkSettings = NetworkSettings()
    workload: list[Phase] = []
    faults: list[AnyFault] = []

    def __post_init__(self) -> None:
        _check(self)

    @property
    def duration_ns(self) -> int:
        """The virtual length of the run."""
        return nanoseconds(self.duration_ms)

    def ordering(self) -> Ordering:
        """How the group orders its messages."""
        return Ordering(self.order, self.level, self.k, dict(self.options), self.conflicts)

    def timing_settings(self) -> Timing:
        """The endpoints' clocks."""
        return Timing(**{key.removesuffix("_ms") + "_ns": nanoseconds(value) for key, value in self.timing.items()})

    def limit_settings(self) -> Limits:
        """The endpoints' bounds."""
        return Limits(**self.limits)

    def everybody(self) -> list[str]:
        """All names that occur: the members, then those that join later."""
        result = dict.fromkeys(self.members)
        for fault in self.faults:
            if type(fault).__struct_config__.tag == "join":
                result.update(dict.fromkeys(names(fault.who)))  # type: ignore[union-attr]
        return list(result)


TIMING_KEYS = tuple(name.removesuffix("_ns") + "_ms" for name in Timing.__struct_fields__)
LIMIT_KEYS = Limits.__struct_fields__


def _check(scenario: Scenario) -> None:
    if not scenario.members:
        raise ConfigError("members: a scenario needs at least one")
    everybody = scenario.everybody()
    for name in everybody:
        process_id(name, 1)
    if len(set(scenario.members)) != len(scenario.members):
        raise ConfigError("members: a name stands there twice")
    if scenario.duration_ms <= 0 or scenario.dial_ms <= 0 or scenario.found_after_ms < 0:
        raise ConfigError("duration_ms and dial_ms must be positive, found_after_ms must not be negative")
    for key in scenario.timing:
        if key not in TIMING_KEYS:
            raise unknown("scenario key", f"timing.{key}", [f"timing.{name}" for name in TIMING_KEYS])
    for key in scenario.limits:
        if key not in LIMIT_KEYS:
            raise unknown("scenario key", f"limits.{key}", [f"limits.{name}" for name in LIMIT_KEYS])
    scenario.timing_settings()
    scenario.limit_settings()
    for link in scenario.network.links:
        LinkSettings(**link.changes())  # type: ignore[arg-type]
        _check_names("network.links", [*names(link.source), *names(link.target)], everybody)
    for phase in scenario.workload:
        _check_names("workload.members", phase.members, everybody)
        if scenario.conflicts is not None and scenario.conflicts.by != "predicate":
            for type_ in phase.types:
                scenario.conflicts.validate(type_, phase.items)
    _check_names("seeds", scenario.seeds, everybody)
    check_membership(scenario.membership, scenario.founders)
    _check_names("founders", scenario.founders, everybody)
    for fault in scenario.faults:
        _check_fault(fault, everybody)


def _check_fault(fault: AnyFault, everybody: list[str]) -> None:
    kind = str(type(fault).__struct_config__.tag)
    if fault.at_ms < 0:
        raise ConfigError(f"faults: at_ms of a {kind} must not be negative")
    if isinstance(fault, Partition):
        mentioned = [name for group in fault.groups for name in group]
        if len(set(mentioned)) != len(mentioned):
            raise ConfigError("faults: a name stands in two groups of a partition")
    else:
        values = [getattr(fault, field, []) for field in ("who", "source", "target")]
        mentioned = [name for value in values for name in names(value)]
    _check_names(f"faults ({kind})", mentioned, everybody)


def _check_names(where: str, given_names: Iterable[str], everybody: list[str]) -> None:
    for name in given_names:
        if name not in everybody:
            raise unknown(f"member in {where}", name, everybody)


# --- TOML ----------------------------------------------------------------------------------------------------------


def load_scenario(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario; `overrides` maps dotted keys (`network.loss`, `workload.0.interval_ms`) to other values."""
    data = read_scenario(path)
    try:
        return parse_scenario(data, overrides)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_scenario(path: str | Path) -> dict[str, Any]:
    """What the TOML file of a scenario holds, not yet checked; the name is that of the file if it gives none."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    data.setdefault("name", Path(path).stem)
    if isinstance(data.get("conflicts"), str):
        file = Path(path).parent / data["conflicts"]
        load_conflicts(file)  # what is wrong with it is said of that file
        data["conflicts"] = read_conflicts(file)
    return data


def parse_scenario(data: dict[str, Any], overrides: Mapping[str, Any] | None = None) -> Scenario:
    """A scenario from what a TOML file holds; `overrides` are those of `load_scenario`."""
    if overrides:
        data = copy.deepcopy(data)
        if "order" in overrides and overrides["order"] != data.get("order", "single_phase"):
            data.pop("options", None)  # they belong to the order of the file
            if not takes_conflicts(overrides["order"]):
                data.pop("conflicts", None)
        for key, value in overrides.items():
            _override(data, key, value)
    _check_keys(data, Scenario, "")
    if "conflicts" in data:
        data = {**data, "conflicts": _relation(data["conflicts"])}
    try:
        return msgspec.convert(data, Scenario)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigError):  # raised by a struct's own check
            raise error.__cause__ from None
        raise ConfigError(str(error).replace("`$.", "`")) from None


def takes_conflicts(order: Any) -> bool:
    """Whether an order looks at a conflict relation; a scenario that is run with another one has none."""
    return order in registry.names() and registry.find(order).semantic


def _relation(given: Any) -> Conflicts:
    """A relation from the table of a scenario, or from the file that an override names."""
    if isinstance(given, str):
        return load_conflicts(given)
    if not isinstance(given, Mapping):
        raise ConfigError("conflicts must be a table or the path of a conflict file")
    try:
        return conflicts_from(given)
    except ConfigError as error:
        raise ConfigError(f"conflicts: {error}") from None


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as overrides; a value is read as TOML, and as plain text if it is no TOML."""
    result: dict[str, Any] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key.strip():
            raise ConfigError(f"{text!r}: write key=value")
        try:
            result[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            result[key.strip()] = value
    return result


def _override(data: dict[str, Any], key: str, value: Any) -> None:
    parts = key.split(".")
    place: Any = data
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(place, list):
            if not part.isdecimal() or int(part) >= len(place):
                raise ConfigError(f"override {key!r}: {part!r} is not an index below {len(place)}")
            index: Any = int(part)
        elif isinstance(place, dict):
            index = part
            if not last:
                place.setdefault(part, {})
        else:
            raise ConfigError(f"override {key!r}: nothing lies below {'.'.join(parts[:depth])!r}")
        if last:
            place[index] = value
        else:
            place = place[index]


LATENCIES: dict[str, type[msgspec.Struct]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Latency)}
FAULTS: dict[str, type[Fault]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyFault)}


def keys_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The keys that a TOML table for this struct may have."""
    tag_field = struct.__struct_config__.tag_field
    return (*((tag_field,) if tag_field else ()), *struct.__struct_encode_fields__)


def _check_keys(data: Any, struct: type[msgspec.Struct], where: str) -> None:
    """Raise an error for the first key that does not exist, before types are looked at."""
    if not isinstance(data, dict):
        return
    valid = keys_of(struct)
    for key, value in data.items():
        if key not in valid:
            raise unknown("scenario key", where + key, [where + name for name in valid])
        if key == "network" and struct is Scenario:
            _check_keys(value, NetworkSettings, "network.")
        elif key == "latency":
            _check_tagged(value, LATENCIES, f"{where}latency.", "latency kind")
        elif key in ("workload", "faults", "links") and isinstance(value, list):
            for entry in value:
                if key == "faults":
                    _check_tagged(entry, FAULTS, "faults.", "fault kind")
                else:
                    _check_keys(entry, Phase if key == "workload" else LinkOverride, f"{where}{key}.")


def _check_tagged(data: Any, kinds: Mapping[str, type[msgspec.Struct]], where: str, what: str) -> None:
    if not isinstance(data, dict):
        return
    kind = data.get("kind")
    if kind is None:
        raise ConfigError(f"{where}kind is missing: one of {', '.join(sorted(kinds))}")
    if not isinstance(kind, str) or kind not in kinds:
        raise unknown(what, str(kind), kinds)
    _check_keys(data, kinds[kind], where)
