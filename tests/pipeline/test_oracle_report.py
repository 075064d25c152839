"""Choice of checks, missing columns, several runs, and the verdict on the whole."""

from typing import Any

import pytest

from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import CHECKS, Witness, check_history, default_checks
from tests.pipeline.oracle_text import history

SWAPPED = """
    a: [1a ab {protocol}] +1 a1 b1 .
    b: [1a ab {protocol}] +1 b1 a1 .
"""
ORDERED = """
    a: [1a ab] +1 a1@0 b1@1 .
    b: [1a ab] a1@0 +1 b1@1 .
"""


def without(rows: list[dict[str, Any]], *columns: str, kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in columns} for row in rows if row["kind"] not in kinds]


@pytest.mark.parametrize(
    ("protocol", "left_out"),
    [
        ("fifo", {"causal", "total_pairwise", "total_global", "position"}),
        ("causal", {"total_pairwise", "total_global", "position"}),
        ("semantic_total", {"fifo", "reliable_fifo", "causal", "total_pairwise", "total_global", "position"}),
        ("switching(fifo)", {"causal", "total_pairwise", "total_global", "position"}),
        ("sequencer", set()),
        ("switching(atop)", set()),
    ],
)
def test_protocol_decides(protocol: str, left_out: set[str]) -> None:
    chosen = set(default_checks([protocol]))
    semantic = {"semantic_fifo", "semantic_causal", "semantic_total"}
    assert chosen - semantic == set(CHECKS) - left_out - semantic - {"liveness"}
    assert chosen & semantic == (semantic if protocol.startswith("semantic") else set())
    report = check_history(history(SWAPPED.format(protocol=protocol)))
    assert (report.verdict == "ok") == ("total_pairwise" in left_out and not protocol.startswith("semantic"))


@pytest.mark.parametrize(
    ("protocols", "semantic"),
    [
        (["semantic_fifo"], {"semantic_fifo"}),
        (["semantic_causal"], {"semantic_fifo", "semantic_causal"}),
        (["semantic(causal)"], {"semantic_fifo", "semantic_causal"}),
        (["semantic(sequencer)"], {"semantic_fifo", "semantic_causal", "semantic_total"}),
        (["semantic_total", "semantic_fifo"], {"semantic_fifo"}),
        (["semantic_total", "causal"], {"semantic_fifo", "semantic_causal"}),
        (["sequencer"], set()),
        ([], set()),
    ],
)
def test_semantic_protocol_decides(protocols: list[str], semantic: set[str]) -> None:
    assert {name for name in default_checks(protocols) if name.startswith("semantic")} == semantic


def test_relation_for_a_log_without_protocols_asks_for_semantic_orders() -> None:
    chosen = set(default_checks([], with_relation=True))
    assert chosen >= {"semantic_fifo", "semantic_causal", "semantic_total"}
    assert chosen.isdisjoint({"fifo", "causal", "total_pairwise", "total_global", "position", "reliable_fifo"})
    assert default_checks(["sequencer"], with_relation=True) == default_checks(["sequencer"])


def test_weakest_protocol_decides() -> None:
    assert default_checks(["atop", "fifo", "causal"]) == default_checks(["fifo"])


def test_named_check_is_run_whatever_the_protocol() -> None:
    report = check_history(history(SWAPPED.format(protocol="fifo")), ["total_pairwise"])
    assert report.violated() == ["total_pairwise"]


def test_unknown_check() -> None:
    with pytest.raises(ConfigError, match=r"unknown check 'totl_global'.*did you mean 'total_global'"):
        check_history([], ["totl_global"])


@pytest.mark.parametrize(
    ("check", "columns", "kinds", "missing"),
    [
        ("integrity", (), ("send",), "send rows"),
        ("duplication", (), ("deliver",), "deliver rows"),
        ("fifo", (), ("deliver",), "deliver rows"),
        ("causal", (), ("send",), "send rows"),
        ("total_pairwise", (), ("deliver",), "deliver rows"),
        ("total_global", (), ("deliver",), "deliver rows"),
        ("position", ("position",), (), "column position on deliver rows"),
        ("view_identity", ("members",), (), "column members on view rows"),
        ("view_monotony", (), ("view",), "view rows"),
        ("self_inclusion", ("members",), (), "column members on view rows"),
        ("initial_view", ("view_epoch",), (), "column view_epoch on view rows"),
        ("sending_view", ("view_epoch",), (), "column view_epoch on deliver rows"),
        ("same_view", ("view_epoch",), (), "column view_epoch on deliver rows"),
        ("sender_in_view", (), ("view",), "view rows"),
        ("reliable_fifo", (), ("send",), "send rows"),
        ("virtual_synchrony", (), ("view",), "view rows"),
        ("agreement", (), ("stop",), "stop rows"),
        ("validity", (), ("stop",), "stop rows"),
        ("uniform", ("level",), (), "column level on deliver rows"),
        ("liveness", (), ("view",), "view rows"),
        ("resilience", ("level",), (), "column level on deliver rows"),
        ("resilience", ("members",), (), "column members on view rows"),
        ("semantic_fifo", (), ("deliver",), "deliver rows"),
        ("semantic_causal", (), ("send",), "send rows"),
        ("semantic_total", (), ("deliver",), "deliver rows"),
    ],
)
def test_missing_column_is_unknown(check: str, columns: tuple[str, ...], kinds: tuple[str, ...], missing: str) -> None:
    complete = check_history(history(ORDERED), [check])
    assert complete.verdict == "ok"
    report = check_history(without(history(ORDERED), *columns, kinds=kinds), [check])
    assert report.verdict == "unknown"
    assert report.checks[0].missing == missing
    assert report.checks[0].witness == Witness(f"undecided: the trace has no {missing}")


