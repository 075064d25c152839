"""Histories to measure: simulated ones, small ones made by hand, and random soups of rows."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isotone.pipeline.metrics import READ
from isotone.pipeline.metrics.plain.run import Run
from isotone.sim import parse_scenario, run
from isotone.trace.columns import table_of_rows
from tests.spark.metrics_reference import Row, Table, log_of

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def table_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as Spark hands them to a task."""
    import pyarrow as pa

    table = table_of_rows(list(rows)).select(READ)  # type: ignore[arg-type]
    for name, form in (("members", list), ("detail", dict)):
        texts = [None if value is None else json.dumps(form(value)) for value in table.column(name).to_pylist()]
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return table.cast(pa.schema([(one.name, plain_type(one.type)) for one in table.schema]))


def plain_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def runs_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Run]:
    """The plain side of each run; rows come in any order."""
    found: dict[str, Table] = {}
    for row in rows:
        found.setdefault(row.get("run") or "", []).append(dict(row))
    rng = random.Random(1)
    return {name: Run(table_of(rng.sample(mine, len(mine)))) for name, mine in sorted(found.items())}


def simulated() -> Table:
    """Two recorded runs with arrivals."""
    rows: Table = []
    for name, order in (("crash", "single_phase"), ("partition_merge", "sequencer")):
        rows += with_arrivals(run(SCENARIOS / f"{name}.toml", order, overrides={"duration_ms": 6_000}).rows, 7)
    return rows


def with_arrivals(rows: Sequence[Mapping[str, Any]], seed: int) -> Table:
    """A recorded run with `receive` rows at random places between the send and the delivery of what others sent."""
    rng = random.Random(seed)
    found = []
    sent = {(row["origin"], row["number"]): row["time"] for row in rows if row["kind"] == "send"}
    for (_, process), log in log_of(rows).items():
        placed: list[tuple[int, float, Row]] = [(row["time"], index + 0.5, row) for index, row in enumerate(log)]
        for index, row in enumerate(log):
            if row["kind"] == "deliver" and row["origin"] != process:
                time = rng.randint(sent[row["origin"], row["number"]], row["time"])
                arrival: Row = {name: row.get(name) for name in ("run", "process", "origin", "number")}
                placed.append((time, 0 if time < row["time"] else index + 0.25, {**arrival, "kind": "receive", "time": time}))
        placed.sort(key=lambda entry: entry[:2])
        found += [{**row, "step": step + 1} for step, (_, _, row) in enumerate(placed)]
    return found


def soup(run: str, seed: int) -> Table:
    """A history in the loosest sense: every kind of row, with holes, repetitions and nonsense, but steps in order."""
    rng = random.Random(seed)
    members = [f"{name}#1" for name in "abcd"[: rng.randint(1, 4)]]
    clocks = rng.choice([None, None, ["x", "y"], ["virtual"]])
    holes = rng.choice([0.0, 0.0, 0.15])
    numbered = rng.random() < 0.7
    silent = {kind for kind in ("send", "receive", "packet", "flush") if rng.random() < 0.15}
    rows: Table = []
    for process in members:
        time, epoch = rng.randint(0, 50), 0
        for step in range(1, rng.randint(2, 90)):
            time += rng.choice([0, 1, 5, 40])
            kind = "start" if step == 1 else rng.choice(
                ["send"] * 4 + ["deliver"] * 8 + ["receive"] * 4 + ["flush", "transitional", "view"] + ["switch", "packet"] * 3
            )  # fmt: skip
            row: Row = {"run": run, "process": process, "step": step, "kind": kind, "time": time}
            if kind == "start" and clocks:
                row["detail"] = {"clock": rng.choice(clocks)}
            elif kind == "send":
                row |= {"origin": process, "number": rng.randint(1, 12), "size": rng.randint(0, 9)}
            elif kind in ("deliver", "receive"):
                row |= {"origin": rng.choice(members), "number": rng.randint(1, 12)}
                if kind == "deliver":
                    row |= {"size": rng.randint(0, 9), "protocol": rng.choice(["fifo", "causal"]), "view_epoch": epoch or None}
                    row["view_proposer"] = members[0] if epoch else None
            elif kind == "view":
                epoch += 1
                row |= {"view_epoch": epoch, "view_proposer": members[0], "members": members}
            elif kind == "switch":
                phase = rng.choice(["request", "cut", "done"])
                row["detail"] = {"from": "fifo", "to": rng.choice(["causal", "atop"]), "phase": phase}
                row |= {"view_epoch": epoch or None, "view_proposer": members[0] if epoch else None}
                if numbered:
                    row["detail"]["instance"] = str(rng.randint(1, 2))
            elif kind == "packet":
                row |= {
                    "packet": rng.choice(["ack", "token"]),
                    "fanout": rng.randint(1, 3),
                    "count": rng.randint(1, 3),
                    "size": rng.randint(1, 9),
                }
                row |= {"view_epoch": epoch or None, "view_proposer": members[0] if epoch else None}
                if rng.random() < 0.7:
                    row["detail"] = {"switch": str(rng.randint(1, 2))}
            for name in ("time", "size", "fanout", "count"):
                if name in row and rng.random() < holes:
                    row[name] = None
            if kind not in silent:
                rows.append(row)
    return rows


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


def switched(strategy: str = "dual_ids") -> Table:
    """A simulated run in which the group switches under load, over links that take 10 ms."""
    scenario = parse_scenario({
        "name": f"switched-{strategy}", "members": ["a", "b", "c"], "duration_ms": 3_000, "order": "single_phase",
        "network": {"latency": {"kind": "constant", "ms": 10}},
        "workload": [{"kind": "periodic", "interval_ms": 20, "start_ms": 600, "stop_ms": 2_500, "size_min": 99, "size_max": 99}],
        "faults": [{"kind": "switch", "at_ms": 1_500, "who": "b", "order": "atop", "strategy": strategy}],
    })  # fmt: skip
    return [dict(row) for row in run(scenario).rows]


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


def bare() -> Table:
    """Nothing but what a row must have."""
    message = {"run": "bare", "origin": "a#1", "number": 1}
    return [
        {**message, "process": "a#1", "step": 1, "kind": "send"},
        {**message, "process": "a#1", "step": 2, "kind": "deliver"},
        {**message, "process": "b#1", "step": 1, "kind": "deliver"},
    ]


def sendless() -> Table:
    """Deliveries of messages whose sends were not recorded."""
    message = {"run": "sendless", "process": "a#1", "kind": "deliver", "origin": "a#1", "size": 5}
    return [{**message, "step": number, "number": number, "time": 20 * number} for number in (1, 2)]
