"""`isotone learn`: from a sweep to the table of a policy; and that the packaged table is what it says it is."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from isotone.cli import main
from isotone.cli.learn import DESCRIPTION
from isotone.model.errors import ConfigError
from isotone.pipeline.learn import Point, learn, point, read_cells, read_sweep, write_cells, write_table
from isotone.pipeline.sweeps.experiment import load_experiment
from isotone.protocol.switching.table import AXES, parse_table
from isotone.sim import parse_scenario, run
from isotone.trace.columns import require_pyarrow

ROOT = Path(__file__).resolve().parents[2]
CELLS = ROOT / "experiments" / "policy.csv"
PACKAGED = ROOT / "src" / "isotone" / "protocol" / "switching" / "table.json"


def test_the_packaged_table_is_made_from_the_stored_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["learn", str(CELLS), "--out", str(tmp_path / "table.json")])
    assert end.value.code == 0
    assert (tmp_path / "table.json").read_text() == PACKAGED.read_text()
    assert "6 orders at 512 points" in capsys.readouterr().out


def test_the_experiment_is_what_its_script_writes(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "policy_grid.py"
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path / "policy.toml")], check=True)
    assert (tmp_path / "policy.toml").read_text() == (ROOT / "experiments" / "policy.toml").read_text()


def mean_latency_ns(parameters: dict[str, Any], data: dict[str, Any], seed: int) -> float:
    """Simulated anew."""
    rows = run(msgspec.structs.replace(parse_scenario(data, parameters), seed=seed)).rows
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    delays = [row["time"] - sent[row["origin"], row["number"]] for row in rows if row["kind"] == "deliver"]
    return sum(delays) / len(delays)


def test_the_stored_cells_are_those_of_the_experiment_and_still_true() -> None:
    """All points are there, and a few cells give what is stored: within 5 %, for not every change of a protocol matters."""
    experiment = load_experiment(ROOT / "experiments" / "policy.toml")
    stored = {one[:-1]: one.latency_ns for one in read_cells(CELLS)}
    cells = {point(cell.parameters, cell.seed, 0)[:-1]: cell for cell in experiment.cells}
    assert set(stored) == set(cells)
    rng = random.Random(6)
    for order in sorted({key[5] for key in cells}):
        some = [key for key in sorted(cells) if key[5] == order and key[0] <= 5]
        for key in rng.sample(some, 3):
            cell = cells[key]
            fresh = mean_latency_ns(dict(cell.parameters), experiment.scenarios[cell.scenario].data, cell.seed)
            assert fresh == pytest.approx(stored[key], rel=0.05), f"{cell.parameters}: run the sweep again, and isotone learn"


def grid() -> list[Point]:
    return [
        Point(members, skew, rate, delay, loss, order, seed, 1_000_000 * members + 10_000 * seed)
        for members in (3, 5)
        for skew in (0, 1000)
        for rate in (2, 100)
        for delay in (500, 5000)
        for loss in (0, 20)
        for order in ("atop", "token")
        for seed in (1, 2)
    ]


def test_seeds_are_averaged_and_files_are_read_back(tmp_path: Path) -> None:
    points = grid()
    table = learn(points, DESCRIPTION)
    assert list(table.axes) == list(AXES)
    assert set(table.orders) == {"atop", "token"}
    assert table.orders["atop"] == [3015] * 16 + [5015] * 16
    assert parse_table(write_table(table).encode(), "t") == table
    (tmp_path / "cells.csv").write_text(write_cells(reversed(points)))
    assert read_cells(tmp_path / "cells.csv") == sorted(points)


def test_what_loss_adds_is_averaged_with_the_neighbours_in_size() -> None:
    """A cell by chance twice as slow as its neighbours is drawn to them, and nothing else moves without loss."""
    outlier = (3, 0, 2, 500, 20)
    points = [
        one._replace(latency_ns=2_000_000 + (0 if one.loss == 0 else 16_000_000 if one.place == outlier else 1_000_000))
        for one in grid()
        if one.seed == 1
    ]
    cells = dict(zip(product(*learn(points).axes.values()), learn(points).orders["atop"], strict=True))
    weights = {outlier: 2 / 3, (5, 0, 2, 500, 20): 1 / 3}
    for place, latency in cells.items():
        lossy = 1_000 * 16 ** weights.get(place, 0)
        assert latency == pytest.approx(2_000 + (lossy if place[4] else 0), abs=1)


def test_a_cell_is_described_by_its_parameters() -> None:
    latency = {"kind": "uniform", "min_ms": 1, "max_ms": 3}
    busy = {"kind": "poisson", "members": ["a"], "interval_ms": 10}
    rest = {"kind": "poisson", "members": ["b", "c"], "interval_ms": 100}
    given = {
        "members": ["a", "b", "c"],
        "workload": [busy, rest],
        "network.latency": latency,
        "network.loss": 0.02,
        "order": "atop",
    }
    assert point(given, 7, 123.4) == Point(3, 750, 120, 2000, 20, "atop", 7, 123)
    assert point({**given, "workload": [{"interval_ms": 20.0}]}, 7, 5)[1:3] == (0, 150)
    heavy = {"kind": "heavy", "min_ms": 1, "median_ms": 2}
    with pytest.raises(ConfigError, match="of the kind 'heavy': only constant and uniform have a plain mean"):
        point({**given, "network.latency": heavy}, 7, 5)


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([], "there is nothing to learn from: no cells"),
        (
            grid()[:-2],
            "no cell of token with members 5, skew 1000, per_second 100, delay_us 5000, loss 20: the cells must be a full grid",
        ),
        ([grid()[0]._replace(order="fifo")], "order 'fifo' is not total"),
        ([grid()[0]._replace(order="atopp")], "unknown order 'atopp': did you mean 'atop'"),
        ([grid()[0]], "axis members is .3.: must be two or more growing numbers"),
    ],
)
def test_what_cannot_be_learned_from_is_one_clear_line(points: list[Point], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        learn(points)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the first line must be members,skew,"),
        ("a,b\n", "the first line must be members,skew,"),
        (",".join(Point._fields) + "\n1,2,3\n", "line 2: must be numbers, and an order, of members"),
        (",".join(Point._fields) + "\n3,0,2,500,0,atop,1,x\n", "line 2: must be numbers"),
    ],
)
def test_malformed_cells_are_one_clear_line(text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cells.csv").write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["learn", str(tmp_path / "cells.csv"), "--out", str(tmp_path / "t.json")])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not (tmp_path / "t.json").exists()


def sweep_table(path: Path, **changes: Any) -> None:
    """The table of a sweep of one cell."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    row = {
        "cell": "c1", "members": ["a", "b"], "workload": '[{"interval_ms": 10.0}]', "network.loss": 0.0, "order": "atop",
        "seed": 1, "network.latency": '{"kind": "constant", "ms": 2.0}', "error": None, "latency_mean_ns": 4e6, **changes,
    }  # fmt: skip
    pq.write_table(pa.Table.from_pylist([{key: value for key, value in row.items() if value != "none"}]), path / "cells.parquet")


def test_a_sweep_is_read(tmp_path: Path) -> None:
    sweep_table(tmp_path)
    assert read_sweep(tmp_path) == [Point(2, 0, 200, 2000, 0, "atop", 1, 4_000_000)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"latency_mean_ns": "none"}, "a sweep to learn from needs latency_mean_ns in its metrics"),
        ({"workload": "none"}, "a sweep to learn from needs workload in its grid"),
        ({"error": "boom", "latency_mean_ns": None}, "cell c1 has no latency: boom"),
        ({"latency_mean_ns": None}, "cell c1 has no latency: nothing was delivered"),
        ({"workload": '[{"interval": 10.0}]'}, "cell c1: .*unknown field `interval`"),
    ],
)
def test_a_sweep_that_cannot_be_used_is_one_clear_line(changes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    sweep_table(tmp_path, **changes)
    with pytest.raises(ConfigError, match=problem):
        read_sweep(tmp_path)


def test_a_directory_without_a_sweep_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cells\.parquet: .*is it the directory of a finished sweep"):
        read_sweep(tmp_path)
