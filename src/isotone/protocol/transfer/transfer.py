"""State transfer at one process: what of the application's state it has, what it fetches, what it holds back, what it gives.

The cut is the beginning of a view: all members that come together from one view have delivered the same messages before it, and
everything in it is delivered to newcomers too. At every installation `decide` says from the round's plan who has the group's
state. A member that has not passes on no deliveries until the state as of its cut has come; then the state, then what was held
back, in order. Views that are installed meanwhile change nothing of that as long as somebody who holds the snapshot is
with it; otherwise it fetches another, as of the beginning of the new view.

Invariants: deliveries go straight to an application that has the group's state; one that has not gets none between the
beginning of its cut and the state as of that cut; while the view is frozen a process keeps to what it has told the proposer.
"""

from __future__ import annotations

from typing import Literal, Protocol

from isotone.model.events import (
    DeliveryBatch,
    SnapshotWanted,
    StateLost,
    StateProgress,
    StateReceived,
    Upcall,
    ViewInstalled,
)
from isotone.model.ids import ProcessId
from isotone.model.records import Have, Offer, Piece, Plan, Share, Transferred, Want
from isotone.model.settings import EndpointConfig
from isotone.model.view import View
from isotone.protocol.epoch import Epoch
from isotone.protocol.transfer.decide import NONE, OWN, WHOLE, Decision, decide
from isotone.protocol.transfer.incoming import Incoming
from isotone.protocol.transfer.snapshots import Sender, Snapshots

_MESSAGE_BYTES = 40
"""What a message that is held back costs besides its payload."""
_RETRIES_SLOWER = 6
"""So often the time between two attempts doubles, when the applications of all sources fail."""


class Host(Sender, Protocol):
    """What state transfer needs of the endpoint around it."""

    epoch: Epoch | None

    def emit(self, upcall: Upcall) -> None: ...


