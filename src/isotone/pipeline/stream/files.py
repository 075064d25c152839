"""Which files of a trace there are, how far they have been read, and what comes next: the offsets of the stream.

An offset says what has been read: of each JSON Lines file how many bytes, up to the end of a line, so that a file that grows is
followed; of Parquet files, which appear whole, the names. Files of one writer are numbered, so their names are kept as
ranges and an offset stays small however many files there are.

Invariants: offsets only grow, and the same set of files has one representation; hidden files (a writer's unfinished
`.part`) and hidden directories are not looked at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from isotone.pipeline.plan import filesystem
from isotone.pipeline.stream.numbers import Numbers
from isotone.trace.reader import SUFFIXES

Offset: TypeAlias = dict[str, dict[str, Any]]

_NUMBERED: Final = re.compile(r"(.*)-(\d{4,})")
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A Parquet file, or whole lines of a JSON Lines file; `name` is below the directory."""

    name: str
    start: int
    end: int
    """Bytes of a JSON Lines file; both 0 for Parquet, which is read whole."""

    @property
    def is_json(self) -> bool:
        return self.name.endswith(".jsonl")


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a listing."""

    name: str
    size: int
    changed_ns: int


def listing(directory: str) -> list[Found]:
    """The finished files of a trace, oldest first; empty if there is no such directory."""
    from pyarrow import fs

    files, root = filesystem(directory)
    found = []
    for entry in files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        name = entry.path[len(root.rstrip("/")) + 1 :]
        hidden = any(part[:1] in (".", "_") for part in name.split("/"))
        if entry.type == fs.FileType.File and not hidden and name.endswith(SUFFIXES):
            found.append(Found(name, entry.size or 0, entry.mtime_ns or 0))
    return sorted(found, key=lambda file: (file.changed_ns, file.name))


def join(directory: str, name: str) -> str:
    """The path or URI of a file below a directory; options of a URI stay at its end."""
    head, mark, options = directory.partition("?")
    return f"{head.rstrip('/')}/{name}{mark}{options}"


def nothing_read() -> Offset:
    return {"jsonl": {}, "parquet": {}}


def advance(directory: str, start: Offset, files: list[Found], bytes_max: int | None, *, last: bool) -> Offset:
    """The offset after reading what is new, oldest files first, but not much more than `bytes_max`.

    With `last` nothing more will come: a JSON Lines file may end without the end of its line.
    """
    read = {prefix: _numbers(text) for prefix, text in start["parquet"].items()}
    lines: dict[str, int] = dict(start["jsonl"])
    room = bytes_max
    for file in files:
        if room is not None and room <= 0:
            break
        taken = 0
        if file.name.endswith(".jsonl"):
            before = lines.get(file.name, 0)
            end = _line_end(join(directory, file.name), before, file.size, room, last)
            if end > before:
                lines[file.name], taken = end, end - before
        else:
            prefix, number = _split(file.name)
            numbers = read.setdefault(prefix, Numbers())
            if not numbers.has(number):
                numbers.add(number, number)
                taken = file.size
        if room is not None:
            room -= taken
    parquet = {prefix: _ranges(numbers) for prefix, numbers in read.items() if numbers.lows}
    return {"jsonl": dict(sorted(lines.items())), "parquet": dict(sorted(parquet.items()))}


def between(start: Offset, end: Offset) -> Iterator[Piece]:
    """What lies between two offsets."""
    for name, bytes_end in end["jsonl"].items():
        bytes_start = start["jsonl"].get(name, 0)
        if bytes_end > bytes_start:
            yield Piece(name, bytes_start, bytes_end)
    for prefix, text in end["parquet"].items():
        before = _numbers(start["parquet"].get(prefix, ""))
        after = _numbers(text)
        for low, high in zip(after.lows, after.highs, strict=True):
            for number in range(low, high + 1):
                if not before.has(number):
                    yield Piece(f"{prefix}-{number:04d}.parquet" if number else f"{prefix}.parquet", 0, 0)


def _split(name: str) -> tuple[str, int]:
    """`a.1-0007.parquet` is number 7 of `a.1`; a name without such a number is number 0 of itself."""
    stem = name.removesuffix(".parquet")
    match = _NUMBERED.fullmatch(stem)
    if match is not None and int(match[2]) > 0 and f"{int(match[2]):04d}" == match[2]:
        return match[1], int(match[2])
    return stem, 0


def _numbers(text: str) -> Numbers:
    pairs = [[int(end) for end in part.split("-")] for part in text.split(",") if part]
    return Numbers([pair[0] for pair in pairs], [pair[-1] for pair in pairs])


def _ranges(numbers: Numbers) -> str:
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in zip(numbers.lows, numbers.highs, strict=True))


def _line_end(path: str, start: int, size: int, room: int | None, last: bool) -> int:
    """Where the last whole line ends, at most about `room` bytes after `start`; `start` if there is none."""
    files, inner = filesystem(path)
    if size <= start:
        return start
    with files.open_input_file(inner) as file:
        if room is not None and size - start > room:
            at = start + room
            while at < size:  # on to the end of the line that is begun there
                block = file.read_at(min(_BLOCK, size - at), at)
                if b"\n" in block:
                    return int(at + block.index(b"\n") + 1)
                at += len(block)
        at = size
        while at > start:
            begin = max(start, at - _BLOCK)
            block = file.read_at(at - begin, begin)
            if at == size and last and block.rstrip().endswith(b"}"):
                return size
            if b"\n" in block:
                return int(begin + block.rindex(b"\n") + 1)
            at = begin
    return start
