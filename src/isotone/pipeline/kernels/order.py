"""Exact checks of total order on whole runs: cycles of the union of all delivery orders.

The order of the longest chain, with what it lacks put in where the other chains have it, is a candidate. Wherever a
chain goes back in it there is an interval (an island); every cycle lies inside one merged island, because a closed walk that
rises through a place must fall through it, and only these intervals fall. Islands are merged exactly.

A check returns messages that show a violation, none if there is none: all rows about them violate the
check of that name again.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np

from isotone.pipeline.kernels.compact import Compact, Ids, Message
from isotone.pipeline.oracle.total import leftover

SEARCHED_MAX: Final = 2_000
"""If no more messages than these are in knots, all are given, so that the shortest cycle is among them; otherwise a cycle of
at most one message per process."""


def total_global(run: Compact) -> list[Message]:
    """The messages of a cycle."""
    for chains in _islands([chain.delivered() for chain in run.chains], len(run.origin)):
        left = leftover([chain.tolist() for chain in chains])
        if left:
            return run.named(_cycle(left))
    return []


def total_pairwise(run: Compact) -> list[Message]:
    """Two messages that two processes deliver in different orders."""
    for chains in _islands([chain.delivered() for chain in run.chains], len(run.origin)):
        place = np.full(len(run.origin), -1, dtype=np.int64)
        for one, two in combinations(chains, 2):
            place[two] = np.arange(len(two))
            there = place[one]
            common = one[there >= 0]
            there = there[there >= 0]
            back = np.flatnonzero(there[1:] < there[:-1])
            place[two] = -1
            if len(back):
                return run.named([int(common[back[0]]), int(common[back[0] + 1])])
    return []


def _islands(chains: list[Ids], messages: int) -> Iterator[list[Ids]]:
    """The chains within each island of the plain order."""
    rank = candidate(chains, messages)
    spans: list[tuple[float, float]] = []
    for chain in chains:
        places = rank[chain]
        if len(places) > 1:
            newest = np.maximum.accumulate(places)[:-1]
            late = np.flatnonzero(places[1:] <= newest)
            spans.extend(zip(places[1:][late].tolist(), newest[late].tolist(), strict=True))
    yield from within(chains, rank, spans)


def within(chains: list[Ids], rank: Any, spans: list[tuple[float, float]]) -> Iterator[list[Ids]]:
    """The chains within each merged interval of places, the smallest first."""
    merged: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    if not merged:
        return
    lows = np.array([low for low, _ in merged])
    highs = np.array([high for _, high in merged])
    island = np.searchsorted(lows, rank, side="right") - 1
    island[(island < 0) | (rank > highs[np.maximum(island, 0)])] = -1
    inside = [(chain[island[chain] >= 0], island[chain[island[chain] >= 0]]) for chain in chains]
    # Islands are disjoint, so each chain is sorted by island once and cut, however many islands there are.
    sizes = np.zeros(len(merged), dtype=np.int64)
    cuts: list[tuple[Ids, Any]] = []
    for ids, where in inside:
        order = np.argsort(where, kind="stable")
        cuts.append((ids[order], np.searchsorted(where[order], np.arange(len(merged) + 1))))
        sizes += np.bincount(where, minlength=len(merged))
    for one in np.argsort(sizes, kind="stable"):
        yield [ids[at[one] : at[one + 1]] for ids, at in cuts]


def candidate(chains: list[Ids], messages: int) -> Any:
    """A place for every message: that in the longest chain, or just after what precedes it in a shorter one."""
    rank = np.full(messages, np.nan)
    for chain in sorted(chains, key=len, reverse=True):
        places = rank[chain]
        fresh = np.isnan(places)
        if not fresh.any():
            continue
        index = np.arange(len(chain))
        known = np.maximum.accumulate(np.where(fresh, -1, index))
        run = index - known
        base = np.where(known >= 0, places[np.maximum(known, 0)], -1.0)
        if fresh.all():
            rank[chain] = index if np.isnan(rank).all() else -1 + (index + 1) / (len(chain) + 1)
        else:
            rank[chain[fresh]] = (base + run / (len(chain) + 1))[fresh]
    return rank


def _cycle(left: list[list[int]]) -> list[int]:
    messages = dict.fromkeys(message for chain in left for message in chain)
    if len(messages) <= SEARCHED_MAX:
        return list(messages)
    heads = {index: chain[0] for index, chain in enumerate(left) if chain}
    where = {head: [index for index, chain in enumerate(left) if head in chain] for head in set(heads.values())}
    walk = [next(iter(heads))]
    while walk[-1] not in walk[:-1]:  # the head of a chain waits because it is buried in another one
        head = heads[walk[-1]]
        walk.append(next(index for index in where[head] if heads[index] != head))
    loop = walk[walk.index(walk[-1]) :]
    return list(dict.fromkeys(heads[index] for index, _ in pairwise(loop)))
