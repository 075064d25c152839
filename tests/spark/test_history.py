"""Loading: one typed history from whatever files there are, and the same judgement of rows as the other two readers."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from isotone.model.errors import ConfigError, TraceFormatError
from isotone.pipeline.history import Loaded, read_history
from isotone.pipeline.scan import verify
from isotone.sim import run
from isotone.trace import read_trace
from isotone.trace.columns import table_of_rows
from isotone.trace.schema import POSITION_COLUMNS, parquet_columns

CALM = Path(__file__).resolve().parents[2] / "scenarios" / "calm.toml"
Rows = list[dict[str, Any]]


def deliver(process: str, step: Any, number: Any = 1, **more: Any) -> dict[str, Any]:
    return {"process": process, "step": step, "kind": "deliver", "origin": "z#1", "number": number, **more}


def jsonl(path: Path, *lines: Any) -> None:
    texts = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    path.write_bytes(b"\n".join(texts) + b"\n")


def normal(row: Any) -> tuple[Any, ...]:
    """A row of any reader in one comparable form."""
    given = dict(row)
    position = given.pop("position", None) or [given.pop(name, None) for name in POSITION_COLUMNS]
    given["position"] = tuple(part for part in position if part is not None)
    given["detail"] = sorted((given.get("detail") or {}).items())
    return tuple(sorted((name, repr(value)) for name, value in given.items() if value not in (None, (), [])))


def rows_of(loaded: Loaded) -> Counter[tuple[Any, ...]]:
    return Counter(normal(row.asDict()) for row in loaded.history.collect())


def same_as_reader(spark: Any, *paths: Path) -> Loaded:
    """Rows and quarantine of `read_history` are those of `read_trace`; the scan counts the same, for the same reasons."""
    plain = read_trace(list(paths))
    given = [str(path) for path in paths]
    loaded = read_history(spark, given)
    assert rows_of(loaded) == Counter(map(normal, plain.rows))
    expected = sorted((bad.file, bad.line, bad.reason) for bad in plain.quarantined)
    assert sorted((row.file, row.line, row.reason) for row in loaded.quarantine.collect()) == expected
    summary = loaded.summary()
    assert summary["rows"] == len(plain.rows)
    assert summary["kinds"] == dict(sorted(Counter(row["kind"] for row in plain.rows).items()))
    assert summary["quarantined"] == sum(summary["reasons"].values()) == len(expected)
    scanned = verify(given, ["fifo"], session=spark)
    assert (scanned.report.events, scanned.report.quarantined) == (len(plain.rows), len(expected))
    assert Counter(bad.reason for bad in scanned.quarantined) == Counter(reason for _, _, reason in expected)
    return loaded


def nasty(path: Path) -> Path:
    """One directory with everything that can be wrong with rows and files."""
    (path / "deep" / "er").mkdir(parents=True)
    jsonl(
        path / "text.jsonl",
        deliver("a#1", 1),
        b'{"process": "a#1", "st',
        b"",
        deliver("a#1", "two"),
        deliver("a#1", 2.0),
        deliver("a#1", 2**63),
        {**deliver("a#1", 3), "kind": "dance"},
        {**deliver("a#1", 3), "origin": None},
        {"process": "a#1", "step": 3, "kind": "send", "origin": "a#1"},
        {"process": "a#1", "kind": "start"},
        {"step": 3, "kind": "start"},
        b"[1, 2]",
        b"7",
        b'{"process": "\xff", "step": 3, "kind": "start"}',
        deliver("a#1", 6, position=[0, 4], items=["x", "y"], detail={"one": "1"}, colour="red"),
        deliver("a#1", 4, 2, position=9, time=None),  # shuffled, not back
        deliver("a#1", 6, 3),  # back
        deliver("a#1", 1, 4),  # back
        deliver("a#1", 7, 4, position=[1, 2, 3, 4, 5]),
        deliver("a#1", 8, 5, position=[1, "x"]),
        deliver("a#1", 9, 6, size=2**40),
        deliver("a#1", 10, 7, members=["a#1", 5]),
        deliver("a#1", 1, run="other"),
        deliver("a#1", 1, run="other"),  # back
        b"  ",
        deliver("a#1", 11, 8, run=""),
    )
    jsonl(path / "deep" / "er" / "more.jsonl", deliver("a#1", 6, 9), deliver("a#1", 12, 9), deliver("b#1", 3, 3))
    good = [deliver("b#1", step, step, position=(0, step), view_epoch=1, view_proposer="b#1") for step in range(1, 31)]
    bad = [deliver("b#1", 31), {**deliver("b#1", 32), "kind": "x"}, {"process": "b#1", "step": 33, "kind": "deliver"}]
    pq.write_table(table_of_rows([*good, *bad]), path / "deep" / "b.parquet", row_group_size=10)
    foreign = [deliver("c#1", step, step, position=[step], size=10**10 if step == 2 else 10) for step in (1, 2, 3, 3)]
    pq.write_table(pa.Table.from_pylist(foreign), path / "foreign.parquet")
    wide = [deliver("d#1", step, step, size=10**10 if step == 2 else 10, colour="red") for step in (5, 2, 3, 3)]
    pq.write_table(pa.Table.from_pylist(wide), path / "wide.parquet")
    pq.write_table(pa.table({"process": ["e#1"], "kind": ["start"]}), path / "without_step.parquet")
    whole = (path / "wide.parquet").read_bytes()
    (path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (path / "empty.parquet").write_bytes(b"")
    (path / "empty.jsonl").write_bytes(b"")
    (path / ".e.1.parquet.part").write_bytes(b"")
    pq.write_table(table_of_rows([deliver("f#1", step, step) for step in range(1, 31)]), path / "hurt.parquet", row_group_size=10)
    column = pq.read_metadata(path / "hurt.parquet").row_group(1).column(list(parquet_columns()).index("step"))
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray((path / "hurt.parquet").read_bytes())
    data[start : start + 40] = b"\xff" * 40
    (path / "hurt.parquet").write_bytes(data)
    (path / "notes.txt").write_text("not a trace")
    return path


def test_three_readers_agree_on_a_nasty_directory(spark: Any, tmp_path: Path) -> None:
    loaded = same_as_reader(spark, nasty(tmp_path / "t"))
    summary = loaded.summary()
    assert summary["runs"] == ["", "other"]
    assert summary["reasons"] == {
        "broken JSON": 2,
        "missing column": 6,
        "position with more": 1,
        "step goes back": 7,
        "unfinished file": 1,
        "unknown kind": 2,
        "unreadable Parquet file": 2,
        "unreadable rows": 1,
        "wrong type": 10,
    }


def test_strict_is_one_line(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    jsonl(tmp_path / "good" / "a.jsonl", deliver("a#1", 2), deliver("a#1", 1))
    assert read_history(spark, [str(tmp_path / "good")], strict=True).summary()["quarantined"] == 0
    jsonl(tmp_path / "good" / "b.jsonl", deliver("a#1", 2), deliver("a#1", 3))
    with pytest.raises(TraceFormatError, match=r"^1 malformed rows, the first in .*b.jsonl:1: step 2 of a#1 goes back"):
        read_history(spark, [str(tmp_path)], strict=True)
    with pytest.raises(TraceFormatError, match=r"^32 malformed rows, the first in \S+:\d+: "):
        read_history(spark, [str(nasty(tmp_path / "bad"))], strict=True)


def test_types_and_columns(spark: Any, tmp_path: Path) -> None:
    """Exactly the schema's columns, plain texts; a foreign file with only the required columns has nulls in the rest."""
    pq.write_table(pa.Table.from_pylist([deliver("a", 1), deliver("a", 2, 2)]), tmp_path / "t.parquet")
    loaded = read_history(spark, [str(tmp_path)])
    simple = {"bigint": "int64", "int": "int32", "array<string>": "list<string>"}
    assert {name: simple.get(kind, kind) for name, kind in loaded.history.dtypes} == parquet_columns()
    assert [name for name, _ in loaded.history.dtypes] == list(parquet_columns())
    row = loaded.history.orderBy("step").first()
    assert {name for name, value in row.asDict().items() if value is not None} == {*deliver("a", 1)}
    some = read_history(spark, [str(tmp_path)], columns=["number", "time", "kind"]).history
    assert some.columns == ["number", "time", "kind"]
    assert sorted(map(tuple, some.collect())) == [(1, None, "deliver"), (2, None, "deliver")]
    with pytest.raises(ConfigError, match="unknown column 'nummer': did you mean 'number'"):
        read_history(spark, [str(tmp_path)], columns=["nummer"])


