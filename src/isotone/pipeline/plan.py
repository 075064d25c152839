"""The plan of a scan: which files, which row groups, and what their footers say about them.

Files are reached through `pyarrow.fs`, so a path may be local or a URI that Arrow knows (`s3://`, `gs://`, `hdfs://`).
Only footers are read here. A file whose footer cannot be read is quarantined with a reason; an unfinished file of a writer too.

Invariants: every row group of every readable file is in exactly one source; a source lies in one file.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from isotone.model.errors import TraceFormatError
from isotone.trace.columns import MixedSchemas, require_pyarrow
from isotone.trace.reader import SUFFIXES, Quarantined
from isotone.trace.writer import PART_SUFFIX

ROWS_PER_SOURCE: Final = 524_288
BYTES_PER_SOURCE: Final = 1 << 25
"""Of JSON Lines."""
_MAGIC: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Source:
    """Some consecutive row groups of a Parquet file, or the lines of a JSON Lines file that begin in a span of bytes."""

    path: str
    groups: tuple[int, ...] | None
    """None for JSON Lines."""
    first_row: int
    rows: int
    """0 where only reading can tell."""
    processes: tuple[str, str] | None
    """Smallest and largest process, if the footer tells."""
    steps: tuple[int, int] | None
    runs: tuple[str, str] | None
    span: tuple[int, int] | None = None
    """Bytes of a JSON Lines file; None if all."""
    stamp: str = ""
    """Size and time of the file: another stamp, another footer."""


@dataclass(slots=True)
class Plan:
    """What there is to read."""

    sources: list[Source] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    schemas: MixedSchemas = field(default_factory=MixedSchemas)

    @property
    def rows(self) -> int:
        """Rows according to the footers."""
        return sum(source.rows for source in self.sources)


def filesystem(path: str) -> tuple[Any, str]:
    """Arrow's filesystem for a path or URI, and the path inside it."""
    pa = require_pyarrow()
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(path)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceFormatError(f"cannot reach {path}: {_first_line(error)}") from None
    return found


def make_plan(paths: Sequence[str], *, rows_per_source: int = ROWS_PER_SOURCE) -> Plan:
    """List what the directories (with all below them), globs and files hold."""
    if not paths:
        raise TraceFormatError("no trace given: name a directory, a glob or files that end in .parquet or .jsonl")
    plan = Plan()
    seen: set[str] = set()
    for given in map(str, paths):
        matched, set_apart = False, len(plan.quarantined)
        for name in _expand(given, plan):
            matched = True
            if name not in seen:
                seen.add(name)
                plan.sources.extend(_sources(name, plan, rows_per_source))
        if not matched and len(plan.quarantined) == set_apart:
            raise TraceFormatError(f"no trace in {given}: nothing there ends in .parquet or .jsonl")
    return plan


def _expand(given: str, plan: Plan) -> Iterator[str]:
    from pyarrow import fs

    place, mark, options = given.partition("?") if "://" in given else (given, "", "")
    base = place
    if "://" in given or not os.path.exists(given):  # a file may have brackets in its name
        while not _MAGIC.isdisjoint(base):
            base = base.rpartition("/")[0] if "/" in base else "."
    files, root = filesystem((base or "/") + mark + options)
    wanted = _pattern(place[len(base) :].lstrip("/")) if base != place else None
    try:
        info = files.get_file_info(root)
        if info.type == fs.FileType.NotFound:
            raise TraceFormatError(f"no trace at {given}: there is no such file or directory")
        if info.type == fs.FileType.File:
            if not root.endswith(SUFFIXES):
                raise TraceFormatError(f"{given} is not a trace: its name must end in .parquet or .jsonl")
            yield given if "://" in given else root
            return
        inner = files.get_file_info(fs.FileSelector(root, recursive=True))
    except OSError as error:
        raise TraceFormatError(f"cannot read the trace {given}: {error.strerror or _first_line(error)}") from None
    for entry in sorted(inner, key=lambda entry: str(entry.path)):
        below = str(entry.path)[len(root.rstrip("/")) + 1 :]
        if entry.type != fs.FileType.File or (wanted is not None and not wanted.fullmatch(below)):
            continue
        name = entry.base_name
        if name.startswith(".") and name.endswith(PART_SUFFIX):
            reason = "unfinished file: its writer is still at work, or was killed"
            plan.quarantined.append(Quarantined(entry.path, 0, reason))
        elif name.endswith(SUFFIXES) and name[0] not in "._":
            yield f"{base.rstrip('/')}/{quote(below)}{mark}{options}" if "://" in given else entry.path


def _pattern(glob: str) -> re.Pattern[str]:
    """What a glob matches, and all below that; `*` stays within a directory, `**` does not."""
    parts = ["(?:[^/]+/)*" if part == "**" else f"{_translate(part)}/" for part in glob.split("/")]
    if glob.endswith("**"):
        return re.compile("".join(parts) + ".*", re.DOTALL)
    return re.compile("".join(parts).removesuffix("/") + "(?:/.*)?", re.DOTALL)


def _translate(part: str) -> str:
    """One part of a glob as a regular expression."""
    text = ""
    while part:
        sign, part = part[0], part[1:]
        end = part.find("]", 1) if sign == "[" else -1
        if end > 0:
            inside = part[:end].replace("\\", r"\\")
            text += f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
            part = part[end + 1 :]
        else:
            text += {"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign)
    return text


def _sources(name: str, plan: Plan, rows_per_source: int) -> Iterator[Source]:
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    files, path = filesystem(name)
    try:
        info = files.get_file_info(path)
        if name.partition("?")[0].endswith(".jsonl"):
            size = info.size or 0
            for start in range(0, max(1, size), BYTES_PER_SOURCE):
                yield Source(name, None, 1, 0, None, None, None, span=(start, min(size, start + BYTES_PER_SOURCE)))
            return
        with files.open_input_file(path) as raw, pq.ParquetFile(raw) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise TraceFormatError(f"cannot read the trace {name}: {error.strerror or _first_line(error)}") from None
        plan.quarantined.append(Quarantined(name, 0, f"unreadable Parquet file: {_first_line(error)}"))
        return
    plan.schemas.add(name, schema)
    stamp = f"{info.size} {info.mtime_ns}"
    place = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    groups: list[int] = []
    first, rows = 1, 0
    for group in range(metadata.num_row_groups):
        count = metadata.row_group(group).num_rows
        if groups and rows + count > rows_per_source:
            yield _source(name, metadata, place, groups, first, rows, stamp)
            groups, first, rows = [], first + rows, 0
        groups.append(group)
        rows += count
    if groups:
        yield _source(name, metadata, place, groups, first, rows, stamp)


def _source(name: str, metadata: Any, place: dict[str, int], groups: list[int], first: int, rows: int, stamp: str) -> Source:
    def span(column: str) -> Any:
        if column not in place:
            return None
        ends = [metadata.row_group(group).column(place[column]).statistics for group in groups]
        if any(found is None or not found.has_min_max for found in ends):
            return None
        return min(found.min for found in ends), max(found.max for found in ends)

    return Source(name, tuple(groups), first, rows, span("process"), span("step"), span("run"), stamp=stamp)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
