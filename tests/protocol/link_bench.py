"""Links for tests: with short times, and records that say their number."""

from __future__ import annotations

from isotone.model.records import Direct, Packet, Sequenced
from isotone.model.settings import MS, Timing
from isotone.protocol.link.peer_link import PeerLink

TIMING = Timing(ack_delay_ns=5 * MS, retransmit_ns=30 * MS, retransmit_max_ns=200 * MS)


def link(window: int = 100) -> PeerLink:
    return PeerLink(TIMING, window)


def records(first: int, last: int) -> list[Sequenced]:
    """Records that say their number."""
    return [Direct(0, [number]) for number in range(first, last + 1)]


def numbers(run: list[Sequenced]) -> list[int]:
    return [record.stamp[0] for record in run]


def packet(first: int, run: list[Sequenced], ack: int = 0, again: bool = False) -> Packet:
    return Packet(1, "p#1", first, ack, run, [], again)


def run(first: int, last: int) -> Packet:
    return packet(first, records(first, last))


def repetition(first: int, last: int) -> Packet:
    """A run that was sent before."""
    return packet(first, records(first, last), again=True)


def acknowledge(sender: PeerLink, ack: int, now: int = 0) -> None:
    assert sender.receive(packet(0, [], ack), now) == []
