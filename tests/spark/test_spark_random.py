"""The scan against the oracle on many small random histories, all in one trace: each is a run of its own."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from isotone.pipeline import scan
from isotone.pipeline.oracle import check_history
from isotone.trace.columns import table_of_rows

RUNS = 600


def random_run(name: str, chance: random.Random) -> list[Any]:
    """A few processes, each sending and delivering in some order; then perhaps damage."""
    members = [f"{letter}#1" for letter in "abcd"[: chance.randint(2, 4)]]
    counts = dict.fromkeys(members, 0)
    total: list[tuple[str, int]] = []
    for _ in range(chance.randint(1, 10)):
        sender = chance.choice(members)
        counts[sender] += 1
        total.append((sender, counts[sender]))
    placed, ends = chance.random() < 0.9, chance.random() < 0.5
    rows: list[Any] = []
    for process in members:
        events: list[dict[str, Any]] = []
        first, last = (0, len(total)) if chance.random() < 0.7 else sorted(chance.choices(range(len(total) + 1), k=2))
        for place, (origin, number) in enumerate(total):
            about = {"origin": origin, "number": number, "view_epoch": 1 + place // 6, "view_proposer": "a#1"}
            if origin == process:
                at = chance.randint(0, len(events)) if chance.random() < 0.05 else len(events)
                events.insert(at, {"kind": "send", "digest": number, **about})
            if first <= place < last and chance.random() > 0.02:
                event = {"kind": "deliver", "digest": number, "protocol": "sequencer", **about}
                events.append({**event, "position": (0, place)} if placed else event)
        if events and chance.random() < 0.25:
            damage(events, chance)
        if ends and chance.random() < 0.8:
            events.append({"kind": chance.choice(["stop", "crash"])})
        rows.extend({"run": name, "process": process, "step": step, **event} for step, event in enumerate(events, start=1))
    return rows


def damage(events: list[dict[str, Any]], chance: random.Random) -> None:
    one, two = chance.randrange(len(events)), chance.randrange(len(events))
    match chance.randrange(7):
        case 0:
            events[one], events[two] = events[two], events[one]
        case 1:
            events.insert(two, events[one])
        case 2:
            events[one] = {**events[one], "digest": 77}
        case 3:
            events[one] = {**events[one], "position": (0, chance.randint(0, 12))}
        case 4:
            del events[one]
        case 5:
            events[one] = {**events[one], "number": chance.randint(1, 12)}
        case _:
            events[one] = {**events[one], "kind": chance.choice(["returned", "send", "deliver"])}


@pytest.mark.parametrize("seed", [20, 21, 22])
def test_every_run_is_judged_as_the_oracle_does(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    runs = {f"r{index:04d}": random_run(f"r{index:04d}", chance) for index in range(RUNS)}
    everything = [row for rows in runs.values() for row in rows]
    half = len(everything) // 2
    for name, part in (("x", everything[:half]), ("y", everything[half:])):
        pq.write_table(table_of_rows(part), tmp_path / f"{name}.parquet", row_group_size=1_000)
    outcome = scan.verify([str(tmp_path)], scan.SCANNED, session=spark, small_rows=0)
    found = {(run, name): verdict for run, verdicts in outcome.runs.items() for name, verdict in verdicts.items()}
    reports = {run: check_history(rows, scan.SCANNED) for run, rows in runs.items() if rows}
    expected = {(run, check.name): check.verdict for run, report in reports.items() for check in report.checks}
    wrong = {key: (found.get(key), verdict) for key, verdict in expected.items() if found.get(key) != verdict}
    assert wrong == {}
    assert len(set(expected.values())) == 3
