"""Compares the messages of suspect blocks exactly, by a group-by of the rows of those blocks.

Invariant: of the messages in the blocks it is given, those that it does not call remarkable were sent, are delivered by
their origin, and have one digest and one key of their own everywhere.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from isotone.pipeline.combine import Confirmed, RunState, take_confirmed
from isotone.pipeline.kernels.chunk import Piece
from isotone.pipeline.kernels.extract import in_blocks
from isotone.pipeline.kernels.keys import Key
from isotone.pipeline.kernels.load import NOTHING, Rejects
from isotone.pipeline.stage import Stage, Unit, read

CONFIRMED_MAX: Final = 10_000
_SCHEMA: Final = (
    "run string, origin string, number long, process string, sent boolean, digest long, "
    "epoch long, proposer string, p0 long, p1 long, p2 long, p3 long"
)


def confirm(stage: Stage, states: list[RunState], shift: int) -> None:
    """Look at the suspect blocks of the runs, and add what is remarkable to what must be looked at exactly."""
    suspects = {state.run: state.suspects for state in states if state.suspects}
    if not suspects:
        return

    def work(_: int, unit: Unit) -> Iterator[Any]:
        return iter(in_blocks(read(unit, Rejects()), suspects, shift).to_batches())

    sets = {run: {origin: set(blocks) for origin, blocks in origins.items()} for run, origins in suspects.items()}
    units = {piece.unit for state in states for piece in state.each() if _touches(piece, sets.get(state.run, {}))}
    found = _remarkable(stage.map(units, work, _SCHEMA)).limit(CONFIRMED_MAX + 1).collect()
    for state in states:
        mine = [_confirmed(row) for row in found if row.run == state.run]
        if len(found) > CONFIRMED_MAX:
            state.need_whole(f"more than {CONFIRMED_MAX} messages are remarkable")
        take_confirmed(state, sorted(mine, key=lambda message: (message.origin, message.number)))


def _touches(piece: Piece, suspects: Mapping[str, set[int]]) -> bool:
    return any(block.block in suspects.get(block.origin, ()) for block in (*piece.blocks, *piece.sent_blocks))


def _remarkable(frame: Any) -> Any:
    """Messages with unequal digests or keys, without a send, not delivered by their origin, or sharing a key."""
    from pyspark.sql import functions as F

    key = F.struct("epoch", "proposer", "p0", "p1", "p2", "p3")
    deliver = ~F.col("sent")
    digest = F.when(deliver, F.col("digest"))
    per_message = frame.groupBy("run", "origin", "number").agg(
        F.max(F.col("sent") & (F.col("process") == F.col("origin"))).alias("sent"),
        F.max(deliver).alias("delivered"),
        F.max(deliver & (F.col("process") == F.col("origin"))).alias("own"),
        F.min(digest).alias("digest_low"),
        F.max(digest).alias("digest_high"),
        F.min(F.when(F.col("sent"), F.col("digest"))).alias("digest_sent"),
        F.min(F.when(deliver, key)).alias("low"),
        F.max(F.when(deliver, key)).alias("high"),
    )
    differs = F.coalesce(F.col("digest_low") != F.col("digest_sent"), F.lit(False)) | F.coalesce(
        F.col("digest_high") != F.col("digest_sent"), F.lit(False)
    )
    judged = per_message.where("delivered").withColumn("unequal", differs | ~F.col("sent"))
    twice = judged.where(F.col("low.p0") != F.lit(NOTHING)).groupBy("run", "low").agg(F.count("*").alias("n"))
    shared = twice.where("n > 1").select("run", "low", F.lit(True).alias("shared"))
    marked = judged.join(shared, ["run", "low"], "left").withColumn("shared", F.coalesce("shared", F.lit(False)))
    own = judged.where("own").select("run", "origin", F.col("number").alias("after"), F.col("low").alias("key"))
    orphans = judged.where("sent and not own").select("run", "origin", "number").join(own, ["run", "origin"])
    next_own = F.min(F.when(F.col("after") > F.col("number"), F.col("key"))).alias("later")
    bounds = orphans.groupBy("run", "origin", "number").agg(next_own)
    marked = marked.join(bounds, ["run", "origin", "number"], "left")
    return marked.where(F.col("unequal") | F.col("shared") | ~F.col("own") | (F.col("low") != F.col("high")))


def _confirmed(row: Any) -> Confirmed:
    later = None if row.later is None else _key(row.later)
    return Confirmed(row.origin, row.number, row.sent, row.own, row.unequal, row.shared, _key(row.low), _key(row.high), later)


def _key(key: Any) -> Key:
    return key.epoch, key.proposer, tuple(part for part in (key.p0, key.p1, key.p2, key.p3) if part != NOTHING)
