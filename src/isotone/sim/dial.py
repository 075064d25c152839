"""Connections between processes: dialling seeds and peers by name, closing, and telling both sides.

A dial succeeds if both directions are open when it begins and when its round trip is over. Seeds that are not connected
are dialled again and again, for ever; so are names that an endpoint wanted to send to. A partition does not close a
connection: its packets are lost until the network heals. A connection whose other end is gone without a word is given
up after `KEEPALIVE_NS`, or as soon as the other end is started anew.
"""

from __future__ import annotations

from isotone.model.errors import RemoteProtocolError
from isotone.sim.engine import Engine
from isotone.sim.process import Connection, Process

KEEPALIVE_NS = 5_000_000_000


class Dialler:
    """The part of the simulated drivers that makes and closes connections."""

    def __init__(self, engine: Engine, processes: dict[str, Process], interval_ns: int) -> None:
        self._engine = engine
        self._network = engine.network
        self._processes = processes  # the latest process instance of every name
        self._interval_ns = interval_ns
        self.dials = 0
        self.connections = 0
        engine.on_unreachable = self._unreachable
        engine.on_gone = self._gone
        engine.on_drop = self.drop
        engine.on_remote_error = self._misbehaved
        self.remote_errors: list[tuple[int, str, str, str]] = []  # time, who noticed, whose packet, what

    def begin(self, process: Process, seeds: tuple[str, ...]) -> None:
        """Dial the seeds, now and whenever they are not connected."""
        for name in seeds:
            if name != process.name:
                process.wanted[name] = None
        self._tick(process)

    def _tick(self, process: Process) -> None:
        if not process.alive:
            return
        if not process.paused:
            self._give_up(process)
            for name in process.wanted:
                self._dial(process, name)
        self._engine.at(self._engine.now + self._interval_ns, self._tick, process)

    def _give_up(self, process: Process) -> None:
        """Close what has been dead for long."""
        limit = self._engine.now - KEEPALIVE_NS
        for peer, connection in list(process.peers.items()):
            if not connection.live and connection.dead_at <= limit:
                del process.peers[peer]
                connection.back.kill(self._engine.now)
                self._tell_disconnected(process, peer)

    def _unreachable(self, process: Process, peer: str) -> None:
        name = process.endpoint.address_of(peer)
        if name is not None and name != process.name and name not in process.wanted:
            process.wanted[name] = None
            self._dial(process, name)

    def _dial(self, process: Process, name: str) -> None:
        target = self._processes.get(name)
        if target is None or not target.on or name in process.dialling or target.pid in process.dropped:
            return
        known = process.peers.get(target.pid)
        if known is not None and known.live:
            return
        network = self._network
        self.dials += 1
        if network.is_open(process.name, name) and network.is_open(name, process.name):
            process.dialling.add(name)
            trip = network.link(process.name, name).draw() + network.link(name, process.name).draw()
            self._engine.at(self._engine.now + trip, self._established, (process, target))

    def _established(self, pair: tuple[Process, Process]) -> None:
        dialler, target = pair
        dialler.dialling.discard(target.name)
        network = self._network
        if not (dialler.alive and target.alive):
            return
        if not (network.is_open(dialler.name, target.name) and network.is_open(target.name, dialler.name)):
            return
        known = dialler.peers.get(target.pid)
        if known is not None and known.live and target.peers.get(dialler.pid) is known.back:
            return  # both dialled each other
        there = Connection(dialler, target, network.link(dialler.name, target.name))
        back = Connection(target, dialler, network.link(target.name, dialler.name))
        there.back, back.back = back, there
        self.connections += 1
        for process, peer, connection in ((dialler, target, there), (target, dialler, back)):
            old = process.peers.get(peer.pid)
            if old is not None:
                old.kill(self._engine.now)
                old.back.kill(self._engine.now)
            process.peers[peer.pid] = connection
            process.dropped.discard(peer.pid)
            self._tell_connected(process, peer)

    def _tell_connected(self, process: Process, peer: Process) -> None:
        engine = self._engine
        engine.feed(process, lambda: process.endpoint.connected(peer.pid, peer.name, engine.now))

    # --- closing ---------------------------------------------------------------------------------------------------

    def drop(self, process: Process, peer: str) -> None:
        """The endpoint wants nothing more from this peer: close, and do not dial it until it dials us."""
        process.dropped.add(peer)
        self._close(process, peer)

    def _misbehaved(self, process: Process, peer: str, error: RemoteProtocolError) -> None:
        self.remote_errors.append((self._engine.now, process.pid, peer, str(error)))
        self._close(process, peer)
        self._tell_disconnected(process, peer)

    def reset(self, one: Process, other: Process) -> None:
        """Break the connection between two processes; both notice."""
        if other.pid in one.peers:
            self._close(one, other.pid)
            self._tell_disconnected(one, other.pid)

    def _close(self, process: Process, peer: str) -> None:
        connection = process.peers.pop(peer, None)
        if connection is not None:
            connection.back.kill(self._engine.now)
            self._announce(process, connection)

    def _announce(self, process: Process, connection: Connection) -> None:
        """Let the other side notice that the connection was closed, if word of it gets through."""
        link = connection.link
        if link.open and link.held is None:
            arrives = max(self._engine.now + link.draw(), link.last)
            self._engine.at(arrives, self._noticed, connection)
        else:
            connection.kill(self._engine.now)

    def _noticed(self, connection: Connection) -> None:
        process, peer = connection.target, connection.source
        connection.kill(self._engine.now)
        if connection.link.open and process.alive and process.peers.get(peer) is connection.back:
            del process.peers[peer]
            self._tell_disconnected(process, peer)

    def _tell_disconnected(self, process: Process, peer: str) -> None:
        engine = self._engine
        engine.feed(process, lambda: process.endpoint.disconnected(peer, engine.now))

    def _gone(self, process: Process, silent: bool) -> None:
        for peer in list(process.peers):
            connection = process.peers.pop(peer)
            connection.back.kill(self._engine.now)
            if not silent:
                self._announce(process, connection)

    def replaced(self, old: Process) -> None:
        """A silently dead process was started anew: who still sends to the old one, and reaches its place, learns it."""
        network = self._network
        for process in self._processes.values():
            connection = process.peers.get(old.pid)
            reached = network.is_open(process.name, old.name) and network.is_open(old.name, process.name)
            if connection is not None and reached:
                connection.back.kill(self._engine.now)
                del process.peers[old.pid]
                self._tell_disconnected(process, old.pid)
