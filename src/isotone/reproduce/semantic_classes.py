"""The classes of histories of paper 002 (§5, §7.2, §7.3), counted and sampled as tasks on Spark.

A task counts all histories of a bound with some senders, or applies every scheduler to some drawn arrivals. Finished tasks are
kept in `classes.json` and not run again, as long as the code of the schedulers is the same.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isotone.pipeline.schedulers.arrivals import drawn
from isotone.pipeline.schedulers.classes import ORDERS
from isotone.pipeline.schedulers.compare import compare
from isotone.pipeline.schedulers.containment import Counted, count, senders_of
from isotone.pipeline.ship import sources

LENGTH, SITES = 12, 4
"""Of drawn arrivals: messages and sites."""
DELAYS: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Mean delays of a packet, in mean times between two sends."""
SHARES: Final = (0.0, 0.01, 0.1, 0.5, 1.0)
AT_DELAY, AT_SHARE = 0.3, 0.5
"""What is held fixed while the other varies."""
MEASURES: Final = ("belongs", "degree", "held", "aborted")

Task = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Classes:
    """What came out."""

    counted: list[Counted]
    samples: int
    """Per point of the curves."""
    by_delay: dict[float, dict[str, dict[str, float]]]
    """Shares of runs (belongs), of deliveries (degree, held) and of messages (aborted), per order."""
    by_share: dict[float, dict[str, dict[str, float]]]


def tasks(quick: bool) -> list[Task]:
    """All that is to be computed."""
    bounds = [(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)] + ([] if quick else [(3, 4), (4, 3)])
    found: list[Task] = [
        {"messages": messages, "sites": sites, "senders": senders}
        for messages, sites in bounds
        for senders in senders_of(messages, sites)
    ]
    samples, chunk = (100, 100) if quick else (1_000, 250)
    curves = [*((delay, AT_SHARE) for delay in DELAYS), *((AT_DELAY, share) for share in SHARES if share != AT_SHARE)]
    for delay, share in curves:
        found += [{"delay": delay, "share": share, "first": first, "seeds": chunk} for first in range(0, samples, chunk)]
    return found


def work(task: Task) -> Any:
    """Do one task."""
    if "senders" in task:
        counted = count(task["messages"], task["sites"], [task["senders"]])
        return [counted.histories, list(counted.by_pattern.items()), list(counted.examples.items())]
    sums = {order: dict.fromkeys(MEASURES, 0) for order in ORDERS}
    for seed in range(task["first"], task["first"] + task["seeds"]):
        for one in compare(drawn(seed, LENGTH, SITES, task["delay"], task["share"])):
            mine = sums[one.order]
            mine["belongs"] += one.belongs
            mine["degree"] += one.delay.degree
            mine["held"] += one.delay.held
            mine["aborted"] += one.aborted
    return sums


def gather(done: Iterable[tuple[Task, Any]]) -> Classes:
    """Put the results of the tasks together."""
    bounds: dict[tuple[int, int], Counted] = {}
    curves: dict[tuple[float, float], dict[str, dict[str, float]]] = {}
    seeds: Counter[tuple[float, float]] = Counter()
    for task, result in done:
        if "senders" in task:
            bound = task["messages"], task["sites"]
            histories, patterns, examples = result
            part = Counted(*bound, histories, Counter(dict(map(tuple, patterns))), dict(map(tuple, examples)))
            bounds.setdefault(bound, Counted(*bound)).add(part)
        else:
            point = task["delay"], task["share"]
            seeds[point] += task["seeds"]
            into = curves.setdefault(point, {order: dict.fromkeys(MEASURES, 0.0) for order in ORDERS})
            for order, sums in result.items():
                for measure, value in sums.items():
                    into[order][measure] += value
    for point, orders in curves.items():
        runs = seeds[point]
        whole = {"belongs": runs, "degree": runs * LENGTH * SITES, "held": runs * LENGTH * SITES, "aborted": runs * LENGTH}
        for sums in orders.values():
            for measure in MEASURES:
                sums[measure] /= whole[measure]
    return Classes(
        list(bounds.values()),
        min(seeds.values()),
        {delay: curves[delay, AT_SHARE] for delay in DELAYS},
        {share: curves[AT_DELAY, share] for share in SHARES},
    )


def compute(out: Path, quick: bool, spark: Any, progress: Callable[[int, int], None]) -> Classes:
    """Run the tasks that are not finished."""
    wanted = {json.dumps(task, sort_keys=True): task for task in tasks(quick)}
    kept, code = out / "classes.json", _code()
    stored = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    known: dict[str, Any] = stored["results"] if stored.get("code") == code else {}
    todo = [key for key in wanted if key not in known]
    progress(len(wanted) - len(todo), len(wanted))
    if todo:
        known.update(zip(todo, _on_spark(spark, [wanted[key] for key in todo]), strict=True))
        part = kept.with_name(f".{kept.name}.part")
        part.write_text(json.dumps({"code": code, "results": known}) + "\n", encoding="utf-8")
        part.replace(kept)
    progress(len(wanted), len(wanted))
    return gather((task, known[key]) for key, task in wanted.items())


def _on_spark(spark: Any, todo: Sequence[Task]) -> list[Any]:
    """Each task on its own; the results in the order of the tasks."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            places = batch.column(0).to_pylist()
            texts = [json.dumps(work(todo[place])) for place in places]
            yield pa.record_batch([pa.array(places, pa.int64()), pa.array(texts, pa.string())], ["place", "result"])

    frame = spark.range(0, len(todo), 1, len(todo)).mapInArrow(run, "place long, result string")
    found = {row["place"]: json.loads(row["result"]) for row in frame.collect()}
    return [found[place] for place in range(len(todo))]


def _code() -> str:
    digest = hashlib.sha256()
    for name, data in sources("pipeline/schedulers"):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
