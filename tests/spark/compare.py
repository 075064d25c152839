"""Compares the scan with the oracle on many histories at once: each is a run of one trace.

`ways` force the different paths of the scan: small runs whole inside tasks; certificates with whole runs as a last resort;
certificates with kernels on whole runs as a last resort, and blocks of two numbers, so that pieces and carries matter.
"""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from isotone.model.conflicts import Conflicts
from isotone.pipeline import scan
from isotone.pipeline.oracle import CHECKS, Expectation, check_history, sub_history
from isotone.trace.columns import table_of_rows
from tests.pipeline.faults import FAULTS, broken
from tests.pipeline.generate import clean

Rows = list[dict[str, Any]]
WAYS: dict[str, dict[str, Any]] = {
    "small runs": {},
    "certificates": {"small_rows": 0},
    "kernels": {"small_rows": 0, "residue_max": 0},
}


def histories(count: int, seed: int) -> dict[str, Rows]:
    """Clean histories, histories with one known fault, and some with arbitrary damage, by run."""
    runs: dict[str, Rows] = {}
    chance = random.Random(seed)
    while len(runs) < count:
        name = f"r{len(runs):04d}"
        way = chance.random()
        if way < 0.15:
            runs[name] = clean(chance, run=name).rows
        elif way < 0.6:
            found = broken(chance, chance.choice(sorted(FAULTS)), run=name)
            if found is not None:
                runs[name] = found[0].rows
        else:
            runs[name] = damaged(clean(chance, run=name).rows, chance)
    return runs


def damaged(rows: Rows, chance: random.Random) -> Rows:
    """One row of a process is moved, repeated, lost, or says something else."""
    process = chance.choice(sorted({row["process"] for row in rows}))
    mine = [row for row in rows if row["process"] == process]
    about = [place for place, row in enumerate(mine) if row["kind"] in ("send", "deliver", "returned")]
    one, two = chance.randrange(len(mine)), chance.randrange(len(mine))
    match chance.randrange(8):
        case 0:
            mine[one], mine[two] = mine[two], mine[one]
        case 1:
            mine.insert(two, mine[one])
        case 2:
            del mine[one]
        case 3 if about:
            place = chance.choice(about)
            mine[place] = {**mine[place], "number": chance.randint(1, 7)}
        case 4 if about:
            place = chance.choice(about)
            mine[place] = {**mine[place], "view_epoch": chance.randint(0, 4)}
        case 5 if about:
            place = chance.choice(about)
            mine[place] = {**mine[place], "kind": chance.choice(["send", "deliver", "returned"])}
        case 6 if about:
            place = chance.choice(about)
            mine[place] = {name: value for name, value in mine[place].items() if name not in ("position", "view_epoch", "type")}
        case _:
            views = [place for place, row in enumerate(mine) if row["kind"] == "view"]
            for place in views[-1:]:
                mine[place] = {**mine[place], "members": mine[place]["members"][1:]}
    return [row for row in rows if row["process"] != process] + [{**row, "step": step} for step, row in enumerate(mine, start=1)]


def strange(runs: Mapping[str, Rows], chance: random.Random) -> Rows:
    """The rows of all runs as bad writers leave them: steps twice, the empty name of a run or none, negative epochs.

    What repeats a step stands before or behind the row it repeats, or far away, so that it is in another file.
    """
    every: Rows = []
    far: Rows = []
    for place, given in enumerate(runs.values()):
        rows = [dict(row) for row in given]
        lower = chance.choice([0, 0, 1, 3, 10])
        for row in rows:
            if "view_epoch" in row:
                row["view_epoch"] -= lower
        for _ in range(chance.randint(0, 3)):
            one, two = chance.choice(rows), chance.choice(rows)
            again = {**two, "process": one["process"], "step": one["step"]}
            if chance.random() < 0.3:
                far.append(again)
            else:
                rows.insert(chance.randrange(len(rows) + 1), again)
        if place == 0:
            for row in rows:
                del row["run"]
                row.update({"run": ""} if chance.random() < 0.5 else {})
            far = [{**row, "run": ""} for row in far]
        if chance.random() < 0.2:
            chance.shuffle(rows)
        every.extend(rows)
    return every + far


def write(path: Path, rows: Iterable[Any], files: int = 3) -> Path:
    """Some files of small row groups; runs and processes go across files."""
    path.mkdir(parents=True, exist_ok=True)
    every = list(rows)
    share = -(-len(every) // files)
    for number in range(files):
        part = every[number * share : (number + 1) * share]
        pq.write_table(table_of_rows(part), path / f"f{number}.parquet", row_group_size=200)
    return path


def disagreements(
    path: Path, runs: Mapping[str, Rows], conflicts: Conflicts | None = None, session: Any = None, **way: Any
) -> list[tuple[str, str, str, str]]:
    """Where scan and oracle differ: run, check, verdict of the scan, verdict of the oracle; and witnesses that show nothing."""
    expected = Expectation(conflicts=conflicts)
    outcome = scan.verify([str(path)], list(CHECKS), session=session, conflicts=conflicts, rows_per_source=200, **way)
    wrong = []
    for run, rows in runs.items():
        for check in check_history(rows, list(CHECKS), expected=expected).checks:
            verdict = outcome.runs[run][check.name]
            if verdict != check.verdict:
                wrong.append((run, check.name, verdict, f"{check.verdict}: {check.witness}"))
    for check in outcome.report.checks:
        if check.verdict == "violated":
            assert check.witness is not None
            every = [row for rows in runs.values() for row in rows]
            again = check_history(sub_history(every, check.witness), [check.name], expected=expected).verdict
            if again != "violated":
                wrong.append((str(check.witness.run), check.name, "witness", again))
    return wrong
