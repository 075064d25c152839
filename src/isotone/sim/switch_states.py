"""What happens in the middle of a switch: the states that a swarm with switches must reach now and then, read from rows.

A switch is *open* at a process from the row that says that its request was delivered until it is done, or the view is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from isotone.sim.process import Process
from isotone.trace.schema import Row

CRASHED = "crash in the middle of a switch"
ASKER_CRASHED = "crash of who had asked for a switch"
LEFT = "leave in the middle of a switch"
JOINED = "join in the middle of a switch"
PARTED = "partition in the middle of a switch"
MERGED = "merge of components with different orderers"
SECOND = "second request refused"
IN_FORCE = "request for what is in force"

STATES = (CRASHED, ASKER_CRASHED, LEFT, JOINED, PARTED, MERGED, SECOND, IN_FORCE)

View = tuple[int, str]


class SwitchStates:
    """Walks along the rows of a run in the order of time."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(STATES, 0)
        self._views: dict[str, tuple[View, frozenset[str], str]] = {}  # where each process is, with whom, under which order
        self._open: set[str] = set()
        self._gone: set[str] = set()
        self._sources: dict[View, dict[View, str]] = {}  # of each view, the views its members came from, and their orders

    def take(self, row: Row) -> None:
        """The next row."""
        process, kind = row["process"], row["kind"]
        if kind == "switch":
            phase = row["detail"]["phase"]
            if phase == "done":
                self._open.discard(process)
                if process in self._views:
                    self._views[process] = (*self._views[process][:2], row["protocol"])
            elif phase == "request":
                self._open.add(process)
        elif kind == "view":
            self._enter(process, (row["view_epoch"], row["view_proposer"]), frozenset(row["members"]), row["protocol"])
        elif kind in ("crash", "stop"):
            self._gone.add(process)
            here = self._views.pop(process, None)
            if here is not None and any(one in self._open and self._views.get(one, here)[0] == here[0] for one in here[1]):
                self.counts[CRASHED if kind == "crash" else LEFT] += 1
            self._open.discard(process)

    def _enter(self, process: str, view: View, members: frozenset[str], order: str) -> None:
        before = self._views.get(process)
        if before is not None:
            if process in self._open:
                self.counts[JOINED] += any(one not in self._views for one in members)
                self.counts[PARTED] += any(one not in members and one not in self._gone for one in before[1])
            sources = self._sources.setdefault(view, {})
            if before[0] not in sources and sources and before[2] not in sources.values():
                self.counts[MERGED] += 1
            sources[before[0]] = before[2]
        self._open.discard(process)
        self._views[process] = (view, members, order)

    def ends(self, processes: Iterable[Process]) -> None:
        """How the processes ended, and what they were told."""
        for process in processes:
            reasons: list[str] = getattr(process.app, "refusals", [])
            self.counts[SECOND] += reasons.count("another switch came first")
            self.counts[IN_FORCE] += sum(reason.endswith("is in force already") for reason in reasons)
            switching = getattr(getattr(process.endpoint, "epoch", None), "switching", None)
            if process.state == "crashed" and switching is not None:
                change = switching.change
                asked = switching.wishes.own is not None or (change is not None and change.asker == switching.rank)
                self.counts[ASKER_CRASHED] += asked
