"""The residue: rows that come to the driver because only the oracle can tell what they mean.

Invariants: a read with a limit brings at most so many rows, or more rows than the limit, which says that it was too small;
what is read without a limit is bounded by the messages that a kernel found.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from isotone.pipeline.combine import RunState
from isotone.pipeline.kernels.chunk import Piece
from isotone.pipeline.kernels.compact import Message
from isotone.pipeline.kernels.extract import Wanted, pick
from isotone.pipeline.kernels.load import Rejects
from isotone.pipeline.oracle.history import History
from isotone.pipeline.stage import Stage, Unit, payload, read
from isotone.pipeline.visits import Run
from isotone.trace.schema import MESSAGE_KINDS

PACK_ROWS: Final = 1_000
Rows = list[dict[str, Any]]


def fetch(stage: Stage, states: list[RunState], wanted: Mapping[str, Wanted], limit: int | None = None) -> Rows:
    """The wanted rows of the runs; if they are more than the limit, only some, but more than the limit."""

    def work(_: int, unit: Unit) -> Iterator[Any]:
        picked = pick(read(unit, Rejects(), every_column=True), wanted)
        for start in range(0, len(picked), PACK_ROWS):
            yield payload(msgspec.json.encode(picked[start : start + PACK_ROWS]))

    units = {piece.unit for state in states for piece in state.each() if _concerns(piece, wanted.get(state.run))}
    if not units:
        return []
    frame = stage.map(units, work, "payload binary")
    packs = (frame if limit is None else frame.limit(limit // PACK_ROWS + len(units) + 1)).collect()
    return [row for pack in packs for row in msgspec.json.decode(pack.payload)]


def complete(stage: Stage, states: list[RunState], runs: dict[str, Run], rows: Rows) -> Rows:
    """Rows, the sends of what they are about, and rows that say which processes there are."""
    sends: dict[str, Wanted] = {}
    for state in states:
        if not state.wanted or state.wanted.everything:
            continue
        about: dict[str, set[int]] = {}
        for row in rows:
            if (row.get("run") or "") == state.run and "origin" in row:
                about.setdefault(row["origin"], set()).add(row["number"])
        for process, chain in state.pieces.items():  # how far an origin's sends go decides what counts as cut off
            about.setdefault(process, set()).update([piece.sent[1] for piece in chain if piece.sent][-1:])
        sends[state.run] = Wanted(sends={origin: sorted(numbers) for origin, numbers in about.items()})
    if sends:
        rows.extend(fetch(stage, states, sends))
    frames = [runs[state.run].frame if state.run in runs else _frame_of(state) for state in states if state.run in sends]
    return _once(rows) + [row for frame in frames for row in frame]


def as_whole(history: History, state: RunState) -> History:
    """A part of a run that knows which kinds of rows, which positions and which conflict relation the whole has."""
    history.kinds |= state.kinds
    history.relations = state.relations
    if state.placed:
        history.columns.add(("deliver", "position"))
    return history


def rows_about(rows: Rows, run: str, messages: set[Message], every_send: bool) -> Iterator[dict[str, Any]]:
    """The rows of a run about some messages, with every send if asked for, and those about no message."""
    for row in rows:
        if (row.get("run") or "") == run:
            about = row["kind"] not in MESSAGE_KINDS or (row["origin"], row["number"]) in messages
            if about or (every_send and row["kind"] == "send"):
                yield row


def _concerns(piece: Piece, wish: Wanted | None) -> bool:
    """Whether wanted rows may be in the unit of the piece."""
    if wish is None or wish.everything:
        return wish is not None
    low, high = piece.key_low, piece.key_high
    if low is not None and high is not None and any(low <= island[1] and island[0] <= high for island in wish.islands):
        return True
    for (process, origin), intervals in wish.numbers.items():
        near = piece.delivered.get(origin) if process == piece.process else None
        if near is not None and any(near.low <= last and first <= near.high for first, last in intervals):
            return True
    for origin, numbers in wish.messages.items():
        spans = piece.delivered.get(origin)
        if spans is not None and any(spans.low <= number <= spans.high for number in numbers):
            return True
    mine = {*wish.messages.get(piece.process, ()), *wish.sends.get(piece.process, ())}
    if piece.sent is not None and any(piece.sent[0] <= number <= piece.sent[1] for number in mine):
        return True
    return (piece.returned_count > 0 or piece.sends_wild) and bool(wish.messages)


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row once: some are wanted for two reasons."""
    return list({(row.get("run") or "", row["process"], row["step"]): row for row in rows}.values())


def _frame_of(state: RunState) -> Iterator[dict[str, Any]]:
    """Rows that say which processes there are and how their traces end; they stand before and after all others."""
    for process, chain in state.pieces.items():
        row: dict[str, Any] = {"process": process, "step": chain[0].first_step - 1, "kind": "start"}
        if state.run:
            row["run"] = state.run
        yield row
        if chain[-1].last_kind in ("stop", "crash"):
            yield {**row, "step": chain[-1].last_step, "kind": chain[-1].last_kind}
