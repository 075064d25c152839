"""Scenarios: errors that help, overrides, and that the page documents every key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from isotone.model.errors import ConfigError
from isotone.sim import load_scenario, parse_overrides, parse_scenario
from isotone.sim.faults import AnyFault
from isotone.sim.scenario import FAULTS, LATENCIES, LIMIT_KEYS, TIMING_KEYS, LinkOverride, NetworkSettings, Scenario, keys_of
from isotone.sim.workload import Phase

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = sorted((REPOSITORY / "scenarios").glob("*.toml"))
BASE: dict[str, Any] = {"members": ["a", "b"], "duration_ms": 100}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"membres": []}, "unknown scenario key 'membres': did you mean 'members'?"),
        ({"network": {"los": 1}}, "unknown scenario key 'network.los': did you mean 'network.loss'?"),
        ({"network": {"links": [{"form": "a"}]}}, "'network.links.form': did you mean 'network.links.from'?"),
        ({"network": {"latency": {"kind": "uniformly"}}}, "unknown latency kind 'uniformly': did you mean 'uniform'?"),
        ({"network": {"latency": {"kind": "constant", "mss": 1}}}, "did you mean 'network.latency.ms'?"),
        ({"network": {"latency": {"ms": 1}}}, "network.latency.kind is missing"),
        ({"network": {"loss": 2}}, "network loss must be a probability"),
        ({"network": {"loss": "much"}}, "Expected `float`, got `str` - at `network.loss`"),
        ({"timing": {"hard": 1}}, "unknown scenario key 'timing.hard': did you mean 'timing.hard_ms'?"),
        ({"timing": {"soft_ms": 10}}, "timing must satisfy heartbeat_ns < soft_ns <= hard_ns"),
        ({"limits": {"window_cast": 1}}, "did you mean 'limits.window_casts'?"),
        ({"workload": [{"interval": 1}]}, "did you mean 'workload.interval_ms'?"),
        ({"workload": [{"members": ["aa"]}]}, "unknown member in workload.members 'aa'"),
        ({"workload": [{"size_min": 9, "size_max": 1}]}, "size_min <= size_max"),
        ({"faults": [{"at_ms": 1, "kind": "crahs", "who": "a"}]}, "unknown fault kind 'crahs': did you mean 'crash'?"),
        ({"faults": [{"at_ms": 1, "kind": "crash", "whom": "a"}]}, "did you mean 'faults.who'?"),
        ({"faults": [{"at_ms": 1, "kind": "crash"}]}, "missing required field `who`"),
        ({"faults": [{"kind": "heal"}]}, "missing required field `at_ms`"),
        ({"faults": [{"at_ms": 1, "kind": "crash", "who": "z"}]}, "unknown member in faults (crash) 'z'"),
        ({"faults": [{"at_ms": 1, "kind": "partition", "groups": [["a"], ["a"]]}]}, "two groups"),
        ({"faults": [{"at_ms": 1, "kind": "set"}]}, "changes nothing"),
        ({"seeds": ["z"]}, "unknown member in seeds 'z'"),
        ({"members": []}, "at least one"),
        ({"members": ["a", "a"]}, "twice"),
        ({"members": ["a b"]}, "process name 'a b'"),
        ({"level": "sage"}, "Invalid enum value 'sage'"),
        ({"duration_ms": 0}, "duration_ms and dial_ms must be positive"),
    ],
)
def test_errors_say_what_would_be_right(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_scenario({**BASE, **change})


def test_a_late_joiner_may_be_named() -> None:
    joining = parse_scenario({**BASE, "faults": [{"at_ms": 1, "kind": "join", "who": "z"}], "seeds": ["z"]})
    assert joining.everybody() == ["a", "b", "z"]


def test_overrides_reach_every_place() -> None:
    overrides = parse_overrides(
        ["network.loss=0.25", "workload.0.interval_ms=7", "timing.hard_ms=9000", "order=fifo", 'members=["x", "y"]']
    )
    loaded = load_scenario(REPOSITORY / "scenarios" / "lossy.toml", {"faults": [], "network.links": [], **overrides})
    assert (loaded.network.loss, loaded.workload[0].interval_ms, loaded.order) == (0.25, 7, "fifo")
    assert loaded.timing_settings().hard_ns == 9_000_000_000
    assert loaded.members == ["x", "y"]
    assert loaded.name == "lossy"


@pytest.mark.parametrize(
    ("key", "message"),
    [("network.los", "did you mean 'network.loss'"), ("workload.5.burst", "not an index"), ("seed.x", "nothing lies below")],
)
def test_wrong_overrides_are_errors(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_scenario(REPOSITORY / "scenarios" / "lossy.toml", {key: 1})


def test_unreadable_files_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_scenario(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("members = [")
    with pytest.raises(ConfigError, match=re.escape("bad.toml")):
        load_scenario(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match="write key=value"):
        parse_overrides(["novalue"])


def test_what_is_wrong_with_a_conflict_file_is_said_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "group.toml").write_text('members = ["a"]\norder = "semantic_total"\nconflicts = "relation.toml"\n')
    (tmp_path / "relation.toml").write_text('by = "items"')
    with pytest.raises(ConfigError, match=r"conflict file .*relation\.toml: unknown value of by 'items'"):
        load_scenario(tmp_path / "group.toml")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios_load(path: Path) -> None:
    assert load_scenario(path).name == path.stem


def test_every_key_is_documented() -> None:
    text = (REPOSITORY / "docs" / "scenarios.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))

    def words(heading: str, first_column: str | None = None) -> set[str]:
        lines = sections[heading].splitlines()
        if first_column is not None:
            lines = [line for line in lines if line.startswith(f"| `{first_column}` |")]
        return set(re.findall(r"`([a-z_0-9]+)`", "\n".join(lines)))

    tables = {"timing", "limits", "network", "workload", "faults"}
    assert set(keys_of(Scenario)) - tables <= words("The run")
    assert set(TIMING_KEYS) <= words("`[timing]`")
    assert set(LIMIT_KEYS) <= words("`[limits]`")
    assert set(keys_of(NetworkSettings)) | set(keys_of(LinkOverride)) <= words("`[network]`")
    assert set(keys_of(Phase)) <= words("`[[workload]]`")
    for kind, struct in LATENCIES.items():
        assert set(keys_of(struct)) - {"kind"} <= words("`[network]`", kind), kind
    assert {"at_ms", "kind"} <= words("`[[faults]]`")
    for kind, fault in FAULTS.items():
        assert set(keys_of(fault)) - {"kind", "at_ms"} <= words("`[[faults]]`", kind), kind
    assert len(FAULTS) == len(AnyFault.__args__)
