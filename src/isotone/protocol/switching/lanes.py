"""The lanes of a view: the orderers of its instances, and what has come for each of them.

Invariants: the lanes are that of the current instance and, from some moment of a switch on, the next one's; what comes for an
instance before its lane begins is kept for it; a cast that was fetched from another member waits until its sender's own link
has come so far, since the records that its sender sent before it count, unless its orderer says that they do not (`overtakes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import Ordering, View
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.orderer import Orderer
from isotone.protocol.switching.change import Host
from isotone.protocol.switching.channel import BITS, KINDS, Channel, Counted, EarlySink, Sink, untagged_direct
from isotone.protocol.switching.control import READY, Arrivals, Flag, control_of


class Lanes:
    """Brings records to the orderer of their instance."""

    def __init__(self, host: Host, view: View, rank: int, seed: int, first: Orderer, sink: Sink, early_sink: EarlySink) -> None:
        self.current = 0
        self.of: dict[int, Orderer] = {0: first}
        self.broken: dict[int, str] = {}  # what senders said that nobody says
        self.payloads: list[dict[int, Cast]] = []  # of each sender, by number, what came for the next instance (`dual_ids`)
        self._host = host
        self._view = view
        self._rank = rank
        self._seed = seed
        self._sink = sink
        self._early_sink = early_sink
        self._channels: dict[int, Channel] = {}  # of all lanes but the first
        self._arrivals: dict[int, Arrivals] = {}
        self._waiting: dict[int, list[tuple[int, Cast | Direct]]] = {}  # of instances that have not begun here
        count = len(view.members)
        self._taken = [0] * count  # casts of each sender that have been taken in
        self._late: list[deque[Cast]] = [deque() for _ in range(count)]  # fetched, before the sender's link has come so far
        self._forget_payloads()

    def _forget_payloads(self) -> None:
        self.payloads = [{} for _ in self._view.members]

    def arrivals(self, instance: int) -> Arrivals:
        """What was said about the cut before an instance."""
        return self._arrivals.setdefault(instance, Arrivals())

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """Casts of a sender, in the order sent; some are offered again if a later one was refused."""
        self._check(sender)
        if self._host.frozen:
            self.arrived(sender, casts[-1].seq, now)
        for (instance, ready), group in groupby(casts, key=lambda cast: (cast.kind >> BITS, cast.kind & KINDS == READY)):
            fresh = [cast for cast in group if cast.seq > self._taken[sender]]
            if ready and instance > self.current:
                for cast in fresh:
                    self.arrivals(instance).take(sender, cast)
                    self._taken[sender] = cast.seq
            elif fresh and not ready:
                self._take(sender, instance, fresh, now)
                self._taken[sender] = fresh[-1].seq

    def _take(self, sender: int, instance: int, casts: list[Cast], now: int) -> None:
        lane = self.of.get(instance)
        if lane is not None:
            channel = self._channels.get(instance)
            lane.accept(sender, casts if channel is None else [channel.inward(sender, cast) for cast in casts], now)
            if instance > self.current:
                self.payloads[sender] |= {cast.number: cast for cast in casts if cast.number}
        elif instance > self.current:
            self._waiting.setdefault(instance, []).extend((sender, cast) for cast in casts)
        for cast in casts:
            if cast.payloads and not cast.number and instance >= self.current:
                control = control_of(cast)
                if isinstance(control, Flag):
                    self.arrivals(instance + 1).flag(sender, control)

    def early(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """Casts from behind a gap, for lanes that take them. What is not for one of these waits for its place."""
        for instance, group in groupby(casts, key=lambda cast: cast.kind >> BITS):
            lane, channel = self.of.get(instance), self._channels.get(instance)
            if lane is None or not lane.takes_early:
                return
            offered = list(group)
            if isinstance(channel, Counted):
                if not channel.begun(sender):
                    return
                offered = [channel.inward(sender, cast) for cast in offered]
            lane.early(sender, offered, now)

    def direct(self, sender: int, record: Direct, now: int) -> None:
        """A direct record of a sender, in its place."""
        self._check(sender)
        instance = record.kind >> BITS
        lane = self.of.get(instance)
        if record.kind & KINDS == READY:
            if instance > self.current:
                self.arrivals(instance).direct(sender, record)
        elif lane is not None:
            lane.direct(sender, untagged_direct(record), now)
        elif instance > self.current:
            self._waiting.setdefault(instance, []).append((sender, record))

    def _check(self, sender: int) -> None:
        if sender in self.broken and not self._host.frozen:
            raise RemoteProtocolError(self.broken[sender])

    def overtakes(self, kind: int) -> bool:
        """Whether records of this kind are those of an orderer that takes them before the casts that were sent earlier."""
        lane = self.of.get(kind >> BITS)
        return kind & KINDS != READY and lane is not None and lane.overtakes

    def postpone(self, sender: int, cast: Cast) -> bool:
        """A cast was fetched from another member. Whether it must wait for the direct records that its sender sent before it."""
        instance = cast.kind >> BITS
        lane = self.of.get(instance)
        if cast.kind & KINDS == READY or (lane is not None and lane.overtakes):
            return False
        self._late[sender].append(cast)
        self._taken[sender] = cast.seq
        if lane is not None and instance > self.current and cast.number:
            self.payloads[sender][cast.number] = cast
        return True

    def arrived(self, sender: int, seq: int, now: int) -> None:
        """The sender's own link has come to a cast that was fetched."""
        late = self._late[sender]
        while late and late[0].seq <= seq:
            cast = late.popleft()
            self._take(sender, cast.kind >> BITS, [cast], now)

    def all_arrived(self, now: int) -> None:
        """At the end of a view: no link brings anything any more. What is refused is left out, with all that follows it."""
        for sender, late in enumerate(self._late):
            try:
                if late:
                    self.arrived(sender, late[-1].seq, now)
            except RemoteProtocolError as error:
                late.clear()
                self.broken.setdefault(sender, str(error))

    def start(self, instance: int, ordering: Ordering, now: int) -> None:
        """Begin the next lane, with what has come for it already."""
        view = View(self._view.id, self._view.members, ordering)
        orderer = registry.find(ordering.order)
        channel = self._channels[instance] = (
            Counted(self._host, instance, self._sink, self._early_sink, self._rank)
            if orderer.takes_early
            else Channel(self._host, instance, self._sink, self._early_sink)
        )
        lane = self.of[instance] = orderer(channel, view, self._rank, self._seed)
        for peer, level in self._host.suspected.items():
            lane.suspect(peer, level, now)
        for sender, late in enumerate(self._late):
            self.payloads[sender] |= {cast.number: cast for cast in late if cast.kind >> BITS == instance and cast.number}
        for sender, record in self._waiting.pop(instance, ()):
            try:
                if isinstance(record, Direct):
                    if not self._host.frozen:
                        lane.direct(sender, untagged_direct(record), now)
                else:
                    if record.number:
                        self.payloads[sender][record.number] = record
                    lane.accept(sender, [channel.inward(sender, record)], now)
            except RemoteProtocolError as error:
                self.broken.setdefault(sender, str(error))
        if lane.overtakes:
            self._take_late(instance, now)

    def _take_late(self, instance: int, now: int) -> None:
        """What was fetched before the lane began need not wait any longer, or what is fetched next would overtake it."""
        for sender, late in enumerate(self._late):
            mine = [cast for cast in late if cast.kind >> BITS == instance]
            if mine:
                self._late[sender] = deque(cast for cast in late if cast.kind >> BITS != instance)
                try:
                    self._take(sender, instance, mine, now)
                except RemoteProtocolError as error:
                    self.broken.setdefault(sender, str(error))

    def move_on(self) -> Arrivals:
        """The next instance is in force: forget the one before. Returns what was said about the cut between them."""
        del self.of[self.current]
        self._channels.pop(self.current, None)
        self.current += 1
        self._channels[self.current].begin()
        self._forget_payloads()
        return self._arrivals.pop(self.current)
