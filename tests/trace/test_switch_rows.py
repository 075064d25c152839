"""What a trace says about switches, in simulated runs: the rows that docs/trace.md describes, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isotone.sim import parse_scenario, run

DOCS = Path(__file__).resolve().parents[2] / "docs" / "trace.md"
KEYS = {"phase", "from", "to", "strategy", "rule", "instance"}
PHASES = ["request", "cut", "done"]


def rows_of(*faults: dict[str, Any], order: str = "single_phase") -> list[dict[str, Any]]:
    scenario = parse_scenario({
        "name": "switched", "members": ["a", "b", "c"], "duration_ms": 4_000, "order": order,
        "network": {"latency": {"kind": "constant", "ms": 10}},
        "workload": [{"kind": "periodic", "interval_ms": 20, "start_ms": 600, "stop_ms": 3_000}],
        "faults": list(faults),
    })  # fmt: skip
    return [dict(row) for row in run(scenario).rows]


def switch(at_ms: int, who: str, order: str, **more: Any) -> dict[str, Any]:
    return {"kind": "switch", "at_ms": at_ms, "who": who, "order": order, **more}


@pytest.mark.parametrize("strategy", ["dual_ids", "dual", "rabp", "stop"])
def test_each_process_writes_every_phase_once(strategy: str) -> None:
    rows = rows_of(switch(1_500, "b", "atop", strategy=strategy, level="safe"))
    for process in ("a#1", "b#1", "c#1"):
        mine = [row for row in rows if row["process"] == process]
        told = [row for row in mine if row["kind"] == "switch"]
        assert [row["detail"]["phase"] for row in told] == PHASES
        for row in told:
            assert row["detail"].keys() == KEYS
            detail = {"from": "single_phase", "to": "atop", "strategy": strategy, "rule": "all", "instance": "1"}
            assert row["detail"].items() >= detail.items()
        assert len({(row["view_epoch"], row["view_proposer"]) for row in told}) == 1
        assert [(row["protocol"], row["level"], row["k"]) for row in told] == [
            ("single_phase", "agreed", 1), ("single_phase", "agreed", 1), ("atop", "safe", 3),
        ]  # fmt: skip
        done = told[-1]["step"]
        for row in mine:
            if row["kind"] == "deliver":
                behind = row["step"] > done
                assert (row["position"][0], row["protocol"]) == ((1, "atop") if behind else (0, "single_phase"))


def test_a_second_switch_is_the_next_instance() -> None:
    rows = rows_of(switch(1_000, "a", "atop"), switch(2_000, "c", "sequencer"))
    for process in ("a#1", "b#1", "c#1"):
        told = [row["detail"] for row in rows if row["process"] == process and row["kind"] == "switch"]
        assert [(detail["instance"], detail["phase"]) for detail in told] == [(i, phase) for i in "12" for phase in PHASES]
        assert [detail["to"] for detail in told] == ["atop"] * 3 + ["sequencer"] * 3


def test_a_refused_request_leaves_no_switch_row_but_its_bytes() -> None:
    rows = rows_of(switch(1_500, "b", "single_phase"))  # in force already: nobody else is asked
    assert not [row for row in rows if row["kind"] == "switch" or "switch" in row.get("detail", {})]
    rows = rows_of(switch(1_500, "a", "atop"), switch(1_500, "c", "token"))
    assert {row["detail"]["to"] for row in rows if row["kind"] == "switch"} == {"atop"}
    paid = [row for row in rows if row["process"] == "c#1" and "switch" in row.get("detail", {})]
    assert (paid[0]["packet"], paid[0]["count"], paid[0]["fanout"]) == ("switch", 1, 1)  # its wish


def test_only_records_for_the_sake_of_a_switch_are_marked() -> None:
    quiet = rows_of()
    assert not [row for row in quiet if row["kind"] == "packet" and row.get("detail")]
    rows = rows_of(switch(1_500, "b", "all_ack", strategy="dual"), order="sequencer")
    marked = [row for row in rows if row["kind"] == "packet" and row.get("detail")]
    assert {row["detail"]["switch"] for row in marked} == {"1"}
    assert {"switch", "again", "ack"} == {row["packet"] for row in marked}  # all_ack's before it is in force
    for process in ("a#1", "b#1", "c#1"):
        done = next(row for row in rows if row["process"] == process and row.get("detail", {}).get("phase") == "done")
        acks = [row for row in rows if row["process"] == process and row.get("packet") == "ack"]
        assert {bool(row.get("detail")) for row in acks if row["step"] < done["step"]} == {True}
        assert {bool(row.get("detail")) for row in acks if row["time"] > done["time"]} == {False}


def test_the_documentation_names_all_of_it() -> None:
    text = DOCS.read_text(encoding="utf-8").partition("## Switches")[2].partition("## Files")[0]
    for word in (*KEYS, *PHASES, "again"):
        assert f"`{word}`" in text, word
