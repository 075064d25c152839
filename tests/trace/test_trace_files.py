"""Round trips through files, rotation, kills, and disks that refuse."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.errors import ConfigError, TraceFormatError
from isotone.trace import Row, TraceRecorder, digest_rows, open_writer, read_trace
from isotone.trace.columns import ColumnBuilder, arrow_schema, table_of_rows
from isotone.trace.schema import parquet_columns
from isotone.trace.writer import Form, TraceWriter, safe_name
from tests.trace.events import VIEW, everything

FORMS: tuple[Form, ...] = ("parquet", "jsonl")


def normal(rows: list[Row]) -> list[dict[str, Any]]:
    """Sequences as lists, so that rows of a recorder and of a file compare."""
    return [{name: list(value) if isinstance(value, tuple) else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fast", [False, True])
def test_round_trip_of_every_kind(tmp_path: Path, form: Form, fast: bool) -> None:
    recorder = everything()
    rows = list(recorder.rows())
    writer = open_writer(tmp_path, "a#1", form)
    if fast:
        writer.write_recorder(recorder)
        assert len(recorder) == 0
    else:
        writer.write(rows)
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == [f"a.1.{form}"]
    trace = read_trace([tmp_path])
    assert trace.quarantined == []
    assert normal(trace.rows) == normal(rows)
    assert digest_rows(trace.rows) == digest_rows(rows)


@pytest.mark.parametrize("form", FORMS)
def test_order_is_kept_when_both_ways_are_mixed(tmp_path: Path, form: Form) -> None:
    recorder = TraceRecorder("a#1")
    writer = open_writer(tmp_path, "a#1", form)
    for number in range(1, 7):
        recorder.send(number, VIEW, number, [b"x"])
        if number % 2:
            writer.write(recorder.drain())
        else:
            writer.write_recorder(recorder)
    writer.close()
    assert [row["number"] for row in read_trace([tmp_path]).rows] == [1, 2, 3, 4, 5, 6]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
            st.sampled_from([None, "t"]),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_columns_from_batches_equal_columns_from_rows(batches: list[tuple[int, tuple[int, ...] | None, Any, bool]]) -> None:
    recorder = TraceRecorder("a#1", "r")
    for size, prefix, kind, plain in batches:
        types = [kind] * size
        recorder.deliver(1, VIEW, "b#1", 1, [b"p"] * size, prefix, kind, None, None, types, None if kind else [["i"]] * size)
        if plain:
            recorder.packet(2, None, "ack", 1, 2, 3)
    rows = list(recorder.rows())
    builder = ColumnBuilder()
    builder.add(recorder.take())
    assert len(builder) == len(rows)
    if rows:
        assert builder.table().to_pylist() == table_of_rows(rows).to_pylist()


def test_parquet_schema_is_the_documented_one() -> None:
    assert arrow_schema().names == list(parquet_columns())
    assert {"position_0", "position_1", "position_2", "position_3"} <= set(arrow_schema().names)
    assert "position" not in arrow_schema().names


def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr("isotone.trace.writer.ROWS_PER_GROUP", 10)
    for fast in (False, True):
        recorder = TraceRecorder("a#1")
        writer = open_writer(tmp_path / str(fast), "a#1", "parquet")
        for number in range(1, 38):
            recorder.send(number, VIEW, number, [b"x"])
            if fast:
                writer.write_recorder(recorder)
            else:
                writer.write(recorder.drain())
        writer.close()
        metadata = pq.read_metadata(tmp_path / str(fast) / "a.1.parquet")
        assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10, 10, 10, 7]


def test_rotation_by_rows_and_by_time(tmp_path: Path) -> None:
    for name, options in (("rows", {"rotate_rows": 5}), ("time", {"rotate_ns": 50})):
        recorder = TraceRecorder("a#1")
        writer = open_writer(tmp_path / name, "a#1", "parquet", **options)
        for number in range(1, 13):
            recorder.send(number * 10, VIEW, number, [b"x"])
            writer.write_recorder(recorder)
        writer.close()
        files = sorted(path.name for path in (tmp_path / name).iterdir())
        assert len(files) >= 2
        assert set(files) <= {"a.1.parquet", "a.1-0001.parquet", "a.1-0002.parquet", "a.1-0003.parquet"}
        trace = read_trace([tmp_path / name])
        assert ([row["number"] for row in trace.rows], trace.quarantined) == (list(range(1, 13)), [])


def test_control_records_alone_are_not_worth_a_file_each_time(tmp_path: Path) -> None:
    for fast in (True, False):
        recorder = TraceRecorder("a#1")
        writer = open_writer(tmp_path / str(fast), "a#1", "parquet", rotate_ns=50)

        def write(fast: bool = fast, recorder: TraceRecorder = recorder, writer: TraceWriter = writer) -> int:
            if fast:
                writer.write_recorder(recorder)
            else:
                writer.write(recorder.drain())
            return len(list((tmp_path / str(fast)).glob("*.parquet")))

        for now in range(0, 1_000, 10):
            recorder.packet(now, VIEW, "heartbeat", 1, 1, 10)
            assert write() == 0
        recorder.send(1_000, VIEW, 1, [b"x"])
        assert write() == 0
        recorder.packet(1_050, VIEW, "heartbeat", 1, 1, 10)
        assert write() == 1
        for now in (1_060, 4_059):
            recorder.packet(now, VIEW, "heartbeat", 1, 1, 10)
            assert write() == 1
        recorder.packet(4_060, VIEW, "heartbeat", 1, 1, 10)
        assert write() == 2
        writer.close()


def test_existing_files_are_never_overwritten(tmp_path: Path) -> None:
    for form in FORMS:
        for start in (1, 101):
            recorder = TraceRecorder("a#1", run=str(start))
            recorder.send(1, VIEW, start, [b"x"])
            writer = open_writer(tmp_path / form, "a#1", form)
            writer.write_recorder(recorder)
            writer.close()
        assert sorted(path.name for path in (tmp_path / form).iterdir()) == [f"a.1-0001.{form}", f"a.1.{form}"]
        assert len(read_trace([tmp_path / form]).rows) == 2


def test_nothing_written_leaves_no_parquet_file(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, "a#1", "parquet")
    writer.write_recorder(TraceRecorder("a#1"))
    writer.close()
    writer.close()
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from isotone.trace import TraceRecorder, open_writer
writer = open_writer(Path(sys.argv[1]), "a#1", sys.argv[2])
recorder = TraceRecorder("a#1")
recorder.send(1, (1, "a#1"), 1, [b"x"] * 10)
writer.write_recorder(recorder)
writer.rotate()
recorder.send(2, (1, "a#1"), 11, [b"x"] * 70000)
writer.write_recorder(recorder)
os.kill(os.getpid(), 9)
"""


