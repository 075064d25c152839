"""A corpus of good and bad histories: each bad one trips its own check, and others only where that cannot be avoided."""

from typing import Any

import pytest

from isotone.pipeline.oracle import CHECKS, Expectation, check_history
from tests.pipeline.oracle_text import history

GOOD = {
    "one view, three members, total order": """
        a: [1a abc] +1 a1@0 b1@1 c1@2 .
        b: [1a abc] a1@0 +1 b1@1 c1@2 .
        c: [1a abc] a1@0 +1 b1@1 c1@2 .
    """,
    "a member crashes with a message nobody has": """
        a: [1a abc] +1 a1@0 ~ [2a ab] +2 a2@0 b1@1 .
        b: [1a abc] a1@0 ~ [2a ab] a2@0 +1 b1@1 .
        c: [1a abc] a1@0 +1 x
    """,
    "a crashed member was ahead of the others": """
        a: [1a abc] +1 a1@0 ~ [2a ab] .
        b: [1a abc] a1@0 ~ [2a ab] .
        c: [1a abc] a1@0 +1 c1@1 x
    """,
    "components of a partition deliver different prefixes, then merge": """
        a: [1a abc] +1 a1@0 +2 a2@1 ~ [2a ab] +3 a3@0 ~ [3a abc] c2@0 .
        b: [1a abc] a1@0 a2@1 ~ [2a ab] a3@0 ~ [3a abc] c2@0 .
        c: [1a abc] a1@0 ~ [2c c] +1 c1@0 ~ [3a abc] +2 c2@0 .
    """,
    "what could not be ordered goes back to its sender": """
        a: [1a ab] +1 a1@0 ~ [2a a] .
        b: [1a ab] +1 a1@0 ~ <1 [2b b] .
    """,
    "another component delivers what was returned here": """
        a: [1a ab] b1@0 ~ [2a a] .
        b: [1a ab] +1 ~ <1 [2b b] .
    """,
    "a restarted process is another one and counts from one": """
        a: [1a ab] +1 a1@0 x
        a': [3b a'b] +1 a'1@0 .
        b: [1a ab] a1@0 ~ [2b b] ~ [3b a'b] a'1@0 .
    """,
    "a leaver owes nothing that came after it": """
        a: [1a ab] +1 a1@0 =90 +2 a2@1 .
        b: [1a ab] a1@0 =50 .
    """,
    "safe before the signal, everybody has it": """
        a: [1a ab] +1 a1@0$ ~ [2a a] .
        b: [1a ab] a1@0 ~ [2b b] .
    """,
    "safe, but the one that lacks it crashed": """
        a: [1a ab] +1 a1@0$ ~ [2a a] .
        b: [1a ab] x
    """,
    "after the signal safe is not promised": """
        a: [1a ab] +1 ~ a1@0$ [2a a] .
        b: [1a ab] ~ [2b b] .
    """,
    "a process may go without the causal past of what it delivers, if it never delivers it": """
        a: [1a abc] +1 a1@0 ~ [2a a] .
        b: [1a abc] a1@0 +1 b1@1 ~ [2b b] .
        c: [1a abc] b1@1 ~ [2c c] .
    """,
    "equal epochs in two components": """
        a: [1a ab] ~ [2a a] +1 a1@0 .
        b: [1a ab] ~ [2b b] +1 b1@0 .
    """,
    "one epoch, two proposers, in order": """
        a: [1a ab] ~ [1b a] .
        b: [1a ab] x
    """,
    "a cut trace: what its writer sent last was lost with it": """
        a: [1a ab] +1 a1@0
        b: [1a ab] a1@0 a2@1 .
    """,
}

