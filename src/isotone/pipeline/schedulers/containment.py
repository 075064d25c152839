"""How the classes contain each other (paper 002, Figures 4 and 5), counted over all histories of a bound.

Enumerated are all complete histories of n messages at p sites: who sends how many (sites with more come first, which leaves
out renamings only), every order of a site's sends and deliveries that the network allows (a message is delivered after it was
sent, at its own site too), and every symmetric relation among the messages. The plain classes do not look at the relation;
they are counted with each, so that all counts are of the same pairs of a history and a relation.

A pair of messages can be wrong in three ways, whatever the relation is: one sender's, delivered against their numbers; sends
of which one happened before the other, delivered against that; and delivered in both orders, or rather in orders that close a
cycle with those of other pairs. Histories that are alike in this are judged once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product

from isotone.pipeline.schedulers.classes import ORDERS, acyclic

Local = tuple[int, ...]
"""The events of a site: `2 m + 1` sends message m, `2 m` delivers it."""
History = tuple[Local, ...]


@dataclass(slots=True)
class Counted:
    """The histories of one bound, by the classes that they belong to."""

    messages: int
    sites: int
    histories: int = 0
    """Without relations."""
    by_pattern: Counter[int] = field(default_factory=Counter)
    """Pairs of history and relation, by their classes: bit i for `ORDERS[i]`."""
    examples: dict[int, str] = field(default_factory=dict)
    """One of each."""

    @property
    def total(self) -> int:
        """All pairs."""
        return self.by_pattern.total()

    def size(self, *orders: str) -> int:
        """How many belong to all of these classes."""
        wanted = sum(1 << ORDERS.index(order) for order in set(orders))
        return sum(count for pattern, count in self.by_pattern.items() if pattern & wanted == wanted)

    def beyond(self, one: str, other: str) -> int:
        """How many belong to the one class and not to the other."""
        return self.size(one) - self.size(one, other)

    def add(self, other: "Counted") -> None:
        """Count others of the same bound too."""
        self.histories += other.histories
        self.by_pattern += other.by_pattern
        for pattern, text in other.examples.items():
            self.examples.setdefault(pattern, text)

    def example(self, one: str, other: str) -> str | None:
        """One of those, in as many of the other classes as possible."""
        yes, no = 1 << ORDERS.index(one), 1 << ORDERS.index(other)
        found = [pattern for pattern in self.examples if pattern & yes and not pattern & no]
        return self.examples[max(found, key=lambda pattern: (pattern.bit_count(), pattern))] if found else None


def count(messages: int, sites: int, shares: Iterable[Sequence[int]] | None = None) -> Counted:
    """Enumerate all histories of so many messages and sites; or those of some `senders`."""
    found = Counted(messages, sites)
    pairs = list(combinations(range(messages), 2))
    alike: Counter[tuple[int, int, int, int]] = Counter()
    first: dict[tuple[int, int, int, int], tuple[Sequence[int], History]] = {}
    for senders in shares if shares is not None else senders_of(messages, sites):
        for history, past in histories(senders, sites):
            key = _judge(history, past, senders, pairs)
            alike[key] += 1
            first.setdefault(key, (senders, history))
    found.histories = alike.total()
    for related in range(1 << len(pairs)):
        for key, number in alike.items():
            pattern = _pattern(key, related, messages)
            found.by_pattern[pattern] += number
            if pattern not in found.examples:
                senders, history = first[key]
                found.examples[pattern] = _text(senders, history, [pair for i, pair in enumerate(pairs) if related >> i & 1])
    return found


def senders_of(messages: int, sites: int) -> Iterator[list[int]]:
    """The sender of each message, for every way to share them out."""

    def shares(left: int, most: int, places: int) -> Iterator[list[int]]:
        if not places:
            if not left:
                yield []
            return
        for mine in range(min(left, most), -1, -1):
            for rest in shares(left - mine, mine, places - 1):
                yield [mine, *rest]

    for counts in shares(messages, messages, sites):
        yield [site for site, mine in enumerate(counts) for _ in range(mine)]


def histories(senders: Sequence[int], sites: int) -> Iterator[tuple[History, list[int]]]:
    """All histories, each with the past of every message."""
    locals_ = [list(_locals(senders, site)) for site in range(sites)]
    for history in product(*locals_):
        past = _replay(history, len(senders))
        if past is not None:
            yield history, past


def _locals(senders: Sequence[int], site: int) -> Iterator[Local]:
    """All orders of a site's events."""
    mine = [message for message, sender in enumerate(senders) if sender == site]

    def go(events: list[int], sent: int, delivered: int) -> Iterator[Local]:
        if len(events) == len(senders) + len(mine):
            yield tuple(events)
            return
        if sent < len(mine):
            yield from go([*events, 2 * mine[sent] + 1], sent + 1, delivered)
        for message, sender in enumerate(senders):
            if not delivered >> message & 1 and (sender != site or message in mine[:sent]):
                yield from go([*events, 2 * message], sent, delivered | 1 << message)

    yield from go([], 0, 0)


