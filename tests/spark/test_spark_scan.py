"""The scan against the oracle: simulated traces of every orderer, damaged copies, and files as other people have them."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from isotone.model.errors import ConfigError, TraceFormatError
from isotone.pipeline.oracle import CHECKS, check_history
from isotone.pipeline.scan import SCANNED, Outcome, verify
from isotone.protocol.ordering import registry
from isotone.sim import run
from isotone.trace.columns import table_of_rows
from isotone.trace.schema import Row
from isotone.trace.writer import open_writer, write_all

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
Rows = list[Any]


def write(path: Path, rows: Rows, *, group: int = 700, per_file: int = 2_000) -> Path:
    """Several row groups per file and several files per process."""
    path.mkdir()
    by_process: dict[tuple[str, str], Rows] = {}
    for row in rows:
        by_process.setdefault((row.get("run", ""), row["process"]), []).append(row)
    for number, mine in enumerate(by_process.values()):
        for part, start in enumerate(range(0, len(mine), per_file)):
            table = table_of_rows(mine[start : start + per_file])
            pq.write_table(table, path / f"p{number}-{part}.parquet", row_group_size=group)
    return path


def agrees(spark: Any, path: Path, rows: Rows, checks: Sequence[str] = SCANNED, **options: Any) -> Outcome:
    outcome = verify([str(path)], checks, session=spark, rows_per_source=1_000, small_rows=0, **options)
    expected = check_history(rows, checks)
    found = {check.name: check.verdict for check in outcome.report.checks}
    assert found == {check.name: check.verdict for check in expected.checks}, [check.witness for check in expected.checks]
    for check in outcome.report.checks:
        assert (check.witness is not None) == (check.verdict != "ok")
    assert outcome.report.events == expected.events
    return outcome


@pytest.fixture(scope="module")
def clean() -> Rows:
    return run(SCENARIOS / "calm.toml").rows


@pytest.mark.parametrize("order", registry.names())
@pytest.mark.parametrize("scenario", ["calm", "partition_merge", "crash"])
def test_every_orderer(spark: Any, tmp_path: Path, scenario: str, order: str) -> None:
    result = run(SCENARIOS / f"{scenario}.toml", order=order)
    write_all(tmp_path, "parquet", result.recorders)
    agrees(spark, tmp_path, result.rows, checks=list(CHECKS))
    chosen = verify([str(tmp_path)], session=spark).report.checks
    expected = check_history(result.rows).checks
    assert [(check.name, check.verdict) for check in chosen] == [(check.name, check.verdict) for check in expected]


def delivers(rows: Rows, process: str) -> list[int]:
    return [index for index, row in enumerate(rows) if row["kind"] == "deliver" and row["process"] == process]


def exchange(rows: Rows, one: int, two: int) -> None:
    """Two deliveries change places: messages with their positions, steps stay."""
    first, second = rows[one], rows[two]
    rows[one], rows[two] = {**second, "step": first["step"]}, {**first, "step": second["step"]}


def swap(rows: Rows) -> None:
    at = delivers(rows, "b#1")
    exchange(rows, at[900], at[905])


def swap_numbers_only(rows: Rows) -> None:
    """The places stay, so positions increase, but two messages have other positions than elsewhere."""
    at = delivers(rows, "b#1")
    one, two = rows[at[900]], rows[at[901]]
    rows[at[900]] = {**one, "origin": two["origin"], "number": two["number"], "digest": two["digest"]}
    rows[at[901]] = {**two, "origin": one["origin"], "number": one["number"], "digest": one["digest"]}


def swap_of_one_sender(rows: Rows) -> None:
    at = [index for index in delivers(rows, "c#1") if rows[index]["origin"] == "a#1"]
    exchange(rows, at[100], at[101])


def drop(rows: Rows) -> None:
    del rows[delivers(rows, "c#1")[500]]


def drop_own(rows: Rows) -> None:
    """Others deliver what its sender does not."""
    del rows[[index for index in delivers(rows, "a#1") if rows[index]["origin"] == "a#1"][200]]


def drop_send(rows: Rows) -> None:
    del rows[next(i for i, row in enumerate(rows) if row["kind"] == "send" and row["process"] == "a#1" and row["number"] == 50)]


def duplicate(rows: Rows) -> None:
    at = delivers(rows, "d#1")
    again = dict(rows[at[300]])
    rows[at[700]] = {**again, "step": rows[at[700]]["step"]}


def duplicate_far_away(rows: Rows) -> None:
    at = delivers(rows, "d#1")
    rows[at[-1]] = {**rows[at[10]], "step": rows[at[-1]]["step"]}


def forge_digest(rows: Rows) -> None:
    index = delivers(rows, "e#1")[600]
    rows[index] = {**rows[index], "digest": 12345}


def move_position(rows: Rows) -> None:
    index = delivers(rows, "a#1")[400]
    *head, last = rows[index]["position"]
    rows[index] = {**rows[index], "position": (*head, last + 40)}


def lose_position(rows: Rows) -> None:
    index = delivers(rows, "a#1")[400]
    rows[index] = {name: value for name, value in rows[index].items() if name != "position"}


def invent(rows: Rows) -> None:
    index = delivers(rows, "a#1")[400]
    rows[index] = {**rows[index], "number": 999_999}


def cut_process_out(rows: Rows) -> None:
    rows[:] = [row for row in rows if row["process"] != "e#1"]


def deliver_before_send(rows: Rows) -> None:
    """Everything a process sent is recorded after all it delivered."""
    mine = [row for row in rows if row["process"] == "c#1"]
    late = [row for row in mine if row["kind"] == "send"]
    order = [row for row in mine if row["kind"] != "send"] + late
    rows[:] = [row for row in rows if row["process"] != "c#1"] + [{**row, "step": n} for n, row in enumerate(order, start=1)]


def two_messages_one_position(rows: Rows) -> None:
    """A message that only its sender delivers takes the position of another one's, which the sender does not deliver."""
    at = delivers(rows, "b#1")
    victim = rows[at[800]]
    own = next(row for row in rows if row["kind"] == "send" and row["process"] == "b#1")
    rows[at[800]] = {**victim, "origin": own["origin"], "number": 888_888}


