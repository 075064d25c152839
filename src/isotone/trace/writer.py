"""Writers for traces: one process, one open file, Parquet or JSON Lines.

Parquet has its index at the end of the file, so an unfinished file is worthless. The writer therefore works on a hidden
`.part` file and renames it when it is complete: whoever watches the directory sees only whole files, and a process that
is killed loses at most what it wrote since the last rotation. Rotation happens after so many rows, after so much trace
time, or when the driver asks (`rotate`). A file that holds nothing but control records (`packet` rows) is not worth a
file every second: it may last `QUIET_FACTOR` times as long, or until something happens. JSON Lines are flushed with every
write; a kill can damage the last line only.

Invariants: no file that exists is ever overwritten; rows of one writer come out in the order they went in; a disk that
refuses becomes one `TraceFormatError`, and the writer is closed afterwards.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from isotone.model.errors import ConfigError, TraceFormatError
from isotone.trace.columns import ColumnBuilder, arrow_schema, require_pyarrow, table_of_rows
from isotone.trace.recorder import TraceRecorder, expand
from isotone.trace.schema import Row, parquet_columns

Form: TypeAlias = Literal["parquet", "jsonl"]

ROWS_PER_GROUP: Final = 65_536
ROWS_PER_FILE: Final = 4_194_304
PART_SUFFIX: Final = ".part"
QUIET_FACTOR: Final = 60


class TraceWriter(Protocol):
    """What a driver needs of a writer."""

    def write(self, rows: Iterable[Row]) -> None:
        """Append rows that exist already."""

    def write_recorder(self, recorder: TraceRecorder) -> None:
        """Drain a recorder; the fast way."""

    def rotate(self) -> None:
        """Make everything written so far safe from a kill."""

    def close(self) -> None:
        """Finish; a second call does nothing."""


def open_writer(
    path: Path,
    process: str,
    form: Form,
    *,
    rotate_rows: int = ROWS_PER_FILE,
    rotate_ns: int | None = None,
) -> TraceWriter:
    """A writer for the events of `process` in the directory `path`, which is made if need be.

    `rotate_ns` starts a new Parquet file that much trace time after the first row worth reading (live drivers set it).
    """
    if form not in ("parquet", "jsonl"):
        raise ConfigError(f"trace format {form!r}: valid are jsonl, parquet")
    with _disk(path):
        path.mkdir(parents=True, exist_ok=True)
    stem = safe_name(process)
    if form == "jsonl":
        return JsonLinesWriter(path, stem)
    return ParquetWriter(path, stem, rotate_rows=rotate_rows, rotate_ns=rotate_ns)


def safe_name(process: str) -> str:
    """A file name for a process: `a#1` becomes `a.1`; never hidden, no character with a meaning in paths."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", process.replace("#", "."))
    return f"p{name}" if not name or name[0] in "._" else name


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TraceFormatError(f"cannot write the trace {path}: {error.strerror or error}") from error


def _names(directory: Path, stem: str, suffix: str) -> Iterator[Path]:
    yield directory / f"{stem}{suffix}"
    for number in count(1):
        yield directory / f"{stem}-{number:04d}{suffix}"


class JsonLinesWriter:
    """One JSON object per line, flushed with every write."""

    def __init__(self, directory: Path, stem: str) -> None:
        self._encoder = msgspec.json.Encoder()
        self._file: IO[bytes] | None = None
        for path in _names(directory, stem, ".jsonl"):
            with _disk(path):
                try:
                    self._file = path.open("xb")
                except FileExistsError:
                    continue
            self.path = path
            break

    def write(self, rows: Iterable[Row]) -> None:
        if self._file is None:
            raise TraceFormatError(f"the trace {self.path} is closed")
        lines = self._encoder.encode_lines(rows if isinstance(rows, list) else list(rows))
        try:
            with _disk(self.path):
                self._file.write(lines)
                self._file.flush()
        except TraceFormatError:
            self._abandon()
            raise

    def write_recorder(self, recorder: TraceRecorder) -> None:
        self.write(list(expand(recorder.take())))

    def rotate(self) -> None:
        """Every write is flushed already."""

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with _disk(self.path):
                file.close()

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                pass  # the first error has been reported; what the buffer holds is lost either way


