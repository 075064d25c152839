"""View changes, views and switches of one run; the definitions are in `isotone.pipeline.metrics.changes`."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from isotone.pipeline.metrics.columns import COST, DONE, NAMED, VIEW
from isotone.pipeline.metrics.plain.flow import text
from isotone.pipeline.metrics.plain.run import Run
from isotone.pipeline.metrics.plain.sums import Ints, Row, grouped, joint, one, whole

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
    paid = _paid(run)
    turns: dict[tuple[Any, ...], list[Row]] = {}
    before, turn = None, 0
    seen: dict[tuple[Any, ...], int] = {}
    for row in run.rows(("switch",), (*_MOMENT, *VIEW, "protocol", "detail")):
        detail = row["detail"] or {}
        row |= {name: detail.get(name) for name in (*NAMED, "instance", "phase")}
        numbered = row["instance"] is not None
        row["what"] = tuple(row[name] for name in (*VIEW, "instance", *(() if numbered else NAMED)))
        turn += before != (row["process"], row["what"])
        before = row["process"], row["what"]
        again = seen[turn, row["phase"]] = seen.get((turn, row["phase"]), 0) + 1
        turns.setdefault((turn, again), []).append(row)
    return [_switch(run, rows, paid) for rows in turns.values()]


def paid_places(run: Run) -> tuple[Ints, dict[int, str]]:
    """The packet rows for the sake of some switch, and for each code of their details the instance."""
    words = {code: msgspec.json.decode(word).get(COST) for code, word in enumerate(run.words("detail"))}
    instances = {code: instance for code, instance in words.items() if instance is not None}
    packets = run.of("packet")
    return packets[np.isin(run.codes("detail")[packets], list(instances))], instances


def _paid(run: Run) -> dict[tuple[Any, ...], int | None]:
    """By member, view and instance: what was sent for the sake of the switch to it."""
    places, instances = paid_places(run)
    details, sizes = run.codes("detail"), run.ints("size")
    epochs, proposers = run.ints("view_epoch"), run.codes("view_proposer")
    found: dict[tuple[Any, ...], int | None] = {}
    for _, mine in grouped(joint(*(column[places] for column in (run.process, epochs, proposers, details)))):
        first = places[mine[0]]
        proposer = text(run, "view_proposer", int(proposers[first]))
        key = (int(run.process[first]), one(epochs[first]), proposer, instances[int(details[first])])
        total = whole(sizes[places[mine]])
        found[key] = _plus(found[key], total) if key in found else total
    return found


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _switch(run: Run, rows: list[Row], paid: dict[tuple[Any, ...], int | None]) -> Row:
    begin, end = rows[0], rows[-1]
    took = _took(end, begin)
    done = any(row["phase"] == DONE for row in rows)
    missing = None
    if len(rows) == 1:
        missing = "switch.phase"
    elif not done:
        missing = "switch.done"
    elif took is None:
        missing = "switch.time"
    return {
        "process": end["process"],
        **{name: end[name] for name in (*VIEW, *NAMED, "instance")},
        "protocol": end["protocol"],
        "begin_step": begin["step"],
        "end_step": end["step"],
        "time": end["time"],
        "at": end["at"],
        "duration_ns": took if len(rows) > 1 and done else None,
        "phases": {row["phase"]: _minus(row["time"], begin["time"]) for row in rows if row["phase"] is not None},
        "missing": missing,
        "gap_ns": run.longest_gap(end["member"], begin["step"], end["step"]),
        "extra_bytes": paid.get((end["member"], *(end[name] for name in (*VIEW, "instance")))),
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
