"""The loader of the scan against `read_trace`, on files with and without what its shortcuts rely on; and the key columns."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotone.pipeline import plan as planning
from isotone.pipeline.kernels import rows as slow
from isotone.pipeline.kernels.chunk import summarise
from isotone.pipeline.kernels.keys import Keys, Salt, digest_hashes
from isotone.pipeline.kernels.load import FAST, INTEGERS, NOTHING, TEXTS, Columns, Rejects, is_constant, load
from isotone.pipeline.plan import make_plan
from isotone.trace.columns import table_of_rows
from isotone.trace.reader import read_trace
from isotone.trace.schema import POSITION_COLUMNS

Rows = list[dict[str, Any]]
LONG = "x" * 60


def some_rows(chance: random.Random, count: int = 60) -> Rows:
    """Rows of one process with columns that are constant, varying, null, or all of that in stretches."""
    name = chance.choice(["a#1", LONG])
    rows: Rows = []
    epoch = 1
    for step in range(1, count + 1):
        kind = chance.choice(["deliver", "deliver", "send", "view", "packet"])
        row: dict[str, Any] = {"process": name, "step": step, "kind": kind}
        epoch += chance.random() < 0.03
        if chance.random() < 0.9 or step > count // 2:
            row |= {"view_epoch": epoch, "view_proposer": chance.choice(["a#1", LONG]) if epoch > 2 else "a#1"}
        if kind in ("deliver", "send"):
            row |= {"origin": chance.choice(["a#1", "b#1"]), "number": step, "digest": 7 if step < 30 else step}
        if kind == "deliver" and step > 10:
            row |= {"position": [0, step] if step < 40 else [step], "protocol": "sequencer"}
        rows.append(row)
    return rows


def found(columns: Columns) -> Rows:
    """The rows that the arrays hold."""
    rows: Rows = []
    for at in range(len(columns)):
        row: dict[str, Any] = {}
        for name in TEXTS:
            if columns.codes[name][at] >= 0:
                row[name] = columns.words[name][columns.codes[name][at]]
        for name in INTEGERS:
            if columns.ints[name][at] != NOTHING:
                row[name] = int(columns.ints[name][at])
        rows.append(row)
    return rows


def tabled(columns: Columns) -> Rows:
    """The rows that the table behind the arrays holds."""
    kept = [{name: value for name, value in row.items() if name in FAST} for row in columns.table.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in kept]


def flat(row: Any) -> dict[str, Any]:
    position = dict(zip(POSITION_COLUMNS, row.get("position", ()), strict=False))
    return {name: value for name, value in {**row, **position}.items() if name in FAST}


def agrees(path: Path) -> list[Columns]:
    expected = read_trace([path])
    rejects = Rejects()
    loaded = [load([source], rejects) for source in make_plan([str(path)]).sources]
    rows = [row for columns in loaded for row in found(columns)]
    by_step = sorted(rows, key=lambda row: (row["process"], row["step"]))
    assert by_step == [flat(row) for row in expected.rows]
    assert [row for columns in loaded for row in tabled(columns)] == rows
    assert [(bad.line, bad.reason) for bad in rejects.named] == [(bad.line, bad.reason) for bad in expected.quarantined]
    return loaded


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("statistics", [True, False, ["process", "kind", "position_0"]], ids=["all", "none", "some"])
def test_parquet_with_and_without_statistics(tmp_path: Path, seed: int, statistics: Any) -> None:
    chance = random.Random(seed)
    table = table_of_rows(some_rows(chance))  # type: ignore[arg-type]
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=chance.choice([1, 7, 30, 100]), write_statistics=statistics)
    agrees(tmp_path / "x.parquet")


def test_what_the_footer_tells_is_not_read(tmp_path: Path) -> None:
    rows = [{"process": "a#1", "step": step, "kind": "deliver", "origin": "b#1", "number": step} for step in range(1, 50)]
    named = [{**row, "view_proposer": LONG, "view_epoch": 3} for row in rows]
    pq.write_table(table_of_rows(named), tmp_path / "x.parquet", row_group_size=10)  # type: ignore[arg-type]
    [columns] = agrees(tmp_path / "x.parquet")
    assert all(is_constant(columns.codes[name]) for name in ("run", "process", "kind", "origin", "protocol"))
    assert all(is_constant(columns.ints[name]) for name in ("view_epoch", "digest", *POSITION_COLUMNS))
    assert not is_constant(columns.codes["view_proposer"])  # statistics of long texts may be cut
    assert columns.take(np.array([3, 1])).table.column("process").to_pylist() == ["a#1", "a#1"]
    assert found(columns.slice(2, 5)) == tabled(columns.slice(2, 5)) == found(columns)[2:5]


def test_constant_in_one_source_and_not_in_another(tmp_path: Path) -> None:
    """Sources that are loaded together agree on codes."""
    rows = [
        {"process": name, "step": step, "kind": "deliver", "origin": "z", "number": step, "view_epoch": epoch}
        for step, (name, epoch) in enumerate([("a", 1), ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 2)])
    ]
    pq.write_table(table_of_rows(rows), tmp_path / "x.parquet", row_group_size=2)  # type: ignore[arg-type]
    sources = make_plan([str(tmp_path)], rows_per_source=2).sources
    assert len(sources) == 3
    assert found(load(sources, Rejects())) == [flat(row) for row in rows]


TEXT_TYPES = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
PLACE_TYPES = [pa.int64(), pa.int32(), pa.list_(pa.int64()), pa.list_(pa.int32()), pa.large_list(pa.int64())]


@pytest.mark.parametrize("text", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("place", PLACE_TYPES, ids=str)
def test_types_of_other_people(tmp_path: Path, text: Any, place: Any) -> None:
    listed = "list" in str(place)
    positions: list[Any] = [[1], [1, 2], [], None, [1, 2, 3, 4], [5]] if listed else [1, 2, None, 3, 4, 5]
    columns = {
        "process": pa.array(["a"] * 6, pa.string()).cast(text),
        "step": pa.array(range(6), pa.int32()),
        "kind": pa.array(["deliver"] * 6, pa.string()).cast(text),
        "origin": pa.array(["z", "y", "z", "y", "z", "z"], pa.string()).cast(text),
        "number": pa.array(range(6), pa.int16()),
        "position": pa.array(positions, place),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=4)
    agrees(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "positions",
    [
        {"position": [[1, 2, 3, 4, 5], [1]]},
        {"position": [[1, None], [1]]},
        {"position": [[1], None], "position_0": [9, 8]},
        {"position_0": [None, 3], "position_1": [5, None]},
        {"position_0": [1, None], "position_1": [2, 5], "position_2": [None, None]},
        {"position_1": [2, 5]},
        {"position": [1.5, 2.5]},
    ],
    ids=str,
)
def test_odd_positions(tmp_path: Path, positions: dict[str, Any]) -> None:
    columns = {"process": ["a", "a"], "step": [1, 2], "kind": ["deliver", "deliver"], "origin": ["z", "z"], "number": [1, 2]}
    pq.write_table(pa.table({**columns, **positions}), tmp_path / "x.parquet")
    agrees(tmp_path / "x.parquet")


def test_bad_rows_are_named(tmp_path: Path) -> None:
    rows = [
        {"process": "a", "step": 1, "kind": "deliver", "origin": "z", "number": 1},
        {"process": "a", "step": 2, "kind": "deliver", "origin": None, "number": 2},
        {"process": "a", "step": 3, "kind": "nonsense", "origin": "z", "number": 3},
        {"process": None, "step": 4, "kind": "deliver", "origin": "z", "number": 4},
        {"process": "a", "step": 5, "kind": "stop", "origin": None, "number": None},
        {"process": "a", "step": 6, "kind": "send", "origin": "z", "number": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=2)
    agrees(tmp_path / "x.parquet")


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    for count in (3, 5):
        rows = [{"process": "a", "step": step, "kind": "start"} for step in range(count)]
        pq.write_table(table_of_rows(rows), tmp_path / "x.parquet")  # type: ignore[arg-type]
        [columns] = agrees(tmp_path / "x.parquet")
        assert len(columns) == count


LINES = [
    '{"process": "a#1", "step": %d, "kind": "deliver", "origin": "b#1", "number": 7, "position": [0, 4]}',
    '{"process":"a#1","step":%d,"kind":"deliver","origin":"b#1","number":7,"position_0":1,"position_2":3,"unknown":[{}]}',
    '{"process": "a#1", "step": %d, "kind": "send", "origin": "a#1", "number": 1, "digest": null, "position": 5}',
    '  {"process": "a#1", "step": %d, "kind": "stop"}\t',
    '{"process": "a#1", "step": %d, "kind": "stop", "detail": {"text": "}\\n{"}}\r',
    '{"process": "a#1", "step": %d, "kind": "stop"} {"process": "a#1", "step": 1, "kind": "stop"}',
    '{"process": "a#1", "step": %d, "kind": "view", "time": "noon"}',
    '{"process": "a#1", "step": %d, "kind": "view", "k": 3000000000}',
    '{"process": "a#1", "step": %d, "kind": "deliver", "origin": "b#1"}',
    '{"process": "a#1", "step": %d, "kind": "what"}',
    '{"process": "a#1", "step": %d, "kind": "stop", "position": [1, 2, 3, 4, 5]}',
    '{"process": "a#1", "step": %d, "detail":\n{"a": "b"}, "kind": "stop"}',
    '["process", %d]',
    '{"process": "a#1", "step": %d',
    "",
    "   ",
    "null",
]


@pytest.mark.parametrize("seed", range(40))
def test_json_lines_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever the lines and wherever they are cut, rows, reasons and line numbers are the reader's."""
    chance = random.Random(seed)
    monkeypatch.setattr(planning, "BYTES_PER_SOURCE", chance.choice([10, 97, 400, 1 << 20]))
    monkeypatch.setattr(slow, "BYTES_AT_ONCE", chance.choice([10, 300, 1 << 20]))
    usual = LINES[:2] if seed % 3 == 0 else LINES
    lines = [chance.choice(usual) for _ in range(chance.randint(1, 30))]
    text = "\n".join(line % step if "%d" in line else line for step, line in enumerate(lines)).encode()
    if seed % 5 == 4:
        text = text.replace(b"b#1", b"\xff\xfe", 1)
    (tmp_path / "x.jsonl").write_bytes(text + chance.choice([b"", b"\n", b"\n\n"]))
    agrees(tmp_path / "x.jsonl")


