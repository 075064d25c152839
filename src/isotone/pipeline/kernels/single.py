"""Exact checks about single messages and senders on whole runs: integrity, duplication, fifo.

Each function returns the ids of messages that show a violation, empty if there is none: all rows about them, and the last
sends of all processes, violate the check of that name again.
"""

import numpy as np

from isotone.pipeline.kernels.causal import replay
from isotone.pipeline.kernels.compact import Compact, Message
from isotone.pipeline.kernels.load import NOTHING


def integrity(run: Compact) -> list[Message]:
    """Messages sent by others, sent again or delivered with another payload, in a circle; and of each origin the first not sent.

    Whether the latter is a violation depends on how the trace of the origin ends.
    """
    found: list[Message] = [message for chain in run.chains for message in chain.foreign][:1]
    digest = np.full(len(run.origin), NOTHING, dtype=np.int64)
    for chain in run.chains:
        fresh = ~chain.again
        digest[chain.sends[fresh]] = chain.more["send_digest"][fresh]
    for chain in run.chains:
        again = chain.sends[chain.again]
        other = again[chain.more["send_digest"][chain.again] != digest[again]]
        given, ids = chain.more["digest"], chain.ids
        wrong = ids[~chain.sent & (given != digest[ids]) & (given != NOTHING) & (digest[ids] != NOTHING)]
        found.extend(run.message(int(message)) for message in (*other[:1], *wrong[:1]))
    delivered = np.zeros(len(run.origin), dtype=np.bool_)
    for chain in run.chains:
        delivered[chain.ids[~chain.sent]] = True
    unsent = np.flatnonzero(delivered & ~run.sent)
    found.extend(run.message(int(unsent[at])) for at in np.unique(run.origin[unsent], return_index=True)[1])
    for circle in replay(run).circles[:1]:
        found.extend(map(run.message, circle))
    return found


def fifo(run: Compact) -> list[Message]:
    """Two messages of one sender that a process delivers against their numbers."""
    for chain in run.chains:
        mine = chain.delivered()
        order = np.argsort(run.origin[mine], kind="stable")
        ids = mine[order]
        back = np.flatnonzero((ids[1:] < ids[:-1]) & (run.origin[ids[1:]] == run.origin[ids[:-1]]))
        if len(back):
            return [run.message(int(ids[back[0]])), run.message(int(ids[back[0] + 1]))]
    return []


def duplication(run: Compact) -> list[Message]:
    """A message that a process delivers twice, has returned twice, or both delivers and has returned."""
    for chain in run.chains:
        again = np.flatnonzero(~chain.first)
        if len(again):
            return [run.message(int(chain.ids[again[0]]))]
        ids, counts = np.unique(chain.returned, return_counts=True)
        bad = ids[(counts > 1) | np.isin(ids, chain.delivered())]
        if len(bad):
            return [run.message(int(bad[0]))]
    return []
