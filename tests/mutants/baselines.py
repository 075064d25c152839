"""Deliberate faults of `all_ack` and `two_phase`, and of the gathered acknowledgements of `single_phase`."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from isotone.model.records import Cast
from isotone.protocol.ordering.all_ack import AllAck
from isotone.protocol.ordering.gathering import Claims
from isotone.protocol.ordering.single_phase import SinglePhase
from isotone.protocol.ordering.two_phase import TwoPhase
from tests.mutants.mutants import TOTAL, Mutant, Patch


def heard_from_most(patch: Patch) -> None:
    """A message is delivered when something later came from all but one of the others."""

    def advance(self: AllAck) -> None:
        keys = sorted(self._key(ts, member) for member, ts in enumerate(self.heard) if member != self.rank)
        while self.waiting and (len(keys) < 2 or self.waiting[0][0] <= keys[1]):
            _, sender, cast = heappop(self.waiting)
            self._deliver(sender, cast)

    patch.setattr(AllAck, "_advance", advance)


def clock_not_advanced(patch: Patch) -> None:
    """A member does not move its clock beyond what it receives: its next stamp may be smaller than what it acknowledged."""

    def accept(self: AllAck, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            heappush(self.waiting, (self._key(cast.stamp[0], sender), sender, cast))
            self.heard[sender] = max(self.heard[sender], cast.stamp[0])
        self.owed = True
        self._advance()

    def acknowledge(self: AllAck, now: int) -> None:
        self._said(now)
        self.outbox.direct(1, [max(self.clock, *self.heard)])

    patch.setattr(AllAck, "accept", accept)
    patch.setattr(AllAck, "_acknowledge", acknowledge)
    patch.setattr(AllAck, "direct", lambda self, sender, record, now: _hear(self, sender, record.stamp[0]))


def _hear(orderer: AllAck, sender: int, ts: int) -> None:
    orderer.heard[sender] = max(orderer.heard[sender], ts)
    orderer._advance()


def nobody_answers(patch: Patch) -> None:
    """Members with nothing to send stay silent, as in the paper's baseline without an interval."""
    patch.setattr(AllAck, "turn", lambda self, now: None)
    patch.setattr(AllAck, "deadline", lambda self: None)


def rest_by_arrival(patch: Patch) -> None:
    """At the end of a view the rest is delivered sender by sender, the last rank first."""

    def conclude(self: AllAck, present: frozenset[int], now: int) -> list[Cast]:
        for _, sender, cast in sorted(self.waiting, key=lambda entry: (-entry[1], entry[2].seq)):
            self._deliver(sender, cast)
        return []

    patch.setattr(AllAck, "conclude", conclude)


def proposals_ignored(patch: Patch) -> None:
    """A message without a final does not hold back those that have one."""

    def advance(self: TwoPhase) -> None:
        kept = []
        while self.queue:
            key, seq, sender = entry = heappop(self.queue)
            one = self.waiting[sender].get(seq)
            if one is not None and self._key(one.ts, sender) == key:
                if one.final:
                    self._deliver(sender, one)
                else:
                    kept.append(entry)
        for entry in kept:
            heappush(self.queue, entry)

    patch.setattr(TwoPhase, "_advance", advance)


def first_proposal_wins(patch: Patch) -> None:
    """The sender takes its own proposal for the final, not the largest."""

    def turn(self: TwoPhase, now: int) -> None:
        own = {seq: one.ts for seq, one in self.waiting[self.rank].items()}
        for seq, (_, owing) in self.asked.items():
            self.asked[seq] = (own[seq], owing)
        original(self, now)

    original = TwoPhase.turn
    patch.setattr(TwoPhase, "turn", turn)
    patch.setattr(TwoPhase, "_check_finals", lambda self, sender, cast: None)


def finals_forgotten_by_the_clock(patch: Patch) -> None:
    """A member may propose less than a final that it knows."""

    def finals(self: TwoPhase, sender: int, cast: Cast) -> None:
        clock = self.clock
        original(self, sender, cast)
        self.clock = clock

    original = TwoPhase._finals
    patch.setattr(TwoPhase, "_finals", finals)


def rest_of_absent_senders(patch: Patch) -> None:
    """At the end of a view what has no final is delivered although its sender, who may know one, is elsewhere."""
    conclude = TwoPhase.conclude
    patch.setattr(TwoPhase, "conclude", lambda self, present, now: conclude(self, frozenset(range(self.count)), now))


def gathered_clock_overtakes(patch: Patch) -> None:
    """A clock that came by way of a collector counts before the casts that its site sent earlier are here."""

    def late(self: SinglePhase, sender: int, casts: Sequence[Cast], now: int) -> None:
        known = self.lcv[sender]
        self.lcv[sender] = min(known, casts[0].stamp[0] - 1)  # or the cast that was overtaken would be refused
        accept(self, sender, casts, now)
        self._clock(sender, max(known, self.lcv[sender]))

    accept = SinglePhase.accept
    patch.setattr(SinglePhase, "accept", late)
    patch.setattr(Claims, "ripe", lambda self, site, clock, casts: True)


BASELINES = [
    Mutant("heard_from_most", heard_from_most, TOTAL, ("all_ack",)),
    Mutant("clock_not_advanced", clock_not_advanced, TOTAL, ("all_ack",)),
    Mutant("nobody_answers", nobody_answers, ("liveness",), ("all_ack",)),
    Mutant("rest_by_arrival", rest_by_arrival, TOTAL, ("all_ack",)),
    Mutant("proposals_ignored", proposals_ignored, TOTAL, ("two_phase",)),
    Mutant("first_proposal_wins", first_proposal_wins, TOTAL, ("two_phase",)),
    Mutant("finals_forgotten_by_the_clock", finals_forgotten_by_the_clock, TOTAL, ("two_phase",)),
    Mutant("rest_of_absent_senders", rest_of_absent_senders, TOTAL, ("two_phase",)),
    Mutant("gathered_clock_overtakes", gathered_clock_overtakes, TOTAL, ("single_phase",)),
]
