"""The measures of the switching experiment say what the rows say, and its set-up tells the strategies apart."""

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

import itertools

from isotone.reproduce import switching, switching_measures, switching_points
from isotone.reproduce.measures import Messages
from tests.spark.test_reproduce import table_of

MS = 1_000_000


def scenario(strategy: str, rate: float, count: int, period_ms: float) -> dict[str, Any]:
    """The part's own set-up, shorter."""
    length = 1000.0 * count / min(rate, 250)
    return {
        **switching.PART.scenario,
        "duration_ms": switching_points.START_MS + length + 1_000,
        "workload": [switching_points.load(rate, count)],
        "faults": switching_points.switches(strategy, period_ms, length),
    }


def test_throughput_is_what_the_rows_say() -> None:
    table, rows = table_of(scenario("dual", 200, 60, 101))
    first = min(row["time"] for row in rows if row["kind"] == "send")
    rates = []
    for name in switching_points.MEMBERS:
        times = [row["time"] for row in rows if row["kind"] == "deliver" and row["process"] == f"{name}#1"]
        rates.append(len(times) / (max(times) - first) * 1e9 / 5)
    found = switching_measures.throughput(table)
    assert found["throughput"] == pytest.approx(sum(rates) / 5)
    assert found["undelivered"] == 0
    done = [row for row in rows if row["kind"] == "switch" and row["detail"]["phase"] == "done"]
    assert found["switches"] == len(done) / 5 >= 2
    assert 0 < found["switching"] < 0.5


def test_around_a_switch_is_what_the_rows_say() -> None:
    table, rows = table_of(scenario("rabp", 200, 120, 251))
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    gaps, spikes = [], []
    for process in {row["process"] for row in rows if row["kind"] == "switch"}:
        mine = [row for row in rows if row["process"] == process]
        begins = [row["time"] for row in mine if row["kind"] == "switch" and row["detail"]["phase"] == "request"]
        ends = [row["time"] for row in mine if row["kind"] == "switch" and row["detail"]["phase"] == "done"]
        for begin, end in zip(begins, ends, strict=True):
            if end + 60 * MS >= max(sent.values()):
                continue
            near = [row for row in mine if row["kind"] == "deliver" and begin - 10 * MS <= row["time"] < end + 60 * MS]
            edges = [begin - 10 * MS, *(row["time"] for row in near), end + 60 * MS]
            gaps.append(max(later - earlier for earlier, later in itertools.pairwise(edges)))
            spikes.append(max(row["time"] - sent[row["origin"], row["number"]] for row in near))
    found = switching_measures.around(table)
    assert found["gap_ms"] == pytest.approx(sum(gaps) / len(gaps) / MS)
    assert found["spike_ms"] == pytest.approx(sum(spikes) / len(spikes) / MS)  # nothing waits between hand-in and send here
    assert found["gap_ms"] > found["calm_gap_ms"]
    shown = json.loads(found["shown"])
    assert len(shown["at"]) == len(shown["took"]) == sum(shown["ticks"]) > 50
    assert shown["switches"]


def test_latency_counts_from_the_hand_in() -> None:
    """While `stop` holds a message back, it has been handed in and not been sent."""
    table, rows = table_of(scenario("stop", 400, 80, 51))
    run = Messages(table)
    handed = switching_measures.handed_in(table, run)
    assert (handed <= run.send_time).all()
    assert (handed < run.send_time).any()
    submitted = sorted(row["time"] for row in rows if row["kind"] == "submit")
    assert sorted(handed.tolist()) == submitted  # one message each


def test_without_a_switch_there_is_nothing_around_it() -> None:
    assert switching_measures.around(table_of(scenario("none", 100, 20, 101))[0]) == {}


def test_the_set_up_tells_the_strategies_apart() -> None:
    """Figures 2 and 3: dual stops growing when the links are full, stop loses what it holds up, dual_ids nothing."""
    found = {
        strategy: switching_measures.throughput(table_of(scenario(strategy, 600, 150, 101))[0])["throughput"]
        for strategy in ("none", "dual", "dual_ids", "stop")
    }
    assert found["dual"] < 0.75 * found["none"]
    assert found["dual_ids"] > 0.95 * found["none"]
    assert found["stop"] < 0.97 * found["dual_ids"]
    assert found["none"] < switching_points.CAPACITY["node"]


def test_the_knee_is_the_last_rate_before_it_falls_behind() -> None:
    assert switching._knee([1, 2, 3], [1, 2, 3], [1, 2, 2]) == 2
    assert switching._knee([1, 2, 3], [1, 2, 3], [1, 1, 3]) == 1
    assert switching._knee([1, 2], [1, 2], [0, 2]) == 0