def test_bare_foreign_log() -> None:
    """Only the required columns: what can be decided is, the rest is unknown, and the whole is ok."""
    keep = ("process", "step", "kind", "origin", "number")
    rows = [{name: row[name] for name in keep if name in row} for row in history(ORDERED) if row["kind"] in ("send", "deliver")]
    report = check_history(rows)
    decided = {result.name for result in report.checks if result.verdict == "ok"}
    assert decided == {"integrity", "duplication", "fifo", "causal", "total_pairwise", "total_global"}
    assert {result.verdict for result in report.checks} == {"ok", "unknown"}
    assert report.verdict == "ok"
    assert check_history(rows, ["fifo", "validity"]).verdict == "unknown"


def test_nothing_is_unknown() -> None:
    assert check_history([]).verdict == "unknown"
    assert check_history([], ["fifo"]).to_json()["checks"][0]["verdict"] == "unknown"


def test_origin_without_any_trace_is_unknown_not_invented() -> None:
    text = """
        a: [1a ab] +1 a1@0 b1@1 .
    """
    report = check_history(history(text), ["integrity"])
    assert (report.verdict, report.checks[0].missing) == ("unknown", "trace of b#1")


def test_log_without_ends_is_complete() -> None:
    rows = without(history("a: +1 a1 b1"), kinds=("stop",))
    assert check_history(rows, ["integrity"]).violated() == ["integrity"]


def test_cut_trace_is_noted() -> None:
    text = """
        a: [1a ab] +1 a1@0
        b: [1a ab] a1@0 a2@1 .
    """
    [result] = check_history(history(text), ["integrity"]).checks
    assert (result.verdict, result.note) == ("ok", "1 deliveries of messages beyond the cut end of their sender's trace")


def test_runs_are_kept_apart() -> None:
    first = "a: +1 a1 b1\n b: +1 a1 b1"
    second = "a: +1 b1 a1\n b: +1 b1 a1"
    both = history(first, run="one") + history(second, run="two")
    assert check_history(both, ["total_global", "integrity", "duplication"]).verdict == "ok"
    assert check_history(history(first) + [{**row, "step": row["step"] + 9} for row in history(second)]).violated()
    broken = both + history("a: +1 +2 a2 a1", run="three")
    [result] = check_history(broken, ["fifo"]).checks
    assert str(result.witness) == "run three: a#1 delivers a#1:2 before a#1:1"
    assert result.witness is not None
    assert result.witness.run == "three"


def test_order_of_rows_in_the_input_does_not_matter() -> None:
    rows = history(SWAPPED.format(protocol="atop"))
    forward, backward = check_history(rows), check_history(rows[::-1])
    assert forward.to_json() == backward.to_json()


def test_json_object() -> None:
    report = check_history(history(SWAPPED.format(protocol="atop")), ["fifo", "total_pairwise"], quarantined=3)
    assert report.to_json() == {
        "verdict": "violated",
        "events": 10,
        "quarantined": 3,
        "checks": [
            {"name": "fifo", "verdict": "ok", "violations": 0, "witness": None},
            {
                "name": "total_pairwise",
                "verdict": "violated",
                "violations": 1,
                "witness": {
                    "text": "a#1 delivers a#1:1 before b#1:1, b#1 delivers b#1:1 before a#1:1",
                    "processes": ["a#1", "b#1"],
                    "messages": ["a#1:1", "b#1:1"],
                    "edges": [
                        {"from": "a#1:1", "to": "b#1:1", "process": "a#1", "why": "a#1 delivers a#1:1 before b#1:1"},
                        {"from": "b#1:1", "to": "a#1:1", "process": "b#1", "why": "b#1 delivers b#1:1 before a#1:1"},
                    ],
                },
            },
        ],
    }
