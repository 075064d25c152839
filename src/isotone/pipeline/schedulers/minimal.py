"""Schedulers of minimal delay, one for each class (paper 002, §7.2), over arrivals that are known from a record or made up.

The input x is the sequence of arrivals (site, message) of all sites in the order of time; the output y is a history of the
class, as a sequence of the same events. With d(x, y) = n - c, c the length of the longest common prefix, a scheduler is
minimal if d(x, y) is the least over all histories of the class. Online: an arrival is delivered at once if what has been
delivered so far and this event together are still a prefix of the class (`classes`); else the message is held, and delivered
as soon as that is so. It is minimal, since up to the first message held y is x, and no history of the class begins with one
event more of x.

For fifo and causal order, plain or semantic, this can be decided at each site alone: everything that must precede the message
has been delivered here. Then every site's d(x, y) is the least too, and no message could be delivered with an earlier arrival.
For total order the schedulers of all sites see each other at once: whatever some site delivered before m must come before m
here, if the two conflict. That is more than any protocol can know, so its delay is a lower bound for protocols that order by
first arrival. Which site decides is a matter of the interleaving x; the sum of the sites' d is not the least possible.

One comparison is enough for total order. Say m' precedes m through others, m' → … → m'' → m, and the two conflict. Some site
delivered m'' when it had not delivered m. Then it had delivered m', or else m'' → m' would close a cycle; so m' → m is an edge
too.

The sends, what happened before them and the types are those of the record: schedulers move deliveries only.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from isotone.pipeline.schedulers.classes import Relation

Arrival = tuple[int, int]
"""Site and message."""


class Scheduled(NamedTuple):
    """A delivery."""

    site: int
    message: int
    after: int
    """The index of the arrival at which it was delivered."""


def schedule(relation: Relation, arrivals: Sequence[Arrival]) -> list[Scheduled]:
    """Deliver every arrival as soon as the class allows; every message must arrive once at every site."""
    sites = sorted({site for site, _ in arrivals})
    delivered = dict.fromkeys(sites, 0)
    earlier: dict[int, dict[int, int]] = {site: {} for site in sites}  # per message delivered, what was delivered before it
    held: dict[int, list[int]] = {site: [] for site in sites}
    output: list[Scheduled] = []
    conflicting, sends = relation.receives, relation.sends

    def may(site: int, message: int) -> bool:
        first = 0
        for other in sites:
            first |= earlier[other].get(message, delivered[other])
        return not (sends[message] | (first & conflicting[message])) & ~delivered[site]

    for index, (site, arrived) in enumerate(arrivals):
        candidates = [*held[site], arrived]
        while True:  # what is delivered here can let go what is held here, and nothing elsewhere
            waiting = []
            for message in candidates:
                if may(site, message):
                    earlier[site][message] = delivered[site]
                    delivered[site] |= 1 << message
                    output.append(Scheduled(site, message, index))
                else:
                    waiting.append(message)
            if len(waiting) == len(candidates):
                break
            candidates = waiting
        held[site] = waiting
    return output


def degree(one: Sequence[object], other: Sequence[object]) -> int:
    """The paper's d(x, y): the length less that of the longest common prefix."""
    return len(one) - sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))


class Delay(NamedTuple):
    """How far a schedule strays from the arrivals."""

    messages: int
    """Deliveries, at all sites."""
    degree: int
    """d(x, y) of the whole sequence."""
    by_site: int
    """The sum of d(x, y) of each site's own sequence."""
    held: int
    """Deliveries that were not made when the message arrived."""
    waited: int
    """For how many further arrivals at its site each was held, all together."""


def delay(arrivals: Sequence[Arrival], scheduled: Sequence[Scheduled]) -> Delay:
    """Measure a schedule; the last two are finer than the paper's measure.

    The larger the class, the smaller the degree. For fifo and causal order that holds for the finer ones too; for total order
    other sites may decide in the larger class, and more may be held.
    """
    places: dict[Arrival, tuple[int, int]] = {}
    x: dict[int, list[int]] = {}
    ranks: list[int] = []
    for index, (site, message) in enumerate(arrivals):
        mine = x.setdefault(site, [])
        places[site, message] = (index, len(mine))
        ranks.append(len(mine))
        mine.append(message)
    y: dict[int, list[int]] = {site: [] for site in x}
    held = waited = 0
    for site, message, after in scheduled:
        y[site].append(message)
        index, rank = places[site, message]
        held += after > index
        waited += ranks[after] - rank
    return Delay(
        len(arrivals),
        degree(arrivals, [(site, message) for site, message, _ in scheduled]),
        sum(degree(x[site], y[site]) for site in x),
        held,
        waited,
    )
