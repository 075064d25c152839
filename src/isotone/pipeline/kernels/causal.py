"""Exact checks of happened-before on whole runs: circles, and causal order.

*Certificate.* Let N be, per origin, the newest message that a process has delivered, and D(m) what N was at the sender of m
when it sent m. If numbers increase along every process and sender, and every delivery of every m finds N ≥ D(m), causal
order holds: whatever directly precedes m was delivered before it or never will be; and the newest message y of that
origin, which was delivered, has in its past all that precedes the one of D(m), and was itself delivered in that way.
Where every message is sent and delivered in one view, and views increase (along processes, and with the numbers of each
origin), a chain of causes never leaves the view of its ends; then N starts anew in every view, so that late joiners are not
held to what they could not see.

*Replay.* Otherwise the events are put into an order that respects happened-before, and every message gets the vector of all
that precedes it, as in the oracle.

A check returns messages that show a violation, none if there is none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from isotone.pipeline.kernels.compact import Chain, Compact, Ids, Message
from isotone.pipeline.kernels.load import Mask

CELLS_AT_ONCE: Final = 1 << 20
WINDOW: Final = (64, 1 << 16)
Vectors: TypeAlias = Any
"""Per message (row) and origin (column) how many messages of the origin precede, in the order of its numbers."""


@dataclass(slots=True)
class Replayed:
    """The events of all chains in an order that respects happened-before, as stretches (chain, start, end)."""

    order: list[tuple[int, int, int]] = field(default_factory=list)
    circles: list[list[int]] = field(default_factory=list)
    """Messages that were delivered, in a circle, before they were sent."""


def replay(run: Compact) -> Replayed:
    """Every chain goes on until it has to deliver what was not sent yet; on a circle it goes on all the same."""
    done = ~run.sent
    at = [0] * len(run.chains)
    width = [WINDOW[0]] * len(run.chains)
    chain_of = {name: index for index, name in enumerate(run.names)}
    by_origin = {chain_of[chain.process]: index for index, chain in enumerate(run.chains)}
    waiting: dict[int, list[int]] = {}
    ready = list(range(len(run.chains) - 1, -1, -1))
    found = Replayed()

    def forward(index: int, end: int) -> None:
        chain, start = run.chains[index], at[index]
        if end > start:
            found.order.append((index, start, end))
            sent = chain.ids[start:end][chain.sent[start:end]]
            done[sent] = True
            for message in sent.tolist() if waiting else ():
                ready.extend(waiting.pop(message, ()))
            at[index] = end

    while True:
        while ready:
            index = ready.pop()
            chain = run.chains[index]
            while at[index] < len(chain.ids):
                start, stop = at[index], at[index] + width[index]
                ids = chain.ids[start:stop]
                blocked = ~(chain.sent[start:stop] | done[ids])
                ahead = int(blocked.argmax()) if blocked.any() else len(ids)
                forward(index, start + ahead)
                if ahead == len(ids):
                    width[index] = min(2 * width[index], WINDOW[1])
                elif not done[ids[ahead]]:  # its own send may have been in the window
                    width[index] = max(min(width[index], 4 * ahead), WINDOW[0])
                    waiting.setdefault(int(ids[ahead]), []).append(index)
                    break
        if not waiting:
            return found
        index = next(iter(waiting.values()))[0]
        walk: list[int] = []
        while index not in walk:
            walk.append(index)
            index = by_origin[int(run.origin[run.chains[index].ids[at[index]]])]
        circle = walk[walk.index(index) :]
        found.circles.append([int(run.chains[one].ids[at[one]]) for one in circle])
        message = int(run.chains[index].ids[at[index]])
        waiting[message].remove(index)
        if not waiting[message]:
            del waiting[message]
        forward(index, at[index] + 1)
        ready.append(index)


def causal(run: Compact) -> list[Message]:
    """A message delivered too late, one that it precedes, and what leads from one to the other."""
    if certified(run):
        return []
    vectors, late = vectors_of(run)
    return run.named(_chain_of_causes(run, vectors, *late[0])) if late else []


def vectors_of(run: Compact) -> tuple[Vectors, list[tuple[int, int]]]:
    """What precedes each message; and late deliveries: chain and place in it."""
    replayed = replay(run)
    vectors = np.zeros((len(run.origin), len(run.names)), dtype=np.int32)
    while True:
        changed, late = _pass(run, replayed, vectors)
        if not changed or not replayed.circles:
            return vectors, late


def _pass(run: Compact, replayed: Replayed, vectors: Vectors) -> tuple[bool, list[tuple[int, int]]]:
    circles = bool(replayed.circles)
    known = np.zeros((len(run.chains), len(run.names)), dtype=np.int32)
    home = [run.names.index(chain.process) for chain in run.chains]
    late: list[tuple[int, int]] = []
    changed = False
    for index, start, end in replayed.order:
        chain, vector = run.chains[index], known[index]
        ids = chain.ids[start:end]
        origins = run.origin[ids]
        ordinals = (ids - run.start[origins] + 1).tolist()
        events = zip(
            ids.tolist(), origins.tolist(), ordinals, chain.sent[start:end].tolist(), chain.first[start:end].tolist(), strict=True
        )
        for place, (message, origin, ordinal, sent, first) in enumerate(events, start=start):
            if sent:
                if circles:
                    changed |= bool((vectors[message] != vector).any())
                vectors[message] = vector
            elif first:
                if vector[origin] >= ordinal:
                    late.append((index, place))
                    if not circles:
                        continue
                if circles or origin != home[index]:
                    np.maximum(vector, vectors[message], out=vector)
                if vector[origin] < ordinal:
                    vector[origin] = ordinal
    return changed, late


def certified(run: Compact) -> bool:
    """Whether the certificate proves causal order."""
    groups = _by_view(run)
    for chain in run.chains:
        own = chain.ids[chain.sent]
        if not bool((own[1:] > own[:-1]).all()):
            return False
    wanted = np.zeros((len(run.origin), len(run.names)), dtype=np.int32)
    for chain, start, end in groups:
        for place, newest in _newest(run, chain, start, end):
            here = slice(place, place + len(newest))
            sends = np.flatnonzero(chain.sent[here])
            wanted[chain.ids[here][sends]] = newest[sends]
    wanted[np.arange(len(run.origin)), run.origin] = 0
    for chain, start, end in groups:
        for place, newest in _newest(run, chain, start, end):
            here = slice(place, place + len(newest))
            delivers = np.flatnonzero(~chain.sent[here] & chain.first[here])
            ids = chain.ids[here][delivers]
            had = newest[delivers]
            ordinal = ids - run.start[run.origin[ids]] + 1
            if not bool((had[np.arange(len(ids)), run.origin[ids]] < ordinal).all()) or not bool((had >= wanted[ids]).all()):
                return False
    return True


def _newest(run: Compact, chain: Chain, start: int, end: int) -> Iterator[tuple[int, Any]]:
    """Per event, what was the newest delivered of each origin before it; some events at a time."""
    width = len(run.names)
    carry = np.zeros(width, dtype=np.int32)
    step = max(1, CELLS_AT_ONCE // width)
    for place in range(start, end, step):
        stop = min(end, place + step)
        ids, sent = chain.ids[place:stop], chain.sent[place:stop]
        cells = np.zeros((stop - place + 1, width), dtype=np.int32)
        cells[0] = carry
        at = np.flatnonzero(~sent)
        origins = run.origin[ids[at]]
        cells[at + 1, origins] = ids[at] - run.start[origins] + 1
        np.maximum.accumulate(cells, axis=0, out=cells)
        carry = cells[-1].copy()
        yield place, cells[:-1]


def _by_view(run: Compact) -> list[tuple[Chain, int, int]]:
    """The chains cut at views if no message is in two of them and they increase, also with numbers; else the chains."""
    whole = [(chain, 0, len(chain.ids)) for chain in run.chains]
    views = {view: code for code, view in enumerate(sorted({view for chain in run.chains for view in chain.views}))}
    of_message = np.full(len(run.origin), -2, dtype=np.int64)
    cut: list[tuple[Chain, int, int]] = []
    for chain in run.chains:
        codes = np.array([*(views[view] for view in chain.views), -1], dtype=np.int64)
        if not bool((codes[1:-1] > codes[:-2]).all()):
            return whole
        here = codes[chain.stretch]
        fresh = of_message[chain.ids] == -2
        of_message[chain.ids[fresh]] = here[fresh]
        if bool((of_message[chain.ids] != here).any()):
            return whole
        edges = [0, *(np.flatnonzero(chain.stretch[1:] != chain.stretch[:-1]) + 1).tolist(), len(chain.ids)]
        cut.extend((chain, first, last) for first, last in pairwise(edges) if last > first)
    back = (of_message[1:] < of_message[:-1]) & (run.origin[1:] == run.origin[:-1])
    return whole if bool(back.any()) else cut


def precede(run: Compact, vectors: Vectors, message: int, others: Ids) -> Mask:
    """Which of the others the message precedes."""
    origin = int(run.origin[message])
    ordinal = message - int(run.start[origin]) + 1
    found: Mask = ((run.origin[others] == origin) & (others > message)) | (vectors[others, origin] >= ordinal)
    return found


def _chain_of_causes(run: Compact, vectors: Vectors, index: int, place: int) -> list[int]:
    """The late message, an early one, and the messages between."""
    chain = run.chains[index]
    message = int(chain.ids[place])
    before = chain.ids[:place][(chain.first & ~chain.sent)[:place]]
    return causes(run, vectors, message, int(before[precede(run, vectors, message, before)][0]))


def causes(run: Compact, vectors: Vectors, message: int, early: int) -> list[int]:
    """The messages that lead from one to another that it precedes."""
    chain_of = {chain.process: chain for chain in run.chains}
    path, seen = [early], {early}
    while path:
        target = path[-1]
        if target == message or (run.origin[target] == run.origin[message] and target > message):
            break
        sender = chain_of.get(run.names[int(run.origin[target])])
        sends: Any = np.flatnonzero(sender.sent & (sender.ids == target)) if sender is not None else []
        known = sender.ids[: sends[0]] if sender is not None and len(sends) else run.origin[:0]
        nearer = known[(known == message) | precede(run, vectors, message, known)]
        further = next((one for one in nearer.tolist() if one not in seen), None)
        if further is None:  # a circle: this way leads nowhere
            path.pop()
        else:
            seen.add(further)
            path.append(further)
    return [message, early, *path]
