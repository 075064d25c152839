"""`two_phase`: the order of Skeen's algorithm, known as ABCAST of ISIS; what paper 003 compares with (its §1).

Every member answers a cast with a *proposal*, a number larger than all that it knows, to the sender alone. The sender takes
the largest proposal, its own among them, as the *final* timestamp and tells everybody. The order is (final, sender's rank).
A message is delivered when it has its final timestamp and no other message can get a smaller one: a message without a final
counts with the proposal made here, which its final is not below, and one that is not yet here will get a larger proposal
here than any final known. All proposals of a turn to one sender, and all finals of a turn, are one record.

Over FIFO links the order is causal: of two casts of one sender every member proposes more for the second, and a sender's own
proposal exceeds the finals of all that it has delivered. Where records overtake each other the first is not so, which
is the objection of 003; tests/protocol/test_two_phase_causality.py shows both.

The order is extrinsic, but what orders a message comes from its own sender. Finals are casts, so the flush covers them;
proposals are not, for nobody but the sender needs them. At the end of a view, with the common set C of the members P that
go on together:

1. The final of m is in C: m has one place, the same everywhere, and is delivered there. All of C that has a smaller final is
   delivered before it. Another component may know the final of a message that is without one here; it is not delivered here, so
   delivering m early contradicts nobody. What was delivered before the flush fits, because every member has made a proposal for
   everything that has a final: nothing with a smaller final than a delivered message can be missing.
2. m has no final in C, and its sender is in P: all casts of the sender are in C, so it never sent one, and it sends nothing more
   in this view. Nobody has a place for m. It is delivered after everything with a final, at a place that depends on its sender
   and number alone: members that end this view in another round, with more or fewer casts, give it the same.
3. m has no final in C, and its sender is elsewhere: the sender may have given it one. m is not delivered here; its sender
   delivers it, by 1 or 2.
4. m has a final, but its sender had delivered something that is not delivered here by 3: m would be delivered without its
   past. It is left out, with all that follows it from its sender or depends on it. Its sender is not in P, for what a member
   of P has delivered has a final in C.

So a member's own messages are always delivered and never returned; what a component lacks is messages of others.

Invariants: the own clock is not smaller than any final or proposal known here; `queue` has an entry for every undelivered cast,
with its final or the own proposal.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox

_MESSAGES = 0
_FINAL = 1
_PROPOSAL = 2


class _Waiting:
    """An undelivered cast: its final timestamp or the own proposal, and the number of the cast that said the final (0: none)."""

    __slots__ = ("cast", "final", "ts")

    def __init__(self, cast: Cast, ts: int) -> None:
        self.cast = cast
        self.ts = ts
        self.final = 0


class TwoPhase(Orderer):
    """A cast's stamp is its dependencies; those of finals and proposals are pairs (seq, timestamp).

    Positions are (0, 0, final and rank as one number), and (0, 1 + rank, seq) for what never gets a final.
    """

    name = "two_phase"
    packets = {_FINAL: "final", _PROPOSAL: "proposal"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        self.clock = 0
        self.waiting: list[dict[int, _Waiting]] = [{} for _ in range(self.count)]
        self.queue: list[tuple[int, int, int]] = []  # key, seq, sender; what has no cast of that key any more is out of date
        self.proposals: list[list[int]] = [[] for _ in range(self.count)]  # for each sender, to be said at the end of the turn
        self.asked: dict[int, tuple[int, frozenset[int]]] = {}  # own casts: the largest proposal so far, and who owes one
        self.others = frozenset(range(self.count)) - {rank}
        self.dependencies = Dependencies(rank, self.count)

    def _key(self, ts: int, sender: int) -> int:
        """(ts, sender) as one number that sorts the same way."""
        return ts * self.count + sender

    def submit(self, batch: Batch, now: int) -> None:
        cast = self.outbox.multicast(_MESSAGES, self.dependencies.difference(), batch)
        self._wait(self.rank, cast)
        self.asked[cast.seq] = (self.clock, self.others)

    def _wait(self, sender: int, cast: Cast) -> None:
        self.clock += 1
        self.waiting[sender][cast.seq] = _Waiting(cast, self.clock)
        heappush(self.queue, (self._key(self.clock, sender), cast.seq, sender))

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            if cast.kind == _MESSAGES:
                self.dependencies.check(cast.stamp, 0, sender)
            else:
                self._check_finals(sender, cast)
        for cast in casts:
            if cast.kind == _MESSAGES:
                self._wait(sender, cast)
                self.proposals[sender] += (cast.seq, self.clock)
            else:
                self._finals(sender, cast)
        self._advance()

    def _check_finals(self, sender: int, cast: Cast) -> None:
        """A final is for a cast that was answered from here, and not below that answer."""
        stamp, waiting = cast.stamp, self.waiting[sender]
        fits = cast.kind == _FINAL and len(stamp) % 2 == 0 and not cast.payloads
        for i in range(0, len(stamp) - 1, 2):
            one = waiting.get(stamp[i])
            fits = fits and one is not None and not one.final and stamp[i + 1] >= one.ts
        if not fits or len(set(stamp[::2])) * 2 != len(stamp):
            raise RemoteProtocolError(f"cast of kind {cast.kind} from rank {sender} does not say finals")

    def _finals(self, sender: int, cast: Cast) -> None:
        stamp = cast.stamp
        for i in range(0, len(stamp), 2):
            seq, ts = stamp[i], stamp[i + 1]
            one = self.waiting[sender][seq]
            one.ts, one.final = ts, cast.seq
            self.clock = max(self.clock, ts)
            heappush(self.queue, (self._key(ts, sender), seq, sender))

    def direct(self, sender: int, record: Direct, now: int) -> None:
        stamp, asked = record.stamp, self.asked
        answered = stamp[::2]
        if (
            record.kind != _PROPOSAL
            or len(set(answered)) * 2 != len(stamp)
            or not all(seq in asked and sender in asked[seq][1] for seq in answered)
            or min(stamp, default=0) < 1
        ):
            raise RemoteProtocolError(f"malformed proposal from rank {sender}")
        for i in range(0, len(stamp), 2):
            largest, owing = asked[stamp[i]]
            asked[stamp[i]] = (max(largest, stamp[i + 1]), owing - {sender})
            self.clock = max(self.clock, stamp[i + 1])

    def turn(self, now: int) -> None:
        """Say the proposals of this turn to each sender, and the finals of the own casts that all have answered."""
        for sender, proposals in enumerate(self.proposals):
            if proposals:
                self.outbox.direct(_PROPOSAL, proposals, sender)
                self.outbox.note("proposals")
                self.proposals[sender] = []
        finals: list[int] = []
        for seq, (largest, owing) in self.asked.items():
            if not owing:
                finals += (seq, largest)
        if finals:
            for seq in finals[::2]:
                del self.asked[seq]
            self._finals(self.rank, self.outbox.multicast(_FINAL, finals, None))
            self._advance()

    def _advance(self) -> None:
        queue = self.queue
        while queue:
            key, seq, sender = queue[0]
            one = self.waiting[sender].get(seq)
            if one is not None and self._key(one.ts, sender) == key:
                if not one.final:
                    return
                self._deliver(sender, one)
            heappop(queue)

    def _deliver(self, sender: int, one: _Waiting) -> None:
        cast = one.cast
        del self.waiting[sender][cast.seq]
        self.dependencies.delivered[sender] = cast.seq
        self.outbox.deliver(sender, cast, (0, 0, self._key(one.ts, sender)), (sender, one.final))

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        ordered = [(one.ts, sender, one) for sender, waiting in enumerate(self.waiting) for one in waiting.values() if one.final]
        incomplete: set[int] = set()
        for _, sender, one in sorted(ordered, key=lambda entry: entry[:2]):
            if sender in incomplete or not self.dependencies.satisfied(one.cast.stamp, 0):
                incomplete.add(sender)
            else:
                self._deliver(sender, one)
        for sender in sorted(present):
            for seq, one in sorted(self.waiting[sender].items()):
                self.outbox.deliver(sender, one.cast, (0, 1 + sender, seq))
        return []
