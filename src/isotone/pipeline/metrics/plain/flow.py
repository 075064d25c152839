"""Latencies, rates, throughput, control records and delay of one run; the Spark modules beside this package define them."""

from collections.abc import Mapping

import numpy as np

from isotone.pipeline.metrics.columns import SECOND_NS
from isotone.pipeline.metrics.plain.run import WHY, Run
from isotone.pipeline.metrics.plain.sums import (
    NONE,
    Ints,
    Row,
    grouped,
    joint,
    known,
    least,
    most,
    series,
    spread,
    whole,
)


def text(run: Run, column: str, code: int) -> str | None:
    """The text behind a code."""
    return None if code < 0 else run.words(column)[code]


def latency(run: Run, by: str) -> list[Row]:
    """Deliveries summed up by `origin`, `process` or `protocol`."""
    found = []
    rows = run.delivered
    for code, mine in grouped(getattr(rows, by)):
        reasons = {WHY[why] for why in np.unique(rows.why[mine]) if why}
        if not len(known(rows.received_step[mine])):
            reasons.add("receive")
        found.append({
            by: text(run, by, code),
            "deliveries": len(mine),
            **spread("latency", rows.latency[mine]),
            **spread("held", rows.held[mine]),
            "early": int((rows.why[mine] == WHY.index("early")).sum()),
            "missing": sorted(reasons),
        })  # fmt: skip
    return found


def interarrival(run: Run) -> list[Row]:
    """The time between deliveries, by process."""
    return [
        {"process": text(run, "process", code), **spread("gap", run.gaps.gap[mine])} for code, mine in grouped(run.gaps.process)
    ]


def delivery_rates(run: Run, bucket_ns: int) -> list[Row]:
    """How the deliveries of each origin at each process vary over time."""
    rows = run.delivered
    timed = np.flatnonzero(rows.at != NONE)
    found = []
    for _, mine in grouped(joint(rows.process[timed], rows.origin[timed])):
        places = timed[mine]
        process, origin = int(rows.process[places[0]]), int(rows.origin[places[0]])
        flow = series(rows.at[places], bucket_ns)
        found.append({"process": text(run, "process", process), "origin": text(run, "origin", origin), **flow})
    return found


def rate_variance(run: Run, bucket_ns: int) -> list[Row]:
    """`delivery_rates`, with the sends of the origin."""
    sends = run.of("send")
    sends = sends[run.at[sends] != NONE]
    origins = run.codes("origin")[sends]
    names = ("mean", "variance", "dispersion")
    sent: dict[str | None, Row] = {}
    for code, mine in grouped(origins):
        if code >= 0:
            sent[text(run, "origin", code)] = series(run.at[sends[mine]], bucket_ns)
    found = []
    for row in delivery_rates(run, bucket_ns):
        other = sent.get(row["origin"], {})
        found.append({
            **{name: row[name] for name in ("process", "origin", "buckets", "events")},
            **{f"delivered_{name}": row[name] for name in names},
            **{f"sent_{name}": other.get(name) for name in names},
        })  # fmt: skip
    return found


def throughput(run: Run) -> list[Row]:
    """Messages and bytes sent and delivered by each process, in total and per second."""
    sends, rows = run.of("send"), run.delivered
    sizes = run.ints("size")[sends]
    out = dict(grouped(run.process[sends]))
    into = dict(grouped(rows.process))
    nothing: Ints = np.zeros(0, dtype=np.int64)
    found = []
    for code in sorted(out.keys() | into.keys()):
        mine, got = out.get(code, nothing), into.get(code, nothing)
        times = np.concatenate((run.at[sends[mine]], rows.at[got]))
        first, last = least(times), most(times)
        span = None if first is None or last is None else last - first
        totals: dict[str, int | None] = {
            "sent": len(mine) if len(sends) else None,
            "delivered": len(got) if len(rows) else None,
            "sent_bytes": whole(sizes[mine]),
            "delivered_bytes": whole(rows.size[got]),
        }
        per = {f"{name}_per_s": per_second(total, span) for name, total in totals.items()}
        found.append({"process": text(run, "process", code), **totals, "span_ns": span, **per})
    return found


def per_second(total: int | None, span_ns: int | None) -> float | None:
    """A total over a span of time."""
    return total * float(SECOND_NS) / span_ns if span_ns and total is not None else None


def control_totals(run: Run, packets: Ints) -> dict[str, int | None]:
    """The sums over packet rows at these places."""
    count, fanout = run.ints("count")[packets], run.ints("fanout")[packets]
    count = np.where(count == NONE, 1, count)
    copies = np.where(fanout == NONE, NONE, count * np.where(fanout == NONE, 0, fanout))
    return {"multicasts": whole(count), "records": whole(copies), "bytes": whole(run.ints("size")[packets])}


def per_message(totals: Mapping[str, int | None], sent: int | None) -> dict[str, float | None]:
    """Control records per message sent."""
    return {f"{name}_per_message": total / sent if sent and total is not None else None for name, total in totals.items()}


def control(run: Run) -> list[Row]:
    """One row per kind of control record."""
    packets, sent = run.of("packet"), run.count("send")
    found = []
    for code, mine in grouped(run.codes("packet")[packets]):
        totals = control_totals(run, packets[mine])
        lacks = {"packet.fanout": totals["records"] is None, "packet.size": totals["bytes"] is None, "send": not sent}
        missing = [name for name, lack in lacks.items() if lack]
        name = text(run, "packet", code)
        found.append({"packet": name, "rows": len(mine), **totals, **per_message(totals, sent), "missing": missing})
    return found


def delay(run: Run) -> list[Row]:
    """The degree of delay of each process in each view."""
    rows = run.delivered
    arrived = np.flatnonzero(rows.received_step != NONE)
    epochs, proposers = rows.view_epoch[arrived], rows.view_proposer[arrived]
    words = run.words("view_proposer")
    proposers = np.where(proposers < 0, words.index("") if "" in words else -1, proposers)
    found = []
    for _, mine in grouped(joint(rows.process[arrived], epochs, proposers)):
        places = arrived[mine]
        places = places[np.argsort(rows.received_step[places])]
        steps = rows.step[places]
        later = np.minimum.accumulate(steps[::-1])[::-1]
        passed = np.flatnonzero(steps[:-1] > later[1:])
        prefix = int(passed[0]) if len(passed) else len(steps)
        epoch, proposer = int(epochs[mine[0]]), int(proposers[mine[0]])
        viewed = epoch != NONE
        found.append({
            "process": text(run, "process", int(rows.process[places[0]])),
            "view_epoch": epoch if viewed else None,
            "view_proposer": (text(run, "view_proposer", proposer) or "") if viewed else None,
            "messages": len(steps),
            "prefix": prefix,
            "degree": len(steps) - prefix,
            "overtaken": len(passed),
        })  # fmt: skip
    return found
