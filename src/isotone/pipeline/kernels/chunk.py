"""The ordered scan over one piece: the rows of one process from one source, condensed to what the combination needs.

A piece does not know what came before it, so it reports extremes (which the driver compares with the carry of the pieces
before) and what is wrong inside it. An order that goes back yields closed intervals, from the element that comes too late
to the largest before it: everything that can be part of a violation lies inside one of them.

Invariants: the size of a `Piece` depends on origins, views and blocks, not on rows; at most `INTERVALS_MAX` intervals are
kept per sequence, further ones are merged into wider ones, which is sound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from isotone.pipeline.kernels.keys import Key, Keys, Salt, digest_hashes
from isotone.pipeline.kernels.load import Columns, Ints, Rejects, is_constant, pick
from isotone.trace.reader import STEP_BACK
from isotone.trace.schema import POSITION_COLUMNS

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
    relation: str | None
    """The conflict relation that its start row names, if that was read."""
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
    return [_piece(chain, unit, shift, salt) for chain in chains(rows)]


def chains(rows: Columns) -> Iterator[Columns]:
    """The rows of each run and process, in the order that they have."""
    owner = _owners(rows)
    if owner is None:
        yield from [rows] if len(rows) else []
        return
    order = np.argsort(owner, kind="stable")
    apart = rows.take(order)
    for start, end in _stretches(owner[order]):
        yield apart.slice(start, end)


def _owners(rows: Columns) -> Any:
    """Per row a small number for its run and process; None if all rows have the same."""
    run, process = rows.codes["run"], rows.codes["process"]
    if not len(rows) or (is_constant(run) and is_constant(process)):
        return None
    together = run.astype(np.int64) * (len(rows.words["process"]) + 1) + process
    together -= together.min()
    return _small(together, int(together.max()) + 1) if together.any() else None


def once(rows: Columns) -> Columns:
    """The rows but for those whose step an earlier row of the same run and process has."""
    owner, step = _owners(rows), rows.ints["step"]
    order = np.arange(len(rows)) if owner is None else np.argsort(owner, kind="stable")
    same: Any = True if owner is None else owner[order[1:]] == owner[order[:-1]]
    if not ((step[order[1:]] <= step[order[:-1]]) & same).any():
        return rows
    order = np.argsort(step, kind="stable") if owner is None else np.lexsort((step, owner))
    repeated = (step[order[1:]] == step[order[:-1]]) & same
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[order[1:][repeated]] = False
    return rows.take(fresh) if repeated.any() else rows


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
        rejects.add(process, 0, STEP_BACK % (repeated, process))
    return rows.take(order[fresh])


def _piece(given: Columns, unit: int, shift: int, salt: Salt) -> Piece:
    repeated = Rejects()
    rows = in_order(given, repeated)
    kinds = rows.words["kind"]
    kind = _small(rows.codes["kind"], len(kinds))
    step = rows.ints["step"]
    run = int(rows.codes["run"][0])
    masks = {name: kind == code for code, name in enumerate(kinds)}
    masks = {name: mask for name, mask in masks.items() if mask.any()}
    piece = Piece(
        run=rows.words["run"][run] if run >= 0 else "",
        process=rows.words["process"][int(rows.codes["process"][0])],
        unit=unit,
        rows=len(rows),
        first_step=int(step[0]),
        last_step=int(step[-1]),
        last_kind=kinds[int(kind[-1])],
        kinds=set(masks),
        protocols=_protocols(rows, [masks[name] for name in ("deliver", "view", "switch") if name in masks]),
        relation=_relation(rows, np.flatnonzero(masks["start"])) if "start" in masks else None,
        repeated=repeated,
    )
    sends, delivers, returned = (
        np.flatnonzero(masks[name]) if name in masks else np.empty(0, dtype=np.int64) for name in ("send", "deliver", "returned")
    )
    _sends(piece, rows, sends, shift, salt)
    if len(delivers):
        _own(piece, rows.ints["number"], sends, _deliveries(piece, rows, delivers, shift, salt))
    piece.returned_count = len(returned)
    piece.returned = [_message(rows, row) for row in returned[:LISTED_MAX]]
    return piece


def _small(codes: Any, count: int) -> Any:
    """Codes from 0 below `count` in as few bytes as they need: two or fewer are sorted without comparing."""
    return codes.astype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64, copy=False)


def _protocols(rows: Columns, telling: list[Any]) -> set[str]:
    protocol, words = rows.codes["protocol"], rows.words["protocol"]
    if not words or not telling:
        return set()
    if is_constant(protocol):
        return {words[int(protocol[0])]} if protocol[0] >= 0 else set()
    used = np.bincount(protocol[np.logical_or.reduce(telling)] + 1, minlength=len(words) + 1)[1:]
    return {words[code] for code in np.flatnonzero(used)}


def _relation(rows: Columns, starts: Any) -> str | None:
    if "detail" not in rows.table.column_names:
        return None
    details = rows.table.column("detail").take(starts).to_pylist(maps_as_pydicts="strict")
    return next((detail["conflicts"] for detail in details if detail and detail.get("conflicts")), None)


def _message(rows: Columns, row: Any) -> tuple[str, int]:
    return rows.words["origin"][int(rows.codes["origin"][row])], int(rows.ints["number"][row])


def _sends(piece: Piece, rows: Columns, sends: Any, shift: int, salt: Salt) -> None:
    if not len(sends):
        return
    number, digest = rows.ints["number"][sends], pick(rows.ints["digest"], sends)
    foreign = pick(rows.codes["origin"], sends) != rows.code("origin", piece.process)
    piece.sends_wild = bool(foreign.any()) or not bool((number[1:] > number[:-1]).all())
    piece.sent = (int(number.min()), int(number.max()))
    hashes = digest_hashes(number, digest, salt)
    for start, end in _stretches(number >> shift):
        digests = int(hashes[start:end].sum(dtype=np.uint64))
        piece.sent_blocks.append(Block(piece.process, int(number[start]) >> shift, end - start, 0, digests, None, None))


def _own(piece: Piece, number: Ints, sends: Any, mine: Any) -> None:
    """Own messages are delivered after they were sent: inside the piece, or it says what must have come before."""
    early = int(np.searchsorted(mine, sends[0])) if len(sends) else len(mine)
    wanted = number[mine]
    piece.own_needs = int(wanted[:early].max()) if early else None
    if early == len(mine):
        return
    wanted, mine, sent = wanted[early:], mine[early:], number[sends]
    low, high = int(sent[0]), int(sent[-1])
    if not piece.sends_wild and high - low == len(sends) - 1:  # no gaps, so where a number was sent needs no search
        late = wanted[wanted >= low]
        piece.own_before_send = bool((late > high).any()) or bool((sends[late - low] > mine[wanted >= low]).any())
    else:
        piece.own_before_send = bool((wanted > sent[np.searchsorted(sends, mine) - 1]).any())


def _deliveries(piece: Piece, rows: Columns, delivers: Any, shift: int, salt: Salt) -> Any:
    """Fill in what deliveries tell; returns which rows deliver own messages."""
    ranks = _keys(piece, Keys(_narrow(rows, delivers)))
    origins = rows.words["origin"]
    origin = pick(_small(rows.codes["origin"], len(origins)), delivers)
    order = np.argsort(origin, kind="stable")
    sorted_rows = delivers[order]
    some = _narrow(rows, sorted_rows, ("number", "digest"))
    number, keys = some.ints["number"], Keys(some)
    sizes = np.bincount(origin, minlength=len(origins))
    ends = np.cumsum(sizes)
    block = number >> shift
    cut = block[1:] != block[:-1]
    inner = ends[(sizes > 0) & (ends < len(number))]
    cut[inner - 1] = True
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(cut) + 1])
    _numbers(piece, origins, number, sizes, ends)
    key_sums = np.add.reduceat(keys.hashes(number, salt), starts).tolist()
    digest_sums = np.add.reduceat(digest_hashes(number, some.ints["digest"], salt), starts).tolist()
    lows, highs = _extremes(ranks, order, starts)
    stops = [*starts[1:].tolist(), len(number)]
    for place, (start, stop) in enumerate(zip(starts.tolist(), stops, strict=True)):
        name = origins[int(origin[order[start]])]
        low, high = keys.at(int(lows[place])), keys.at(int(highs[place]))
        piece.blocks.append(Block(name, int(block[start]), stop - start, key_sums[place], digest_sums[place], low, high))
    own = rows.code("origin", piece.process)
    return sorted_rows[ends[own] - sizes[own] : ends[own]] if own >= 0 else sorted_rows[:0]


def _numbers(piece: Piece, origins: list[str], number: Ints, sizes: Any, ends: Any) -> None:
    """Extremes and stretches that go back, per origin; numbers are sorted by origin."""
    falls = np.flatnonzero(number[1:] <= number[:-1]) + 1
    back = set(np.searchsorted(ends, falls[~np.isin(falls, ends)], side="right").tolist())
    for code in np.flatnonzero(sizes).tolist():
        mine = number[ends[code] - sizes[code] : ends[code]]
        if code in back:
            piece.delivered[origins[code]] = Numbers(int(mine.min()), int(mine.max()), _backward(mine))
        else:
            piece.delivered[origins[code]] = Numbers(int(mine[0]), int(mine[-1]))


def _extremes(ranks: Ints | None, order: Any, starts: Any) -> tuple[Any, Any]:
    """Where, in sorted rows, the smallest and the largest key of each stretch are."""
    if ranks is None:
        return starts, np.append(starts[1:], len(order)) - 1
    ranked = ranks[order]
    at_rank = np.empty(int(ranks.max()) + 1, dtype=np.int64)
    at_rank[ranked] = np.arange(len(ranked))
    return at_rank[np.minimum.reduceat(ranked, starts)], at_rank[np.maximum.reduceat(ranked, starts)]


def _narrow(rows: Columns, index: Any, also: Sequence[str] = ()) -> Columns:
    """As `take`, for the columns of keys and those named, without the Arrow table."""
    codes = {"view_proposer": pick(rows.codes["view_proposer"], index)}
    ints = {name: pick(rows.ints[name], index) for name in ("view_epoch", *POSITION_COLUMNS, *also)}
    return Columns(codes, rows.words, ints, None)


def _keys(piece: Piece, keys: Keys) -> Ints | None:
    """Fill in what keys tell; returns a rank per delivery, None if keys increase."""
    piece.placed = int(np.count_nonzero(keys.present))
    piece.unplaced = len(keys) - piece.placed
    if keys.increasing():
        piece.key_low, piece.key_high = keys.at(0), keys.at(len(keys) - 1)
        for start, end in _view_stretches(keys):
            _add_view(piece, keys.at(start), keys.at(end - 1))
        return None
    ranks = keys.ranks()
    at_rank = np.empty(int(ranks.max()) + 1, dtype=np.int64)
    at_rank[ranks] = np.arange(len(ranks))
    piece.key_low, piece.key_high = keys.at(int(at_rank[0])), keys.at(int(at_rank[-1]))
    piece.islands = [(keys.at(int(at_rank[low])), keys.at(int(at_rank[high]))) for low, high in _backward(ranks)]
    for start, end in _view_stretches(keys):
        span = ranks[start:end]
        _add_view(piece, keys.at(int(at_rank[span.min()])), keys.at(int(at_rank[span.max()])))
    return ranks


def _view_stretches(keys: Keys) -> list[Interval]:
    if is_constant(keys.epoch) and is_constant(keys.proposer):
        return [(0, len(keys))]
    return _stretches(keys.epoch * (len(keys.words) + 1) + keys.proposer)


def _add_view(piece: Piece, low: Key, high: Key) -> None:
    known = piece.views.get(low[:2])
    piece.views[low[:2]] = (low, high) if known is None else (min(known[0], low), max(known[1], high))


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
