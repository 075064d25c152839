"""The command line: exit statuses, one clear line for every mistake, and what a user sees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def isotone(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "isotone", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a simulated run."""
    out = tmp_path_factory.mktemp("trace") / "run"
    done = isotone("simulate", SCENARIOS / "crash.toml", "--out", out, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    return out


def damaged(trace: Path, to: Path) -> Path:
    """A copy in which one process delivers two messages of different senders in the other order."""
    to.mkdir()
    for file in sorted(trace.iterdir()):
        lines = file.read_text().splitlines()
        if file.name.startswith("b."):
            rows = [json.loads(line) for line in lines]
            at = next(
                i
                for i in range(len(rows) // 2, len(rows) - 1)
                if rows[i]["kind"] == rows[i + 1]["kind"] == "deliver" and rows[i]["origin"] != rows[i + 1]["origin"]
            )
            for key in ("origin", "number", "position", "digest", "size"):
                rows[at][key], rows[at + 1][key] = rows[at + 1][key], rows[at][key]
            lines = [json.dumps(row) for row in rows]
        (to / file.name).write_text("\n".join(lines) + "\n")
    return to


def test_verify_says_ok(trace: Path) -> None:
    done = isotone("verify", trace)
    assert done.returncode == 0
    assert done.stdout.strip().splitlines()[-1].startswith("ok: ")


def test_verify_json_has_the_documented_form(trace: Path) -> None:
    done = isotone("verify", trace, "--json", "--checks", "fifo,total_global")
    report = json.loads(done.stdout)
    assert report["verdict"] == "ok"
    assert report["quarantined"] == 0
    assert report["events"] > 0
    assert [(check["name"], check["verdict"], check["violations"]) for check in report["checks"]] == [
        ("fifo", "ok", 0),
        ("total_global", "ok", 0),
    ]


def test_verify_finds_a_swap_and_names_it(trace: Path, tmp_path: Path) -> None:
    done = isotone("verify", damaged(trace, tmp_path / "bad"))
    assert done.returncode == 1
    assert "total_pairwise" in done.stdout
    assert "VIOLATED" in done.stdout


def test_verify_says_unknown_without_the_columns(tmp_path: Path) -> None:
    row = {"process": "a#1", "step": 1, "kind": "deliver", "origin": "a#1", "number": 1}
    (tmp_path / "foreign.jsonl").write_text(json.dumps(row) + "\n")
    done = isotone("verify", tmp_path, "--checks", "position")
    assert done.returncode == 3
    assert "position" in done.stdout


def test_malformed_rows_are_counted_and_strict_refuses_them(trace: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    for file in trace.iterdir():
        (bad / file.name).write_text(file.read_text())
    (bad / "broken.jsonl").write_text('{"process": "z#1", "step"\n')
    done = isotone("verify", bad)
    assert "1 rows quarantined" in done.stdout
    assert "broken.jsonl:1" in done.stdout
    done = isotone("verify", bad, "--strict")
    assert done.returncode == 2
    assert done.stderr.startswith("isotone: 1 malformed rows")


def test_the_same_seed_gives_the_same_digest() -> None:
    digests = set()
    for _ in range(2):
        done = isotone("simulate", SCENARIOS / "calm.toml", "--seed", "7")
        assert done.returncode == 0, done.stdout + done.stderr
        digests.add(next(line for line in done.stdout.splitlines() if "digest" in line))
    other = isotone("simulate", SCENARIOS / "calm.toml", "--seed", "8")
    assert len(digests) == 1
    assert digests.isdisjoint(other.stdout.splitlines())


def test_the_anomaly_is_flagged_with_the_classical_fallback_only() -> None:
    classical = isotone("simulate", SCENARIOS / "anomaly.toml", "--set", "options.fallback=classical")
    returned = isotone("simulate", SCENARIOS / "anomaly.toml", "--set", "options.fallback=returned")
    single = isotone("simulate", SCENARIOS / "anomaly.toml", "--order", "single_phase")
    assert classical.returncode == 1, classical.stdout
    assert "total_pairwise" in classical.stdout
    assert returned.returncode == 0, returned.stdout
    assert single.returncode == 0, single.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["simulate", SCENARIOS / "calm.toml", "--order", "single_fase"], "did you mean 'single_phase'?"),
        (["simulate", SCENARIOS / "calm.toml", "--set", "durration_ms=5"], "did you mean 'duration_ms'?"),
        (["simulate", SCENARIOS / "calm.toml", "--set", "nonsense"], "write key=value"),
        (["simulate", SCENARIOS / "calm.toml", "--set", "duration_ms=nan"], "finite"),
        (["demo", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["simulate", "nowhere.toml"], "nowhere.toml"),
        (["simulate", SCENARIOS / "calm.toml", "--format", "csv"], "unknown format 'csv'"),
        (["verify", "nowhere"], "nowhere"),
        (["verify", ".", "--checks", "fifoo"], "did you mean 'fifo'?"),
        (["verify", ".", "--frobnicate"], "No such option: --frobnicate"),
        (["verfy", "."], "Did you mean 'verify'?"),
        (["node", "--name", "a b"], "process name 'a b'"),
        (["node", "--name", "a", "--order", "totall"], "unknown order 'totall'"),
        (["node", "--name", "a", "--level", "safest"], "did you mean 'safe'?"),
        (["node", "--name", "a", "--listen", "nonsense"], "nonsense"),
        (["bench", "--order", "fast"], "unknown order 'fast'"),
        (["bench", "--members", "1"], "2 to 64"),
        (["demo", "--order", "fast"], "unknown order 'fast'"),
    ],
)
def test_mistakes_are_one_clear_line(arguments: list[str | Path], expected: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "isotone", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trace_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    done = isotone("simulate", SCENARIOS / "calm.toml", "--out", tmp_path)
    assert done.returncode == 2
    assert "not empty" in done.stderr
