"""Liveness at the end of a history: who must be together, in which view, with what delivered."""

import pytest

from isotone.pipeline.oracle import Expectation, check_history
from tests.pipeline.oracle_text import history

TOGETHER = """
    a: [1a abc] +1 a1 ~ [2a ab] fault heal ~ =50 [3a abc] +2 a2 =90 .
    b: [1a abc] a1 ~ [2a ab] ~ =50 [3a abc] a2 =90 .
    c: [1a abc] a1 ~ [2c c] ~ =50 [3a abc] a2 =90 .
"""


def liveness(text: str, expected: Expectation | None = None) -> tuple[str, str]:
    [result] = check_history(history(text), ["liveness"], expected=expected).checks
    return result.verdict, str(result.witness or "")


def test_all_together() -> None:
    assert liveness(TOGETHER) == ("ok", "")
    assert liveness(TOGETHER, Expectation(components=[["a", "b", "c"]], settled_by_ns=60)) == ("ok", "")


def test_too_late() -> None:
    verdict, witness = liveness(TOGETHER, Expectation(components=[["a", "b#1", "c"]], settled_by_ns=40))
    assert (verdict, witness) == ("violated", "a#1 installs its last view at 50 ns, later than 40 ns")


def test_expected_apart() -> None:
    text = """
        a: [1a abc] ~ [2a ab] +1 a1 fault .
        b: [1a abc] ~ [2a ab] a1 .
        c: [1a abc] ~ [2c c] .
    """
    assert liveness(text, Expectation(components=[["a", "b"], ["c"]]))[0] == "ok"
    assert liveness(text, Expectation(components=[["a", "b", "c"]]))[0] == "violated"
    verdict, witness = liveness(text)
    assert verdict == "unknown"
    assert "heal" in witness


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            """
            a: [1a ab] ~ [2a a] =90 .
            b: [1a ab] ~ [2b b] =90 .
            """,
            "a#1 ends in view 2@a#1, b#1 in view 2@b#1",
        ),
        (
            """
            a: [1a ab] +1 a1 =90 .
            b: [1a ab] =90 .
            """,
            "b#1 ends in view 1@a#1 without delivering a#1:1",
        ),
        (
            """
            a: [1a abc] =90 .
            b: [1a abc] =90 .
            c: [1a abc] x
            """,
            "a#1 ends in view 1@a#1, which holds c#1",
        ),
    ],
)
def test_not_live(text: str, words: str) -> None:
    assert liveness(text) == ("violated", words)


def test_expected_process_is_gone() -> None:
    text = """
        a: [1a ab] ~ [2a a] .
        b: [1a ab] x
    """
    verdict, witness = liveness(text, Expectation(components=[["a", "b"]]))
    assert (verdict, witness) == ("violated", "b#1 is expected in a component, but its trace does not end in stop")


def test_a_name_means_its_last_incarnation() -> None:
    text = """
        a: [1a ab] x
        a': [2b a'b] +1 a'1 .
        b: [1a ab] ~ [2b a'b] a'1 .
    """
    assert liveness(text, Expectation(components=[["a", "b"]]))[0] == "ok"
    assert liveness(text, Expectation(components=[["a#1", "b"]]))[0] == "violated"


def test_leavers_are_not_expected() -> None:
    text = """
        a: [1a abc] =30 .
        b: [1a abc] ~ =40 [2b bc] =50 .
        c: [1a abc] ~ =45 [2b bc] =60 .
    """
    assert liveness(text)[0] == "ok"


def test_a_leaver_may_still_be_in_the_last_view() -> None:
    text = """
        a: [1a ab] =30 .
        b: [1a ab] ~ =40 [2b ab] =50 .
    """
    assert liveness(text)[0] == "ok"
    assert liveness(text, Expectation(components=[["b"]])) == ("violated", "b#1 ends in view 2@b#1, which holds a#1")


def test_last_view_without_an_expected_member() -> None:
    text = """
        a: [1a ab] .
        b: [1a b] .
    """
    expected = Expectation(components=[["a", "b"]])
    assert liveness(text, expected) == ("violated", "b#1 ends in view 1@a#1, which lacks a#1")


def test_chosen_by_default_only_with_an_expectation() -> None:
    rows = history(TOGETHER)
    assert "liveness" not in {result.name for result in check_history(rows).checks}
    expected = Expectation(components=[["a", "b", "c"]])
    assert "liveness" in {result.name for result in check_history(rows, expected=expected).checks}
