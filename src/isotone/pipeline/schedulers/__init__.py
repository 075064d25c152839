"""Delivery schedulers for comparison, offline over arrivals (paper 002, §7): how much each order has to delay, and how the
classes of histories contain each other. Nothing here is a protocol: these schedulers see all sites at once.

`recorded(rows, conflicts)` takes the arrivals of a trace, `compare(run)` applies every scheduler to them:

    python -m isotone.pipeline.schedulers TRACE… [--conflicts FILE]     # a table per run
    python -m isotone.pipeline.schedulers --page docs                   # docs/semantic-classes.md
"""

from isotone.pipeline.schedulers.arrivals import Arrivals, drawn, recorded
from isotone.pipeline.schedulers.classes import ORDERS, Multicasts, Relation, belongs, relation
from isotone.pipeline.schedulers.compare import Compared, compare
from isotone.pipeline.schedulers.minimal import Delay, delay, schedule
from isotone.pipeline.schedulers.optimistic import Outcome, optimistic

__all__ = [
    "ORDERS",
    "Arrivals",
    "Compared",
    "Delay",
    "Multicasts",
    "Outcome",
    "Relation",
    "belongs",
    "compare",
    "delay",
    "drawn",
    "optimistic",
    "recorded",
    "relation",
    "schedule",
]
