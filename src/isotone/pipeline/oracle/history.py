"""The index of one run that all checks read: rows turned into small integers, once.

Processes and origins are *actors*, messages and views are numbered in the order of their appearance; names come back
only in witnesses. Rows of a process are taken in the order of `step`.

Invariants: `order` of a log holds each message once, at its first delivery (repetition is the business of one check
only); `events` of a log holds its sends and all deliveries in order; view -1 means that the row named none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

RowLike: TypeAlias = Mapping[str, Any]
ViewId: TypeAlias = tuple[int, str]
Position: TypeAlias = tuple[int, ...]

NO_VIEW = -1


class Delivery(NamedTuple):
    """One `deliver` row."""

    message: int
    view: int
    position: Position | None
    level: str | None
    time: int | None
    digest: int | None
    protocol: str | None
    transitional: bool


class Install(NamedTuple):
    """One `view` row."""

    view: int
    members: frozenset[str] | None
    time: int | None


@dataclass(slots=True)
class Stretch:
    """What a process delivered while one view was installed."""

    view: int
    next_view: int = NO_VIEW
    together: frozenset[str] | None = None
    """Who ends the view with this process, as its transitional signal says."""
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass(slots=True)
class Log:
    """One process."""

    name: str
    actor: int
    events: list[int] = field(default_factory=list)
    """Sends (`2 * message + 1`) and deliveries (`2 * message`)."""
    deliveries: list[Delivery] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    delivered: set[int] = field(default_factory=set)
    sends: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    installs: list[Install] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    misplaced: list[tuple[int, int, int]] = field(default_factory=list)
    """Deliveries whose row names another view than the installed one: message, named, installed."""
    foreign_sends: list[int] = field(default_factory=list)
    end: str | None = None
    """`stop` or `crash` if that is the last row."""
    end_time: int | None = None

    @property
    def correct(self) -> bool:
        return self.end == "stop"


@dataclass(slots=True)
class History:
    """One run."""

    run: str
    rows: int = 0
    logs: list[Log] = field(default_factory=list)
    actors: list[str] = field(default_factory=list)
    log_of: dict[int, Log] = field(default_factory=dict)
    origin: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    sent: list[bool] = field(default_factory=list)
    send_view: list[int] = field(default_factory=list)
    send_digest: list[int | None] = field(default_factory=list)
    redefined: list[int] = field(default_factory=list)
    """Messages sent again with another payload."""
    views: list[ViewId] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    protocols: set[str] = field(default_factory=set)
    columns: set[tuple[str, str]] = field(default_factory=set)
    """`(kind, column)` of the columns that checks ask for and that some row has."""
    last_fault: int | None = None
    last_heal: int | None = None
    _replay: "tuple[list[tuple[Log, int]], list[tuple[Log, int]]] | None" = None

    def message(self, message: int) -> str:
        return f"{self.actors[self.origin[message]]}:{self.number[message]}"

    def view(self, view: int) -> str:
        if view == NO_VIEW:
            return "no view"
        epoch, proposer = self.views[view]
        return f"view {epoch}@{proposer}"

    def lacks(self, *needed: str) -> str | None:
        """The first of the needed kinds (`deliver`) or columns on a kind (`deliver.position`) that is nowhere."""
        for need in needed:
            kind, _, column = need.partition(".")
            if kind not in self.kinds:
                return f"{kind} rows"
            if column and (kind, column) not in self.columns:
                return f"column {column} on {kind} rows"
        return None

    def replay(self) -> "tuple[list[tuple[Log, int]], list[tuple[Log, int]]]":
        """All sends and deliveries in an order that respects happened-before, and deliveries that cannot be placed.

        A delivery comes after the send of its message. Where that is impossible, a message was delivered before
        it was sent; such deliveries are named in the second list and taken where they stand.
        """
        if self._replay is None:
            self._replay = _replay(self)
        return self._replay


def index_runs(rows: Iterable[RowLike]) -> list[History]:
    """One history per run, in the order of their names."""
    runs: dict[str, dict[str, list[RowLike]]] = {}
    for row in rows:
        run = runs.setdefault(row.get("run") or "", {})
        process = row["process"]
        if process in run:
            run[process].append(row)
        else:
            run[process] = [row]
    return [_Indexer(name, runs[name]).history for name in sorted(runs)]


class _Indexer:
    def __init__(self, run: str, processes: Mapping[str, list[RowLike]]) -> None:
        self.history = History(run)
        self._actor: dict[str, int] = {}
        self._message: dict[tuple[str, int], int] = {}
        self._view: dict[ViewId, int] = {}
        for name in sorted(processes):
            self._index_process(name, processes[name])

    def actor(self, name: str) -> int:
        actor = self._actor.get(name)
        if actor is None:
            actor = self._actor[name] = len(self._actor)
            self.history.actors.append(name)
        return actor

    def message(self, row: RowLike) -> int:
        key = (row["origin"], row["number"])
        message = self._message.get(key)
        if message is None:
            message = self._message[key] = len(self._message)
            history = self.history
            history.origin.append(self.actor(key[0]))
            history.number.append(key[1])
            history.sent.append(False)
            history.send_view.append(NO_VIEW)
            history.send_digest.append(None)
        return message

    def view(self, row: RowLike) -> int:
        epoch = row.get("view_epoch")
        if epoch is None:
            return NO_VIEW
        key = (epoch, row.get("view_proposer") or "")
        view = self._view.get(key)
        if view is None:
            view = self._view[key] = len(self._view)
            self.history.views.append(key)
        return view

    def _index_process(self, name: str, rows: list[RowLike]) -> None:
        history = self.history
        log = Log(name, self.actor(name))
        history.logs.append(log)
        history.log_of[log.actor] = log
        steps = [row["step"] for row in rows]
        if any(later < earlier for earlier, later in pairwise(steps)):
            rows = sorted(rows, key=lambda row: row["step"])
        transitional = False
        for row in rows:
            kind = row["kind"]
            if kind == "deliver":
                self._index_deliver(log, row, transitional)
            elif kind == "send":
                self._index_send(log, row)
            elif kind == "view":
                transitional = False
                self._index_view(log, row)
            elif kind == "transitional":
                transitional = True
                if log.stretches and row.get("members"):
                    log.stretches[-1].together = frozenset(row["members"])
            elif kind == "returned":
                log.returned.append(self.message(row))
            elif kind == "fault":
                history.last_fault = max(history.last_fault or 0, row.get("time") or 0)
            elif kind == "heal":
                history.last_heal = max(history.last_heal or 0, row.get("time") or 0)
            elif kind == "switch" and row.get("protocol") is not None:
                history.protocols.add(row["protocol"])
        history.rows += len(rows)
        history.kinds.update(row["kind"] for row in rows)
        last = rows[-1]
        if last["kind"] in ("stop", "crash"):
            log.end = last["kind"]
            log.end_time = last.get("time")

    def _index_deliver(self, log: Log, row: RowLike, transitional: bool) -> None:
        history, get = self.history, row.get
        message = self.message(row)
        position = get("position")
        if position is not None:
            position = (position,) if isinstance(position, int) else tuple(position)
            history.columns.add(("deliver", "position"))
        view = self.view(row)
        if view != NO_VIEW:
            history.columns.add(("deliver", "view_epoch"))
        digest, level, protocol = get("digest"), get("level"), get("protocol")
        if level is not None:
            history.columns.add(("deliver", "level"))
        if protocol is not None:
            history.protocols.add(protocol)
        delivery = Delivery(message, view, position, level, get("time"), digest, protocol, transitional)
        log.events.append(2 * message)
        log.deliveries.append(delivery)
        if message not in log.delivered:
            log.delivered.add(message)
            log.order.append(message)
        if log.stretches:
            stretch = log.stretches[-1]
            stretch.deliveries.append(delivery)
            if view not in (NO_VIEW, stretch.view):
                log.misplaced.append((message, view, stretch.view))

    def _index_send(self, log: Log, row: RowLike) -> None:
        history = self.history
        message = self.message(row)
        if history.origin[message] != log.actor:
            log.foreign_sends.append(message)
            return
        view = self.view(row)
        if view != NO_VIEW:
            history.columns.add(("send", "view_epoch"))
        digest = row.get("digest")
        if history.sent[message]:
            if digest != history.send_digest[message]:
                history.redefined.append(message)
            return  # sent again: the first time counts
        history.sent[message] = True
        history.send_view[message] = view
        history.send_digest[message] = digest
        log.events.append(2 * message + 1)
        log.sends.append(message)

    def _index_view(self, log: Log, row: RowLike) -> None:
        history = self.history
        view = self.view(row)
        if view == NO_VIEW:
            return  # a view without an id: the checks that need one say that the column is missing
        members = row.get("members")
        history.columns.add(("view", "view_epoch"))
        if members is not None:
            history.columns.add(("view", "members"))
        if row.get("protocol") is not None:
            history.protocols.add(row["protocol"])
        log.installs.append(Install(view, None if members is None else frozenset(members), row.get("time")))
        if log.stretches:
            log.stretches[-1].next_view = view
        log.stretches.append(Stretch(view))


def _replay(history: History) -> tuple[list[tuple[Log, int]], list[tuple[Log, int]]]:
    placed: list[tuple[Log, int]] = []
    premature: list[tuple[Log, int]] = []
    done = [not sent for sent in history.sent]  # a message whose send is not recorded holds nobody up
    waiting: dict[int, list[int]] = {}
    at = [0] * len(history.logs)
    ready = list(range(len(history.logs) - 1, -1, -1))
    index_of = {log.actor: index for index, log in enumerate(history.logs)}
    while True:
        while ready:
            index = ready.pop()
            log = history.logs[index]
            events = log.events
            here = at[index]
            while here < len(events):
                event = events[here]
                message = event >> 1
                if event & 1:
                    done[message] = True
                    ready.extend(waiting.pop(message, ()))
                elif not done[message]:
                    waiting.setdefault(message, []).append(index)
                    break
                placed.append((log, event))
                here += 1
            at[index] = here
        if not waiting:
            return placed, premature
        index = _on_a_cycle(history, at, waiting, index_of)
        log = history.logs[index]
        event = log.events[at[index]]
        waiting[event >> 1].remove(index)
        if not waiting[event >> 1]:
            del waiting[event >> 1]
        premature.append((log, event >> 1))
        placed.append((log, event))
        at[index] += 1
        ready.append(index)


def _on_a_cycle(history: History, at: list[int], waiting: dict[int, list[int]], index_of: dict[int, int]) -> int:
    """A process among those that wait for each other in a circle."""
    index = next(iter(waiting.values()))[0]
    seen: set[int] = set()
    while index not in seen:
        seen.add(index)
        awaited = history.logs[index].events[at[index]] >> 1
        index = index_of[history.origin[awaited]]
    return index
