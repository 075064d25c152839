"""One process of a run, followed row by row: what came, what was delivered, FIFO and duplication.

Rows are taken in the order of their steps. Traces of this library number rows without gaps from 1, so a chunk that begins
later than expected is held back until the missing file is there; logs with gaps inside a file are taken as they come.

State: per origin the numbers delivered so far, and those delivered in the current view, as intervals. FIFO and duplication
need nothing else: a number that is in the set is a repetition, one below the largest that is not in it came too late.

Invariants: a row is taken once; `stretch` is the view the process is in, with count and fingerprint of what it
delivered there.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import numpy as np

from isotone.pipeline.stream.condense import KIND, NUMBER_BITS, Array, Chunk, Rows, after, interleaved
from isotone.pipeline.stream.numbers import Numbers

HELD_ROWS_MAX: Final = 500_000
NO_VIEW: Final = ""

Hit = Callable[[str, str, int], None]
"""Called with a check, a witness in words and the step."""


class Stretch(msgspec.Struct):
    """A process in a view, from installing it on."""

    view: str
    count: int = 0
    fingerprint: int = 0
    here: dict[int, Numbers] = {}


class Follower(msgspec.Struct):
    """See the module."""

    name: str
    last_step: int | None = None
    last_time: int | None = None
    rows: int = 0
    late: int = 0
    """Rows set apart because their step did not follow."""
    sparse: bool = False
    held: list[Chunk] = []
    held_since: float | None = None
    ended: bool = False
    stretch: Stretch | None = None
    delivered: dict[int, Numbers] = {}
    returned: dict[int, Numbers] = {}

    @property
    def view(self) -> str:
        return self.stretch.view if self.stretch is not None else NO_VIEW

    def intake(self, chunks: list[Chunk], now: float, patience_s: float) -> list[Chunk]:
        """What can be taken now, in order; the rest is held back."""
        pending = sorted([*self.held, *chunks], key=lambda chunk: chunk.first)
        merged: list[Chunk] = []
        for chunk in pending:
            if merged and chunk.first <= int(merged[-1].steps[-1]):
                both = interleaved(merged[-1], chunk)
                self.late += len(merged[-1].steps) + len(chunk.steps) - len(both.steps)
                merged[-1] = both
            else:
                merged.append(chunk)
        self.held = []
        self.sparse = self.sparse or any(chunk.sparse for chunk in merged)
        held = sum(len(chunk.steps) for chunk in merged)
        waited = self.held_since is not None and now - self.held_since >= patience_s
        taken: list[Chunk] = []
        for chunk in merged:
            follows = chunk.first <= (1 if self.last_step is None else self.last_step + 1)
            if not (follows or self.sparse or waited or held > HELD_ROWS_MAX):
                self.held.append(chunk)
                continue
            rest = chunk if self.last_step is None else after(chunk, self.last_step)
            self.late += len(chunk.steps) - (0 if rest is None else len(rest.steps))
            if rest is not None:
                taken.append(rest)
                self.last_step = int(rest.steps[-1])
        self.held_since = (now if self.held_since is None or waited else self.held_since) if self.held else None
        return taken

    def follow(self, rows: Rows, names: list[str], hit: Hit) -> "Iterator[Part]":
        """Take rows that come next; yields what happened between one view and the next."""
        self.rows += len(rows.step)
        self.ended = bool(rows.kind[-1] in (KIND["stop"], KIND["crash"]))
        times = rows.time[rows.time > 0]
        if len(times):
            self.last_time = int(times[-1])
        installs = np.flatnonzero((rows.kind == KIND["view"]) & (rows.view >= 0))
        start = 0
        for at in [*installs.tolist(), len(rows.step)]:
            keys = self._deliver(rows, start, at, names, hit)
            if at == len(rows.step):
                yield Part(self.view, keys, None, None, int(rows.step[-1]))
                return
            epoch, proposer = rows.views[rows.view[at]]
            following = f"{epoch}@{proposer}"
            step = int(rows.step[at])
            ended, self.stretch = self.stretch, Stretch(following)
            yield Part(ended.view if ended else NO_VIEW, keys, ended, View(epoch, proposer, rows.members.get(step)), step)
            start = at + 1

    def _deliver(self, rows: Rows, start: int, end: int, names: list[str], hit: Hit) -> list[int]:
        """Deliveries of one stretch; the messages that are delivered for the first time, in order."""
        kind = rows.kind[start:end]
        for place in (np.flatnonzero(kind == KIND["returned"]) + start).tolist():
            self._return(int(rows.origin[place]), int(rows.number[place]), int(rows.step[place]), names, hit)
        at = np.flatnonzero(kind == KIND["deliver"]) + start
        if not len(at):
            return []
        origins, numbers = rows.origin[at], rows.number[at]
        first = np.ones(len(at), dtype=np.bool_)
        counted = np.ones(len(at), dtype=np.bool_)
        for origin in np.unique(origins).tolist():
            mine = np.flatnonzero(origins == origin)
            known = self.delivered.setdefault(origin, Numbers())
            here = self.stretch.here.setdefault(origin, Numbers()) if self.stretch is not None else None
            own = numbers[mine]
            last = known.last
            if (last is None or own[0] > last) and (np.diff(own) > 0).all() and origin not in self.returned:
                cuts = np.flatnonzero(np.diff(own) != 1)
                for low, high in zip(own[np.r_[0, cuts + 1]].tolist(), own[np.r_[cuts, -1]].tolist(), strict=True):
                    known.add(low, high)
                    if here is not None:
                        here.add(low, high)
                continue
            for place, number in zip(mine.tolist(), own.tolist(), strict=True):
                first[place] = self._one(origin, number, int(rows.step[at[place]]), names, hit)
                counted[place] = here is not None and here.has(number) is False
                if counted[place] and here is not None:
                    here.add(number, number)
        keys = rows.key[at]
        if self.stretch is not None:
            counted_keys = keys[counted]
            self.stretch.count += len(counted_keys)
            self.stretch.fingerprint = (self.stretch.fingerprint + fingerprint(counted_keys)) % (1 << 64)
        found: list[int] = keys[first].tolist()
        return found

    def _one(self, origin: int, number: int, step: int, names: list[str], hit: Hit) -> bool:
        """One delivery that is out of the ordinary; whether it is the first of this message."""
        known = self.delivered[origin]
        inside = known.has(number)
        message = f"{names[origin]}:{number}"
        if inside is None:
            for check in ("duplication", "fifo"):
                hit(f"?{check}", f"{self.name} delivers {message}, which lies among gaps that are forgotten", step)
            return False
        if inside:
            hit("duplication", f"{self.name} delivers {message} more than once", step)
            return False
        if known.last is not None and number < known.last:
            later = known.last
            hit("fifo", f"{self.name} delivers {names[origin]}:{later} before {message}", step)
        back = self.returned.get(origin)
        if back is not None and back.has(number):
            hit("duplication", f"{self.name} delivers {message} and has it returned too", step)
        known.add(number, number)
        return True

    def _return(self, origin: int, number: int, step: int, names: list[str], hit: Hit) -> None:
        message = f"{names[origin]}:{number}"
        back = self.returned.setdefault(origin, Numbers())
        known = self.delivered.get(origin)
        if known is not None and known.has(number):
            hit("duplication", f"{self.name} delivers {message} and has it returned too", step)
        elif back.has(number):
            hit("duplication", f"{self.name} has {message} returned more than once", step)
        if back.has(number) is False:
            back.add(number, number)


class View(msgspec.Struct):
    """An installed view."""

    epoch: int
    proposer: str
    members: list[str] | None

    @property
    def name(self) -> str:
        return f"{self.epoch}@{self.proposer}"

    @property
    def id(self) -> tuple[int, str]:
        return self.epoch, self.proposer


class Part(msgspec.Struct):
    """What a process did in one view: first deliveries, and if the view ended, how."""

    view: str
    keys: list[int]
    ended: Stretch | None
    """The view that ends here, if there was one."""
    following: View | None
    step: int


def fingerprint(keys: Array) -> int:
    """A sum of hashes: equal sets have equal sums, different ones differ but with probability 2**-64."""
    mixed = keys.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return int(np.add.reduce(mixed, dtype=np.uint64))


def message_name(key: int, names: list[str]) -> str:
    """`origin:number` of a message given as one integer."""
    return f"{names[key >> NUMBER_BITS]}:{key & ((1 << NUMBER_BITS) - 1)}"
