"""What paper 002's part computes is what the schedulers say, is put together right, and is reused; its measures fit the rows."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.pipeline.schedulers.arrivals import drawn
from isotone.pipeline.schedulers.compare import compare
from isotone.pipeline.schedulers.containment import count
from isotone.reproduce import measures, semantic_classes
from tests.spark.test_reproduce import QUIET, table_of

MS = 1_000_000


def done(task: semantic_classes.Task) -> tuple[semantic_classes.Task, Any]:
    """A task with its result, as it comes back from an executor."""
    return task, json.loads(json.dumps(semantic_classes.work(task)))


def test_tasks_together_are_the_whole() -> None:
    found = semantic_classes.gather(done(task) for task in semantic_classes.tasks(True))
    whole = count(3, 3)
    parts = next(one for one in found.counted if (one.messages, one.sites) == (3, 3))
    assert parts.histories == whole.histories
    assert parts.by_pattern == whole.by_pattern
    assert parts.examples.keys() == whole.examples.keys()
    runs = [compare(drawn(seed, semantic_classes.LENGTH, semantic_classes.SITES, 0.3, 0.5)) for seed in range(found.samples)]
    fifo = [run[0] for run in runs]
    point = found.by_delay[0.3]["fifo"]
    assert point == found.by_share[0.5]["fifo"]
    assert point["belongs"] == pytest.approx(sum(one.belongs for one in fifo) / len(runs))
    assert point["degree"] == pytest.approx(sum(one.delay.degree for one in fifo) / len(runs) / 48)
    assert point["aborted"] == pytest.approx(sum(one.aborted for one in fifo) / len(runs) / 12)


def test_finished_tasks_are_reused_while_the_code_is_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semantic_classes, "DELAYS", (0.3,))
    monkeypatch.setattr(semantic_classes, "SHARES", (0.5,))
    shown: list[tuple[int, int]] = []
    first = semantic_classes.compute(tmp_path, True, spark, lambda *many: shown.append(many))
    assert shown[0][0] == 0
    assert shown[-1][0] == shown[-1][1] > 10
    again = semantic_classes.compute(tmp_path, True, None, lambda *many: shown.append(many))  # no session: nothing to run
    assert again == first
    monkeypatch.setattr(semantic_classes, "_code", lambda: "another")
    with pytest.raises(AttributeError):
        semantic_classes.compute(tmp_path, True, None, lambda *_: None)


def test_reach_and_latency_by_type_are_what_the_rows_say() -> None:
    load = [{**QUIET["workload"][0], "types": [kind]} for kind in ("ordered", "free")]  # type: ignore[index]
    table, rows = table_of({**QUIET, "workload": load})
    sent = {(row["origin"], row["number"]): row for row in rows if row["kind"] == "send"}
    last: dict[tuple[str, int], int] = {}
    took: dict[str, list[int]] = {"ordered": [], "free": []}
    begin, end = min(row["time"] for row in sent.values()), max(row["time"] for row in sent.values())
    for row in rows:
        if row["kind"] == "deliver":
            message = (row["origin"], row["number"])
            last[message] = max(last.get(message, 0), row["time"])
            if sent[message]["time"] >= begin + (end - begin) // 3:
                took[sent[message]["type"]].append(row["time"] - sent[message]["time"])
    reached = [last[message] - row["time"] for message, row in sent.items()]
    found = measures.reach(table)
    assert (found["reach_min_ms"], found["reach_max_ms"]) == (min(reached) / MS, max(reached) / MS)
    assert found["reach_mean_ms"] == pytest.approx(sum(reached) / len(reached) / MS)
    means = measures.by_type(table)
    assert means == {f"{kind}_ms": pytest.approx(sum(values) / len(values) / MS) for kind, values in took.items()}
