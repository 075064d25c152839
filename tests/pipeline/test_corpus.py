"""The oracle on the corpus of named histories: the verdict of every check, and witnesses that show what they claim."""

import pytest

from isotone.pipeline.oracle import CHECKS, Expectation, check_history, sub_history
from tests.histories import Case, load_all

CASES = load_all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict_of_every_check(case: Case) -> None:
    report = check_history(case.rows, list(CHECKS), expected=Expectation(conflicts=case.conflicts))
    assert {check.name: check.verdict for check in report.checks} == case.expected
    assert all((check.witness is not None) == (check.verdict != "ok") for check in report.checks)
    assert any(case.shows in str(check.witness) for check in report.checks if check.verdict == "violated") or not case.shows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_witness_alone_is_violated_again(case: Case) -> None:
    expected = Expectation(conflicts=case.conflicts)
    for check in check_history(case.rows, list(CHECKS), expected=expected).checks:
        if check.verdict == "violated":
            assert check.witness is not None
            rows = list(sub_history(case.rows, check.witness))
            assert check_history(rows, [check.name], expected=expected).verdict == "violated", check


def test_every_check_has_all_its_verdicts_in_the_corpus() -> None:
    for name in CHECKS:
        assert {case.expected[name] for case in CASES} == {"ok", "violated", "unknown"}, name


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30
