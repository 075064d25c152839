"""One run as arrays: its processes and their clocks, its sends, its first deliveries, the gaps between them.

The rules are those of `frame` and `messages`, which do the same to long histories.

Invariants: rows are in the order of processes and their steps; `at` is the time since the first event of the run on the same
clock; a message counts once per process, at its first delivery by step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from isotone.pipeline.metrics.columns import SURROUNDINGS, VIRTUAL
from isotone.pipeline.metrics.plain.sums import NONE, Ints, Row, least, minus, most, never_negative, one
from isotone.trace.columns import require_pyarrow

WHY: Final = ("", "send", "send.time", "deliver.time", "clock", "early")
"""Why a delivery has no latency, by its code in `Deliveries.why`."""


@dataclass(slots=True)
class Member:
    """One process."""

    process: str
    clock: str
    rows: int
    first: int | None
    last: int | None
    last_step: int
    surroundings: bool
    """Whether this is only where a simulator notes what it does to the network."""
    zero: int | None = None
    """The first time in the run on the process's clock."""

    def since(self, time: int | None) -> int | None:
        """A time of this process since the start of the run."""
        return None if time is None or self.zero is None else time - self.zero


@dataclass(slots=True)
class Deliveries:
    """The first delivery of each message at each process, in the order of processes and steps; texts are codes."""

    process: Ints
    origin: Ints
    step: Ints
    time: Ints
    at: Ints
    size: Ints
    protocol: Ints
    view_epoch: Ints
    view_proposer: Ints
    times: Ints
    received_step: Ints
    why: Ints
    latency: Ints
    held: Ints
    remote: Any

    def __len__(self) -> int:
        return len(self.step)


@dataclass(slots=True)
class Gaps:
    """Each two deliveries in a row at a process that have times."""

    process: Ints
    begin_step: Ints
    end_step: Ints
    gap: Ints


