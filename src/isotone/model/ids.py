"""Names of processes and views.

A process id is the text `name#incarnation`; a restarted process has a larger incarnation and is another process. A view id is
`(epoch, proposer)`, compared lexicographically: two components may use the same epoch, no two proposals the same id.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from isotone.model.errors import ConfigError

ProcessId = str

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}\Z")


class ViewId(NamedTuple):
    """Identifies one proposal of a view; fresh for every proposal, retries included."""

    epoch: int
    proposer: ProcessId

    def __str__(self) -> str:
        return f"{self.epoch}@{self.proposer}"


INITIAL_VIEW = ViewId(0, "")


def process_id(name: str, incarnation: int) -> ProcessId:
    """The id of a process, after checking its parts."""
    if not _NAME.match(name):
        raise ConfigError(f"process name {name!r}: use 1 to 64 letters, digits, '_', '-' or '.'")
    if incarnation < 1:
        raise ConfigError(f"incarnation {incarnation}: must be at least 1")
    return f"{name}#{incarnation}"


def name_of(process: ProcessId) -> str:
    """The name part of a process id."""
    return process.partition("#")[0]


def incarnation_of(process: ProcessId) -> int:
    """The incarnation part of a process id."""
    return int(process.partition("#")[2])


def is_process_id(text: str) -> bool:
    """Whether `text` has the form of a process id (for what comes from outside)."""
    name, mark, incarnation = text.partition("#")
    return bool(mark) and bool(_NAME.match(name)) and incarnation.isascii() and incarnation.isdigit() and incarnation != "0"
