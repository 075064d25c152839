"""A trace names its conflict relation, and the semantic checks use it without being told."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.model.conflicts import Conflicts, from_name, named
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import Expectation, Report, check_history

COUNTER = Conflicts.by_operation({"update": ["update", "increment"], "increment": []})


def never(type_a: object, items_a: object, type_b: object, items_b: object) -> bool:
    return False


def history(a: str, b: str, type_: str = "increment") -> list[dict[str, Any]]:
    """Two processes that deliver two messages, increments if nothing else is said, in opposite orders."""
    rows: list[dict[str, Any]] = []
    for process, named_, order in (("a#1", a, (1, 2)), ("b#1", b, (2, 1))):
        mine: list[dict[str, Any]] = [{"kind": "start", "detail": {"conflicts": named_} if named_ else {}}]
        if process == "a#1":
            mine += [{"kind": "send", "origin": "a#1", "number": n, "type": type_} for n in (1, 2)]
        mine += [{"kind": "deliver", "origin": "a#1", "number": n, "protocol": "semantic_total"} for n in order]
        rows += [{"process": process, "step": step, **row} for step, row in enumerate(mine)]
    return rows


def verdicts(report: Report) -> dict[str, str]:
    return {check.name: check.verdict for check in report.checks}


@pytest.mark.parametrize(
    "relation",
    [
        None,
        Conflicts.by_item(),
        COUNTER,
        Conflicts.by_both({"insert": ["insert"], "read": []}, always={"scroll": ["scroll"]}),
        Conflicts("predicate", name="p", version="2"),
    ],
)
def test_a_relation_comes_back_from_its_name(relation: Conflicts | None) -> None:
    assert from_name(named(relation)) == (relation or Conflicts())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"by":"predicate"}', '{"by":"operation","operations":{"a":["b"]}}', "\x00"])
def test_what_names_no_relation_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="the trace names a conflict relation that is none"):
        from_name(text)


def test_the_relation_of_the_trace_decides() -> None:
    assert verdicts(check_history(history(named(COUNTER), named(COUNTER))))["semantic_total"] == "ok"
    assert verdicts(check_history(history(named(COUNTER), named(COUNTER), "update")))["semantic_total"] == "violated"


def test_a_relation_that_is_given_decides_against_the_trace() -> None:
    rows = history(named(COUNTER), named(COUNTER))
    assert verdicts(check_history(rows, expected=Expectation(conflicts=Conflicts())))["semantic_total"] == "violated"


def test_where_everything_conflicts_the_plain_order_is_asked() -> None:
    found = verdicts(check_history(history(named(None), named(None))))
    assert found["total_pairwise"] == "violated"
    assert "semantic_total" not in found


def test_relations_that_differ_leave_it_open() -> None:
    report = check_history(history(named(COUNTER), named(Conflicts.by_item())), ["semantic_total"])
    assert report.verdict == "unknown"
    assert "a#1 and b#1 name different conflict relations" in str(report.checks[0].witness)


def test_a_predicate_is_asked_if_it_is_known_here() -> None:
    text = named(Conflicts("predicate", name="test_named_relations.never"))
    report = check_history(history(text, text), ["semantic_total"])
    assert report.verdict == "unknown"
    assert "the conflict predicate 'test_named_relations.never' is not known here" in str(report.checks[0].witness)
    Conflicts.by_predicate("test_named_relations.never", never)
    assert check_history(history(text, text), ["semantic_total"]).verdict == "ok"


def test_a_type_that_the_named_relation_does_not_declare_leaves_it_open() -> None:
    report = check_history(history(named(COUNTER), named(COUNTER), "reset"), ["semantic_total"])
    assert report.verdict == "unknown"
    assert "unknown message type 'reset'" in str(report.checks[0].witness)
