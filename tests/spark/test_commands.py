"""`isotone verify` and `isotone report` on Spark: what they print, their exit statuses, one clear line for bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from isotone.cli.main import main
from isotone.report import Material
from isotone.sim import run
from isotone.trace.columns import table_of_rows

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
ROW = {"process": "a#1", "step": 1, "kind": "deliver", "origin": "a#1", "number": 1}
Captured = pytest.CaptureFixture[str]


def isotone(captured: Captured, *arguments: str | Path) -> tuple[int, str, str]:
    """Run a command in this process, with the session that is there: exit status, standard output, standard error."""
    captured.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, error = captured.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, error


def refused(captured: Captured, *arguments: str | Path) -> str:
    """Run a command that must say one line about its input."""
    status, out, error = isotone(captured, *arguments)
    assert (status, out) == (2, ""), (status, out, error)
    assert len(error.splitlines()) == 1, error
    assert error.startswith("isotone: ")
    return error


def jsonl(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [dict(row) for row in run(SCENARIOS / "crash.toml").rows]


@pytest.fixture(scope="module")
def swapped(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process delivers two messages of different senders in the other order."""
    changed = list(rows)
    mine = [index for index, row in enumerate(rows) if row["process"] == "b#1"]
    for one, two in zip(mine[len(mine) // 2 :], mine[len(mine) // 2 + 1 :], strict=False):
        first, second = rows[one], rows[two]
        if first["kind"] == second["kind"] == "deliver" and first["origin"] != second["origin"]:
            changed[one], changed[two] = {**second, "step": first["step"]}, {**first, "step": second["step"]}
            break
    path = tmp_path_factory.mktemp("swapped")
    pq.write_table(table_of_rows(changed), path / "t.parquet")
    return path


def test_verify_as_json(spark: Any, swapped: Path, capsys: Captured) -> None:
    status, out, error = isotone(capsys, "verify", swapped, "--json", "--checks", "fifo, total_pairwise")
    assert (status, error) == (1, "")
    report = json.loads(out)
    assert (report["verdict"], report["quarantined"], report["events"] > 100) == ("violated", 0, True)
    fifo, total = report["checks"]
    assert fifo == {"name": "fifo", "verdict": "ok", "violations": 0, "witness": None}
    assert (total["name"], total["verdict"], total["violations"]) == ("total_pairwise", "violated", total["violations"])
    witness = total["witness"]
    assert set(witness) == {"text", "processes", "messages", "edges"}
    assert "b#1" in witness["processes"]
    assert len(witness["messages"]) == 2
    assert all(set(edge) == {"from", "to", "process", "why"} for edge in witness["edges"])


def test_verify_for_people(spark: Any, swapped: Path, capsys: Captured) -> None:
    status, out, error = isotone(capsys, "verify", swapped)
    assert (status, error) == (1, "")
    assert "total_global       VIOLATED  " in out
    assert out.splitlines()[-1].startswith("violated: ")


def test_of_two_traces_of_one_run_name_none_hides_the_other(spark: Any, tmp_path: Path, capsys: Captured) -> None:
    jsonl(tmp_path / "one.jsonl", ROW)
    jsonl(tmp_path / "two.jsonl", ROW)
    for more in ([], ["--json"]):
        error = refused(capsys, "verify", tmp_path / "one.jsonl", tmp_path / "two.jsonl", "--checks", "fifo", *more)
        assert error.endswith("two of the traces are of one run name; verify them one at a time\n")
    status, out, _ = isotone(capsys, "verify", tmp_path, "--checks", "fifo")
    assert status == 0
    assert out.splitlines()[-1].endswith("verify them one at a time")


def test_verify_says_unknown_without_the_columns(spark: Any, tmp_path: Path, capsys: Captured) -> None:
    jsonl(tmp_path / "foreign.jsonl", ROW)
    status, out, _ = isotone(capsys, "verify", tmp_path, "--checks", "position")
    assert status == 3
    assert "position  unknown" in out


def test_malformed_rows_are_counted_and_strict_refuses_them(spark: Any, tmp_path: Path, capsys: Captured) -> None:
    jsonl(tmp_path / "a.jsonl", ROW, *(["{\n"] * 7))
    status, out, _ = isotone(capsys, "verify", tmp_path, "--checks", "fifo")
    assert status == 0
    assert "ok: 1 checks over 1 events, 7 quarantined" in out
    assert f"  quarantined {tmp_path / 'a.jsonl'}:2: broken JSON" in out
    assert out.splitlines()[-1] == "  … and 2 more"
    error = refused(capsys, "verify", tmp_path, "--checks", "fifo", "--strict")
    assert error.startswith("isotone: 7 malformed rows, the first in ")


@pytest.mark.parametrize("command", ["verify", "report"])
def test_empty_files_and_files_without_a_usable_row(spark: Any, tmp_path: Path, capsys: Captured, command: str) -> None:
    out = ["--out", tmp_path / "r.html"] if command == "report" else []
    jsonl(tmp_path / "empty" / "a.jsonl")
    pq.write_table(table_of_rows([]), tmp_path / "empty" / "b.parquet")
    assert f"no events in {tmp_path / 'empty'}: the files are empty" in refused(capsys, command, tmp_path / "empty", *out)
    jsonl(tmp_path / "bad" / "a.jsonl", "{\n", {"step": 1})
    error = refused(capsys, command, tmp_path / "bad", *out)
    assert "no usable row in " in error
    assert "2 quarantined, the first " in error
    (tmp_path / "bad" / "a.jsonl").unlink()
    (tmp_path / "bad" / "cut.parquet").write_bytes(b"PAR1")
    assert "unreadable Parquet file" in refused(capsys, command, tmp_path / "bad", *out)
    assert not (tmp_path / "r.html").exists()


def test_mixed_schemas_are_one_line(spark: Any, tmp_path: Path, capsys: Captured) -> None:
    pq.write_table(table_of_rows([ROW]), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist([{**ROW, "step": "1"}]), tmp_path / "b.parquet")
    assert "mixed schemas: column step is int64 in " in refused(capsys, "verify", tmp_path)


def test_what_cannot_be_read_is_one_line(spark: Any, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert str(loop) in refused(capsys, "verify", loop)
    jsonl(tmp_path / "t" / "a.jsonl", ROW)

    class Forbidding:  # the tests may run as root, whom permissions do not stop
        def get_file_info(self, _: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("isotone.pipeline.plan.filesystem", lambda path: (Forbidding(), path))
    assert "Permission denied" in refused(capsys, "verify", tmp_path / "t")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('by = "item', "conflict file "),
        ('by = "itm"', "did you mean 'item'?"),
        ('by = "operation"\n[operations]\nput = ["gett"]\nget = []', "did you mean 'get'?"),
    ],
)
def test_a_bad_conflict_file_is_one_line(spark: Any, tmp_path: Path, capsys: Captured, text: str, words: str) -> None:
    file = jsonl(tmp_path / "c.toml", text)
    jsonl(tmp_path / "t" / "a.jsonl", ROW)
    assert words in refused(capsys, "verify", tmp_path / "t", "--conflicts", file)


def test_types_of_the_trace_that_the_conflict_file_does_not_know(spark: Any, tmp_path: Path, capsys: Captured) -> None:
    file = jsonl(tmp_path / "c.toml", 'by = "operation"\n[operations]\nput = ["put"]\n')
    sent = {**ROW, "kind": "send", "type": "putt"}
    jsonl(tmp_path / "t" / "a.jsonl", sent, {**ROW, "step": 2, "type": "putt"}, {**sent, "step": 3, "number": 2})
    error = refused(capsys, "verify", tmp_path / "t", "--conflicts", file, "--checks", "semantic_total")
    assert "not one for this trace: unknown message type 'putt': did you mean 'put'?" in error


def test_a_full_disk_is_one_line(spark: Any, swapped: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    monkeypatch.setattr("isotone.report.gather", lambda *_: Material({"runs": [], "kinds": {}, "reasons": {}}))
    assert "cannot write the report: No space left on device" in refused(capsys, "report", swapped, "--out", "/dev/full")
    assert not Path("/dev/full").is_file()


def test_report_writes_the_file(spark: Any, swapped: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "deep" / "r.html"
    status, told, error = isotone(capsys, "report", swapped, "--out", out, "--range", "0:0.5", "--around", "a#1:30")
    assert (status, error) == (1, "")
    assert told.startswith("violated: ")
    assert told.rstrip().endswith(f"report written to {out}")
    page = out.read_text(encoding="utf-8")
    for words in ("The chosen range", "The chosen step", "Views over time", "total_pairwise"):
        assert words in page
    assert [file.name for file in out.parent.iterdir()] == ["r.html"]
    missing = refused(capsys, "report", swapped, "--out", out, "--around", "a#1:999999")
    assert "--around a#1:999999: the trace has no such process" in missing
