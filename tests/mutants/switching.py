"""Deliberate faults of switching: each breaks one rule of the algorithm (paper 004, `protocol/switching`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotone.protocol.ordering.orderer import Batch
from isotone.protocol.switching import switching
from isotone.protocol.switching.change import Change
from isotone.protocol.switching.channel import Channel
from isotone.protocol.switching.control import Arrivals, Flag, Ids, Told, batch_of
from isotone.protocol.switching.ending import Ending, decide
from isotone.protocol.switching.lanes import Lanes
from isotone.protocol.switching.switching import Switching
from tests.mutants.mutants import TOTAL, Mutant, Patch
from tests.protocol.bag import Bag
from tests.protocol.switch_schedules import (
    early_where_the_cut_is_not_passed,
    early_where_the_cut_is_passed,
    one_does_not_hear_the_last_word,
)

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
    """A component goes on behind the cut as soon as its members are willing."""

    def rash(count: int, present: frozenset[int], willing: Any, bound: Any, disjoint: bool) -> Ending:
        ending = decide(count, present, willing, bound, disjoint)
        return Ending.CUT if present <= set(willing) and not disjoint else ending

    patch.setattr(switching, "decide", rash)


def flags_do_not_bind(patch: Patch) -> None:
    """One round: a component stays if one of its members has not reached the cut, though all have flagged."""
    patch.setattr(Arrivals, "standing", lambda self, quick: (self.reached.keys(), self.reached.keys() if quick else self.known))


def progress_not_told(patch: Patch) -> None:
    """Members that are not sure do not tell each other what they have delivered."""
    patch.setattr(Switching, "freeze", lambda self, now: [0] * self.count)


def goes_on_while_the_view_ends(patch: Patch) -> None:
    """What the old orderer delivers goes up before it is known how the view ends."""
    patch.setattr(Switching, "_holds_back", lambda self, change: change.reached and (change.said or not self.host.frozen))


def missing_words_are_no_marks(patch: Patch) -> None:
    """A view ends behind the cut without the word of a member: what it has sent is taken to be new."""
    pass_ = Switching._pass

    def forgetful(self: Switching, change: Change) -> None:
        self.admitted = [0] * self.count
        pass_(self, change)

    patch.setattr(Switching, "_pass", forgetful)


def marks_told_early(patch: Patch) -> None:
    """What the old orderer has delivered of the own messages is told as it was when the switch began, not as it is at the cut."""
    begin, say = Switching._begin, Switching._say
    then: dict[int, list[int]] = {}

    def remember(self: Switching, told: Arrivals) -> bool:
        begun = begin(self, told)
        own, end = self.host.own, self.host.next_number
        then[id(self)] = [1, min(own, default=end), end, 0]
        return begun

    def tell(self: Switching, instance: int, stamp: list[int]) -> None:
        change = self.change
        early = change is not None and change.strategy in ("dual", "dual_ids") and stamp[0] == 1 and not stamp[3]
        say(self, instance, then.get(id(self), stamp) if early else stamp)

    patch.setattr(Switching, "_begin", remember)
    patch.setattr(Switching, "_say", tell)


def marks_reset_early(patch: Patch) -> None:
    """The marks are forgotten with the first message behind the cut."""
    admit = Switching._admit

    def forget(self: Switching, *args: Any) -> None:
        admit(self, *args)
        if self.current:
            self.ends = [0] * self.count

    patch.setattr(Switching, "_admit", forget)


def nobody_is_asked(patch: Patch) -> None:
    """Who wishes a switch takes it as granted."""

    def at_once(self: Switching, switch: Any, now: int) -> None:
        self.now = now
        if self.change is None and self.wishes.own is None:
            self.wishes.own = switch
            self._flag(self.current + 1, Flag(self.rank, switch))

    begin = Switching._begin

    def flagged(self: Switching, told: Arrivals) -> bool:
        before = self.rank in told.flagged
        begun = begin(self, told)
        if begun and self.change is not None and before:
            self.change.flagged = True
        return begun

    patch.setattr(Switching, "ask", at_once)
    patch.setattr(Switching, "_begin", flagged)


def second_request_taken(patch: Patch) -> None:
    """Who has asked for something else takes that instead of what was granted."""
    begin = Switching._begin

    def mine(self: Switching, told: Arrivals) -> bool:
        own = self.wishes.own
        if told.granted is not None and own is not None and told.granted[1].strategy != "stop" != own.strategy:
            told.granted = self.rank, own
        return begin(self, told)

    patch.setattr(Switching, "_begin", mine)


def known_not_waited_for(patch: Patch) -> None:
    """A member passes the cut when all have reached it, whether they know that or not."""
    take = Arrivals.take

    def all_know(self: Arrivals, sender: int, cast: Any) -> None:
        if sender in self.reached:
            self.known.add(sender)
        else:
            take(self, sender, cast)
            self.known |= self.reached.keys()

    patch.setattr(Arrivals, "take", all_know)


def old_orderer_forgotten_at_the_cut(patch: Patch) -> None:
    """Who has reached the cut takes no part in the old order any more."""
    say = Switching._say_reached

    def deaf(self: Switching, change: Change) -> None:
        say(self, change)
        self.lanes.of[self.current] = _Silent(self.lanes.of[self.current])  # type: ignore[assignment]

    patch.setattr(Switching, "_say_reached", deaf)


class _Silent:
    """An orderer that listens, and says nothing."""

    def __init__(self, lane: Any) -> None:
        self.lane = lane

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lane, name)

    def turn(self, now: int) -> None:
        pass

    def wake(self, now: int) -> None:
        pass

    def accept(self, sender: int, casts: Any, now: int) -> None:
        pass

    def direct(self, sender: int, record: Any, now: int) -> None:
        pass

    def deadline(self) -> None:
        return None


def ids_before_payloads(patch: Patch) -> None:
    """`dual_ids`: the numbers go through the old orderer before the messages go through the new one."""
    submit = Switching.submit

    def reverse(self: Switching, batch: Batch, now: int) -> None:
        self.now = now
        while self.change is not None and self._step():
            pass
        change = self.change
        if change is not None and change.strategy == "dual_ids":
            self.lane.submit(batch_of(Ids(self.host.next_number, len(batch.payloads))), now)
            self.lanes.of[change.instance].submit(batch, now)
        else:
            submit(self, batch, now)

    patch.setattr(Switching, "submit", reverse)


def majority_does_not_send_again(patch: Patch) -> None:
    """The rule `majority`: a member whose flag came too late leaves it at that."""
    say = Switching._say_reached

    def as_if_flagged(self: Switching, change: Change) -> None:
        late = change.switch.rule == "majority" and self.rank not in self.flags
        if late:
            self.flags.add(self.rank)
        say(self, change)

    patch.setattr(Switching, "_say_reached", as_if_flagged)


def first_copy_counts(patch: Patch) -> None:
    """The rule `majority`: what is sent again is delivered where its first copy is."""

    def anywhere(self: Told, number: int, seq: int) -> bool:
        return number < self.first or any(self.ranges[i] <= number < self.ranges[i + 1] for i in range(0, len(self.ranges), 2))

    patch.setattr(Told, "repeats", anywhere)


def stop_does_not_stop(patch: Patch) -> None:
    """`stop`: a member goes on sending through the old orderer after its flag."""
    submit = Switching.submit

    def go_on(self: Switching, batch: Batch, now: int) -> None:
        if self.change is not None and self.change.strategy == "stop":
            self.lane.submit(batch, now)
        else:
            submit(self, batch, now)

    patch.setattr(Switching, "stopped", property(lambda self: False))
    patch.setattr(Switching, "submit", go_on)


def positions_without_instance(patch: Patch) -> None:
    """The new orderer's positions begin where the old one's began."""
    deliver = Channel.deliver

    def bare(self: Channel, sender: int, cast: Any, position: Any, evidence: Any = None) -> None:
        instance, self.instance = self.instance, 0
        sink = self._sink
        self._sink = lambda _, *rest: sink(instance, *rest)
        deliver(self, sender, cast, position, evidence)
        self.instance, self._sink = instance, sink

    patch.setattr(Channel, "deliver", bare)


def level_without_proof(patch: Patch) -> None:
    """Above `agreed`: what is behind the cut waits for its own casts alone, not for those that tell that the cut was passed."""
    admit = Switching._admit

    def unproven(self: Switching, *args: Any) -> None:
        self.proof = ()
        admit(self, *args)

    patch.setattr(Switching, "_admit", unproven)


def early_before_the_cut(patch: Patch) -> None:
    """What others delivered from behind a gap goes up before the cut is passed."""
    patch.setattr(Switching, "delivered_early", lambda self, instance, sender, cast: self.host.deliver_early(sender, cast))


def early_in_a_switch(patch: Patch) -> None:
    """Casts from behind a gap go on to be taken while a switch is under way."""
    patch.setattr(Switching, "early", lambda self, sender, casts, now: self.lanes.early(sender, casts, now))


SWITCHING_MUTANTS = [
    Mutant("flags_ignored", flags_ignored, ("switching", "validity"), ALL, first=71),
    Mutant("marks_told_early", marks_told_early, ("duplication", "switching"), ALL),
    Mutant("marks_reset_early", marks_reset_early, ("duplication", "switching"), ALL, first=71),
    Mutant("nobody_is_asked", nobody_is_asked, ("liveness", *ORDER), ALL),
    Mutant("second_request_taken", second_request_taken, ("liveness", *ORDER), ALL),
    Mutant("old_orderer_forgotten_at_the_cut", old_orderer_forgotten_at_the_cut, ("liveness",), ALL, first=71),
    Mutant("ids_before_payloads", ids_before_payloads, ("switching", "validity", "liveness"), ALL, first=56),
    Mutant("majority_does_not_send_again", majority_does_not_send_again, ("switching", "validity"), ALL, first=972),
    Mutant("first_copy_counts", first_copy_counts, ("duplication", "reliable_fifo", *ORDER), ALL, first=71),
    Mutant("stop_does_not_stop", stop_does_not_stop, ("switching", "validity"), ALL, first=56),
    Mutant("positions_without_instance", positions_without_instance, ORDER, ALL),
    Mutant("no_null_flag", no_null_flag, ("liveness",), ALL),
    Mutant("marks_forgotten", marks_forgotten, ("duplication", "switching"), ALL),
    Mutant("new_before_old", new_before_old, ORDER, ALL),
    Mutant(
        "early_records_dropped", early_records_dropped, ("liveness", "switching", "virtual_synchrony", "agreement"), ALL, first=16
    ),
    Mutant("second_copy_numbered", second_copy_numbered, ("reliable_fifo", "switching", "validity"), ALL),
    Mutant("not_sent_again", not_sent_again, ("switching", "validity"), ALL, first=31),
]

STORM_MUTANTS = [
    Mutant("cut_before_stability", cut_before_stability, ("switching", "duplication"), first=39),
    Mutant("known_not_waited_for", known_not_waited_for, ORDER, first=274),
    Mutant("unsure_stays", unsure_stays, ORDER, first=57),
    Mutant("known_is_cut", known_is_cut, ("agreement", "virtual_synchrony"), first=21),
    Mutant("flags_do_not_bind", flags_do_not_bind, ORDER, first=455),
    Mutant("progress_not_told", progress_not_told, ("virtual_synchrony",), first=62),
    Mutant("goes_on_while_the_view_ends", goes_on_while_the_view_ends, ("virtual_synchrony",), first=143),
    Mutant("missing_words_are_no_marks", missing_words_are_no_marks, ("duplication",), first=209),
]
"""Faults that take a view that ends right at the cut: shown by `storm`, the seed to begin with is one of its."""

DIRECTED_SWITCHING_MUTANTS: list[tuple[Mutant, Callable[[], Bag]]] = [
    (
        Mutant("level_without_proof", level_without_proof, ("uniform",)),
        lambda: one_does_not_hear_the_last_word("single_phase", "sequencer"),
    ),
    (
        Mutant("early_before_the_cut", early_before_the_cut, ("switching",)),
        lambda: early_where_the_cut_is_passed("semantic_fifo"),
    ),
    (
        Mutant("early_in_a_switch", early_in_a_switch, ("virtual_synchrony",)),
        lambda: early_where_the_cut_is_not_passed("semantic_causal"),
    ),
]
"""Faults that take an instant too rare for the swarm, and the schedule that has it."""
