"""Which part of a run a diagram shows."""

from __future__ import annotations

from typing import Any

from isotone.pipeline.oracle import CheckResult, check_history
from isotone.report import choose_cutouts, tell_stories
from isotone.report.cutout import CONTEXT, find_named
from tests.pipeline.oracle_text import history

CROSSED = """
a: [1a ab] +1 a1 b1 .
b: [1a ab] +1 b1 a1 .
"""


def busy(count: int, apart: int = 1_000_000) -> list[dict[str, Any]]:
    """One process that sends to itself, one message per `apart` nanoseconds."""
    rows: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        for kind in ("send", "deliver"):
            about = {"origin": "a#1", "number": number}
            rows.append({"process": "a#1", "step": len(rows) + 1, "time": number * apart, "kind": kind, **about})
    return rows


def violated(witness: str, name: str = "fifo") -> CheckResult:
    return CheckResult(name, "violated", 1, witness)


def test_names_are_found_in_the_words_of_a_witness() -> None:
    (story,) = tell_stories(history(CROSSED))
    named = find_named("b#1 installs view 1@a#1, then delivers a#1:1 (not a#1:17, aa#1:1 or a#11:1)", story)
    assert named.messages == (("a#1", 1),)
    assert named.views == ("1@a#1",)
    assert named.processes[0] == "b#1"


def test_odd_process_names_are_found_too() -> None:
    rows = [{"process": "n 1 (x)", "step": 1, "kind": "send", "origin": "n 1 (x)", "number": 3}]
    (story,) = tell_stories(rows)
    assert find_named("n 1 (x) delivers n 1 (x):3 twice", story).messages == (("n 1 (x)", 3),)


def test_witnesses_of_the_same_messages_share_a_diagram() -> None:
    rows = history(CROSSED)
    report = check_history(rows, ["total_pairwise", "total_global"])
    (story,) = tell_stories(rows)
    (cut,) = choose_cutouts(story, report.checks)
    assert cut.title == "total_pairwise, total_global"
    assert set(cut.messages) == {("a#1", 1), ("b#1", 1)}
    assert {event.message for event in cut.events if event.message} == set(cut.messages)


def test_a_witness_about_a_part_of_another_joins_it() -> None:
    (story,) = tell_stories(history(CROSSED))
    checks = [violated("about a#1:1", "position"), violated("about a#1:1 and b#1:1", "total_pairwise")]
    (cut,) = choose_cutouts(story, checks)
    assert cut.title == "total_pairwise, position"


def test_a_cut_out_holds_the_witness_and_its_surroundings() -> None:
    (story,) = tell_stories(busy(5_000))
    (cut,) = choose_cutouts(story, [violated("a#1 delivers a#1:2500 before a#1:2503")])
    numbers = [event.message[1] for event in cut.events if event.message]
    assert {2500, 2501, 2502, 2503} <= set(numbers)
    assert len(cut.events) == 4 * 2 + 2 * CONTEXT
    assert cut.left_out == 0
    shown = cut.events[cut.focus[0] : cut.focus[1] + 1]
    assert {2500, 2503} <= {event.message[1] for event in shown if event.message}


def test_messages_far_apart_keep_the_limit_and_both_ends() -> None:
    (story,) = tell_stories(busy(5_000))
    (cut,) = choose_cutouts(story, [violated("a#1:10 and a#1:4990")], limit=300)
    numbers = {event.message[1] for event in cut.events if event.message}
    assert len(cut.events) == 300
    assert {10, 11, 4989, 4990} <= numbers
    assert 2500 not in numbers
    whole = 2 * 5_000  # with the context on both sides the span is the whole run
    assert cut.left_out == whole - 300
    assert cut.events == sorted(cut.events, key=lambda event: event[:4])


def test_a_witness_that_names_only_views_is_found() -> None:
    (story,) = tell_stories(history("a: [1a a] [2a a] [3a a] ."))
    (cut,) = choose_cutouts(story, [violated("a#1 installs view 2@a#1 after view 3@a#1", "view_monotony")])
    assert cut.messages == []
    assert cut.title == "view_monotony"


def test_when_all_is_well_the_most_eventful_second_is_shown() -> None:
    quiet = busy(10, apart=400_000_000)
    later = {"step": 100, "time": 9_000_000_000, "number": 50}
    burst = [row | {key: row[key] + more for key, more in later.items()} for row in busy(40)]
    (story,) = tell_stories(quiet + burst)
    (cut,) = choose_cutouts(story, [CheckResult("fifo", "ok", 0, None)])
    assert cut.title == "The most eventful second"
    assert [event.message[1] for event in cut.events if event.message] == [n for n in range(51, 91) for _ in range(2)]


def test_a_chosen_range_is_shown_and_limited() -> None:
    (story,) = tell_stories(busy(100))
    (cut,) = choose_cutouts(story, [], (10_000_000, 19_000_000))
    assert [event.time for event in cut.events[::2]] == [n * 1_000_000 for n in range(10, 20)]
    (small,) = choose_cutouts(story, [], (0, 99_000_000), limit=50)
    assert (len(small.events), small.left_out) == (50, 150)


def test_a_witness_of_another_run_is_not_looked_for_here() -> None:
    stories = tell_stories([*history(CROSSED, "one"), *history(CROSSED, "two")])
    check = violated("run two: a#1 delivers a#1:1 before b#1:1")
    first, second = (choose_cutouts(story, [check])[0] for story in stories)
    assert first.messages == []
    assert len(second.messages) == 2


def test_nothing_to_show_is_no_cut_out() -> None:
    (story,) = tell_stories([{"process": "a#1", "step": 1, "kind": "packet"}])
    assert choose_cutouts(story, []) == []
