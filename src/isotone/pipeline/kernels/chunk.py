"""The ordered scan over one piece: the rows of one process from one source, condensed to what the combination needs.

A piece does not know what came before it, so it reports extremes (which the driver compares with the carry of the pieces
before) and what is wrong inside it. An order that goes back yields closed intervals, from the element that comes too late
to the largest before it: everything that can be part of a violation lies inside one of them.

Invariants: the size of a `Piece` depends on origins, views and blocks, not on rows; at most `INTERVALS_MAX` intervals are
kept per sequence, further ones are merged into wider ones, which is sound.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from isotone.pipeline.kernels.keys import Key, Keys, Salt, digest_hashes
from isotone.pipeline.kernels.load import Columns, Ints, Rejects

INTERVALS_MAX: Final = 256
LISTED_MAX: Final = 1_000
Interval: TypeAlias = tuple[int, int]


class Block(NamedTuple):
    """What was delivered (or sent) of one origin in one range of numbers."""

    origin: str
    block: int
    size: int
    keys: int
    """Sum of the hashes of (number, key)."""
    digests: int
    """Sum of the hashes of (number, digest)."""
    low: Key | None
    high: Key | None


@dataclass(slots=True)
class Numbers:
    """The numbers of one origin along a piece."""

    low: int
    high: int
    intervals: list[Interval] = field(default_factory=list)


@dataclass(slots=True)
class Piece:
    """The summary of the rows of one process in one unit of work."""

    run: str
    process: str
    unit: int
    rows: int
    first_step: int
    last_step: int
    last_kind: str
    kinds: set[str]
    protocols: set[str]
    repeated: Rejects
    """Rows whose step another row of the process has already."""
    delivered: dict[str, Numbers] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    sent_blocks: list[Block] = field(default_factory=list)
    sent: Interval | None = None
    sends_wild: bool = False
    """Sends of others' messages, or own numbers that do not increase."""
    own_before_send: bool = False
    own_needs: int | None = None
    """An own message up to this number was delivered here, and not sent here: it must have been sent before."""
    returned: list[tuple[str, int]] = field(default_factory=list)
    returned_count: int = 0
    key_low: Key | None = None
    key_high: Key | None = None
    islands: list[tuple[Key, Key]] = field(default_factory=list)
    views: dict[tuple[int, str], tuple[Key, Key]] = field(default_factory=dict)
    placed: int = 0
    """Deliveries with a position."""
    unplaced: int = 0
    """Deliveries without a position."""


def summarise(rows: Columns, unit: int, shift: int, salt: Salt) -> list[Piece]:
    """One piece per run and process that occur in the rows."""
    if not len(rows):
        return []
    together = rows.codes["run"].astype(np.int64) * (len(rows.words["process"]) + 1) + rows.codes["process"]
    if bool((together == together[0]).all()):
        return [_piece(rows, unit, shift, salt)]
    return [_piece(rows.take(together == one), unit, shift, salt) for one in np.unique(together)]


def in_order(rows: Columns, rejects: Rejects) -> Columns:
    """Rows of one process by step; of rows with equal steps the first is kept, the others are rejected."""
    step = rows.ints["step"]
    if bool((step[1:] > step[:-1]).all()):
        return rows
    order = np.argsort(step, kind="stable")
    ordered = step[order]
    fresh = np.concatenate([np.ones(1, dtype=np.bool_), ordered[1:] > ordered[:-1]])
    process = rows.words["process"][int(rows.codes["process"][0])]
    for repeated in ordered[~fresh]:
        rejects.add(process, 0, f"step {repeated} of {process} does not follow step {repeated}")
    return rows.take(order[fresh])


def _piece(given: Columns, unit: int, shift: int, salt: Salt) -> Piece:
    repeated = Rejects()
    rows = in_order(given, repeated)
    kind, kinds = rows.codes["kind"], rows.words["kind"]
    step = rows.ints["step"]
    run = int(rows.codes["run"][0])
    piece = Piece(
        run=rows.words["run"][run] if run >= 0 else "",
        process=rows.words["process"][int(rows.codes["process"][0])],
        unit=unit,
        rows=len(rows),
        first_step=int(step[0]),
        last_step=int(step[-1]),
        last_kind=kinds[int(kind[-1])],
        kinds={kinds[code] for code in np.flatnonzero(np.bincount(kind, minlength=len(kinds)))},
        protocols=set(),
        repeated=repeated,
    )
    protocol = rows.codes["protocol"]
    telling = np.array([name in ("deliver", "view", "switch") for name in kinds])
    if rows.words["protocol"]:
        used = np.bincount(np.where(telling[kind], protocol, -1) + 1, minlength=len(rows.words["protocol"]) + 1)[1:]
        piece.protocols = {rows.words["protocol"][code] for code in np.flatnonzero(used)}
    sends = np.flatnonzero(kind == rows.code("kind", "send"))
    delivers = np.flatnonzero(kind == rows.code("kind", "deliver"))
    own = rows.code("origin", piece.process)
    _sends(piece, rows, sends, own, shift, salt)
    if len(delivers):
        _deliveries(piece, rows, delivers, shift, salt)
        mine = delivers[rows.codes["origin"][delivers] == own]
        _own(piece, rows.ints["number"], sends, mine)
    returned = np.flatnonzero(kind == rows.code("kind", "returned"))
    piece.returned_count = len(returned)
    piece.returned = [_message(rows, row) for row in returned[:LISTED_MAX]]
    return piece


