"""A Spark streaming source over the directory of a trace that grows.

Spark's own file source takes a file once and never sees what is appended to it, fails as a whole on one truncated file, and
drops malformed rows without a word. This source follows JSON Lines files as they grow, reads Parquet files when they appear,
and counts what it sets apart; Spark keeps its offsets, so a query that is killed reads exactly the same again.

The driver only lists files. Reading, checking and sorting rows happens in the executors, which hand back one row per
chunk: see `condense`. Executors need to reach the files by the same path or URI.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from isotone.pipeline.stream.condense import Chunk, read_piece
from isotone.pipeline.stream.files import Found, Offset, Piece, advance, between, listing, nothing_read

NAME: Final = "isotone_trace"
SCHEMA: Final = "chunk boolean, data binary"
BYTES_PER_BATCH: Final = 16 << 20
_BYTES_PER_TASK: Final = 1 << 18


class Share(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces


class TraceSource(DataSource):
    """`spark.readStream.format("isotone_trace").option("path", DIR)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return TraceReader(self.options["path"], int(self.options.get("tasks", "2")))


class TraceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module."""

    def __init__(self, directory: str, tasks: int) -> None:
        self._directory = directory
        self._tasks = tasks
        self._target: list[Found] | None = None

    def initialOffset(self) -> Offset:
        return nothing_read()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(BYTES_PER_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = listing(self._directory)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        files = listing(self._directory) if self._target is None else self._target
        bytes_max = None if isinstance(limit, ReadAllAvailable) else BYTES_PER_BATCH
        return advance(self._directory, start, files, bytes_max, last=self._target is not None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        pieces = list(between(start, end))
        sizes = {file.name: file.size for file in listing(self._directory)}
        weighed = sorted((piece.end - piece.start or sizes.get(piece.name, 0), piece.name, piece) for piece in pieces)
        total = sum(weight for weight, _, _ in weighed)
        bins: list[list[Piece]] = [[] for _ in range(max(1, min(self._tasks, 1 + total // _BYTES_PER_TASK)))]
        load_of = [0] * len(bins)
        for weight, _, piece in reversed(weighed):
            lightest = load_of.index(min(load_of))
            bins[lightest].append(piece)
            load_of[lightest] += weight
        return [Share(tuple(share)) for share in bins if share]

    def read(self, partition: InputPartition) -> Iterator[tuple[bool, bytes]]:
        assert isinstance(partition, Share)
        encode = msgspec.msgpack.encode
        for piece in partition.pieces:
            for item in read_piece(self._directory, piece):
                yield isinstance(item, Chunk), encode(item)
