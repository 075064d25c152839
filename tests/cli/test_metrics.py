"""`isotone metrics`: what a user sees, as tables and as JSON, and one clear line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.cli.metrics import show
from tests.cli.test_cli import isotone

SCENARIO = """
members = ["a", "b", "c"]
duration_ms = 2_000
order = "fifo"
[network]
latency = { kind = "constant", ms = 2.0 }
[[workload]]
interval_ms = 20
start_ms = 500
stop_ms = 1_500
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a short run with a constant delay, and one broken line."""
    place = tmp_path_factory.mktemp("metrics")
    (place / "steady.toml").write_text(SCENARIO)
    done = isotone("simulate", place / "steady.toml", "--out", place / "run", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    with sorted((place / "run").iterdir())[0].open("a") as file:
        file.write('{"process": 3}\n')
    return place / "run"


@pytest.fixture(scope="module")
def found(trace: Path) -> dict[str, Any]:
    """What the command says, as JSON."""
    done = isotone("metrics", trace, "--json", "--bucket-ms", "50", "--master", "local[2]", timeout=400)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def test_json_is_one_object(found: dict[str, Any]) -> None:
    run = found["runs"][0]
    assert (found["quarantined"], found["runs_total"], run["run"], run["bucket_ns"]) == (1, 1, "steady", 50_000_000)
    assert found["events"] == run["summary"]["rows"]
    assert run["summary"]["remote_latency_p99_ns"] == 2_000_000
    assert {entry["latency_max_ns"] for entry in run["latency_over_time"]} == {2_000_000}


def test_tables_for_people(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    show(found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run steady: 3 processes, ")
    assert any(line.split()[:3] == ["at", "other", "processes"] and line.split()[-2:] == ["2", "ms"] for line in lines)
    assert any("the trace lacks: receive" in line for line in lines)
    assert any(line.strip().startswith("heartbeat") for line in lines)
    assert lines[-1].startswith("1 runs, ")
    assert lines[-1].endswith(", 1 quarantined")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["no/such/trace"], "no/such/trace"),
        (["--bucket-ms", "0", "."], "--bucket-ms 0.0: it must be positive"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = isotone("metrics", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert line in done.stderr
