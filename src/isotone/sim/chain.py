"""What primary membership promises beyond the checks of every history: one chain of views, and silence of the blocked.

The chain: a view is entered from one view only (or from none), no view has two successors, and a majority of a view's members
takes part in its end, counting who leaves with it; the first view of a group holds exactly the founders. Who is blocked sends
nothing, and a group stands still only where it must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isotone.model.ids import name_of
from isotone.trace.schema import Row

if TYPE_CHECKING:
    from isotone.sim.simulation import Simulation

ViewKey = tuple[int, str]


def judge(rows: Sequence[Row], founders: Sequence[str]) -> list[str]:
    """What is wrong with the chain of views, in words."""
    at: dict[str, ViewKey] = {}
    members: dict[ViewKey, tuple[str, ...]] = {}
    origins: dict[ViewKey, set[ViewKey]] = {}
    together: dict[ViewKey, set[str]] = {}  # who ended a view as agreed, by the transitional signals
    for row in rows:
        kind = row["kind"]
        if kind == "transitional":
            together.setdefault((row["view_epoch"], row["view_proposer"]), set()).update(row["members"] or ())
        if kind != "view":
            continue
        view = (row["view_epoch"], row["view_proposer"])
        members[view] = tuple(row["members"])
        origin = at.get(row["process"])
        at[row["process"]] = view
        origins.setdefault(view, set())
        if origin is not None:
            origins[view].add(origin)
    failures = []
    successors: dict[ViewKey, set[ViewKey]] = {}
    for view, before in origins.items():
        if len(before) > 1:
            failures.append(f"chain: view {view} follows several views: {sorted(before)}")
        for origin in before:
            successors.setdefault(origin, set()).add(view)
        names = {name_of(member) for member in members[view]}
        if not before and names != set(founders):
            failures.append(f"chain: view {view} follows no view and has the members {sorted(names)}, not the founders")
    for origin, after in successors.items():
        if len(after) > 1:
            failures.append(f"chain: view {origin} has several successors: {sorted(after)}")
        present = together.get(origin, set()) & set(members[origin])
        if 2 * len(present) <= len(members[origin]):
            failures.append(f"chain: view {origin} was left by a minority: {sorted(present)} of {list(members[origin])}")
    return failures


def silence(rows: Sequence[Row], blockages: Mapping[str, Sequence[tuple[int, bool]]]) -> list[str]:
    """Who sent a message while it was blocked."""
    failures = []
    for row in rows:
        if row["kind"] == "send":
            changes = [(time, blocked) for time, blocked in blockages.get(row["process"], ()) if time <= row["time"]]
            if changes and changes[-1][1] and changes[-1][0] < row["time"]:
                failures.append(f"blocked: {row['process']} sends at {row['time']} ns")
    return failures


def stands(simulation: Simulation) -> list[str]:
    """What is wrong with processes that did not come together: it is right only where nobody may go on."""
    running = simulation.running()
    views = {process.pid: process.endpoint.view for process in running}
    failures = [
        f"liveness: {process.pid} in {views[process.pid]} did not come together with the others and is not blocked"
        for process in running
        if views[process.pid] is not None and getattr(process.endpoint, "blocked", None) is None
    ]
    installed = [view for view in views.values() if view is not None]
    if not installed:
        fresh = {process.name for process in running if not process.leaving}
        if set(simulation.scenario.founders) <= fresh:
            failures.append("liveness: all founders are there and found no group")
        return failures
    last = max(installed, key=lambda view: view.id)
    there = [pid for pid, view in views.items() if view is not None and view.id == last.id]
    if 2 * len(there) > len(last):
        failures.append(f"liveness: {', '.join(there)} are a majority of {last.id} {list(last.members)} and do not go on")
    behind = [pid for pid, view in views.items() if view is not None and view.id != last.id]
    failures += [f"liveness: {pid} has not heard of view {last.id}" for pid in behind]
    return failures
