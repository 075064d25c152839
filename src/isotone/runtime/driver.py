"""The live driver of an endpoint: it owns the clock, the turn and the timer.

A turn: drain all ready input, collect, one frame per peer, hand over the upcalls, re-arm one timer. Input is whatever
the event loop finds ready in one iteration; the first of it schedules the end of the turn. In a quiet group a single
message is a turn of its own, at once: nothing else is likely to come with it. Invariants: the endpoint is
only called from the event loop's thread, with a `now` that never decreases; an error that escapes from it is fatal for
this process's membership and reaches the application, it is never only logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from isotone.model.conflicts import Conflicts
from isotone.model.errors import Closed, NotSwitched, RemoteProtocolError
from isotone.model.events import Blockage, DeliveryBatch, Ended, Expulsion, Switched, SwitchRefused, Upcall, ViewInstalled
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Cast, Packet
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch
from isotone.model.view import Ordering, View
from isotone.protocol.recorder import Recorder
from isotone.runtime.inbox import Inbox
from isotone.runtime.logs import logger
from isotone.runtime.network import Network
from isotone.runtime.outgoing import Outgoing, Submitter
from isotone.runtime.state import Keeper, Stateful
from isotone.runtime.tracing import LiveTrace

_LEAST_TIMER_S = 0.001
_QUIET_NS = 200_000
"""So long after a turn the next small input does not wait for company."""
_OVERLOAD_BYTES = 1 << 40
"""More than any limit of a backlog: what a trace that lags counts for."""


class EffectsLike(Protocol):
    """The columns of a turn."""

    packets: list[tuple[ProcessId, Packet]]
    upcalls: list[Upcall]
    drop: list[ProcessId]


class EndpointLike(Submitter, Protocol):
    """What the driver needs of an endpoint."""

    closed: bool

    @property
    def view(self) -> View | None: ...
    def start(self, now: int) -> None: ...
    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None: ...
    def connected(self, peer: ProcessId, address: str, now: int) -> None: ...
    def disconnected(self, peer: ProcessId, now: int) -> None: ...
    def wake(self, now: int) -> None: ...
    def deadline(self) -> int | None: ...
    def collect(self, now: int) -> EffectsLike: ...
    def leave(self, now: int) -> None: ...
    def switch(self, switch: Switch, now: int) -> None: ...
    def backlog(self, size: int, now: int) -> None: ...
    def provide(self, cut: ViewId, data: bytes | None, now: int, problem: str = "") -> None: ...
    def address_of(self, peer: ProcessId) -> str | None: ...
    def status(self) -> dict[str, object]: ...


EndpointFactory = Callable[[EndpointConfig, Recorder | None], EndpointLike]


class Driver:
    """Runs one endpoint over one network."""

    def __init__(
        self,
        endpoint: EndpointLike,
        network: Network,
        payload_bytes: int,
        trace: LiveTrace | None = None,
        state: Stateful | None = None,
        conflicts: Conflicts | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.endpoint = endpoint
        self.network = network
        self._keeper = None if state is None else Keeper(state, self._provide)
        self.inbox = Inbox(self._loop, self._consumed, self._keeper)
        self.outgoing = Outgoing(self._loop, endpoint, payload_bytes, self._submitted, conflicts)
        self.joined: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.failure: BaseException | None = None
        self.on_expelled: Callable[[], None] | None = None  # who brings this process back, if anybody
        self.turns = 0
        self.delivered = 0  # messages, since this process began
        self._turned = 0
        self._trace = trace
        self._scheduled = False
        self._leaving = False
        self._left = False
        self._stopped = False
        self._returning = False  # expelled, and not yet in a view again
        self._reported = 0
        self._wish: tuple[Ordering, asyncio.Future[None]] | None = None  # a switch that was asked for
        self._deadline: int | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0
        self._at_once = False  # what is due already need not wait for a timer

    def start(self) -> None:
        """Begin."""
        self.endpoint.start(monotonic_ns())
        self.schedule()

    def leave(self) -> None:
        """Leave gracefully when everything accepted has been handed to the endpoint; `ended` tells when it is done."""
        self.outgoing.close(Closed("this process has left the group"))
        self._leaving = True
        self.schedule()

    def switch(self, switch: Switch) -> asyncio.Future[None]:
        """Ask for another ordering; done when it is in force here, or with the reason why it will not be."""
        if self._wish is not None and not self._wish[1].done():
            raise NotSwitched("this process has asked for another switch already")
        self.endpoint.switch(switch, monotonic_ns())
        future: asyncio.Future[None] = self._loop.create_future()
        self._wish = (switch.ordering, future)
        self.schedule()
        return future

    def _switched(self, to: Ordering | None, error: Exception | None = None) -> None:
        """An ordering is in force, or none will be that was asked for."""
        if self._wish is None or (to is not None and to != self._wish[0]):
            return
        future = self._wish[1]
        self._wish = None
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def restart(self, endpoint: EndpointLike, network: Network, trace: LiveTrace | None) -> None:
        """Go on with another endpoint, of a new incarnation; the application keeps its streams."""
        self.endpoint = endpoint
        self.network = network
        self._trace = trace
        self.outgoing.rebind(endpoint)
        self._returning = True
        self._stopped = self._scheduled = False
        self._reported = 0
        self._deadline = self._timer = None
        self.start()

    def stop(self) -> None:
        """No more turns."""
        self._stopped = True
        self._switched(None, Closed("this process has left the group"))
        if self._timer is not None:
            self._timer.cancel()
        if self._keeper is not None:
            self._keeper.close()

    @property
    def lingering(self) -> bool:
        """Whether the endpoint has ended but still has something to tell its peers."""
        return not self._stopped and self.endpoint.closed and self.endpoint.deadline() is not None

    # --- input -----------------------------------------------------------------------------------------------------

    def received(self, peer: ProcessId, packet: Packet) -> None:
        """From the network; a `RemoteProtocolError` goes back to it and costs the peer its connection."""
        if self._stopped:
            return
        now = monotonic_ns()
        try:
            self.endpoint.receive(peer, packet, now)
        except (RemoteProtocolError, KeyboardInterrupt, SystemExit):
            self.schedule()
            raise
        except BaseException as error:
            self.fail(error)
            return
        if self._scheduled:
            return
        records = packet.records
        quiet = now - self._turned > _QUIET_NS and len(records) <= 1
        if quiet and (not records or type(records[0]) is not Cast or len(records[0].payloads) <= 2):
            self._turn()
        else:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def connected(self, peer: ProcessId, address: str) -> None:
        """From the network: there is a link to `peer`."""
        if self._stopped:
            return
        try:
            self.endpoint.connected(peer, address, monotonic_ns())
        except BaseException as error:
            self.fail(error)
        self.schedule()

    def disconnected(self, peer: ProcessId) -> None:
        """From the network: the last link to `peer` is gone."""
        if self._stopped:
            return
        try:
            self.endpoint.disconnected(peer, monotonic_ns())
        except BaseException as error:
            self.fail(error)
        self.schedule()

    def schedule(self) -> None:
        """Ask for the end of the turn, once everything that is ready has been taken."""
        if not self._scheduled and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _submitted(self) -> None:
        """The application handed something in: at once if nothing else was going on, otherwise with the rest of the turn."""
        if not self._scheduled and monotonic_ns() - self._turned > _QUIET_NS:
            self._turn()
        else:
            self.schedule()

    def _provide(self, cut: ViewId, data: bytes | None, problem: str) -> None:
        """The application's state at the beginning of a view, or why there is none."""
        if not self._stopped:
            self.endpoint.provide(cut, data, monotonic_ns(), problem)
            self.schedule()

    # --- the end of a turn -----------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Few calls, since in a quiet group a turn finds the caches cold and every function costs as much as its work."""
        self._scheduled = False
        if self._stopped:
            return
        self.turns += 1
        now = monotonic_ns()
        woken = self._deadline is not None and now >= self._deadline
        self._at_once = not woken and now - self._turned > _QUIET_NS  # otherwise turns would make turns
        self._turned = now
        endpoint, outgoing, trace = self.endpoint, self.outgoing, self._trace
        try:
            if self._leaving:
                self._pass_last(now)
            elif outgoing.buffer:
                outgoing.flush(now)
            if woken:
                endpoint.wake(now)
            backlog = self.inbox.backlog
            if trace is not None and trace.overloaded:
                backlog += _OVERLOAD_BYTES
            if backlog != self._reported:
                self._reported = backlog
                endpoint.backlog(backlog, now)
            effects = endpoint.collect(now)
            if effects.packets:
                self.network.send(effects.packets)
            if effects.drop:
                for peer in effects.drop:
                    self.network.drop(peer)
            if effects.upcalls:
                self._hand_over(effects.upcalls)
            if outgoing.unsure and not self._leaving:
                outgoing.refresh()
            if trace is not None:
                trace.turn()
            deadline = self._deadline = endpoint.deadline()
            if deadline is not None and (self._timer is None or deadline < self._timer_at):
                if effects.upcalls:
                    self._loop.call_soon(self._arm)  # whoever waits for them goes first
                else:
                    self._arm()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.fail(error)

    def _pass_last(self, now: int) -> None:
        """What the application gave before it left, and then its leave."""
        if self._left:
            return
        if not self.endpoint.closed:
            self.outgoing.last_flush(now)
            if self.outgoing.buffer:
                return
            self.endpoint.leave(now)
        self._left = True

    def _hand_over(self, upcalls: list[Upcall]) -> None:
        for upcall in upcalls:
            if isinstance(upcall, DeliveryBatch):
                self.delivered += len(upcall.payloads)
                continue
            if isinstance(upcall, Blockage):
                self.outgoing.block(f"this process is {upcall.reason}" if upcall.blocked else None)
            elif isinstance(upcall, Switched):
                self._switched(upcall.view.ordering)
            elif isinstance(upcall, SwitchRefused):
                self._switched(upcall.ordering, NotSwitched(f"not switched to {upcall.ordering.order}: {upcall.reason}"))
            elif isinstance(upcall, ViewInstalled):
                self._switched(upcall.view.ordering)
                if self._returning:
                    self._returning = False
                    self.outgoing.block(None)
                if not self.joined.done():
                    self.joined.set_result(None)
            elif isinstance(upcall, Ended) and upcall.expelled and self.on_expelled is not None and not self._leaving:
                reason = upcall.error or ""
                self._switched(None, Closed(reason))
                self.outgoing.block(f"{reason}; this process is joining again")
                last = Expulsion(self.network.hello.process, reason)
                self.inbox.put([*(other for other in upcalls if other is not upcall), last])
                self.stop()
                self.on_expelled()
                return
            elif isinstance(upcall, Ended):
                reason = upcall.error or "this process has left the group"
                self._switched(None, Closed(reason))
                self.outgoing.close(Closed(reason))
                if not self.joined.done():
                    self.joined.set_exception(Closed(reason))
                if not self.ended.done():
                    self.ended.set_result(None)
        self.inbox.put(upcalls)

    def _arm(self) -> None:
        """One timer: an armed one that fires too early does no harm and is kept."""
        deadline = self._deadline
        if self._stopped or deadline is None or (self._timer is not None and deadline >= self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        left = deadline - monotonic_ns()
        if left <= 0 and self._at_once:
            self._timer = self._loop.call_soon(self._fire)
        else:
            self._timer = self._loop.call_later(max(left / 1e9, _LEAST_TIMER_S), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.schedule()

    def _consumed(self) -> None:
        """The application took something that counted as backlog."""
        if self._reported and self.inbox.backlog <= self._reported // 2:
            self.schedule()

    # --- failure ---------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """The endpoint is broken: end here, and let the application see why."""
        if self.failure is not None:
            return
        logger.critical("the endpoint failed: %s: %s", type(error).__name__, error)
        self.failure = error
        self.stop()
        self.outgoing.close(error)
        self.inbox.end(error)
        if not self.joined.done():
            self.joined.set_exception(error)
        if not self.ended.done():
            self.ended.set_result(None)
