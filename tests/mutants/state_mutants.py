"""Deliberate faults of state transfer, and the beginnings of the failures of which at least one must be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from isotone.model.events import DeliveryBatch, SnapshotWanted, Upcall
from isotone.model.records import Piece, Plan, Want
from isotone.model.view import View
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.transfer import transfer
from isotone.protocol.transfer.decide import WHOLE, Decision, decide
from isotone.protocol.transfer.incoming import Incoming
from isotone.protocol.transfer.snapshots import Snapshots
from isotone.protocol.transfer.transfer import Transfer

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class StateMutant:
    """A fault, and words of the failures that must be seen."""

    break_it: Callable[[Patch], None]
    seen: tuple[str, ...]
    first: int = 1  # rare ones begin near a seed that shows them

    def __str__(self) -> str:
        return self.break_it.__name__


def deliveries_before_the_state(patch: Patch) -> None:
    """Nothing is held back."""
    patch.setattr(Transfer, "hand_up", lambda self, upcall: self._host.emit(upcall))


def snapshot_one_message_late(patch: Patch) -> None:
    """The application is asked for its state after the next delivery."""
    emit = Endpoint.emit

    def late(self: Endpoint, upcall: Upcall) -> None:
        waiting = self.__dict__.setdefault("_late", [])
        if type(upcall) is SnapshotWanted:
            waiting.append(upcall)
            return
        emit(self, upcall)
        if type(upcall) is DeliveryBatch:
            while waiting:
                emit(self, waiting.pop(0))

    patch.setattr(Endpoint, "emit", late)


def resumed_without_a_look(patch: Patch) -> None:
    """Whoever comes from another provider gets the rest, whatever it has."""
    patch.setattr(Snapshots, "_begins_alike", lambda self, snapshot, peer, record: True)


def offset_off_by_one(patch: Patch) -> None:
    """Pieces begin one byte late; the last one is made as long as the others."""

    def want(self: Snapshots, peer: str, record: Want) -> None:
        snapshot = self.held.get(record.cut)
        if snapshot is not None and snapshot.data is not None:
            data = (snapshot.data + b"\0")[record.offset + 1 : record.offset + 1 + record.count]
            self._sender.send(peer, Piece(record.cut, record.attempt, record.offset, data))

    patch.setattr(Snapshots, "want", want)


def held_back_is_dropped(patch: Patch) -> None:
    """What was held back is not handed up after the state."""
    release = Transfer._release
    patch.setattr(Transfer, "_release", lambda self, deliveries: release(self, False))


def earlier_cut_keeps_deliveries(patch: Patch) -> None:
    """Deliveries before a later cut are handed up although the state of that cut contains them."""
    release = Transfer._release
    patch.setattr(Transfer, "_release", lambda self, deliveries: release(self, True))


def every_state_is_the_groups(patch: Patch) -> None:
    """Components that merge keep their states."""

    def lenient(plan: Plan, view: View) -> Decision:
        shares = dict(zip(plan.sharing, plan.shares, strict=True))
        whole = tuple(sorted(p for p in shares if shares[p].rank == WHOLE and p in view.members))
        found = decide(plan, view)
        if not whole:
            return found
        needers = tuple(p for p in found.needers if p not in whole)
        return msgspec.structs.replace(found, heirs=whole, needers=needers, sources=found.sources if needers else ())

    patch.setattr(transfer, "decide", lenient)


def another_branch_is_kept(patch: Patch) -> None:
    """Who fetches a snapshot goes on with it after its providers' component has lost."""

    def stubborn(plan: Plan, view: View) -> Decision:
        found = decide(plan, view)
        kept = dict(found.kept)
        for process, share in zip(plan.sharing, plan.shares, strict=True):
            holders = tuple(p for p, other in zip(plan.sharing, plan.shares, strict=True) if other.rank == WHOLE)
            if process in found.needers and share.rank != WHOLE and share.cuts and holders:
                kept[process] = holders
        needers = tuple(p for p in found.needers if p not in kept)
        return msgspec.structs.replace(found, kept=kept, needers=needers, sources=found.sources if needers else ())

    patch.setattr(transfer, "decide", stubborn)


def lost_pieces_stay_lost(patch: Patch) -> None:
    """What does not come is not asked for again."""
    patch.setattr(Incoming, "wake", lambda self, now: self._choose(now))
    deadline = Incoming.deadline
    patch.setattr(Incoming, "deadline", lambda self: deadline(self) if self.provider is None else None)


def snapshots_never_given_up(patch: Patch) -> None:
    """A failure of the application is not told: who waits for it waits for ever."""
    provide = Snapshots.provide

    def silent(self: Snapshots, cut: Any, data: bytes | None, problem: str, now: int) -> None:
        if data is not None:
            provide(self, cut, data, problem, now)

    patch.setattr(Snapshots, "provide", silent)


STATE_MUTANTS = [
    StateMutant(deliveries_before_the_state, ("before it has the state",)),
    StateMutant(snapshot_one_message_late, ("different states", "which its state contains")),
    StateMutant(resumed_without_a_look, ("broken state",), 40),
    StateMutant(offset_off_by_one, ("broken state",)),
    StateMutant(held_back_is_dropped, ("different states",)),
    StateMutant(earlier_cut_keeps_deliveries, ("before it has the state", "different states")),
    StateMutant(every_state_is_the_groups, ("different states",)),
    StateMutant(another_branch_is_kept, ("different states", "which its state contains", "liveness"), 10),
    StateMutant(lost_pieces_stay_lost, ("liveness",)),
    StateMutant(snapshots_never_given_up, ("liveness",), 15),
]
