"""The session: Java is looked for, masters are tried, errors are one line."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import ConfigError
from isotone.pipeline.session import find_java, open_session, spark_errors


def fake_java(path: Path, version: str) -> Path:
    program = path / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return path


def test_java_is_found_or_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "new", "21.0.2")
    assert find_java({"JAVA_HOME": str(home)}) == (str(home / "bin" / "java"), 21)
    assert find_java({"PATH": f"{home / 'bin'}:/usr/bin:/bin"})[1] == 21
    with pytest.raises(ConfigError, match="is Java 8: Spark needs Java 17 or newer"):
        find_java({"JAVA_HOME": str(fake_java(tmp_path / "old", "1.8.0_402"))})
    with pytest.raises(ConfigError, match="there is no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="no Java found"):
        find_java({"PATH": str(tmp_path)})


def test_a_running_session_is_used(spark: Any) -> None:
    assert open_session() is spark


def test_a_failed_job_is_one_line(spark: Any) -> None:
    def broken(batches: Any) -> Any:
        raise ValueError("the worker's own words")

    with pytest.raises(ConfigError) as caught, spark_errors(spark):
        spark.range(1).mapInArrow(broken, "x long").collect()
    text = str(caught.value)
    assert "\n" not in text
    assert "the worker's own words" in text
    assert Path(text.rpartition(" ")[2]).read_text()


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "nonsense"])
def test_an_unreachable_master_is_one_line(master: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "import sys\nfrom isotone.pipeline.session import open_session\nfrom isotone.model.errors import ConfigError\n"
        "try:\n    open_session(sys.argv[1])\nexcept ConfigError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    command = [sys.executable, "-c", code, master.format(port=port)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert master.partition("{")[0] in done.stdout
