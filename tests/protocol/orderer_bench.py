"""A bench for one orderer without a network: a recording outbox, and sites that exchange records by hand."""

from __future__ import annotations

from collections.abc import Sequence

from isotone.model.ids import ViewId
from isotone.model.records import Cast, Direct
from isotone.model.view import Ordering, View
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.ordering.registry import find
from tests.protocol.bag import TIMING


class Bench:
    """An outbox that remembers."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.seq = 0
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
        cast = Cast(self.seq, kind, stamp, self.seq, batch.payloads if batch else [])
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
    members = tuple(f"p{i}#1" for i in range(count))
    bench = Bench(rank)
    view = View(ViewId(1, members[0]), members, Ordering(order, options=options))
    return find(order)(bench, view, rank, 0), bench


def batch(*payloads: bytes) -> Batch:
    """A batch of messages."""
    return Batch(list(payloads), None, None, sum(map(len, payloads)))
