"""View changes, views and switches of one run; the definitions are in `isotone.pipeline.metrics.changes`."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, TypeAlias

from isotone.pipeline.metrics.plain.run import Run
from isotone.pipeline.metrics.plain.sums import Row

_MOMENT: Final = ("process", "step", "time", "kind")
_VIEW: Final = ("view_epoch", "view_proposer", "members", "protocol")
_Stay: TypeAlias = tuple[Row, Row | None, Row | None]
"""A view at a process, and the first flush and the first transitional signal after it."""


def view_changes(run: Run) -> list[Row]:
    """One row per view that a process installed."""
    found = []
    for member, stays in _stays(run):
        process = run.members[member].process
        before: _Stay | tuple[None, None, None] = (None, None, None)
        for stay in stays:
            (previous, flush, signal), view, before = before, stay[0], stay
            begin = flush or signal
            missing = None
            if previous is not None and begin is None:
                missing = "flush"
            elif begin is not None and begin["time"] is None:
                missing = "flush.time"
            elif previous is not None and view["time"] is None:
                missing = "view.time"
            found.append({
                "process": process,
                **{name: view[name] for name in _VIEW},
                "previous_epoch": previous["view_epoch"] if previous else None,
                "previous_proposer": previous["view_proposer"] if previous else None,
                "initial": previous is None,
                "begin_step": begin["step"] if begin else None,
                "end_step": view["step"],
                "time": view["time"],
                "at": view["at"],
                "duration_ns": _took(view, begin),
                "transitional_ns": _took(view, signal),
                "missing": missing,
                "gap_ns": run.longest_gap(member, begin["step"], view["step"]) if begin else None,
            })  # fmt: skip
    return found


def view_spans(run: Run) -> list[Row]:
    """One row per view and process: from when to when it was there, and when it froze."""
    found = []
    for member, stays in _stays(run):
        who = run.members[member]
        for (view, flush, _), following in zip(stays, [*(stay[0] for stay in stays[1:]), None], strict=True):
            end = following["at"] if following else None
            found.append({
                "process": who.process,
                **{name: view[name] for name in _VIEW},
                "start": view["at"],
                "end": who.since(who.last) if end is None else end,
                "frozen": flush["at"] if flush else None,
                "start_step": view["step"],
                "end_step": following["step"] if following else who.last_step,
            })  # fmt: skip
    return found


def switches(run: Run) -> list[Row]:
    """One row per switch at a process."""
    turns: dict[tuple[Any, ...], list[Row]] = {}
    before, turn = None, 0
    seen: dict[tuple[Any, ...], int] = {}
    for row in run.rows(("switch",), (*_MOMENT, "protocol", "detail")):
        detail = row["detail"] or {}
        row["what"] = tuple(detail.get(name) for name in ("strategy", "from", "to"))
        row["phase"] = detail.get("phase")
        turn += before != (row["process"], row["what"])
        before = row["process"], row["what"]
        again = seen[turn, row["phase"]] = seen.get((turn, row["phase"]), 0) + 1
        turns.setdefault((turn, again), []).append(row)
    return [_switch(run, rows) for rows in turns.values()]


def _switch(run: Run, rows: list[Row]) -> Row:
    begin, end = rows[0], rows[-1]
    took = _took(end, begin)
    return {
        "process": end["process"],
        **dict(zip(("strategy", "from", "to"), end["what"], strict=True)),
        "protocol": end["protocol"],
        "begin_step": begin["step"],
        "end_step": end["step"],
        "time": end["time"],
        "at": end["at"],
        "duration_ns": took if len(rows) > 1 else None,
        "phases": {row["phase"]: _minus(row["time"], begin["time"]) for row in rows if row["phase"] is not None},
        "missing": "switch.phase" if len(rows) == 1 else "switch.time" if took is None else None,
        "gap_ns": run.longest_gap(end["member"], begin["step"], end["step"]),
    }


def _stays(run: Run) -> Iterator[tuple[int, list[_Stay]]]:
    """Each process that has views, with them."""
    rows = run.rows(("flush", "transitional", "view"), (*_MOMENT, *_VIEW))
    for member, mine in groupby(rows, key=lambda row: int(row["member"])):
        stays: list[_Stay] = []
        for row in mine:
            if row["kind"] == "view":
                stays.append((row, None, None))
            elif stays:
                view, flush, signal = stays[-1]
                stays[-1] = (view, flush or row, signal) if row["kind"] == "flush" else (view, flush, signal or row)
        if stays:
            yield member, stays


def _minus(end: int | None, begin: int | None) -> int | None:
    return None if end is None or begin is None else end - begin


def _took(end: Row, begin: Row | None) -> int | None:
    took = _minus(end["time"], begin["time"]) if begin else None
    return took if took is not None and took >= 0 else None
