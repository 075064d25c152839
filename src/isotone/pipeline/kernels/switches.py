"""The exact check, on whole runs, that instances of orderers do not go back and that no message passes another across a switch.

These are the rules *forward* and *not reordered* of the check `switching`; the other rules look at one message and are decided
from the condensed history.
"""

from collections.abc import Collection
from itertools import pairwise, permutations
from typing import Any, Final

import numpy as np

from isotone.pipeline.kernels.compact import Chain, Compact, Message
from isotone.pipeline.kernels.load import NOTHING
from isotone.pipeline.kernels.stretch import ViewId

COLUMNS: Final = ("view_epoch", "view_proposer", "protocol", "position_0", "position_1")


def switching(run: Compact, switched: Collection[ViewId | None]) -> list[Message]:
    """Two messages that a process delivers against their instances, or two processes in different orders, around a switch."""
    for view in switched:
        parts = [_labelled(chain, view) for chain in run.chains]
        for ids, labels in parts:
            with_instance = [(instance, at) for at, (instance, _) in enumerate(labels) if instance is not None]
            for (one, at), (two, then) in pairwise(with_instance):
                if two < one:
                    return run.named([int(ids[at]), int(ids[then])])
        codes = {label: code for code, label in enumerate(dict.fromkeys(label for _, labels in parts for label in labels))}
        coded = [(ids, np.array([codes[label] for label in labels], dtype=np.int64)) for ids, labels in parts if len(ids)]
        place = np.full(len(run.origin), -1, dtype=np.int64)
        for (one, label), (two, _) in permutations(coded, 2):
            place[two[::-1]] = np.arange(len(two))[::-1]  # the first delivery counts
            there = place[one]
            common = np.flatnonzero(there >= 0)
            found = _passed(one[common], label[common], there[common])
            place[two] = -1
            if found:
                return run.named(found)
    return []


def _passed(ids: Any, label: Any, there: Any) -> list[int]:
    for one in np.unique(label):
        at = np.where(label == one, there, -1)
        furthest = np.maximum.accumulate(at)
        bad = np.flatnonzero((label[1:] != one) & (furthest[:-1] > there[1:])) + 1
        if len(bad):
            return [int(ids[int(at[: bad[0]].argmax())]), int(ids[bad[0]])]
    return []


def _labelled(chain: Chain, view: ViewId | None) -> tuple[Any, list[tuple[int | None, str | None]]]:
    """The deliveries of a process that name the view, with their labels."""
    epoch = chain.more["view_epoch"]
    if view is None:
        here = ~chain.sent & (epoch == NOTHING)
    else:
        proposers = np.array([(word or "") == view[1] for word in chain.more["view_proposer"].tolist()], dtype=np.bool_)
        here = ~chain.sent & (epoch == view[0]) & proposers
    several = chain.more["position_1"][here] != NOTHING
    instances = [int(p) if s else None for p, s in zip(chain.more["position_0"][here], several, strict=True)]
    return chain.ids[here], list(zip(instances, chain.more["protocol"][here].tolist(), strict=True))
