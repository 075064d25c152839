"""The session: Java is looked for, masters are tried, errors are one line."""

import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import ConfigError
from isotone.pipeline.session import find_java, open_session, spark_errors
from isotone.pipeline.ship import package_zip


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


def test_a_dead_worker_is_one_line(spark: Any) -> None:
    def dies(batches: Any) -> Any:
        os._exit(3)

    with (
        pytest.raises(ConfigError, match="the Spark job failed: Python worker exited unexpectedly") as caught,
        spark_errors(spark),
    ):
        spark.range(1).mapInArrow(dies, "x long").collect()
    assert "\n" not in str(caught.value)


def bare_python(directory: Path, *wheels: str) -> Path:
    """A Python that sees nothing but its own library and some wheels: no site-packages, no package of this repository."""
    library = directory / "wheels"
    library.mkdir(parents=True)
    for name in wheels:
        for place in {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}:
            if (place / name).exists():
                (library / name).symlink_to(place / name)
    program = directory / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{library}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return program


def test_executors_without_wheels_are_one_line(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, text in (
        (str(bare_python(tmp_path)), "the Python of the executors has no "),
        ("/nowhere/python", "the executors cannot run /nowhere/python: set PYSPARK_PYTHON to a Python that they have"),
    ):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", program)
        with pytest.raises(ConfigError) as caught, spark_errors(spark):
            spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


def test_settings_of_the_user_win(spark: Any) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_the_zip_is_the_package(tmp_path: Path) -> None:
    archive = package_zip(tmp_path)
    assert package_zip(tmp_path) == archive
    program = bare_python(tmp_path / "bare", "msgspec")
    code = "import isotone.sim, isotone.pipeline.oracle; print(isotone.__file__, isotone.sim.run)"
    done = subprocess.run(
        [program, "-c", code], env={"PYTHONPATH": str(archive)}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{archive}/isotone/__init__.py <function run")
    nothing = subprocess.run([program, "-c", code], env={}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "No module named 'isotone'" in nothing.stderr


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
