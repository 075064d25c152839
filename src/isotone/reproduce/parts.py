"""A part of the reproduction as data: a paper's experiments as points of one sweep, and what is made of their results.

A part has one scenario and *points*: named sets of parameters that replace some of it, each run with several seeds. `sections`
turns the rows of the sweep into figures and claims. The list of parts is `PARTS` in `run`.

Invariant: a claim's verdict is computed from the rows by a function of `criteria`; no text of this package says by itself
that something holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from isotone.model.errors import InvariantViolation
from isotone.report.markup import Markup

Parameters = Mapping[str, Any]
"""Dotted keys of the scenario and other values."""


@dataclass(frozen=True, slots=True)
class Paper:
    """Whose experiments they are."""

    number: str
    """As the papers are called in the documentation: `000` to `004`."""
    authors: str
    title: str
    published: str
    protocols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that can be wrong, and whether it is."""

    says: str
    paper: str
    """The paper's number, or what it says instead of one."""
    ours: str
    criterion: str
    holds: bool
    why: str = ""
    """What the data says about a claim that does not hold; shown only then."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A figure of the paper, or a question beyond it."""

    title: str
    place: str
    """Where in the paper; or that it is beyond it."""
    says: str
    setup: str
    figures: Sequence[Markup]
    claims: Sequence[Claim]
    notes: Sequence[Markup] = ()


class Results:
    """The rows of a sweep by the names of its points."""

    def __init__(self, points: Mapping[str, Parameters], rows: Sequence[Mapping[str, Any]], computed: Any = None) -> None:
        self.computed = computed
        """What the part's `compute` returned."""
        self._points = points
        self._rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in points}
        names = {identity(parameters): name for name, parameters in points.items()}
        for row in rows:
            self._rows[names[row["point"]]].append(row)

    def rows(self, point: str) -> list[Mapping[str, Any]]:
        """All rows of a point that were run to the end."""
        return [row for row in self._rows[point] if row["error"] is None]

    def values(self, point: str, column: str) -> list[float]:
        """What its seeds measured; nothing where there was nothing to measure."""
        return [value for row in self.rows(point) if (value := row.get(column)) is not None]

    def mean(self, point: str, column: str) -> float:
        """The mean over the seeds."""
        found = self.values(point, column)
        if not found:
            raise InvariantViolation(f"point {point!r} has no {column}: {[row['error'] for row in self._rows[point]]}")
        return fmean(found)

    def largest(self, point: str, column: str) -> float:
        """The largest of the seeds."""
        return max(self.values(point, column))

    def smallest(self, point: str, column: str) -> float:
        """The smallest of the seeds."""
        return min(self.values(point, column))

    def count(self, point: str, column: str) -> float:
        """The mean over the seeds of what may never have occurred."""
        rows = self.rows(point)
        return sum(row.get(column) or 0.0 for row in rows) / max(1, len(rows))

    def complete(self) -> bool:
        """Whether every point has a row."""
        return all(self.rows(name) for name in self._points)


@dataclass(frozen=True, slots=True)
class Part:
    """One paper's experiments."""

    name: str
    paper: Paper
    scenario: Mapping[str, Any]
    points: Callable[[bool], dict[str, Parameters]]
    """Of `quick`."""
    seeds: Callable[[bool], int]
    measures: tuple[Callable[[Any], dict[str, Any]], ...]
    sections: Callable[[Results, bool, Results | None], list[Section]]
    """Of the results, of `quick`, and of what live processes measured, if any did."""
    compute: Callable[[Path, bool, Any, Callable[[int, int], None]], Any] | None = None
    """What is computed without a simulated run: of the part's directory, of `quick`, of the Spark session, showing progress."""


@dataclass(slots=True)
class Verified:
    """What the checks said about some runs."""

    runs: int = 0
    events: int = 0
    violated: list[str] = field(default_factory=list)
    """The witness of each violation, with the command that repeats it."""
    failed: list[str] = field(default_factory=list)
    undecided: int = 0

    @property
    def verdict(self) -> str:
        """`ok`, `violated`, or `unknown` if some run failed or could not be decided."""
        if self.violated:
            return "violated"
        return "unknown" if self.failed or self.undecided else "ok"

    def add(self, other: "Verified") -> None:
        """Count others too."""
        self.runs += other.runs
        self.events += other.events
        self.violated += other.violated
        self.failed += other.failed
        self.undecided += other.undecided


def identity(parameters: Parameters) -> str:
    """What tells the parameters of one point from those of another."""
    return msgspec.json.encode(dict(parameters), order="sorted").decode()
