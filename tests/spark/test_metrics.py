"""Every metric against the same in plain Python: simulated runs, random soups of rows, several runs in one frame."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq

from isotone.model.errors import ConfigError
from isotone.pipeline import metrics
from isotone.pipeline.metrics import changes, delays, flow
from isotone.sim import parse_scenario, run
from isotone.trace.columns import table_of_rows
from tests.spark.metrics_reference import Reference, Row, Table, soup, spread, whole, with_arrivals

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
BUCKET_NS = 10


def frame(spark: Any, path: Path, rows: Sequence[Mapping[str, Any]]) -> Any:
    """A history as a file has it."""
    file = path / "history.parquet"
    pq.write_table(table_of_rows(list(rows)), file)  # type: ignore[arg-type]
    return spark.read.parquet(str(file))


def same(found: Any, expected: Table, keys: Sequence[str]) -> None:
    """The rows of a frame are the expected ones, as far as those go; every expected column is compared."""
    have = {tuple(row[key] for key in keys): row.asDict(recursive=True) for row in found.collect()}
    want = {tuple(row[key] for key in keys): row for row in expected}
    assert len(want) == len(expected)
    assert have.keys() == want.keys()
    for key, row in want.items():
        for name, value in row.items():
            given = have[key][name]
            exact = isinstance(value, float) and given is not None
            assert given == (pytest.approx(value, rel=1e-9, abs=1e-9) if exact else value), (key, name)


@pytest.fixture(scope="module")
def histories() -> list[Row]:
    """Many runs: soups, and two simulated ones with arrivals."""
    rows = [row for seed in range(24) for row in soup(f"soup{seed}", seed)]
    for name, order in (("crash", "single_phase"), ("partition_merge", "sequencer")):
        rows += with_arrivals(run(SCENARIOS / f"{name}.toml", order, overrides={"duration_ms": 6_000}).rows, 7)
    return rows


@pytest.fixture(scope="module")
def reference(histories: list[Row]) -> Reference:
    return Reference(histories, BUCKET_NS)


@pytest.fixture(scope="module")
def ready(spark: Any, histories: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Iterator[metrics.Prepared]:
    """The histories, kept; chunks of few steps, so that seams are everywhere."""
    kept = metrics.prepare(frame(spark, tmp_path_factory.mktemp("metrics"), histories)).persist()
    patch = pytest.MonkeyPatch()
    for module in (changes, delays, flow):
        patch.setattr(module, "CHUNK", 7)
    yield kept
    patch.undo()
    kept.unpersist()


def test_deliveries(ready: metrics.Prepared, reference: Reference) -> None:
    same(metrics.deliveries(ready), reference.delivered, ("run", "process", "origin", "number"))
    assert {row["why"] for row in reference.delivered} >= {None, "send", "send.time", "deliver.time", "clock", "early"}
    assert any(row["times"] > 1 for row in reference.delivered)


@pytest.mark.parametrize("by", ["origin", "process", "protocol", "remote"])
def test_latency(ready: metrics.Prepared, reference: Reference, by: str) -> None:
    same(metrics.latency(ready, by=[by]), reference.latency(["run", by]), ("run", by))


def test_latency_over_time(ready: metrics.Prepared, reference: Reference) -> None:
    found = metrics.latency(ready, bucket_ns=BUCKET_NS)
    same(found, reference.latency(["run"], bucketed=True), ("run", "bucket"))


def test_gaps(ready: metrics.Prepared, reference: Reference) -> None:
    same(metrics.gaps(ready), reference.gaps, ("run", "process", "begin_step"))
    same(metrics.interarrival(ready), reference.interarrival(), ("run", "process"))


def test_rates(ready: metrics.Prepared, reference: Reference) -> None:
    found = metrics.rates(ready, BUCKET_NS, by=["origin"])
    same(found, reference.rates(["run", "origin"]), ("run", "origin", "bucket"))
    same(metrics.rate_variance(ready, BUCKET_NS), reference.variance(), ("run", "process", "origin"))
    same(metrics.throughput(ready), reference.throughput(), ("run", "process"))


def test_control(ready: metrics.Prepared, reference: Reference) -> None:
    same(metrics.control(ready), reference.control(), ("run", "packet"))


def test_view_changes(ready: metrics.Prepared, reference: Reference) -> None:
    expected = reference.view_changes()
    same(metrics.view_changes(ready), expected, ("run", "process", "end_step"))
    assert {row["missing"] for row in expected} >= {None, "flush"}


def test_delay(ready: metrics.Prepared, reference: Reference) -> None:
    expected = reference.delay()
    same(metrics.delay(ready), expected, ("run", "process", "view_epoch", "view_proposer"))
    assert any(row["degree"] for row in expected)
    assert any(not row["degree"] for row in expected)


def test_summary(ready: metrics.Prepared, reference: Reference) -> None:
    found = metrics.summary(ready, BUCKET_NS)
    assert found.columns == list(metrics.COLUMNS)
    latency = {row["run"]: row for row in reference.latency(["run"])}
    remote = {row["run"]: row for row in reference.latency(["run", "remote"]) if row["remote"]}
    changed, delay, flows, gaps = reference.view_changes(), reference.delay(), reference.variance(), reference.gaps
    expected = []
    for name in sorted({who[0] for who in reference.logs}):
        rows = [row for who, log in reference.logs.items() if who[0] == name for row in log]
        mine = [row for row in reference.delivered if row["run"] == name]
        sends = [row for row in rows if row["kind"] == "send"]
        packets = [row for row in rows if row["kind"] == "packet"]
        counts = [1 if row.get("count") is None else row["count"] for row in packets]
        copies = [None if row.get("fanout") is None else row["fanout"] * n for row, n in zip(packets, counts, strict=True)]
        late = [row for row in changed if row["run"] == name and not row["initial"]]
        nothing = {**spread("latency", []), **spread("held", [])}
        far = remote.get(name, nothing)
        row = {
            "run": name, "rows": len(rows), "deliveries": len(mine), "sent": len(sends) if sends or not mine else None,
            "duplicates": sum(row["times"] - 1 for row in mine),
            **{key: value for key, value in latency.get(name, nothing).items() if key.startswith(("latency", "held", "early"))},
            **{f"remote_{key}": value for key, value in far.items() if key.startswith("latency")},
            **spread("gap", [gap["gap_ns"] for gap in gaps if gap["run"] == name]),
            "control_records": whole(copies), "control_bytes": whole([row.get("size") for row in packets]),
            "view_changes": len(late) if any(row["kind"] == "view" for row in rows) else None,
            "view_change_max_ns": most([row["duration_ns"] for row in late]),
            "view_change_mean_ns": mean([row["duration_ns"] for row in late]),
            "view_change_gap_max_ns": most([row["gap_ns"] for row in late]),
            "rate_variance": mean([row["delivered_variance"] for row in flows if row["run"] == name]),
            "rate_dispersion": mean([row["delivered_dispersion"] for row in flows if row["run"] == name]),
            "clocks": len({clock for who, clock in reference.clocks.items() if who[0] == name}),
        }  # fmt: skip
        some = [entry for entry in delay if entry["run"] == name]
        for key in ("messages", "degree", "overtaken"):
            row[f"delay_{key}"] = sum(entry[key] for entry in some) if some else None
        expected.append(row)
    same(found, expected, ["run"])


def most(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def switching() -> Table:
    """The same switch twice, and one of which a single row is recorded."""
    rows: Table = []

    def add(kind: str, time: int, **more: Any) -> None:
        rows.append({"run": "switching", "process": "a#1", "step": len(rows) + 1, "kind": kind, "time": time, **more})

    def switch(time: int, to: str, **phase: str) -> None:
        add("switch", time, detail={"strategy": "dual", "from": "fifo", "to": to, **phase}, protocol=to)

    add("deliver", 100, origin="a#1", number=1)
    for time, phase in ((110, "flag"), (130, "cut"), (150, "done")):
        switch(time, "atop", phase=phase)
    add("deliver", 160, origin="a#1", number=2)
    for time, phase in ((170, "flag"), (175, "cut"), (190, "done")):
        switch(time, "atop", phase=phase)
    add("deliver", 200, origin="a#1", number=3)
    switch(210, "token")
    return rows


def steady() -> Table:
    """A simulated run over links that take 3 ms."""
    scenario = parse_scenario({
        "name": "steady", "members": ["a", "b", "c"], "duration_ms": 1_500, "order": "fifo",
        "network": {"latency": {"kind": "constant", "ms": 3}},
        "workload": [{"kind": "periodic", "interval_ms": 5, "start_ms": 600, "stop_ms": 1_000}],
    })  # fmt: skip
    return [dict(row) for row in run(scenario).rows]


def hosts() -> Table:
    """One message between two hosts, each with its own clock."""
    message = {"run": "hosts", "origin": "a#1", "number": 1, "size": 1}
    return [
        {"run": "hosts", "process": "a#1", "step": 1, "kind": "start", "time": 0, "detail": {"clock": "host1"}},
        {**message, "process": "a#1", "step": 2, "kind": "send", "time": 5},
        {**message, "process": "a#1", "step": 3, "kind": "deliver", "time": 7},
        {"run": "hosts", "process": "b#1", "step": 1, "kind": "start", "time": 900, "detail": {"clock": "host2"}},
        {**message, "process": "b#1", "step": 2, "kind": "deliver", "time": 950},
    ]


def sendless() -> Table:
    """Deliveries of messages whose sends were not recorded."""
    message = {"run": "sendless", "process": "a#1", "kind": "deliver", "origin": "a#1", "size": 5}
    return [{**message, "step": number, "number": number, "time": 20 * number} for number in (1, 2)]


@pytest.fixture(scope="module")
def small(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[metrics.Prepared]:
    rows = switching() + steady() + hosts() + sendless()
    kept = metrics.prepare(frame(spark, tmp_path_factory.mktemp("small"), rows)).persist()
    yield kept
    kept.unpersist()


@pytest.fixture(scope="module")
def totals(small: metrics.Prepared) -> dict[str, Any]:
    return {row["run"]: row for row in metrics.summary(small).collect()}


def test_switches(small: metrics.Prepared, totals: dict[str, Any]) -> None:
    """Phases in a row are one switch; the same switch again is another one; a single row has no duration."""
    found = [row.asDict(recursive=True) for row in metrics.switches(small).orderBy("end_step").collect()]
    assert [row["duration_ns"] for row in found] == [40, 20, None]
    assert [row["gap_ns"] for row in found] == [60, 40, None]
    assert [row["missing"] for row in found] == [None, None, "switch.phase"]
    assert found[0]["phases"] == {"flag": 0, "cut": 20, "done": 40}
    assert [row["to"] for row in found] == ["atop", "atop", "token"]
    total = totals["switching"]
    assert (total["switches"], total["switch_mean_ns"], total["switch_max_ns"], total["switch_gap_max_ns"]) == (3, 30, 40, 60)


def test_a_constant_delay_is_the_latency_of_fifo(totals: dict[str, Any]) -> None:
    total = totals["steady"]
    assert total["remote_latency_count"] == 2 * total["sent"] > 100
    for name in ("mean", "p50", "p99", "max"):
        assert total[f"remote_latency_{name}_ns"] == 3_000_000
    assert total["latency_max_ns"] == 3_000_000
    assert total["latency_mean_ns"] == 2_000_000
    assert (total["clocks"], total["processes"], total["missing"]) == (1, 3, ["receive"])


def test_without_sends_there_is_no_latency(small: metrics.Prepared, totals: dict[str, Any]) -> None:
    total = totals["sendless"]
    assert (total["sent"], total["latency_mean_ns"], total["sent_per_s"]) == (None, None, None)
    assert (total["gap_mean_ns"], total["delivered_bytes_per_s"]) == (20, 5e8)
    assert "send" in total["missing"]
    through = metrics.throughput(small).where("run = 'sendless'").collect()[0]
    assert (through["sent"], through["delivered"]) == (None, 2)


def test_clocks_of_two_hosts_are_not_compared(small: metrics.Prepared, totals: dict[str, Any]) -> None:
    total = totals["hosts"]
    assert (total["latency_count"], total["latency_max_ns"], total["clocks"], total["duration_ns"]) == (1, 2, 2, 50)
    assert "one clock" in total["missing"]
    remote = metrics.latency(small, by=["remote"]).where("run = 'hosts' and remote").collect()[0]
    assert (remote["latency_mean_ns"], remote["missing"]) == (None, ["clock", "receive"])


MINIMAL = "process string, step bigint, kind string, origin string, number bigint"


def test_what_is_missing_is_null_and_named(spark: Any) -> None:
    rows = [("a#1", 1, "send", "a#1", 1), ("a#1", 2, "deliver", "a#1", 1), ("b#1", 1, "deliver", "a#1", 1)]
    total = metrics.summary(spark.createDataFrame(rows, MINIMAL)).collect()[0]
    assert (total["run"], total["sent"], total["deliveries"], total["processes"]) == ("", 1, 2, 2)
    expected = ["deliver.time", "deliver.size", "send.time", "send.size", "receive", "packet", "view"]
    assert total["missing"] == expected
    needy = ("duration_ns", "span_ns", "sent_per_s", "delivered_bytes_per_s", "latency_mean_ns", "held_max_ns", "gap_p50_ns",
             "rate_variance", "control_records", "control_bytes_per_message", "view_changes", "delay_degree")  # fmt: skip
    assert {name: total[name] for name in needy} == dict.fromkeys(needy)


EVERY = (
    "latency",
    "gaps",
    "rates",
    "rate_variance",
    "control",
    "view_changes",
    "switches",
    "view_spans",
    "delay",
    "summary",
    "sends",
)


def test_of_nothing_comes_nothing(spark: Any) -> None:
    ready = metrics.prepare(spark.createDataFrame([], MINIMAL)).persist()
    for name in EVERY:
        function: Callable[[Any], Any] = getattr(metrics, name)
        assert function(ready).collect() == [], name
    ready.unpersist()


def test_a_wrong_grouping_is_named(spark: Any) -> None:
    history = spark.createDataFrame([], MINIMAL)
    with pytest.raises(ConfigError, match="unknown grouping 'orign': did you mean 'origin'"):
        metrics.latency(history, by=["orign"])
    with pytest.raises(ConfigError, match="must be at least 1"):
        metrics.rates(history, 0)
    with pytest.raises(AttributeError, match="has no attribute 'jitter'"):
        _ = metrics.jitter
