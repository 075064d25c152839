"""Which rows a diagram is made of."""

from __future__ import annotations

from typing import Any

from isotone.pipeline.oracle import CheckResult, Witness, check_history
from isotone.report.cutout import CONTEXT, cut_around, group_witnesses, spans_around, unsent
from tests.pipeline.oracle_text import history

CROSSED = """
a: [1a ab] +1 a1 b1 .
b: [1a ab] +1 b1 a1 .
"""


def violated(name: str, *messages: tuple[str, int], **more: Any) -> CheckResult:
    return CheckResult(name, "violated", 1, Witness("words", ("a#1",), messages, **more))


def test_witnesses_of_the_same_messages_share_a_diagram() -> None:
    report = check_history(history(CROSSED), ["total_pairwise", "total_global", "fifo"])
    (group,) = group_witnesses(report.checks, "")
    assert group.title == "total_pairwise, total_global"
    assert set(group.messages) == {("a#1", 1), ("b#1", 1)}
    assert group.words.startswith("total_pairwise: a#1 delivers ")


def test_a_witness_about_a_part_of_another_joins_it() -> None:
    checks = [violated("position", ("a#1", 1)), violated("total_pairwise", ("a#1", 1), ("b#1", 1))]
    (group,) = group_witnesses(checks, "")
    assert group.title == "total_pairwise, position"


def test_witnesses_of_other_messages_views_or_runs_stand_alone() -> None:
    checks = [
        violated("fifo", ("a#1", 1)),
        violated("integrity", ("a#1", 2)),
        violated("duplication", ("a#1", 1), run="two"),
        violated("view_monotony", views=((2, "a#1"), (3, "a#1"))),
        CheckResult("causal", "unknown", 0, Witness("no column")),
    ]
    groups = group_witnesses(checks, "one")
    assert [(group.title, group.run) for group in groups] == [
        ("fifo", "one"),
        ("integrity", "one"),
        ("duplication", "two"),
        ("view_monotony", "one"),
    ]
    assert groups[-1].views == [(2, "a#1"), (3, "a#1")]


def test_what_is_near_is_shown_with_all_between_and_what_is_far_is_not() -> None:
    near = spans_around([{"process": "a", "step": 1_000}, {"process": "a", "step": 1_100}])
    assert near == {"a": [(1_000 - CONTEXT, 1_100 + CONTEXT)]}
    far = spans_around([{"process": "a", "step": 9_000}, {"process": "a", "step": 1_000}])
    assert far == {"a": [(1_000 - CONTEXT, 1_000 + CONTEXT), (9_000 - CONTEXT, 9_000 + CONTEXT)]}
    many = spans_around([{"process": f"p{index}", "step": 1_000} for index in range(200)])
    assert set(map(tuple, many.values())) == {((996, 1_004),)}


def test_the_focus_is_on_the_rows_in_question() -> None:
    rows = history("a: [1a a] " + " ".join(f"+{number} a{number}" for number in range(1, 200)) + " .")
    anchors = [row for row in rows if row.get("number") in (100, 103)]
    (group,) = group_witnesses([violated("fifo", ("a#1", 100), ("a#1", 103))], "")
    cut = cut_around(group, anchors, rows, {"a#1": 0}, True)
    shown = {event.message[1] for event in cut.events[cut.focus[0] : cut.focus[1] + 1] if event.message}
    assert {100, 101, 102, 103} <= shown
    assert len(shown) < 12


def test_sends_outside_the_cut_out_are_asked_for() -> None:
    rows = history("a: b1 a2 +3 a3 .")
    (group,) = group_witnesses([violated("fifo", ("a#1", 2))], "")
    assert unsent(cut_around(group, rows[:1], rows, {}, True)) == {"a#1": [2], "b#1": [1]}
