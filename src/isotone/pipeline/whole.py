"""Runs without a usable candidate order, each decided as a whole by one task that reads it as integers.

Only what that task finds comes back: per check the messages that show a violation. The oracle judges the rows about them.

Invariant: a check that comes back without messages is *ok* by the oracle's definition over the whole run.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isotone.model.conflicts import Conflicts, from_name
from isotone.model.errors import ConfigError
from isotone.pipeline.combine import RunState
from isotone.pipeline.kernels import causal, order, place, semantic, single, switches
from isotone.pipeline.kernels.chunk import in_order
from isotone.pipeline.kernels.compact import Compact, Message, Part, assemble, part_of
from isotone.pipeline.kernels.load import Rejects
from isotone.pipeline.kernels.parcel import in_run
from isotone.pipeline.kernels.stretch import ViewId
from isotone.pipeline.oracle.history import agreed
from isotone.pipeline.stage import Stage, Unit, payload, read
from isotone.pipeline.visits import Run

_KERNELS: Final[dict[str, Callable[[Compact], list[Message]]]] = {
    "integrity": single.integrity,
    "duplication": single.duplication,
    "fifo": single.fifo,
    "causal": causal.causal,
    "total_pairwise": order.total_pairwise,
    "total_global": order.total_global,
    "position": place.position,
}
_SEMANTIC: Final = {
    "semantic_fifo": semantic.semantic_fifo,
    "semantic_causal": semantic.semantic_causal,
    "semantic_total": semantic.semantic_total,
}
_COLUMNS: Final = {
    "integrity": ("digest",),
    "position": place.COLUMNS,
    "switching": switches.COLUMNS,
    **dict.fromkeys(_SEMANTIC, semantic.COLUMNS),
}
"""What kernels read besides the events."""


@dataclass(frozen=True, slots=True)
class _Job:
    index: int
    run: str
    checks: Sequence[str]
    processes: Sequence[str]
    units: Sequence[tuple[Unit, frozenset[str]]]
    """What to read, and of which processes."""
    conflicts: Conflicts | None
    """As the caller gives it."""
    named: Mapping[str, str]
    """As processes of the run name it."""
    switched: frozenset[ViewId | None]

    def decide(self, check: str, run: Compact) -> list[Message] | ConfigError:
        if check == "switching":
            return switches.switching(run, self.switched)
        if check not in _SEMANTIC:
            return _KERNELS[check](run)
        if self.conflicts is not None:
            return _SEMANTIC[check](run, self.conflicts)
        try:
            text = agreed(self.named)
            return _SEMANTIC[check](run, Conflicts() if text is None else from_name(text))
        except ConfigError as error:  # the relation that the trace names cannot be applied
            return error


def decide_whole(
    stage: Stage, states: Sequence[RunState], runs: Mapping[str, Run], conflicts: Conflicts | None
) -> Iterator[tuple[RunState, dict[str, list[Message] | ConfigError]]]:
    """Per run, the checks that are decided and the messages that show a violation, if there is one, or why it stays open."""
    jobs = []
    for index, state in enumerate(states):
        checks = [check for check in state.undecided if check in _KERNELS or check in _COLUMNS]
        wanted: dict[int, set[str]] = {}
        for piece in state.each():
            wanted.setdefault(piece.unit, set()).add(piece.process)
        units = [(stage.units[unit], frozenset(mine)) for unit, mine in sorted(wanted.items())]
        if checks:
            switched = frozenset(runs[state.run].switched if state.run in runs else ())
            job = _Job(index, state.run, checks, sorted(state.pieces), units, conflicts, state.relations, switched)
            jobs.append((state.rows, job))
    if not jobs:
        return

    def work(job: _Job) -> Iterator[Any]:
        run = assemble(_parts(job), job.processes)
        found = {check: job.decide(check, run) for check in job.checks}
        yield payload(pickle.dumps(found), job=job.index)

    ordered = [job for _, job in sorted(jobs, key=lambda sized: -sized[0])]
    for row in stage.spread(ordered, work, "job long, payload binary").collect():
        yield states[row.job], pickle.loads(row.payload)


def _parts(job: _Job) -> Iterator[Part]:
    more = {column for check in job.checks for column in _COLUMNS.get(check, ())}
    for unit, processes in job.units:
        rows = read(unit, Rejects(), also=sorted(more))
        here = in_run(rows, job.run)
        for process in processes:
            mine = here & (rows.codes["process"] == rows.code("process", process))
            if mine.any():
                part = part_of(in_order(rows if mine.all() else rows.take(np.flatnonzero(mine)), Rejects()), more)
                if part is not None:
                    yield part
