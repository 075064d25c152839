"""A simulated process, its connections, and the context that its application is given.

A `Connection` is one direction of a way between two process instances; both directions are made together and know each
other (`back`). A direction that is not `live` loses what still travels on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal, Protocol

from isotone.model.errors import Blocked, Closed
from isotone.model.events import Upcall
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Packet
from isotone.model.view import View
from isotone.sim.interface import EndpointLike
from isotone.sim.network import Link
from isotone.trace.recorder import TraceRecorder

if TYPE_CHECKING:
    from isotone.sim.engine import Engine

NEVER = 1 << 62
State = Literal["running", "paused", "lingering", "crashed", "ended"]
"""A process that has left lingers until its endpoint has no more deadlines, to answer those who do not know yet."""
Doom = Literal["prefix", "subset"]
"""Which packets of its last turn a process still sends: the first few, or any."""


class App(Protocol):
    """Application logic under test: one instance per process instance."""

    def on_start(self, ctx: Context) -> None:
        """The process has just started; no view yet."""

    def on_upcalls(self, ctx: Context, upcalls: Sequence[Upcall]) -> None:
        """What one turn of the endpoint handed up, in order."""


AppFactory = Callable[[ProcessId], App]


class Connection:
    """One direction of a way between two process instances."""

    __slots__ = ("back", "dead_at", "link", "live", "source", "target")

    def __init__(self, source: Process, target: Process, link: Link) -> None:
        self.source = source.pid
        self.target = target
        self.link = link
        self.live = True
        self.dead_at = 0
        self.back = self

    def kill(self, now: int) -> None:
        """Lose what travels on this direction from now on; its sender need not know yet."""
        if self.live:
            self.live = False
            self.dead_at = now


Input = tuple[Connection, Packet | bytes] | tuple[None, Callable[[], None]]


class Process:
    """One incarnation of a named process: its endpoint, its connections, and what the driver remembers for it."""

    __slots__ = (
        "app",
        "armed",
        "ctx",
        "deferred",
        "delivered",
        "dialling",
        "dirty",
        "doom",
        "dropped",
        "ended",
        "endpoint",
        "expelled",
        "inbox",
        "incarnation",
        "late",
        "leaving",
        "name",
        "on",
        "paused",
        "paused_from",
        "peers",
        "pid",
        "recorder",
        "returned",
        "state",
        "submitted",
        "unsent",
        "wanted",
    )

    def __init__(self, name: str, incarnation: int, pid: ProcessId, endpoint: EndpointLike) -> None:
        self.name = name
        self.incarnation = incarnation
        self.pid = pid
        self.endpoint = endpoint
        self.recorder: TraceRecorder | None = None
        self.app: App | None = None
        self.ctx: Context | None = None
        self.state: State = "running"
        self.ended: str | None = None  # why the endpoint ended, if not by a leave
        self.expelled = False  # the group goes on without it (primary membership)
        self.paused_from: State = "running"
        self.on = True  # takes turns: running or lingering
        self.paused = False
        self.dirty = False
        self.armed = NEVER
        self.late = 0
        self.leaving = False  # was asked to leave
        self.doom: tuple[Doom, Random] | None = None
        self.inbox: list[Input] = []
        self.peers: dict[ProcessId, Connection] = {}
        self.dropped: set[ProcessId] = set()
        self.wanted: dict[str, None] = {}
        self.dialling: set[str] = set()
        self.unsent: deque[tuple[bytes, str | None, Sequence[str] | None]] = deque()
        self.submitted = self.deferred = self.delivered = self.returned = 0

    @property
    def alive(self) -> bool:
        """Whether the process exists: running, paused or lingering."""
        return self.on or self.paused

    def stats(self) -> dict[str, int | str]:
        """What the driver counted for this process."""
        return {
            "state": self.state,
            "submitted": self.submitted,
            "deferred": self.deferred,
            "unsent": len(self.unsent),
            "delivered": self.delivered,
            "returned": self.returned,
        }


class Context:
    """What an application can do: send, look at the clock, set timers, leave."""

    __slots__ = ("_engine", "_process")

    def __init__(self, engine: Engine, process: Process) -> None:
        self._engine = engine
        self._process = process

    @property
    def now(self) -> int:
        """The virtual time in nanoseconds."""
        return self._engine.now

    @property
    def process(self) -> ProcessId:
        """The id of this process, `name#incarnation`."""
        return self._process.pid

    @property
    def view(self) -> View | None:
        """The view this process is in, if any."""
        return self._process.endpoint.view

    @property
    def unsent(self) -> int:
        """How many messages wait because the endpoint did not take them yet."""
        return len(self._process.unsent)

    def send(
        self,
        payloads: Sequence[bytes],
        types: Sequence[str | None] | None = None,
        items: Sequence[Sequence[str] | None] | None = None,
    ) -> int:
        """Hand messages in. What the endpoint does not take now is kept and handed in later, in order.

        Returns how many were taken at once. A process that is blocked or has left takes and keeps nothing.
        """
        process = self._process
        process.submitted += len(payloads)
        taken = 0
        if not process.unsent:
            try:
                taken = process.endpoint.submit(payloads, self._engine.now, types, items)
            except (Blocked, Closed):
                return 0
            if taken:
                self._engine.touch(process)
        if taken < len(payloads):
            process.deferred += len(payloads) - taken
            for index in range(taken, len(payloads)):
                kind = None if types is None else types[index]
                process.unsent.append((payloads[index], kind, None if items is None else items[index]))
        return taken

    def after(self, delay_ns: int, function: Callable[[], None]) -> None:
        """Call the function after a delay, unless the process is gone by then; a paused one calls it when resumed."""
        engine, process = self._engine, self._process

        def fire(_: object) -> None:
            engine.feed(process, function)

        engine.at(engine.now + delay_ns, fire, None)

    def provide(self, cut: ViewId, data: bytes | None, problem: str = "") -> None:
        """Answer `SnapshotWanted`."""
        self._process.endpoint.provide(cut, data, self._engine.now, problem)
        self._engine.touch(self._process)

    def leave(self) -> None:
        """Leave the group gracefully; an `Ended` upcall follows."""
        self._engine.leave(self._process)
