"""Token orderers without a network: records wait in queues per direction and are passed by hand."""

from __future__ import annotations

from isotone.model.ids import ViewId
from isotone.model.records import Cast, Direct
from isotone.model.view import Level, Ordering, View
from isotone.protocol.ordering.token.token import Token
from tests.protocol.orderer_bench import Bench, batch


class Sites:
    """The sites of one view."""

    def __init__(self, count: int, level: Level = "agreed", k: int = 1) -> None:
        members = tuple(f"p{i}#1" for i in range(count))
        view = View(ViewId(1, members[0]), members, Ordering("token", level, k))
        self.now = 0
        self.benches = [Bench(rank) for rank in range(count)]
        for bench in self.benches:
            bench.held = [0] * count
        self.sites = [Token(bench, view, rank, 0) for rank, bench in enumerate(self.benches)]
        self.queues: dict[tuple[int, int], list[Cast | Direct]] = {
            (source, target): [] for source in range(count) for target in range(count) if source != target
        }
        self.said: list[tuple[int, int, list[int]]] = []  # (rank, kind, stamp) of every cast without messages

    def turn(self, rank: int) -> None:
        """End a turn of one site: what it says goes into the queues."""
        self.sites[rank].turn(self.now)
        bench = self.benches[rank]
        others = [peer for peer in range(len(self.sites)) if peer != rank]
        for cast in bench.casts:
            if cast.kind:
                self.said.append((rank, cast.kind, cast.stamp))
            for peer in others:
                self.queues[rank, peer].append(cast)
        for to, record in bench.directs:
            for peer in others if to is None else [to]:
                self.queues[rank, peer].append(record)
        bench.casts.clear()
        bench.directs.clear()

    def submit(self, rank: int, payload: bytes) -> None:
        self.sites[rank].submit(batch(payload), self.now)
        self.turn(rank)

    def bring(self, source: int, target: int, count: int = 1) -> None:
        """The next records of one direction arrive, each in a turn of its own."""
        for _ in range(count):
            record = self.queues[source, target].pop(0)
            site = self.sites[target]
            if isinstance(record, Cast):
                site.accept(source, [record], self.now)
            else:
                site.direct(source, record, self.now)
            self.turn(target)

    def settle(self, *cut: int) -> None:
        """Everything arrives, but nothing from or for the sites that are cut."""
        while ways := [way for way, queue in self.queues.items() if queue and not set(way) & set(cut)]:
            for way in ways:
                self.bring(*way)

    def wait(self, span: int, *cut: int) -> None:
        """Time passes, deadlines come, records arrive."""
        end = self.now + span
        while self.now < end:
            self.settle(*cut)
            self.now += 5_000_000
            for rank, site in enumerate(self.sites):
                deadline = site.deadline()
                if deadline is not None and deadline <= self.now:
                    site.wake(self.now)
                    self.turn(rank)

    def suspect(self, by: int, *peers: int) -> None:
        for peer in peers:
            self.sites[by].suspect(peer, "soft", self.now)

    def trust(self, by: int, *peers: int) -> None:
        for peer in peers:
            self.sites[by].trust(peer, "soft", self.now)

    def delivered(self, rank: int) -> list[tuple[bytes, int]]:
        """(payload, number) of what a site has delivered in the view."""
        return [(cast.payloads[0], position[2]) for _, cast, position, _ in self.benches[rank].delivered if position is not None]
