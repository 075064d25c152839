"""Puts the summaries of pieces together: what is certified, what must be looked at exactly.

Per run the certificate is: keys `(view, position)` strictly increase along every process, a message has one key, every
origin delivers its own messages after sending them, and what each process delivered of a block of numbers has the
fingerprint of what was sent. Then there is no cycle, positions are unique and respect causality: the key of a message
exceeds all keys in its past, since its sender delivers it after everything it had delivered when it sent it. Where a key
goes back, or a message has two keys, everything that can contradict lies in the closed interval between them (an island).

Invariant: a check that is not suspect here is *ok* by the oracle's definition, up to the error of fingerprints
(at most the number of blocks compared times 2⁻⁶⁴).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from isotone.pipeline.kernels.chunk import Block, Interval, Piece, merge_intervals
from isotone.pipeline.kernels.extract import Wanted
from isotone.pipeline.kernels.keys import Key

CAUSAL_CHECKS: Final = ("integrity", "position", "causal", "semantic_causal")
"""Checks that ask what happened before what."""
ORDER_CHECKS: Final = (*CAUSAL_CHECKS, "total_pairwise", "total_global", "semantic_total")
"""Checks that rest on the candidate order; blocks are confirmed for them."""
NUMBER_CHECKS: Final = ("duplication", "fifo", "semantic_fifo")
"""Checks that numbers along each process decide."""


@dataclass(slots=True)
class RunState:
    """One run, combined."""

    run: str
    pieces: dict[str, list[Piece]]
    wanted: Wanted = field(default_factory=Wanted)
    undecided: dict[str, str] = field(default_factory=dict)
    """Checks that only the whole history can decide, and why."""
    suspects: dict[str, list[int]] = field(default_factory=dict)
    """By origin: blocks to be confirmed message by message."""
    blocks: int = 0
    shift: int = 12
    """A block of numbers is `number >> shift`."""

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.each())

    def each(self) -> Iterable[Piece]:
        return (piece for pieces in self.pieces.values() for piece in pieces)

    @property
    def kinds(self) -> set[str]:
        return set().union(*(piece.kinds for piece in self.each()))

    @property
    def protocols(self) -> set[str]:
        return set().union(*(piece.protocols for piece in self.each()))

    @property
    def relations(self) -> dict[str, str]:
        """The conflict relation that its start row names, per process that delivers something."""
        found = {}
        for process, chain in self.pieces.items():
            named = next((piece.relation for piece in chain if piece.relation is not None), None)
            if named is not None and any(piece.delivered for piece in chain):
                found[process] = named
        return found

    @property
    def placed(self) -> bool:
        """Whether some delivery has a position."""
        return any(piece.placed for piece in self.each())

    @property
    def back(self) -> dict[tuple[str, str], list[Interval]]:
        """By process and origin: closed intervals in which numbers do not increase."""
        return self.wanted.numbers

    @property
    def concerned(self) -> list[str]:
        """Checks that what is wanted may decide."""
        if self.wanted.everything:
            return [*NUMBER_CHECKS, *ORDER_CHECKS]
        numbers = NUMBER_CHECKS if self.wanted.numbers or self.wanted.messages else ()
        orders = ORDER_CHECKS if self.wanted.islands or self.wanted.messages else ()
        return [*numbers, *orders]

    def need_whole(self, reason: str, checks: Iterable[str] = ORDER_CHECKS) -> None:
        for check in checks:
            self.undecided.setdefault(check, reason)

    def keep(self, checks: Iterable[str]) -> None:
        """Forget what only other checks would need."""
        chosen = set(checks)
        self.undecided = {check: reason for check, reason in self.undecided.items() if check in chosen}
        if chosen.isdisjoint(ORDER_CHECKS):
            self.wanted.islands = []
        if chosen.isdisjoint(NUMBER_CHECKS):
            self.wanted.numbers = {}
        if chosen.isdisjoint((*ORDER_CHECKS, *NUMBER_CHECKS)):
            self.wanted.messages = {}

    def want_message(self, origin: str, number: int) -> None:
        self.wanted.messages.setdefault(origin, []).append(number)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A message that the confirmation found remarkable."""

    origin: str
    number: int
    sent: bool
    delivered_by_origin: bool
    unequal: bool
    """Some digest differs, or some send is missing."""
    shared: bool
    """Another message has the same key."""
    low: Key
    high: Key
    later: Key | None = None
    """The key of the next message of the origin, in the same block, that the origin delivers."""


