"""Verify and sweep on a real standalone cluster: a master and two workers as processes of their own, on loopback.

The workers' Python runs without site-packages (`-S`) and sees only a few wheels, so the package can reach it only in the
zip that a session ships; the driver program asks the executors where they have it from.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark

from isotone.pipeline.oracle import check_history
from isotone.sim import run
from isotone.trace.writer import write_all
from tests.spark.test_spark_session import bare_python

HOME = Path(pyspark.__file__).parent
SOURCE = Path(__file__).resolve().parents[2] / "src"
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
WHEELS = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs", "pandas", "pandas.libs", "msgspec")
NEEDED_BY_PANDAS = ("dateutil", "pytz", "tzdata", "six.py")

DRIVER = """
import json, sys
from isotone.pipeline.scan import verify
from isotone.pipeline.session import open_session
from isotone.pipeline.sweeps.run import sweep

master, trace, experiment, out = sys.argv[1:]
session = open_session(master, settings={
    "spark.executor.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
})

def where(batches):
    import importlib.machinery, os, socket, sys
    import pyarrow as pa
    import isotone
    for batch in batches:
        others = [place for place in sys.path if not os.path.basename(place).startswith("isotone-")]
        elsewhere = importlib.machinery.PathFinder.find_spec("isotone", others)
        yield pa.record_batch([[isotone.__file__], [elsewhere is not None], [os.getcwd()]], names=["file", "elsewhere", "place"])

found = session.range(0, 4, 1, 4).mapInArrow(where, "file string, elsewhere boolean, place string").collect()
outcome = verify([trace], session=session)
result = sweep(experiment, out, session=session)
print(json.dumps({
    "master": session.sparkContext.master,
    "places": [row.asDict() for row in found],
    "verify": outcome.report.to_json(),
    "sweep": result.table.to_pylist(),
}, default=str))
session.stop()
"""

EXPERIMENT = """
seeds = [1, 2]
[scenario]
members = ["a", "b", "c"]
duration_ms = 2500
workload = [{ interval_ms = 40, start_ms = 1200, stop_ms = 2000 }]
[grid]
order = ["single_phase", "sequencer"]
"""


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    url: str
    environment: dict[str, str]

    def python(self, *arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=timeout, check=False)


def said(log: Path, pattern: str, times: int, process: subprocess.Popen[bytes]) -> str:
    """Wait until a process has written something to its log some times."""
    deadline = time.monotonic() + 60
    while len(found := re.findall(pattern, log.read_text(errors="replace"))) < times:
        assert process.poll() is None, log.read_text()[-2_000:]
        assert time.monotonic() < deadline, log.read_text()[-2_000:]
        time.sleep(0.05)
    return str(found[0])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}
    environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "128m"}
    environment["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # six short-lived JVMs on few cores

    def start(stack: ExitStack, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = directory / f"{name}.log"
        main = "worker.Worker" if name.startswith("worker") else "master.Master"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", "--host", "127.0.0.1", *arguments]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=directory)
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        return process, log

    with ExitStack() as stack:
        master, log = start(stack, "master", "--port", "0", "--webui-port", "0")
        url = said(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", 1, master)
        for number in ("1", "2"):
            place = directory / f"work{number}"
            options = ("--cores", "1", "--memory", "512m", "--work-dir", str(place), "--webui-port", "0")
            start(stack, f"worker{number}", *options, url)
        said(log, r"Registering worker", 2, master)
        program = bare_python(directory / "bare", *WHEELS, *NEEDED_BY_PANDAS)
        pythons = {"PYSPARK_PYTHON": str(program), "PYSPARK_DRIVER_PYTHON": sys.executable}
        yield Cluster(url, {**environment, **pythons, "PYTHONPATH": str(SOURCE)})


def test_verify_and_sweep(cluster: Cluster, tmp_path: Path) -> None:
    simulated = run(SCENARIOS / "anomaly.toml")
    write_all(tmp_path / "trace", "parquet", simulated.recorders)
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(EXPERIMENT)
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    done = cluster.python(program, cluster.url, tmp_path / "trace", experiment, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "at org.apache" not in done.stderr
    told = json.loads(done.stdout)
    assert told["master"] == cluster.url
    for place in told["places"]:
        assert re.search(r"/isotone-[0-9a-f]{12}\.zip/isotone/__init__\.py$", place["file"])
        assert not place["elsewhere"]
    assert len({place["place"] for place in told["places"]}) == 2, "both workers took part"
    expected = check_history(simulated.rows, [check["name"] for check in told["verify"]["checks"]])
    assert told["verify"]["verdict"] == expected.verdict == "violated"
    assert told["verify"]["events"] == expected.events
    assert len(told["sweep"]) == 4
    for row in told["sweep"]:
        alone = run(tmp_path / "out" / "scenario.toml", seed=row["seed"], overrides={"order": row["order"]})
        assert (row["error"], row["verdict"], row["digest"]) == (None, "ok", alone.digest)
        assert row["deliveries"] == alone.stats["delivered"]


def test_spark_submit_decides_the_master(cluster: Cluster, tmp_path: Path) -> None:
    """The command runs where `spark-submit` says, with the settings given there, and without a word of Java."""
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(EXPERIMENT.replace("seeds = [1, 2]", "seeds = [3]\nmetrics = []\nmeasures = ['mine:where']"))
    (tmp_path / "mine.py").write_text("import os\ndef where(table):\n    return {'place': os.getcwd(), 'rows': len(table)}\n")
    program = tmp_path / "program.py"
    program.write_text("from isotone.cli import main\nmain()\n")
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--executor-memory", "512m"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    command += [str(program), "sweep", str(experiment), "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=cluster.environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "\tat " not in done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["cells"], told["ok"], told["ran"]) == (2, 2, 2)
    import pyarrow.parquet as pq

    rows = pq.read_table(told["table"]).to_pylist()
    assert all(re.search(r"/work[12]/app-", row["place"]) and row["rows"] == row["events"] for row in rows)
