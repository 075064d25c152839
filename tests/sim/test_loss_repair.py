"""What a lost packet costs: links repeat when they hear that something is missing, long before their time-out."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from msgspec import structs

from isotone.model.ids import ProcessId
from isotone.model.records import Packet, Sequenced
from isotone.protocol.epoch import Epoch
from isotone.protocol.link.losses import Losses
from isotone.protocol.link.peer_link import PeerLink
from isotone.sim import Simulation, parse_scenario

MS = 1_000_000
TIME_OUT_MS = 100


def run(
    network: dict[str, Any], interval_ms: float, order: str = "single_phase", size: int = 50, at_ms: int = 1_500, **timing: int
) -> tuple[list[float], int]:
    """Latencies in ms of a group under load, and how many records it sent again."""
    simulation = Simulation(
        parse_scenario(
            {
                "members": ["a", "b", "c", "d"],
                "duration_ms": 16_000,
                "seed": 3,
                "order": order,
                "timing": {"retransmit_ms": TIME_OUT_MS, **timing},
                "network": {"latency": {"kind": "uniform", "min_ms": 2, "max_ms": 4}},
                "workload": [
                    {
                        "kind": "poisson",
                        "interval_ms": interval_ms,
                        "start_ms": 2_000,
                        "stop_ms": 8_000,
                        "size_min": size,
                        "size_max": size,
                    }
                ],
                "faults": [{"kind": "set", "at_ms": at_ms, **network}],
            }
        )
    )
    result = simulation.run()
    sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
    delivered = [row for row in result.rows if row["kind"] == "deliver"]
    assert len(delivered) == 4 * len(sent)
    again = sum(process.endpoint.counters.get("retransmissions", 0) for process in result.processes.values())
    return [(row["time"] - sent[row["origin"], row["number"]]) / MS for row in delivered], again


def patient(self: PeerLink) -> int:
    """A time-out that knows nothing of round trips."""
    return self._timing.retransmit_ns << min(self.attempts, 4)


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links repeat for complaints and for time-outs, but not as soon as an acknowledgement should have come."""
    monkeypatch.setattr(PeerLink, "_timeout", patient)


@pytest.mark.usefixtures("no_hurry")
def test_a_loss_under_load_is_repaired_without_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three per cent lost: a message waits for its repetition, or for that of another, but for no time-out."""
    soon, _ = run({"loss": 0.03}, interval_ms=10)
    monkeypatch.setattr(PeerLink, "_complained", lambda self, ack, now: ack > self.acked and self._acknowledged(ack, now))
    late, _ = run({"loss": 0.03}, interval_ms=10)
    assert 4 * fmean(soon) < fmean(late)
    assert sorted(soon)[int(0.99 * len(soon))] < TIME_OUT_MS < sorted(late)[int(0.99 * len(late))]


@pytest.mark.usefixtures("no_hurry")
def test_the_last_record_before_a_silence_is_missed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token goes to one member, and nothing follows it on its link but packets without records, which tell that it is there."""
    receive = PeerLink.receive

    def deaf(self: PeerLink, packet: Packet, now: int) -> list[Sequenced]:
        return receive(self, packet if packet.records else structs.replace(packet, first=0), now)

    soon, _ = run({"loss": 0.03}, interval_ms=200, order="token", retransmit_ms=400)
    monkeypatch.setattr(PeerLink, "receive", deaf)
    late, _ = run({"loss": 0.03}, interval_ms=200, order="token", retransmit_ms=400)
    assert 1.5 * fmean(soon) < fmean(late)


def test_the_last_record_before_a_silence_goes_out_again_when_its_acknowledgement_should_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon, _ = run({"loss": 0.03}, interval_ms=200, order="token", retransmit_ms=400, heartbeat_ms=400)
    monkeypatch.setattr(PeerLink, "_timeout", patient)
    late, _ = run({"loss": 0.03}, interval_ms=200, order="token", retransmit_ms=400, heartbeat_ms=400)
    assert 1.5 * fmean(soon) < fmean(late)


def test_where_nothing_is_lost_nothing_is_repeated() -> None:
    """However often acknowledgements go out early or late."""
    for interval in (0.5, 10, 200):
        for order in ("single_phase", "token"):
            assert run({"loss": 0}, interval_ms=interval, order=order)[1] == 0


def test_what_comes_late_is_seldom_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where packets overtake each other, links learn for how long they have to wait for one."""
    network = {"reorder": 0.2, "reorder_ms": 10.0}
    _, again = run(network, interval_ms=10)
    monkeypatch.setattr(Losses, "late", property(lambda self: 0, lambda self, value: None))
    _, always = run(network, interval_ms=10)
    assert 4 * again < always


@pytest.mark.parametrize("order", ["single_phase", "token"])
def test_a_network_that_slows_down_is_soon_known(order: str) -> None:
    """Delays are thirty times as long as they were, and acknowledgements later than any that was seen."""
    slow = {"latency": {"kind": "uniform", "min_ms": 70, "max_ms": 130}}
    latencies, again = run(slow, 20, order, heartbeat_ms=300, at_ms=4_000)
    assert again < len(latencies) / 6


def test_a_wire_that_is_half_full_is_not_filled_with_repetitions() -> None:
    """Each member sends 5.3 of 10 Mbit/s to each other, 2 % get lost. Repeating eight of them would go on filling it."""
    wire = {"latency": {"kind": "constant", "ms": 1}, "bandwidth_bps": 10_000_000, "loss": 0.02}
    latencies, again = run(wire, interval_ms=12, size=8_000)  # which sees that everything is delivered
    assert again < len(latencies) / 10
    assert fmean(latencies) < 2 * fmean(run({**wire, "loss": 0}, interval_ms=12, size=8_000)[0])


def test_no_deadline_of_a_link_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the packets lost: an acknowledgement of a part brings the time-out of the rest forward."""
    receive, seen = Epoch.receive, 0

    def watched(self: Epoch, peer: ProcessId, packet: Packet, now: int) -> None:
        nonlocal seen
        receive(self, peer, packet, now)
        for rank, link in self.links.peers:
            deadline = link.deadline()
            seen += deadline is not None
            assert deadline is None or rank in self.links.dirty or self.links.alarm <= deadline

    monkeypatch.setattr(Epoch, "receive", watched)
    run({"loss": 0.5}, interval_ms=60, heartbeat_ms=5_000, soft_ms=20_000, hard_ms=40_000)
    assert seen > 1000
