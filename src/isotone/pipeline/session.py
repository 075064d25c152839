"""One Spark session: found or started, quiet, with errors of one line.

Everything the JVM says goes to a log file, which an error names. Only the start of a session touches the process's
environment: `PYSPARK_PYTHON` is this interpreter, unless the user set it, so that workers find the same packages.

Invariant: what fails raises `ConfigError` with one line; nothing of a Java stack trace reaches the terminal.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from isotone.model.errors import ConfigError

JAVA_MIN: Final = 17
REACH_SECONDS: Final = 5.0
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",
}


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


def open_session(master: str = "local[*]", *, settings: Mapping[str, str] | None = None) -> Any:
    """The running session if there is one, else a new one at `master`."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("the pipeline needs Spark: pip install 'isotone[spark]'") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    find_java()
    _reach(master)
    handle, log = tempfile.mkstemp(prefix="isotone-spark-", suffix=".log")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    builder = SparkSession.builder.master(master).appName("isotone")
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with _standard_error_to(handle):
            session = builder.getOrCreate()
    except Exception as error:  # py4j, pyspark and OS errors have no common base
        raise ConfigError(f"Spark does not start at {master}: {_short(error)}; its log is {log}") from None
    finally:
        os.close(handle)
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("isotone.log", log)
    return session


@contextmanager
def spark_errors(session: Any) -> Iterator[None]:
    """What fails inside Spark becomes one line that names the log file; our own errors pass."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        log = Path(session.conf.get("isotone.log", "") or _error_log())
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{error}\n")
        raise ConfigError(f"the Spark job failed: {_short(error)}; the log is {log}") from None


def _error_log() -> str:
    handle, name = tempfile.mkstemp(prefix="isotone-spark-", suffix=".log")
    os.close(handle)
    return name


def _short(error: Exception) -> str:
    """The line that says most: the last of a Python traceback inside, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    inner = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid)\b.*: ", line) and "org.apache" not in line]
    return (inner[-1] if inner else lines[0] if lines else type(error).__name__)[:300]


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
def _standard_error_to(handle: int) -> Iterator[None]:
    """The JVM inherits this standard error for life; ours comes back."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
