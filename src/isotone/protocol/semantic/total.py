"""`semantic_total`: conflicting messages in one total and causal order, others as soon as possible (papers 002 and 003).

The order is that of `single_phase`: one logical clock for all messages whatever they are, keys (timestamp, site),
acknowledgements by Protocol 2. Only what holds a cast m back is less. It is delivered when

(a) everything that its sender had received before it is here (stamps say so as differences, like those of `causal`),
(b) no cast is here, undelivered, that conflicts with it and has a smaller key,
(c) every other site j is past it: Definition 8 holds for j's clock, or j has a lead (see `leads`) that reaches m's timestamp
    and covers m, or a truce (see `truces`) that reaches it and spares m, or m is free, j is tame, and j's clock is in the block
    of m's timestamp or a later one.

Free casts conflict with nothing but wild ones (see `shapes`). Timestamps are parted into blocks; a site is tame until it sends
its first wild cast, for which it goes to the next block. So all members promise from the start what free casts need.

In *plain* times, while no promise lies ahead of what its giver has said, (a), (b) and (c) are Definition 8, and nobody looks at
what a cast is but to see that it is one of this group (see `passing`). They end before anybody gives a promise or follows one,
and begin again when nothing waits.

A turn delivers and acknowledges. What serves later casts, learning and promises, waits for a turn of its own (see `leads`).

A site acknowledges as in `single_phase`, at once if somebody may wait for that, otherwise when it has handed over what came. So
the next cast that conflicts finds the clocks where they would be there. With the same clocks it is delivered no later, since
Definition 8 implies (a), (b) and (c). Only what jumps over a promise may be. A batch may be parted into several casts (see
`shapes`), a large one only while nothing of its sender waits.

Why it is right: conflicting casts are delivered in the order of their keys wherever both are. Let x conflict with m, have the
smaller key, and come to a process that has delivered m. If (c) held for x's site j by its clock, x had come before, since streams
are FIFO and stamps exceed every clock said before; or x is quiet, and then m is wild, so in a later block than x, and j had said
at least the last clock of the first block, with which nobody is quiet. If it held by a lead, x comes after the lead in its stream
with a timestamp within it, so its shape is one of the lead's, or free and m not wild: it does not conflict with m. If by a truce,
x comes after that and within it: it does not conflict with m's shape. If m is free, x is wild, and the first such of j: its block
is after that of every clock that j said before, and so after m's. So x had come, and (b) let it go first. Keys of casts that
conflict respect causality, also through messages that conflict with neither of two: there is one clock, all casts say it, and
receiving moves it. Among quiet casts, which share a timestamp, keys say nothing of causality.

A cast's position is (timestamp, site); that of a free one of the first block (timestamp, N · its number + its site), behind all
others of that timestamp, since quiet ones share it.

Invariants: whether (a) holds for a cast depends on the casts that are here alone, and nobody delivers one without it, in a
view or at its end; so members with the same casts end a view alike. Above the level `agreed` what (a) asks for is evidence: who
holds a cast that was delivered as safe must be able to deliver it. Positions need not increase where messages passed.
"""

from __future__ import annotations

from heapq import heappop

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Direct
from isotone.model.view import View
from isotone.protocol.ordering.clocks import ACK, CATCH_UP_NS
from isotone.protocol.ordering.orderer import Outbox
from isotone.protocol.semantic.casting import Casting
from isotone.protocol.semantic.truces import NAMES_MAX

_LEAD = 2
_TRUCE = 3
STUDY_NS = 2_000_000