class Run:
    """One run: an Arrow table with the columns `isotone.pipeline.metrics.READ`, `members` and `detail` as JSON texts."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._words: dict[str, list[str]] = {}
        process, step = self._codes("process"), self._ints("step")
        self.order = np.lexsort((step, process))
        self.process, self.step = process[self.order], step[self.order]
        kind = self._codes("kind")[self.order]
        self._kinds = {word: code for code, word in enumerate(self._words["kind"])}
        self._kind = kind
        self.time = self.ints("time")
        self.members = self._members()
        ranks = {clock: rank for rank, clock in enumerate(sorted({member.clock for member in self.members}))}
        self._clock = np.array([ranks[member.clock] for member in self.members], dtype=np.int64)
        zeros = np.array([NONE if who.zero is None else who.zero for who in self.members], dtype=np.int64)
        self.at = minus(self.time, zeros[self.process])
        self.delivered = self._delivered()
        self.gaps = self._gaps()

    def __len__(self) -> int:
        return len(self.step)

    def words(self, column: str) -> list[str]:
        """The texts behind the codes of a column; a null has the code -1."""
        if column not in self._words:
            self._codes(column)
        return self._words[column]

    def codes(self, column: str) -> Ints:
        """A column of texts as codes, in order."""
        return self._codes(column)[self.order]

    def ints(self, column: str) -> Ints:
        """A column of numbers, in order."""
        return self._ints(column)[self.order]

    def of(self, *kinds: str) -> Ints:
        """The places of the rows of these kinds."""
        return np.flatnonzero(np.isin(self._kind, [self._kinds[kind] for kind in kinds if kind in self._kinds]))

    def count(self, *kinds: str) -> int:
        """How many rows are of these kinds."""
        return len(self.of(*kinds))

    def rows(self, kinds: Sequence[str], columns: Sequence[str]) -> list[Row]:
        """The rows of some rare kinds as dicts, in order, with `at`, and `member` for the number of the process."""
        places = self.of(*kinds)
        found: list[Row] = self._table.select([*columns]).take(self.order[places]).to_pylist()
        for row, place in zip(found, places, strict=True):
            row["at"], row["member"] = one(self.at[place]), int(self.process[place])
            for name in ("members", "detail"):
                if row.get(name) is not None:
                    row[name] = msgspec.json.decode(row[name])
        return found

    def kinds(self) -> Mapping[str, int]:
        """How many rows there are of each kind."""
        counts = np.bincount(self._kind, minlength=len(self._kinds))
        return {word: int(counts[code]) for word, code in sorted(self._kinds.items())}

    def longest_gap(self, member: int, begin_step: int, end_step: int) -> int | None:
        """The longest gap at a process that overlaps a range of its steps."""
        first, last = np.searchsorted(self.gaps.process, [member, member + 1])
        low = first + np.searchsorted(self.gaps.end_step[first:last], begin_step, side="right")
        high = first + np.searchsorted(self.gaps.begin_step[first:last], end_step, side="left")
        return most(self.gaps.gap[low:high])

    def _codes(self, column: str) -> Ints:
        encoded = self._table.column(column).combine_chunks().dictionary_encode()
        if isinstance(encoded, require_pyarrow().ChunkedArray):
            encoded = encoded.combine_chunks()
        self._words[column] = encoded.dictionary.to_pylist()
        codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def _ints(self, column: str) -> Ints:
        values: Ints = self._table.column(column).cast("int64").fill_null(NONE).to_numpy()
        return values

    def _members(self) -> list[Member]:
        named: dict[int, str] = {}
        starts = self.of("start")
        details = self._table.column("detail").take(self.order[starts]).to_pylist()
        for place, detail in zip(starts, details, strict=True):
            clock = None if detail is None else msgspec.json.decode(detail).get("clock")
            if clock is not None:
                member = int(self.process[place])
                named[member] = max(clock, named.get(member, clock))
        unnamed = VIRTUAL if VIRTUAL in named.values() else ""
        quiet = np.isin(self._kind, [self._kinds[kind] for kind in SURROUNDINGS if kind in self._kinds])
        doing = np.isin(self._kind, [self._kinds[kind] for kind in ("fault", "heal") if kind in self._kinds])
        names = self._words["process"]
        edges = np.searchsorted(self.process, np.arange(len(names) + 1))
        members = []
        for code, process in enumerate(names):
            mine = slice(edges[code], edges[code + 1])
            notes = bool(quiet[mine].all()) and (bool(doing[mine].any()) or named.get(code) == VIRTUAL)
            times, clock = self.time[mine], named.get(code, unnamed)
            last_step = int(self.step[mine][-1])
            members.append(Member(process, clock, len(times), least(times), most(times), last_step, notes))
        firsts: dict[str, int] = {}
        for who in members:
            if who.first is not None:
                firsts[who.clock] = min(who.first, firsts.get(who.clock, who.first))
        for who in members:
            who.zero = firsts.get(who.clock)
        return members

    def _delivered(self) -> Deliveries:
        origin = self.codes("origin")
        numbers, number = np.unique(self.ints("number"), return_inverse=True)
        message = (origin + 1) * max(1, len(numbers)) + number
        key = self.process * ((len(self.words("origin")) + 1) * max(1, len(numbers))) + message
        places = self.of("deliver")
        _, firsts, times = np.unique(key[places], return_index=True, return_counts=True)
        inorder = np.argsort(firsts)
        chosen, times = places[firsts[inorder]], times[inorder].astype(np.int64)
        arrivals = self.of("receive")
        received = _match(key[arrivals], arrivals, key[chosen])
        sends = self.of("send")
        clock = self._clock[self.process]
        sends = sends[np.lexsort((clock[sends], self.time[sends], self.step[sends]))]
        sent = _match(message[sends], sends, message[chosen])
        time, send_time = self.time[chosen], _at(self.time, sent)
        took = minus(time, send_time)
        why = np.select(
            [sent < 0, send_time == NONE, time == NONE, clock[chosen] != _at(clock, sent), took < 0], [1, 2, 3, 4, 5], 0
        ).astype(np.int64)
        names = {name: code for code, name in enumerate(self._words["process"])}
        senders = np.array([*(names.get(name, -2) for name in self._words["origin"]), -1], dtype=np.int64)[origin[chosen]]
        return Deliveries(
            process=self.process[chosen],
            origin=origin[chosen],
            step=self.step[chosen],
            time=time,
            at=self.at[chosen],
            size=self.ints("size")[chosen],
            protocol=self.codes("protocol")[chosen],
            view_epoch=self.ints("view_epoch")[chosen],
            view_proposer=self.codes("view_proposer")[chosen],
            times=times,
            received_step=_at(self.step, received),
            why=why,
            latency=np.where(why == 0, took, NONE),
            held=never_negative(minus(time, _at(self.time, received))),
            remote=(senders != self.process[chosen]) & (senders != -1),
        )

    def _gaps(self) -> Gaps:
        timed = self.delivered.time != NONE
        process, step, time = self.delivered.process[timed], self.delivered.step[timed], self.delivered.time[timed]
        same = process[1:] == process[:-1]
        gap = never_negative(time[1:] - time[:-1])
        return Gaps(process[1:][same], step[:-1][same], step[1:][same], gap[same])


def _match(keys: Ints, places: Ints, wanted: Ints) -> Ints:
    """For each wanted key the place where it comes first; -1 if nowhere."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    unique, firsts = np.unique(keys, return_index=True)
    spot = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
    return np.where(unique[spot] == wanted, places[firsts[spot]], -1)


def _at(values: Ints, places: Ints) -> Ints:
    """The values at some places, `NONE` at the place -1."""
    return np.append(values, NONE)[places]
