"""Who is known: addresses, and the last that each process said of itself.

Known processes outside the view are probed for ever, ever more slowly while they are silent, so that components that were
separated meet again. The directory is bounded; an earlier incarnation of a known name is not learned.
"""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.ids import INITIAL_VIEW, ProcessId, ViewId, incarnation_of, name_of
from isotone.model.records import Heartbeat, Probe
from isotone.model.settings import Limits, Timing
from isotone.protocol.membership.plan import newest

_GOSSIP = 32


class Said:
    """The last word of a process about itself."""

    __slots__ = ("founder", "hears_me", "leaving", "members", "promised", "suspects", "time", "view")

    def __init__(self, time: int) -> None:
        self.time = time
        self.view: ViewId | None = None
        self.promised = INITIAL_VIEW
        self.members: tuple[ProcessId, ...] = ()
        self.suspects: frozenset[ProcessId] = frozenset()
        self.hears_me = False
        self.leaving = False
        self.founder = False


class Directory:
    """Addresses and last words of all known processes but oneself."""

    def __init__(self, me: ProcessId, timing: Timing, limits: Limits) -> None:
        self._me = me
        self._timing = timing
        self._limit = limits.contacts
        self.addresses: dict[ProcessId, str] = {}
        self.said: dict[ProcessId, Said] = {}
        self._probe_at: dict[ProcessId, int] = {}
        self._probed: dict[ProcessId, int] = {}
        self._silent: dict[ProcessId, int] = {}
        self._since: dict[ProcessId, int] = {}

    def learn(self, process: ProcessId, address: str, now: int) -> None:
        """A process is at `address`."""
        if process == self._me:
            return
        if process not in self.addresses:
            if len(self.addresses) >= self._limit:
                return
            for other in [p for p in self.addresses if name_of(p) == name_of(process)]:
                if incarnation_of(other) > incarnation_of(process):
                    return
                if other not in self.said:
                    self.forget(other)
            self._probe_at[process] = now
            self._since[process] = now
        if address or process not in self.addresses:
            self.addresses[process] = address

    def forget(self, process: ProcessId) -> None:
        """The process has ended."""
        for table in (self.addresses, self.said, self._probe_at, self._probed, self._silent, self._since):
            table.pop(process, None)

    def heartbeat(self, process: ProcessId, record: Heartbeat, now: int) -> Said:
        """A heartbeat came from `process`."""
        said = self._fresh(process, now)
        said.view = record.view if record.view != INITIAL_VIEW else None
        said.promised = record.promised
        said.suspects = frozenset(record.suspects)
        said.hears_me = self._me not in said.suspects
        said.leaving = record.leaving
        return said

    def probe(self, process: ProcessId, record: Probe, now: int) -> Said | None:
        """A probe came from `process`; None if there is no room for another process."""
        self.learn(process, record.address, now)
        if process not in self.addresses:
            return None
        said = self._fresh(process, now)
        said.view = record.view
        said.promised = record.promised
        said.members = tuple(record.members)
        said.suspects = frozenset()
        said.hears_me = record.hears_you
        said.leaving = record.leaving
        said.founder = record.founder
        for contact, address in zip(record.contacts, record.addresses, strict=False):
            self.learn(contact, address, now)
        return said

    def _fresh(self, process: ProcessId, now: int) -> Said:
        said = self.said.get(process)
        if said is None:
            said = self.said[process] = Said(now)
        said.time = now
        self.met(process, now)
        return said

    def met(self, process: ProcessId, now: int) -> None:
        """A process is there, whether or not it counts: it is probed as often as one that answers."""
        if self._silent.get(process):
            self._silent[process] = 0
            self._probe_at[process] = now

    def hears(self, process: ProcessId, now: int) -> bool:
        """Whether `process` said anything of late."""
        said = self.said.get(process)
        return said is not None and now - said.time <= max(self._timing.soft_ns, 3 * self._timing.probe_ns)

    def contacts(self, members: Sequence[ProcessId], now: int) -> list[ProcessId]:
        """Whom to tell others of: the members of the view, and some that were heard of late."""
        heard = [peer for peer in self.said if peer in self.addresses and peer not in members and self.hears(peer, now)]
        return [*members, *heard[:_GOSSIP]]

    def unheard(self, inside: frozenset[ProcessId], now: int) -> list[ProcessId]:
        """Known processes outside the view that do not get through to this one: they cannot be in a view with it."""
        grace = max(self._timing.soft_ns, 3 * self._timing.probe_ns)
        known = [peer for peer, since in self._since.items() if peer not in inside and now - since > grace]
        silent = [peer for peer in known if not self.hears(peer, now)]
        return sorted(newest(silent))[:_GOSSIP]

    def probe_soon(self, process: ProcessId, now: int) -> None:
        """Answer `process` at once, unless it was probed just now."""
        if now - self._probed.get(process, -self._timing.probe_ns) >= self._timing.probe_ns // 4:
            self._probe_at[process] = now

    def due(self, inside: frozenset[ProcessId], now: int) -> list[ProcessId]:
        """The processes outside the view to be probed now; forgets who has been silent for very long."""
        result = []
        for process in list(self.addresses):
            if process in inside or self._probe_at.get(process, now) > now:
                continue
            last = self.said[process].time if process in self.said else self._since.get(process, now)
            if now - last > self._timing.forget_ns:
                self.forget(process)
                continue
            silent = 0 if self.hears(process, now) else self._silent.get(process, 0) + 1
            self._silent[process] = silent
            self._probe_at[process] = now + (self._timing.probe_ns << min(silent // 4, 3))
            self._probed[process] = now
            result.append(process)
        return result
