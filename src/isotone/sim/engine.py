"""The event loop of the simulator: virtual time, turns of endpoints, timers, and the life of processes.

Events are tuples `(time, sequence, kind, a, b)` in one heap; the sequence number makes their order total, so a run is a
function of its inputs. All events of one instant are fed to the endpoints first; then every endpoint that was touched
takes one turn: collect, send, hand up, re-arm. A timer is only armed when the new deadline is earlier than the armed
one; a timer that fires too early costs one look at the deadline.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

from isotone.model.errors import Blocked, Closed, InvariantViolation, LocalProtocolError, RemoteProtocolError
from isotone.model.events import DeliveryBatch, Ended, ReturnedBatch, Upcall
from isotone.model.records import Packet
from isotone.model.switch import Switch
from isotone.sim.interface import EndpointLike
from isotone.sim.network import Network
from isotone.sim.process import NEVER, App, Connection, Context, Doom, Process, State
from isotone.sim.rand import below, chance
from isotone.trace.recorder import TraceRecorder

PACKET, TIMER, CALL = 0, 1, 2
TURNS_PER_INSTANT_MAX = 100_000
LATE_MAX = 1_000
TIMER_STEP_NS = 1_000  # an endpoint whose deadline has passed already is woken this much later, not in the same instant

Event = tuple[int, int, int, Any, Any]


class Engine:
    """Runs processes over a network. `on_unreachable`, `on_gone` and `on_drop` belong to the dialler."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self.network: Network
        self.encode: Callable[[Packet], bytes] | None = None
        self.decode: Callable[[bytes], Packet] | None = None
        self.on_unreachable: Callable[[Process, str], None] = lambda process, peer: None
        self.on_gone: Callable[[Process, bool], None] = lambda process, silent: None
        self.on_drop: Callable[[Process, str], None] = lambda process, peer: None
        self.on_expelled: Callable[[Process], None] = lambda process: None
        self.on_remote_error: Callable[[Process, str, RemoteProtocolError], None] = lambda process, peer, error: None
        self._heap: list[Event] = []
        self._next = count().__next__
        self._dirty: list[Process] = []

    # --- scheduling ------------------------------------------------------------------------------------------------

    def at(self, time: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function with one argument at a time that is not in the past."""
        heapq.heappush(self._heap, (max(time, self.now), self._next(), CALL, function, argument))

    def arrive(self, time: int, connection: Any, packet: Any) -> None:
        """Let a packet arrive."""
        heapq.heappush(self._heap, (time, self._next(), PACKET, connection, packet))

    def touch(self, process: Process) -> None:
        """The process's endpoint had an input: it takes a turn at the end of this instant."""
        if not process.dirty:
            process.dirty = True
            self._dirty.append(process)

    def feed(self, process: Process, function: Callable[[], None]) -> None:
        """Run an input at a process: now, or when it is resumed; never if it is gone."""
        if process.paused:
            process.inbox.append((None, function))
        elif process.on:
            function()
            self.touch(process)

    def run_until(self, end: int) -> None:
        """Run everything up to and including the instant `end`; afterwards it is `end`."""
        heap, pop, dirty, decode, turn = self._heap, heapq.heappop, self._dirty, self.decode, self._turn
        counters = self.network.counters
        events = 0
        self._settle()  # inputs that were given between two runs
        while heap and heap[0][0] <= end:
            now = heap[0][0]
            self.now = now
            while True:
                _, _, kind, a, b = pop(heap)
                events += 1
                if kind == PACKET:
                    if a.live and a.link.open:
                        process = a.target
                        if process.paused:
                            process.inbox.append((a, b))
                        else:
                            try:
                                process.endpoint.receive(a.source, b if decode is None else decode(b), now)
                            except RemoteProtocolError as error:
                                self.on_remote_error(process, a.source, error)
                            if not process.dirty:
                                process.dirty = True
                                dirty.append(process)
                    else:
                        counters.cut += 1
                elif kind == TIMER:
                    self._timer(a, now)
                else:
                    a(b)
                if not heap or heap[0][0] != now:
                    break
            if len(dirty) == 1:
                process = dirty.pop()
                process.dirty = False
                if process.on:
                    turn(process)
            if dirty:
                self._settle()
        self.events += events
        self.now = max(self.now, end)

    def _settle(self) -> None:
        """Let every touched endpoint take its turn, and those again that a turn's upcalls touched."""
        dirty = self._dirty
        for turns, process in enumerate(dirty):  # grows while it is walked
            process.dirty = False
            if process.on:
                self._turn(process)
            if turns > TURNS_PER_INSTANT_MAX:
                raise InvariantViolation(f"{process.pid} takes turn after turn at {self.now} ns: time stands still")
        dirty.clear()

    def _timer(self, process: Process, now: int) -> None:
        if process.armed != now:
            return  # an earlier timer was armed after this one
        process.armed = NEVER
        if not process.on:
            return
        deadline = process.endpoint.deadline()
        if deadline is None:
            return
        if deadline <= now:
            process.endpoint.wake(now)
            self.touch(process)
        else:
            process.armed = deadline
            heapq.heappush(self._heap, (deadline, self._next(), TIMER, process, None))

    # --- turns -----------------------------------------------------------------------------------------------------

    def _turn(self, process: Process) -> None:
        now = self.now
        endpoint = process.endpoint
        if process.unsent and endpoint.writable():
            self._submit_rest(process)
        effects = endpoint.collect(now)
        packets = effects.packets
        if packets:
            if process.doom is not None:
                self._die_sending(process, packets, process.doom)
                return
            self._send(process, packets, now)
        if effects.drop:
            for peer in effects.drop:
                self.on_drop(process, peer)
        if effects.upcalls:
            self._hand_up(process, effects.upcalls)
            if not process.on:
                return
        deadline = endpoint.deadline()
        if deadline is None:
            if process.state == "lingering":
                self._gone(process, "ended", silent=False)
        elif deadline < process.armed:
            if deadline <= now:
                self._late(process, deadline)
                deadline = now + TIMER_STEP_NS
            else:
                process.late = 0
            process.armed = deadline
            heapq.heappush(self._heap, (deadline, self._next(), TIMER, process, None))

    def _late(self, process: Process, deadline: int) -> None:
        """The endpoint wants to be woken at once, again: once or twice is in order, for ever is a bug of the endpoint."""
        process.late += 1
        if process.late > LATE_MAX:
            raise InvariantViolation(f"{process.pid}'s deadline stays at {deadline} ns, which is past, however often it wakes")

    def _send(self, process: Process, packets: Sequence[tuple[str, Packet]], now: int) -> None:
        peers, heap, push, sequence, encode = process.peers, self._heap, heapq.heappush, self._next, self.encode
        network = self.network
        network.counters.sent += len(packets)
        packet: Any
        for peer, packet in packets:
            connection = peers.get(peer)
            if connection is None:
                network.counters.unconnected += 1
                self.on_unreachable(process, peer)
                continue
            if encode is not None:
                packet = encode(packet)
            link = connection.link
            if link.plain:
                push(heap, (now + link.delay, sequence(), PACKET, connection, packet))
            else:
                network.send(link, connection, packet, now)

    def _hand_up(self, process: Process, upcalls: Sequence[Upcall]) -> None:
        ended = None
        for upcall in upcalls:
            kind = type(upcall)
            if kind is DeliveryBatch:
                process.delivered += len(upcall.payloads)  # type: ignore[union-attr]
            elif kind is ReturnedBatch:
                process.returned += len(upcall.payloads)  # type: ignore[union-attr]
            elif kind is Ended:
                ended = upcall
        if process.app is not None and process.ctx is not None:
            process.app.on_upcalls(process.ctx, upcalls)
        if ended is not None:
            process.ended = ended.error  # type: ignore[union-attr]
            process.state = "lingering"
            process.unsent.clear()
            if ended.expelled:  # type: ignore[union-attr]
                process.expelled = True
                self.on_expelled(process)

    def _submit_rest(self, process: Process) -> None:
        unsent = process.unsent
        payloads, types, items = zip(*unsent, strict=True)
        try:
            taken = process.endpoint.submit(
                payloads,
                self.now,
                types if any(kind is not None for kind in types) else None,
                items if any(touched is not None for touched in items) else None,
            )
        except Blocked:
            return
        except Closed:
            taken = len(unsent)
        for _ in range(taken):
            unsent.popleft()

    # --- the life of processes -------------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        incarnation: int,
        pid: str,
        endpoint: EndpointLike,
        app: App | None = None,
        recorder: TraceRecorder | None = None,
    ) -> Process:
        """Bring a process to life."""
        process = Process(name, incarnation, pid, endpoint)
        process.recorder = recorder
        process.ctx = Context(self, process)
        process.app = app
        endpoint.start(self.now)
        if app is not None:
            app.on_start(process.ctx)
        self.touch(process)
        return process

    def leave(self, process: Process) -> None:
        """Ask the process to leave gracefully; asking twice, or one that has left, changes nothing."""
        self.feed(process, lambda: self._leave(process))

    def _leave(self, process: Process) -> None:
        if not process.leaving and not process.endpoint.closed:
            process.leaving = True
            process.endpoint.leave(self.now)

    def switch(self, process: Process, switch: Switch) -> None:
        """Let the process ask for a switch; one that has left, is blocked or has asked already does not."""
        self.feed(process, lambda: self._switch(process, switch))

    def _switch(self, process: Process, switch: Switch) -> None:
        with suppress(Blocked, Closed, LocalProtocolError):
            process.endpoint.switch(switch, self.now)

    def pause(self, process: Process) -> None:
        """Stop the process as SIGSTOP does: its inputs queue up."""
        if process.on:
            process.paused_from = process.state
            process.state = "paused"
            process.paused = True
            process.on = False

    def resume(self, process: Process) -> None:
        """Let a paused process go on: it drains what has come, then wakes."""
        if process.state != "paused":
            return
        process.state = process.paused_from
        process.paused = False
        process.on = True
        process.armed = NEVER
        inbox, process.inbox = process.inbox, []
        for connection, what in inbox:
            if connection is None:
                what()  # type: ignore[operator]
            elif connection.live:
                self._receive(process, connection, what)
        process.endpoint.wake(self.now)
        self.touch(process)

    def _receive(self, process: Process, connection: Connection, packet: Any) -> None:
        try:
            process.endpoint.receive(connection.source, packet if self.decode is None else self.decode(packet), self.now)
        except RemoteProtocolError as error:
            self.on_remote_error(process, connection.source, error)

    def crash(self, process: Process, silent: bool = False) -> None:
        """Kill the process now. Unless it dies silently (power, cable), its peers see their connections close."""
        if not process.alive:
            return
        if process.endpoint.closed:  # it has left already, and was only lingering
            self._gone(process, "ended", silent)
        else:
            if process.recorder is not None:
                process.recorder.crash(self.now)
            self._gone(process, "crashed", silent)

    def doom(self, process: Process, how: Doom, rng: Random, within_ns: int) -> None:
        """Kill the process while it sends the packets of a turn; at the latest after `within_ns`."""
        if process.alive:
            process.doom = (how, rng)
            self.at(self.now + within_ns, self._doomed, process)

    def _doomed(self, process: Process) -> None:
        if process.doom is not None:
            self.crash(process)

    def _die_sending(self, process: Process, packets: Sequence[tuple[str, Packet]], doom: tuple[Doom, Random]) -> None:
        how, rng = doom
        if how == "prefix":
            kept = packets[: below(rng, len(packets))]
        else:
            kept = [entry for entry in packets if chance(rng, 0.5)]
        self._send(process, kept, self.now)
        self.crash(process)

    def _gone(self, process: Process, state: State, silent: bool) -> None:
        process.state = state
        process.on = process.paused = False
        process.doom = None
        process.inbox.clear()
        process.unsent.clear()
        self.on_gone(process, silent)