DAMAGE: list[Callable[[Rows], None]] = [
    swap,
    swap_numbers_only,
    swap_of_one_sender,
    drop,
    drop_own,
    drop_send,
    duplicate,
    duplicate_far_away,
    forge_digest,
    move_position,
    lose_position,
    invent,
    cut_process_out,
    deliver_before_send,
    two_messages_one_position,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_judged_as_the_oracle_does(spark: Any, tmp_path: Path, clean: Rows, damage: Callable[[Rows], None]) -> None:
    rows = list(clean)
    damage(rows)
    agrees(spark, write(tmp_path / "t", rows), rows)


LOCAL = [swap, swap_numbers_only, drop, drop_own, duplicate, forge_digest, move_position]


@pytest.mark.parametrize("damage", LOCAL, ids=lambda damage: damage.__name__)
def test_a_fault_needs_only_the_rows_around_it(spark: Any, tmp_path: Path, clean: Rows, damage: Callable[[Rows], None]) -> None:
    """With far less room than the run has rows the verdicts stand: islands, not the whole history, were judged."""
    rows = list(clean)
    damage(rows)
    agrees(spark, write(tmp_path / "t", rows), rows, residue_max=4_500)


def test_a_run_without_a_candidate_order_is_decided_as_a_whole(spark: Any, tmp_path: Path, clean: Rows) -> None:
    rows = list(clean)
    lose_position(rows)
    agrees(spark, write(tmp_path / "t", rows), rows, residue_max=100)
    swap(rows)
    agrees(spark, write(tmp_path / "u", rows), rows, residue_max=100)


def test_random_faults(spark: Any, tmp_path: Path, clean: Rows) -> None:
    for seed in range(12):
        chance = random.Random(seed)
        rows = list(clean)
        at = delivers(rows, chance.choice(["a#1", "b#1", "c#1", "d#1", "e#1"]))
        for _ in range(chance.randint(1, 3)):
            one = chance.randrange(len(at) - 60)
            two = one + chance.randint(1, 50)
            if chance.random() < 0.6:
                exchange(rows, at[one], at[two])
            else:
                rows[at[two]] = {**rows[at[one]], "step": rows[at[two]]["step"]}
        agrees(spark, write(tmp_path / str(seed), rows), rows)


def test_json_lines(spark: Any, tmp_path: Path, clean: Rows) -> None:
    rows = list(clean)
    swap(rows)
    for process in sorted({row["process"] for row in rows}):
        writer = open_writer(tmp_path, process, "jsonl")
        writer.write([row for row in rows if row["process"] == process])
        writer.close()
    lines = ['{"process": "z#1", "step": 1, "kind": "start"}', '{"broken', '{"process": "z#1", "step": "x"}', "", ""]
    (tmp_path / "z.jsonl").write_text("\n".join(lines))
    extra: Row = {"process": "z#1", "step": 1, "kind": "start"}
    outcome = agrees(spark, tmp_path, [*rows, extra])
    assert outcome.report.quarantined == 2
    assert [found.reason.split(":")[0] for found in outcome.quarantined] == ["broken JSON", "wrong type"]
    with pytest.raises(TraceFormatError, match="2 malformed rows"):
        verify([str(tmp_path)], SCANNED, session=spark, strict=True)


@pytest.mark.parametrize("damage", [None, swap, duplicate], ids=["clean", "swap", "duplicate"])
def test_shuffled_rows(spark: Any, tmp_path: Path, clean: Rows, damage: Callable[[Rows], None] | None) -> None:
    """All processes mixed in two files, rows in any order."""
    rows = list(clean)
    if damage is not None:
        damage(rows)
    mixed = list(rows)
    random.Random(1).shuffle(mixed)
    half = len(mixed) // 2
    for name, part in (("x", mixed[:half]), ("y", mixed[half:])):
        pq.write_table(table_of_rows(part), tmp_path / f"{name}.parquet", row_group_size=3_000)
    agrees(spark, tmp_path, rows)


@pytest.mark.parametrize("small_rows", [0, 40_000])
def test_of_rows_with_one_step_the_first_counts(spark: Any, tmp_path: Path, small_rows: int) -> None:
    """The repeated rows would hide that two deliveries change places, and show others that do not happen."""
    count = 8_000
    rows: Rows = []
    for number in range(1, count + 1):
        about = {"process": "a", "origin": "a", "number": number}
        rows.append({**about, "step": 2 * number - 1, "kind": "send"})
        rows.append({**about, "step": 2 * number, "kind": "deliver", "position": number})
    order = [*range(1, 4_001), 4_002, 4_001, *range(4_003, count + 1)]
    for step, number in enumerate(order, start=1):
        rows.append({"process": "b", "step": step, "kind": "deliver", "origin": "a", "number": number, "position": number})
    near = {"process": "b", "step": 4_002, "kind": "deliver", "origin": "a", "number": 4_002, "position": 4_002}
    far = {"process": "a", "step": 2, "kind": "deliver", "origin": "a", "number": 77, "position": 77}
    given = [*rows[: 2 * count + 4_002], near, *rows[2 * count + 4_002 :], far]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    checks = ["fifo", "total_global", "position", "duplication"]
    outcome = verify([str(tmp_path)], checks, session=spark, small_rows=small_rows)
    assert [check.verdict for check in outcome.report.checks] == ["violated", "violated", "violated", "ok"]
    assert [check.verdict for check in check_history(rows, checks).checks] == ["violated", "violated", "violated", "ok"]
    assert (outcome.report.events, outcome.report.quarantined) == (len(rows), 2)


def test_several_runs_are_kept_apart(spark: Any, tmp_path: Path, clean: Rows) -> None:
    bad = list(clean)
    swap(bad)
    rows = [{**row, "run": "one"} for row in clean] + [{**row, "run": "two"} for row in bad]
    outcome = agrees(spark, write(tmp_path / "t", rows), rows)
    assert all(str(check.witness or "").startswith("run two: ") for check in outcome.report.checks if check.verdict == "violated")


def test_foreign_files(spark: Any, tmp_path: Path) -> None:
    """Plain strings, 32-bit numbers, positions as a list, only the required columns besides."""
    rows = [
        {"process": p, "step": s, "kind": "deliver", "origin": "z", "number": n, "position": [n]}
        for p, order in (("a", (1, 2, 3)), ("b", (1, 3, 2)))
        for s, n in enumerate(order)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "foreign.parquet")
    outcome = agrees(spark, tmp_path, rows)
    assert outcome.report.violated() == ["fifo", "total_global", "position"]


def test_malformed_rows_and_truncated_files_are_quarantined(spark: Any, tmp_path: Path, clean: Rows) -> None:
    path = write(tmp_path / "t", clean)
    whole = (path / "p0-0.parquet").read_bytes()
    (path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    bad = table_of_rows([{"process": "y#1", "step": 1, "kind": "deliver"}, {"process": "y#1", "step": 2, "kind": "nonsense"}])
    pq.write_table(bad, path / "bad.parquet")
    outcome = agrees(spark, path, clean)
    reasons = [found.reason for found in outcome.quarantined]
    assert outcome.report.quarantined == len(reasons) == 3
    assert reasons[0].startswith("unreadable Parquet file")
    assert reasons[1:] == ["missing column origin on deliver", "unknown kind 'nonsense'"]


def test_globs(spark: Any, tmp_path: Path, clean: Rows) -> None:
    path = write(tmp_path / "t", clean)
    count = sum(1 for row in clean if row["process"] == clean[0]["process"])
    assert verify([f"{path}/p0-*.parquet"], SCANNED, session=spark).report.events == count
    assert verify([f"file://{path}/p0-*.parquet"], SCANNED, session=spark).report.events == count


def test_bad_input_is_one_line(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="nothing there ends in"):
        verify([str(tmp_path)], session=spark)
    with pytest.raises(TraceFormatError, match="no such file or directory"):
        verify([str(tmp_path / "missing")], session=spark)
    with pytest.raises(TraceFormatError, match="no trace given"):
        verify([], session=spark)
    with pytest.raises(ConfigError, match="unknown check 'fiffo': did you mean 'fifo'"):
        verify([str(tmp_path)], ["fiffo"], session=spark)
