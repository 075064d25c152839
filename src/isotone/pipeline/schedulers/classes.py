"""The classes of histories of paper 002 (§4, §5): which events conflict in each, and whether a history belongs to it.

A history is *complete*: every message is delivered once at every site. It is in the class of an order if its precedence graph
is acyclic (Corollary 1). Messages are the nodes; an edge leads from m to m' if an event of m happened before, and conflicts
with, an event of m':

| order | two sends conflict if | two receives at one site conflict if |
| --- | --- | --- |
| fifo | they are of one sender | their sender is the same |
| causal | one happened before the other | the send of one happened before the send of the other |
| total | never | always |
| semantic_… | so, and the messages conflict | so, and the messages conflict |

A site's *schedule* is the order in which it delivers. For fifo and causal and their semantic kin each site can be judged
alone: an edge of a receive that goes against an edge of the sends is a cycle of two, and without one the graph is part of
happened-before. For total the sites have to be looked at together.

A *prefix* of a history (each site has delivered some messages so far) belongs to the prefixes of a class if it can be
completed within the class. What a site has delivered precedes, there, all that it has not: with these edges too, the graph of
the prefix is acyclic exactly if it can be completed. (If it is acyclic, take an order of the messages in which all edges lead
upwards, and let every site deliver what it lacks in that order: all edges of the complete history lead upwards. The other way
round, the graph of a prefix is part of the graph of every completion.)

Messages are numbered from 0; sets of messages are integers, bit m for message m.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ORDERS: Final = ("fifo", "causal", "total", "semantic_fifo", "semantic_causal", "semantic_total")


@dataclass(frozen=True, slots=True)
class Multicasts:
    """The messages of a history."""

    senders: Sequence[int]
    """Of each message; the messages of one sender are numbered in the order in which it sent them."""
    past: Sequence[int]
    """Of each message, the set of those whose send happened before its send."""
    conflicts: Sequence[int]
    """Of each message, the set of those that conflict with it; whether it conflicts with itself means nothing."""

    @property
    def everything(self) -> int:
        """The set of all messages."""
        return (1 << len(self.senders)) - 1


@dataclass(frozen=True, slots=True)
class Relation:
    """The conflicts of one order among the messages of one history."""

    sends: list[int]
    """Of each message, those whose send happened before its send and conflicts with it."""
    receives: list[int]
    """Of each message, those whose receive at a site conflicts with its receive there."""


def relation(order: str, multicasts: Multicasts) -> Relation:
    """What conflicts in a class of `ORDERS`."""
    count, everything = len(multicasts.senders), multicasts.everything
    kind = order.removeprefix("semantic_")
    if kind == "total":
        sends, receives = [0] * count, [everything] * count
    elif kind == "fifo":
        of = [0] * (max(multicasts.senders, default=0) + 1)
        for message, sender in enumerate(multicasts.senders):
            of[sender] |= 1 << message
        receives = [of[sender] for sender in multicasts.senders]
        sends = [mine & ((1 << message) - 1) for message, mine in enumerate(receives)]
    else:
        sends, receives = list(multicasts.past), list(multicasts.past)
        for message, past in enumerate(multicasts.past):
            for other in members(past):
                receives[other] |= 1 << message
    allowed = multicasts.conflicts if order.startswith("semantic_") else [everything] * count
    return Relation(
        [mine & those for mine, those in zip(sends, allowed, strict=True)],
        [mine & those & ~(1 << m) for m, (mine, those) in enumerate(zip(receives, allowed, strict=True))],
    )


def belongs(relation: Relation, schedules: Sequence[Sequence[int]]) -> bool:
    """Whether a history is in the class; of an incomplete one, whether it can be completed within the class."""
    before = list(relation.sends)
    for schedule in schedules:
        seen = 0
        for message in schedule:
            before[message] |= seen & relation.receives[message]
            seen |= 1 << message
        for message in members(~seen & ((1 << len(before)) - 1)):
            before[message] |= seen & relation.receives[message]
    return acyclic(before)


def acyclic(before: Sequence[int]) -> bool:
    """Whether no message precedes itself, given the set of those that precede each."""
    left = (1 << len(before)) - 1
    while left:
        free = 0
        for message in members(left):
            if not before[message] & left:
                free |= 1 << message
        if not free:
            return False
        left &= ~free
    return True


def members(messages: int) -> list[int]:
    """The messages of a set, in the order of their numbers."""
    found = []
    while messages:
        low = messages & -messages
        found.append(low.bit_length() - 1)
        messages ^= low
    return found