class Transfer:
    """See the module."""

    def __init__(self, config: EndpointConfig, host: Host) -> None:
        self.me = config.process
        self._config = config
        self._host = host
        self.snapshots = Snapshots(config, host)
        self.whole = False
        self.incoming: Incoming | None = None
        self._own = False  # the application has had a state of the group before
        self._gap = False  # deliveries after the own state were dropped
        self._lost: View | None = None  # the cut whose snapshot cannot be had
        self._failures = 0  # in a row
        self._retry_at: int | None = None
        self._held: list[Upcall] = []
        self._held_bytes = 0
        self._offers: dict[ProcessId, Offer] = {}

    @property
    def full(self) -> bool:
        """Whether as much is held back as may be: the senders of the group have to wait."""
        return self._held_bytes > self._config.limits.state_backlog_bytes

    def share(self) -> Share:
        """What to tell the proposer of a view."""
        incoming = self.incoming
        if self.whole or (incoming is not None and incoming.complete):
            return Share(WHOLE, self.snapshots.cuts())
        return Share(OWN if self._own else NONE, [incoming.view.id] if incoming is not None else [])

    # The stream of the view

    def hand_up(self, upcall: Upcall) -> None:
        """From the view: straight to the application, or held back until the state has come."""
        if self.whole:
            self._host.emit(upcall)
        elif self.incoming is not None:
            self._held.append(upcall)
            if type(upcall) is DeliveryBatch:
                self._held_bytes += sum(map(len, upcall.payloads)) + _MESSAGE_BYTES * len(upcall.payloads)
        elif type(upcall) is DeliveryBatch:
            self._gap = True  # the state that will come contains it
        else:
            self._host.emit(upcall)

    def _release(self, deliveries: bool) -> None:
        """Hand up what was held back, with or without the deliveries."""
        held, self._held = self._held, []
        self._held_bytes = 0
        for upcall in held:
            if deliveries or type(upcall) is not DeliveryBatch:
                self._host.emit(upcall)
            else:
                self._gap = True

    # Views

    def install(self, installed: ViewInstalled, plan: Plan, now: int) -> None:
        """A view begins, after everything of the ended one was handed up or held back."""
        view = installed.view
        decision = decide(plan, view)
        self._settle_complete(decision)
        if self.me in decision.heirs:
            if not self.whole:
                self._inherit(decision)
            self._host.emit(installed)
        elif self.whole and self.me in decision.branch:  # it had all of the state after it had told the proposer
            self._host.emit(installed)
        elif self.incoming is not None and self.me in decision.kept:
            self._held.append(installed)
            self.incoming.restrict(decision.kept[self.me], now)
        else:
            self._begin(installed, decision, now)
        self._offers = {peer: offer for peer, offer in self._offers.items() if peer in view.members and offer.cut > view.id}
        self.snapshots.keep(view.members)
        if self.me in decision.sources:
            self.snapshots.ask(view.id, decision.needers)
            self._host.emit(SnapshotWanted(view))
        self._advance(now)

    def _settle_complete(self, decision: Decision) -> None:
        """All of the state came while the view was frozen: take it, unless another state has become the group's."""
        incoming = self.incoming
        if incoming is not None and incoming.complete and (self.me in decision.branch or decision.heirs == (self.me,)):
            self._finish(incoming)

    def _inherit(self, decision: Decision) -> None:
        """Nobody has the group's state: it becomes that of the first who has one, or all begin with the initial one."""
        cut = self.incoming.view if self.incoming is not None else self._lost
        self.incoming = None
        outcome: Literal["own", "anew"] = "own" if self._own else "anew"
        if cut is not None:
            self._host.count("states_lost")
            self._host.emit(StateLost(cut, outcome, "every member that had the group's state is gone"))
        self._release(deliveries=self._own and not self._gap)
        self._become_whole()

    def _become_whole(self) -> None:
        self.whole = self._own = True
        self._gap = False
        self._lost = self._retry_at = None
        self._failures = 0

    def _begin(self, installed: ViewInstalled, decision: Decision, now: int) -> None:
        """Fetch the state as of the beginning of this view."""
        view = installed.view
        self.whole = False
        self._retry_at = None
        self.snapshots.held.clear()
        if self.incoming is not None:
            self._host.count("state_cuts_replaced")
        self.incoming = None
        self._release(deliveries=False)
        self._host.emit(installed)
        self._host.emit(StateProgress(view, None, 0, 0))
        turn = decision.needers.index(self.me) % len(decision.sources)
        sources = decision.sources[turn:] + decision.sources[:turn]
        incoming = self.incoming = Incoming(view, sources, self._config, self._host, self._progress, now)
        for peer, offer in self._offers.items():
            if offer.cut == view.id:
                incoming.offer(peer, offer, now)

    # Records

    def handle(self, peer: ProcessId, record: Transferred, now: int) -> None:
        """A record of state transfer came from `peer`."""
        incoming = self.incoming
        if isinstance(record, Want):
            self.snapshots.want(peer, record)
        elif isinstance(record, Have):
            self.snapshots.have(peer, record.cut)
        elif isinstance(record, Offer) and (incoming is None or record.cut != incoming.view.id):
            self._other_offer(peer, record)
        elif incoming is not None and record.cut == incoming.view.id:
            if isinstance(record, Piece):
                incoming.piece(peer, record, now)
            elif isinstance(record, Offer):
                incoming.offer(peer, record, now)
            else:
                incoming.differs(peer, record, now)
            self._advance(now)

    def _other_offer(self, peer: ProcessId, record: Offer) -> None:
        """An offer for a view that is still to be installed here, or for one whose snapshot is not needed."""
        epoch = self._host.epoch
        if epoch is None or record.cut > epoch.view.id:
            if peer in self._offers or len(self._offers) < self._config.limits.contacts:
                self._offers[peer] = record
        else:
            self._host.send(peer, Have(record.cut))

    def wants_view(self, now: int) -> bool:
        """Whether another view should be installed only because its beginning is another chance to get the state."""
        return self._retry_at is not None and now >= self._retry_at

    def _advance(self, now: int) -> None:
        """Take the state if all of it is here, and give up if nobody can give it."""
        incoming, epoch = self.incoming, self._host.epoch
        if incoming is None or epoch is None or epoch.frozen:  # the proposer was told otherwise
            return
        if incoming.complete:
            self._finish(incoming)
        elif incoming.hopeless:
            self.incoming = None
            self._lost = incoming.view
            self._retry_at = now + (self._config.timing.change_ns << min(self._failures, _RETRIES_SLOWER))
            self._failures += 1
            self._release(deliveries=False)
            self._host.count("states_lost")
            reasons = "; ".join(f"{peer}: {text}" for peer, text in incoming.problems.items())
            self._host.emit(StateLost(incoming.view, "waiting", reasons or "no member has it any more"))

    def _finish(self, incoming: Incoming) -> None:
        self.incoming = None
        self._host.emit(StateReceived(incoming.view, incoming.provider or "", incoming.data()))
        self._release(deliveries=True)
        self._become_whole()
        self._host.count("states_received")
        for source in incoming.sources:
            self._host.send(source, Have(incoming.view.id))

    def _progress(self) -> None:
        incoming = self.incoming
        if incoming is not None:
            self._host.emit(StateProgress(incoming.view, incoming.provider, incoming.received, incoming.total))

    # Time, the end, people

    def wake(self, now: int) -> None:
        """A deadline may have come."""
        self.snapshots.wake(now)
        if self.incoming is not None:
            self.incoming.wake(now)
            self._advance(now)

    def deadline(self) -> int | None:
        """When to wake."""
        first = self.snapshots.deadline()
        second = self.incoming.deadline() if self.incoming is not None else None
        return first if second is None or (first is not None and first < second) else second

    def close(self) -> None:
        """This process has left: what it has held back of the state is of no use."""
        self._release(deliveries=False)
        self.incoming = None
        self.snapshots.held.clear()

    def status(self) -> dict[str, object]:
        """For people."""
        incoming = self.incoming
        return {
            "whole": self.whole,
            "cut": str(incoming.view.id) if incoming is not None else None,
            "provider": incoming.provider if incoming is not None else None,
            "received": incoming.received if incoming is not None else 0,
            "total": incoming.total if incoming is not None else 0,
            "sources": list(incoming.sources) if incoming is not None else [],
            "held_back_bytes": self._held_bytes,
            "providing": {str(cut): sorted(one.needers) for cut, one in sorted(self.snapshots.held.items())},
        }