BAD: dict[str, tuple[str, set[str], str]] = {
    # name: (history, the checks it trips, what the witness of the first of them says)
    "integrity: invented": (
        """
        a: [1a ab] +1 a1@0 b7@1 .
        b: [1a ab] a1@0 b7@1 .
        """,
        {"integrity"},
        "a#1 delivers b#1:7, which was never sent",
    ),
    "integrity: damaged": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a ab] a1@0! .
        """,
        {"integrity"},
        "b#1 delivers a#1:1 with payload digest",
    ),
    "integrity: delivered before it was sent": (
        """
        a: [1a ab] a1@0 +1 .
        b: [1a ab] a1@0 .
        """,
        {"integrity"},
        "a#1 delivers a#1:1 before it was sent",
    ),
    "integrity: a circle of messages delivered before they were sent": (
        """
        a: [1a ab] b1@1 +1 a1@0 .
        b: [1a ab] a1@0 +1 b1@1 .
        """,
        # a delivers b1, then sends a1, which b delivered before it sent b1: the order of the two cannot be right either
        {"integrity", "causal", "position", "total_global", "total_pairwise"},
        "before it was sent (happened-before is a circle)",
    ),
    "duplication": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a ab] a1@0 a1@0 .
        """,
        {"duplication"},
        "b#1 delivers a#1:1 more than once",
    ),
    "duplication: delivered and returned": (
        """
        a: [1a ab] +1 a1@0 <1 .
        b: [1a ab] a1@0 .
        """,
        {"duplication"},
        "a#1 delivers a#1:1 and has it returned too",
    ),
    "fifo": (
        """
        a: [1a ab] +1 a1 +2 a2 .
        b: [1a ab] a2 a1 .
        """,
        # order of one sender is part of every stronger order
        {"fifo", "reliable_fifo", "causal", "total_pairwise", "total_global"},
        "b#1 delivers a#1:2 before a#1:1",
    ),
    "causal through a message never delivered": (
        # a1 -> b1 -> c1; d never delivers b1, and delivers c1 before a1. The delivery orders alone have no cycle,
        # because b and c do not deliver their own.
        """
        a: [1a abcd] +1 a1 ~ [2a a] .
        b: [1a abcd] a1 +1 ~ <1 [2b b] .
        c: [1a abcd] b1 +1 ~ <1 [2c c] .
        d: [1a abcd] c1 a1 ~ [2d d] .
        """,
        {"causal"},
        "d#1 delivers c#1:1 before a#1:1, which causally precedes it: "
        "b#1 delivered a#1:1 before it sent b#1:1; c#1 delivered b#1:1 before it sent c#1:1",
    ),
    "causal: own message": (
        # b's answer to a1 reaches a before a delivers a1 to itself
        """
        a: [1a ab] +1 b1 a1 ~ [2a a] .
        b: [1a ab] a1 +1 ~ <1 [2b b] .
        """,
        {"causal"},
        "a#1 delivers b#1:1 before a#1:1",
    ),
    "total_pairwise": (
        """
        a: [1a ab] +1 a1 b1 .
        b: [1a ab] +1 b1 a1 .
        """,
        {"total_pairwise", "total_global"},
        "a#1 delivers a#1:1 before b#1:1, b#1 delivers b#1:1 before a#1:1",
    ),
    "total_pairwise across a partition": (
        """
        a: [1a ab] +1 +2^1a a1 b1 a2 ~ [2a a] .
        b: [1a ab] +1 b1 a1 ~ [2b b] .
        """,
        {"total_pairwise", "total_global"},
        "a#1 delivers a#1:1 before b#1:1, b#1 delivers b#1:1 before a#1:1",
    ),
    "total_global: three messages, three processes, no two disagree": (
        """
        a: [1a abc] +1 a1 b1 ~ [2a a] .
        b: [1a abc] +1 b1 c1 ~ [2b b] .
        c: [1a abc] +1 c1 a1 ~ [2c c] .
        """,
        {"total_global"},
        "a cycle of 3 messages: ",
    ),
    "position: two messages, one place": (
        """
        a: [1a ab] +1 a1@0 ~ [2a a] .
        b: [1a ab] +1 b1@0 ~ [2b b] .
        """,
        {"position"},
        "a#1:1 (for a#1) and b#1:1 (for b#1) are both at 1@a#1 (0)",
    ),
    "position: one message, two places": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a ab] a1@1 .
        """,
        {"position"},
        "a#1:1 is at 1@a#1 (0) for a#1 and at 1@a#1 (1) for b#1",
    ),
    "position: not increasing": (
        """
        a: [1a ab] +1 a1@0.1 +2 a2@0.0 .
        b: [1a ab] a1@0.1 a2@0.0 .
        """,
        {"position"},
        "a#1 delivers a#1:2 at 1@a#1 (0, 0) after a#1:1 at 1@a#1 (0, 1)",
    ),
    "position: against causality, although nobody delivers both": (
        # a1 -> b1 -> c1. c1 has the place before a1.
        """
        a: [1a abc] +1 a1@1 ~ [2a a] .
        b: [1a abc] a1@1 +1 b1@2 ~ [2b b] .
        c: [1a abc] b1@2 +1 ~ <1 [2c c] .
        d: [1a abcd] c1@0 x
        """,
        # d's view has other members under the same id, to make it possible at all
        {"position", "view_identity"},
        "b#1:1 at 1@a#1 (2) causally precedes c#1:1 at 1@a#1 (0)",
    ),
    "position: against causality through a message without a place": (
        """
        a: [1a abc] +1 a1@5 ~ [2a a] .
        b: [1a abc] a1@5 +1 b1 ~ [2b b] .
        c: [1a abc] b1 +1 c1@3 ~ [2c c] .
        """,
        {"position"},
        "a#1:1 at 1@a#1 (5) causally precedes c#1:1 at 1@a#1 (3)",
    ),
    "view_identity": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a abc] a1@0 .
        """,
        {"view_identity"},
        "view 1@a#1 has the members a#1 b#1 at a#1 and a#1 b#1 c#1 at b#1",
    ),
    "view_monotony": (
        """
        a: [2a ab] +1 a1@0 ~ [1a ab] .
        b: [2a ab] a1@0 x
        """,
        {"view_monotony"},
        "a#1 installs view 1@a#1 after view 2@a#1",
    ),
    "view_monotony: installed twice": (
        """
        a: [2a ab] +1 a1@0 ~ [2a ab] .
        b: [2a ab] a1@0 x
        """,
        {"view_monotony"},
        "a#1 installs view 2@a#1 after view 2@a#1",
    ),
    "self_inclusion": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a ab] a1@0 ~ [2a a] .
        """,
        {"self_inclusion"},
        "b#1 installs view 2@a#1, whose members are a#1",
    ),
    "initial_view": (
        """
        a: [0a ab] +1 a1@0 .
        b: [0a ab] a1@0 .
        """,
        {"initial_view"},
        "a#1 installs view 0@a#1, which has the initial epoch",
    ),
    "sending_view: sent in one view, delivered in the next, by all alike": (
        """
        a: [1a ab] +1 ~ [2a ab] a1@0 .
        b: [1a ab] ~ [2a ab] a1@0 .
        """,
        {"sending_view"},
        "a#1 delivers a#1:1 in view 2@a#1, but it was sent in view 1@a#1",
    ),
    "sending_view: the row names a view that is not installed": (
        """
        a: [1a ab] +1^2a a1@0^2a .
        b: [1a ab] x
        """,
        {"sending_view"},
        "a#1 delivers a#1:1 in view 2@a#1 while view 1@a#1 is installed",
    ),
    "same_view: one process delivers in the wrong view": (
        """
        a: [1a ab] +1 a1 ~ [2a a] .
        b: [1a ab] ~ [2b ab] a1 .
        """,
        # one of the two is not the view it was sent in
        {"same_view", "sending_view"},
        "a#1 delivers a#1:1 in view 1@a#1, b#1 in view 2@b#1",
    ),
    "sender_in_view": (
        """
        a: [1a ab] c1@0 .
        b: [1a ab] c1@0 .
        c: [1c c] +1^1a <1 .
        """,
        {"sender_in_view"},
        "a#1 delivers c#1:1 in view 1@a#1, whose members are a#1 b#1",
    ),
    "reliable_fifo: missing in the middle": (
        """
        a: [1a ab] +1 +2 +3 a1@0 a2@1 a3@2 ~ [2a a] .
        b: [1a ab] a1@0 a3@2 ~ [2b b] .
        """,
        {"reliable_fifo"},
        "b#1 delivers a#1:3, but never a#1:2, sent before it in view 1@a#1",
    ),
    "virtual_synchrony: one that crashed later lacked a message": (
        """
        a: [1a ab] +1 a1@0 +2 a2@1 ~ [2a ab] .
        b: [1a ab] a1@0 ~ [2a ab] x
        """,
        # a is correct, and b went on with it: b owes the message also by agreement
        {"virtual_synchrony", "agreement"},
        "a#1 and b#1 go together from view 1@a#1 to view 2@a#1, but only a#1 delivers a#1:2 in view 1@a#1",
    ),
    "virtual_synchrony: only the one that crashed later had the message": (
        """
        a: [1a ab] ~ [2a ab] .
        b: [1a ab] +1 b1@0 ~ [2a ab] x
        """,
        {"virtual_synchrony"},
        "b#1 and a#1 go together from view 1@a#1 to view 2@a#1, but only b#1 delivers b#1:1",
    ),
    "agreement: both end in the view": (
        """
        a: [1a ab] +1 a1@0 .
        b: [1a ab] =100 .
        """,
        {"agreement"},
        "a#1 is correct and delivers a#1:1 in view 1@a#1; b#1 stays in it, but does not deliver it",
    ),
    "validity": (
        """
        a: [1a ab] +1 .
        b: [1a ab] a1@0 ~ [2b b] .
        """,
        {"validity"},
        "a#1 is correct and sent a#1:1, but neither delivers it nor has it returned",
    ),
    "uniform: safe at one that crashed": (
        """
        a: [1a ab] +1 a1@0$ x
        b: [1a ab] ~ [2b b] .
        """,
        {"uniform"},
        "a#1 delivers a#1:1 as safe in view 1@a#1; b#1 is correct and installs view 1@a#1, but does not deliver it there",
    ),
    "uniform: the signal of an earlier view is over": (
        """
        a: [1a ab] ~ [2a ab] +1 a1@0$ x
        b: [1a ab] ~ [2a ab] ~ [3b b] .
        """,
        {"uniform"},
        "a#1 delivers a#1:1 as safe in view 2@a#1",
    ),
}


def verdicts(rows: list[dict[str, Any]], checks: list[str] | None = None) -> dict[str, str]:
    return {result.name: result.verdict for result in check_history(rows, checks).checks}


@pytest.mark.parametrize("text", GOOD.values(), ids=list(GOOD))
def test_good_history(text: str) -> None:
    report = check_history(history(text))
    assert [(result.name, result.witness) for result in report.checks if result.verdict == "violated"] == []
    assert report.verdict == "ok"


@pytest.mark.parametrize(("text", "trips", "words"), BAD.values(), ids=list(BAD))
def test_bad_history_trips_its_own_check(text: str, trips: set[str], words: str) -> None:
    report = check_history(history(text))
    assert set(report.violated()) == trips, [result for result in report.checks if result.verdict == "violated"]
    assert report.verdict == "violated"
    witnesses = [result.witness or "" for result in report.checks if result.name in trips]
    assert any(words in witness for witness in witnesses), witnesses
    assert all(result.violations > 0 for result in report.checks if result.name in trips)


def test_every_check_is_in_the_corpus() -> None:
    tripped = set().union(*(trips for _, trips, _ in BAD.values()))
    assert tripped | {"liveness"} == set(CHECKS)  # liveness has a file of its own


def test_cycle_witness_names_every_edge() -> None:
    text = BAD["total_global: three messages, three processes, no two disagree"][0]
    [result] = check_history(history(text), ["total_global"]).checks
    assert result.witness is not None
    edges = set(result.witness.removeprefix("a cycle of 3 messages: ").split("; "))
    assert edges == {
        "a#1 delivers a#1:1 before b#1:1",
        "b#1 delivers b#1:1 before c#1:1",
        "c#1 delivers c#1:1 before a#1:1",
    }


def test_shortest_cycle_wins() -> None:
    # a long cycle over a1 b1 c1 d1 and a short one over c1 d1: the short one is shown
    text = """
        a: +1 a1 b1
        b: +1 b1 c1 d1
        c: +1 d1 c1
        d: +1 d1 a1
    """
    [result] = check_history(history(text), ["total_global"]).checks
    assert result.witness is not None
    assert result.witness.startswith("a cycle of 2 messages: ")
    assert {"c#1:1", "d#1:1"} <= set(result.witness.split())


def test_two_knots_are_counted() -> None:
    text = """
        a: +1 +2 a1 b1 a2 b2
        b: +1 +2 b1 a1 b2 a2
    """
    [result] = check_history(history(text), ["total_global"]).checks
    assert result.violations == 2


def test_leaver_settles() -> None:
    text = """
        a: [1a ab] +1 =40 a1 =90 .
        b: [1a ab] =50 .
    """
    assert verdicts(history(text), ["agreement"])["agreement"] == "violated"
    report = check_history(history(text), ["agreement"], expected=Expectation(settle_ns=20))
    assert report.verdict == "ok"
