"""The bounds that `ordering/gathering.py` states, for every message of simulated runs with drawn delays, loads and sizes."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from isotone.sim.scenario import parse_scenario
from isotone.sim.simulation import Result, Simulation
from tests.protocol.orderer_bench import Sites

MS = 1_000_000
START_MS = 3_000
Delays = dict[tuple[int, int], int]


def simulate(count: int, network: dict[str, Any], phases: list[dict[str, Any]], seed: int, acks: str = "gathered") -> Result:
    """A group that nothing happens to but the phases, which begin when it has formed."""
    return Simulation(
        parse_scenario(
            {
                "name": "bounds",
                "members": [f"n{index}" for index in range(count)],
                "duration_ms": START_MS + 2_000,
                "seed": seed,
                "order": "single_phase",
                "options": {"acks": acks},
                "network": network,
                "workload": [{"start_ms": START_MS, "stop_ms": START_MS + 1_000, **phase} for phase in phases],
            }
        )
    ).run()


def latencies(result: Result) -> list[tuple[int, int, int]]:
    """(sender, receiver, time from send to deliver) of every delivery."""
    rank = {f"n{index}#1": index for index in range(len(result.processes))}
    sent = {(row["origin"], row["number"]): row["time"] for row in result.rows if row["kind"] == "send"}
    delivered = [row for row in result.rows if row["kind"] == "deliver"]
    assert len(delivered) == len(sent) * len(rank) > 0
    return [(rank[r["origin"]], rank[r["process"]], r["time"] - sent[r["origin"], r["number"]]) for r in delivered]


def drawn_load(random: Random, count: int) -> list[dict[str, Any]]:
    """From one sender now and then to everybody busily."""
    senders = random.sample(range(count), random.randint(1, count))
    return [
        {"kind": "poisson", "members": [f"n{s}"], "interval_ms": random.choice([3, 10, 40, 200]), "count": 40} for s in senders
    ]


def control(result: Result) -> int:
    """The packets of acknowledgements, point to point."""
    rows = [row for row in result.rows if row["kind"] == "packet" and row["packet"] in ("ack", "gathered")]
    return sum(row["count"] * row["fanout"] for row in rows)


@pytest.mark.parametrize("seed", range(12))
def test_three_delays_and_a_linear_number_of_packets_whatever_the_delays(seed: int) -> None:
    """Every link has a delay of its own, drawn: the exact bound for each sender, and that of packets for all together."""
    random = Random(seed)
    count = random.choice([2, 3, 4, 5, 8])
    delay = {(a, b): random.randint(1, 30) for a, b in product(range(count), repeat=2) if a != b}
    links = [{"from": [f"n{a}"], "to": [f"n{b}"], "latency": {"kind": "constant", "ms": ms}} for (a, b), ms in delay.items()]
    result = simulate(count, {"links": links}, drawn_load(random, count), seed)
    longest = max(delay.values())
    for sender, _, took in latencies(result):
        collector = (sender - 1) % count
        others = [site for site in range(count) if site != sender]
        there = max(delay[sender, site] + delay.get((site, collector), 0) for site in others)
        assert took <= (there + longest) * MS
    operations = sum(row["kind"] == "send" for row in result.rows)
    assert control(result) <= (2 * count - 3) * operations


@pytest.mark.parametrize("seed", range(6))
def test_three_delays_with_jitter(seed: int) -> None:
    random = Random(100 + seed)
    count = random.choice([3, 5, 8])
    network = {"latency": {"kind": "uniform", "min_ms": 0.5, "max_ms": 20}}
    result = simulate(count, network, drawn_load(random, count), seed)
    assert max(took for _, _, took in latencies(result)) <= 3 * 20 * MS


def test_with_equal_delays_the_bounds_are_reached() -> None:
    """The first operation of the last site: the others must say their clocks, and its collector delivers a delay before them."""
    count, last = 5, 4
    phase = {"members": ["n4"], "interval_ms": 2_000, "spread": False}
    for acks, remote, collector in (("gathered", 3, 2), ("multicast", 2, 2)):
        result = simulate(count, {"latency": {"kind": "constant", "ms": 10}}, [phase], 1, acks)
        took = {receiver: time / (10 * MS) for _, receiver, time in latencies(result)}
        assert took == {0: remote, 1: remote, 2: remote, 3: collector, 4: remote}
        assert control(result) == {"gathered": 2 * count - 3, "multicast": last * (count - 1)}[acks]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_no_schedule_takes_more_than_the_packets_of_the_bound(count: int) -> None:
    for seed in range(60):
        random = Random(seed)
        sites = Sites("single_phase", count, acks="gathered")
        operations = 0
        for _ in range(120):
            ways = sites.ways()
            if not ways or random.random() < 0.15:
                sites.submit(random.randrange(count))
                operations += 1
            else:
                sites.pass_one(*random.choice(ways))
        sites.settle()
        assert sites.orders() == [sites.orders()[0]] * count
        assert len(sites.orders()[0]) == operations
        assert sites.packets - operations * (count - 1) <= (2 * count - 3) * operations
