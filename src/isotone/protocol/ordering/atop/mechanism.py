"""ATOM, the mechanism of `atop` (paper 000 §4.2, §4.3): messages are ordered by (distribution, slot).

A message is tagged with the largest distribution that its sender knows and with its index among the sender's slots there. That
fixes its slot, so the order is intrinsic: components that separate cannot contradict each other, and when a view ends the rest
is delivered sorted, except what depends on a cast that no member of this component holds. The conditions of Figures 3-6 are
small methods that name their figure; Figure 3 is `conclude` and the flush before it.

Beyond the paper, so that a member with nothing to send holds nobody up: a member gives slots up in ranges, on demand. An index
that jumps gives up the slots below it; a member that has nothing to send says so with a *skip*. Who moves to a distribution
without a message to send says so with a *dummy*. Both are no casts: what has been given up matters only while the view lasts. A
member that must skip again and again without having sent gives up more each time, up to 2^`_FAR` periods ahead, so that the
next messages of the others need no answer; its own next message is then far ahead, and the others give up their slots before it
at once.

Nor does a member wait to be asked if the policy can tell who sends next: when a message has been delivered and nothing is
pending, all but the expected member give up what they own before its next slot. If it is the next to send, everybody delivers its
message on receipt. This happens once for each time that messages came, never in answer to a skip: members that expect each other
would give up slots for ever.

Errata of the figures: 4(1) and 6(1) speak of messages tagged with the ordering distribution; dummies are not pending, so 4(3)
asks whether every member has come to the distribution that is next, not only beyond the last; a view begins with the default
distribution.

Invariants: `dist[q]` and `index[q]` are the smallest that q can still use; no own slot below a delivered one is used (own slots
are given up before a later one is delivered); `ordering` ≤ `dist[q]` ≤ `sending` for every q.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from isotone.model.errors import ConfigError, RemoteProtocolError, require
from isotone.model.records import Cast, Direct
from isotone.model.view import View
from isotone.protocol.ordering.atop.distribution import MOST_INDEX, Distribution, fault_of
from isotone.protocol.ordering.atop.policies import DEFAULT
from isotone.protocol.ordering.atop.policy import Group, find_policy
from isotone.protocol.ordering.dependencies import Dependencies
from isotone.protocol.ordering.orderer import Batch, Orderer, Outbox

_MESSAGES = 0
_FIRST = 1  # the first messages of this sender in a distribution: with the weights
_SKIP = 2
_DUMMY = 3
_POLICY = 4

_PASSED = 1 << 62  # the bound of a member that has left the ordering distribution
_PATIENCE = 2  # so many skips in a row give up what is needed and no more
_FAR = 6  # at most 2^6 periods ahead
_LONG = MOST_INDEX >> 1  # a distribution that has lasted so long is followed by one with the same weights


class Atop(Orderer):
    """Stamps: messages [distribution, index, *dependencies], the first ones [distribution, index, *weights, *dependencies];
    skip [distribution, index], dummy [distribution, index, *weights]. The index is the next one that may be used."""

    name = "atop"
    options = {"slots": ("even", "random")}  # noqa: RUF012
    numbers = {"window": (20, 1, 1000), "epsilon": (1, 1, 1000), "threshold": (300, 0, 2000)}  # noqa: RUF012
    texts = ("policy", "patterns")
    packets = {_SKIP: "skip", _DUMMY: "dummy", _POLICY: "policy"}  # noqa: RUF012

    def __init__(self, outbox: Outbox, view: View, rank: int, seed: int) -> None:
        super().__init__(outbox, view, rank, seed)
        count = self.count
        self.kind = str(self.option("slots"))
        self.ordering = self.sending = Distribution(0, (1,) * count, self.kind, view.id)
        self.known = {0: self.ordering}
        self.ordered = 0  # slots of the ordering distribution that are delivered or skipped
        self.pending: list[tuple[int, int, int, Cast]] = []  # a heap of (distribution, slot, sender, cast)
        self.dist = [0] * count
        self.index = [0] * count
        self.last_cast = [0] * count  # the distribution of each member's last messages
        self.bounds = [self.ordering.slots.slot(q, 0) for q in range(count)]  # the next slot of q in the ordering distribution
        self.own = self.bounds[rank]  # the next own slot in the distribution that this member is in
        self.seen = -1  # the largest slot of another's message in the sending distribution
        self.skips = 0  # since the last own messages
        self.traffic = False
        self.stirred = False  # messages have come since slots were given up ahead
        self.dependencies = Dependencies(rank, count)
        options = view.ordering.options
        group = Group(
            view.members, rank, self.integer("window"), self.integer("epsilon"), self.integer("threshold"),
            str(options.get("patterns", "")), self._tell,
        )  # fmt: skip
        self.policy = find_policy(str(options.get("policy", DEFAULT)))(group)

    @classmethod
    def check_options(cls, options: Mapping[str, int | str | bool]) -> None:
        super().check_options(options)
        find_policy(str(options.get("policy", DEFAULT))).check_patterns(str(options.get("patterns", "")))

    def _tell(self, stamp: list[int], to: int | None) -> None:
        self.outbox.direct(_POLICY, stamp, to)

    # Sending

    def submit(self, batch: Batch, now: int) -> None:
        """The messages take the last own slot before what was seen, so that nothing seen waits for this member any more."""
        rank, sending = self.rank, self.sending
        slots = sending.slots
        index = self.index[rank] if self.dist[rank] == sending.id else 0
        if self.seen >= 0:
            index = max(index, slots.index(rank, self.seen) - 1)
        stamp = [sending.id, index, *self.dependencies.difference()]
        kind = _MESSAGES
        if self.last_cast[rank] != sending.id:
            kind = _FIRST
            stamp[2:2] = sending.weights
            self.last_cast[rank] = sending.id
        cast = self.outbox.multicast(kind, stamp, batch)
        self.skips = 0
        self._moved(rank, sending.id, index + 1)
        heappush(self.pending, (sending.id, slots.slot(rank, index), rank, cast))
        self.policy.observe(rank, 1, now)
        self.traffic = True
        self._advance()

    def turn(self, now: int) -> None:
        """Adapt if the policy wants to; give up what others wait for or will; at most one record for all input of the turn."""
        if self.traffic:
            self.traffic = False
            self.stirred = True
            weights = self.policy.propose(now)
            if weights is not None:
                self._inject(weights)
        rank = self.rank
        if self.index[rank] > _LONG:
            self._inject(self.sending.weights)
        sending = self.sending
        new = self.dist[rank] != sending.id
        last = max(self.seen, self._expected_slot(now))
        if not new and self.own > last:
            return
        ahead = 1 << min(self.skips - _PATIENCE, _FAR) if self.skips >= _PATIENCE else 0
        index = sending.slots.index(rank, last + 1 + ahead * sending.total)
        self.skips += self.seen >= 0
        if new:
            self.outbox.direct(_DUMMY, [sending.id, index, *sending.weights])
            self.outbox.note("dummies")
        else:
            self.outbox.direct(_SKIP, [sending.id, index])
            self.outbox.note("skips")
        self._moved(rank, sending.id, index)
        self._advance()

    def _expected_slot(self, now: int) -> int:
        """Where the next message will be, by the policy's guess; -1 if that is not known, or not to be thought of now.

        It is when messages have come and all are delivered, or when this member has to give up slots anyway.
        """
        rank, sending, seen = self.rank, self.sending, self.seen
        if not self.stirred or (self.pending and (self.dist[rank] != sending.id or self.own > seen)):
            return -1
        self.stirred = False
        member = self.policy.expects(now)
        if member is None or member == rank or self.dist[member] != sending.id:
            return -1
        slots = sending.slots
        return slots.slot(member, max(self.index[member], slots.index(member, seen + 1)))

    def _inject(self, weights: Sequence[int]) -> None:
        fault = fault_of(weights, self.count)
        if fault is not None:
            raise ConfigError(f"policy {self.policy.name!r} proposes {fault}")
        counter = self.sending.id // self.count + 1
        self._learn(Distribution(counter * self.count + self.rank, weights, self.kind, self.view.id))
        self.outbox.note("distributions")

    def _learn(self, distribution: Distribution) -> None:
        """The sending distribution is the largest one known."""
        self.known[distribution.id] = distribution
        if distribution.id > self.sending.id:
            self.sending = distribution
            self.seen = -1
            self.policy.adopted(distribution.weights)

    def _moved(self, member: int, dist: int, index: int) -> None:
        """What a member said of itself: it uses nothing below this any more."""
        self.dist[member] = dist
        self.index[member] = index
        slot = self.known[dist].slots.slot(member, index)
        self.bounds[member] = slot if dist == self.ordering.id else _PASSED
        if member == self.rank:
            self.own = slot

    # Receiving

    def accept(self, sender: int, casts: Sequence[Cast], now: int) -> None:
        learned = self._check(sender, casts)
        for distribution in learned.values():
            self._learn(distribution)
        dist = index = 0
        for cast in casts:
            dist, index = cast.stamp[0], cast.stamp[1]
            slot = self.known[dist].slots.slot(sender, index)
            if dist == self.sending.id and slot > self.seen:
                self.seen = slot
            heappush(self.pending, (dist, slot, sender, cast))
        self.last_cast[sender] = dist
        self._moved(sender, dist, index + 1)
        self.policy.observe(sender, len(casts), now)
        self.traffic = True
        self._advance()

    def _check(self, sender: int, casts: Sequence[Cast]) -> dict[int, Distribution]:
        """Refuse what no member sends; returns the distributions that are new here."""
        dist, index, last = self.dist[sender], self.index[sender], self.last_cast[sender]
        learned: dict[int, Distribution] = {}
        for cast in casts:
            stamp = cast.stamp
            if len(stamp) < 2 or not (dist <= stamp[0] < MOST_INDEX and 0 <= stamp[1] < MOST_INDEX):
                raise RemoteProtocolError(f"rank {sender} tags a message {stamp[:2]} in distribution {dist}")
            if stamp[0] > dist:
                dist, index = stamp[0], 0
            if stamp[1] < index:
                raise RemoteProtocolError(f"index {stamp[1]} of rank {sender} in distribution {dist} is below {index}")
            index = stamp[1] + 1
            if cast.kind != (_MESSAGES if dist == last else _FIRST) or not cast.payloads:
                raise RemoteProtocolError(f"cast of kind {cast.kind} from rank {sender} in distribution {dist}")
            start = 2
            if cast.kind == _FIRST:
                start = 2 + self.count
                self._check_weights(sender, dist, stamp[2:start], learned)
                last = dist
            if len(stamp) > start:
                self.dependencies.check(stamp, start, sender)
        return learned

    def _check_weights(self, sender: int, dist: int, weights: list[int], learned: dict[int, Distribution]) -> None:
        known = learned.get(dist) or self.known.get(dist)
        if known is None:
            fault = fault_of(weights, self.count)
            if fault is not None:
                raise RemoteProtocolError(f"rank {sender} sends {fault}")
            learned[dist] = Distribution(dist, weights, self.kind, self.view.id)
        elif known.weights != tuple(weights):
            raise RemoteProtocolError(f"rank {sender} has other weights for distribution {dist}")

    def direct(self, sender: int, record: Direct, now: int) -> None:
        kind, stamp = record.kind, record.stamp
        if kind == _POLICY:
            self.policy.heard(sender, stamp, now)
            return
        dist, index = self.dist[sender], self.index[sender]
        if kind == _SKIP and len(stamp) == 2 and stamp[0] == dist and index < stamp[1] < MOST_INDEX:
            self._moved(sender, dist, stamp[1])
        elif kind == _DUMMY and len(stamp) >= 2 and dist < stamp[0] < MOST_INDEX and 0 <= stamp[1] < MOST_INDEX:
            learned: dict[int, Distribution] = {}
            self._check_weights(sender, stamp[0], stamp[2:], learned)
            for distribution in learned.values():
                self._learn(distribution)
            self._moved(sender, stamp[0], stamp[1])
        else:
            raise RemoteProtocolError(f"malformed skip or dummy from rank {sender}")
        self._advance()

    # Ordering

    def _advance(self) -> None:
        while self._is_pending():
            if not self._is_tagged():
                if not self._have_all_left():
                    return
                self._change()
            elif self._is_in_turn():
                self._deliver_next()
            elif self._is_given_up():
                slot = self._skip_to()
                require(slot > self.ordered, "slots are skipped that were passed already")
                self.ordered = slot
            else:
                return

    def _is_pending(self) -> bool:
        """4(2), 5(1), 6(3): there is a message at all."""
        return bool(self.pending)

    def _is_tagged(self) -> bool:
        """5(2): the message belongs to the ordering distribution. If the first one does not, none does: 4(1)."""
        return self.pending[0][0] == self.ordering.id

    def _have_all_left(self) -> bool:
        """4(3): no member can send anything of an earlier distribution than the next message's any more."""
        return min(self.dist) >= self.pending[0][0]

    def _is_in_turn(self) -> bool:
        """5(3), 5(4): the message is its owner's for the current slot."""
        return self.pending[0][1] == self.ordered

    def _is_given_up(self) -> bool:
        """6(2): no owner of a slot before the message's can send anything for it any more."""
        return min(self.bounds) > self.pending[0][1]

    def _skip_to(self) -> int:
        """6(1): never beyond a message that is here."""
        return self.pending[0][1]

    def _change(self) -> None:
        """The next ordering distribution is the smallest that a pending message is tagged with."""
        dist = self.pending[0][0]
        require(dist > self.ordering.id, "the ordering distribution does not increase")
        self.ordering = self.known[dist]
        self.ordered = 0
        oldest = min(dist, *self.dist)
        for old in [id for id in self.known if id < oldest]:
            del self.known[old]
        for member in range(self.count):
            self._moved(member, self.dist[member], self.index[member])

    def _deliver_next(self) -> None:
        _, slot, sender, cast = heappop(self.pending)
        self.ordered = slot + 1
        self._deliver(slot, sender, cast)

    def _deliver(self, slot: int, sender: int, cast: Cast) -> None:
        self.dependencies.delivered[sender] = cast.seq
        self.outbox.deliver(sender, cast, (0, cast.stamp[0], slot))

    # The end of the view

    def conclude(self, present: frozenset[int], now: int) -> list[Cast]:
        """Figure 3: nothing is pending when the next view comes. What lacks its causal past is not delivered here."""
        incomplete: set[int] = set()
        if len({dist for dist, _, _, _ in self.pending}) > 1:
            self.outbox.note("ends_between_distributions")
        for _, slot, sender, cast in sorted(self.pending):
            start = 2 if cast.kind == _MESSAGES else 2 + self.count
            if sender in incomplete or not self.dependencies.satisfied(cast.stamp, start):
                incomplete.add(sender)
            else:
                self._deliver(slot, sender, cast)
        self.pending.clear()
        return []
