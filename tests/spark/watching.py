"""What the tests of the watch share: traces cut into files, fed to the judge in any order."""

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from isotone.pipeline.oracle import check_history
from isotone.pipeline.stream.condense import Chunk, Quarantine, read_piece
from isotone.pipeline.stream.files import Piece
from isotone.pipeline.stream.judge import WATCHED, Limits, State, settled, standings, take
from isotone.trace.columns import table_of_rows

Rows = list[dict[str, Any]]


def cut(directory: Path, rows: Rows, chance: random.Random, pieces: int = 4) -> list[str]:
    """Write the rows of each process as a few files, named by process; the names, in order."""
    directory.mkdir(exist_ok=True, parents=True)
    by_process: dict[tuple[str, str], Rows] = {}
    for row in rows:
        by_process.setdefault((row.get("run", ""), row["process"]), []).append(row)
    names = []
    for number, mine in enumerate(by_process.values()):
        ends = sorted({chance.randint(0, len(mine)) for _ in range(chance.randint(0, pieces))} | {0, len(mine)})
        for part, (start, end) in enumerate(pairwise(ends)):
            name = f"p{number}-{part + 1:04d}.parquet"
            pq.write_table(table_of_rows(mine[start:end]), directory / name)
            names.append(name)
    return names


def read(directory: Path, names: Iterable[str]) -> list[Chunk | Quarantine]:
    return [item for name in names for item in read_piece(str(directory), Piece(name, 0, 0))]


def watch(directory: Path, batches: list[list[str]], limits: Limits) -> State:
    """Feed files to the judge, batch by batch; the state goes through its stored form in between."""
    state = State()
    for batch, names in enumerate(batches):
        take(state, batch, read(directory, names), 0.0, limits)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)
    return settled(state, limits)


def batches_of(names: list[str], chance: random.Random) -> list[list[str]]:
    """The files in some order of arrival, in micro-batches of some sizes."""
    shuffled = list(names)
    chance.shuffle(shuffled)
    batches: list[list[str]] = [[]]
    for name in shuffled:
        batches[-1].append(name)
        if chance.random() < 0.4:
            batches.append([])
    return batches


def verdicts(state: State) -> dict[str, str]:
    return {standing.check: standing.verdict for standing in standings(state)}


def oracle_verdicts(rows: Rows) -> dict[str, str]:
    return {check.name: check.verdict for check in check_history(rows).checks if check.name in WATCHED}


def renumber(rows: Rows) -> Rows:
    """Steps without gaps again, after rows were taken out or put in."""
    last: dict[tuple[str, str], int] = {}
    out = []
    for row in rows:
        owner = (row.get("run", ""), row["process"])
        last[owner] = last.get(owner, 0) + 1
        out.append({**row, "step": last[owner]})
    return out


def damage(rows: Rows, chance: random.Random) -> Rows:
    """One fault: two deliveries of a process exchanged, one dropped, repeated, or moved."""
    rows = list(rows)
    process = chance.choice(sorted({row["process"] for row in rows if row["kind"] == "deliver"}))
    at = [index for index, row in enumerate(rows) if row["process"] == process and row["kind"] == "deliver"]
    one = chance.randrange(len(at))
    two = min(len(at) - 1, max(0, one + chance.choice([-1, 1]) * chance.randint(1, 30)))
    match chance.randrange(4):
        case 0:
            for name in ("origin", "number"):
                first, second = rows[at[one]][name], rows[at[two]][name]
                rows[at[one]] = {**rows[at[one]], name: second}
                rows[at[two]] = {**rows[at[two]], name: first}
        case 1:
            del rows[at[one]]
        case 2:
            rows.insert(at[two], rows[at[one]])
        case _:
            rows.insert(at[two], rows.pop(at[one]))
    return renumber(rows)
