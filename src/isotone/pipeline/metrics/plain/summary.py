"""The summary of one run: every metric in one flat row, with the names and meanings of `COLUMNS`."""

from isotone.pipeline.metrics.columns import COLUMNS
from isotone.pipeline.metrics.plain.changes import paid_places, switches, view_changes
from isotone.pipeline.metrics.plain.flow import control_totals, delay, delivery_rates, per_message, per_second
from isotone.pipeline.metrics.plain.run import WHY, Run
from isotone.pipeline.metrics.plain.sums import NONE, Row, least, mean, most, spread, whole


def summary_of(name: str, run: Run, bucket_ns: int) -> Row:
    """The row of a run; what cannot be known is None, and `missing` says for want of what."""
    rows = run.delivered
    sends = run.of("send")
    sent = len(sends) if len(sends) or not len(rows) else None
    sent_bytes, delivered_bytes = whole(run.ints("size")[sends]), whole(rows.size)
    ends = [least(run.at[sends]), least(rows.at), most(run.at[sends]), most(rows.at)]
    there = [end for end in ends if end is not None]
    span = max(there) - min(there) if there else None
    durations = [time for member in run.members if (time := member.since(member.last)) is not None]
    control = control_totals(run, run.of("packet"))
    found: Row = {
        "run": name,
        "rows": len(run),
        "processes": sum(not member.surroundings for member in run.members),
        "clocks": len({member.clock for member in run.members}),
        "duration_ns": max(durations, default=None),
        "sent": sent,
        "deliveries": len(rows),
        "duplicates": int(rows.times.sum()) - len(rows),
        "returned": run.count("returned"),
        "early": int((rows.why == WHY.index("early")).sum()),
        "span_ns": span,
        "sent_per_s": per_second(sent, span),
        "sent_bytes_per_s": per_second(sent_bytes, span),
        "delivered_per_s": per_second(len(rows), span),
        "delivered_bytes_per_s": per_second(delivered_bytes, span),
        **spread("latency", rows.latency),
        **spread("remote_latency", rows.latency[rows.remote]),
        **spread("held", rows.held),
        **spread("gap", run.gaps.gap),
        **{f"control_{what}": total for what, total in control.items()},
        **{f"control_{what}": total for what, total in per_message(control, sent).items()},
    }
    flows = delivery_rates(run, bucket_ns)
    for what in ("mean", "variance", "dispersion"):
        found[f"rate_{what}"] = mean([flow[what] for flow in flows])
    found |= _changed(run)
    delays = delay(run)
    for what in ("messages", "degree", "overtaken"):
        found[f"delay_{what}"] = sum(row[what] for row in delays) if delays else None
    lacks = {
        "deliver": not len(rows),
        "deliver.time": len(rows) and not (run.time[run.of("deliver")] != NONE).any(),
        "deliver.size": len(rows) and delivered_bytes is None,
        "send": len(rows) and not len(sends),
        "send.time": len(sends) and not (run.time[sends] != NONE).any(),
        "send.size": len(sends) and sent_bytes is None,
        "one clock": (rows.why == WHY.index("clock")).any(),
        "receive": not run.count("receive"),
        "packet": not run.count("packet"),
        "packet.fanout": run.count("packet") and control["records"] is None,
        "packet.size": run.count("packet") and control["bytes"] is None,
        "view": not run.count("view"),
        "packet.switch": found["switches"] and run.count("packet") and found["switch_bytes"] is None,
        "flush": found["view_changes"] and not run.count("flush", "transitional"),
    }
    found["missing"] = [what for what, lack in lacks.items() if lack]
    return {column: found[column] for column in COLUMNS}


def _changed(run: Run) -> Row:
    installed = [row for row in view_changes(run) if not row["initial"]]
    turned = switches(run)
    found: Row = {"view_changes": len(installed) if run.count("view") else None, "switches": len(turned)}
    for prefix, changes in (("view_change", installed), ("switch", turned)):
        durations = [row["duration_ns"] for row in changes if row["duration_ns"] is not None]
        gaps = [row["gap_ns"] for row in changes if row["gap_ns"] is not None]
        found[f"{prefix}_mean_ns"] = mean(durations)
        found[f"{prefix}_max_ns"] = max(durations, default=None)
        found[f"{prefix}_gap_max_ns"] = max(gaps, default=None)
    found["switch_bytes"] = whole(run.ints("size")[paid_places(run)[0]])
    return found
