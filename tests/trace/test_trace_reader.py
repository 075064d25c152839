"""Reading what others wrote: every row is used, or quarantined with its place and a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from isotone.model.errors import TraceFormatError
from isotone.trace import open_writer, read_trace
from tests.trace.events import everything

ROW = {"process": "a#1", "step": 1, "kind": "deliver", "origin": "b#1", "number": 1}


def jsonl(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def reasons(path: Path) -> list[tuple[int, str]]:
    return [(bad.line, bad.reason) for bad in read_trace([path]).quarantined]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "broken JSON"),
        ("\x00\x01", "broken JSON"),
        ("[1, 2]", "wrong type: Expected `object`, got `array`"),
        ({**ROW, "kind": "dance"}, "unknown kind 'dance'"),
        ({"process": "a#1", "step": 5}, "missing column kind"),
        ({"step": 5, "kind": "stop"}, "missing column process"),
        ({"process": "a#1", "kind": "stop"}, "missing column step"),
        ({**ROW, "origin": None}, "missing column origin on deliver"),
        ({"process": "a#1", "step": 5, "kind": "send", "origin": "a#1"}, "missing column number on send"),
        ({**ROW, "step": "7"}, "wrong type: Expected `int | null`, got `str`"),
        ({**ROW, "step": 1.5}, "wrong type: Expected `int | null`, got `float`"),
        ({**ROW, "number": 2**63}, "wrong type: Expected `int` <= 9223372036854775807"),
        ({**ROW, "position": ["x"]}, "wrong type"),
        ({**ROW, "members": "abc"}, "wrong type"),
        ({**ROW, "detail": {"a": 1}}, "wrong type"),
        ({**ROW, "step": 1}, "step 1 of a#1 goes back to one it has had"),
        ({**ROW, "position": [1, 2, 3, 4, 5]}, "position with more than 4 components"),
        ({**ROW, "size": 2**31}, "wrong type: Expected `int` <= 2147483647"),
    ],
)
def test_malformed_row_is_quarantined_alone(tmp_path: Path, line: object, reason: str) -> None:
    path = jsonl(tmp_path / "t.jsonl", ROW, line, {**ROW, "step": 9})
    trace = read_trace([path])
    assert [row["step"] for row in trace.rows] == [1, 9]
    [bad] = trace.quarantined
    assert (bad.file, bad.line) == (str(path), 2)
    assert bad.reason.startswith(reason)


def test_broken_encoding_and_cut_last_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole = json.dumps(ROW).encode()
    path.write_bytes(whole + b"\n\n" + b'{"process": "\xff"}\n' + whole[:20])
    trace = read_trace([path])
    assert len(trace.rows) == 1
    assert [bad.line for bad in trace.quarantined] == [3, 4]


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ({"position": [0, 3]}, (0, 3)),
        ({"position": 7}, (7,)),
        ({"position": 0}, (0,)),
        ({"position_0": 1, "position_1": 0}, (1, 0)),
        ({"position_0": 1, "position_1": 2, "position_2": 3, "position_3": None}, (1, 2, 3)),
        ({"position": None}, None),
        ({}, None),
    ],
)
def test_position_in_every_form(tmp_path: Path, given: dict[str, Any], position: tuple[int, ...] | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    jsonl(tmp_path / "t.jsonl", {**ROW, **given})
    pq.write_table(pa.Table.from_pylist([{**ROW, "process": "b#1", **given}]), tmp_path / "t.parquet")
    rows = read_trace([tmp_path]).rows
    assert [row.get("position") for row in rows] == [position, position]
    assert all("position_0" not in row for row in rows)


def test_columns_of_strangers_are_ignored(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", {**ROW, "colour": "red", "time": None})
    assert read_trace([path]).rows == [ROW]


def test_parquet_with_wrong_types(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**{name: [value, value] for name, value in ROW.items()}, "step": [1.0, 2.5]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert [line for line, reason in reasons(tmp_path) if "wrong type" in reason] == [1, 2]
    rows = [ROW, {**ROW, "kind": "dance", "step": 2}, {**ROW, "step": 3}, {**ROW, "step": 2}, {**ROW, "step": 3}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    assert reasons(tmp_path) == [(2, "unknown kind 'dance'"), (5, "step 3 of a#1 goes back to one it has had")]


def test_truncated_parquet(tmp_path: Path) -> None:
    for name in ("a#1", "b#1"):
        writer = open_writer(tmp_path, name, "parquet")
        writer.write(everything(name).rows())
        writer.close()
    broken = tmp_path / "a.1.parquet"
    data = broken.read_bytes()
    for cut in (0, 3, len(data) // 2, len(data) - 1):
        broken.write_bytes(data[:cut])
        trace = read_trace([tmp_path])
        assert {row["process"] for row in trace.rows} == {"b#1"}
        [bad] = trace.quarantined
        assert (bad.file, bad.line) == (str(broken), 0)
        assert bad.reason.startswith("unreadable Parquet file: ")


def test_damaged_row_group_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr("isotone.trace.writer.ROWS_PER_GROUP", 10)
    writer = open_writer(tmp_path, "a#1", "parquet")
    rows = list(everything().rows())
    writer.write(rows)
    writer.close()
    path = tmp_path / "a.1.parquet"
    group = pq.read_metadata(path).row_group(1)
    data = bytearray(path.read_bytes())
    start = min(group.column(i).dictionary_page_offset or group.column(i).data_page_offset for i in range(3))
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    trace = read_trace([tmp_path])
    [bad] = trace.quarantined
    assert bad.line == 11
    assert bad.reason.startswith("unreadable rows 11 to 20: ")
    assert [row["step"] for row in trace.rows] == [*range(1, 11), *range(21, len(rows) + 1)]


def test_rows_and_files_of_one_process_are_put_in_order(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", {**ROW, "step": 6}, {**ROW, "step": 5})
    jsonl(tmp_path / "b.jsonl", {**ROW, "step": 1}, {**ROW, "step": 2})
    jsonl(tmp_path / "c.jsonl", {**ROW, "step": 1, "run": "other"})
    trace = read_trace([tmp_path])
    assert ([row["step"] for row in trace.rows], trace.quarantined) == ([1, 2, 5, 6, 1], [])


def test_a_file_reached_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonl(tmp_path / "one.jsonl", ROW, ROW)
    monkeypatch.chdir(tmp_path)
    trace = read_trace([Path("one.jsonl"), tmp_path, Path("*.jsonl")])
    assert (len(trace.rows), [bad.file for bad in trace.quarantined]) == (1, ["one.jsonl"])


def test_directories_globs_and_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one = jsonl(tmp_path / "one.jsonl", ROW)
    jsonl(tmp_path / "deep" / "two.jsonl", {**ROW, "process": "b#1"})
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "_SUCCESS").write_text("")
    assert len(read_trace([tmp_path]).rows) == 2
    assert len(read_trace([tmp_path / "*.jsonl"]).rows) == 1
    assert len(read_trace([tmp_path / "**" / "*.jsonl"]).rows) == 2
    both = read_trace([one, tmp_path])
    assert (len(both.rows), both.quarantined) == (2, [])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "no trace given"),
        (["empty"], "no trace in .*empty: nothing there ends in .parquet or .jsonl"),
        (["nowhere"], "no trace at .*nowhere: there is no such file or directory"),
        (["*.parquet"], "no trace in "),
        (["notes.txt"], "is not a trace"),
        (["good", "nowhere"], "no trace at "),
    ],
)
def test_no_trace_is_one_clear_line(tmp_path: Path, given: list[str], words: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "good").mkdir()
    jsonl(tmp_path / "good" / "t.jsonl", ROW)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(TraceFormatError, match=words) as caught:
        read_trace([tmp_path / name for name in given])
    assert "\n" not in str(caught.value)
