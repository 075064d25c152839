"""The links of one view: which have something to say, and when one of them wants to act.

`alarm` is never later than the first deadline of a link; it may be earlier.
"""

from __future__ import annotations

from isotone.model.records import Sequenced
from isotone.model.settings import Timing
from isotone.protocol.link.peer_link import PeerLink

NEVER = 1 << 62

Outgoing = tuple[int, int, int, list[Sequenced], bool]
"""(rank, first, ack, records, again); ack 0 says nothing."""


class Links:
    """One link per peer, by rank."""

    def __init__(self, rank: int, count: int, timing: Timing, records: int) -> None:
        self.of: list[PeerLink | None] = [None if peer == rank else PeerLink(timing, records) for peer in range(count)]
        self.peers = [(peer, link) for peer, link in enumerate(self.of) if link is not None]
        self.others = frozenset(peer for peer, _ in self.peers)
        self.dirty: set[int] = set()  # ranks that have something to be sent
        self.alarm = NEVER

    def give(self, rank: int, record: Sequenced) -> None:
        """Send a record to one peer."""
        link = self.of[rank]
        if link is not None:
            link.fresh.append(record)
            self.dirty.add(rank)

    def packets(self, now: int) -> tuple[list[Outgoing], int]:
        """What every link that has something to say sends now; and how many records of it are sent again."""
        result: list[Outgoing] = []
        repeated = 0
        for rank in sorted(self.dirty):
            link = self.of[rank]
            if link is None:
                continue
            resend_at = link.resend_at
            if link.connected_again or (resend_at is not None and now >= resend_at):
                again = link.retransmit(now)
                if again is not None:
                    repeated += len(again[1])
                    result.append((rank, again[0], link.acknowledge(now), again[1], True))
            packet = link.next_packet(now)
            if packet is not None:
                result.append((rank, *packet))
            deadline = link.deadline()
            if deadline is not None and deadline < self.alarm:
                self.alarm = deadline
        self.dirty.clear()
        return result, repeated

    def heard(self, now: int) -> tuple[int, int]:
        """How many packets have come that were no repetitions, and how many were lost."""
        return sum(link.packets for _, link in self.peers), sum(link.losses.lost(now) for _, link in self.peers)

    def say(self, rank: int, now: int) -> tuple[int, int]:
        """The next number and the acknowledgement for a packet without records to one peer; (0, 0) without a link."""
        link = self.of[rank]
        if link is None:
            return 0, 0
        ack = link.say(now)
        if link.ack_at is not None and link.ack_at < self.alarm:
            self.alarm = link.ack_at
        return link.sent + 1, ack

    def wake(self, now: int) -> None:
        """A deadline may have come."""
        if now < self.alarm:
            return
        self.alarm = NEVER
        for rank, link in self.peers:
            deadline = link.deadline()
            if deadline is None:
                continue
            if deadline <= now:
                self.dirty.add(rank)
            elif deadline < self.alarm:
                self.alarm = deadline
