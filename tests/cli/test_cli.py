"""The command line: exit statuses, one clear line for every mistake, and what a user sees."""

from __future__ import annotations

import os
import pty
import re
import socket
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


def test_verify_says_ok(trace: Path) -> None:
    """The one test here that starts Spark; tests/spark/test_commands.py has the rest."""
    done = isotone("verify", trace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1].startswith("ok: ")
    assert done.stderr == ""  # in a pipe no progress is shown


def test_progress_is_shown_on_a_terminal_only() -> None:
    code = (
        "import os, time\nfrom isotone.cli.progress import spark_progress\nwith spark_progress('verifying'):\n"
        "    log = os.open(os.devnull, os.O_WRONLY)\n    os.dup2(log, 2)\n    time.sleep(0.6)\n"  # as while Spark starts
    )
    terminal, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=theirs, timeout=60, check=False, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    shown = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert shown.count("verifying: Spark starts") > 1
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def fake_java(path: Path, version: str) -> Path:
    """A JAVA_HOME whose Java only tells a version."""
    program = path / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return path


@pytest.mark.parametrize("command", [["verify"], ["report", "--out", "r.html"]])
@pytest.mark.parametrize("java", ["none", "old", "broken"])
def test_without_a_fitting_java_there_is_one_clear_line(trace: Path, tmp_path: Path, command: list[str], java: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    environment["PATH"] = str(tmp_path)
    if java == "old":
        environment["JAVA_HOME"] = str(fake_java(tmp_path / "old", "11.0.22"))
    elif java == "broken":
        (fake_java(tmp_path / "broken", "17") / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
        environment["PATH"] = f"{tmp_path / 'broken' / 'bin'}"
    line = [sys.executable, "-m", "isotone", command[0], str(trace), *command[1:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    expected = {"none": "no Java found", "old": "is Java 11", "broken": "does not tell its version"}[java]
    assert re.fullmatch(rf"isotone: .*{expected}.*Spark needs Java 17 or newer\n", done.stderr), done.stderr
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "sparkk://here", "spark://127.0.0.1:port"])
def test_a_master_that_cannot_be_reached_is_one_clear_line(trace: Path, master: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = isotone("verify", trace, "--master", master.format(port=port))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("isotone: ")
    assert master.partition("{")[0] in done.stderr


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
        (["verify", ".", "--conflicts", "none.toml"], "cannot read the conflict file none.toml"),
        (["verify", "."], "no trace in .: nothing there ends in .parquet or .jsonl"),
        (["verify", "*.parquet"], "no trace in *.parquet"),
        (["report", ".", "--around", "a#1"], "give PROCESS:STEP"),
        (["report", ".", "--range", "2:1"], "the end must be later"),
        (["report", ".", "--out", "/proc/nowhere/r.html"], "cannot write the report /proc/nowhere/r.html"),
        (["report", ".", "--out", "."], "it is a directory"),
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
