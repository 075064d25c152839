"""What becomes of a switch when its view ends in the middle of it.

A *component* is a set P of members that end the view together, with the common set C of casts. All casts of its own members are in
C. Other components may have ended, or will end, the view with other sets; two of them can overlap, for a member may end the
view twice removed (its proposer crashed) in another company. A member passes the cut before the view ends only when
all members *know* that all have *reached* it (`control`). So:

- If anybody passed, every member of every component knows; and if anybody knows, every member of every component has reached it.
- CUT: all members of the view know, or P is a quorum and all of P know. Everybody in P goes on behind the cut.
- STAY: somebody in P has not reached the cut, so nobody knows, so no other component is in the case CUT; or the members of P that do
  not know are in every quorum, so that no quorum can be in the case CUT. Then everything goes by the old orderer, as if there
  had been no switch.
- UNSURE otherwise: others may go on behind the cut, or stay. Nothing more is delivered, and own messages go back. It takes a
  partition within the one delay between the first and the last member that knows, or a minority that is cut off in it.

CUT and STAY never meet, since two quorums have a member in common, and it knows or not, everywhere. A quorum is more than half of
the view, or half of it with the member of rank 0.
"""

from __future__ import annotations

from collections.abc import Set
from enum import Enum


class Ending(Enum):
    """Which orderer a component ends the view with."""

    CUT = "cut"
    STAY = "stay"
    UNSURE = "unsure"


def quorum(ranks: Set[int], count: int) -> bool:
    """Whether two sets like this one always have a member in common."""
    return 2 * len(ranks) > count or (2 * len(ranks) == count and 0 in ranks)


def decide(count: int, present: Set[int], reached: Set[int], known: Set[int], disjoint: bool) -> Ending:
    """How the members `present` of a view of `count` end it.

    `disjoint`: no message is under way in both orderers (`stop`). Then to have reached the cut is enough to pass it, and a component
    that does not know of it loses nothing by staying.
    """
    if disjoint:
        return Ending.CUT if len(reached) == count else Ending.STAY
    if len(known) == count or (quorum(present, count) and present <= known):
        return Ending.CUT
    if not present <= reached or not quorum(frozenset(range(count)) - (present - known), count):
        return Ending.STAY
    return Ending.UNSURE