def overlapping(pieces: Iterable[Piece]) -> set[tuple[str, str]]:
    """Runs and processes whose pieces cannot be put in one order of steps."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for piece in pieces:
        ranges.setdefault((piece.run, piece.process), []).append((piece.first_step, piece.last_step))
    return {name for name, spans in ranges.items() if any(two[0] <= one[1] for one, two in pairwise(sorted(spans)))}


def combine(pieces: Iterable[Piece], shift: int) -> list[RunState]:
    """The runs in the order of their names, with what the carries between pieces tell."""
    runs: dict[str, dict[str, list[Piece]]] = {}
    for piece in pieces:
        runs.setdefault(piece.run, {}).setdefault(piece.process, []).append(piece)
    states = [RunState(run, dict(sorted(runs[run].items())), shift=shift) for run in sorted(runs)]
    for state in states:
        for process, chain in state.pieces.items():
            chain.sort(key=lambda piece: piece.first_step)
            _numbers(state, process, chain)
            if "send" in state.kinds:
                _own(state, process, chain)
            _positions(state, chain)
        _placing(state)
        _blocks(state)
        state.wanted.islands = merge_intervals(state.wanted.islands)
    return states


def _numbers(state: RunState, process: str, chain: list[Piece]) -> None:
    newest: dict[str, int] = {}
    for piece in chain:
        for origin, numbers in piece.delivered.items():
            intervals = list(numbers.intervals)
            before = newest.get(origin)
            if before is not None and numbers.low <= before:
                intervals.append((numbers.low, before))
            if intervals:
                state.wanted.numbers.setdefault((process, origin), []).extend(intervals)
            newest[origin] = numbers.high if before is None else max(before, numbers.high)
        for origin, number in piece.returned:
            state.want_message(origin, number)
        if piece.returned_count > len(piece.returned):
            state.need_whole("it returns very many messages", ("duplication",))
    for key, intervals in state.wanted.numbers.items():
        state.wanted.numbers[key] = merge_intervals(intervals)


def _own(state: RunState, process: str, chain: list[Piece]) -> None:
    last: int | None = None
    for piece in chain:
        if piece.sends_wild or (piece.sent is not None and last is not None and piece.sent[0] <= last):
            state.need_whole(f"the sends of {process} are not in the order of their numbers", CAUSAL_CHECKS)
        if piece.own_before_send or (piece.own_needs is not None and (last is None or piece.own_needs > last)):
            state.need_whole(f"{process} delivers a message of its own before sending it, or without", CAUSAL_CHECKS)
        if piece.sent is not None:
            last = piece.sent[1]


def _positions(state: RunState, chain: list[Piece]) -> None:
    largest: Key | None = None
    for piece in chain:
        state.wanted.islands.extend(piece.islands)
        if piece.key_low is None or piece.key_high is None:
            continue
        if largest is not None and piece.key_low <= largest:
            state.wanted.islands.append((piece.key_low, largest))
        largest = piece.key_high if largest is None else max(largest, piece.key_high)


def _placing(state: RunState) -> None:
    """Without positions there is no candidate order; the order checks then need the whole history."""
    unplaced = sum(piece.unplaced for piece in state.each())
    if unplaced:
        state.need_whole("not every delivery has a position")
        state.wanted.islands = []


def _blocks(state: RunState) -> None:
    sent: dict[tuple[str, int], tuple[int, int]] = {}
    delivered: dict[tuple[str, int], dict[str, Block]] = {}
    views: dict[tuple[int, str], dict[str, tuple[Key, Key]]] = {}
    for piece in state.each():
        for block in piece.sent_blocks:
            count, digests = sent.get((block.origin, block.block), (0, 0))
            sent[block.origin, block.block] = (count + block.size, (digests + block.digests) % 2**64)
        for block in piece.blocks:
            of = delivered.setdefault((block.origin, block.block), {})
            known = of.get(piece.process)
            of[piece.process] = block if known is None else _sum(known, block)
        for view, (low, high) in piece.views.items():
            spans = views.setdefault(view, {})
            old = spans.get(piece.process)
            spans[piece.process] = (low, high) if old is None else (min(old[0], low), max(old[1], high))
    ordered = sorted(views)
    has_sends = "send" in state.kinds
    for (origin, number), of in delivered.items():
        if not _agreed(of, sent.get((origin, number)) if has_sends else None, origin, has_sends, ordered, views):
            state.suspects.setdefault(origin, []).append(number)
    state.blocks = sum(map(len, delivered.values()))


def _sum(one: Block, two: Block) -> Block:
    lows = [key for key in (one.low, two.low) if key is not None]
    highs = [key for key in (one.high, two.high) if key is not None]
    keys, digests = (one.keys + two.keys) % 2**64, (one.digests + two.digests) % 2**64
    return Block(one.origin, one.block, one.size + two.size, keys, digests, min(lows), max(highs))


def _agreed(
    of: dict[str, Block],
    sent: tuple[int, int] | None,
    origin: str,
    has_sends: bool,
    ordered: list[tuple[int, str]],
    views: dict[tuple[int, str], dict[str, tuple[Key, Key]]],
) -> bool:
    first = next(iter(of.values()))
    if any((block.size, block.keys, block.digests) != (first.size, first.keys, first.digests) for block in of.values()):
        return False
    if has_sends and (sent != (first.size, first.digests) or origin not in of):
        return False
    low = min(block.low for block in of.values() if block.low is not None)
    high = max(block.high for block in of.values() if block.high is not None)
    for view in ordered:  # whoever delivered anything between these keys must have delivered this block
        if low[:2] <= view <= high[:2]:
            for process, (lowest, highest) in views[view].items():
                if process not in of and lowest <= high and low <= highest:
                    return False
    return True


def take_confirmed(state: RunState, found: Iterable[Confirmed]) -> None:
    """Add what the confirmation of blocks found to what must be looked at exactly."""
    orphans: dict[str, list[Confirmed]] = {}
    islands = list(state.wanted.islands)
    placed = state.placed
    for message in found:
        if message.unequal or message.shared:
            state.want_message(message.origin, message.number)
        if not message.sent:  # its number alone puts it after others of its origin, whatever its key
            state.need_whole("messages are delivered that nobody sent", ("causal", "semantic_causal"))
        if message.low != message.high and not state.undecided.get("position"):
            islands.append((message.low, message.high))
        if placed and message.sent and not message.delivered_by_origin:
            orphans.setdefault(message.origin, []).append(message)
    for origin, messages in orphans.items():
        islands.extend(_orphaned(state, origin, messages))
    state.wanted.islands = merge_intervals(islands)


def _orphaned(state: RunState, origin: str, messages: list[Confirmed]) -> Iterator[tuple[Key, Key]]:
    """Islands for messages that their own origin does not deliver.

    What the origin delivered before it sent such a message has smaller keys than the next own message it delivers; if
    there is no such message, keys at most as large as the largest it delivers at all.
    """
    chain = state.pieces.get(origin, [])
    blocks = [block for piece in chain for block in piece.blocks if block.origin == origin]
    largest = max((piece.key_high for piece in chain if piece.key_high is not None), default=None)
    before: Key | None = None
    for message in sorted(messages, key=lambda message: message.number):
        place = message.number >> state.shift
        later = [block.low for block in blocks if block.block > place and block.low is not None]
        later += [message.later] if message.later is not None else []
        if later:
            yield min(*later, message.low), max(min(later), message.high)
        elif largest is not None and largest >= message.low:
            yield message.low, max(largest, message.high)
        if before is not None and before >= message.low:
            yield message.low, max(before, message.high)
        before = message.high if before is None else max(before, message.high)
