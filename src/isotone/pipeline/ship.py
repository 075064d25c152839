"""Brings the package to executors: a zip of the sources of this very package, added to the session once.

Executors then need only a Python with the wheels of `WHEELS`; a copy of the package that is installed there is not used.

Invariant: the same sources give the same zip under the same name, so that no session meets two files of one name.
"""

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

PACKAGE: Final = "isotone"
WHEELS: Final = ("numpy", "pyarrow", "pandas", "msgspec")
"""What a worker imports besides the package and PySpark; pandas because PySpark's own Arrow code asks for it."""
_SHIPPED: Final = "isotone.shipped"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def sources(*below: str) -> Iterator[tuple[str, bytes]]:
    """Name (`isotone/sim/run.py`) and content of the package's files, sorted; all, or those of some of its packages."""
    root = files(PACKAGE)
    for name in below or ("",):
        yield from _walk(root.joinpath(name) if name else root, f"{PACKAGE}/{name}".rstrip("/"))


def _walk(place: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry, inner)
        elif not entry.name.endswith((".pyc", ".pyo")):
            yield inner, entry.read_bytes()


def package_zip(directory: Path) -> Path:
    """Write the package as a zip, named by its content."""
    content = list(sources())
    digest = hashlib.sha256()
    for name, data in content:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    path = directory / f"{PACKAGE}-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


def ship(session: Any) -> None:
    """Give the executors of a session the package, unless they are threads of this machine's own JVM."""
    context = session.sparkContext
    if context.master == "local" or context.master.startswith("local[") or session.conf.get(_SHIPPED, "") == "yes":
        return
    directory = Path(tempfile.mkdtemp(prefix="isotone-ship-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # executors may fetch it as long as the session lives
    context.addPyFile(str(package_zip(directory)))
    session.conf.set(_SHIPPED, "yes")
