"""Whose state is the group's in a new view, who lacks it, and who gives it: a pure function of the round's plan and its view.

Every member of the view computes it when it installs the view, from the same plan, so that all agree without a word.
Members that come from one view and have its state have the same one, for virtual synchrony has them deliver the same
messages in that view; so the beginning of a view is the one place at which their states can be taken for each other's.
"""

from __future__ import annotations

import msgspec

from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Plan, Share
from isotone.model.view import View

NONE, OWN, WHOLE = 0, 1, 2
"""Ranks of a share: no state yet; one that is being replaced; the group's."""

COPIES = 2
"""How many members take a snapshot: the second saves what has been sent when the first crashes. When both crash there is
another view, and another snapshot."""


class Decision(msgspec.Struct, frozen=True):
    """The state in a new view. `heirs` have it; `branch` are the processes that come from the same view as they do.

    Nobody came with it: the branch is empty, and the heirs have to be content with what they have.

    `needers` lack it and get it as of the beginning of this view from `sources`; `kept` are still getting it as of
    the beginning of an earlier one, from the members named.
    """

    heirs: tuple[ProcessId, ...]
    branch: frozenset[ProcessId]
    needers: tuple[ProcessId, ...]
    sources: tuple[ProcessId, ...]
    kept: dict[ProcessId, tuple[ProcessId, ...]]


def decide(plan: Plan, view: View) -> Decision:
    """The largest set of members that bring the same state wins, then that of the latest view.

    Nobody has it: the first that has a state of its own; nobody has any: all begin anew together.
    """
    shares = {process: share for process, share in zip(plan.sharing, plan.shares, strict=True) if process in view.members}
    origin = {process: cohort.view for cohort in plan.cohorts for process in cohort.present}
    bearers: dict[ViewId, list[ProcessId]] = {}
    for process in sorted(shares):
        if shares[process].rank == WHOLE and process in origin:
            bearers.setdefault(origin[process], []).append(process)
    branch: frozenset[ProcessId] = frozenset()
    kept: dict[ProcessId, tuple[ProcessId, ...]] = {}
    if bearers:
        best = max(bearers, key=lambda ended: (len(bearers[ended]), ended))
        heirs = tuple(bearers[best])
        branch = frozenset(process for process, ended in origin.items() if ended == best)
        kept = _kept(shares, heirs, branch)
    else:
        owners = [process for process in sorted(shares) if shares[process].rank == OWN]
        heirs = tuple(owners[:1] or sorted(shares))
    needers = tuple(process for process in sorted(shares) if process not in heirs and process not in kept)
    first = view.id.epoch % len(heirs) if heirs else 0
    sources = (heirs[first:] + heirs[:first])[:COPIES] if needers else ()
    return Decision(heirs, branch, needers, sources, kept)


def _kept(
    shares: dict[ProcessId, Share], heirs: tuple[ProcessId, ...], branch: frozenset[ProcessId]
) -> dict[ProcessId, tuple[ProcessId, ...]]:
    """Who goes on with the snapshot that it is fetching: it came with the heirs, and some of them hold it."""
    kept = {}
    for process, share in shares.items():
        if share.rank != WHOLE and process in branch and share.cuts:
            holders = tuple(heir for heir in heirs if share.cuts[0] in shares[heir].cuts)
            if holders:
                kept[process] = holders
    return kept
