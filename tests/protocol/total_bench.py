"""Sites of `semantic_total` without a network: records are passed on by hand, and the view ends as a flush ends it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest

from isotone.model.columns import described, full
from isotone.model.conflicts import Conflicts
from isotone.model.ids import ViewId
from isotone.model.records import Cast, Direct
from isotone.model.view import Level, Ordering, View
from isotone.pipeline.oracle import check_history
from isotone.pipeline.oracle.check import Expectation
from isotone.protocol.ordering.orderer import Batch, Evidence
from isotone.protocol.semantic import leads
from isotone.protocol.semantic.shapes import Shape
from isotone.protocol.semantic.total import SemanticTotal
from isotone.trace.recorder import TraceRecorder
from tests.protocol.orderer_bench import Bench

Place = tuple[int, int]
Message = tuple[str | None, Sequence[str] | None]


@pytest.fixture(autouse=True, scope="module")
def learning_at_once() -> Iterator[None]:
    """In a module that imports this, sites learn from each cast in the turn in which it comes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leads, "LATEST", 1)
        yield


class Site(Bench):
    """An orderer, its outbox, and its trace."""

    def __init__(self, rank: int, view: View) -> None:
        super().__init__(rank)
        self.view = view
        self.now = 0
        self.freed = [0] * len(view)
        self.stream: list[Cast] = []
        self.news: list[Cast | Direct] = []
        self.notes: list[str] = []
        self.trace = TraceRecorder(view.members[rank])
        self.trace.start(0, {})
        self.trace.view(0, view.id, view.members, "semantic_total", "agreed", 1)
        self.orderer = SemanticTotal(self, view, rank, 0)

    def multicast(self, kind: int, stamp: list[int], batch: Batch | None) -> Cast:
        assert batch is not None
        cast = Cast(len(self.stream) + 1, kind, stamp, self.number, batch.payloads, batch.types, batch.items)
        count = len(batch.payloads)
        self.trace.send(self.now, self.view.id, self.number, batch.payloads, full(batch.types, count), full(batch.items, count))
        self.number += len(batch.payloads)
        self.stream.append(cast)
        self.news.append(cast)
        return cast

    def direct(self, kind: int, stamp: list[int], to: int | None = None) -> None:
        self.news.append(Direct(kind, stamp))

    def deliver(self, sender: int, cast: Cast, position: tuple[int, ...] | None, evidence: Evidence | None = None) -> None:
        super().deliver(sender, cast, position, evidence)
        origin = self.view.members[sender]
        self.trace.deliver(
            self.now,
            self.view.id,
            origin,
            cast.number,
            cast.payloads,
            position,
            "semantic_total",
            "agreed",
            1,
            full(cast.types, len(cast.payloads)),
            full(cast.items, len(cast.payloads)),
        )

    def deliver_early(self, sender: int, cast: Cast) -> bool:
        raise AssertionError("nothing comes early")

    def note(self, what: str) -> None:
        self.notes.append(what)