def _replay(history: History, messages: int) -> list[int] | None:
    """The past of every message; None if one would be delivered before it was sent."""
    at = [0] * len(history)
    known = [0] * len(history)
    past = [-1] * messages
    progress = True
    while progress:
        progress = False
        for site, events in enumerate(history):
            here, mine = at[site], known[site]
            while here < len(events):
                message = events[here] >> 1
                if events[here] & 1:
                    past[message] = mine
                elif past[message] < 0:
                    break
                mine |= past[message] | 1 << message
                here += 1
            progress = progress or here > at[site]
            at[site], known[site] = here, mine
    return past if all(here == len(events) for here, events in zip(at, history, strict=True)) else None


def _judge(
    history: History, past: Sequence[int], senders: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> tuple[int, int, int, int]:
    """Sets of pairs: against fifo, against causal order; delivered as numbered somewhere, and the other way round somewhere."""
    fifo = causal = up = down = 0
    orders = [{event >> 1: place for place, event in enumerate(local) if not event & 1} for local in history]
    for index, (one, two) in enumerate(pairs):
        bit = 1 << index
        for place in orders:
            if place[one] < place[two]:
                up |= bit
            else:
                down |= bit
        if down & bit and senders[one] == senders[two]:
            fifo |= bit
        if (down & bit and past[two] >> one & 1) or (up & bit and past[one] >> two & 1):
            causal |= bit
    return fifo, causal, up, down


def _pattern(key: tuple[int, int, int, int], related: int, messages: int) -> int:
    fifo, causal, up, down = key
    return sum(
        verdict << place
        for place, verdict in enumerate(
            (
                not fifo,
                not causal,
                _ordered(messages, up, down),
                not fifo & related,
                not causal & related,
                _ordered(messages, up & related, down & related),
            )
        )
    )


@lru_cache(maxsize=1 << 16)
def _ordered(messages: int, up: int, down: int) -> bool:
    """Whether pairs delivered so, and so, close no cycle."""
    before = [0] * messages
    for index, (one, two) in enumerate(combinations(range(messages), 2)):
        if up >> index & 1:
            before[two] |= 1 << one
        if down >> index & 1:
            before[one] |= 1 << two
    return acyclic(before)


def _text(senders: Sequence[int], history: History, conflicts: Sequence[tuple[int, int]]) -> str:
    """`a: +a1 a1 b1`: a sends its first message, delivers it, and then the first of b."""
    names = []
    for message, sender in enumerate(senders):
        names.append(f"{chr(97 + sender)}{1 + sum(1 for other in senders[:message] if other == sender)}")
    lines = [
        f"{chr(97 + site)}: " + " ".join(("+" if event & 1 else "") + names[event >> 1] for event in local)
        for site, local in enumerate(history)
    ]
    words = ", ".join(f"{names[one]}–{names[two]}" for one, two in conflicts) or "nothing"
    return "   ".join([*lines, f"conflicts: {words}"])
