"""A run put together from its spans: the frame, and per process and view what was delivered, as sums per block of numbers.

Invariant: visits are the stretches of the oracle; what a visit holds depends on blocks, origins and views, not on rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from isotone.pipeline.kernels.chunk import Interval
from isotone.pipeline.kernels.keys import Salt, mix
from isotone.pipeline.kernels.stretch import Entry, Label, Labelled, Segment, Span, ViewId

Place: TypeAlias = tuple[str, int]
"""An origin and a block of its numbers."""


class Sum(NamedTuple):
    """Entries put together."""

    low: int
    high: int
    size: int
    ids: int
    safe: int = 0

    def plus(self, other: "Entry | Sum") -> "Sum":
        ids = (self.ids + other.ids) % 2**64
        return Sum(min(self.low, other.low), max(self.high, other.high), self.size + other.size, ids, self.safe + other.safe)


Sums: TypeAlias = dict[Place, Sum]


@dataclass(slots=True)
class Visit:
    """A process in a view; `view` is None for what it did before its first one."""

    process: str
    view: ViewId | None
    correct: bool
    next_view: ViewId | None = None
    together: frozenset[str] | None = None
    delivered: Sums = field(default_factory=dict)
    named: list[Entry] = field(default_factory=list)

    @property
    def stays(self) -> bool:
        return self.next_view is None and self.correct


class Run:
    """One run, put together from its spans."""

    def __init__(self, run: str, chains: Mapping[str, list[Span]], salt: Salt) -> None:
        self.run = run
        self.columns: set[tuple[str, str]] = set()
        self.frame: list[dict[str, Any]] = []
        self.visits: list[Visit] = []
        self.members: dict[ViewId, frozenset[str]] = {}
        """By view, as the first process that installed it says."""
        self.sent: dict[str, list[Entry]] = {}
        self.returned: dict[str, Sums] = {}
        self.wild: set[str] = set()
        self.ends: dict[str, Visit] = {}
        self.switched: set[ViewId | None] = set()
        """Views in which some process records a switch."""
        self.labels: dict[str, list[Labelled] | None] = {}
        self._factors = salt.factors()
        for process, chain in sorted(chains.items()):
            self._take(process, sorted(chain, key=lambda span: span.first_step))

    def _take(self, process: str, chain: list[Span]) -> None:
        frame = [row for span in chain for row in span.frame]
        last = chain[-1].last_step
        ends = frame[-1]["kind"] if frame and frame[-1]["step"] == last else ""
        self.frame.extend(frame)
        # Neutral rows: they name the process, and show that a `stop` further up is not its end.
        sides = ("flush", chain[0].first_step - 1), ("flush", last)
        self.frame.extend(self._named({"process": process, "step": at, "kind": kind}) for kind, at in sides[: 1 + (not ends)])
        visit = Visit(process, None, ends == "stop")
        self.visits.append(visit)
        transitional = False
        sent: list[Entry] = []
        for span in chain:
            self.columns |= span.columns
            known = self.labels.setdefault(process, [])
            self.labels[process] = None if known is None or span.labels is None else [*known, *span.labels]
            if span.wild or (sent and span.sent and min(entry.low for entry in span.sent) <= max(entry.high for entry in sent)):
                self.wild.add(process)
            sent.extend(span.sent)
            for entry in span.returned:
                _add(self.returned.setdefault(process, {}), entry)
            for segment in span.segments:
                row = span.frame[segment.opened_by] if segment.opened_by >= 0 else {}
                if row.get("kind") == "view":
                    transitional = False
                    if row.get("view_epoch") is not None:
                        visit = self._install(visit, row, ends == "stop")
                elif row.get("kind") == "transitional":
                    transitional = True
                    if row.get("members") and visit.view is not None:
                        visit.together = frozenset(row["members"])
                _fill(visit, segment, transitional)
        installed: ViewId | None = None
        for row in frame:
            if row["kind"] in ("view", "switch"):
                view = None if row.get("view_epoch") is None else (row["view_epoch"], row.get("view_proposer") or "")
                if row["kind"] == "switch":
                    self.switched.add(installed if view is None else view)
                elif view is not None:
                    installed = view
        self.ends[process] = visit
        self.sent[process] = _put_together(sent)

    def _named(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "run": self.run} if self.run else row

    def _install(self, before: Visit, row: Mapping[str, Any], correct: bool) -> Visit:
        view = (row["view_epoch"], row.get("view_proposer") or "")
        if before.view is not None:
            before.next_view = view
        if row.get("members") is not None:
            self.members.setdefault(view, frozenset(row["members"]))
        visit = Visit(before.process, view, correct)
        self.visits.append(visit)
        return visit

    def examples(self) -> Iterator[tuple[str, int]]:
        """A message that was sent, in a view if there is one; a witness needs one where the rows of the fault have none."""
        sent = [entry for entries in self.sent.values() for entry in entries]
        for entry in [*(entry for entry in sent if entry.view is not None), *sent][:1]:
            yield entry.origin, entry.low

    def before(self, origin: str, number: int) -> list[Interval]:
        """Where the message that the origin sent just before is."""
        below = [entry for entry in self.sent.get(origin, ()) if entry.low < number]
        if not below:
            return []
        nearest = max(below, key=lambda entry: entry.low)
        if nearest.high < number:
            return [(nearest.high, nearest.high)]
        return [(number - 1, number - 1)] if self.dense(nearest) else [(nearest.low, number - 1)]

    def dense(self, one: "Entry | Sum") -> bool:
        if one.size != one.high - one.low + 1:
            return False
        numbers = np.arange(one.low, one.high + 1, dtype=np.int64).view(np.uint64)
        return int(mix(numbers * self._factors[12] + self._factors[13]).sum(dtype=np.uint64)) == one.ids

    def differences(self, one: "Entry | Sum | None", two: "Entry | Sum | None") -> list[Interval]:
        """Numbers that may be in one and not in the other."""
        if one is None or two is None:
            return [(given.low, given.high) for given in (one, two) if given is not None]
        if (one.size, one.ids) == (two.size, two.ids):
            return []
        if not (self.dense(one) and self.dense(two)) or one.high < two.low or two.high < one.low:
            return [(min(one.low, two.low), max(one.high, two.high))]
        sides = [(min(one.low, two.low), max(one.low, two.low) - 1), (min(one.high, two.high) + 1, max(one.high, two.high))]
        return [side for side in sides if side[0] <= side[1]]

    def in_views(self) -> Iterator[list[Visit]]:
        views: dict[ViewId, list[Visit]] = {}
        for visit in self.visits:
            if visit.view is not None:
                views.setdefault(visit.view, []).append(visit)
        yield from views.values()

    def mixed(self) -> bool:
        """Whether, in a view with a switch, labels come back or do not follow each other in the same way everywhere."""
        if any(labels is None for labels in self.labels.values()) and self.switched:
            return True
        before: set[tuple[ViewId | None, Label, Label]] = set()
        for sequence in self.sequences():
            labels: list[Label] = []
            for stretch in sequence:
                if not labels or labels[-1] != stretch.label:
                    labels.append(stretch.label)
            if len(set(labels)) < len(labels):
                return True
            before.update((sequence[0].view, one, two) for one, two in combinations(labels, 2))
        return any((view, two, one) in before for view, one, two in before)

    def sequences(self) -> Iterator[list[Labelled]]:
        """Per process and view with a switch, what it delivered under which label."""
        for labels in self.labels.values():
            views: dict[ViewId | None, list[Labelled]] = {}
            for stretch in labels or ():
                if stretch.view in self.switched:
                    views.setdefault(stretch.view, []).append(stretch)
            yield from views.values()

    def everything(self, process: str) -> Sums:
        total: Sums = {}
        for visit in self.visits:
            if visit.process == process:
                for entry in visit.named:
                    _add(total, entry)
        return total


def put_together(spans: Iterable[Span], salt: Salt) -> dict[str, Run]:
    """The runs by name."""
    runs: dict[str, dict[str, list[Span]]] = {}
    for span in spans:
        runs.setdefault(span.run, {}).setdefault(span.process, []).append(span)
    return {name: Run(name, chains, salt) for name, chains in runs.items()}


def _fill(visit: Visit, segment: Segment, transitional: bool) -> None:
    for given in segment.delivered:
        entry = given._replace(safe=0, asked=0) if transitional else given
        visit.named.append(entry)
        _add(visit.delivered, entry)


def summed(entry: Entry) -> Sum:
    return Sum(entry.low, entry.high, entry.size, entry.ids, entry.safe)


def _add(sums: Sums, entry: Entry) -> None:
    place = (entry.origin, entry.block)
    known = sums.get(place)
    sums[place] = summed(entry) if known is None else known.plus(entry)


def by_block(entries: Iterable[Entry]) -> Sums:
    sums: Sums = {}
    for entry in entries:
        _add(sums, entry)
    return sums


def _put_together(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of the same view and block, from several spans, put together."""
    known: dict[tuple[ViewId | None, int], Entry] = {}
    for entry in entries:
        before = known.get((entry.view, entry.block))
        if before is not None:
            both = summed(before).plus(entry)
            entry = before._replace(low=both.low, high=both.high, size=both.size, ids=both.ids)
        known[entry.view, entry.block] = entry
    return list(known.values())
