"""The judge of the watch against the oracle: traces cut into files that arrive in any order, in batches of any size."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from isotone.pipeline.oracle import check_history
from isotone.pipeline.stream.judge import Limits, State, overall, settled, standings, summary, take
from isotone.protocol.ordering import registry
from isotone.sim.judge import judge
from tests.spark.watching import Rows, batches_of, cut, damage, oracle_verdicts, read, renumber, verdicts, watch

FOREVER = 1e9
ROOMY = Limits(patience_s=FOREVER)
TIGHT = Limits(retain=0, patience_s=FOREVER)
STARVED = Limits(retain=20, retain_max=200, patience_s=FOREVER)


def storm(seed: int, order: str) -> Rows:
    """A simulated run with partitions, merges, crashes and restarts."""
    _, result = judge(seed, [order], lambda *_: [])
    assert result is not None
    return [dict(row) for row in result.rows]


@pytest.mark.parametrize("order", registry.names())
def test_the_final_verdicts_are_those_of_the_oracle(tmp_path: Path, order: str) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for seed in (3, 5):
        clean = storm(seed, order)
        for case in range(5):
            chance = random.Random(100 * seed + case)
            rows = clean if case == 0 else damage(clean, chance)
            expected = oracle_verdicts(rows)
            place = tmp_path / f"{seed}-{case}"
            names = cut(place, rows, chance)
            for limits in (ROOMY, TIGHT, STARVED):
                state = watch(place, batches_of(names, chance), limits)
                found = verdicts(state)
                assert state.events == len(rows)
                if limits is ROOMY:
                    assert found == expected, (seed, case)
                    seen.update(expected.items())
                else:  # what is forgotten may make a total order unknown, never wrong
                    wrong = {check for check in expected if found[check] not in (expected[check], "unknown")}
                    unsure = {check for check in expected if found[check] != expected[check]}
                    assert not wrong
                    assert unsure <= {"total_pairwise", "total_global"}, (seed, case)
    assert seen["fifo", "ok"] or registry.find(order).semantic
    assert seen["virtual_synchrony", "ok"]


def deliveries(orders: dict[str, str], **more: Any) -> Rows:
    """One message per letter, all of the origin of its own name: `{"a": "xyz"}` is a delivering x, y, z."""
    return [
        {"process": process, "step": step, "kind": "deliver", "origin": letter, "number": 1, **more}
        for process, order in orders.items()
        for step, letter in enumerate(order, start=1)
    ]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_cycle_of_three_is_global_only(tmp_path: Path, one_by_one: bool) -> None:
    rows = deliveries({"a": "xy", "b": "yz", "c": "zx"})
    names = cut(tmp_path, rows, random.Random(1), pieces=0)
    state = watch(tmp_path, [[name] for name in names] if one_by_one else [names], ROOMY)
    assert verdicts(state) == oracle_verdicts(rows)
    assert verdicts(state)["total_global"] == "violated"
    assert verdicts(state)["total_pairwise"] == "ok"
    witness = next(s.witness for s in standings(state) if s.check == "total_global") or ""
    assert witness.startswith("a cycle of 3 messages: ")
    for edge in ("a delivers x:1 before y:1", "b delivers y:1 before z:1", "c delivers z:1 before x:1"):
        assert edge in witness


def test_a_pair_after_a_longer_cycle_is_found(tmp_path: Path) -> None:
    rows = deliveries({"a": "xyp", "b": "yzq", "c": "zx", "d": "xpq", "e": "qp"})
    names = cut(tmp_path, rows, random.Random(1), pieces=0)
    state = watch(tmp_path, [[name] for name in names], ROOMY)
    assert verdicts(state) == oracle_verdicts(rows)
    assert verdicts(state)["total_pairwise"] == "violated"


def test_witnesses_are_in_the_words_of_the_oracle(tmp_path: Path) -> None:
    view = {"view_epoch": 1, "view_proposer": "a", "members": ["a", "b"]}
    after = {"view_epoch": 2, "view_proposer": "a", "members": ["a", "b"]}
    rows: Rows = []
    for process, numbers in (("a", [1, 2, 3, 3]), ("b", [2, 1])):
        events = [{"kind": "view", **view}, *({"kind": "deliver", "origin": "a", "number": n} for n in numbers)]
        events.append({"kind": "view", **after})
        rows.extend({"process": process, "step": step, **event} for step, event in enumerate(events, start=1))
    names = cut(tmp_path, rows, random.Random(1), pieces=0)
    state = watch(tmp_path, [names], ROOMY)
    checks = check_history(rows, list(verdicts(state))).checks
    assert {s.check: s.witness for s in standings(state)} == {one.name: one.witness and one.witness.text for one in checks}
    fifo = next(s for s in standings(state) if s.check == "fifo")
    assert (fifo.process, fifo.step is not None, fifo.file) == ("b", True, names[1])
    assert overall(state) == "violated"


def steady(members: list[str], messages: int, *, silent: str | None = None, start: int = 1) -> Rows:
    """Everybody delivers the same, in one view that lasts; a silent member writes nothing after installing it."""
    view = {"view_epoch": 1, "view_proposer": "a"}
    rows: Rows = []
    for process in members:
        if start == 1:
            rows.append({"process": process, "kind": "view", **view, "members": members})
        for number in range(start, start + messages) if process != silent else ():
            rows.append({"process": process, "kind": "deliver", "origin": members[number % 2], "number": number // 2 + 1, **view})
    return renumber(rows)


def fed(state: State, directory: Path, rows: Rows, batch: int, limits: Limits) -> None:
    names = cut(directory / str(batch), rows, random.Random(1), pieces=0)
    take(state, batch, read(directory / str(batch), names), 0.0, limits)


def test_the_state_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    limits = Limits(retain=500, patience_s=FOREVER)
    state = State()
    rows = steady(["a", "b", "c"], 20_000)
    sizes = []
    for batch in range(20):
        first, last = batch * 1_000, (batch + 1) * 1_000 + (batch == 19)
        fed(state, tmp_path, [row for row in rows if first < row["step"] <= last], batch, limits)
        run = state.runs[""]
        sizes.append(run.order.kept)
        assert all(len(numbers.lows) == 1 for f in run.followers.values() for numbers in f.delivered.values())
    assert max(sizes[1:]) <= 1_000
    assert state.events == 60_003
    assert overall(state) == "ok"


def test_a_silent_member_does_not_hold_state_for_ever(tmp_path: Path) -> None:
    limits = Limits(retain=100, retain_max=3_000, patience_s=FOREVER)
    state = State()
    members = ["a", "b", "c"]
    rows = steady(members, 10_000)
    whole = [row for row in rows if row["process"] != "c" or row["step"] == 1]
    for batch in range(10):
        fed(state, tmp_path, [row for row in whole if batch * 1_000 < row["step"] <= (batch + 1) * 1_000], batch, limits)
        assert state.runs[""].order.kept <= 3_000
    assert overall(state) == "ok"
    fed(state, tmp_path, [row for row in rows if row["process"] == "c" and 1 < row["step"] <= 20], 10, limits)
    found = {s.check: s for s in standings(state)}
    assert found["total_global"].verdict == "unknown"
    assert "c delivers a:2 after its place in the order was forgotten" in (found["total_global"].witness or "")
    assert found["fifo"].verdict == "ok"
    assert overall(state) == "unknown"


def test_a_member_that_the_others_left_behind_does_not_hold_state(tmp_path: Path) -> None:
    limits = Limits(retain=0, retain_max=100_000, patience_s=FOREVER)
    state = State()
    members = ["a", "b", "c"]
    rows = [row for row in steady(members, 1_000) if row["process"] != "c" or row["step"] == 1]
    fed(state, tmp_path, rows, 0, limits)
    assert state.runs[""].order.kept == 2_000
    following = {"kind": "view", "view_epoch": 2, "view_proposer": "a", "members": ["a", "b"]}
    fed(state, tmp_path, [{"process": process, "step": 1_002, **following} for process in "ab"], 1, limits)
    assert state.runs[""].order.kept == 0
    assert overall(state) == "ok"


def test_rows_behind_a_gap_are_held_back(tmp_path: Path) -> None:
    rows = deliveries({"a": "vwxyz"})
    parts = {number: rows[start:end] for number, (start, end) in enumerate(((0, 2), (2, 3), (3, 5)))}
    limits = Limits(patience_s=10.0)
    state = State()
    fed(state, tmp_path, parts[0], 0, limits)
    fed(state, tmp_path, parts[2], 1, limits)
    assert (state.events, state.held) == (2, 2)
    assert settled(state, limits).events == 4
    assert (state.events, state.held) == (2, 2)
    fed(state, tmp_path, parts[1], 2, limits)
    assert (state.events, state.held, state.late) == (5, 0, 0)


def test_a_gap_is_not_waited_for_without_end(tmp_path: Path) -> None:
    rows = deliveries({"a": "vwxyz"})
    limits = Limits(patience_s=10.0)
    state = State()
    names = cut(tmp_path, rows[3:], random.Random(1), pieces=0)
    take(state, 0, read(tmp_path, names), 100.0, limits)
    take(state, 1, [], 109.0, limits)
    assert (state.events, state.held) == (0, 2)
    take(state, 2, [], 110.0, limits)
    assert (state.events, state.held) == (2, 0)
    fed(state, tmp_path, rows[:3], 3, limits)
    assert (state.events, state.late) == (2, 3)
    assert summary(state)["quarantined"] == 3


def test_logs_that_number_with_gaps_are_taken_as_they_come(tmp_path: Path) -> None:
    rows = [{**row, "step": 10 * row["step"]} for row in deliveries({"a": "vwxyz"})]
    state = State()
    fed(state, tmp_path, rows[:3], 0, ROOMY)
    fed(state, tmp_path, rows[3:], 1, ROOMY)
    assert (state.events, state.held) == (5, 0)


def test_shuffled_rows_of_one_batch_are_put_in_order(tmp_path: Path) -> None:
    rows = deliveries({"a": "vwxyz", "b": "vwxyz"})
    mixed = list(rows)
    random.Random(3).shuffle(mixed)
    names = [*cut(tmp_path / "x", mixed[:5], random.Random(1), pieces=0)]
    more = [*cut(tmp_path / "y", mixed[5:], random.Random(1), pieces=0)]
    state = State()
    take(state, 0, [*read(tmp_path / "x", names), *read(tmp_path / "y", more)], 0.0, ROOMY)
    assert state.events == 10
    assert verdicts(state) == oracle_verdicts(rows)


def test_latencies_and_rates(tmp_path: Path) -> None:
    rows: Rows = []
    for number in range(1, 101):
        sent = number * 10_000_000
        rows.append({"process": "a", "kind": "send", "origin": "a", "number": number, "time": sent})
        rows.append({"process": "b", "kind": "deliver", "origin": "a", "number": number, "time": sent + 2_000_000})
    rows = renumber(sorted(rows, key=lambda row: row["process"]))
    state = State()
    fed(state, tmp_path, [row for row in rows if row["process"] == "b"], 0, ROOMY)  # the sends come a batch later
    assert state.runs[""].meter.window()["latency_ms"] is None
    fed(state, tmp_path, [row for row in rows if row["process"] == "a"], 1, ROOMY)
    window = state.runs[""].meter.window()
    assert window["latency_ms"]["p50"] == pytest.approx(2.0, rel=0.03)
    assert window["latency_ms"]["p99"] == pytest.approx(2.0, rel=0.03)
    assert window["deliveries_per_s"] == 50.0
    assert summary(state)["runs"][""]["processes"]["a"]["lag_s"] == 0.002


def test_nothing_delivered_is_unknown() -> None:
    assert overall(State()) == "unknown"