class SemanticTotal(Casting):
    """A cast's stamp is [timestamp, *casts received]; an acknowledgement's [clock].

    A lead's is [clock, end, *numbers of shapes], a truce's [clock, end, *(site, number of a shape in its stream)].
    """

    name = "semantic_total"
    semantic = True
    looks = True
    packets = {ACK: "ack", _LEAD: "lead", _TRUCE: "truce"}  # noqa: RUF012
    __slots__ = ("at_leisure", "crowd", "crowded", "study_at")

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.at_leisure = False  # the next turn was made by the deadline for learning
        self.study_at: int | None = None
        self.crowd = 0  # the mean of what waits over the last turns, times 32; one that waits alone counts in a crowd only
        self.crowded = False  # whether it was large, and has not become small since

    # Turns

    def turn(self, now: int) -> None:
        """Deliver what can be, and say what somebody waits for.

        Few calls: in a quiet group every function that a turn finds cold costs as much as its work. So what can wait until a cast
        has gone its way everywhere is done in a later turn (see `_study`).
        """
        waits = self.undelivered
        if waits and self.news:
            if self.plain:
                self.news = False
                self.horizon = past = min(self.next_keys)
                heap = self.heap
                while heap and heap[0][0] < past:
                    _, sender, cast = heappop(heap)
                    self._deliver(sender, cast)
            else:
                self.advance()
        if self.idle:
            return
        leader, clock = self.leader, self.lcv[self.rank]
        if waits > 1 or self.crowd > 31:
            self._look_at_crowd()
        if self.at_leisure and self.mrmt < self.must:
            self.at_leisure = False  # somebody waits for this turn: another time
        if self.at_leisure or len(self.log) >= leader.most:
            self._study(clock)
        elif self.study_at is None and (
            len(self.log) >= leader.room or leader.stirred or (not self.promised and not self.plain and self._may_be_plain())
        ):
            self.study_at = now + STUDY_NS
        if self.mrmt < self.must:
            self._say("acks")
        if self.mrmt >= clock:
            self.catch_up_at = None
        elif self.mrmt < self.polite:
            self.catch_up_at = now  # as soon as what came is handed over
        elif self.catch_up_at is None:
            self.catch_up_at = now + CATCH_UP_NS
        self.idle = self.crowd < 64

    def _look_at_crowd(self) -> None:
        """How many have waited on average over some turns; one or less is no crowd."""
        leader, mean = self.leader, self.crowd >> 5
        self.crowd += self.undelivered - mean
        if mean > 1:
            leader.patience = max(leader.least, mean >> 1)  # a jump holds up what is under way
            self.crowded = self.crowded or mean >= self.count
        elif self.crowded:
            self.crowded = False
            if self.plain:  # it has dispersed by itself: what was learned from it says little about quiet times
                leader.learn()
                leader.forget()

    def deadline(self) -> int | None:
        if self.study_at is None or (self.catch_up_at is not None and self.catch_up_at < self.study_at):
            return self.catch_up_at
        return self.study_at

    def wake(self, now: int) -> None:
        if self.study_at is not None and self.study_at <= now:
            self.study_at = None
            self.at_leisure = True
            self.idle = False
            if self.catch_up_at is None or now < self.catch_up_at:
                return
        super().wake(now)

    def _study(self, clock: int) -> None:
        """Learn from what came, promise something if that is worth while; and see whether plain times begin."""
        leader = self.leader
        self.at_leisure = False
        leader.learn()
        if self.undelivered and not self.plain:
            self.advance()  # a truce may have named what has its number now
        if leader.stirred:
            leader.stirred = False
            if leader.due(clock) and (lead := leader.announce(clock)) is not None:
                self._promise(_LEAD, lead, "leads")
            elif leader.truce_due(clock) and (truce := leader.announce_truce(clock)) is not None:
                self._promise(_TRUCE, truce, "truces")
        if not self.plain:
            self.promised = list(map(max, self.next_keys, self.lead_keys, self.truce_keys)) != self.next_keys
            if not self.promised and self._may_be_plain():
                self.plain = True
                self.anyone = False

    def _may_be_plain(self) -> bool:
        """Whether plain times may begin, unless others have promised something: nothing waits, and own promises are over."""
        ends = max(self.leader.lead.end, self.leader.truce.end)
        return self.simple and not self.undelivered and self.mrmt >= ends

    def _promise(self, kind: int, what: list[int], note: str) -> None:
        if self.plain:
            self.unfold()
        self.mrmt = self.lcv[self.rank]
        self.outbox.direct(kind, [self.mrmt, *what])
        self.outbox.note(note)

    # What others say

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp = record.stamp
        if not stamp or stamp[0] < self.lcv[sender]:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        if record.kind != ACK:
            self._hear(sender, record)
        elif len(stamp) != 1:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")
        self.lcv[sender] = stamp[0]
        if self.undelivered and (self.anyone or self.next_keys[sender] == self.horizon):  # or others hold up what waits
            self.news = True
        self.next_keys[sender] = (stamp[0] + 1) * self.count + sender

    def _hear(self, sender: int, record: Direct) -> None:
        """Another site promises something."""
        self.idle = False
        self.news = True
        self.leader.learn()  # whoever speaks of a number finds the same ones as all others
        if self.plain:
            self.unfold()
        if record.kind == _LEAD:
            self._follow(sender, record.stamp)
        elif record.kind == _TRUCE:
            self._agree(sender, record.stamp)
        else:
            raise RemoteProtocolError(f"malformed acknowledgement from rank {sender}")

    def _follow(self, sender: int, stamp: list[int]) -> None:
        """Another site leads."""
        lead = self.leads[sender]
        shapes = {shape: None for number in stamp[2:] if (shape := self.appeared[sender].shape(number)) is not None}
        if len(stamp) < 2 or len(shapes) != len(stamp) - 2 or not max(stamp[0], lead.end) <= stamp[1]:
            raise RemoteProtocolError(f"malformed lead from rank {sender}")
        if lead.end > stamp[0] and not all(shape in lead.shapes.all for shape in shapes):
            raise RemoteProtocolError(f"rank {sender} takes back what it has promised up to {lead.end}")
        lead.give(stamp[1], shapes)
        self.lead_keys[sender] = (lead.end + 1) * self.count + sender
        self.promised = True

    def _agree(self, sender: int, stamp: list[int]) -> None:
        """Another site promises a truce."""
        truce, names = self.truces[sender], list(zip(stamp[2::2], stamp[3::2], strict=False))
        if len(stamp) < 4 or len(stamp) % 2 or len(names) > NAMES_MAX or not max(stamp[0], truce.end) <= stamp[1]:
            raise RemoteProtocolError(f"malformed truce from rank {sender}")
        if not all(0 <= site < self.count and site != sender and number > 0 for site, number in names):
            raise RemoteProtocolError(f"rank {sender} spares what is nobody's")
        if truce.end > stamp[0] and not truce.names.keys() <= set(names):
            raise RemoteProtocolError(f"rank {sender} no longer spares what it has promised to up to {truce.end}")
        truce.give(stamp[1], {name: truce.names.get(name) or self.appeared[name[0]].shape(name[1]) for name in names})
        self.truce_keys[sender] = (truce.end + 1) * self.count + sender
        self.promised = True
