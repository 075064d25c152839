"""What becomes of a switch when its view ends in the middle of it.

A *component* is a set P of members that end the view together, with the common set C of casts. All casts of its own members
are in C. Other components may have ended, or will end, the view with other sets; two of them can overlap, for a member may
end the view twice removed (its proposer crashed) in another company. What members say about a switch makes them *willing* first,
and *bound* then: nobody is bound before all members are willing, and nobody passes the cut before the view ends unless all
members are bound. So:

- If anybody passed before the view ended, all members are bound; and if anybody is bound, all of them are willing.
- CUT: all members of the view are bound, or P is a quorum and all of P are. Everybody in P goes on behind the cut.
- STAY: somebody in P is not willing, and never will be, so nobody is bound, and no other component is in the case CUT; or the
  members of P that are not bound are in every quorum, so that no quorum can be in the case CUT. Then everything goes by the old
  orderer, as if there had been no switch.
- UNSURE otherwise: others may go on behind the cut, or stay. Nothing more is delivered than what one of P has delivered before
  the cut, and own messages go back. It takes a partition while members are becoming bound, or a minority that is cut off after it
  was willing.

CUT and STAY never meet, since two quorums have a member in common, and it is bound or not, everywhere. A quorum is more than
half of the view, or half of it with the member of rank 0.

In two rounds, who has reached the cut is willing, and who knows that all have is bound. Where the flags of all make the cut, one
round is enough: who has flagged is willing, for nobody comes to the cut without its flag, and who has reached the cut is bound.
Then members that are not sure may have come to different places before the cut: they tell each other how far when the view ends,
and all deliver so much. (All of them have flagged and none has passed, so they speak of the same orderer.) A number for each
sender says it all if the old orderer delivers everything in one order, and each sender's casts in the order sent, and if nothing
is promised of what others have delivered: not for semantic orders, nor above `agreed`.
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


def decide(count: int, present: Set[int], willing: Set[int], bound: Set[int], disjoint: bool) -> Ending:
    """How the members `present` of a view of `count` end it.

    `disjoint`: no message is under way in both orderers (`stop`). Then it is enough that all are bound, and a component that
    does not know of it loses nothing by staying.
    """
    if disjoint:
        return Ending.CUT if len(bound) == count else Ending.STAY
    if len(bound) == count or (quorum(present, count) and present <= bound):
        return Ending.CUT
    if not present <= willing or not quorum(frozenset(range(count)) - (present - bound), count):
        return Ending.STAY
    return Ending.UNSURE
