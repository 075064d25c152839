"""One Spark session: found or started, quiet, with errors of one line; executors elsewhere get the package.

The master is the caller's, else what `spark-submit`, `MASTER` or Spark's own configuration name, else `local[*]`, which is
Spark's default. Settings of ours are defaults: they yield to what the user configured. Everything the JVM says goes to a
log file, which an error names; a JVM that `spark-submit` started keeps its own log and is told to be silent. Only the
start of a session touches the process's environment: `PYSPARK_PYTHON` is this interpreter, unless the user set it.

Invariant: what fails raises `ConfigError` with one line; nothing of a Java stack trace reaches the terminal.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from isotone.model.errors import ConfigError
from isotone.pipeline.ship import WHEELS, ship

JAVA_MIN: Final = 17
REACH_SECONDS: Final = 5.0
_AT_START: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # kernels work on arrays of some MiB: memory that goes back to the system after each costs more than the arithmetic
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 28),
}
"""For a JVM of our own; one that `spark-submit` started is configured already."""
_DEFAULTS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""In the environment of a program that `spark-submit` runs."""


def find_java(environment: Mapping[str, str] | None = None) -> tuple[str, int]:
    """The Java that Spark will use and its major version; one clear line if there is none or it is too old."""
    given = os.environ if environment is None else environment
    home = given.get("JAVA_HOME")
    if home:
        java: str | None = str(Path(home) / "bin" / "java")
        if not os.access(java or "", os.X_OK):
            raise ConfigError(f"JAVA_HOME is {home}, but there is no bin/java in it: Spark needs Java {JAVA_MIN} or newer")
    else:
        java = shutil.which("java", path=given.get("PATH"))
    if java is None:
        raise ConfigError(f"no Java found (JAVA_HOME, PATH): Spark needs Java {JAVA_MIN} or newer")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run ({error}): Spark needs Java {JAVA_MIN} or newer") from None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if found is None:
        raise ConfigError(f"{java} does not tell its version: Spark needs Java {JAVA_MIN} or newer")
    version = int(found.group(1))
    if version < JAVA_MIN:
        raise ConfigError(f"{java} is Java {version}: Spark needs Java {JAVA_MIN} or newer")
    return java, version


def open_session(master: str | None = None, *, settings: Mapping[str, str] | None = None) -> Any:
    """The running session if there is one, else a new one: at `master`, or where the environment says."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("the pipeline needs Spark: pip install 'isotone[spark]'") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        ship(running)
        return running
    submitted = _SUBMITTED in os.environ
    if not submitted:
        find_java()
    named = master or os.environ.get("MASTER")
    if named:
        _reach(named)
    log = _new_log()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    builder = SparkSession.builder.appName("isotone")
    if master:
        builder = builder.master(master)
    for name, value in {**({} if submitted else _AT_START), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with _standard_error_to(log), _own_interrupts():
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF" if submitted else "ERROR")
            configured = session.sparkContext.getConf()
            for name, value in _DEFAULTS.items():
                if not configured.contains(name):
                    session.conf.set(name, value)
            session.conf.set("isotone.log", log)
            ship(session)
    except Exception as error:  # py4j, pyspark and OS errors have no common base
        _note(log, error)
        raise ConfigError(
            f"Spark does not start at {named or 'the configured master'}: {_short(error)}; its log is {log}"
        ) from None
    return session


@contextmanager
def spark_errors(session: Any) -> Iterator[None]:
    """What fails inside Spark becomes one line that names the log file; our own errors pass."""
    try:
        yield
    except spark_failures() as error:
        try:
            log = session.conf.get("isotone.log", "") or _new_log()
        except Exception:  # the JVM is gone
            log = _new_log()
        _note(log, error)
        raise ConfigError(f"the Spark job failed: {_short(error)}; the log is {log}") from None


def spark_failures() -> tuple[type[Exception], ...]:
    """The exceptions that a failed job raises at the driver: PySpark does not translate all of Java's."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def _new_log() -> str:
    handle, name = tempfile.mkstemp(prefix="isotone-spark-", suffix=".log")
    os.close(handle)
    return name


def _note(log: str, error: Exception) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{error}\n")


def _short(error: Exception) -> str:
    """The line that says most: what is wrong with the executors' Python, the last of a traceback inside, else the first."""
    text = str(error)
    missing = re.search(r'Cannot run program "([^"]+)"', text)
    if missing is not None:
        return f"the executors cannot run {missing.group(1)}: set PYSPARK_PYTHON to a Python that they have (docs/cluster.md)"
    lacking = re.search(r"No module named '(\w+)", text) or re.search(r"(?:Pandas|PyArrow) >= \S+ must be installed", text)
    if lacking is not None:
        name = lacking.group(1) if lacking.re.groups else lacking.group(0).split()[0].lower()
        if name in WHEELS or name == "isotone":
            wheels = ", ".join(WHEELS)
            return f"the Python of the executors has no {name}: install {wheels} there, or ship an environment (docs/cluster.md)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    inner = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b.*: ", line) and "org.apache" not in line]
    if inner or not lines:
        return (inner[-1] if inner else type(error).__name__)[:300]
    said = lines[1] if lines[0].startswith("An error occurred while calling") and len(lines) > 1 else lines[0]
    said = re.sub(r"^.*most recent failure: [^(]*\(TID \d+\) \([^)]*\): ", "", said)
    return re.sub(r"^[:\s]*(?:(?:[\w$]+\.)+[\w$]+: )?", "", said)[:300]


def _reach(master: str) -> None:
    """Fail at once if nothing listens at a standalone master: Spark itself would retry for a minute."""
    if not master.startswith("spark://"):
        if not re.match(r"local($|\[)|yarn$|k8s://|spark:", master):
            raise ConfigError(f"master {master!r}: valid are local[*], spark://HOST:PORT, k8s://URL, yarn")
        return
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or 7077
        except ValueError:
            raise ConfigError(f"master {master!r}: {place!r} is not HOST:PORT") from None
        try:
            socket.create_connection((host or "", port), timeout=REACH_SECONDS).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise ConfigError(f"no Spark master at {master}: {'; '.join(reasons)}")


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark's handler of Ctrl-C talks to the JVM from inside a call that does; keep the one that was there."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _standard_error_to(log: str) -> Iterator[None]:
    """The JVM inherits this standard error for life; ours comes back."""
    sys.stderr.flush()
    kept = os.dup(2)
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
