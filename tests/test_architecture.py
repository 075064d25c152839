"""The import direction holds, and the check that says so can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "src"


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "tools" / "imports.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def plant(source: Path, files: dict[str, str]) -> None:
    for name in {"__init__.py", *files}:
        path = source / "isotone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(name, ""))


def test_import_direction_holds() -> None:
    result = check()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("files", "place", "text"),
    [
        ({"model/ids.py": "\nimport isotone.protocol"}, "model/ids.py:2", "model must not import protocol"),
        ({"protocol/a.py": "from ..codec import x"}, "protocol/a.py:1", "protocol must not import codec"),
        ({"protocol/link/a.py": "from ...trace import x"}, "protocol/link/a.py:1", "protocol must not import trace"),
        ({"codec/a.py": "def f():\n    from isotone import cli"}, "codec/a.py:2", "codec must not import cli"),
        (
            {"model/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from isotone.sim import x"},
            "model/a.py:3",
            "model must not import sim",
        ),
        ({"trace/a.py": "import importlib\nimportlib.import_module('isotone.sim')"}, "trace/a.py:2", "import sim"),
        ({"sim/a.py": "from isotone import Group"}, "sim/a.py:1", "must not import from the top of isotone"),
        ({"__init__.py": "from isotone.cli import main"}, "__init__.py:1", "isotone must not import cli"),
        ({"protocol/a.py": "import time"}, "protocol/a.py:1", "protocol must not import time"),
        ({"trace/a.py": "from asyncio import Queue"}, "trace/a.py:1", "trace must not import asyncio"),
        ({"codec/a.py": "import logging.handlers"}, "codec/a.py:1", "codec must not import logging"),
        ({"sim/a.py": "from isotone.runtime import x"}, "sim/a.py:1", "sim must not reach runtime"),
        (
            {
                "sim/a.py": "from isotone.objects import x",
                "sim/b.py": "from isotone.sim.a import x",
                "objects/__init__.py": "from isotone.runtime import y",
            },
            "sim/a.py:1",
            "sim must not reach runtime (through isotone.objects -> isotone.runtime)",
        ),
        (
            {"pipeline/oracle.py": "from isotone.protocol.link import x"},
            "pipeline/oracle.py:1",
            "pipeline.oracle must not reach protocol",
        ),
        (
            {"pipeline/oracle_graph.py": "from isotone.protocol import x"},
            "pipeline/oracle_graph.py:1",
            "pipeline.oracle must not reach protocol",
        ),
        (
            {"__init__.py": "from isotone.trace.a import x", "trace/__init__.py": "import pyarrow", "trace/a.py": ""},
            "trace/__init__.py:1",
            "import isotone would load pyarrow",
        ),
        ({"helpers.py": ""}, "helpers.py:1", "helpers is not one of the packages"),
        ({"model/a.py": "def"}, "model/a.py:1", "does not parse"),
    ],
)
def test_planted_violation_is_found(tmp_path: Path, files: dict[str, str], place: str, text: str) -> None:
    plant(tmp_path, files)
    result = check(str(tmp_path))
    assert result.returncode == 1, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{tmp_path / 'isotone'}/{place}: ")
    assert text in lines[0]


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "__init__.py": "from isotone.runtime import Group\nfrom isotone.trace import open_trace",
            "__main__.py": "from isotone.cli import main",
            "model/__init__.py": "",
            "protocol/__init__.py": "from isotone.model import x\nfrom . import link\nfrom .link import y",
            "protocol/link/__init__.py": "from ...model import x",
            "trace/__init__.py": "def write():\n    import pyarrow",
            "runtime/__init__.py": "import asyncio\nimport time\nfrom isotone.protocol import link",
            "sim/__init__.py": "import random\nfrom isotone.protocol import link",
            "pipeline/__init__.py": "import pyspark\nfrom isotone import sim\nfrom isotone.protocol import x",
            "pipeline/oracle.py": "from isotone.model import x",
            "cli/__init__.py": "import typer\nfrom isotone import __version__",
        },
    )
    result = check(str(tmp_path))
    assert (result.returncode, result.stdout) == (0, "")


def test_nothing_to_check_is_an_error(tmp_path: Path) -> None:
    assert check(str(tmp_path)).returncode == 2


def test_import_isotone_is_light() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import isotone; "
        "print(isotone.__file__, *sorted({'pyspark', 'pyarrow', 'typer'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == [str(SOURCE / "isotone" / "__init__.py")]
