"""What an endpoint hands up, in one ordered list: deliveries, views, what came back, the state, suspicions, the end.

Deliveries come as batches: the messages of one cast share origin, view, level and the beginning of their position.
Message i of a batch has number `first + i` and position `(*position, i)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from isotone.model.ids import ProcessId, ViewId
from isotone.model.switch import Strategy
from isotone.model.view import Level, Ordering, View

Position = tuple[int, ...]


class DeliveryBatch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive messages of one sender, delivered together."""

    view: View
    origin: ProcessId
    first: int
    payloads: Sequence[bytes]
    position: Position | None
    level: Level
    types: Sequence[str | None] | None = None
    items: Sequence[Sequence[str] | None] | None = None


class ReturnedBatch(msgspec.Struct, frozen=True, gc=False):
    """Own messages that the ended view could not order here; another component may have delivered them."""

    view: View
    origin: ProcessId
    first: int
    payloads: Sequence[bytes]
    types: Sequence[str | None] | None = None
    items: Sequence[Sequence[str] | None] | None = None


class ViewInstalled(msgspec.Struct, frozen=True):
    """A new view begins. `together` are the members that came from this process's previous view with it."""

    view: View
    previous: ViewId | None
    together: tuple[ProcessId, ...]


class Transitional(msgspec.Struct, frozen=True):
    """The view `view` is ending: what is delivered from here to the next view has at most the level `agreed`."""

    view: View
    together: tuple[ProcessId, ...]


class CoreChanged(msgspec.Struct, frozen=True):
    """The core of `view` is another one (two-level membership): the members not in it are external. `ring` counts the changes.

    A view, and what follows a switch, begins with all members in the core.
    """

    view: View
    core: tuple[ProcessId, ...]
    ring: int


class Switched(msgspec.Struct, frozen=True):
    """From here on `view` orders its messages in another way than before. `instance` counts its orderers from 0."""

    view: View
    before: Ordering
    strategy: Strategy
    instance: int


class SwitchRefused(msgspec.Struct, frozen=True):
    """The switch to `ordering` that this process asked for does not take place, for `reason`."""

    ordering: Ordering
    reason: str


class Suspicion(msgspec.Struct, frozen=True):
    """The detector changed its mind about a peer: `level` is soft or hard; `suspected` False withdraws it."""

    peer: ProcessId
    level: str
    suspected: bool


class SlowMember(msgspec.Struct, frozen=True):
    """A member whose application lags has been holding the group's senders back (`holding`), or has caught up."""

    peer: ProcessId
    holding: bool


class Apart(msgspec.Struct, frozen=True):
    """Another component of the group is there, of which `peer` is a member, with which this one cannot merge, for `reason`."""

    peer: ProcessId
    reason: str


class Blockage(msgspec.Struct, frozen=True):
    """Primary membership: fewer than `needed` members of the view are reachable, so nothing goes on; or it does again."""

    blocked: bool
    reachable: tuple[ProcessId, ...]
    needed: int

    @property
    def reason(self) -> str:
        """For people."""
        return f"blocked: it reaches {len(self.reachable)} of its view's members and needs {self.needed}"


class Expulsion(msgspec.Struct, frozen=True):
    """The live group went on without this process, which joins again as another: its state is void, and so is what it last sent.

    `process` is the id that it had. What follows belongs to the new one, and begins with a view.
    """

    process: ProcessId
    reason: str


class SnapshotWanted(msgspec.Struct, frozen=True):
    """Others need the application's state exactly as it is at this place of the stream: answer with `Endpoint.provide`."""

    view: View


class StateProgress(msgspec.Struct, frozen=True):
    """The state as of the beginning of `view` is on its way; what is delivered from there on waits for it.

    The first of a transfer has no `provider`; `total` is 0 until it is known.
    """

    view: View
    provider: ProcessId | None
    received: int
    total: int


class StateReceived(msgspec.Struct, frozen=True):
    """The group's state as of the beginning of `view`; it replaces what the application has. Deliveries go on from there."""

    view: View
    provider: ProcessId
    data: bytes


class StateLost(msgspec.Struct, frozen=True):
    """The state that was on its way will not come, for `reason`.

    `outcome` says what follows. `waiting`: the next view brings another one; until then nothing is delivered. `own`: nobody
    has the group's state any more, and the application's own becomes it. `anew`: nobody has any, and all begin with the
    initial one.
    """

    view: View
    outcome: Literal["waiting", "own", "anew"]
    reason: str


class Ended(msgspec.Struct, frozen=True):
    """The endpoint left the group or was refused; nothing follows. `error` is None after a graceful leave.

    `expelled`: the group goes on without this process, which may join again with a new incarnation; its state is void.
    """

    error: str | None
    expelled: bool = False


StateEvent = SnapshotWanted | StateProgress | StateReceived | StateLost
Change = ViewInstalled | Transitional | CoreChanged | Switched | SwitchRefused | Blockage | Apart
Upcall = DeliveryBatch | ReturnedBatch | Change | Suspicion | SlowMember | StateEvent | Ended
