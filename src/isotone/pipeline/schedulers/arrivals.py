"""Arrivals to schedule: from the `receive` rows of a trace, or drawn at random.

A message arrives at its own site when it is sent, and at the others when it is received. Histories are complete, as in the
paper (§5): what did not arrive at every site is left out, and counted.

*Recorded*: the trace must have been written with `trace_receives`. What happened before a send is what its sender had sent or
delivered in the record. Links keep the order of a sender's messages, so such arrivals never delay a FIFO order, nor
one that is semantic FIFO.

*Drawn*: sites send at random, packets take a time each of its own, so that they pass each other as they like, and whatever
arrives is delivered at once; what happened before a send is what had arrived at its sender.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

from isotone.model.conflicts import Conflicts, from_name
from isotone.model.errors import TraceFormatError
from isotone.pipeline.oracle.causal import vectors_of
from isotone.pipeline.oracle.history import History, index_runs
from isotone.pipeline.oracle.semantic import Classes
from isotone.pipeline.oracle.witness import RowLike
from isotone.pipeline.schedulers.classes import Multicasts
from isotone.pipeline.schedulers.minimal import Arrival
from isotone.sim.rand import below, chance, stream


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One run: what arrived where, in the order of time."""

    run: str
    multicasts: Multicasts
    sequence: list[Arrival]
    left_out: int = 0
    """Messages that did not arrive at every site."""


def recorded(rows: Iterable[RowLike], conflicts: Conflicts | None = None) -> list[Arrivals]:
    """The arrivals of each run of a trace; without a relation that of the trace holds, and if it names none, all conflict."""
    return [_recorded(history, conflicts) for history in index_runs(rows)]


def _recorded(history: History, conflicts: Conflicts | None) -> Arrivals:
    if "receive" not in history.kinds:
        raise TraceFormatError("no receive rows: write the trace with trace_receives")
    arrived: list[dict[int, int | None]] = []
    sites = [log for log in history.logs if log.sends or log.received]
    for log_ in sites:
        arrived.append({message: time for message, time in log_.received.items() if history.origin[message] != log_.actor})
        arrived[-1].update((message, history.send_time[message]) for message in log_.sends)
    complete = [m for m, sent in enumerate(history.sent) if sent and all(m in mine for mine in arrived)]
    if any(mine[message] is None for mine in arrived for message in complete):
        raise TraceFormatError("receive or send rows have no time: arrivals of different processes cannot be put in order")
    complete.sort(key=lambda m: (history.origin[m], history.number[m]))
    number = {message: index for index, message in enumerate(complete)}
    vectors, _ = vectors_of(history)
    by_origin: dict[int, list[int]] = {}
    for message in complete:
        by_origin.setdefault(history.origin[message], []).append(message)
    past = []
    for message in complete:
        before = 0
        vector = vectors[message]
        for origin, mine in by_origin.items():
            reach = history.number[message] - 1 if origin == history.origin[message] else vector[origin] if vector else -1
            for other in mine:
                if history.number[other] > reach:
                    break
                before |= 1 << number[other]
        past.append(before)
    if conflicts is None:
        named = history.relation()
        conflicts = Conflicts() if named is None else from_name(named)
    classes = Classes(history, conflicts)
    of_class: dict[int, int] = {}
    for message in complete:
        of_class[classes.of[message]] = of_class.get(classes.of[message], 0) | 1 << number[message]
    against = {one: sum(of_class.get(other, 0) for other in classes.conflicting[one]) for one in of_class}
    multicasts = Multicasts(
        [history.origin[message] for message in complete], past, [against[classes.of[message]] for message in complete]
    )
    events = sorted((mine[m] or 0, site, place, m) for site, mine in enumerate(arrived) for place, m in _placed(mine, number))
    sequence = [(site, number[message]) for _, site, _, message in events]
    return Arrivals(history.run, multicasts, sequence, sum(history.sent) - len(complete))


def _placed(mine: dict[int, int | None], number: dict[int, int]) -> list[tuple[int, int]]:
    """A site's arrivals with a place that tells those of one instant apart: its own first, then as they were recorded."""
    return [(place, message) for place, message in enumerate(mine) if message in number]


def drawn(seed: int, messages: int, sites: int, delay: float, conflicting: float = 1.0, items: int = 1) -> Arrivals:
    """Random arrivals: sends follow each other at random, one per unit of time, and a packet takes `delay` on average, at random.

    A message touches one of so many items with probability `conflicting`, and conflicts with those that touch the same; the
    others conflict with nothing.
    """
    rng = stream(seed, "arrivals", messages, sites, delay, conflicting, items)
    events: list[tuple[float, int, int]] = []
    now = 0.0
    sent: list[tuple[int, int | None]] = []
    for index in range(messages):
        now -= log(1.0 - rng.random())
        sender = below(rng, sites)
        sent.append((sender, below(rng, items) if chance(rng, conflicting) else None))
        for site in range(sites):
            events.append((now if site == sender else now - log(1.0 - rng.random()) * delay, site, index))
    events.sort()
    order = sorted(range(messages), key=lambda index: (sent[index][0], index))
    number = {index: place for place, index in enumerate(order)}
    known, past = [0] * sites, [0] * messages
    sequence = []
    for _, site, index in events:
        message = number[index]
        if sent[index][0] == site:
            past[message] = known[site]
        known[site] |= past[message] | 1 << message
        sequence.append((site, message))
    touching: dict[int, int] = {}
    for index, (_, item) in enumerate(sent):
        if item is not None:
            touching[item] = touching.get(item, 0) | 1 << number[index]
    senders = [sent[index][0] for index in order]
    against = [0 if (item := sent[index][1]) is None else touching[item] for index in order]
    return Arrivals(f"drawn {seed}", Multicasts(senders, past, against), sequence)
