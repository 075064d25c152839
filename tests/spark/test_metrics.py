"""The queries over long histories against the plain metrics: many runs in one frame, as queries cost seconds each."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotone.model.errors import ConfigError
from isotone.pipeline import metrics
from isotone.pipeline.metrics import changes, columns, delays, flow, frame, short, summaries, tables
from isotone.pipeline.metrics.plain import flow as plain_flow
from isotone.pipeline.metrics.plain.run import Run
from isotone.pipeline.metrics.plain.summary import summary_of
from isotone.pipeline.metrics.plain.sums import nearest
from isotone.pipeline.metrics.plain.tables import tables_of
from isotone.trace.columns import table_of_rows
from tests.spark.metrics_histories import bare, hosts, runs_of, sendless, simulated, soup, steady, switched, switching
from tests.spark.metrics_reference import Reference, Row, Table
from tests.spark.test_metrics_plain import close, deliveries_of, gaps_of, same

BUCKET_NS = 10


def in_a_file(spark: Any, path: Path, rows: Sequence[Mapping[str, Any]]) -> Any:
    """A history as a file has it."""
    file = path / "history.parquet"
    pq.write_table(table_of_rows(list(rows)), file)  # type: ignore[arg-type]
    return spark.read.parquet(str(file))


def collected(found: Any) -> Table:
    return [row.asDict(recursive=True) for row in found.collect()]


def alike(found: Any, wanted: Any, where: str = "") -> None:
    """The same tables, in the same order, with the same keys."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), where
        assert found.keys() == wanted.keys(), where
        for key, value in wanted.items():
            alike(found[key], value, f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), (where, found, wanted)
        for place, value in enumerate(wanted):
            alike(found[place], value, f"{where}[{place}]")
    else:
        assert close(found, wanted), (where, found, wanted)


def everywhere(runs: Mapping[str, Run], function: Callable[[Run], Sequence[Row]]) -> Table:
    """The rows of all runs."""
    return [{"run": name, **row} for name, run in runs.items() for row in function(run)]


@pytest.fixture(scope="module")
def histories() -> Table:
    """Many runs; one has no name."""
    rows = [row for seed in range(40) for row in soup(f"soup{seed:02}", seed)]
    rows += [{**row, "run": None} for row in soup("", 99)]
    return rows + bare() + simulated() + switching() + switched() + switched("dual") + steady() + hosts() + sendless()


@pytest.fixture(scope="module")
def plain(histories: Table) -> dict[str, Run]:
    return runs_of(histories)


