"""The worked example of paper 002 (§3.2, Figure 1): `scenarios/editor.toml`, in virtual milliseconds since 4 s."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from isotone.pipeline.oracle import check_history
from isotone.sim.run import run
from isotone.sim.scenario import load_scenario

FILE = "scenarios/editor.toml"
INS_X, UPD_Y2, UPD_Y3, DEL_X, SCROLL = "p1 insert x", "p2 update y", "p3 update y", "p2 delete x", "p3 scroll"
PROCESSES = ("p1", "p2", "p3")


def told(order: str | None = None) -> dict[str, dict[str, int]]:
    """Per process what it delivers, in order, and when."""
    result = run(FILE, order)
    report = check_history(result.rows)
    assert report.verdict == "ok", report.violated()
    found: dict[str, dict[str, int]] = {name: {} for name in PROCESSES}
    for row in result.rows:
        if row["kind"] == "deliver" and row["time"] >= 4_000_000_000:
            word = " ".join([row["origin"][:2], row["type"], *row.get("items", ())])
            found[row["process"][:2]][word] = (row["time"] - 4_000_000_000) // 1_000_000
    return found


def test_the_table_says_what_the_paper_says() -> None:
    """Edits of one object conflict, and two scrolls; a scroll and an edit do not."""
    relation = load_scenario(FILE).conflicts
    assert relation is not None
    edits = ("insert", "update", "delete")
    for one, two in product(edits, edits):
        assert relation.conflict(one, ["x"], two, ["x"])
        assert not relation.conflict(one, ["x"], two, ["y"])
    assert relation.conflict("scroll", None, "scroll", None)
    assert not any(relation.conflict("scroll", None, edit, ["x"]) for edit in edits)


def test_what_conflicts_is_delivered_in_one_order_and_the_rest_at_once() -> None:
    found = told()
    assert set(found["p1"]) == {INS_X, UPD_Y2, UPD_Y3, DEL_X, SCROLL}
    assert found["p1"][DEL_X] == found["p1"][UPD_Y3] == 70  # p2 had upd(y) of p3 when it deleted x
    assert list(found["p2"]) == list(found["p3"]) == [INS_X, UPD_Y2, UPD_Y3, DEL_X, SCROLL]
    assert (found["p2"][SCROLL], found["p3"][SCROLL]) == (31, 30)  # sent by p3 at 30
    for process in PROCESSES:
        assert list(found[process]).index(INS_X) < list(found[process]).index(DEL_X)
        assert list(found[process]).index(UPD_Y2) < list(found[process]).index(UPD_Y3)


def test_a_total_order_makes_them_wait() -> None:
    found = told("single_phase")
    assert [list(found[process]) for process in PROCESSES] == [[INS_X, UPD_Y2, UPD_Y3, DEL_X, SCROLL]] * 3
    assert (found["p2"][SCROLL], found["p3"][SCROLL]) == (91, 91)  # 60 ms to p1, and its answer


@pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])
def test_weaker_orders_leave_the_concurrent_updates_open(order: str) -> None:
    found = told(order)
    orders = [[word for word in found[process] if word in (UPD_Y2, UPD_Y3)] for process in PROCESSES]
    assert any(one != two for one, two in combinations(orders, 2))
    assert all(list(found[process]).index(INS_X) < list(found[process]).index(DEL_X) for process in PROCESSES)
