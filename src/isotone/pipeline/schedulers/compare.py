"""Every scheduler applied to the same arrivals."""

from dataclasses import dataclass

from isotone.pipeline.schedulers.arrivals import Arrivals
from isotone.pipeline.schedulers.classes import ORDERS, belongs, relation
from isotone.pipeline.schedulers.minimal import Delay, delay, schedule
from isotone.pipeline.schedulers.optimistic import optimistic


@dataclass(frozen=True, slots=True)
class Compared:
    """One order on one run."""

    order: str
    belongs: bool
    """Whether the arrivals, delivered as they come, are in the class."""
    delay: Delay
    aborted: int
    """Messages that the optimistic scheduler aborts."""
    undone: int


def compare(run: Arrivals) -> list[Compared]:
    """What each order of `ORDERS` costs these arrivals."""
    found = []
    sites = sorted({site for site, _ in run.sequence})
    schedules = [[message for at, message in run.sequence if at == site] for site in sites]
    for order in ORDERS:
        conflicts = relation(order, run.multicasts)
        cost = delay(run.sequence, schedule(conflicts, run.sequence))
        outcome = optimistic(conflicts, run.sequence)
        found.append(Compared(order, belongs(conflicts, schedules), cost, len(outcome.aborted), outcome.undone))
    return found