def test_a_killed_process_loses_only_what_was_not_rotated(tmp_path: Path) -> None:
    source = str(Path(__file__).resolve().parents[2] / "src")
    command = [sys.executable, "-c", KILLED, str(tmp_path), "parquet"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, check=False, timeout=60)
    assert done.returncode == -9
    trace = read_trace([tmp_path])
    assert [row["number"] for row in trace.rows] == list(range(1, 11))
    assert [(Path(bad.file).name, bad.line) for bad in trace.quarantined] == [(".a.1-0001.parquet.part", 0)]
    assert "unfinished file" in trace.quarantined[0].reason
    again = open_writer(tmp_path, "a#1", "parquet")
    again.write(everything(run="again").rows())
    again.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".a.1-0001.parquet.part", "a.1-0002.parquet", "a.1.parquet"]


@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_one_clear_error(tmp_path: Path, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = open_writer(tmp_path, "a#1", form)
    if form == "jsonl":
        monkeypatch.setattr(writer, "_file", open("/dev/full", "wb"))  # noqa: SIM115
    else:
        monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
        monkeypatch.setattr("isotone.trace.writer.ROWS_PER_GROUP", 1)
    rows = list(everything().rows())
    with pytest.raises(TraceFormatError, match=r"cannot write the trace .*: No space left on device"):
        writer.write(rows)
    writer.close()
    with pytest.raises(TraceFormatError, match="is closed"):
        writer.write(rows)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceFormatError, match="cannot write the trace"):
        open_writer(tmp_path / "file" / "inside", "a#1", "jsonl")


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    recorder = TraceRecorder("a#1")
    recorder.packet(1, None, "ack", 1, 1, 2**40)
    writer = open_writer(tmp_path, "a#1", "parquet")
    writer.write_recorder(recorder)
    with pytest.raises(TraceFormatError, match="does not fit the trace schema"):
        writer.close()
    recorder.deliver(1, VIEW, "a#1", 1, [b""], (1, 2, 3, 4), "atop", "agreed")
    writer = open_writer(tmp_path, "a#1", "parquet")
    with pytest.raises(TraceFormatError, match="more than 4 components"):
        writer.write_recorder(recorder)


def test_unknown_form(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="valid are jsonl, parquet"):
        open_writer(tmp_path, "a#1", "csv")  # type: ignore[arg-type]


def test_safe_names() -> None:
    assert [safe_name(name) for name in ("a#1", "x/../y#2", "", ".hidden#1", "_a#1")] == [
        "a.1", "x_.._y.2", "p", "p.hidden.1", "p_a.1",
    ]  # fmt: skip
