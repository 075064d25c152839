"""Exact checks of semantic orders on whole runs.

A conflict relation is turned into *marks*: a message leaves some and asks for some, such that two messages conflict exactly
if one asks for a mark that the other leaves. An item, a type, or a type with an item is a mark; so the work is the number of
events times the few marks of a message, however many items there are, and a hot item is only a mark more often.

- *semantic_fifo*, *semantic_causal*: per mark the newest that was left, as number or as vector of the past.
- *semantic_total*: a candidate order is followed per mark: a message that asks for a mark left by a later one of the
  candidate begins an island. Inside islands the precedence graph is searched, with nodes between for each process and mark.

A check returns messages that show a violation, none if there is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from isotone.model.conflicts import Conflicts
from isotone.pipeline.kernels.causal import causes, certified, vectors_of
from isotone.pipeline.kernels.compact import Compact, Message
from isotone.pipeline.kernels.load import Columns
from isotone.pipeline.kernels.order import SEARCHED_MAX, candidate, within
from isotone.pipeline.kernels.single import fifo
from isotone.pipeline.oracle.total import knots

COLUMNS: Final = ("type", "items")
Description: TypeAlias = tuple[str | None, tuple[str, ...] | None]


@dataclass(slots=True)
class Marks:
    """What each message leaves and asks for, by its class."""

    of: Any
    """The class of each message."""
    left: list[list[int]]
    asked: list[list[int]]


def described(rows: Columns) -> set[Description]:
    """The types and the items that sends and deliveries name, each alone: what a relation may object to."""
    import pyarrow.compute as pc

    about = np.isin(rows.codes["kind"], [rows.code("kind", "send"), rows.code("kind", "deliver")])
    table = rows.table.filter(about) if len(rows) else rows.table
    found: set[Description] = set()
    if "type" in table.column_names:
        found.update((word, None) for word in pc.unique(table.column("type")).to_pylist() if word is not None)
    if "items" in table.column_names and pc.any(pc.equal(pc.list_flatten(table.column("items")), "")).as_py():
        found.add((None, ("",)))
    return found


def semantic_fifo(run: Compact, conflicts: Conflicts) -> list[Message]:
    """Two conflicting messages of one sender that a process delivers against their numbers."""
    if not fifo(run):
        return []
    marks = _marks(run, conflicts)
    for chain in run.chains:
        newest: dict[tuple[int, int], int] = {}
        ids = chain.delivered()
        for message, origin, kind in zip(ids.tolist(), run.origin[ids].tolist(), marks.of[ids].tolist(), strict=True):
            for mark in marks.asked[kind]:
                before = newest.get((origin, mark), -1)
                if before > message:
                    return run.named([before, message])
            for mark in marks.left[kind]:
                if newest.get((origin, mark), -1) < message:
                    newest[origin, mark] = message
    return []


def semantic_causal(run: Compact, conflicts: Conflicts) -> list[Message]:
    """A message, a conflicting one that it precedes and that was delivered before it, and what leads from one to the other."""
    if certified(run):
        return []
    vectors, late = vectors_of(run)
    marks = _marks(run, conflicts)
    for index in sorted({index for index, _ in late}):  # who keeps causal order keeps it among conflicting messages
        known: dict[int, Any] = {}
        seen: dict[int, list[int]] = {}
        ids = run.chains[index].delivered()
        origins = run.origin[ids]
        ordinals = (ids - run.start[origins] + 1).tolist()
        for message, origin, ordinal in zip(ids.tolist(), origins.tolist(), ordinals, strict=True):
            kind = int(marks.of[message])
            for mark in marks.asked[kind]:
                if mark in known and known[mark][origin] >= ordinal:
                    early = next(one for one in seen[mark] if _reaches(run, vectors, message, one))
                    return run.named(causes(run, vectors, message, early))
            for mark in marks.left[kind]:
                mine = known.setdefault(mark, np.zeros(len(run.names), dtype=np.int32))
                np.maximum(mine, vectors[message], out=mine)
                mine[origin] = max(mine[origin], ordinal)
                seen.setdefault(mark, []).append(message)
    return []


def _reaches(run: Compact, vectors: Any, message: int, other: int) -> bool:
    origin = int(run.origin[message])
    same = bool(run.origin[other] == origin) and other > message
    return same or bool(vectors[other, origin] >= message - run.start[origin] + 1)


def semantic_total(run: Compact, conflicts: Conflicts) -> list[Message]:
    """The messages of knots of the precedence graph, or of one if they are many."""
    chains = [chain.delivered() for chain in run.chains]
    rank = candidate(chains, len(run.origin))
    marks = _marks(run, conflicts)
    left, asked = _Flat(marks.left), _Flat(marks.asked)
    spans: list[tuple[float, float]] = []
    for ids in chains:
        spans.extend(_inversions(rank[ids], marks.of[ids], left, asked))
    for island in within(chains, rank, spans):
        found = [knot for knot in map(_real, knots(_precedence(island, marks))) if len(knot) > 1]
        if found:
            small = min(found, key=len)
            every = [message for knot in found for message in knot]
            return run.named(every if len(every) <= SEARCHED_MAX else small)
    return []


def _real(knot: set[int]) -> list[int]:
    return sorted(node for node in knot if node >= 0)


class _Flat:
    """Lists of marks by class, as arrays."""

    def __init__(self, lists: list[list[int]]) -> None:
        self.sizes = np.array([len(one) for one in lists], dtype=np.int64)
        self.starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.sizes)])
        self.marks = np.array([mark for one in lists for mark in one], dtype=np.int64)

    def spread(self, classes: Any) -> tuple[Any, Any]:
        """For a sequence of classes: the place in the sequence and the mark, for each mark of each."""
        sizes = self.sizes[classes]
        place = np.repeat(np.arange(len(classes)), sizes)
        inner = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return place, self.marks[np.repeat(self.starts[classes], sizes) + inner]


def _inversions(places: Any, classes: Any, left: _Flat, asked: _Flat) -> list[tuple[float, float]]:
    """From each message that asks for a mark left before by one with a higher place, to the highest such place."""
    put, put_mark = left.spread(classes)
    got, got_mark = asked.spread(classes)
    if not len(put) or not len(got):
        return []
    mark = np.concatenate([put_mark, got_mark])
    when = np.concatenate([put, got])
    leaves = np.concatenate([np.ones(len(put), dtype=np.bool_), np.zeros(len(got), dtype=np.bool_)])
    order = np.lexsort((leaves, when, mark))
    dense = np.unique(places, return_inverse=True)[1].astype(np.int64) + 1
    extent = int(dense.max()) + 1
    value = np.where(leaves, dense[when], 0)[order] + mark[order] * extent
    highest = np.maximum.accumulate(value) - mark[order] * extent
    late = np.flatnonzero(~leaves[order] & (highest >= dense[when[order]]))
    at_rank = np.zeros(extent)
    at_rank[dense] = places
    return list(zip(places[when[order][late]].tolist(), at_rank[highest[late]].tolist(), strict=True))


def _precedence(chains: list[Any], marks: Marks) -> dict[int, list[int]]:
    """The precedence graph; per process and mark a chain of nodes between, which are negative."""
    after: dict[int, list[int]] = {}
    fresh = -1
    for chain in chains:
        last: dict[int, int] = {}
        for message in chain.tolist():
            kind = int(marks.of[message])
            for mark in marks.asked[kind]:
                if mark in last:
                    after.setdefault(last[mark], []).append(message)
            for mark in marks.left[kind]:
                if mark in last:
                    after.setdefault(last[mark], []).append(fresh)
                after.setdefault(message, []).append(fresh)
                last[mark] = fresh
                fresh -= 1
    return after


def _marks(run: Compact, conflicts: Conflicts) -> Marks:
    codes: dict[Description, int] = {}
    of = np.array([codes.setdefault(one, len(codes)) for one in _descriptions(run)], dtype=np.int64)
    for one in codes:
        conflicts.validate(*one)
    number: dict[Any, int] = {}

    def numbered(found: Iterable[Any]) -> list[int]:
        return sorted({number.setdefault(one, len(number)) for one in found})

    if conflicts.by == "predicate":  # a function is asked for each pair of kinds, which is a mark of its own
        left = [numbered([kind]) for kind in range(len(codes))]
        return Marks(of, left, [numbered(k for k, two in enumerate(codes) if conflicts.conflict(*one, *two)) for one in codes])
    return Marks(of, [numbered(_leaves(conflicts, *one)) for one in codes], [numbered(_asks(conflicts, *one)) for one in codes])


def _leaves(relation: Conflicts, type_: str | None, items: tuple[str, ...] | None) -> Iterable[Any]:
    yield "all"
    if relation.by == "item":
        yield from ["worst"] if items is None else [("item", item) for item in items]
    elif relation.by in ("operation", "both"):
        if type_ is None:
            yield "worst"
        else:
            yield "type", type_
            if relation.by == "both":
                yield from [("any item", type_)] if items is None else [("item", type_, item) for item in items]


def _asks(relation: Conflicts, type_: str | None, items: tuple[str, ...] | None) -> Iterable[Any]:
    looked_at = {"everything": None, "item": items, "operation": type_, "both": type_}[relation.by]
    if looked_at is None:
        yield "all"
        return
    yield "worst"
    if relation.by == "item":
        yield from (("item", item) for item in items or ())
        return
    table = relation.pairs if relation.by == "operation" else relation.always
    yield from (("type", other) for one, other in table if one == type_)
    if relation.by == "both":
        for other in (other for one, other in relation.pairs if one == type_):
            if items is None:
                yield "type", other
            else:
                yield "any item", other
                yield from (("item", other, item) for item in items)


def _descriptions(run: Compact) -> list[Description]:
    """Type and items of each message: of its send, else of the first delivery that names them before the send is looked at."""
    types: list[str | None] = [None] * len(run.origin)
    items: list[tuple[str, ...] | None] = [None] * len(run.origin)
    sent = [False] * len(run.origin)
    for chain in run.chains:
        given = zip(
            chain.ids.tolist(), chain.sent.tolist(), chain.more["type"].tolist(), chain.more["items"].tolist(), strict=True
        )
        for message, is_send, type_, some in given:
            if is_send:
                sent[message] = True
            elif sent[message]:
                continue
            if type_ is not None and (is_send or types[message] is None):
                types[message] = type_
            if some is not None and (is_send or items[message] is None):
                items[message] = some
    return list(zip(types, items, strict=True))
