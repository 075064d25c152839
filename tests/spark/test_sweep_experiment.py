"""Experiments: what may stand in the file, which cells it spans, and what decides the id of a cell."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import ConfigError
from isotone.pipeline.sweeps import experiment as experiments
from isotone.pipeline.sweeps.experiment import Experiment, load_experiment, parse_experiment, toml_file, toml_text
from isotone.sim import load_scenario

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {
    "members": ["a", "b", "c"],
    "duration_ms": 2500,
    "workload": [{"interval_ms": 50, "start_ms": 1200, "stop_ms": 2000}],
}


def ids(experiment: Experiment) -> list[str]:
    return [cell.id for cell in experiment.cells]


def spanned(text: str, **more: Any) -> Experiment:
    return parse_experiment({"scenario": SMALL, "grid": tomllib.loads(text), **more})


def test_a_grid_is_a_product() -> None:
    found = spanned('order = ["fifo", "causal"]\nnetwork.loss = [0, 0.5]\n"workload.0.burst" = [1, 2]', seeds=3)
    assert found.parameters == ("order", "network.loss", "workload.0.burst")
    assert len(found.cells) == len(set(ids(found))) == 2 * 2 * 2 * 3
    assert [(cell.parameters, cell.seed) for cell in found.cells[:4]] == [
        *(({"order": "fifo", "network.loss": 0, "workload.0.burst": 1}, seed) for seed in (1, 2, 3)),
        ({"order": "fifo", "network.loss": 0, "workload.0.burst": 2}, 1),
    ]


def test_several_grids_and_scenarios_add_up(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(toml_file(SMALL))
    grids = [{"order": ["fifo", "causal"]}, {"order": "sequencer", "options": {"fallback": ["returned", "classical"]}}]
    found = parse_experiment({"scenario": ["one.toml", "two.toml"], "grid": grids}, tmp_path)
    assert len(found.cells) == len(set(ids(found))) == 2 * 4
    assert found.cells[-1].parameters == {"order": "sequencer", "options.fallback": "classical"}
    assert len(parse_experiment({"scenario": SMALL}).cells) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"grid": {"network.los": [1]}}, "did you mean 'network.loss'"),
        ({"grid": {"netwrk": {"loss": [1]}}}, "did you mean 'network'"),
        ({"grid": {"order": ["fifo", "sequencr"]}}, "grid point order = \"sequencr\": unknown order 'sequencr': did you mean"),
        ({"grid": {"workload.1.burst": [1]}}, "'1' is not an index below 1"),
        ({"grid": {"network.loss": ["much"]}}, "Expected `float`"),
        ({"grid": {"network.loss": []}}, "network.loss has no values"),
        ({"grid": {"seed": [1, 2]}}, "write seeds = COUNT"),
        ({"grid": [1]}, "grid must be a table"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": [1, "2"]}, "seeds must be"),
        ({"sedes": 3}, "did you mean 'seeds'"),
        ({"checks": ["fifoo"]}, "did you mean 'fifo'"),
        ({"checks": "fifo"}, "checks must be a list"),
        ({"conflicts": "nowhere.toml"}, "nowhere.toml"),
        ({"conflicts": 1}, "conflicts must be the path"),
        ({"metrics": ["latency_mean"]}, "did you mean 'latency_mean_ns'"),
        ({"measures": ["mine"]}, "write module:function"),
        ({"measures": ["nowhere_at_all:f"]}, "cannot import nowhere_at_all"),
        ({"measures": ["json:dumbs"]}, "did you mean 'dumps'"),
        ({"timeout_s": 0}, "timeout_s must be"),
        ({"scenario": "nowhere.toml"}, "nowhere.toml: No such file"),
        ({"scenario": 7}, "scenario must be"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_experiment({"scenario": SMALL, **change})
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text("grid = 3 x")
    for content in ("grid = 3 x", "", "scenario = { members = [] }"):
        file.write_text(content)
        with pytest.raises(ConfigError, match=r"experiment\.toml: "):
            load_experiment(file)
    with pytest.raises(ConfigError, match=r"nothing\.toml: No such file"):
        load_experiment(tmp_path / "nothing.toml")


def test_ids_cover_what_decides_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = spanned("network.loss = [0, 0.1]", seeds=2)
    assert ids(spanned("network.loss = [0, 0.1]", seeds=2)) == ids(base)
    same = parse_experiment({"scenario": {**SMALL, "description": "words"}, "grid": {"network.loss": [0.1]}, "seeds": [2]})
    assert ids(same) == [ids(base)[3]], "neither words nor the rest of the grid matter"
    assert ids(parse_experiment({"scenario": {**SMALL, "network": {"loss": 0.1}}, "seeds": [2]})) == [ids(base)[3]]
    others = [
        spanned("network.loss = [0, 0.1]", seeds=2, checks=["fifo"]),
        spanned("network.loss = [0, 0.1]", seeds=2, metrics=[]),
        parse_experiment({"scenario": {**SMALL, "dial_ms": 50}, "grid": {"network.loss": [0, 0.1]}, "seeds": 2}),
    ]
    for content in ("def one(table):\n    return {'x': 1}\n", "def one(table):\n    return {'x': 2}\n"):
        (tmp_path / "mine.py").write_text(content)
        own = {"scenario": SMALL, "grid": {"network.loss": [0, 0.1]}, "measures": ["mine:one"]}
        others.append(parse_experiment(own, tmp_path))
    monkeypatch.setattr(experiments, "_code", lambda: "another version")
    others.append(spanned("network.loss = [0, 0.1]", seeds=2))
    every = [one for other in (base, *others) for one in ids(other)]
    assert len(set(every)) == len(every)


def test_values_survive_toml() -> None:
    value = {"text": 'a "quoted" \\ line\n\t\x7f é', "list": [1, 2.5, -0.0, 1e300, True], "table": {"dotted.key": [{"x": []}]}}
    assert tomllib.loads(f"value = {toml_text(value)}")["value"] == value
    data = tomllib.loads((ROOT / "scenarios" / "anomaly.toml").read_text())
    assert tomllib.loads(toml_file(data)) == data


def test_the_examples_load() -> None:
    files = sorted((ROOT / "experiments").glob("*.toml"))
    assert files
    for file in files:
        loaded = load_experiment(file)
        assert loaded.cells
        assert all(base.path is None or load_scenario(base.path) for base in loaded.scenarios)
