"""A corpus of small histories, good and bad, one TOML file each, that a person can read.

A file says its `name`, in words what is right or wrong with it (`says`), its `history` in the language of
`tests.pipeline.oracle_text` (or several, by run, in the table `runs`), the conflict relation if it needs one, and the
verdict that is expected of every check. `shows`, if given, is a part of the words of some witness.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotone.model.conflicts import Conflicts, conflicts_from
from isotone.pipeline.oracle import CHECKS
from tests.pipeline.oracle_text import history

HERE = Path(__file__).parent
KEYS = {"name", "says", "shows", "history", "runs", "conflicts", "expected"}


@dataclass(frozen=True, slots=True)
class Case:
    """One history of the corpus."""

    name: str
    says: str
    rows: list[dict[str, Any]]
    expected: dict[str, str]
    """Of every check, its verdict."""
    conflicts: Conflicts | None = None
    shows: str = ""


def load(path: Path) -> Case:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(content) <= KEYS, f"{path.name}: {set(content) - KEYS}"
    expected = {check: verdict for verdict, checks in content["expected"].items() for check in checks}
    assert sum(map(len, content["expected"].values())) == len(expected), f"{path.name} names a check twice"
    assert set(expected) == set(CHECKS), f"{path.name}: {set(expected) ^ set(CHECKS)}"
    assert set(content["expected"]) <= {"ok", "violated", "unknown"}, path.name
    runs = content.get("runs") or {"": content["history"]}
    rows = [row for run, text in runs.items() for row in history(text, run)]
    relation = conflicts_from(content["conflicts"]) if "conflicts" in content else None
    return Case(content["name"], content["says"], rows, expected, relation, content.get("shows", ""))


def load_all() -> list[Case]:
    """Every history, in the order of file names."""
    return [load(path) for path in sorted(HERE.glob("*.toml"))]
