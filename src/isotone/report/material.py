"""Gathers what a report shows, with Spark: figures of the runs, and small cut-outs around what is in question.

Invariant: the driver holds figures of at most `RUNS_MOST` runs and at most `LIMIT` rows per cut-out, whatever the trace holds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from isotone.model.errors import ConfigError
from isotone.pipeline.excerpt import LIMIT, fetch
from isotone.pipeline.history import Loaded, read_history
from isotone.pipeline.kernels.excerpt import Wish
from isotone.pipeline.metrics import READ
from isotone.pipeline.oracle import Report
from isotone.pipeline.plan import Source, make_plan
from isotone.pipeline.session import spark_errors
from isotone.report.cutout import CutOut, Group, cut_around, cut_range, group_witnesses, spans_around, unsent
from isotone.report.figures import Figures, figures_of
from isotone.report.stats import show_duration, show_moment
from isotone.report.story import RowLike

RUNS_MOST: Final = 8
"""So many runs are shown; those that a witness is about come first."""
ROWS_PER_PARTITION: Final = 200_000
AROUND_TURN_NS: Final = 2_000_000
"""So much time on either side of a switch at least."""
AROUND: Final = 60
"""Steps on either side of a chosen one."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A part of the trace that the user asks for: around a step of a process, or a range of time since the start."""

    around: tuple[str, int] | None = None
    span: tuple[int, int] | None = None


@dataclass(slots=True)
class RunMaterial:
    """One run."""

    figures: Figures
    cuts: list[CutOut] = field(default_factory=list)


@dataclass(slots=True)
class Material:
    """What the page shows besides the verdicts."""

    summary: dict[str, Any]
    runs: list[RunMaterial] = field(default_factory=list)
    witnesses: dict[str, list[RowLike]] = field(default_factory=dict)
    """By check: the rows that its witness is about."""


def gather(session: Any, paths: Sequence[str], report: Report, chosen: Chosen | None = None) -> Material:
    """Everything that a page about these traces and this report needs."""
    plan = make_plan([str(path) for path in paths])
    loaded = read_history(session, paths, columns=READ)
    with spark_errors(session), _few_partitions(session, loaded.summary()["rows"]):
        return _Gathering(session, plan.sources, loaded, report, chosen or Chosen()).run()


