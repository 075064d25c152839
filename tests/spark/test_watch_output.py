"""What `isotone watch` prints: lines, JSON objects, a table; and its exit status."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.cli import main
from isotone.cli.watch_output import Screen
from isotone.pipeline.stream.judge import Limits, standings, summary
from tests.spark.watching import Rows, cut, watch

BAD: Rows = [
    {"process": p, "step": s, "kind": "deliver", "origin": "z", "number": n, "time": s, "run": "r"}
    for p, order in (("a", (1, 2)), ("b", (2, 1)))
    for s, n in enumerate(order, start=1)
]


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["watch", *arguments])
    return int(ended.value.code or 0)


def test_lines_and_json(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, BAD)))
    assert status(str(tmp_path), "--once") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"watching {tmp_path}"
    assert "VIOLATED run r: fifo: b delivers z:2 before z:1 (b step 2 in x.jsonl)" in lines
    assert lines[-1].startswith("violated: 4 events, run r: 2 processes")
    assert status(str(tmp_path), "--once", "--json") == 1  # nothing new, and nothing forgotten
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in told] == ["begin", "end"]
    assert told[0]["resumed"]["events"] == told[1]["events"] == 4
    assert {check["name"]: check["verdict"] for check in told[1]["checks"]}["fifo"] == "violated"


def test_an_empty_directory_is_unknown(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(str(tmp_path), "--until-idle", "0.2") == 3
    assert capsys.readouterr().out.splitlines()[-1] == "unknown: 0 events, 0 held, 0 quarantined"


def test_the_table(tmp_path: Path) -> None:
    from rich.console import Console

    names = cut(tmp_path, BAD, random.Random(1), pieces=0)
    state = watch(tmp_path, [names], Limits())
    screen = Screen()
    screen.begin(str(tmp_path), None)
    screen.summary(summary(state))
    for standing in standings(state):
        screen.change(standing)
    console = Console(file=io.StringIO(), width=150)
    console.print(screen._table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "fifo" in text
    assert "VIOLATED" in text
    assert "run r: a" in text
    assert "violated: 4 events" in text
