"""The exact check of positions on whole runs.

Keys `(view, position)` become ranks, equal keys equal ranks. Then ranks must increase along each process, be one per message
and different for different messages. If at every send the rank is above all that the sender had sent or delivered before,
the rank of a message is above its whole past, provided that every delivered message has a rank; where some have none, the
largest rank is carried along happened-before.
"""

from typing import Any, Final

import numpy as np

from isotone.pipeline.kernels.causal import causes, replay, vectors_of
from isotone.pipeline.kernels.compact import Chain, Compact, Message
from isotone.pipeline.kernels.load import NOTHING
from isotone.pipeline.oracle.protocols import Strength, strength
from isotone.trace.schema import POSITION_COLUMNS

COLUMNS: Final = ("view_epoch", "view_proposer", "protocol", *POSITION_COLUMNS)


def position(run: Compact) -> list[Message]:
    """Messages that show a violation, none if there is none."""
    ranks = _ranks(run)
    of_message = np.full(len(run.origin), -1, dtype=np.int64)
    for chain, mine in zip(run.chains, ranks, strict=True):
        placed = np.flatnonzero(mine >= 0)
        ids, places = chain.ids[placed], mine[placed]
        bare = _in_total_order_without_place(chain, mine)
        if len(bare):
            others = [chain.ids[ranks_ >= 0][:1] for chain, ranks_ in zip(run.chains, ranks, strict=True)]
            return run.named([int(bare[0]), *np.concatenate(others)[:1].tolist()])  # one with a place shows that it matters
        back = np.flatnonzero(places[1:] <= places[:-1])
        if len(back):
            return run.named([int(ids[back[0]]), int(ids[back[0] + 1])])
        fresh = of_message[ids] < 0
        of_message[ids[fresh]] = places[fresh]
        two = ids[of_message[ids] != places]
        if len(two):
            return run.named([int(two[0])])
    placed = np.flatnonzero(of_message >= 0)
    ordered = placed[np.argsort(of_message[placed], kind="stable")]
    same = np.flatnonzero(of_message[ordered][1:] == of_message[ordered][:-1])
    if len(same):
        return run.named([int(ordered[same[0]]), int(ordered[same[0] + 1])])
    return _against_causality(run, of_message) if run.sent.any() else []


def _ranks(run: Compact) -> list[Any]:
    """Per chain and event the rank of its key; -1 for sends, repetitions and deliveries without a position."""
    placed = [np.flatnonzero(chain.first & ~chain.sent & (chain.more["position_0"] != NOTHING)) for chain in run.chains]
    words = {word for chain in run.chains for word in chain.more["view_proposer"].tolist()}
    rank_of = {word: rank for rank, word in enumerate(sorted(words, key=lambda word: word or ""))}
    columns: list[list[Any]] = [[] for _ in range(2 + len(POSITION_COLUMNS))]
    for chain, at in zip(run.chains, placed, strict=True):
        epoch = chain.more["view_epoch"][at]
        proposer = np.array([rank_of[word] for word in chain.more["view_proposer"][at].tolist()], dtype=np.int64)
        nowhere = epoch == NOTHING
        columns[0].append(np.where(nowhere, -1, epoch))
        columns[1].append(np.where(nowhere, -1, proposer))
        for column, name in zip(columns[2:], POSITION_COLUMNS, strict=True):
            column.append(chain.more[name][at])
    whole = [np.concatenate(column) for column in columns] if run.chains else []
    joined = [column for column in whole if len(column) and bool((column != column[0]).any())]
    count = sum(map(len, placed))
    ranks = np.zeros(count, dtype=np.int64)
    if joined:
        order = np.lexsort(joined[::-1])
        changed = np.zeros(count, dtype=np.bool_)
        for key in joined:
            changed[1:] |= key[order][1:] != key[order][:-1]
        ranks[order] = np.cumsum(changed)
    found, at_rank = [], 0
    for chain, at in zip(run.chains, placed, strict=True):
        mine = np.full(len(chain.ids), -1, dtype=np.int64)
        mine[at] = ranks[at_rank : at_rank + len(at)]
        at_rank += len(at)
        found.append(mine)
    return found


def _in_total_order_without_place(chain: Chain, ranks: Any) -> Any:
    bare = np.flatnonzero(chain.first & ~chain.sent & (ranks < 0))
    names = chain.more["protocol"][bare].tolist()
    total = {name: name is not None and strength(name) is Strength.TOTAL for name in set(names)}
    return chain.ids[bare[np.array([total[name] for name in names], dtype=np.bool_)]]


def _against_causality(run: Compact, rank: Any) -> list[Message]:
    complete = True
    for chain in run.chains:
        ranks = rank[chain.ids]
        largest = np.maximum.accumulate(ranks)
        late = np.flatnonzero(chain.sent[1:] & (ranks[1:] >= 0) & (largest[:-1] > ranks[1:])) + 1
        if len(late):
            earlier = int(chain.ids[int(ranks[: late[0]].argmax())])
            return run.named([earlier, int(chain.ids[late[0]])])
        complete &= bool((ranks[~chain.sent] >= 0).all())
    return [] if complete else _along_replay(run, rank)


def _along_replay(run: Compact, rank: Any) -> list[Message]:
    replayed = replay(run)
    before: dict[int, tuple[int, int]] = {}
    of = rank.tolist()
    while True:
        changed = False
        past = [(-1, -1)] * len(run.chains)
        for index, start, end in replayed.order:
            chain = run.chains[index]
            largest = past[index]
            for message, sent in zip(chain.ids[start:end].tolist(), chain.sent[start:end].tolist(), strict=True):
                mine = of[message]
                if sent:
                    if largest[0] >= 0 and before.get(message) != largest:
                        before[message] = largest
                        changed = True
                    if 0 <= mine <= largest[0] and largest[1] != message:
                        vectors, _ = vectors_of(run)
                        return run.named(causes(run, vectors, largest[1], message))
                else:
                    largest = max(largest, before.get(message, largest))
                if mine > largest[0]:
                    largest = (mine, message)
            past[index] = largest
        if not changed or not replayed.circles:
            return []
