"""A bench for orderers without a network: a recording outbox, and sites that exchange records by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.model.ids import ViewId
from isotone.model.records import Cast, Direct
from isotone.model.view import Ordering, View
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.ordering.registry import find
from isotone.trace.recorder import TraceRecorder
from tests.protocol.bag import TIMING


class Bench:
    """An outbox that remembers."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.seq = 0
        self.number = 1
        self.casts: list[Cast] = []
        self.directs: list[tuple[int | None, Direct]] = []
        self.timing = TIMING
        self.cores: list[tuple[int, tuple[int, ...]]] = []
        self.proofs: list[tuple[int, int, int]] = []
        self.held: list[int] = []
        self.supplied: list[tuple[int, list[int]]] = []
        self.delivered: list[tuple[int, Cast, tuple[int, ...] | None, Evidence | None]] = []

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        self.seq += 1
        cast = Cast(self.seq, kind, stamp, self.number, batch.payloads if batch else [])
        self.number += len(cast.payloads)
        self.casts.append(cast)
        return cast

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        self.directs.append((to, Direct(kind, stamp)))

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        self.delivered.append((sender, cast, position, evidence))

    def holds(self, member: int, sender: int, seq: int) -> None:
        self.proofs.append((member, sender, seq))

    def supply(self, to: int, held: Sequence[int]) -> None:
        self.supplied.append((to, list(held)))

    def core(self, core: tuple[int, ...], ring: int) -> None:
        self.cores.append((ring, core))

    def note(self, what: str) -> None:
        pass


def make(order: str, rank: int, count: int, **options: int | str | bool) -> tuple[Orderer, Bench]:
    """An orderer of the given rank in a view of `count` members."""
    bench = Bench(rank)
    return _orderer(bench, order, rank, count, options), bench


def _orderer(bench: Bench, order: str, rank: int, count: int, options: dict[str, int | str | bool]) -> Orderer:
    members = tuple(f"p{i}#1" for i in range(count))
    return find(order)(bench, View(ViewId(1, members[0]), members, Ordering(order, options=options)), rank, 0)


def batch(*payloads: bytes) -> Batch:
    """A batch of messages."""
    return Batch(list(payloads), None, None, sum(map(len, payloads)))


class Recording(Bench):
    """An outbox that also writes the trace of its site."""

    def __init__(self, rank: int, count: int, order: str) -> None:
        super().__init__(rank)
        self.now = 0
        self.order = order
        self.members = [f"p{i}#1" for i in range(count)]
        self.view = ViewId(1, self.members[0])
        self.trace = TraceRecorder(self.members[rank])
        self.trace.start(0, {})
        self.trace.view(0, self.view, self.members, order, "agreed", 1)

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        cast = super().multicast(kind, stamp, batch)
        if batch is not None:
            self.trace.send(self.now, self.view, cast.number, cast.payloads)
        return cast

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        super().deliver(sender, cast, position, evidence)
        origin = self.members[sender]
        self.trace.deliver(self.now, self.view, origin, cast.number, cast.payloads, position, self.order, "agreed", 1)


class Sites:
    """The sites of one view; records wait in queues per direction until they are passed on by hand."""

    def __init__(self, order: str, count: int, **options: int | str | bool) -> None:
        self.benches = [Recording(rank, count, order) for rank in range(count)]
        self.sites = [_orderer(bench, order, rank, count, options) for rank, bench in enumerate(self.benches)]
        self.queues: dict[tuple[int, int], list[Cast | Direct]] = {}
        self.packets = 0
        self.now = 0

    def _collect(self, rank: int) -> None:
        bench = self.benches[rank]
        others = [peer for peer in range(len(self.sites)) if peer != rank]
        for cast in bench.casts:
            for peer in others:
                self.queues.setdefault((rank, peer), []).append(cast)
        for to, record in bench.directs:
            for peer in others if to is None else [to]:
                self.queues.setdefault((rank, peer), []).append(record)
        bench.casts.clear()
        bench.directs.clear()

    def _step(self, rank: int) -> Orderer:
        self.now += 1
        self.benches[rank].now = self.now
        return self.sites[rank]

    def submit(self, rank: int, payload: bytes = b"x") -> None:
        """A site sends one message, and its turn ends."""
        site = self._step(rank)
        site.submit(batch(payload), 0)
        site.turn(0)
        self._collect(rank)

    def pass_one(self, source: int, target: int, index: int = 0) -> None:
        """A record arrives and the receiver's turn ends; with an index it overtakes those before it."""
        record = self.queues[source, target].pop(index)
        self.packets += 1
        site = self._step(target)
        if isinstance(record, Cast):
            site.accept(source, [record], 0)
        else:
            site.direct(source, record, 0)
        site.turn(0)
        self._collect(target)

    def ways(self) -> list[tuple[int, int]]:
        """The directions in which records wait."""
        return sorted(way for way, queue in self.queues.items() if queue)

    def settle(self) -> None:
        """Everything arrives."""
        while waiting := [way for way, queue in self.queues.items() if queue]:
            for source, target in waiting:
                self.pass_one(source, target)

    def orders(self) -> list[list[tuple[int, int]]]:
        """(sender, seq) of what each site delivered."""
        return [[(sender, cast.seq) for sender, cast, _, _ in bench.delivered] for bench in self.benches]

    def history(self) -> list[dict[str, Any]]:
        """The rows of all sites; they stop here."""
        for bench in self.benches:
            bench.trace.stop(self.now + 1)
        return [row for bench in self.benches for row in bench.trace.rows()]
