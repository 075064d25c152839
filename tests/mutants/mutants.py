"""Deliberate faults. Each breaks one rule of the protocol, and names the checks of which at least one must trip.

A mutant patches the real classes; the simulator then runs the broken endpoint through the swarm's storms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappush
from typing import Any

import pytest

from isotone.model.records import Cast, Cohort, Packet, Sequenced
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.epoch import Epoch
from isotone.protocol.flush import Flush
from isotone.protocol.link.peer_link import PeerLink
from isotone.protocol.membership import rounds
from isotone.protocol.membership.detector import Detector
from isotone.protocol.membership.gate import Gate
from isotone.protocol.membership.rounds import Rounds
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.sequencer import Sequencer
from isotone.protocol.ordering.single_phase import SinglePhase
from isotone.protocol.store import Store

Patch = pytest.MonkeyPatch
TOTAL = ("total_pairwise", "total_global", "position")


@dataclass(frozen=True)
class Mutant:
    """A fault, the orders it is tried with, and the checks that must see it."""

    name: str
    break_it: Callable[[Patch], None]
    trips: tuple[str, ...]
    orders: tuple[str, ...] = ("fifo", "causal", "sequencer", "single_phase")
    first: int = 1  # the seed to begin with; a rare one is not searched for again and again

    def __str__(self) -> str:
        return self.name


def no_flush(patch: Patch) -> None:
    """The view ends with whatever each member happens to hold."""
    conclude = Epoch.conclude

    def end(self: Epoch, cohort: Cohort, now: int) -> None:
        own = Cohort(cohort.view, cohort.members, cohort.present, list(self.held), cohort.holders, cohort.held)
        conclude(self, own, now)

    patch.setattr(Flush, "complete", lambda self, target: True)
    patch.setattr(Epoch, "conclude", end)


def safe_too_early(patch: Patch) -> None:
    """`safe` is delivered as soon as it is ordered."""
    deliver = Gate.deliver

    def at_once(self: Gate, sender: int, cast: Cast, position: Any, evidence: Any) -> None:
        if self.level == "safe":
            self._emit(sender, cast, position, self.level)
        else:
            deliver(self, sender, cast, position, evidence)

    patch.setattr(Gate, "deliver", at_once)


def late_casts_count_as_held(patch: Patch) -> None:
    """A frozen member reports what arrived after it had told the proposer what it holds."""
    report = Epoch.report

    def everything(self: Epoch) -> list[int]:
        report(self)
        return list(self.held)

    patch.setattr(Epoch, "report", everything)


def definition_8_off_by_one(patch: Patch) -> None:
    """A message counts as stable one timestamp too early."""
    patch.setattr(SinglePhase, "_clock", _clock_plus(1))


def acknowledgement_from_the_future(patch: Patch) -> None:
    """An acknowledgement promises more than the clock says."""
    turn = SinglePhase.turn

    def ahead(self: SinglePhase, now: int) -> None:
        if self.mrmt < self.must:
            self.mrmt = self.lcv[self.rank]
            self.outbox.direct(1, [self.mrmt + 2])
        else:
            turn(self, now)

    patch.setattr(SinglePhase, "turn", ahead)
    patch.setattr(SinglePhase, "direct", lambda self, sender, record, now: _trust(self, sender, record.stamp[0]))
    patch.setattr(SinglePhase, "accept", _accept_anything)


def _trust(orderer: SinglePhase, sender: int, ts: int) -> None:
    orderer._clock(sender, max(ts, orderer.lcv[sender]))
    orderer._deliver_stable()


def _accept_anything(self: SinglePhase, sender: int, casts: Sequence[Cast], now: int) -> None:
    for cast in casts:
        ts = cast.stamp[0]
        self._clock(sender, max(ts, self.lcv[sender]))
        if ts > self.lcv[self.rank]:
            self._clock(self.rank, ts)
        self.must = max(self.must, ts)
        heappush(self.pmq, (self._key(ts, sender), sender, cast))
    self._deliver_stable()


def _clock_plus(extra: int) -> Callable[[SinglePhase, int, int], None]:
    def clock(self: SinglePhase, site: int, ts: int) -> None:
        self.lcv[site] = ts
        self.next_keys[site] = self._key(ts + 1 + extra, site)

    return clock


def rest_unsorted(patch: Patch) -> None:
    """At the end of a view the rest is delivered sender by sender instead of by timestamp."""

    def by_sender(self: SinglePhase, present: frozenset[int], now: int) -> list[Cast]:
        for _, sender, cast in sorted(self.pmq, key=lambda entry: (-entry[1], entry[2].seq)):
            self._deliver(sender, cast)
        self.pmq.clear()
        return []

    patch.setattr(SinglePhase, "conclude", by_sender)


def no_retransmission(patch: Patch) -> None:
    """What is lost is never sent again."""

    def give_up(self: PeerLink, now: int) -> None:
        self.resend_at = None
        self.connected_again = False

    patch.setattr(PeerLink, "retransmit", give_up)


def gaps_ignored(patch: Patch) -> None:
    """A link hands up whatever comes, in the order it comes; nobody looks at numbers."""

    def anything(self: PeerLink, packet: Packet, now: int) -> list[Sequenced]:
        if packet.ack > self.acked:
            self._acknowledged(packet.ack, now)
        if packet.first + len(packet.records) - 1 <= self.received:
            return []
        self.received = packet.first + len(packet.records) - 1
        self.owed = 32
        return packet.records

    def store(self: Epoch, sender: int, cast: Cast) -> None:
        self.held[sender] = cast.seq
        self.buffers[sender].append(cast)

    patch.setattr(PeerLink, "receive", anything)
    patch.setattr(Epoch, "_store", store)
    patch.setattr(Store, "_free", lambda self, stable: None)


def repetitions_delivered(patch: Patch) -> None:
    """A link hands repeated records up again, and the view takes them again."""

    def again(self: PeerLink, packet: Packet, now: int) -> list[Sequenced]:
        if packet.ack > self.acked:
            self._acknowledged(packet.ack, now)
        if packet.records and packet.first <= self.received + 1:
            self.received = max(self.received, packet.first + len(packet.records) - 1)
            self.owed = 32
            return packet.records
        return []

    def store(self: Epoch, sender: int, cast: Cast) -> bool:
        if cast.seq > self.held[sender]:
            self.held[sender] = cast.seq
            self.buffers[sender].append(cast)
        return True

    patch.setattr(PeerLink, "receive", again)
    patch.setattr(Epoch, "_store", store)


def causality_ignored(patch: Patch) -> None:
    """A cast is delivered although what its sender had delivered before is missing."""
    patch.setattr(Dependencies, "satisfied", lambda self, stamp, start: True)


def old_view_accepted(patch: Patch) -> None:
    """Casts of a view that has ended are taken for casts of the current one."""
    receive = Endpoint.receive

    def any_view(self: Endpoint, peer: str, packet: Packet, now: int) -> None:
        epoch = self.epoch
        if packet.epoch and epoch is not None and packet.epoch < epoch.view.id.epoch and not epoch.frozen:
            rank = epoch.rank_of.get(peer)
            casts = [record for record in packet.records if type(record) is Cast]
            if rank is not None and casts:
                epoch.now = now
                for cast in casts:
                    epoch.deliver(rank, cast, (0, now) if epoch.orderer.total else None)
        receive(self, peer, packet, now)

    patch.setattr(Endpoint, "receive", any_view)


def returned_forgotten(patch: Patch) -> None:
    """What the sequencer could not order is dropped instead of handed back."""
    conclude = Sequencer.conclude

    def silent(self: Sequencer, present: frozenset[int], now: int) -> list[Cast]:
        conclude(self, present, now)
        return []

    patch.setattr(Sequencer, "conclude", silent)


def classical_fallback(patch: Patch) -> None:
    """Without the sequencer the rest is delivered in a sorted order all the same (000 §1.2.2)."""
    patch.setattr(Sequencer, "option", lambda self, name: "classical")


def sequencer_skips_gaps(patch: Patch) -> None:
    """An ordered cast that is not here yet is overtaken by the next."""

    def advance(self: Sequencer) -> None:
        waiting = []
        while self.runs:
            sender, count, seq = self.runs.popleft()
            bodies = self.bodies[sender]
            while count and bodies:
                self.number += 1
                self.outbox.deliver(sender, bodies.popleft(), (0, 0, self.number), (0, seq))
                count -= 1
            if count:
                waiting.append((sender, count, seq))
        self.runs.extend(waiting)

    patch.setattr(Sequencer, "_advance", advance)


def view_ids_repeat(patch: Patch) -> None:
    """Every proposal of a process reuses one epoch while nobody else has a larger one."""
    patch.setattr(rounds, "require", lambda fact, text: None)
    begin = Rounds._begin

    def forget(self: Rounds, change: Any, now: int) -> None:
        begin(self, change, now)
        self.top_epoch = max(0, self.top_epoch - 1)
        self.promised = type(self.promised)(max(0, self.promised.epoch - 1), self.promised.proposer)

    patch.setattr(Rounds, "_begin", forget)


def views_go_backwards(patch: Patch) -> None:
    """A process answers any proposal, also one that is older than what it promised."""
    patch.setattr(rounds, "require", lambda fact, text: None)
    on_propose = Rounds.on_propose

    def forgetful(self: Rounds, peer: str, record: Any, now: int) -> None:
        if self.change is None or record.round != self.change.round:
            self.promised = type(self.promised)(0, "")
        on_propose(self, peer, record, now)

    def propose(self: Rounds, participants: tuple[str, ...], now: int) -> None:
        self.top_epoch = 0
        original(self, participants, now)

    original = Rounds.propose
    patch.setattr(Rounds, "propose", propose)
    patch.setattr(Rounds, "on_propose", forgetful)


def blind_detector(patch: Patch) -> None:
    """Nobody is ever suspected."""
    patch.setattr(Detector, "check", lambda self, now: False)


def window_never_reopens(patch: Patch) -> None:
    """Own casts never count as held by the others, so the window stays shut once it is full."""
    patch.setattr(Store, "_release", lambda self, count: None)


MUTANTS = [
    Mutant("no_flush", no_flush, ("virtual_synchrony", "agreement")),
    Mutant("safe_too_early", safe_too_early, ("uniform",)),
    Mutant("late_casts_count_as_held", late_casts_count_as_held, ("uniform", "InvariantViolation")),
    Mutant("definition_8_off_by_one", definition_8_off_by_one, TOTAL, ("single_phase",)),
    Mutant("acknowledgement_from_the_future", acknowledgement_from_the_future, TOTAL, ("single_phase",)),
    Mutant("rest_unsorted", rest_unsorted, TOTAL, ("single_phase",)),
    Mutant("no_retransmission", no_retransmission, ("liveness",)),
    Mutant("gaps_ignored", gaps_ignored, ("reliable_fifo",), ("fifo",)),
    Mutant("repetitions_delivered", repetitions_delivered, ("duplication",), ("fifo",)),
    Mutant("causality_ignored", causality_ignored, ("causal",), ("causal",)),
    Mutant("old_view_accepted", old_view_accepted, ("sending_view", "same_view")),
    Mutant("returned_forgotten", returned_forgotten, ("validity",), ("sequencer",)),
    Mutant("classical_fallback", classical_fallback, TOTAL, ("sequencer",)),
    Mutant("sequencer_skips_gaps", sequencer_skips_gaps, TOTAL, ("sequencer",)),
    Mutant("view_ids_repeat", view_ids_repeat, ("view_identity", "view_monotony")),
    Mutant("views_go_backwards", views_go_backwards, ("view_monotony", "view_identity")),
    Mutant("blind_detector", blind_detector, ("liveness",)),
    Mutant("window_never_reopens", window_never_reopens, ("liveness",)),
]
