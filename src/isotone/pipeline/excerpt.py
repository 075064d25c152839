"""Fetches small parts of a history from the files, for a person to look at.

Invariant: the driver gets at most `limit` rows per wish, whatever the history holds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from isotone.pipeline.history import spread
from isotone.pipeline.kernels.excerpt import Wish, excerpt, may_hold
from isotone.pipeline.kernels.load import Rejects, load
from isotone.pipeline.plan import Source

LIMIT: Final = 2_000
_SCHEMA: Final = "wish int, far bigint, process string, step bigint, payload binary"


def fetch(session: Any, sources: Sequence[Source], wishes: Sequence[Wish], limit: int = LIMIT) -> list[list[dict[str, Any]]]:
    """The rows of each wish, at most `limit` of them and those nearest to it first; a row that is there twice comes once."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    wanted = list(wishes)
    near = [source for source in sources if any(may_hold(source, wish) for wish in wanted)]
    if not wanted or not near:
        return [[] for _ in wanted]

    def work(source: Source) -> Iterator[Any]:
        import pyarrow as pa

        rows = load([source], Rejects(), every_column=True)
        picked = [
            (index, far, row["process"], row["step"], msgspec.json.encode(row))
            for index, wish in enumerate(wanted)
            if may_hold(source, wish)
            for far, row in excerpt(rows, wish, limit)
        ]
        if picked:
            kinds = (pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.binary())
            columns = zip(zip(*picked, strict=True), kinds, strict=True)
            names = ["wish", "far", "process", "step", "payload"]
            yield pa.record_batch([pa.array(column, kind) for column, kind in columns], names=names)

    frame = spread(session, near, work, _SCHEMA)
    order = Window.partitionBy("wish").orderBy("far", "process", "step")
    found: list[dict[tuple[str, int], dict[str, Any]]] = [{} for _ in wanted]
    for row in frame.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= limit).orderBy("rank").collect():
        found[row["wish"]].setdefault((row["process"], row["step"]), msgspec.json.decode(row["payload"]))
    return [list(rows.values()) for rows in found]
