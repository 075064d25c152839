"""Switching: the orderers of one view, one after another (paper 004 §3, §5, §6; PROTOCOLS §8).

A view begins with one orderer, instance 0. With the first sign of a switch this wrapper takes its place. A switch from
instance A to B = A + 1 goes like this:

1. A member multicasts a *request* through A. A's order says which of two requests is first; the second is refused.
2. Where A delivers the request, a member starts B and sends through both from there on, B first. What comes of B before that
   is kept. It sends a *flag* through A, a cast of its own, before its next message.
3. A's deliveries go up, B's are kept in B's order. The *cut* is the place in A's order where the last flag is. What A
   delivers after it is kept too.
4. Where A delivers the cut, a member says in a cast that it has *reached* it, and which of its own messages A has delivered
   by then. When all have reached it, it says that it *knows*; when all know, it passes: it forgets A with all that is kept
   of it, and hands up what B has kept, without the messages that A has delivered. From there on it sends through B alone.

Strategies: `dual` sends the messages twice. `dual_ids` sends them in B and their numbers in A; since the cast of B comes
first in the sender's stream, whoever has the numbers has the messages, and a level counts them. `rabp` cuts at the request:
own messages that A has not delivered there are sent again through B. `stop` sends nothing after the flag until the cut is
passed; it is the only way from and to orders that are not total, where of several requests the one of the smallest rank
counts. The rule `majority` cuts where the flags of a majority are; the others send what A has not delivered by then again.

To know that all have reached the cut takes one delay more than stability, and protects those who are cut off without having
heard of the switch (`ending`, which also says what happens when the view ends in between). In `stop` no message is in both,
and to have reached the cut is enough.

Invariants: `kept` has what the next delivered, `rest`
what the current one delivered behind the cut, each in its order; nothing goes up between the cut and its passing; a message
has one number, given by its first multicast, and is traced as sent once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from isotone.model.errors import ConfigError
from isotone.model.records import Cast, Direct
from isotone.model.switch import Switch, check_names
from isotone.model.view import View
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.orderer import Batch, Evidence, Orderer
from isotone.protocol.switching.change import Change, Host
from isotone.protocol.switching.channel import BITS, KINDS, Position
from isotone.protocol.switching.control import (
    KNOWN,
    READY,
    Arrivals,
    Flag,
    Ids,
    Request,
    batch_of,
    control_of,
    reached,
    ready_kind,
)
from isotone.protocol.switching.ending import Ending, decide
from isotone.protocol.switching.lanes import Lanes

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
        self.asked: Switch | None = None  # the own request, until it is granted or refused
        self.kept: deque[Entry] = deque()
        self.rest: deque[Entry] = deque()
        self.staying = False  # the view ends with the current orderer
        self.behind = [0] * self.count  # messages of each sender that it delivers behind the cut
        self.past = Arrivals()  # what was told of the last cut that was passed
        self.proof: Evidence = ()  # who holds this passes it too; until a message has gone up that it is evidence for
        self.ends = [0] * self.count  # messages below were sent before it
        self.now = 0

    # What the view asks of any orderer

    @property
    def packets(self) -> dict[int, str]:  # type: ignore[override]
        names: dict[int, str] = {}
        for instance, lane in self.lanes.of.items():
            names |= {instance << BITS | kind: name for kind, name in lane.packets.items()}
            names[ready_kind(instance)] = "switch"
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
        if type(record) is Cast and record.payloads:
            return instance + 1
        return instance if record.kind & KINDS == READY or instance > self.current else 0

    def submit(self, batch: Batch, now: int) -> None:
        self.now = now
        self._act()
        change = self.change
        if change is None:
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
        has reached it, and has the lane.
        """
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

    # Asking

    def ask(self, switch: Switch, now: int) -> None:
        """This member wants a switch."""
        self.now = now
        if self.change is not None or self.asked is not None:
            self.host.refused(switch, "another switch is under way")
            return
        self.asked = switch
        self.lane.submit(batch_of(Request(switch)), now)

    def _refuse(self, sender: int, reason: str) -> None:
        if sender == self.rank and self.asked is not None:
            switch, self.asked = self.asked, None
            self.host.refused(switch, reason)

    def _fault(self, switch: Switch) -> str | None:
        """Why a request cannot be granted; the same for every member that runs this instance."""
        try:
            registry.validate(switch.ordering)
            check_names(switch.strategy, switch.rule)
        except ConfigError as error:
            return str(error)
        if registry.find(switch.ordering.order).semantic and switch.ordering.relation != self.host.relation:
            return f"{switch.ordering.order} with another conflict relation than the group's"
        if switch.ordering == self.ordering and not switch.fresh:
            return f"{switch.ordering.order} is in force already"
        if switch.strategy != "stop":
            for order in (self.ordering.order, switch.ordering.order):
                if not registry.find(order).total:
                    return f"{order} is not a total order: only the strategy stop can switch from or to it"
        return None

    # What the orderers deliver

    def delivered(self, instance: int, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        """An orderer says what is next in its order."""
        change = self.change
        if instance > self.current:
            self.kept.append((sender, cast, position, evidence))
        elif instance < self.current:
            return
        elif self.rest or (change is not None and change.reached and not self.staying and (change.said or not self.host.frozen)):
            self.rest.append((sender, cast, position, evidence))
        elif not cast.number:
            self._control(sender, cast, position, evidence)
        elif cast.number >= self.ends[sender] or not self.past.reached[sender].repeats(cast.number, cast.seq):
            self._admit(sender, cast, position, evidence)

    def delivered_early(self, instance: int, sender: int, cast: Cast) -> bool:
        """As `delivered`, for a cast that came from behind a gap; False if it has to wait for its place after all."""
        if instance > self.current:  # the view ends, and the cut is about to be passed
            self.kept.append((sender, cast, None, None))
            return True
        return self.host.deliver_early(sender, cast)

    def _admit(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        if self.change is not None and self.change.reached:
            self.behind[sender] += len(cast.payloads)
        if self.proof:  # above `agreed`, all that follows waits behind this message
            evidence, self.proof = (*(evidence or ()), *self.proof), ()
        self.host.admit(sender, cast, position, evidence)

    def _control(self, sender: int, cast: Cast, position: Position | None, evidence: Evidence | None) -> None:
        control = control_of(cast)
        change = self.change
        if isinstance(control, Request):
            self._requested(sender, control.switch)
        elif isinstance(control, Flag):
            self.flags.add(sender)  # where the order is not causal it can come before the request that it answers
            self._look_for_cut()
        elif isinstance(control, Ids) and change is not None:
            message = (
                self.host.own.get(control.first) if sender == self.rank else self.lanes.payloads[sender].pop(control.first, None)
            )
            if message is not None and len(message.payloads) == control.count:
                self._admit(sender, message, position, (*(evidence or ()), sender, cast.seq))
            else:
                self.lanes.broken[sender] = f"rank {sender} names messages that it did not send"
        else:
            self.lanes.broken[sender] = f"rank {sender} says something about a switch that nobody says"

    def _requested(self, sender: int, switch: Switch) -> None:
        fault = self._fault(switch)
        change = self.change
        if fault is not None:
            self._refuse(sender, fault)
        elif change is None:
            change = self.change = Change(self.current + 1, sender, switch)
            self.host.phase(switch, change.instance, "request")
            if change.strategy != "stop":
                self.lanes.start(change.instance, change.switch.ordering, self.now)
            self._look_for_cut()
        elif not registry.find(self.ordering.order).total:
            change.requests[sender] = switch
        else:
            self._refuse(sender, "another switch came first")

    def _look_for_cut(self) -> None:
        change = self.change
        if change is None or change.reached:
            return
        need = self.count if change.switch.rule == "all" or change.strategy == "stop" else self.count // 2 + 1
        if len(self.flags) >= need:
            change.reached = True
            if change.strategy == "stop":
                change.asker = min(change.requests)
                change.switch = change.requests[change.asker]
                for other in change.requests.keys() - {change.asker}:
                    self._refuse(other, "another switch came first")
                self.lanes.start(change.instance, change.switch.ordering, self.now)

    # What this member does in a switch

    def _act(self) -> bool:
        """Send the flag, say what is to be said, pass the cut: as far as that goes now. Whether there was anything to do."""
        acted = False
        while (change := self.change) is not None:
            told = self.lanes.arrivals(change.instance)
            if not change.flagged:
                change.flagged = True
                self.lane.submit(batch_of(Flag()), self.now)
            elif change.reached and not change.said:
                self._say_reached(change)
            elif not change.said or len(told.reached) < self.count:
                return acted
            elif change.strategy != "stop" and not change.knows:
                change.knows = True
                self._say(change, KNOWN)
            elif change.strategy == "stop" or len(told.known) == self.count:
                self._pass(change)
            else:
                return acted
            acted = True
        return acted

    def _say(self, change: Change, stamp: list[int]) -> None:
        self.lanes.arrivals(change.instance).take(self.rank, self.host.multicast(ready_kind(change.instance), stamp, None))

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
        self._say(change, reached(first, end, again, ranges))
        if again:
            for number, cast in sorted(own.items()):
                size = sum(map(len, cast.payloads))
                batch = Batch(cast.payloads, cast.types, cast.items, size, number)
                self.lanes.of[change.instance].submit(batch, self.now)

    def _pass(self, change: Change) -> None:
        """From here on the next instance is in force."""
        if self.asked is not None and change.asker != self.rank:
            self._refuse(self.rank, "another switch came first")
        self.asked = None
        self.host.passed(change.switch, change.instance)
        self.past = self.lanes.move_on()
        self.proof = tuple(value for place in sorted(self.past.last.items()) for value in place)
        self.ends = [self.past.reached[rank].end if rank in self.past.reached else 0 for rank in range(self.count)]
        self.ordering = change.switch.ordering
        self.change = None
        self.flags.clear()
        self.rest.clear()
        kept, self.kept = self.kept, deque()
        for entry in kept:
            self.delivered(self.current, *entry)

    # The end of the view

    def freeze(self, now: int) -> list[int]:
        reports = [lane.freeze(now) for lane in self.lanes.of.values()]
        return reports[0]

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        self.now = now
        self.lanes.all_arrived(now)
        while True:
            change, told = self.change, self.lanes.arrivals(self.current + 1)
            disjoint = change is not None and change.strategy == "stop"
            ending = decide(self.count, present, told.reached.keys(), told.known, disjoint)
            if ending is not Ending.CUT or change is None:
                break
            self.host.note("switches_cut_at_the_end")
            self._pass(change)
        if ending is Ending.STAY:
            self._stay(present)
        else:
            self.host.note("switches_unsure_at_the_end")
        return [cast for _, cast in sorted(self.host.own.items())]

    def _stay(self, present: frozenset[int]) -> None:
        """Deliver everything by the current orderer; and after it what `rabp` sent through the next one alone."""
        self.staying = True
        rest, self.rest = self.rest, deque()
        for entry in rest:
            self.delivered(self.current, *entry)
        self.lane.conclude(present, self.now)
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
