"""Deliberate faults of switching: each breaks one rule of the algorithm (paper 004, `protocol/switching`)."""

from __future__ import annotations

from typing import Any

from isotone.protocol.ordering.orderer import Batch
from isotone.protocol.switching import switching
from isotone.protocol.switching.change import Change
from isotone.protocol.switching.control import Arrivals, Told
from isotone.protocol.switching.ending import Ending, decide
from isotone.protocol.switching.lanes import Lanes
from isotone.protocol.switching.switching import Switching
from tests.mutants.mutants import TOTAL, Mutant, Patch

ALL = ("sequencer", "single_phase", "atop", "two_phase")
ORDER = ("switching", *TOTAL)


def flags_ignored(patch: Patch) -> None:
    """The first flag makes the cut, whoever else has not sent its own."""
    look = Switching._look_for_cut

    def at_once(self: Switching) -> None:
        if self.change is not None and self.change.strategy in ("dual", "dual_ids") and self.flags:
            self.flags = set(range(self.count))
        look(self)

    patch.setattr(Switching, "_look_for_cut", at_once)


def no_null_flag(patch: Patch) -> None:
    """Who has nothing to send sends no flag."""
    begin = Change.__init__

    def flagged(self: Change, *args: Any) -> None:
        begin(self, *args)
        self.flagged = True

    patch.setattr(Change, "__init__", flagged)


def marks_forgotten(patch: Patch) -> None:
    """What the old orderer has delivered is forgotten when the cut is passed."""
    patch.setattr(Told, "repeats", lambda self, number, seq: False)


def new_before_old(patch: Patch) -> None:
    """What the new orderer delivers goes up at once."""
    delivered = Switching.delivered

    def at_once(self: Switching, instance: int, sender: int, cast: Any, position: Any, evidence: Any) -> None:
        if instance > self.current and cast.number and cast.number in (self.host.own if sender == self.rank else [cast.number]):
            self.host.admit(sender, cast, position, evidence)
        else:
            delivered(self, instance, sender, cast, position, evidence)

    patch.setattr(Switching, "delivered", at_once)


def cut_before_stability(patch: Patch) -> None:
    """A member passes the cut when it has reached it itself, and the old orderer's records are not waited for."""
    say = Switching._say_reached

    def passes(self: Switching, change: Change) -> None:
        say(self, change)
        if change.strategy in ("dual", "dual_ids") and change.switch.rule == "all":
            told = self.lanes.arrivals(change.instance)
            for rank in range(self.count):
                if rank not in told.reached:
                    told.reached[rank] = Told(1 << 61, 1, 0, False, ())
                told.known.add(rank)

    patch.setattr(Switching, "_say_reached", passes)
    patch.setattr(Arrivals, "take", _take_again)


def _take_again(self: Any, sender: int, cast: Any) -> None:
    stamp = cast.stamp
    if stamp == [2]:
        self.known.add(sender)
    else:
        self.reached[sender] = Told(cast.seq, stamp[1], stamp[2], bool(stamp[3]), tuple(stamp[4:]))


def early_records_dropped(patch: Patch) -> None:
    """What comes of the next orderer before the request is not kept."""
    start = Lanes.start

    def without(self: Lanes, *args: Any) -> None:
        self._waiting.clear()
        start(self, *args)

    patch.setattr(Lanes, "start", without)


def second_copy_numbered(patch: Patch) -> None:
    """The copy of a message through the old orderer counts as another message."""
    numbered = Batch

    def forgetful(payloads: Any, types: Any, items: Any, size: int, number: int | None = None) -> Batch:
        return numbered(payloads, types, items, size)

    patch.setattr(switching, "Batch", forgetful)


def not_sent_again(patch: Patch) -> None:
    """`rabp`: what the old orderer has not delivered at the cut is left at that."""
    say = Switching._say_reached

    def silent(self: Switching, change: Change) -> None:
        own = self.host.own
        lane = self.lanes.of[change.instance]
        self.lanes.of[change.instance] = _Deaf(lane)  # type: ignore[assignment]
        say(self, change)
        self.lanes.of[change.instance] = lane
        assert own is self.host.own

    patch.setattr(Switching, "_say_reached", silent)


class _Deaf:
    def __init__(self, lane: Any) -> None:
        self.lane = lane

    def submit(self, batch: Batch, now: int) -> None:
        if batch.number is None:
            self.lane.submit(batch, now)


def unsure_stays(patch: Patch) -> None:
    """A component that cannot know what others do goes on with the old orderer."""

    def sure(*args: Any) -> Ending:
        ending = decide(*args)
        return Ending.STAY if ending is Ending.UNSURE else ending

    patch.setattr(switching, "decide", sure)


def known_is_cut(patch: Patch) -> None:
    """A component goes on behind the cut as soon as one of its members has reached it."""

    def rash(count: int, present: frozenset[int], reached: Any, known: Any, disjoint: bool) -> Ending:
        ending = decide(count, present, reached, known, disjoint)
        return Ending.CUT if present <= set(reached) and not disjoint else ending

    patch.setattr(switching, "decide", rash)


SWITCHING_MUTANTS = [
    Mutant("no_null_flag", no_null_flag, ("liveness",), ALL),
    Mutant("marks_forgotten", marks_forgotten, ("duplication", "switching"), ALL),
    Mutant("new_before_old", new_before_old, ORDER, ALL),
    Mutant(
        "cut_before_stability", cut_before_stability, ("switching", "duplication", *TOTAL, "virtual_synchrony"), ALL, first=56
    ),
    Mutant(
        "early_records_dropped", early_records_dropped, ("liveness", "switching", "virtual_synchrony", "agreement"), ALL, first=16
    ),
    Mutant("second_copy_numbered", second_copy_numbered, ("reliable_fifo", "switching", "validity"), ALL),
    Mutant("not_sent_again", not_sent_again, ("switching", "validity"), ALL, first=31),
    Mutant("unsure_stays", unsure_stays, ORDER, ALL),
    Mutant("known_is_cut", known_is_cut, ORDER, ALL, first=9),
]