def _message(rows: Columns, row: Any) -> tuple[str, int]:
    return rows.words["origin"][int(rows.codes["origin"][row])], int(rows.ints["number"][row])


def _sends(piece: Piece, rows: Columns, sends: Any, own: int, shift: int, salt: Salt) -> None:
    if not len(sends):
        return
    number, digest = rows.ints["number"][sends], rows.ints["digest"][sends]
    foreign = rows.codes["origin"][sends] != own
    piece.sends_wild = bool(foreign.any()) or not bool((number[1:] > number[:-1]).all())
    piece.sent = (int(number.min()), int(number.max()))
    hashes = digest_hashes(number, digest, salt)
    for start, end in _stretches(number >> shift):
        digests = int(hashes[start:end].sum(dtype=np.uint64))
        piece.sent_blocks.append(Block(piece.process, int(number[start]) >> shift, end - start, 0, digests, None, None))


def _own(piece: Piece, number: Ints, sends: Any, mine: Any) -> None:
    """Own messages are delivered after they were sent: inside the piece, or it says what must have come before."""
    before = np.searchsorted(sends, mine)
    wanted = number[mine]
    first = before == 0
    piece.own_needs = int(wanted[first].max()) if first.any() else None
    if not first.all():
        newest = number[sends][before[~first] - 1]
        piece.own_before_send = bool((wanted[~first] > newest).any())


def _deliveries(piece: Piece, rows: Columns, delivers: Any, shift: int, salt: Salt) -> None:
    whole = len(delivers) == len(rows)
    some = rows if whole else _narrow(rows, delivers)
    origin, number = some.codes["origin"], some.ints["number"]
    keys = Keys(some)
    ranks = _keys(piece, keys)
    small = origin.astype(np.uint8) if len(some.words["origin"]) < 256 else origin
    order = np.argsort(small, kind="stable")
    origin_of, number_of, rank_of = origin[order], number[order], ranks[order]
    key_hash = keys.hashes(number, salt)[order]
    digest_hash = digest_hashes(number, some.ints["digest"], salt)[order]
    for start, end in _stretches(origin_of):
        name = some.words["origin"][int(origin_of[start])]
        own = number_of[start:end]
        piece.delivered[name] = Numbers(int(own.min()), int(own.max()), _backward(own))
        for left, right in _stretches(own >> shift):
            inside = slice(start + left, start + right)
            span = rank_of[inside]
            low, high = (order[start + left + int(place)] for place in (span.argmin(), span.argmax()))
            key_sum, digest_sum = (int(column[inside].sum(dtype=np.uint64)) for column in (key_hash, digest_hash))
            block = int(own[left]) >> shift
            piece.blocks.append(Block(name, block, right - left, key_sum, digest_sum, keys.at(low), keys.at(high)))


def _narrow(rows: Columns, index: Any) -> Columns:
    """As `take`, for the columns that the scan of deliveries reads, without the Arrow table."""
    codes = {name: rows.codes[name][index] for name in ("origin", "view_proposer")}
    ints = {name: column[index] for name, column in rows.ints.items() if name != "step"}
    return Columns(codes, rows.words, ints, None)


def _keys(piece: Piece, keys: Keys) -> Ints:
    """Fill in what keys tell; returns a rank per delivery."""
    piece.placed = int(keys.present.sum())
    piece.unplaced = len(keys) - piece.placed
    rising = keys.increasing()
    ranks = np.arange(len(keys)) if rising else keys.ranks()
    piece.key_low, piece.key_high = keys.at(int(ranks.argmin())), keys.at(int(ranks.argmax()))
    if not rising:
        at_rank = np.empty(int(ranks.max()) + 1, dtype=np.int64)
        at_rank[ranks] = np.arange(len(ranks))
        piece.islands = [(keys.at(int(at_rank[low])), keys.at(int(at_rank[high]))) for low, high in _backward(ranks)]
    view = keys.epoch * (len(keys.words) + 1) + keys.proposer
    for start, end in _stretches(view):
        low, high = keys.at(start + int(ranks[start:end].argmin())), keys.at(start + int(ranks[start:end].argmax()))
        name = (low[0], low[1])
        known = piece.views.get(name)
        piece.views[name] = (low, high) if known is None else (min(known[0], low), max(known[1], high))
    return ranks


def _backward(values: Ints) -> list[Interval]:
    """Closed intervals, merged, from each value that is not above all before it to the largest before it."""
    if bool((values[1:] > values[:-1]).all()):
        return []
    newest = np.maximum.accumulate(values)[:-1]
    late = np.flatnonzero(values[1:] <= newest)
    return merge_intervals(list(zip(values[1:][late].tolist(), newest[late].tolist(), strict=True)))


def merge_intervals(intervals: list[Any]) -> list[Any]:
    """Overlapping closed intervals joined; if there are still too many, one that covers all."""
    merged: list[Any] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    if len(merged) > INTERVALS_MAX:
        return [(merged[0][0], merged[-1][1])]
    return merged


def _stretches(values: Any) -> list[Interval]:
    """Start and end of each stretch of equal neighbours."""
    cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
    ends = [*cuts.tolist(), len(values)]
    return list(zip([0, *ends[:-1]], ends, strict=True)) if len(values) else []

