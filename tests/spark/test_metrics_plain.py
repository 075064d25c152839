"""The plain metrics of a run against their definitions, on random soups and simulated runs, and on histories made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from isotone.pipeline.metrics.columns import COLUMNS
from isotone.pipeline.metrics.plain import changes, flow
from isotone.pipeline.metrics.plain.run import WHY, Run
from isotone.pipeline.metrics.plain.summary import summary_of
from isotone.pipeline.metrics.plain.sums import one
from tests.spark.metrics_histories import hosts, runs_of, sendless, simulated, soup, steady, switched, switching
from tests.spark.metrics_reference import Reference, Row, Table, spread, whole

BUCKET_NS = 10


def close(found: Any, wanted: Any) -> bool:
    """Equal, but for the last digits of floats."""
    if isinstance(wanted, float) and found is not None:
        return bool(found == pytest.approx(wanted, rel=1e-9, abs=1e-9))
    return bool(found == wanted)


def same(found: Sequence[Mapping[str, Any]], wanted: Table, keys: Sequence[str]) -> None:
    """The same rows; every wanted column is compared."""
    have = {tuple(row[key] for key in keys): row for row in found}
    want = {tuple(row[key] for key in keys): row for row in wanted}
    assert len(have) == len(found)
    assert have.keys() == want.keys()
    for key, row in want.items():
        for name, value in row.items():
            assert name == "run" or close(have[key][name], value), (key, name, have[key][name], value)


def deliveries_of(run: Run) -> Table:
    """The deliveries as rows."""
    rows = run.delivered
    names = {"latency_ns": "latency", "held_ns": "held"} | {
        name: name for name in ("step", "time", "at", "size", "times", "view_epoch", "received_step")
    }
    found = []
    for place in range(len(rows)):
        row: Row = {name: one(getattr(rows, mine)[place]) for name, mine in names.items()}
        for name in ("process", "origin", "protocol", "view_proposer"):
            row[name] = flow.text(run, name, int(getattr(rows, name)[place]))
        found.append(row | {"why": WHY[rows.why[place]] or None, "remote": bool(rows.remote[place])})
    return found


def gaps_of(run: Run) -> Table:
    """The gaps as rows."""
    gaps = run.gaps
    return [
        {"process": run.members[process].process, "begin_step": int(begin), "end_step": int(end), "gap_ns": one(gap)}
        for process, begin, end, gap in zip(gaps.process, gaps.begin_step, gaps.end_step, gaps.gap, strict=True)
    ]


def compare(rows: Table) -> Reference:
    """All of one run."""
    reference = Reference(rows, BUCKET_NS)
    ((name, run),) = runs_of(rows).items()
    wanted = [{key: value for key, value in row.items() if key != "number"} for row in reference.delivered]
    same(deliveries_of(run), wanted, ("process", "step"))
    for by in ("origin", "process", "protocol"):
        same(flow.latency(run, by), reference.latency([by]), (by,))
    pairs = [{key: value for key, value in row.items() if key not in ("begin", "end")} for row in reference.gaps]
    same(gaps_of(run), pairs, ("process", "begin_step"))
    same(flow.interarrival(run), reference.interarrival(), ("process",))
    same(flow.rate_variance(run, BUCKET_NS), reference.variance(), ("process", "origin"))
    same(flow.throughput(run), reference.throughput(), ("process",))
    same(flow.control(run), reference.control(), ("packet",))
    same(changes.view_changes(run), reference.view_changes(), ("process", "end_step"))
    same(changes.switches(run), reference.switches(), ("process", "end_step"))
    same(flow.delay(run), reference.delay(), ("process", "view_epoch", "view_proposer"))
    summary = summary_of(name, run, BUCKET_NS)
    assert list(summary) == list(COLUMNS)
    same([summary], [totals_of(name, reference)], ("run",))
    return reference


def totals_of(name: str, reference: Reference) -> Row:
    """Most of the summary, from the definitions."""
    rows = [row for log in reference.logs.values() for row in log]
    mine = reference.delivered
    sends = [row for row in rows if row["kind"] == "send"]
    packets = [row for row in rows if row["kind"] == "packet"]
    counts = [1 if row.get("count") is None else row["count"] for row in packets]
    copies = [None if row.get("fanout") is None else row["fanout"] * n for row, n in zip(packets, counts, strict=True)]
    late = [row for row in reference.view_changes() if not row["initial"]]
    turned = reference.switches()
    flows, delays = reference.variance(), reference.delay()
    return {
        "run": name, "rows": len(rows), "deliveries": len(mine), "sent": len(sends) if sends or not mine else None,
        "duplicates": sum(row["times"] - 1 for row in mine), "early": sum(row["why"] == "early" for row in mine),
        **spread("latency", [row["latency_ns"] for row in mine]), **spread("held", [row["held_ns"] for row in mine]),
        **spread("remote_latency", [row["latency_ns"] for row in mine if row["remote"]]),
        **spread("gap", [gap["gap_ns"] for gap in reference.gaps]),
        "control_multicasts": sum(counts) if counts else None,
        "control_records": whole(copies), "control_bytes": whole([row.get("size") for row in packets]),
        "view_changes": len(late) if any(row["kind"] == "view" for row in rows) else None,
        "view_change_max_ns": max((row["duration_ns"] for row in late if row["duration_ns"] is not None), default=None),
        "view_change_mean_ns": mean([row["duration_ns"] for row in late]),
        "view_change_gap_max_ns": max((row["gap_ns"] for row in late if row["gap_ns"] is not None), default=None),
        "switches": len(turned), "switch_mean_ns": mean([row["duration_ns"] for row in turned]),
        "switch_max_ns": max((row["duration_ns"] for row in turned if row["duration_ns"] is not None), default=None),
        "switch_gap_max_ns": max((row["gap_ns"] for row in turned if row["gap_ns"] is not None), default=None),
        "switch_bytes": reference.switch_bytes(),
        **{f"rate_{what}": mean([row[f"delivered_{what}"] for row in flows]) for what in ("mean", "variance", "dispersion")},
        "clocks": len(set(reference.clocks.values())),
        **{f"delay_{key}": sum(row[key] for row in delays) if delays else None for key in ("messages", "degree", "overtaken")},
    }  # fmt: skip


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def test_soups() -> None:
    seen: set[Any] = set()
    for seed in range(300):
        reference = compare(soup("soup", seed))
        seen |= {row["why"] for row in reference.delivered} | {row["missing"] for row in reference.view_changes()}
        turned = reference.switches()
        seen |= {row["missing"] for row in turned} | {("extra", row["extra_bytes"] is not None) for row in turned}
        seen |= {("degree", row["degree"] > 0) for row in reference.delay()} | {row["times"] > 1 for row in reference.delivered}
    assert seen >= {*WHY[1:], None, "flush", "flush.time", "view.time", ("degree", True), ("degree", False), True,
                    "switch.phase", "switch.done", "switch.time", ("extra", True), ("extra", False)}  # fmt: skip


def test_simulated_runs() -> None:
    rows = simulated()
    for name in {row["run"] for row in rows}:
        assert len(compare([row for row in rows if row["run"] == name]).delivered) > 100


def test_switches() -> None:
    """Phases in a row are one switch; the same switch again is another one; a single row has no duration."""
    run = runs_of(switching())["switching"]
    found = changes.switches(run)
    assert [row["duration_ns"] for row in found] == [40, 20, None]
    assert [row["gap_ns"] for row in found] == [60, 40, None]
    assert [row["missing"] for row in found] == [None, None, "switch.phase"]
    assert found[0]["phases"] == {"flag": 0, "cut": 20, "done": 40}
    assert [row["to"] for row in found] == ["atop", "atop", "token"]
    total = summary_of("", run, BUCKET_NS)
    assert (total["switches"], total["switch_mean_ns"], total["switch_max_ns"], total["switch_gap_max_ns"]) == (3, 30, 40, 60)


@pytest.mark.parametrize("strategy", ["dual_ids", "dual", "rabp", "stop"])
def test_what_a_switch_costs(strategy: str) -> None:
    """Extra bytes are all that was said about it, and what travelled twice: never the messages themselves."""
    rows = switched(strategy)
    reference = compare(rows)
    run = runs_of(rows)[f"switched-{strategy}"]
    found = changes.switches(run)
    assert [(row["from"], row["to"], row["strategy"]) for row in found] == [("single_phase", "atop", strategy)] * 3
    assert all(set(row["phases"]) == {"request", "cut", "done"} for row in found)
    assert all(0 < row["duration_ns"] <= 100_000_000 for row in found)
    assert all(row["duration_ns"] == row["phases"]["done"] for row in found)
    assert all(row["gap_ns"] is not None for row in found)
    assert sum(row["extra_bytes"] for row in found) == reference.switch_bytes() == summary_of("", run, BUCKET_NS)["switch_bytes"]
    kinds = {row["packet"]: row["records"] for row in flow.control(run)}
    assert kinds["switch"] >= 2 * {"dual_ids": 3 + 3, "dual": 3 + 3, "rabp": 1 + 6, "stop": 3 + 3}[strategy]
    assert ("again" in kinds) == (strategy in ("dual", "rabp"))
    payload = sum(row["size"] for row in rows if row["kind"] == "packet" and row["packet"] == "again")
    assert payload >= kinds.get("again", 0) * 99
    assert summary_of("", run, BUCKET_NS)["missing"] == ["receive"]


def test_extra_bytes_of_a_trace_that_does_not_say_are_unknown() -> None:
    rows = switched()
    for row in rows:
        if row["kind"] == "packet":
            row.pop("detail", None)
    run = runs_of(rows)["switched-dual_ids"]
    assert {row["extra_bytes"] for row in changes.switches(run)} == {None}
    total = summary_of("", run, BUCKET_NS)
    assert total["switch_bytes"] is None
    assert "packet.switch" in total["missing"]


def test_a_switch_that_a_view_ended_has_no_duration_and_the_next_is_another_one() -> None:
    def switch(step: int, epoch: int, phase: str) -> Row:
        detail = {"strategy": "dual", "from": "fifo", "to": "atop", "instance": "1", "phase": phase}
        return {"process": "a#1", "step": step, "kind": "switch", "time": 10 * step, "detail": detail, "view_epoch": epoch}

    rows = [switch(1, 1, "request"), switch(2, 1, "cut"), switch(3, 2, "request"), switch(4, 2, "cut"), switch(5, 2, "done")]
    found = changes.switches(runs_of(rows)[""])
    assert [(row["duration_ns"], row["missing"]) for row in found] == [(None, "switch.done"), (20, None)]
    compare(rows)


def test_a_constant_delay_is_the_latency_of_fifo() -> None:
    ((_, run),) = runs_of(steady()).items()
    total = summary_of("", run, BUCKET_NS)
    assert total["remote_latency_count"] == 2 * total["sent"] > 100
    for name in ("mean", "p50", "p99", "max"):
        assert total[f"remote_latency_{name}_ns"] == 3_000_000
    assert total["latency_max_ns"] == 3_000_000
    assert total["latency_mean_ns"] == 2_000_000
    assert (total["clocks"], total["processes"], total["missing"]) == (1, 3, ["receive"])


def test_without_sends_there_is_no_latency() -> None:
    run = runs_of(sendless())["sendless"]
    total = summary_of("", run, BUCKET_NS)
    assert (total["sent"], total["latency_mean_ns"], total["sent_per_s"]) == (None, None, None)
    assert (total["gap_mean_ns"], total["delivered_bytes_per_s"]) == (20, 5e8)
    assert "send" in total["missing"]
    assert [(row["sent"], row["delivered"]) for row in flow.throughput(run)] == [(None, 2)]


def test_clocks_of_two_hosts_are_not_compared() -> None:
    run = runs_of(hosts())["hosts"]
    total = summary_of("", run, BUCKET_NS)
    assert (total["latency_count"], total["latency_max_ns"], total["clocks"], total["duration_ns"]) == (1, 2, 2, 50)
    assert "one clock" in total["missing"]
    (far,) = [row for row in flow.latency(run, "process") if row["process"] == "b#1"]
    assert (far["latency_mean_ns"], far["missing"]) == (None, ["clock", "receive"])
