"""Switching: the orderers of one view, one after another (paper 004 §3, §5, §6; PROTOCOLS §8).

A view begins with one orderer, instance 0. With the first sign of a switch this wrapper takes its place. A switch from
instance A to B = A + 1 goes like this:

1. A member that wishes it tells the first member of the view, which grants one wish at a time. So all agree which of two came
   first; the second is refused. It grants it by its *flag*, a cast of its own through A that says what is granted.
2. Who gets the flag of anybody, long before A delivers it, starts B and sends through both from there on, B first; its own flag
   goes before that. What came of B before is kept.
3. A's deliveries go up, B's are kept in B's order. The *cut* is the place in A's order where the last flag is. What A
   delivers after it is kept too.
4. Where A delivers the cut, a member says in a cast that it has *reached* it, and which of its own messages A has delivered
   by then. When all have reached it, it passes: it forgets A with all that is kept of it, and hands up what B has kept, without
   the messages that A has delivered. From there on it sends through B alone.

Strategies: `dual` sends the messages twice. `dual_ids` sends them in B and their numbers in A; since the cast of B comes
first in the sender's stream, whoever has the numbers has the messages, and a level counts them. `rabp` cuts at the flag of the
first member, the only one: own messages that A has not delivered there are sent again through B. `stop` sends nothing after the
flag until the cut is passed; it is the only way from and to orders that are not total. The rule `majority` cuts where the flags
of a majority are; the others send what A has not delivered by then again.

`rabp`, `majority`, semantic orders and levels above `agreed` take a round more: who has heard that all have reached the cut says
that it *knows*, and passes when all know. That protects those who are cut off in the middle (`ending`, which also says what
happens when the view ends then). In `stop` no message is in both, and to have reached the cut is enough.

Invariants: `kept` has what the next delivered, `rest` what the current one delivered where it must not go up yet, each in its
order; nothing goes up between the cut and its passing; a message has one number, given by its first multicast, and is traced as
sent once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import require
from isotone.model.records import Cast, Direct
from isotone.model.switch import Switch
from isotone.model.view import View
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.switching.change import Change, Host
from isotone.protocol.switching.channel import BITS, KINDS, Position
from isotone.protocol.switching.control import (
    FIRST,
    KNOWN,
    READY,
    Arrivals,
    Flag,
    Ids,
    Told,
    batch_of,
    control_of,
    reached,
    ready_kind,
)
from isotone.protocol.switching.ending import Ending, decide
from isotone.protocol.switching.lanes import Lanes
from isotone.protocol.switching.wishes import Wishes, fault

Entry = tuple[int, Cast, Position | None, Evidence | None]


class Switching(Orderer):
    """The orderers of a view. It is made from the one that the view began with."""

    name = "switching"

    def __init__(self, host: Host, view: View, rank: int, seed: int, first: Orderer) -> None:
        super().__init__(host, view, rank, seed)
        self.host = host
        self.ordering = view.ordering
        self.lanes = Lanes(host, view, rank, seed, first, self.delivered, self.delivered_early)
        self.change: Change | None = None
        self.flags: set[int] = set()  # who has flagged the switch under way
        self.wishes = Wishes(host, rank, view.members[FIRST])
        self.kept: deque[Entry] = deque()
        self.rest: deque[Entry] = deque()
        self.staying = False  # the view ends with the current orderer
        self.farthest: list[int] = []  # when the view ends: so many casts of each sender one of those here has delivered
        self.most: list[int] = []  # of each sender no more than these are delivered then; empty for no bound
        self.behind = [0] * self.count  # messages of each sender that it delivers behind the cut
        self.admitted = [0] * self.count  # the number behind the last message of each sender that went up
        self.past = Arrivals()  # what was told of the last cut that was passed
        self.proof: Evidence = ()  # what was said about a switch before the next message that goes up, which it is evidence for
        self.ends = [0] * self.count  # messages below were sent before it
        self.now = 0

    # What the view asks of any orderer

    @property
    def packets(self) -> dict[int, str]:  # type: ignore[override]
        names: dict[int, str] = {}
        for instance, lane in self.lanes.of.items():
            names |= {instance << BITS | kind: name for kind, name in lane.packets.items()}
        names[ready_kind(self.current + 1)] = "switch"
        return names

    @property
    def current(self) -> int:
        """The instance in force."""
        return self.lanes.current

    @property
    def lane(self) -> Orderer:
        """The orderer in force."""
        return self.lanes.of[self.lanes.current]

    @property
    def proves(self) -> bool:
        return self.lane.proves

    @property
    def core(self) -> tuple[int, ...]:
        return self.lane.core

    @property
    def stopped(self) -> bool:
        """Whether nothing may be submitted now."""
        return self.change is not None and self.change.strategy == "stop"

    @property
    def wanted(self) -> tuple[Switch | None, int]:
        """The switch under way, and how many there were in this view, it included."""
        change = self.change
        return (change.switch, change.instance) if change is not None else (None, self.current)

    def costs(self, record: Cast | Direct) -> int:
        """The instance whose switch a control record is sent for; 0 for one that would be sent without a switch too.

        What is said about a switch is, and so are the records of an orderer that is not in force yet.
        """
        instance = record.kind >> BITS
        if record.kind & KINDS == READY:
            return instance
        if type(record) is Cast and record.payloads:
            return instance + 1
        return instance if instance > self.current else 0

    def submit(self, batch: Batch, now: int) -> None:
        self.now = now
        while self.change is not None and self._step():  # the flag goes before
            pass
        change = self.change
        if change is None or (change.strategy == "rabp" and not change.reached):
            self.lane.submit(batch, now)
            return
        number = self.host.next_number
        self.lanes.of[change.instance].submit(batch, now)
        end = self.host.next_number
        while number < end:  # one cast after another: the next orderer may have parted the batch
            cast = self.host.own[number]
            if change.strategy == "dual":
                size = sum(map(len, cast.payloads))
                self.lane.submit(Batch(cast.payloads, cast.types, cast.items, size, number), now)
            elif change.strategy == "dual_ids":
                self.lane.submit(batch_of(Ids(number, len(cast.payloads))), now)
            number += len(cast.payloads)

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        self.now = now
        self.lanes.accept(sender, casts, now)

    @property
    def takes_early(self) -> bool:  # type: ignore[override]
        return any(lane.takes_early for lane in self.lanes.of.values())

    def early(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        """Casts from behind a gap. While a switch is under way all wait for their place.

        At the end of a view they are those that somebody has delivered, who had passed the cut before them: then everybody here
        has reached it, and has the lane. What was fetched comes before them, and may be the first of its instance.
        """
        if self.host.frozen:
            self.lanes.all_arrived(now)
        if self.change is None or self.host.frozen:
            self.lanes.early(sender, casts, now)

    def arrived(self, sender: int, seq: int) -> None:
        """The sender's own link has come to a cast that was fetched."""
        self.lanes.arrived(sender, seq, self.now)

    def direct(self, sender: int, record: Direct, now: int) -> None:
        self.now = now
        self.lanes.direct(sender, record, now)

    def turn(self, now: int) -> None:
        self.now = now
        acted = True
        while acted:
            for lane in tuple(self.lanes.of.values()):  # what one of them delivers may start another
                lane.turn(now)
            acted = self._act()

    def suspect(self, peer: int, level: str, now: int) -> None:
        for lane in self.lanes.of.values():
            lane.suspect(peer, level, now)

    def trust(self, peer: int, level: str, now: int) -> None:
        for lane in self.lanes.of.values():
            lane.trust(peer, level, now)

    def deadline(self) -> int | None:
        return min((at for lane in self.lanes.of.values() if (at := lane.deadline()) is not None), default=None)

    def wake(self, now: int) -> None:
        for lane in tuple(self.lanes.of.values()):
            at = lane.deadline()
            if at is not None and at <= now:
                lane.wake(now)

    def ask(self, switch: Switch, now: int) -> None:
        """This member wishes a switch."""
        self.now = now
        if self.change is not None:
            self.host.refused(switch, "another switch is under way")
        else:
            self.wishes.ask(switch, self.ordering, self.lanes.arrivals(self.current + 1), self.current + 1)

    # What the orderers deliver

    def delivered(self, instance: int, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        """An orderer says what is next in its order."""
        change = self.change
        if instance > self.current:
            self.kept.append((sender, cast, position, evidence))
        elif instance < self.current or (self.most and cast.seq > self.most[sender]):
            return
        elif self.rest or (change is not None and not self.staying and self._holds_back(change)):
            self.rest.append((sender, cast, position, evidence))
        elif not cast.number:
            self.host.progress[sender] = cast.seq
            self._control(sender, cast, position, evidence)
        else:
            self.host.progress[sender] = cast.seq
            if cast.number >= self.ends[sender] or not self.past.reached[sender].repeats(cast.number, cast.seq):
                self._admit(sender, cast, position, evidence)

    def _holds_back(self, change: Change) -> bool:
        """Whether what the current orderer delivers must not go up now.

        When the view ends, all but a quick switch stays for sure if this member has not said that it has reached the cut.
        """
        if self.host.frozen:
            return change.quick or (change.reached and change.said)
        return change.reached

    def delivered_early(self, instance: int, sender: int, cast: Cast) -> bool:
        """As `delivered`, for a cast that came from behind a gap; False if it has to wait for its place after all."""
        if instance > self.current:  # the view ends, and the cut is about to be passed
            self.kept.append((sender, cast, None, None))
            return True
        require(not self.rest, "a cast from behind a gap passes others that wait for the end of a switch")
        return self.host.deliver_early(sender, cast)

    def _admit(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        if self.change is not None and self.change.reached:
            self.behind[sender] += len(cast.payloads)
        self.admitted[sender] = cast.number + len(cast.payloads)
        if self.proof:  # above `agreed`, all that follows waits behind this message
            evidence, self.proof = (*(evidence or ()), *self.proof), ()
        self.host.admit(sender, cast, position, evidence)

    def _control(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        control = control_of(cast)
        if isinstance(control, Flag):
            told = self.lanes.arrivals(self.current + 1)
            told.flag(sender, control)
            if self.change is None:
                self._begin(told)  # the cut may be here
            self.flags.add(sender)
            self.proof = (*self.proof, *(evidence or ()), sender, cast.seq)  # what follows may depend on it
            self._look_for_cut()
        elif isinstance(control, Ids) and self.change is not None:
            message = (
                self.host.own.get(control.first) if sender == self.rank else self.lanes.payloads[sender].pop(control.first, None)
            )
            if message is not None and len(message.payloads) == control.count:
                self._admit(sender, message, position, (*(evidence or ()), sender, cast.seq))
            else:
                self.lanes.broken[sender] = f"rank {sender} names messages that it did not send"
        else:
            self.lanes.broken[sender] = f"rank {sender} says something about a switch that nobody says"

    def _look_for_cut(self) -> None:
        change = self.change
        if change is None or change.reached:
            return
        if change.strategy == "rabp":
            change.reached = FIRST in self.flags
        else:
            need = self.count if change.switch.rule == "all" or change.strategy == "stop" else self.count // 2 + 1
            change.reached = len(self.flags) >= need
        if change.reached and change.strategy == "stop":
            self.lanes.start(change.instance, change.switch.ordering, self.now)

    # What this member does in a switch

    def _act(self) -> bool:
        """Grant or begin a switch, send the flag, say what is to be said, pass the cut: as far as that goes now.

        Whether there was anything to do.
        """
        acted = False
        while self._step():
            acted = True
        return acted

    def _step(self) -> bool:
        change, told = self.change, self.lanes.arrivals(self.current + 1)
        if change is None:
            return self._step_before(told)
        if not change.flagged:
            change.flagged = True
            self._flag(change.instance, Flag(change.asker, change.switch))
        elif change.reached and not change.said:
            self._say_reached(change)
        elif not change.said or len(told.reached) < self.count:
            return False
        elif change.one_round or len(told.known) == self.count:
            self._pass(change)
        elif not change.knows:
            change.knows = True
            self._say(change.instance, KNOWN)
        else:
            return False
        return True

    def _step_before(self, told: Arrivals) -> bool:
        """The same while no switch is under way."""
        if self._begin(told):
            return True
        flag = self.wishes.next(self.ordering, told, self.current + 1)
        if flag is None:
            return False
        self._flag(self.current + 1, flag)
        return True

    def _begin(self, told: Arrivals) -> bool:
        """Start what was granted, if anything was and this member can."""
        if told.granted is None or fault(told.granted[1], self.ordering, self.host.relation) is not None:
            return False
        asker, switch = told.granted
        flagged = self.rank == FIRST or switch.strategy == "rabp"
        self.change = Change(self.current + 1, asker, switch, flagged, self._quick(switch))
        self.host.phase(switch, self.current + 1, "request")
        if asker != self.rank:
            self.wishes.refuse("another switch came first")
        if switch.strategy != "stop":
            self.lanes.start(self.current + 1, switch.ordering, self.now)
        self._look_for_cut()
        return True

    def _quick(self, switch: Switch) -> bool:
        """Whether one round is enough, though messages are in both orderers (see `ending`)."""
        plain = self.ordering.level == "agreed" and not registry.find(self.ordering.order).semantic
        return plain and switch.strategy in ("dual", "dual_ids") and switch.rule == "all"

    def _flag(self, instance: int, flag: Flag) -> None:
        self.lanes.arrivals(instance).flag(self.rank, flag)
        self.lane.submit(batch_of(flag), self.now)

    def _say(self, instance: int, stamp: list[int]) -> None:
        self.lanes.arrivals(instance).take(self.rank, self.host.multicast(ready_kind(instance), stamp, None))

    def _say_reached(self, change: Change) -> None:
        """Tell what the current orderer has delivered of the own messages, and send the others again if they are in it alone."""
        change.said = True
        self.host.phase(change.switch, change.instance, "cut")
        own, end = self.host.own, self.host.next_number
        first = place = min(own, default=end)
        ranges: list[int] = []
        for number in sorted(own):
            if number > place:
                ranges += (place, number)
            place = number + len(own[number].payloads)
        if place < end:
            ranges += (place, end)
        again = change.strategy == "rabp" or (change.strategy != "stop" and self.rank not in self.flags)
        self._say(change.instance, reached(first, end, again, ranges))
        if again:
            for number, cast in sorted(own.items()):
                size = sum(map(len, cast.payloads))
                batch = Batch(cast.payloads, cast.types, cast.items, size, number)
                self.lanes.of[change.instance].submit(batch, self.now)

    def _pass(self, change: Change) -> None:
        """From here on the next instance is in force."""
        self.wishes.own = None
        self.host.passed(change.switch, change.instance)
        self.past = self.lanes.move_on()
        for rank in range(self.count):
            if rank not in self.past.reached:  # the view ends without its word: what went up of it is the same for all
                self.past.reached[rank] = Told(0, self.admitted[rank], self.admitted[rank], False, ())
        self.proof = tuple(value for place in sorted(self.past.last.items()) for value in place)
        self.ends = [self.past.reached[rank].end for rank in range(self.count)]
        self.host.progress[:] = [0] * self.count
        self.ordering = change.switch.ordering
        self.change = None
        self.flags.clear()
        self.rest.clear()
        kept, self.kept = self.kept, deque()
        for entry in kept:
            self.delivered(self.current, *entry)

    # The end of the view

    def freeze(self, now: int) -> list[int]:
        for lane in self.lanes.of.values():
            lane.freeze(now)
        return list(self.host.progress) if self.change is not None and self.change.quick else []

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        self.now = now
        self.lanes.all_arrived(now)
        while True:
            told = self.lanes.arrivals(self.current + 1)
            if self.change is None:
                self._begin(told)
            change = self.change
            standing = told.standing(change is not None and change.one_round)
            ending = decide(self.count, present, *standing, change is not None and change.strategy == "stop")
            if ending is not Ending.CUT or change is None:
                break
            self.host.note("switches_cut_at_the_end")
            self._pass(change)
        if ending is Ending.STAY:
            self._stay(present)
        else:
            self.host.note("switches_unsure_at_the_end")
            if change is not None and change.quick:
                require(len(self.farthest) == self.count, "members that are not sure have not told each other how far they are")
                self._finish(present, self.farthest)
        return [cast for _, cast in sorted(self.host.own.items())]

    def _hand_up_rest(self) -> None:
        rest, self.rest = self.rest, deque()
        for entry in rest:
            self.delivered(self.current, *entry)

    def _finish(self, present: frozenset[int], most: list[int]) -> None:
        """End the view with the current orderer: with all that is here, or with so many casts of each sender."""
        self.staying, self.most = True, most
        self._hand_up_rest()
        self.lane.conclude(present, self.now)

    def _stay(self, present: frozenset[int]) -> None:
        """Deliver everything by the current orderer; and after it what `rabp` sent through the next one alone."""
        self._finish(present, [])
        change = self.change
        if change is None:
            return
        self.host.note("switches_ended_by_a_view")
        if change.strategy == "rabp":
            self._stay_behind(change, present)

    def _stay_behind(self, change: Change, present: frozenset[int]) -> None:
        """A sender's messages that were never sent through the current orderer follow, if all before them are delivered.

        Only of members that end the view here: what they had delivered before, everybody here has delivered too.
        """
        reached_ = self.lanes.arrivals(change.instance).reached
        whole = {rank for rank in present & reached_.keys() if self.behind[rank] == reached_[rank].open}
        self.lanes.of[change.instance].conclude(present, self.now)
        own = [entry for entry in self.kept if entry[0] in whole and entry[1].number >= reached_[entry[0]].end]
        if own:
            self.host.passed(change.switch, change.instance)
            for entry in own:
                self.host.admit(*entry)
