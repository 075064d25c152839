"""Sites of a semantic order without a network: casts arrive in any order, behind gaps too, and the view ends as a flush ends it.

What must be true is asked of the casts themselves: the true past of every cast is kept here, whatever its stamp says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from isotone.model.columns import described, full
from isotone.model.conflicts import Conflicts
from isotone.model.ids import ViewId
from isotone.model.records import Cast, Place
from isotone.model.view import Ordering, View
from isotone.protocol.membership.plan import beyond
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.ordering.registry import find
from isotone.trace.recorder import TraceRecorder
from tests.protocol.bag import TIMING

Items = Sequence[str] | None


class Site:
    """An outbox that remembers, and the stream of each other member as far as it came."""

    def __init__(self, rank: int, view: View, early: int) -> None:
        self.rank = rank
        self.timing = TIMING
        self.view = view
        self.held = [0] * len(view)
        self.freed = [0] * len(view)
        self.arrived: list[dict[int, Cast]] = [{} for _ in view.members]
        self.delivered: list[Place] = []
        self.early: set[Place] = set()
        self.room = early
        self.frozen = False
        self.number = 1
        self.trace = TraceRecorder(view.members[rank])
        self.trace.start(0, {})
        self.trace.view(0, view.id, view.members, view.ordering.order, "agreed", 1)
        self.orderer: Orderer = find(view.ordering.order)(self, view, rank, 0)

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        assert batch is not None
        assert not self.frozen
        cast = Cast(self.held[self.rank] + 1, kind, stamp, self.number, batch.payloads, batch.types, batch.items)
        count = len(batch.payloads)
        self.trace.send(0, self.view.id, self.number, batch.payloads, full(batch.types, count), full(batch.items, count))
        self.number += len(batch.payloads)
        self.held[self.rank] = cast.seq
        self.arrived[self.rank][cast.seq] = cast
        return cast

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        assert cast.seq <= self.held[sender]
        self._take(sender, cast)

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        if not self.frozen:
            if sum(seq > self.held[rank] for rank, seq in self.early) >= self.room:
                return False
            self.early.add((sender, cast.seq))
        self._take(sender, cast)
        return True

    def _take(self, sender: int, cast: Cast) -> None:
        assert (sender, cast.seq) not in self.delivered, "delivered twice"
        self.delivered.append((sender, cast.seq))
        members, ordering = self.view.members, self.view.ordering
        self.trace.deliver(0, self.view.id, members[sender], cast.number, cast.payloads, None, ordering.order, "agreed", 1)

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        raise AssertionError("no direct records")

    def holds(self, member: int, sender: int, seq: int) -> None:
        raise AssertionError("no proofs")

    def supply(self, to: int, held: Sequence[int]) -> None:
        raise AssertionError("nothing to supply")

    def core(self, core: tuple[int, ...], ring: int) -> None:
        raise AssertionError("no core")

    def note(self, what: str) -> None:
        pass

    def arrive(self, sender: int, cast: Cast) -> None:
        """A cast comes, in order or behind a gap."""
        self.arrived[sender].setdefault(cast.seq, cast)
        if cast.seq > self.held[sender] + 1:
            self.orderer.early(sender, [cast], 0)
            return
        run = []
        while self.held[sender] + 1 in self.arrived[sender]:
            self.held[sender] += 1
            run.append(self.arrived[sender][self.held[sender]])
        if run:
            self.orderer.accept(sender, run, 0)


class Semantic:
    """The sites of one view with a conflict relation."""

    def __init__(self, order: str, count: int, conflicts: Conflicts | None, early: int = 64) -> None:
        members = tuple(f"p{i}#1" for i in range(count))
        self.conflicts = conflicts
        self.view = View(ViewId(1, members[0]), members, Ordering(order, conflicts=conflicts))
        self.sites = [Site(rank, self.view, early) for rank in range(count)]
        self.casts: dict[Place, Cast] = {}
        self.past: dict[Place, set[Place]] = {}
        self.causal = order == "semantic_causal"
        self.returned: list[list[Cast]] = [[] for _ in members]

    def send(self, rank: int, *messages: tuple[str | None, Items]) -> list[Place]:
        """A site submits messages of these types and items together; returns the casts that they became."""
        site = self.sites[rank]
        before = site.held[rank]
        seen = [place for place in site.delivered if self.causal or place[0] == rank]
        payloads = [b"x"] * len(messages)
        types, items = [type_ for type_, _ in messages], [tuple(some) if some is not None else None for _, some in messages]
        site.orderer.submit(Batch(payloads, *described(len(payloads), types, items), len(payloads)), 0)
        made = [(rank, seq) for seq in range(before + 1, site.held[rank] + 1)]
        past = {(rank, seq) for seq in range(1, before + 1)}.union(seen, *(self.past[place] for place in seen))
        if before:
            past |= self.past[rank, before]
        for place in made:
            self.casts[place] = site.arrived[rank][place[1]]
            self.past[place] = set(past)
            past.add(place)
        return made

    def arrive(self, place: Place, *targets: int) -> None:
        """A cast reaches sites; all others if none is named."""
        for target in targets or range(len(self.sites)):
            if target != place[0]:
                self.sites[target].arrive(place[0], self.casts[place])

    def gossip(self, rank: int) -> None:
        """A site learns what all hold."""
        self.sites[rank].freed = [min(column) for column in zip(*(site.held for site in self.sites), strict=True)]

    def conflict(self, one: Place, two: Place) -> bool:
        """Whether casts conflict: any two of their messages."""

        def told(place: Place) -> list[tuple[str | None, Items]]:
            cast = self.casts[place]
            count = len(cast.payloads)
            nothing = [None] * count
            return list(zip(full(cast.types, count) or nothing, full(cast.items, count) or nothing, strict=True))

        return self.conflicts is None or any(self.conflicts.conflict(*a, *b) for a in told(one) for b in told(two))

    def precede(self, place: Place) -> set[Place]:
        """The casts of its past that a cast conflicts with."""
        return {other for other in self.past[place] if self.conflict(place, other)}

    def end(self, present: Collection[int]) -> None:
        """The view ends for these sites, as the flush ends it."""
        for rank in present:
            self.sites[rank].orderer.freeze(0)
            self.sites[rank].frozen = True
        held = [self.sites[rank].held for rank in present]
        target = [max(column) for column in zip(*held, strict=True)]
        ahead = [[place for place in self.sites[rank].early if place[1] > self.sites[rank].held[place[0]]] for rank in present]
        early = beyond(target, ahead)
        for rank in present:
            site = self.sites[rank]
            for sender, upto in enumerate(target):
                rest = [self.casts[sender, seq] for seq in range(site.held[sender] + 1, upto + 1)]
                site.held[sender] = max(upto, site.held[sender])
                if rest:
                    site.orderer.accept(sender, rest, 0)
            for sender, seq in early:
                site.orderer.early(sender, [self.casts[sender, seq]], 0)
            self.returned[rank] = site.orderer.conclude(frozenset(present), 0)
            for cast in self.returned[rank]:
                count = len(cast.payloads)
                columns = full(cast.types, count), full(cast.items, count)
                site.trace.returned(0, self.view.id, self.view.members[rank], cast.number, cast.payloads, *columns)

    def settle(self) -> None:
        """Everything arrives everywhere."""
        for place in sorted(self.casts, key=lambda one: (one[1], one[0])):
            self.arrive(place)

    def check(self) -> None:
        """Nobody has delivered a cast without, or before, what precedes it and conflicts with it."""
        for site in self.sites:
            for index, place in enumerate(site.delivered):
                missing = self.precede(place) - set(site.delivered[:index])
                assert not missing, f"p{site.rank} delivers {place} without {sorted(missing)}"

    def rows(self) -> list[dict[str, Any]]:
        """The trace of all sites; they stop here."""
        for site in self.sites:
            site.trace.stop(1)
        return [row for site in self.sites for row in site.trace.rows()]