class Total:
    """The sites of one view with a conflict relation."""

    def __init__(self, count: int, conflicts: Conflicts | None, level: Level = "agreed") -> None:
        members = tuple(f"p{i}#1" for i in range(count))
        self.conflicts = conflicts
        self.view = View(ViewId(1, members[0]), members, Ordering("semantic_total", level, conflicts=conflicts))
        self.sites = [Site(rank, self.view) for rank in range(count)]
        self.ways: dict[Place, list[Cast | Direct]] = {
            (one, two): [] for one in range(count) for two in range(count) if one != two
        }
        self.arrived = [[0] * count for _ in members]
        self.now = 0

    def _turn(self, rank: int) -> None:
        site = self.sites[rank]
        site.orderer.turn(self.now)
        if site.orderer.study_at is not None:
            self._study(site)
        for way, queue in self.ways.items():
            if way[0] == rank:
                queue += site.news
        site.news = []

    def _study(self, site: Site) -> None:
        site.orderer.study_at, site.orderer.at_leisure, site.orderer.idle = None, True, False
        site.orderer.turn(self.now)

    def study(self, rank: int) -> None:
        """The turn of the deadline for learning; it comes by itself, at once, after turns that make that deadline."""
        self._study(self.sites[rank])
        self._turn(rank)

    def _step(self, rank: int) -> Site:
        self.now += 1
        site = self.sites[rank]
        site.now = self.now
        return site

    def send(self, rank: int, *messages: Message) -> list[Cast]:
        """A site submits messages together, and its turn ends; returns the casts that they became."""
        site = self._step(rank)
        before = len(site.stream)
        payloads = [b"x"] * len(messages)
        types, items = [type_ for type_, _ in messages], [tuple(some) if some is not None else None for _, some in messages]
        site.orderer.submit(Batch(payloads, *described(len(payloads), types, items), len(payloads)), self.now)
        self.arrived[rank][rank] = len(site.stream)
        self._turn(rank)
        return site.stream[before:]

    def pass_on(self, source: int, target: int, count: int = 1) -> list[Cast | Direct]:
        """The next records of a stream arrive, each in a turn of its own."""
        passed = []
        for _ in range(count):
            record = self.ways[source, target].pop(0)
            site = self._step(target)
            if isinstance(record, Cast):
                site.orderer.accept(source, [record], self.now)
                self.arrived[target][source] = record.seq
            else:
                site.orderer.direct(source, record, self.now)
            self._turn(target)
            passed.append(record)
        return passed

    def pass_all(self, source: int, target: int) -> None:
        """A whole stream arrives."""
        self.pass_on(source, target, len(self.ways[source, target]))

    def waiting(self) -> list[Place]:
        """The ways on which something waits."""
        return [way for way, queue in self.ways.items() if queue]

    def settle(self) -> None:
        """Everything arrives."""
        while ways := self.waiting():
            for way in ways:
                self.pass_on(*way)

    def end(self, present: Collection[int]) -> None:
        """The view ends for these sites, as the flush ends it."""
        target = [max(self.arrived[rank][sender] for rank in present) for sender in range(len(self.sites))]
        for rank in present:
            site = self._step(rank)
            site.orderer.freeze(self.now)
            for sender, upto in enumerate(target):
                rest = self.sites[sender].stream[self.arrived[rank][sender] : upto]
                if rest and sender != rank:
                    site.orderer.accept(sender, rest, self.now)
            assert site.orderer.conclude(frozenset(present), self.now) == []
            assert not site.news

    def order(self, rank: int) -> list[Place]:
        """What a site delivered."""
        return [(sender, cast.seq) for sender, cast, _, _ in self.sites[rank].delivered]

    def check(self, together: Collection[int] = ()) -> None:
        """Conflicting messages have one order, which is causal; who went together delivered the same."""
        for site in self.sites:
            site.trace.stop(self.now + 1)
        rows = [row for site in self.sites for row in site.trace.rows()]
        names = ["integrity", "duplication", "semantic_fifo", "semantic_causal", "semantic_total"]
        report = check_history(rows, names, expected=Expectation(conflicts=self.conflicts))
        assert not report.violated(), [(check.name, check.witness) for check in report.checks if check.verdict == "violated"]
        self._check_positions()
        for one, two in combinations(together, 2):
            assert sorted(self.order(one)) == sorted(self.order(two))


    def _check_positions(self) -> None:
        """A cast has one position, no other cast has it, and conflicting ones are delivered in their order."""
        positions: dict[Place, Any] = {}
        for site in self.sites:
            before: list[tuple[Any, Shape]] = []
            for sender, cast, position, _ in site.delivered:
                assert positions.setdefault((sender, cast.seq), position) == position
                shape = site.orderer.shapes.of_cast(cast)
                assert all(position > other for other, one in before if site.orderer.shapes.conflict(one, shape))
                before.append((position, shape))
        assert len(set(positions.values())) == len(positions)


def told(records: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Records in short: what they are, and their stamps."""
    return [("cast" if isinstance(r, Cast) else ("?", "ack", "lead", "truce")[r.kind], r.stamp) for r in records]
