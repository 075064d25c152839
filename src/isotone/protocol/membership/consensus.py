"""Single-decree consensus among the members of one view: Paxos, for crashes, safe under any timing (001 §4, Algorithm 1).

Each member is acceptor, proposer and learner. A proposer asks all for a promise (PREPARE → PROMISE); with those of a majority
it sends a value (ACCEPT → ACCEPTED): the one accepted in the highest ballot among the promises, its own if there is none.
Accepted by a majority, it is decided, and the proposer tells everybody (DECIDE). Nothing is stored: a process that
restarts has no rank here and does not vote.

Invariants: an acceptor answers no ballot below the one it promised; a ballot number belongs to one proposer and has at most
one value; `decided` is set once. Then no two majorities accept different values, whatever is lost, late, repeated or reordered.

Whoever took part and hears of no decision asks for itself after a while, with growing waits that are drawn from a seed per rank:
proposers that outbid each other drift apart, and a proposer that crashed after the decision is not missed.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from isotone.model.errors import RemoteProtocolError, require
from isotone.protocol.splitmix import SplitMix64

V = TypeVar("V")

PREPARE, PROMISE, ACCEPT, ACCEPTED, REJECT, DECIDE = range(6)
PHASES = ("prepare", "promise", "accept", "accepted", "reject", "decide")
NONE = -1
_NUMBERS = 1 << 60
_PATIENCE = 8  # waits of a member that only answered, before it asks for itself
_DOUBLINGS = 4


class Ballot(msgspec.Struct, Generic[V], frozen=True):
    """One message. `number` is the ballot that it is about: its round times the number of members, plus its proposer's rank.

    `accepted` is, in a promise, the ballot in which `value` was accepted (`NONE` if none was); in a reject, the ballot promised.
    """

    phase: int
    number: int
    accepted: int = NONE
    value: V | None = None


class Consensus(Generic[V]):
    """One member's part in one decision. `value`s are opaque but comparable; None is no value."""

    def __init__(self, rank: int, count: int, retry_ns: int, seed: int) -> None:
        require(0 <= rank < count, "a member's rank is below the number of members")
        self.rank = rank
        self.count = count
        self.majority = count // 2 + 1
        self.decided: V | None = None
        self.outbid = 0  # own ballots that another one overtook
        self._tries = 0
        self._retry_ns = retry_ns
        self._noise = SplitMix64(seed * count + rank)
        self._wake_at: int | None = None
        self._out: list[tuple[int | None, Ballot[V]]] = []
        self._promised = NONE
        self._accepted = NONE
        self._value: V | None = None  # what was accepted in ballot `_accepted`
        self._own: V | None = None
        self._seen = NONE  # the highest ballot heard of
        self._number = NONE  # the own ballot that is running, `NONE` if there is none
        self._answers: set[int] = set()  # ranks that answered its current phase
        self._highest = NONE  # the highest ballot in its promises that accepted something …
        self._choice: V | None = None  # … and what; in the second phase the value sent
        self._asking = True  # the running ballot collects promises

    def propose(self, value: V, now: int) -> None:
        """Want `value` decided. Repeating it does nothing; another value takes the place of the first in later ballots."""
        require(value is not None, "None cannot be decided")
        first = self._own is None
        self._own = value
        if self.decided is None and first:
            self._begin(now)

    def receive(self, sender: int, message: Ballot[V], now: int) -> None:
        """A message of the member of rank `sender`."""
        self._check(sender, message)
        if self.decided is not None:
            if message.phase != DECIDE:
                self._send(sender, Ballot(DECIDE, message.number, value=self.decided))
            elif message.value != self.decided:
                raise RemoteProtocolError(f"rank {sender} decided something else")
            return
        self._seen = max(self._seen, message.number)
        if message.phase == DECIDE:
            self._decide(message.value)
        elif message.phase == PREPARE:
            self._answer(sender, message, self._promise(message.number), now)
        elif message.phase == ACCEPT:
            self._answer(sender, message, self._accept(message.number, message.value), now)
        elif message.phase == REJECT:
            self._seen = max(self._seen, message.accepted)
            if message.number == self._number:  # outbid: try again later, above what was promised
                self.outbid += 1
                self._number = NONE
                self._wait(now)
        elif message.number == self._number and (message.phase == PROMISE) == self._asking:
            self._count(sender, message, now)

    def wake(self, now: int) -> None:
        """The deadline has come: repeat what was not answered, or begin another ballot."""
        if self._wake_at is None or now < self._wake_at:
            return
        if self._promised > self._number:  # no ballot, or one that this member itself would refuse now
            self._begin(now)
        else:
            self._wait(now)
            for rank in range(self.count):
                if rank != self.rank and rank not in self._answers:
                    self._send(rank, self._question())

    def deadline(self) -> int | None:
        """When `wake` is wanted."""
        return self._wake_at

    def take(self) -> list[tuple[int | None, Ballot[V]]]:
        """The messages to send, each to one rank or (None) to all others."""
        out, self._out = self._out, []
        return out

    # The acceptor

    def _promise(self, number: int) -> Ballot[V] | None:
        if number < self._promised:
            return None
        self._promised = number
        return Ballot(PROMISE, number, self._accepted, self._value)

    def _accept(self, number: int, value: V | None) -> Ballot[V] | None:
        if number < self._promised:
            return None
        self._promised = self._accepted = number
        self._value = value
        return Ballot(ACCEPTED, number)

    def _answer(self, sender: int, question: Ballot[V], answer: Ballot[V] | None, now: int) -> None:
        self._send(sender, answer or Ballot(REJECT, question.number, self._promised))
        if self._number == NONE and self._wake_at is None:
            self._wake_at = now + _PATIENCE * self._retry_ns + self._jitter(self._retry_ns * self.count)

    # The proposer

    def _begin(self, now: int) -> None:
        """Begin a ballot above all heard of."""
        round_ = max(self._seen, self._promised, self._number) // self.count + 1
        self._number = self._seen = round_ * self.count + self.rank
        self._asking = True
        self._answers = set()
        self._highest = NONE
        self._choice = None
        self._wait(now)
        self._ask(self._promise(self._number), now)

    def _ask(self, own: Ballot[V] | None, now: int) -> None:
        """Send the current phase's question to the others; `own` is this member's answer."""
        require(own is not None, "a member refuses a ballot of its own that it has just begun")
        if self.count > 1:
            self._send(None, self._question())
        if own is not None:
            self._count(self.rank, own, now)

    def _question(self) -> Ballot[V]:
        return Ballot(PREPARE, self._number) if self._asking else Ballot(ACCEPT, self._number, value=self._choice)

    def _count(self, sender: int, answer: Ballot[V], now: int) -> None:
        self._answers.add(sender)
        if self._asking and answer.accepted > self._highest:
            self._highest = answer.accepted
            self._choice = answer.value
        if len(self._answers) < self.majority:
            return
        if not self._asking:
            if self.count > 1:
                self._send(None, Ballot(DECIDE, self._number, value=self._choice))
            self._decide(self._choice)
        elif self._highest != NONE or self._own is not None:
            self._choice = self._choice if self._highest != NONE else self._own
            self._asking = False
            self._answers = set()
            if self._promised == self._number:
                self._ask(self._accept(self._number, self._choice), now)
            else:  # this member has promised a higher ballot meanwhile: the others may not have
                self._send(None, self._question())
        else:  # nothing can have been decided, and this member has nothing to propose
            self._number = NONE

    def _decide(self, value: V | None) -> None:
        require(self.decided is None and value is not None, "a decision is made once, and of a value")
        self.decided = value
        self._number = NONE
        self._wake_at = None

    def _wait(self, now: int) -> None:
        """The next try: ever later, and at a time of one's own."""
        wait = self._retry_ns << min(self._tries, _DOUBLINGS)
        self._tries += 1
        self._wake_at = now + wait + self._jitter(wait)

    def _jitter(self, span: int) -> int:
        """A part of `span`, from the seed and the rank."""
        return span * (self._noise.next() >> 48) >> 16

    def _send(self, to: int | None, message: Ballot[V]) -> None:
        self._out.append((to, message))

    def _check(self, sender: int, message: Ballot[V]) -> None:
        """Raise `RemoteProtocolError` unless a correct member can have sent this."""
        phase, number = message.phase, message.number
        question = phase in (PREPARE, ACCEPT)
        owner = sender if question else self.rank
        fits = 0 <= sender < self.count and sender != self.rank and 0 <= phase <= DECIDE and 0 <= number < _NUMBERS
        if fits and phase != DECIDE:
            fits = number % self.count == owner and NONE <= message.accepted < _NUMBERS
        if fits and (phase in (ACCEPT, DECIDE) or (phase == PROMISE and message.accepted != NONE)):
            fits = message.value is not None
        if not fits or (phase == PROMISE and message.accepted > number):
            raise RemoteProtocolError(f"rank {sender} sends an impossible message about ballot {number}")
