"""Faults as data: what a scenario's timed list can say. `simulation.py` carries them out.

Times are milliseconds from the start of the run. `who`, `from` and `to` take one name or a list of names; an empty
`from` or `to` means everybody.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from isotone.model import switch
from isotone.model.errors import ConfigError
from isotone.model.switch import Rule, Strategy
from isotone.model.view import Level, Ordering
from isotone.protocol.ordering import registry
from isotone.sim.latency import Latency
from isotone.sim.network import LinkSettings, Release

Names = str | list[str]


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Something that happens at a time."""

    at_ms: float


class Partition(Fault, frozen=True, kw_only=True, tag="partition"):
    """Only members of the same group reach each other; names in no group make up one more group."""

    groups: list[list[str]]


class Heal(Fault, frozen=True, kw_only=True, tag="heal"):
    """Open directions that were cut; without `from` and `to`, everything that was cut or partitioned (not clogs)."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")


class Cut(Fault, frozen=True, kw_only=True, tag="cut"):
    """Close the directions from some names to some names; `both` closes the opposite directions too."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")
    both: bool = False


class Clog(Fault, frozen=True, kw_only=True, tag="clog"):
    """Hold what is sent in these directions."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")
    both: bool = False


class Unclog(Fault, frozen=True, kw_only=True, tag="unclog"):
    """Send what was held: in order (`fifo`), the last first (`lifo`), or in a random order (`shuffle`)."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")
    both: bool = False
    release: Release = "fifo"


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """Kill processes: at once, or while they send the packets of their next turn, of which only a part goes out.

    A silent crash closes no connection: peers learn of it by silence alone.
    """

    who: Names
    during: Literal["now", "prefix", "subset"] = "now"
    within_ms: float = 100.0
    silent: bool = False


class Restart(Fault, frozen=True, kw_only=True, tag="restart"):
    """Start names again, with the next incarnation; one that is alive is crashed first."""

    who: Names


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """Stop processes as SIGSTOP does; `for_ms` 0 leaves them stopped until a `resume`."""

    who: Names
    for_ms: float = 0.0


class Resume(Fault, frozen=True, kw_only=True, tag="resume"):
    """Let paused processes go on."""

    who: Names


class Leave(Fault, frozen=True, kw_only=True, tag="leave"):
    """Let processes leave the group gracefully."""

    who: Names


class Join(Fault, frozen=True, kw_only=True, tag="join"):
    """Start names that are not alive: new ones, or ones that left or crashed (with the next incarnation)."""

    who: Names


class Switch(Fault, frozen=True, kw_only=True, tag="switch"):
    """Let processes ask for another ordering; what the group makes of it is in the trace."""

    who: Names
    order: str
    level: Level = "agreed"
    k: int = 1
    options: dict[str, int | str | bool] = {}
    strategy: Strategy = "dual_ids"
    rule: Rule = "all"
    fresh: bool = False

    def __post_init__(self) -> None:
        registry.validate(self.wish.ordering)

    @property
    def wish(self) -> switch.Switch:
        """What is asked for."""
        return switch.Switch(Ordering(self.order, self.level, self.k, self.options), self.strategy, self.rule, self.fresh)


class Reset(Fault, frozen=True, kw_only=True, tag="reset"):
    """Break the connections between some names and some names; both sides notice and dial again."""

    source: Names = msgspec.field(default_factory=list, name="from")
    target: Names = msgspec.field(default_factory=list, name="to")


class SetNetwork(Fault, frozen=True, kw_only=True, tag="set"):
    """Change parameters of links; what is not given stays as it is."""

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

    def __post_init__(self) -> None:
        if not self.changes():
            raise ConfigError("fault 'set' changes nothing: give at least one network parameter")
        LinkSettings(**self.changes())  # type: ignore[arg-type]


AnyFault = Partition | Heal | Cut | Clog | Unclog | Crash | Restart | Pause | Resume | Leave | Join | Switch | Reset | SetNetwork


def given(settings: msgspec.Struct) -> dict[str, object]:
    """The link parameters of a struct that has them as optional fields, without those that are None."""
    values = {name: getattr(settings, name) for name in LinkSettings.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def names(value: Names) -> list[str]:
    """One name or a list of names, as a list."""
    return [value] if isinstance(value, str) else value


def pairs(source: Names, target: Names, everybody: list[str], both: bool = False) -> list[tuple[str, str]]:
    """The directions from some names to some names, in a fixed order; empty means everybody."""
    result: dict[tuple[str, str], None] = {}
    for one in names(source) or everybody:
        for other in names(target) or everybody:
            if one != other:
                result[one, other] = None
                if both:
                    result[other, one] = None
    return list(result)
