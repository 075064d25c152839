"""Offsets of the watch: what is new in a directory, and how that is written down."""

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from isotone.pipeline.stream import numbers
from isotone.pipeline.stream.condense import Chunk, Quarantine, read_piece
from isotone.pipeline.stream.files import Piece, advance, between, listing, nothing_read
from isotone.pipeline.stream.numbers import Numbers

LINE = b'{"process": "a#1", "step": %d, "kind": "start"}\n'


def test_numbers_are_a_set() -> None:
    chance = random.Random(5)
    for _ in range(200):
        known, plain = Numbers(), set[int]()
        for _ in range(chance.randint(1, 60)):
            number = chance.randint(0, 40)
            assert known.has(number) == (number in plain)
            if number not in plain:
                known.add(number, number)
                plain.add(number)
        assert known.last == max(plain)
        assert all(high + 1 < low for high, low in zip(known.highs, known.lows[1:], strict=False))


def test_too_many_gaps_leave_doubt_not_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "INTERVALS_MAX", 3)
    known = Numbers()
    for number in range(0, 20, 2):
        known.add(number, number)
    assert len(known.lows) == 3
    assert (known.has(2), known.has(3)) == (None, None)
    assert (known.has(16), known.has(17), known.has(18)) == (True, False, True)


def test_parquet_names_are_kept_as_ranges(tmp_path: Path) -> None:
    names = ["a.1.parquet", *(f"a.1-{number:04d}.parquet" for number in (1, 2, 3, 7)), "part-00010.parquet", "sub/b-0000.parquet"]
    (tmp_path / "sub").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    for hidden in (".a.1-0004.parquet.part", "_x.parquet", ".watch/0.parquet", "notes.txt"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_bytes(b"x")
    end = advance(str(tmp_path), nothing_read(), listing(str(tmp_path)), None, last=False)
    assert end["parquet"] == {"a.1": "0-3,7", "part-00010": "0", "sub/b-0000": "0"}
    assert sorted(piece.name for piece in between(nothing_read(), end)) == sorted(names)
    (tmp_path / "a.1-0008.parquet").write_bytes(b"x")
    later = advance(str(tmp_path), end, listing(str(tmp_path)), None, last=False)
    assert [piece.name for piece in between(end, later)] == ["a.1-0008.parquet"]
    assert advance(str(tmp_path), later, listing(str(tmp_path)), None, last=False) == later


def test_lines_are_followed_as_a_file_grows(tmp_path: Path) -> None:
    directory, file = str(tmp_path), tmp_path / "a.jsonl"
    file.write_bytes(LINE % 1 + LINE % 2 + b'{"process": "a#1", "st')
    first = advance(directory, nothing_read(), listing(directory), None, last=False)
    assert list(between(nothing_read(), first)) == [Piece("a.jsonl", 0, 2 * len(LINE % 1))]
    with file.open("ab") as more:
        more.write(b'ep": 3, "kind": "start"}\nnonsense\n' + (LINE % 4).rstrip())
    second = advance(directory, first, listing(directory), None, last=False)
    (piece,) = between(first, second)
    chunk, bad = read_piece(directory, piece)
    assert isinstance(chunk, Chunk)
    assert chunk.steps.tolist() == [3]
    assert isinstance(bad, Quarantine)
    assert bad.count == 1
    assert bad.reasons[0].startswith("line 4: broken JSON")
    last = advance(directory, second, listing(directory), None, last=True)
    (rest,) = between(second, last)
    assert [chunk.steps.tolist() for chunk in read_piece(directory, rest) if isinstance(chunk, Chunk)] == [[4]]


def test_a_batch_takes_only_so_much(tmp_path: Path) -> None:
    directory = str(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINE % step for step in range(1, 1_001)))
    offset, taken, batches = nothing_read(), [], 0
    while True:
        end = advance(directory, offset, listing(directory), 5_000, last=False)
        if end == offset:
            break
        for piece in between(offset, end):
            assert piece.end - piece.start < 5_000 + 2 * len(LINE)
            for chunk in read_piece(directory, piece):
                assert isinstance(chunk, Chunk)
                taken.extend(chunk.steps.tolist())
        offset, batches = end, batches + 1
    assert taken == list(range(1, 1_001))
    assert batches > 5


def test_unreadable_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    found = [*read_piece(str(tmp_path), Piece("cut.parquet", 0, 0)), *read_piece(str(tmp_path), Piece("gone.parquet", 0, 0))]
    assert all(isinstance(item, Quarantine) and item.count == 1 for item in found)
    assert len(found) == 2
