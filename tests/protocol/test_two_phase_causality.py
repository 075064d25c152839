"""003 says that a two-phase order may contradict causality. It may where records overtake each other, not over FIFO links.

The records of real orderers are passed on by hand. Every history is judged by the same checks as a trace.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from isotone.pipeline.oracle import check_history
from tests.protocol.orderer_bench import Sites

CHECKS = ["total_pairwise", "total_global", "position", "causal", "reliable_fifo", "duplication"]


def violated(sites: Sites) -> list[str]:
    return list(check_history(sites.history(), CHECKS).violated())


def test_casts_that_overtake_each_other_are_ordered_against_causality() -> None:
    """0 sends x, then y. At both others y comes first, and 2's message is between them: x gets the larger proposals."""
    sites = Sites("two_phase", 3)
    sites.submit(0, b"x")
    sites.submit(0, b"y")
    sites.submit(2, b"z")
    sites.pass_one(0, 1, index=1)  # y
    sites.pass_one(2, 1)
    sites.pass_one(0, 1)  # x
    sites.pass_one(0, 2, index=1)
    sites.pass_one(0, 2)
    sites.settle()
    orders = [[cast.payloads[0] for _, cast, _, _ in bench.delivered] for bench in sites.benches]
    assert orders[0] == orders[1] == orders[2]
    assert orders[0].index(b"y") < orders[0].index(b"x")
    assert set(violated(sites)) == {"causal", "reliable_fifo", "position"}  # all agree on the order


def play(count: int, choices: list[int], overtaking: bool = False, outstanding: int = 5) -> Sites:
    """A schedule: every number chooses who sends or which record arrives next; then everything arrives."""
    sites = Sites("two_phase", count)

    def undelivered(rank: int) -> int:
        bench = sites.benches[rank]
        return bench.number - 1 - sum(sender == rank for sender, _, _, _ in bench.delivered)

    for choice in choices:
        ways = sites.ways()
        which = choice % (count + 2 * len(ways))
        if which < count:
            if undelivered(which) < outstanding:
                sites.submit(which)
        else:
            way = ways[(which - count) // 2]
            sites.pass_one(*way, index=choice // 97 % len(sites.queues[way]) if overtaking else 0)
    sites.settle()
    return sites


@given(st.integers(2, 4), st.lists(st.integers(0, 9_999), max_size=60))
def test_over_fifo_links_no_schedule_contradicts_causality(count: int, choices: list[int]) -> None:
    sites = play(count, choices)
    assert violated(sites) == []
    assert {len(order) for order in sites.orders()} == {sum(bench.number - 1 for bench in sites.benches)}


def drawn(seed: int) -> list[int]:
    random = Random(seed)
    return [random.randrange(10_000) for _ in range(60)]


def test_the_same_search_finds_contradictions_where_records_overtake() -> None:
    assert any("causal" in violated(play(3, drawn(seed), overtaking=True)) for seed in range(40))
    assert all(violated(play(3, drawn(seed))) == [] for seed in range(40))


def test_a_sender_that_waits_for_its_own_message_is_safe_even_then() -> None:
    """What a sender has delivered has a smaller final than what it sends next; only casts under way together can be exchanged."""
    assert all(violated(play(3, drawn(seed), overtaking=True, outstanding=1)) == [] for seed in range(60))