def test_simulated_runs_shuffled_over_files(spark: Any, tmp_path: Path) -> None:
    result: Rows = [dict(row) for row in run(CALM).rows]
    rows = [{**row, "run": name} for name in ("one", "two") for row in result[:4_000]]
    random.Random(1).shuffle(rows)
    pq.write_table(table_of_rows(rows[:5_000]), tmp_path / "x.parquet", row_group_size=1_000)
    jsonl(tmp_path / "y.jsonl", *rows[5_000:])
    loaded = same_as_reader(spark, tmp_path)
    assert loaded.summary() == {**loaded.summary(), "rows": 8_000, "runs": ["one", "two"], "quarantined": 0, "files": 2}


def test_many_bad_rows_are_all_counted_and_named(spark: Any, tmp_path: Path) -> None:
    jsonl(tmp_path / "t.jsonl", *({**deliver("a#1", step), "kind": "x" if step % 2 else "deliver"} for step in range(1_000)))
    loaded = read_history(spark, [str(tmp_path)])
    assert loaded.summary()["reasons"] == {"unknown kind": 500}
    assert loaded.quarantine.count() == 500


def test_globs_uris_and_several_paths(spark: Any, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        jsonl(tmp_path / name / "t.jsonl", deliver(f"{name}#1", 1))

    def found(*paths: str) -> list[str]:
        return sorted(row.process for row in read_history(spark, paths, columns=["process"]).history.collect())

    assert found(f"{tmp_path}/[ab]/*.jsonl") == ["a#1", "b#1"]
    assert found(f"file://{tmp_path}/c", f"{tmp_path}/a", f"{tmp_path}/*/t.jsonl") == ["a#1", "b#1", "c#1"]
    assert found(f"{tmp_path}/?") == ["a#1", "b#1", "c#1"]


@pytest.mark.parametrize(("column", "value"), [("step", "1"), ("number", 1.5), ("time", "noon"), ("members", "a,b")])
def test_mixed_schemas_are_refused(spark: Any, tmp_path: Path, column: str, value: Any) -> None:
    pq.write_table(table_of_rows([deliver("a#1", 1)]), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist([{**deliver("b#1", 1), column: value}]), tmp_path / "b.parquet")
    words = f"mixed schemas: column {column} is .* in .*a.parquet, but (string|double) in .*b.parquet"
    for read in (lambda: read_history(spark, [str(tmp_path)]), lambda: read_trace([tmp_path])):
        with pytest.raises(TraceFormatError, match=words):
            read()


def test_forms_of_position_and_widths_of_integers_mix(spark: Any, tmp_path: Path) -> None:
    pq.write_table(table_of_rows([deliver("a#1", 1, position=(1,))]), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist([deliver("b#1", 1, position=[1])]), tmp_path / "b.parquet")
    pq.write_table(pa.Table.from_pylist([deliver("c#1", 1, position=1)]), tmp_path / "c.parquet")
    narrow = pa.table({name: pa.array([value]) for name, value in deliver("d#1", 1).items()})
    narrow = narrow.set_column(1, "step", pa.array([1], pa.uint8()))
    pq.write_table(narrow, tmp_path / "d.parquet")
    assert same_as_reader(spark, tmp_path).summary()["rows"] == 4


@pytest.mark.parametrize("words", ["no trace given", "nothing there ends in", "no such file or directory"])
def test_nothing_to_read_is_one_line(spark: Any, tmp_path: Path, words: str) -> None:
    paths = {"no trace given": [], "nothing there ends in": [str(tmp_path)]}.get(words, [str(tmp_path / "none")])
    with pytest.raises(TraceFormatError, match=re.escape(words)):
        read_history(spark, paths)
