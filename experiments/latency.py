"""A measure for sweeps: the mean latency alone, from send to deliver, over all messages and all members (docs/metrics.md)."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc


def mean(table: Any) -> dict[str, float | None]:
    """In nanoseconds; None if nothing was delivered."""
    columns = ["origin", "number", "time"]
    sent = table.filter(pc.field("kind") == "send").select(columns).rename_columns(["origin", "number", "sent"])
    delivered = table.filter(pc.field("kind") == "deliver").select(columns)
    both = delivered.join(sent, ["origin", "number"], join_type="inner")
    return {"latency_mean_ns": pc.mean(pc.subtract(both["time"], both["sent"])).as_py()}