class ParquetWriter:
    """Row groups of some 64 k rows; files that appear only when they are whole."""

    def __init__(self, directory: Path, stem: str, *, rotate_rows: int, rotate_ns: int | None) -> None:
        require_pyarrow()
        self._directory = directory
        self._stem = stem
        self._rotate_rows = rotate_rows
        self._rotate_ns = rotate_ns
        self._builder = ColumnBuilder()
        self._rows: list[Row] = []
        self._closed = False
        self._names = _names(directory, stem, ".parquet")
        self._target: Path | None = None
        self._part: Path | None = None
        self._writer: Any = None
        self._rows_in_file = 0
        self._first_ns: int | None = None
        self._news_ns: int | None = None
        """When the first row that is more than a control record was written to this file."""

    @property
    def path(self) -> Path:
        """The directory written to."""
        return self._directory

    def write(self, rows: Iterable[Row]) -> None:
        self._check_open()
        last_ns: int | None = None
        for row in rows:
            if len(self._builder):
                self._flush()
            self._rows.append(row)
            last_ns = row.get("time", last_ns)
            if self._first_ns is None:
                self._first_ns = last_ns
            if self._news_ns is None and row["kind"] != "packet":
                self._news_ns = last_ns
            if len(self._rows) >= ROWS_PER_GROUP:
                self._flush()
        self._consider_rotation(last_ns)

    def write_recorder(self, recorder: TraceRecorder) -> None:
        self._check_open()
        taken = recorder.take()
        if not taken.events:
            return
        if self._first_ns is None:
            self._first_ns = taken.events[0][1]
        if self._news_ns is None:
            self._news_ns = next((event[1] for event in taken.events if event[0] != "packet"), None)
        self._builder.add(taken)
        if len(self._builder) >= ROWS_PER_GROUP:
            self._flush()
        self._consider_rotation(taken.events[-1][1])

    def rotate(self) -> None:
        self._check_open()
        self._finish_file()

    def close(self) -> None:
        if not self._closed:
            self._finish_file()
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise TraceFormatError(f"the trace of {self._stem} in {self._directory} is closed")

    def _consider_rotation(self, last_ns: int | None) -> None:
        held = self._rows_in_file + len(self._builder) + len(self._rows)
        if held >= self._rotate_rows or self._is_old(last_ns):
            self._finish_file()

    def _is_old(self, now_ns: int | None) -> bool:
        if now_ns is None or self._rotate_ns is None or self._first_ns is None:
            return False
        if self._news_ns is not None and now_ns - self._news_ns >= self._rotate_ns:
            return True
        return now_ns - self._first_ns >= QUIET_FACTOR * self._rotate_ns

    def _flush(self) -> None:
        """Write what is held as row groups: rows first, since `write` lets none wait behind the builder's."""
        if self._rows:
            rows, self._rows = self._rows, []
            self._write_table(lambda: table_of_rows(rows))
        if len(self._builder):
            self._write_table(self._builder.table)

    def _write_table(self, make: Any) -> None:
        try:
            with _disk(self._directory / self._stem):
                table = self._arrow(make)
                if self._writer is None:
                    self._open_file()
                self._arrow(lambda: self._writer.write_table(table, row_group_size=ROWS_PER_GROUP))
                self._rows_in_file += table.num_rows
        except TraceFormatError:
            self._abandon()
            raise

    def _arrow(self, action: Any) -> Any:
        """Arrow's own errors (a value that does not fit its column) in this library's words; disk errors pass."""
        pa = require_pyarrow()
        try:
            return action()
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise TraceFormatError(f"a row of {self._stem} does not fit the trace schema: {error}") from error

    def _open_file(self) -> None:
        import pyarrow.parquet as pq

        for target in self._names:
            part = target.with_name(f".{target.name}{PART_SUFFIX}")
            if target.exists():
                continue
            try:
                part.open("xb").close()
            except FileExistsError:
                continue  # left over by a process that was killed, or in use by another one
            self._target, self._part = target, part
            texts = [name for name, kind in parquet_columns().items() if "string" in kind]
            integers = [name for name, kind in parquet_columns().items() if kind.startswith("int")]
            self._writer = pq.ParquetWriter(
                part,
                arrow_schema(),
                compression="zstd",
                compression_level=1,
                use_dictionary=texts,
                column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            )
            return

    def _finish_file(self) -> None:
        self._flush()
        if self._writer is None or self._part is None or self._target is None:
            return
        try:
            with _disk(self._target):
                self._writer.close()
                self._part.rename(self._target)
        except TraceFormatError:
            self._abandon()
            raise
        self._writer = self._target = self._part = None
        self._rows_in_file = 0
        self._first_ns = self._news_ns = None

    def _abandon(self) -> None:
        """After a failure: the unfinished part stays, hidden, for whoever wants to look."""
        writer, self._writer, self._closed = self._writer, None, True
        self._rows = []
        self._builder = ColumnBuilder()
        if writer is not None:
            try:
                writer.close()
            except OSError:
                pass  # the first error has been reported


def write_all(path: Path, form: Form, recorders: Sequence[TraceRecorder]) -> None:
    """Write what several processes recorded, one file each."""
    for recorder in recorders:
        writer = open_writer(path, recorder.process, form)
        writer.write_recorder(recorder)
        writer.close()