@pytest.fixture(scope="module")
def history(spark: Any, histories: Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return in_a_file(spark, tmp_path_factory.mktemp("metrics"), histories)


@pytest.fixture(scope="module")
def interpreted(spark: Any) -> Iterator[None]:
    """Queries are not compiled here: that takes most of the time of such small ones."""
    wanted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def ready(history: Any, interpreted: None) -> Iterator[metrics.Prepared]:
    """The histories, kept; chunks of few steps, so that seams are everywhere; and no run is left out."""
    kept = metrics.prepare(history).persist()
    patch = pytest.MonkeyPatch()
    for module in (changes, delays, flow):
        patch.setattr(module, "CHUNK", 7)
    patch.setattr(tables, "RUNS_MAX", 1_000)
    yield kept
    patch.undo()
    kept.unpersist()


def test_summary(ready: metrics.Prepared, plain: dict[str, Run]) -> None:
    found = summaries.long_summary(ready, BUCKET_NS)
    assert dict(found.dtypes) == columns.summary_types()
    assert found.columns == list(metrics.COLUMNS)
    have = {row["run"]: row for row in collected(found)}
    alike(have, {name: summary_of(name, run, BUCKET_NS) for name, run in plain.items()})


def test_tables(ready: metrics.Prepared, plain: dict[str, Run]) -> None:
    """All tables of a report, which rest on all other functions."""
    found = tables.long_tables(ready)
    wanted = [tables_of(name, run, None) for name, run in plain.items()]
    alike(found, {"runs_total": len(plain), "runs": wanted})
    for name in (*columns.CUT, "kinds", "latency_over_time", "rate_over_time", "histogram", "histogram_by_origin"):
        assert any(entry[name] for entry in wanted), name


def test_rows(ready: metrics.Prepared, plain: dict[str, Run]) -> None:
    """What is larger than a table of a report."""
    same_rows(metrics.deliveries(ready), everywhere(plain, deliveries_of), ("run", "process", "step"))
    same_rows(metrics.gaps(ready), everywhere(plain, gaps_of), ("run", "process", "begin_step"))
    same_rows(metrics.delay(ready), everywhere(plain, plain_flow.delay), ("run", "process", "view_epoch", "view_proposer"))


def same_rows(found: Any, wanted: Table, keys: Sequence[str]) -> None:
    rows = collected(found)
    same(rows, wanted, keys)
    assert {row["run"] for row in rows} == {row["run"] for row in wanted}


def test_groupings(ready: metrics.Prepared, histories: Table) -> None:
    """Groupings that no table has."""
    reference = Reference(histories, BUCKET_NS)
    same_rows(metrics.latency(ready, by=["remote"]), reference.latency(["run", "remote"]), ("run", "remote"))
    over_time = reference.latency(["run"], bucketed=True)
    same_rows(metrics.latency(ready, bucket_ns=BUCKET_NS), over_time, ("run", "bucket"))
    same_rows(metrics.rates(ready, BUCKET_NS, by=["origin"]), reference.rates(["run", "origin"]), ("run", "origin", "bucket"))


def test_both_ways_rank_percentiles_alike(spark: Any) -> None:
    """Of n values the one in place ⌈p · n⌉: exactly if they are few, and nearly if not."""
    rng = random.Random(3)
    few = columns.ACCURACY // 2 - 1
    groups = {size: [rng.randrange(10**12) for _ in range(size)] for size in (*range(1, 202), 1_000, few, 2 * columns.ACCURACY)}
    table = pa.table({
        "size": [size for size in groups for _ in range(size)],
        "value": [value for values in groups.values() for value in values],
    })  # fmt: skip
    for row in spark.createDataFrame(table).repartition(3).groupBy("size").agg(*frame.spread("value", "x")).collect():
        size = row["size"]
        values = np.array(sorted(groups[size]), dtype=np.int64)
        for name, part in (("x_p50_ns", 0.5), ("x_p99_ns", 0.99)):
            off = abs(int(np.searchsorted(values, row[name])) - int(np.searchsorted(values, nearest(values, part))))
            assert off <= (0 if size <= few else 1 + size / columns.ACCURACY), (size, name)


def test_short_runs(spark: Any, history: Any, plain: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs are measured inside tasks; how many rows they have is counted unless it is said."""
    wanted = {name: summary_of(name, run, BUCKET_NS) for name, run in plain.items()}
    entries = [tables_of(name, run, None) for name, run in list(plain.items())[: columns.RUNS_MAX]]

    def never(*_: Any) -> None:
        raise AssertionError("a query for long runs")

    monkeypatch.setattr(short, "long_summary", never)
    monkeypatch.setattr(short, "long_tables", never)
    for longest in (None, len(plain["soup00"])):
        found = metrics.summary(history, BUCKET_NS, longest=longest)
        assert dict(found.dtypes) == columns.summary_types()
        alike({row["run"]: row for row in collected(found)}, wanted)
    for rows in (None, 1):
        alike(metrics.report_data(history, rows=rows), {"runs_total": len(plain), "runs": entries})
    monkeypatch.setattr(short, "SHORT", max(len(run) for run in plain.values()))  # less than all together
    alike(metrics.report_data(history), {"runs_total": len(plain), "runs": entries})
    with pytest.raises(ConfigError, match="more than 10000 pieces: take"):
        metrics.report_data(history, bucket_ns=1)
    monkeypatch.setattr(short, "SHORT", 10)
    for function in (metrics.summary, metrics.report_data):
        with pytest.raises(AssertionError, match="a query for long runs"):
            function(history)


MINIMAL = "process string, step bigint, kind string, origin string, number bigint"


def test_what_is_missing_is_null_and_named(spark: Any) -> None:
    rows = [("a#1", 1, "send", "a#1", 1), ("a#1", 2, "deliver", "a#1", 1), ("b#1", 1, "deliver", "a#1", 1)]
    history = spark.createDataFrame(rows, MINIMAL)
    (total,) = collected(metrics.summary(history))
    assert (total["run"], total["sent"], total["deliveries"], total["processes"]) == ("", 1, 2, 2)
    expected = ["deliver.time", "deliver.size", "send.time", "send.size", "receive", "packet", "view"]
    assert total["missing"] == expected
    needy = ("duration_ns", "span_ns", "sent_per_s", "delivered_bytes_per_s", "latency_mean_ns", "held_max_ns", "gap_p50_ns",
             "rate_variance", "control_records", "control_bytes_per_message", "view_changes", "delay_degree")  # fmt: skip
    assert {name: total[name] for name in needy} == dict.fromkeys(needy)


def test_of_nothing_comes_nothing(spark: Any) -> None:
    history = spark.createDataFrame([], MINIMAL)
    ready = metrics.prepare(history).persist()
    functions = [getattr(metrics, name) for name in ("latency", "rates", "gaps", "switches", "summary")]
    for function in functions:
        assert function(ready).collect() == [], function
    ready.unpersist()
    nothing = {"runs_total": 0, "runs": []}
    assert metrics.report_data(history) == metrics.report_data(history, rows=0) == tables.long_tables(history) == nothing


def test_a_wrong_wish_is_named(spark: Any) -> None:
    history = spark.createDataFrame([], MINIMAL)
    with pytest.raises(ConfigError, match="unknown grouping 'orign': did you mean 'origin'"):
        metrics.latency(history, by=["orign"])
    for function in (metrics.rates, metrics.summary, metrics.report_data):
        with pytest.raises(ConfigError, match="must be at least 1"):
            function(history, 0)
    with pytest.raises(AttributeError, match="has no attribute 'jitter'"):
        _ = metrics.jitter
