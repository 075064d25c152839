"""The loads of the benchmark of semantic orders are what they say, and its verdicts can fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import semantic_live
from ratios import ratio
from semantic import BOUND, GAIN, PLAIN, Cell, Found, cells_of, page, picture, simulate, verdicts
from semantic_flow import flow, places, section
from semantic_loads import LOADS, SHARES, conflicts, kinds, phases, relation_of

from isotone.runtime.bench_member import Mix

FLOWS = dict.fromkeys(places(), 1_000.0)


@pytest.mark.parametrize("load", LOADS)
def test_a_load_is_split_as_its_relation_says(load: str) -> None:
    relation = relation_of(load)
    clashing, commuting = kinds(load, "a")
    _, of_another = kinds(load, "b")
    for kind in (clashing, commuting, of_another):
        for type_ in kind.types or (None,):
            for item in kind.items or (None,):
                items = None if item is None else (item,)
                assert conflicts(load, type_, items) == (kind is clashing)
                assert conflicts(load, type_, items) <= relation.conflict(type_, items, type_, items)
    pairs = [(one, two) for one in commuting.types or (None,) for two in of_another.types or (None,)]
    mine, other = commuting.items or None, of_another.items or None
    assert not any(relation.conflict(one, mine, two, other) for one, two in pairs)
    shares = [len(phases(load, share, 5, 20, 100)) for share in (0.0, 0.5, 1.0)]
    assert shares == [5, 10, 5]


def test_all_orders_get_the_same_messages() -> None:
    found = [simulate(Cell("WAN", "low", "types", 0.5, order), (1,)) for order in (PLAIN, GAIN, BOUND)]
    assert len({one["messages"] for one in found}) == 1
    plain, gain, bound = found
    assert bound["all"] < gain["all"] < plain["all"]
    assert ratio(gain["commuting"], gain["conflicting"]).value < 1


def fabricated(slow: Cell | None = None, factors: tuple[float, ...] = (1.2, 1.2, 1.2)) -> Found:
    """Numbers that meet every requirement, but for one cell, which is slower by a factor in each seed."""
    found: Found = {}
    for cell in cells_of():
        mean = {PLAIN: 2.0, GAIN: 1.0 + cell.share}.get(cell.order, 1.0)
        here = factors if cell == slow else (1.0,) * len(factors)
        everything, nothing = [(10 * mean * factor, 10) for factor in here], [(0.0, 0)] * len(factors)
        commuting = [(10 * factor, 10) for factor in here] if cell.order == GAIN else everything
        commuting = commuting if cell.share < 1 else nothing
        groups = {"all": everything, "conflicting": everything if cell.share else nothing, "commuting": commuting}
        found[cell] = {**groups, "learning": commuting, "control": 1.0, "messages": 1}
    return found


@pytest.mark.parametrize(
    ("slow", "fails"),
    [
        (None, []),
        (Cell("LAN", "low", "types", 0.0, GAIN), [0, 1, 5]),
        (Cell("WAN", "high", "items 10", 1.0, GAIN), [2, 4, 6]),
        (Cell("LAN", "low", "types", 1.0, GAIN), [2, 4, 6]),
        (Cell("WAN", "high", "counter", 0.1, GAIN), []),
        (Cell("WAN", "high", "counter", 0.01, GAIN), [5]),
        (Cell("WAN", "high", "types", 0.5, "semantic_fifo"), [7]),
    ],
)
def test_a_requirement_that_is_not_met_is_named(slow: Cell | None, fails: list[int]) -> None:
    found = fabricated(slow)
    wrong = [index for index, one in enumerate(verdicts(found)) if one.beyond()]
    assert wrong == fails
    assert page(found, FLOWS, {}, "command").count("does not hold") == len(fails)
    assert picture(found).count("<circle") == 4 * 5 * 5


def test_chance_is_neither_met_nor_missed() -> None:
    cell = Cell("WAN", "high", "counter", 1.0, GAIN)
    told = page(fabricated(cell, (0.97, 1.0, 1.05)), FLOWS, {}, "command")
    assert "does not hold" not in told
    assert "| 1.007 ± 0.100 | 1 of 100, 0 beyond chance | chance |" in told
    assert "1 of 100, 1 beyond chance" in page(fabricated(cell, (1.04, 1.05, 1.06)), FLOWS, {}, "command")
    assert "| 1.050 | 1 of 100, 1 beyond chance | does not hold |" in page(fabricated(cell, (1.05,)), FLOWS, {}, "command")


def test_throughput_is_what_the_ports_carry() -> None:
    plain, gain = (flow(("items 10", 0.1, order)) for order in (PLAIN, GAIN))
    assert 12_000 < plain < 15_625
    assert 12_000 < gain < 15_625
    told = section({**FLOWS, ("items 10", 0.1, GAIN): 900.0})
    assert sum(line.startswith(("| types", "| counter", "| items")) for line in told) == 25
    assert "| items 10 | 10% | 1,000 | 900 (0.900) | 1,000 |" in told
    assert any("0.900" in line and "1.000" in line for line in told)


def recorded(load: str = "", share: float = 0.0, *, which: str = "all", slow: tuple[float, ...] = ()) -> semantic_live.Live:
    """A live record that meets every requirement, but for one row, which is slower by a factor in each set."""
    live: semantic_live.Live = {}
    for name in LOADS:
        rows = []
        for part in SHARES:
            for order in (PLAIN, GAIN, BOUND):
                mean = {PLAIN: 2.0, GAIN: 1.0 + part}.get(order, 1.0)
                here = {"all": mean, "conflicting": 2.0 if part else None, "commuting": 1.0 if part < 1 else None}
                row: dict[str, object] = {"share": part, "order": order}
                for what, value in {**here, "messages_per_s": 1000.0}.items():
                    factors = slow if (name, part, what, order) == (load, share, which, GAIN) else (1.0, 1.0, 1.0)
                    row[what] = [value and (value / factor if what == "messages_per_s" else value * factor) for factor in factors]
                rows.append(row)
        live[name] = {"members": 5, "size": 50, "rate": 20.0, "sets": 3, "rows": rows}
    return live


@pytest.mark.parametrize(
    ("load", "share", "which", "fails"),
    [
        ("", 0.0, "all", []),
        ("types", 0.5, "commuting", [0]),
        ("items 1", 0.1, "all", [1, 4]),
        ("counter", 0.01, "commuting", [2]),
        ("items 10", 0.01, "conflicting", [3]),
        ("counter", 0.01, "conflicting", []),
        ("items 1000", 1.0, "all", [5]),
        ("counter", 1.0, "messages_per_s", [6]),
    ],
)
def test_a_requirement_that_is_not_met_live_is_named(load: str, share: float, which: str, fails: list[int]) -> None:
    live = recorded(load, share, which=which, slow=(2.2, 2.2, 2.2))
    assert json.loads(semantic_live.written(live)) == live
    assert [index for index, one in enumerate(semantic_live.verdicts(live)) if one.beyond()] == fails
    told = "\n".join(semantic_live.section(live))
    assert told.count("does not hold") == len(fails)
    assert sum(line.startswith(("| types", "| counter", "| items")) for line in told.splitlines()) == 25


def test_some_shares_alone_can_be_told_live() -> None:
    rows = [row for row in recorded()["types"]["rows"] if row["share"] == 1.0]
    told = semantic_live.section({"types": {**recorded()["types"], "rows": rows}})
    assert not any("nothing, in" in line for line in told)
    assert sum(line.startswith("| everything") for line in told) == 1


def test_a_round_without_a_rare_message_says_nothing_live() -> None:
    live = recorded("types", 0.01, which="conflicting", slow=(1.0, 1.0, 1.0))
    rows = live["types"]["rows"]
    next(row for row in rows if row["share"] == 0.01 and row["order"] == GAIN)["conflicting"][1] = None
    assert "does not hold" not in "\n".join(semantic_live.section(live))


def test_a_ratio_is_that_of_all_seeds_together() -> None:
    assert ratio([(1.0, 1), (30.0, 10)], [(1.0, 1), (10.0, 10)]).value == pytest.approx(31 / 11)
    assert ratio([(2.0, 2), (0.0, 0)], [(1.0, 2), (0.0, 0)]) == (2.0, 0.0)
    assert str(ratio([(2.0, 2)], [(1.0, 2)])) == "2.000"


def test_a_mix_has_its_share() -> None:
    chosen, types, items = Mix(0.25, [["ordered"], []], [["free"], []]).draw(Random(1), 2_000)
    assert 400 < sum(chosen) < 600
    assert types is not None
    assert items is None
    assert all((type_ == "ordered") == one for one, type_ in zip(chosen, types, strict=True))
    _, types, items = Mix(1.0, [[], ["x", "y"]], [[], ["z"]]).draw(Random(1), 50)
    assert types is None
    assert items is not None
    assert {item for (item,) in items} == {"x", "y"}
