"""One direction-pair of a FIFO link to one peer, for the lifetime of one view.

The link numbers its records from 1, sends them as runs, keeps them until a cumulative acknowledgement covers them, and sends the
oldest again when none comes: a few as soon as one should have come, and more, with back-off. The receiver hands records up
exactly once and in order; runs that arrive early wait in a bounded stash. Where something is missing for longer than what was
late has lately been (see `losses`), its acknowledgement says so, a *complaint*, and the sender sends again at once. A packet
without records tells by its `first` how many records there are, so that the last ones are missed too. Repetitions wait for each
other ever longer until something is acknowledged, whatever they are sent for: where the wire is full they would only make it
fuller.

A view has fresh links, so no state has to be reset or agreed on: what belongs to another view is recognised by its session and
never reaches this object.

Invariants: `acked` ≤ what the peer received; a record leaves `unacked` only when acknowledged; at most `window` records are
under way. What is in the stash is beyond `received` and not beyond `exists`.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Packet, Relay, Sequenced
from isotone.model.settings import Timing
from isotone.protocol.link.losses import Losses

_BURST = 64
"""So many records are sent again after a time-out."""
_FEW = 8
_FEW_BYTES = 4 * 1024
"""So many for a complaint, or early, and no more than so many bytes, but for the first."""
_GROWTH_MAX = 6
"""Where all of a repetition was needed, the next one is twice as long, and so on so many times."""
_SCATTERED = 2
"""Where there is one complaint after the other, so many times: not all of that is needed."""
ACK_EVERY = 32


class PeerLink:
    """State of the link to one peer."""

    __slots__ = (
        "_patience", "_timing", "ack_at", "acked", "answered_at", "answers", "attempts", "complain_at", "complaint",
        "connected_again", "exists", "fresh", "growth", "losses", "needless", "owed", "packets", "received", "repeated",
        "resend_at", "retransmitted", "rtt_least", "rtt_mean", "rtt_spread", "stash", "stashed", "then", "timed_again",
        "timed_at", "timed_seq", "unacked", "vague", "window",
    )  # fmt: skip

    def __init__(self, timing: Timing, window: int) -> None:
        self._timing = timing
        self.window = window
        # sending
        self.fresh: list[Sequenced] = []
        self.unacked: deque[Sequenced] = deque()
        self.acked = 0
        self.resend_at: int | None = None
        self.attempts = 0
        self.retransmitted = 0
        self.connected_again = False
        self.complaint = False
        """The peer lacks the oldest record."""
        self.repeated = 0
        self.then = 0
        """What was sent when records up to `repeated` were sent again."""
        self.answered_at = 0
        """Complaints before that about these are about what was sent again already."""
        self.growth = 0
        """Repetitions are so many times twice as long: each of the last ones was not enough."""
        self.answers = 0
        """So often something was sent again since the last acknowledgement."""
        self.timed_seq = 0
        self.timed_at = 0
        self.timed_again = False
        self.vague = 0
        """The round trip if what was acknowledged is the first of several packets with the same."""
        self.rtt_mean = 0
        self.rtt_spread = 0
        self.rtt_least = 0
        self._patience = self._timeout()
        # receiving
        self.received = 0
        self.exists = 0
        """So many records are known to have been sent: something is missing if more than were received."""
        self.owed = 0
        self.ack_at: int | None = None
        self.stash: dict[int, list[Sequenced]] = {}
        self.stashed = 0
        self.complain_at = 0
        self.losses = Losses(timing.retransmit_ns)
        self.packets = 0
        """How many came with records that were sent for the first time."""
        self.needless = False
        """The peer has sent something again that is here."""

    @property
    def sent(self) -> int:
        """The number of the last record that was sent."""
        return self.acked + len(self.unacked)

    def acknowledge(self, now: int) -> int:
        """The acknowledgement for a packet that goes out now: 0, no news, unless it is due.

        Packets of a multicast that acknowledge nothing are the same for all peers, and encoded once.
        """
        if self.owed < ACK_EVERY // 2 and (self.ack_at is None or now < self.ack_at):
            return 0
        return self.say(now)

    def say(self, now: int) -> int:
        """The acknowledgement, due or not: how far the peer's records are here, as a complaint where it is time for one."""
        self.owed = 0
        self.ack_at = None
        if self.exists <= self.received:
            return self.received
        if now < self.complain_at:
            self.owed = 1
            self.ack_at = self.complain_at
            return self.received
        self.complain_at = now + self._timing.ack_delay_ns
        return -1 - self.received

    def next_packet(self, now: int) -> tuple[int, int, list[Sequenced], bool] | None:
        """(first, ack, records, again) of the packet that should go out now, if any: new records, or acknowledgements owed."""
        due = self.owed >= ACK_EVERY or (self.ack_at is not None and now >= self.ack_at)
        if not due and (not self.fresh or len(self.unacked) >= self.window):
            return None
        ack = self.acknowledge(now) if self.owed else 0
        unacked = self.unacked
        first = self.acked + len(unacked) + 1
        room = max(0, self.window - len(unacked))
        records, self.fresh = (self.fresh, []) if room >= len(self.fresh) else (self.fresh[:room], self.fresh[room:])
        if records:  # they now count as under way
            unacked.extend(records)
            if not self.timed_seq:
                self.timed_seq = first + len(records) - 1
                self.timed_at = now
                self.timed_again = False
            if self.resend_at is None:
                self.resend_at = now + self._patience
        again, self.needless = self.needless and not records, False
        return first, ack, records, again

    def retransmit(self, now: int) -> tuple[int, list[Sequenced]] | None:
        """The oldest unacknowledged records, if it is time to send them again: all of them on a new connection."""
        anew = self.connected_again
        if not anew and (self.resend_at is None or now < self.resend_at):
            return None
        self.connected_again = False
        if not self.unacked:
            self.resend_at = None
            return None
        if anew:
            self.attempts = 0
            again = list(self.unacked)
        elif self.complaint or (self.rtt_mean and not self.attempts) or self._patience < self._timing.retransmit_ns:
            again = self._few()
        else:
            again = list(islice(self.unacked, _BURST))
        if anew or not self.complaint:
            self.growth = 0
            self.attempts += 1
            self._patience = self._timeout()
        self.complaint = False
        self.retransmitted += len(again)
        self.resend_at = now + self._patience
        rtt = min(self.rtt_mean + 4 * self.rtt_spread, 2 * self.rtt_least) or self._timing.retransmit_ns
        self.answered_at = now + min(rtt << min(self.answers, 16), max(rtt, self._timing.retransmit_max_ns))
        self.answers += 1
        self.then = self.sent
        self.repeated = self.acked + len(again)
        self.timed_again = self.timed_again or self.timed_seq <= self.repeated
        return self.acked + 1, again

    def _few(self) -> list[Sequenced]:
        """The oldest records: what one lost packet had, mostly, and something behind it; of large ones only one, at first."""
        few: list[Sequenced] = []
        left = _FEW_BYTES << self.growth
        for record in islice(self.unacked, min(_FEW << self.growth, _BURST)):
            cast = record.cast if type(record) is Relay else record
            if type(cast) is Cast:
                left -= sum(map(len, cast.payloads))
                if left < 0 and few:
                    break
            few.append(record)
        return few

    def reconnect(self) -> None:
        """There is a new way to the peer: what was under way may be lost, so it goes out again at once."""
        self.connected_again = bool(self.unacked)

    def receive(self, packet: Packet, now: int) -> list[Sequenced]:
        """Take a packet in; return the records that are now in order."""
        ack, news = packet.ack, packet.ack > self.acked
        if news:
            self._acknowledged(ack, now)
        elif ack < 0:
            self._complained(-1 - ack, now)
        records = packet.records
        if not records:
            if packet.first > self.received + 1:
                self._miss(packet.first - 1, now, self._timing.ack_delay_ns)
            if packet.again and self.vague and not news:  # the acknowledgement of the first was on its way already
                usual = self.rtt_mean + 4 * self.rtt_spread
                self._sample(min(self.vague, 2 * usual) if usual else self.vague)  # it may have been a pause
                self._patience = self._timeout()
            return records
        if not self.owed:
            self.ack_at = now + self._timing.ack_delay_ns
        self.owed += 1
        if packet.again:
            self.owed = ACK_EVERY  # the peer waits to hear how far we are
        else:
            self.packets += 1
        skip = self.received + 1 - packet.first
        if skip < 0:
            self._miss(packet.first + len(records) - 1, now, 0)
            self._keep(packet.first, records, now)
            return []
        if skip:
            self.owed = ACK_EVERY
            if not packet.again:
                self.losses.late_after_all(packet.first, len(records), now)
            records = records[skip:]
            if not records:
                self.needless = packet.again
                return records
        if packet.again:
            self.losses.repaired(self.received + 1, len(records), self.stash, self.packets, now)
            self.complain_at = now + self.losses.late  # if more is missing, that was some news of it
        elif self.stash:
            self.losses.came(self.received + len(records), self.stash, now)
        self.received += len(records)
        return self._unstash(records, now) if self.stash else records

    def _miss(self, exists: int, now: int, least: int) -> None:
        """Records up to `exists` were sent, and some of them are not here; complain soon, but not before `least` has passed.

        One who hears of it by a packet without records waits a little: two that miss something would otherwise tell each other so
        without end.
        """
        if self.exists <= self.received:
            self.complain_at = now + max(self.losses.late, least)
        self.exists = max(self.exists, exists)
        if now >= self.complain_at:
            self.owed = ACK_EVERY
        elif self.ack_at is None or self.complain_at < self.ack_at:
            self.owed = self.owed or 1
            self.ack_at = self.complain_at

    def _keep(self, first: int, records: list[Sequenced], now: int) -> None:
        known = self.stash.get(first)
        if known is not None and len(known) >= len(records):
            return
        if self.stashed + len(records) > 2 * self.window:
            return  # it will be sent again
        self.stashed += len(records) - (len(known) if known is not None else 0)
        self.stash[first] = records
        self.losses.stashed(first, now)

    def _unstash(self, records: list[Sequenced], now: int) -> list[Sequenced]:
        records = list(records)
        while self.stash:
            first = min(self.stash)
            if first > self.received + 1:
                break
            run = self.stash.pop(first)
            self.losses.unstashed(first)
            self.stashed -= len(run)
            rest = run[self.received + 1 - first :]
            records.extend(rest)
            self.received += len(rest)
        if self.stash:  # something else is missing
            self.complain_at = max(now, self.losses.since() + self.losses.late)
        return records

    def _complained(self, ack: int, now: int) -> None:
        """The peer has records up to `ack`, and lacks the next one, unless that was repeated just now."""
        if ack > self.acked:
            self._acknowledged(ack, now)
        if self.timed_seq and not self.acked and not self.rtt_mean and not self.timed_again:
            self._sample(now - self.timed_at)  # of the first packet: it was no longer than that
        if ack == self.acked and self.unacked and (now >= self.answered_at or ack >= self.repeated):
            if now - self.answered_at >= 2 * self.rtt_least:
                self.growth = 0
            elif self.growth < _SCATTERED:
                self.growth += 1
            self.complaint = True
            self.resend_at = now

    def _acknowledged(self, ack: int, now: int) -> None:
        unacked = self.unacked
        count = ack - self.acked
        if count > len(unacked):
            raise RemoteProtocolError(f"acknowledgement of {ack} records, of which {self.sent} were sent")
        self.acked = ack
        self.answers = 0
        self.complaint = False
        if count == len(unacked):
            unacked.clear()
            self.resend_at = None
        else:
            for _ in range(count):
                unacked.popleft()
        timed = self.timed_seq and ack >= self.timed_seq
        if timed:
            self.timed_seq = 0
            if self.timed_again:
                self.vague = now - self.timed_at
            else:
                self._sample(now - self.timed_at)
        if timed or self.attempts:
            self.attempts = 0
            self._patience = self._timeout()
        if unacked:
            self.resend_at = now + self._patience
            if ack == self.repeated < self.then:  # or what follows had been acknowledged with it
                self.growth = min(self.growth + 1, _GROWTH_MAX)
                self.complaint = True
                self.resend_at = now

    def _sample(self, rtt: int) -> None:
        self.vague = 0
        if not self.rtt_mean:
            self.rtt_mean = self.rtt_least = rtt
            self.rtt_spread = rtt // 2
            return
        self.rtt_least = min(rtt, self.rtt_least + (rtt - self.rtt_least) // 64)
        more = abs(rtt - self.rtt_mean) - self.rtt_spread
        self.rtt_spread += more // 4 if more > 0 else more // 16  # some that are alike do not say that the next one will be
        self.rtt_mean += (rtt - self.rtt_mean) // 8

    def _timeout(self) -> int:
        """How long to wait for an acknowledgement: as long as one takes, where that is known, and twice as long each time."""
        timing = self._timing
        base = timing.retransmit_ns
        if self.rtt_mean:  # what was measured may contain the delay of acknowledgements or not
            base = max(self.rtt_mean + 4 * self.rtt_spread, self.rtt_least + timing.ack_delay_ns)
        return min(base << min(self.attempts, 16), max(timing.retransmit_max_ns, base))

    def deadline(self) -> int | None:
        """When this link wants to act: acknowledge, or send again."""
        resend, ack = self.resend_at, self.ack_at
        if resend is None:
            return ack
        if ack is None or resend < ack:
            return resend
        return ack