def test_numbered_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a row is its line in the file, however the file is cut."""
    monkeypatch.setattr(planning, "BYTES_PER_SOURCE", 97)
    line = '{"process": "a", "kind": "start", "step": '
    text = "".join(f"{line}{step}}}\n" + "\n" * (step % 3) for step in range(30))
    (tmp_path / "x.jsonl").write_text(text)
    sources = make_plan([str(tmp_path)]).sources
    assert len(sources) > 9
    lines = [line for source in sources for line in load([source], Rejects(), numbered=True).table.column("line").to_pylist()]
    assert lines == [place for place, line in enumerate(text.split("\n"), start=1) if line]


def test_an_empty_json_lines_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"")
    assert [len(load([source], Rejects())) for source in make_plan([str(tmp_path)]).sources] == [0]


def keys_of(rows: Rows) -> Keys:
    for step, row in enumerate(rows):
        row |= {"process": "a", "step": step, "kind": "deliver", "origin": "z", "number": step}
    table = table_of_rows(rows)  # type: ignore[arg-type]
    return Keys(load_table(table))


def load_table(table: Any) -> Columns:
    from isotone.pipeline.kernels.load import _Part

    return _Part(table).columns()


@pytest.mark.parametrize("seed", range(200))
def test_keys_compare_as_tuples(seed: int) -> None:
    chance = random.Random(seed)
    width, spread = chance.randint(1, 4), chance.choice([1, 2, 40])
    given = []
    for _ in range(chance.randint(1, 6)):
        view = (
            (-1, "") if chance.random() < 0.1 else (chance.randint(0, spread), chance.choice(["b", "a"][: chance.randint(1, 2)]))
        )
        position = tuple(chance.randint(-spread, spread) for _ in range(chance.randint(0, width)))
        given.append((*view, position))
    if chance.random() < 0.7:
        given.sort()
    rows: Rows = [
        {"position": place} if epoch < 0 else {"view_epoch": epoch, "view_proposer": name, "position": place}
        for epoch, name, place in given
    ]
    keys = keys_of(rows)
    assert [keys.at(row) for row in range(len(rows))] == given
    assert keys.increasing() == all(one < two for one, two in pairwise(given))
    places = {key: rank for rank, key in enumerate(sorted(set(given)))}
    assert keys.ranks().tolist() == [places[key] for key in given]
    assert keys.present.tolist() == [bool(key[2]) for key in given]
    low, high = sorted(chance.choices(given, k=2))
    assert keys.between(low, high).tolist() == [low <= key <= high for key in given]


def test_hashes_depend_on_values_only() -> None:
    """A column that happens to be constant, or longer than what is worked on at once, hashes as any other."""
    salt = Salt(b"s" * 32)
    number = np.arange(40_000)
    rows: Rows = [{"view_epoch": 1, "view_proposer": "b" if step else "a", "position": (0, step)} for step in range(3)]
    some, one = keys_of(rows), keys_of(rows[1:2])
    assert some.hashes(number[:3], salt)[1] == one.hashes(number[1:2], salt)[0]
    assert len(set(some.hashes(number[:3], salt).tolist())) == 3
    digest = number * 3
    whole = digest_hashes(number, digest, salt)
    assert whole[39_999] == digest_hashes(number[39_999:], digest[39_999:], salt)[0]
    same = np.broadcast_to(np.array([9]), 40_000)
    assert (digest_hashes(number, same, salt) == digest_hashes(number, same.copy(), salt)).all()


@pytest.mark.parametrize("seed", range(60))
def test_own_messages_and_their_sends(seed: int) -> None:
    """What a piece says about own messages, with and without gaps in the numbers, against a plain loop."""
    chance = random.Random(seed)
    gaps = chance.random() < 0.5
    rows: Rows = []
    last, newest, needs, early = 0, None, None, False
    for step in range(chance.randint(2, 30)):
        row: dict[str, Any] = {"process": "a", "step": step, "origin": "a"}
        if chance.random() < 0.5:
            last += chance.randint(1, 3) if gaps else 1
            newest = last
            rows.append({**row, "kind": "send", "number": last})
        else:
            wanted = max(1, last + chance.choice([-3, -2, -1, 0, 0, 0, chance.randint(0, 2)]))
            rows.append({**row, "kind": "deliver", "number": wanted})
            if newest is None:
                needs = wanted if needs is None else max(needs, wanted)
            else:
                early |= wanted > newest
    [piece] = summarise(load_table(table_of_rows(rows)), 0, 2, Salt(b"s" * 32))  # type: ignore[arg-type]
    assert (piece.own_needs, piece.own_before_send) == (needs, early)
    delivered = [row["number"] for row in rows if row["kind"] == "deliver"]
    if delivered:
        assert (piece.delivered["a"].low, piece.delivered["a"].high) == (min(delivered), max(delivered))
        back = any(two <= one for one, two in pairwise(delivered))
        assert bool(piece.delivered["a"].intervals) == back
        assert sum(block.size for block in piece.blocks) == len(delivered)
