"""Records: the units that endpoints exchange. A packet carries records to one peer; a frame is an encoded packet.

Sequenced records (`Cast`, `Direct`, `Relay`) belong to a view's link and arrive once, in order. Loose records carry whole
state, may be lost, repeated or reordered, and are idempotent. Records are never changed after they were made: the
simulator hands the same objects to several receivers. The bounds of numbers are checked where records are decoded.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from isotone.model.columns import Items, Types
from isotone.model.conflicts import Conflicts
from isotone.model.ids import ProcessId, ViewId
from isotone.model.view import Ordering, View

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Stamp = list[Annotated[int, msgspec.Meta(gt=-(1 << 62), lt=1 << 62)]]
Place = tuple[Count, Count]
"""A cast by its sender's rank and its `seq`."""

EARLY = 64
"""So many casts a member may have delivered that lie behind gaps in their senders' streams."""


class Cast(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Multicast within a view, covered by the flush. `seq` counts the sender's casts in the view from 1.

    `kind` and `stamp` belong to the orderer. A cast with payloads carries messages `number`, `number + 1`, …, or, if that is
    0, something that is said about a switch. `types` and `items` describe them (`model.columns`).
    """

    seq: Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
    kind: Count
    stamp: Stamp
    number: Count = 0
    payloads: list[bytes] = []
    types: Types | None = None
    items: Items | None = None


class Direct(msgspec.Struct, array_like=True, tag=2, gc=False):
    """An orderer's record that the flush does not cover (an acknowledgement, a token)."""

    kind: Count
    stamp: Stamp


class Relay(msgspec.Struct, array_like=True, tag=3, gc=False):
    """A cast of `sender` (a rank) that another member passes on, during the flush or to a member that asked for it."""

    sender: Count
    cast: Cast


class Heartbeat(msgspec.Struct, array_like=True, tag=4):
    """To members of the view and of the change in progress: a sign of life, and how far the sender is.

    `held` counts the casts of each member that it holds, `stable` its own that it knows all members to hold.
    """

    view: ViewId
    promised: ViewId
    held: list[Count]
    stable: Count
    hold: bool
    leaving: bool
    suspects: list[ProcessId]


class Probe(msgspec.Struct, array_like=True, tag=5):
    """To known processes outside the view: who and where the sender is, and whether it hears the receiver.

    `contacts` are the members of its view and others that it heard of late, with their `addresses`.
    """

    address: str
    view: ViewId | None
    promised: ViewId
    members: list[ProcessId]
    contacts: list[ProcessId]
    addresses: list[str]
    hears_you: bool
    founder: bool
    leaving: bool


class Propose(msgspec.Struct, array_like=True, tag=6):
    """The proposer of `round` asks the participants to freeze their views and to say what they hold."""

    round: ViewId
    participants: list[ProcessId]
    addresses: list[str]


class Reject(msgspec.Struct, array_like=True, tag=7):
    """`round` is too old here: `promised` has been promised."""

    round: ViewId
    promised: ViewId


class Share(msgspec.Struct, array_like=True):
    """What a process has of the application's state when its view is frozen.

    `rank` is 2 for the group's state, 1 for one of its own that is being replaced, 0 for none yet. `cuts` are the views of
    whose beginning it holds snapshots, or the one whose snapshot it is fetching.
    """

    rank: Annotated[int, msgspec.Meta(ge=0, le=2)]
    cuts: list[ViewId]


class State(msgspec.Struct, array_like=True, tag=8):
    """A participant's answer: the view it comes from, and how many casts of each member it holds.

    `report` is what its orderer says when it is frozen: how many casts of each member it has delivered, if that may matter.
    `early` are the casts behind a gap that it has delivered all the same, sorted.
    `ordering` is what it wants the next view to have, after so many `switches` in its view.
    """

    round: ViewId
    view: ViewId | None
    members: list[ProcessId]
    held: list[Count]
    report: list[Count]
    leaving: bool
    ordering: Ordering
    share: Share | None = None
    early: list[Place] = []
    switches: Count = 0


class Cohort(msgspec.Struct, array_like=True):
    """The participants that come from one view, and the common set that they will have delivered when it ends.

    `target[r]` casts of the member of rank r; `holders[r]` passes on what others lack; `held[i]` is what `present[i]` has.
    Beyond the target, the casts `early`, sorted: those that somebody has delivered; `ahead[i]` are those of `present[i]`. Where
    there is none, both are empty. `delivered[r]` is the most that is reported of the member of rank r; empty where nobody does.
    """

    view: ViewId
    members: list[ProcessId]
    present: list[ProcessId]
    target: list[Count]
    holders: list[ProcessId]
    held: list[list[Count]]
    early: list[Place] = []
    ahead: list[list[Place]] = []
    delivered: list[Count] = []


class Plan(msgspec.Struct, array_like=True, tag=9):
    """What each cohort has to recover before `round` can be installed.

    `shares[i]` is what the participant `sharing[i]` has of the application's state; who has no part in that is not named.
    """

    round: ViewId
    cohorts: list[Cohort]
    sharing: list[ProcessId] = []
    shares: list[Share] = []


class Ready(msgspec.Struct, array_like=True, tag=10):
    """The sender holds its cohort's common set."""

    round: ViewId


class Install(msgspec.Struct, array_like=True, tag=11):
    """The view of `round`. Participants that are not members of it were leaving, and are done."""

    round: ViewId
    view: View
    addresses: list[str]


class Installed(msgspec.Struct, array_like=True, tag=12):
    """The sender has installed `round`, or has left with it."""

    round: ViewId


class Refuse(msgspec.Struct, array_like=True, tag=13):
    """The receiver cannot be in this group. Final, or worth trying again for a while (`final` False)."""

    reason: str
    final: bool


class Decision(msgspec.Struct, array_like=True, frozen=True):
    """The view that follows `previous` in primary membership. `cohort` tells what is delivered before it, not who held what;
    `sharing` and `shares` are the plan's.

    The first view of a group follows `INITIAL_VIEW` and has no cohort.
    """

    previous: ViewId
    view: View
    addresses: list[str]
    cohort: Cohort | None
    sharing: list[ProcessId]
    shares: list[Share]


class Vote(msgspec.Struct, array_like=True, tag=25):
    """A message of the consensus on what follows the view `instance`, which its members hold; decisions also go to others."""

    instance: ViewId
    phase: Annotated[int, msgspec.Meta(ge=0, le=5)]
    number: Count
    accepted: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
    value: Decision | None


class Charter(msgspec.Struct, array_like=True, tag=26):
    """Goes with every probe of a process with primary membership, or with a conflict relation: what its group rests on.

    `founders` are the names that found a group with primary membership; with partitionable membership there are none.
    """

    founders: list[str]
    conflicts: Conflicts | None = None


class Offer(msgspec.Struct, array_like=True, tag=20):
    """The sender holds the application's state as of the beginning of `cut`, in `total` bytes; or cannot give it: `problem`."""

    cut: ViewId
    total: Count
    problem: str


class Want(msgspec.Struct, array_like=True, tag=21):
    """Send `count` bytes from `offset` of the snapshot of `cut`, if `digest` is that of its first `base` bytes.

    `attempt` counts the beginnings of the asking process; answers carry it, so that those to an earlier one are recognised.
    """

    cut: ViewId
    attempt: Count
    offset: Count
    count: Count
    base: Count
    digest: bytes


class Piece(msgspec.Struct, array_like=True, tag=22, gc=False):
    """A part of a snapshot, from `offset`."""

    cut: ViewId
    attempt: Count
    offset: Count
    data: bytes


class Differs(msgspec.Struct, array_like=True, tag=23):
    """The snapshot of `cut` does not begin with what the receiver has of it: begin again."""

    cut: ViewId
    attempt: Count


class Have(msgspec.Struct, array_like=True, tag=24):
    """The sender does not need the snapshot of `cut` (any more)."""

    cut: ViewId


class Seen(NamedTuple):
    """What a member has counted since its view began."""

    batches: Count
    """That it has sent."""
    packets: Count
    """That its links have heard, where a loss would have shown."""
    lost: Count
    """Of the packets of its links."""


class Echo(msgspec.Struct, array_like=True, tag=30):
    """From the member that observes the group for a switching policy: a time of its clock, which is sent back at once, with
    what the other one has seen."""

    at: Count
    seen: Seen | None = None


Transferred = Offer | Want | Piece | Differs | Have
Sequenced = Cast | Direct | Relay
Loose = (
    Heartbeat | Probe | Propose | Reject | State | Plan | Ready | Install | Installed | Refuse | Vote | Charter | Echo
    | Transferred
)  # fmt: skip


class Packet(msgspec.Struct, array_like=True, gc=False):
    """Everything for one peer in one turn. `epoch` and `proposer` name the view whose link the records belong to.

    `records[i]` has the link's sequence number `first + i`, or that of the next one is `first` if there are none. `ack` is the
    number n of records received so far without a gap, or 0 for no news, or -1 - n where what follows is missing. `again` says
    that the records were sent before, or without records that the peer has sent some again which were here.
    """

    epoch: Count
    proposer: ProcessId
    first: Count
    ack: Annotated[int, msgspec.Meta(gt=-(1 << 62), lt=1 << 62)]
    records: list[Sequenced]
    loose: list[Loose]
    again: bool = False
