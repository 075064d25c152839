"""The picture of a witness: its events, its arrows and its edges, on real histories."""

from __future__ import annotations

import re

import pytest

from isotone.pipeline.oracle import CheckResult, Witness, check_history
from isotone.pipeline.oracle.witness import Edge, sub_history
from isotone.report.witness import witness_figure
from tests.pipeline.oracle_text import history
from tests.report.pages import parse

CASES = {
    "total_pairwise": "a: [1a ab] +1 a1 b1 .\nb: [1a ab] +1 b1 a1 .",
    "fifo": "a: [1a ab] +1 +2 a1 a2 .\nb: [1a ab] a2 a1 .",
    "causal": "a: [1a abc] +1 a1 b1 .\nb: [1a abc] a1 +1 b1 .\nc: [1a abc] b1 a1 .",
    "view_monotony": "a: [2a a] [1a a] .",
    "position": "a: [1a ab] +1 a1@0 b1@1 .\nb: [1a ab] +1 b1@0 a1@1 .",
}


def pictured(name: str, text: str) -> tuple[str, CheckResult]:
    rows = history(text)
    (check,) = check_history(rows, [name]).checks
    assert check.verdict == "violated"
    assert check.witness is not None
    found = witness_figure(check, list(sub_history(rows, check.witness)))
    assert found is not None
    parse(found)
    return found, check


@pytest.mark.parametrize("name", CASES)
def test_every_edge_is_told_and_those_between_events_are_drawn(name: str) -> None:
    picture, check = pictured(name, CASES[name])
    assert check.witness is not None
    words = parse(picture).words()
    for edge in check.witness.edges:
        assert f"at {edge.process}: {edge.why}" in words
    drawn = len(re.findall(r'<g class="edge"', picture))
    assert drawn == len(re.findall(r'class="badge"', picture))
    assert drawn == len(check.witness.edges)


def test_arrows_lead_from_the_send_to_the_deliveries() -> None:
    picture, _ = pictured("total_pairwise", CASES["total_pairwise"])
    assert len(re.findall(r'<line [^>]*class="way"', picture)) == 2  # one message to the other process, each way
    assert len(re.findall(r'<path [^>]*class="way"', picture)) == 2  # the own deliveries
    assert len(re.findall(r'class="dot"', picture)) == 6


def test_an_edge_goes_from_the_event_that_comes_first() -> None:
    edges = (Edge("a#1:1", "a#1:2", "b#1", "b#1 delivers it first"), Edge("a#1:9", "a place", "b#1", "not there"))
    witness = Witness("words", ("b#1",), (("a#1", 1), ("a#1", 2)), edges)
    found = witness_figure(CheckResult("fifo", "violated", 1, witness), history("b: a1 a2 ."))
    assert found is not None
    assert len(re.findall(r'<g class="edge"', found)) == 1
    assert len(re.findall(r'class="badge plain"', found)) == 1


def test_an_edge_with_one_event_is_a_ring_and_one_across_lanes_a_line() -> None:
    rows = history("a: +1 .\nb: a1 .")
    edges = (Edge("a#1:1", "a position", "b#1", "so"), Edge("send of a#1:1", "delivery of a#1:1", "b#1", "so"))
    witness = Witness("words", ("b#1",), (("a#1", 1),), edges)
    found = witness_figure(CheckResult("position", "violated", 1, witness), rows)
    assert found is not None
    ring, line = re.findall(r'<g class="edge" data-tip="so"><path d="([^"]*)"', found)
    assert "a11,11" in ring
    assert "L" in line


def test_no_edges_no_picture_and_no_rows_only_the_list() -> None:
    assert witness_figure(CheckResult("fifo", "violated", 1, Witness("words")), []) is None
    assert witness_figure(CheckResult("fifo", "ok", 0, None), []) is None
    only = witness_figure(CheckResult("fifo", "violated", 1, Witness("words", edges=(Edge("x", "y", "a#1", "so"),))), [])
    assert only is not None
    assert "<svg" not in only
    assert "so" in parse(only).words()