@contextmanager
def _few_partitions(session: Any, rows: int) -> Iterator[None]:
    """A short history needs few tasks: the figures are many small queries, and most of their time is starting tasks."""
    name = "spark.sql.shuffle.partitions"
    before = session.conf.get(name)
    session.conf.set(name, str(max(1, min(int(before), rows // ROWS_PER_PARTITION))))
    try:
        yield
    finally:
        session.conf.set(name, before)


class _Gathering:
    def __init__(self, session: Any, sources: Sequence[Source], loaded: Loaded, report: Report, chosen: Chosen) -> None:
        self._session = session
        self._sources = sources
        self._chosen = chosen
        self._material = Material(loaded.summary())
        every = self._material.summary["runs"]
        self._groups = group_witnesses(report.checks, every[0] if len(every) == 1 else "")
        about = [group.run for group in self._groups if group.run in every]
        self._runs = list(dict.fromkeys((*about, *every)))[:RUNS_MOST]
        self._history = self._only(loaded.history) if len(every) > len(self._runs) else loaded.history

    def _only(self, history: Any) -> Any:
        from pyspark.sql import functions as F

        return history.where(F.coalesce("run", F.lit("")).isin(*self._runs))

    def run(self) -> Material:
        from isotone.pipeline.metrics import report_data  # needs Spark

        near = fetch(self._session, self._sources, self._near())
        if self._chosen.around is not None and not any(near):
            process, step = self._chosen.around
            raise ConfigError(f"--around {process}:{step}: the trace has no such process, or nothing near that step")
        data = {entry["run"]: entry for entry in report_data(self._history, rows=self._material.summary["rows"])["runs"]}
        self._zeros = self._zeros_of(data)
        self._material.runs = [RunMaterial(figures_of(data[run])) for run in self._runs]
        self._cut(near)
        return self._material

    def _zeros_of(self, data: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
        """By run and process: the time at which the run starts on its clock, where it has times."""
        people = {run: entry["processes"] for run, entry in data.items()}
        if any(len(people[run]) < entry["processes_total"] for run, entry in data.items()):
            from isotone.pipeline.metrics import processes

            people = {run: [] for run in data}
            for row in processes(self._history).select("run", "process", "zero").collect():
                people[row["run"]].append(row)
        return {run: {one["process"]: one["zero"] for one in some if one["zero"] is not None} for run, some in people.items()}

    def _cut(self, near: Sequence[Sequence[RowLike]]) -> None:
        """Three looks into the files: the rows in question, what lies around them, the sends that are outside."""
        groups = [group for group in self._groups if group.run in self._runs]
        calm = [run for run in self._material.runs if all(group.run != run.figures.run for group in groups)]
        anchors = fetch(self._session, self._sources, [_about(group) for group in groups])
        second = [Wish(group.run, steps=spans_around(rows)) for group, rows in zip(groups, anchors, strict=True)]
        ranges = self._ranges(calm, near)
        found = fetch(self._session, self._sources, [*second, *(wish for _, _, wish in ranges)])
        cuts: list[tuple[str, CutOut]] = []
        for group, mine, rows in zip(groups, anchors, found, strict=False):
            self._witnessed(group, mine)
            if mine:
                zeros = self._zeros[group.run]
                cuts.append((group.run, cut_around(group, mine, rows, zeros, len(rows) < LIMIT)))
        for (title, why, wish), rows in zip(ranges, found[len(groups) :], strict=True):
            if rows:
                cuts.append((wish.run, cut_range(title, why, rows, self._zeros[wish.run], len(rows) < LIMIT)))
        outside = [Wish(run, messages=unsent(cut), sends_only=True) for run, cut in cuts]
        for (run, cut), rows in zip(cuts, fetch(self._session, self._sources, outside), strict=True):
            zeros = self._zeros[run]
            for row in rows if cut.story.timed else ():
                if row["process"] in zeros and row.get("time") is not None:
                    cut.sent.setdefault((row["origin"], row["number"]), row["time"] - zeros[row["process"]])
        for material in self._material.runs:
            material.cuts = [cut for run, cut in cuts if run == material.figures.run]

    def _witnessed(self, group: Group, rows: Sequence[RowLike]) -> None:
        for check in group.checks:
            if check.witness is None:
                continue
            messages, people = set(check.witness.messages), set(check.witness.processes)
            views = set(check.witness.views)
            self._material.witnesses[check.name] = [
                row
                for row in rows
                if (row["kind"] == "view" and row["process"] in people and (row["view_epoch"], row.get("view_proposer")) in views)
                or ((row.get("origin"), row.get("number")) in messages and (row["process"] in people or row["kind"] == "send"))
            ]

    def _near(self) -> list[Wish]:
        """The rows around the step that the user chose, in every run that is shown."""
        if self._chosen.around is None:
            return []
        process, step = self._chosen.around
        return [Wish(run, steps={process: [(step - AROUND, step + AROUND)]}) for run in self._runs]

    def _ranges(self, calm: Sequence[RunMaterial], near: Sequence[Sequence[RowLike]]) -> list[tuple[str, str, Wish]]:
        """What to show where no witness is: the range that the user chose, or else where most happens."""
        found: list[tuple[str, str, Wish]] = []
        for run, rows in zip(self._runs, near, strict=False):
            found += self._around(run, rows)
        if self._chosen.span is not None:
            start, end = self._chosen.span
            why = f"from {show_moment(start)} to {show_moment(end)}, as asked for"
            for run in self._runs:
                found.append(("The chosen range", why, Wish(run, times=(start, end), zeros=self._zeros[run])))
        if not found:
            for material in calm:
                found += [*self._slowest_turn(material.figures), self._liveliest(material.figures)]
        return found

    def _slowest_turn(self, figures: Figures) -> list[tuple[str, str, Wish]]:
        """The switch with the longest pause, and as much around it."""
        if not figures.turns:
            return []
        turn = max(figures.turns, key=lambda turn: (turn.gap, -turn.start))
        around = max(turn.end - turn.start, AROUND_TURN_NS)
        others = f"; the one of {len(figures.turns)} switches with the longest pause" if len(figures.turns) > 1 else ""
        why = f"from {show_moment(turn.start)} on, for {show_duration(turn.end - turn.start)}{others}"
        times = (turn.start - around, turn.end + around)
        return [(f"The switch {turn.name}", why, Wish(figures.run, times=times, zeros=self._zeros[figures.run]))]

    def _around(self, run: str, rows: Sequence[RowLike]) -> list[tuple[str, str, Wish]]:
        process, step = self._chosen.around or ("", 0)
        if not rows:
            return []
        zeros = self._zeros[run]
        title, why = "The chosen step", f"around step {step} of {process}, as asked for"
        times = [row["time"] - zeros[process] for row in rows if process in zeros and row.get("time") is not None]
        if times:
            return [(title, why, Wish(run, times=(min(times), max(times)), zeros=zeros))]
        messages: dict[str, list[int]] = {}
        for row in rows:
            if row.get("origin") is not None and row.get("number") is not None:
                messages.setdefault(row["origin"], []).append(row["number"])
        return [(title, why, Wish(run, messages=messages, steps={process: [(step - AROUND, step + AROUND)]}))]

    def _liveliest(self, figures: Figures) -> tuple[str, str, Wish]:
        if not figures.rates:
            return "The beginning", "the first events of every process", Wish(figures.run, first=True)
        busiest = max(figures.rates, key=lambda stretch: (sum(figures.rates[stretch]), -stretch))
        start = busiest * figures.width
        why = f"the {show_duration(figures.width)} from {show_moment(start)} on"
        times = (start, start + figures.width)
        return "Where most happens", why, Wish(figures.run, times=times, zeros=self._zeros[figures.run])


def _about(group: Group) -> Wish:
    messages: dict[str, list[int]] = {}
    for origin, number in group.messages:
        messages.setdefault(origin, []).append(number)
    return Wish(group.run, messages=messages, views=tuple(group.views))
