"""The watch at length: many storms against the oracle, and a watch that is killed again and again."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from isotone.protocol.ordering import registry
from isotone.sim import run
from tests.spark.test_watch_judge import ROOMY, TIGHT, storm
from tests.spark.test_watch_live import Watcher
from tests.spark.watching import Rows, batches_of, cut, damage, oracle_verdicts, verdicts, watch

pytestmark = pytest.mark.long

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


@pytest.mark.parametrize("order", registry.names())
def test_many_storms_are_judged_as_the_oracle_does(tmp_path: Path, order: str) -> None:
    for seed in range(1, 25):
        clean = storm(seed, order)
        for case in range(6):
            chance = random.Random(100 * seed + case)
            rows = clean if case == 0 else damage(clean, chance)
            expected = oracle_verdicts(rows)
            place = tmp_path / f"{seed}-{case}"
            names = cut(place, rows, chance, pieces=8)
            assert verdicts(watch(place, batches_of(names, chance), ROOMY)) == expected, (seed, case)
            tight = verdicts(watch(place, batches_of(names, chance), TIGHT))
            assert all(tight[check] in (expected[check], "unknown") for check in expected), (seed, case)


@pytest.mark.live
def test_killed_again_and_again(tmp_path: Path) -> None:
    rows: Rows = [dict(row) for row in run(SCENARIOS / "partition_merge.toml", seed=4).rows]
    chance = random.Random(1)
    names = cut(tmp_path / "aside", rows, chance, pieces=40)
    chance.shuffle(names)
    trace = tmp_path / "trace"
    trace.mkdir()
    for life in range(6):
        watcher = Watcher(str(trace))
        deadline = time.monotonic() + 60.0
        while not watcher.heard("begin"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for name in names[life::6]:
            (tmp_path / "aside" / name).rename(trace / name)
            time.sleep(chance.uniform(0.0, 0.3))
        watcher.process.send_signal(signal.SIGKILL)
        watcher.process.wait()
    last_watcher = Watcher(str(trace), "--until-idle", "1")
    status, last = last_watcher.end()
    assert (status, last["events"], last["held"], last["quarantined"]) == (0, len(rows), 0, 0)
    assert {check["name"]: check["verdict"] for check in last["checks"]} == oracle_verdicts(rows)
