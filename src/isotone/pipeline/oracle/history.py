"""The index of one run that all checks read: rows turned into small integers, once.

Processes and origins are *actors*, messages and views are numbered in the order of their appearance; names come back
only in witnesses. Rows of a process are taken in the order of `step`.

Invariants: `order` of a log holds each message once, at its first delivery (repetition is the business of one check
only); `events` of a log holds its sends and all deliveries in order; view -1 means that the row named none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from isotone.model.errors import ConfigError
from isotone.pipeline.oracle.replay import Replayed, replay
from isotone.pipeline.oracle.witness import Edge, MessageId, RowLike, ViewId, Witness

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
    k: int | None


class Install(NamedTuple):
    """One `view` row."""

    view: int
    members: frozenset[str] | None
    time: int | None


class Switch(NamedTuple):
    """One `switch` row."""

    view: int
    protocol: str | None


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
    received: dict[int, int | None] = field(default_factory=dict)
    """When each message was first received, of `receive` rows."""
    switches: list[Switch] = field(default_factory=list)
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
    send_time: list[int | None] = field(default_factory=list)
    type: list[str | None] = field(default_factory=list)
    """Of each message, as its send row says; where that is silent or missing, the first delivery that says it."""
    items: list[tuple[str, ...] | None] = field(default_factory=list)
    redefined: list[int] = field(default_factory=list)
    """Messages sent again with another payload."""
    views: list[ViewId] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    protocols: set[str] = field(default_factory=set)
    columns: set[tuple[str, str]] = field(default_factory=set)
    """`(kind, column)` of the columns that checks ask for and that some row has."""
    last_fault: int | None = None
    last_heal: int | None = None
    healed_at: str | None = None
    """The process that recorded the last heal."""
    clocks: set[str] = field(default_factory=set)
    """What start rows say about the clock; `virtual` means one clock for all."""
    relations: dict[str, str] = field(default_factory=dict)
    """The conflict relation that its start row names, per process that delivers something."""
    _replay: "Replayed | None" = None

    def message(self, message: int) -> str:
        return f"{self.actors[self.origin[message]]}:{self.number[message]}"

    def message_id(self, message: int) -> MessageId:
        return self.actors[self.origin[message]], self.number[message]

    def edge(self, first: int, second: int, process: str, why: str) -> Edge:
        return Edge(self.message(first), self.message(second), process, why)

    def witness(
        self,
        text: str,
        processes: Iterable[str],
        messages: Iterable[int] = (),
        edges: Iterable[Edge] = (),
        views: Iterable[int] = (),
    ) -> Witness:
        """A witness about processes, messages and views given as this index knows them, each named once."""
        return Witness(
            text,
            tuple(dict.fromkeys(processes)),
            tuple(self.message_id(message) for message in dict.fromkeys(messages)),
            tuple(edges),
            tuple(self.views[view] for view in dict.fromkeys(views) if view != NO_VIEW),
        )

    def a_send(self, among: Iterable[int] = (), in_a_view: bool = False) -> list[int]:
        """A message whose send is recorded (in a view), if none of those given is: a witness needs one to be decided."""

        def fits(message: int) -> bool:
            return self.sent[message] and not (in_a_view and self.send_view[message] == NO_VIEW)

        if any(fits(message) for message in among):
            return []
        found = next((message for message in range(len(self.sent)) if fits(message)), None)
        return [] if found is None else [found]

    def a_delivery(
        self, processes: Iterable[str], messages: Iterable[int], fits: Callable[[Delivery], bool] = lambda _: True
    ) -> tuple[list[str], list[int]]:
        """A delivery as asked, if none of these messages at these processes is: a witness needs one to be decided.

        Rather one of these messages at another process than another message.
        """
        mine, about = set(processes), set(messages)
        found: dict[tuple[bool, bool], tuple[list[str], list[int]]] = {}
        for log in self.logs:
            for delivery in log.deliveries:
                if fits(delivery):
                    new = (delivery.message not in about, log.name not in mine)
                    if new == (False, False):
                        return [], []
                    found.setdefault(new, ([log.name] if new[1] else [], [delivery.message] if new[0] else []))
        return found[min(found)] if found else ([], [])

    def relation(self) -> str | None:
        """The conflict relation that the run names; `ConfigError` if its processes name several."""
        return agreed(self.relations)

    @property
    def virtual(self) -> bool:
        """Whether all times are of one clock."""
        return self.clocks == {"virtual"}

    @property
    def knows_ends(self) -> bool:
        """Whether the trace tells processes that ended from those cut off; one that does not is taken to be complete."""
        return not self.kinds.isdisjoint(("stop", "crash"))

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

    def replay(self) -> Replayed:
        """All sends and deliveries in an order that respects happened-before; see `replay`."""
        if self._replay is None:
            self._replay = replay(self)
        return self._replay


def agreed(relations: Mapping[str, str]) -> str | None:
    """The one conflict relation that processes name; `ConfigError` if they name several."""
    found: dict[str, str] = {}
    for process in sorted(relations):
        found.setdefault(relations[process], process)
    if len(found) > 1:
        (one, first), (other, second), *_ = found.items()
        raise ConfigError(f"{first} and {second} name different conflict relations, {one} and {other}")
    return next(iter(found), None)


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
            history.send_time.append(None)
            history.type.append(None)
            history.items.append(None)
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
        named: str | None = None
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
            elif kind == "receive":
                log.received.setdefault(self.message(row), row.get("time"))
            elif kind == "fault":
                history.last_fault = max(history.last_fault or 0, row.get("time") or 0)
            elif kind == "heal":
                time = row.get("time") or 0
                if history.last_heal is None or time > history.last_heal:
                    history.last_heal, history.healed_at = time, name
            elif kind == "switch":
                self._index_switch(log, row)
            elif kind == "start" and row.get("detail"):
                detail = dict(row["detail"])
                history.clocks.add(detail.get("clock") or "")
                named = detail.get("conflicts")
        if named is not None and log.order:
            history.relations[name] = named
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
        k = get("k")
        if k is not None:
            history.columns.add(("deliver", "k"))
        if not history.sent[message]:  # the send row, if it comes, has the last word
            self._describe(message, row)
        delivery = Delivery(message, view, position, level, get("time"), digest, protocol, transitional, k)
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
        history.send_time[message] = row.get("time")
        self._describe(message, row, overrule=True)
        log.events.append(2 * message + 1)
        log.sends.append(message)

    def _describe(self, message: int, row: RowLike, overrule: bool = False) -> None:
        type_, items = row.get("type"), row.get("items")
        if type_ is not None and (overrule or self.history.type[message] is None):
            self.history.type[message] = type_
        if items is not None and (overrule or self.history.items[message] is None):
            self.history.items[message] = tuple(items)

    def _index_switch(self, log: Log, row: RowLike) -> None:
        if row.get("protocol") is not None:
            self.history.protocols.add(row["protocol"])
        view = self.view(row)
        if view == NO_VIEW and log.stretches:
            view = log.stretches[-1].view
        log.switches.append(Switch(view, row.get("protocol")))

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
