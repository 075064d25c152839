"""The schedulers of paper 002 against exhaustive search, the oracle and the paper's example; the page of the classes."""

import json
import sys
from itertools import combinations, permutations, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.conflicts import conflicts_from
from isotone.model.errors import TraceFormatError
from isotone.pipeline.oracle import Expectation, check_history
from isotone.pipeline.schedulers import (
    ORDERS,
    Arrivals,
    Multicasts,
    belongs,
    compare,
    delay,
    drawn,
    optimistic,
    recorded,
    relation,
    schedule,
)
from isotone.pipeline.schedulers.__main__ import main
from isotone.pipeline.schedulers.classes import Relation, acyclic, members
from isotone.pipeline.schedulers.containment import Counted, count, histories
from isotone.pipeline.schedulers.hasse import ALL, covers
from isotone.pipeline.schedulers.minimal import degree
from isotone.pipeline.schedulers.page import inside, write
from isotone.sim.scenario import parse_scenario
from isotone.sim.simulation import Simulation

DOCS = Path(__file__).parents[2] / "docs"
CHECKS = {"total": "total_global"}
seeds = st.integers(0, 1 << 30)


def by_site(events: list[tuple[int, int]]) -> list[list[int]]:
    return [[m for at, m in events if at == site] for site in sorted({site for site, _ in events})]


def outputs(order: str, run: Arrivals) -> tuple[Relation, list[tuple[int, int]]]:
    conflicts = relation(order, run.multicasts)
    return conflicts, [(site, message) for site, message, _ in schedule(conflicts, run.sequence)]


@st.composite
def small_runs(draw: st.DrawFn) -> Arrivals:
    messages, sites = draw(st.sampled_from([(3, 2), (3, 3), (4, 2), (5, 2)]))
    share, items = draw(st.sampled_from([0.0, 0.4, 0.8, 1.0])), draw(st.integers(1, 3))
    return drawn(draw(seeds), messages, sites, draw(st.sampled_from([0.3, 1.0, 4.0])), share, items)


@st.composite
def random_histories(draw: st.DrawFn) -> tuple[list[int], list[list[int]], set[tuple[int, int]]]:
    """Senders, the events of each site (`2 m + 1` a send, `2 m` a delivery), and the pairs that conflict."""
    sites, count_ = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    senders = sorted(draw(st.lists(st.integers(0, sites - 1), min_size=count_, max_size=count_)))
    random = Random(draw(seeds))
    sent: set[int] = set()
    events: list[list[int]] = [[] for _ in range(sites)]
    while True:
        steps = [(site, 2 * m) for site in range(sites) for m in sent if 2 * m not in events[site]]
        for site in range(sites):
            mine = [m for m, sender in enumerate(senders) if sender == site and m not in sent]
            steps += [(site, 2 * mine[0] + 1)] if mine else []
        if not steps:
            break
        site, event = random.choice(steps)
        events[site].append(event)
        sent |= {event >> 1} if event & 1 else set()
    pairs = {pair for pair in combinations(range(count_), 2) if random.random() < 0.5}
    return senders, events, pairs


def multicasts_of(senders: list[int], events: list[list[int]], pairs: set[tuple[int, int]]) -> Multicasts:
    """Happened-before as the least relation that is transitive and holds at each site, and from each send to its deliveries."""
    places = {(site, event): place for site, mine in enumerate(events) for place, event in enumerate(mine)}
    past = [0] * len(senders)
    for _ in senders:
        for later, sender in enumerate(senders):
            for event in events[sender][: places[sender, 2 * later + 1]]:
                past[later] |= past[event >> 1] | 1 << (event >> 1)
    conflicts = [
        sum(1 << two for two in range(len(senders)) if (min(one, two), max(one, two)) in pairs) for one in range(len(past))
    ]
    return Multicasts(senders, past, conflicts)


def rows_of(senders: list[int], events: list[list[int]], pairs: set[tuple[int, int]]) -> list[dict[str, Any]]:
    """A trace; messages that conflict share an item of their own."""
    rows = []
    for site, mine in enumerate(events):
        for step, event in enumerate(mine):
            message = event >> 1
            row = {"process": f"{'abc'[site]}#1", "step": step, "kind": "send" if event & 1 else "deliver"}
            number = 1 + sum(1 for other in senders[:message] if other == senders[message])
            row |= {"origin": f"{'abc'[senders[message]]}#1", "number": number}
            rows.append({**row, "items": [f"{one}-{two}" for one, two in sorted(pairs) if message in (one, two)]})
    return rows


@settings(max_examples=150, deadline=None)
@given(random_histories())
def test_a_history_is_in_a_class_if_the_check_of_that_order_is_content(
    history: tuple[list[int], list[list[int]], set[tuple[int, int]]],
) -> None:
    multicasts = multicasts_of(*history)
    schedules = [[event >> 1 for event in mine if not event & 1] for mine in history[1]]
    expected = Expectation(conflicts=conflicts_from({"by": "item"}))
    report = check_history(rows_of(*history), [CHECKS.get(order, order) for order in ORDERS], expected=expected)
    for order, check in zip(ORDERS, report.checks, strict=True):
        assert belongs(relation(order, multicasts), schedules) == (check.verdict == "ok"), order


@pytest.mark.parametrize(("messages", "sites"), [(2, 3), (3, 2)])
def test_the_counts_are_those_of_the_definition(messages: int, sites: int) -> None:
    found = count(messages, sites)
    again = Counted(messages, sites)
    pairs = list(combinations(range(messages), 2))
    for counts in product(range(messages + 1), repeat=sites):
        if sum(counts) != messages or list(counts) != sorted(counts, reverse=True):
            continue
        senders = [site for site, mine in enumerate(counts) for _ in range(mine)]
        for history, past in histories(senders, sites):
            again.histories += 1
            schedules = [[event >> 1 for event in local if not event & 1] for local in history]
            for chosen in product((False, True), repeat=len(pairs)):
                related = {pair for pair, yes in zip(pairs, chosen, strict=True) if yes}
                multicasts = multicasts_of(senders, [list(local) for local in history], related)
                assert multicasts.past == past
                classes = (belongs(relation(order, multicasts), schedules) for order in ORDERS)
                again.by_pattern[sum(yes << place for place, yes in enumerate(classes))] += 1
    assert (again.histories, again.by_pattern) == (found.histories, found.by_pattern)


def test_containment_of_the_classes() -> None:
    counted = [count(2, 2), count(3, 3)]
    larger = inside(counted)
    assert larger["causal"] == ["fifo", "semantic_fifo", "semantic_causal", ALL]
    assert larger["fifo"] == larger["semantic_causal"] == ["semantic_fifo", ALL]
    assert larger["total"] == ["semantic_total", ALL]
    assert larger["semantic_fifo"] == larger["semantic_total"] == [ALL]
    assert ("causal", "semantic_fifo") not in covers(larger)
    assert ("causal", "fifo") in covers(larger)
    assert counted[0].histories == 14  # by hand: two senders 4, 3 of them alike; one sender 5, of 2 x 2 delivery orders
    assert counted[1].example("fifo", "total") is not None
    assert counted[1].example("causal", "fifo") is None


def least_degree(conflicts: Relation, run: Arrivals) -> int:
    """Over all histories of the class: how much of the arrivals can one begin with?"""
    sites = by_site(run.sequence)
    best = 0
    for orders in product(*(permutations(range(len(run.multicasts.senders))) for _ in sites)):
        at = [0] * len(orders)
        common = 0
        for site, message in run.sequence:
            if orders[site][at[site]] != message:
                break
            at[site] += 1
            common += 1
        if common > best and belongs(conflicts, orders):
            best = common
    return len(run.sequence) - best


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=40, deadline=None)
@given(run=small_runs())
def test_no_history_of_the_class_is_nearer_to_the_arrivals(order: str, run: Arrivals) -> None:
    conflicts, output = outputs(order, run)
    assert belongs(conflicts, by_site(output))
    assert degree(run.sequence, output) == least_degree(conflicts, run)
    if belongs(conflicts, by_site(run.sequence)):
        assert output == run.sequence
    if not order.endswith("total"):  # then each site is on its own
        for x, y in zip(by_site(run.sequence), by_site(output), strict=True):
            every = (z for z in permutations(x) if belongs(conflicts, [z]))
            assert degree(x, y) == min(degree(x, z) for z in every)


@pytest.mark.parametrize("order", [order for order in ORDERS if not order.endswith("total")])
@settings(max_examples=30, deadline=None)
@given(seed=seeds, spread=st.sampled_from([0.3, 2.0]))
def test_nothing_is_held_longer_than_until_all_that_must_precede_it_is_there(order: str, seed: int, spread: float) -> None:
    run = drawn(seed, 12, 3, spread, 0.6, 2)
    conflicts = relation(order, run.multicasts)
    arrived = {event: index for index, event in enumerate(run.sequence)}
    for site, message, after in schedule(conflicts, run.sequence):
        needed, waiting = {message}, [message]
        while waiting:
            more = set(members(conflicts.sends[waiting.pop()])) - needed
            needed |= more
            waiting += more
        assert after == max(arrived[site, other] for other in needed)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, spread=st.sampled_from([0.1, 1.0, 5.0]), share=st.sampled_from([0.0, 0.3, 1.0]), items=st.integers(1, 4))
def test_schedules_belong_to_their_class_and_deliver_everything_after_it_arrived(
    seed: int, spread: float, share: float, items: int
) -> None:
    run = drawn(seed, 25, 4, spread, share, items)
    arrived = {event: index for index, event in enumerate(run.sequence)}
    for one in compare(run):
        conflicts = relation(one.order, run.multicasts)
        found = schedule(conflicts, run.sequence)
        assert sorted((site, message) for site, message, _ in found) == sorted(run.sequence)
        assert all(after >= arrived[site, message] for site, message, after in found)
        assert belongs(conflicts, by_site([(site, message) for site, message, _ in found]))
        assert one.belongs == (one.delay.degree == 0) == (one.delay.held == 0) == (one.aborted == 0)
        assert one.delay.by_site <= one.delay.degree
    degrees = {one.order: one.delay.degree for one in compare(run)}
    for small, larger in inside([count(2, 2), count(3, 2)]).items():  # the larger the class, the smaller the delay
        assert all(degrees[large] <= degrees[small] for large in larger if large != ALL)
    if not share:
        assert all(one.belongs for one in compare(run) if one.order.startswith("semantic"))


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, spread=st.sampled_from([0.3, 1.0, 4.0]), shuffle=st.booleans())
def test_the_optimistic_scheduler_aborts_what_would_close_a_cycle(order: str, seed: int, spread: float, shuffle: bool) -> None:
    run = drawn(seed, 14, 3, spread, 0.7, 2)
    sequence = list(run.sequence)
    if shuffle:  # a network that brings messages before they are at home
        Random(seed).shuffle(sequence)
    conflicts = relation(order, run.multicasts)
    kept: list[list[int]] = [[], [], []]
    aborted: list[int] = []
    undone = 0

    def closes_a_cycle(site: int, message: int) -> bool:
        before = [0 if m in aborted else mine for m, mine in enumerate(conflicts.sends)]
        for at, mine in enumerate(kept):
            seen = 0
            for other in [*mine, *([message] if at == site else [])]:
                before[other] |= seen & conflicts.receives[other]
                seen |= 1 << other
        gone = sum(1 << m for m in aborted)
        return not acyclic([mine & ~gone for mine in before])

    for site, message in sequence:
        if message in aborted:
            continue
        if closes_a_cycle(site, message):
            aborted.append(message)
            undone += sum(message in mine for mine in kept)
            kept = [[m for m in mine if m != message] for mine in kept]
        else:
            kept[site].append(message)
    found = optimistic(conflicts, sequence)
    assert (found.aborted, found.undone, list(found.schedules.values())) == (aborted, undone, kept)
    assert found.largest <= 14


def test_the_graph_of_the_optimistic_scheduler_holds_only_what_is_under_way() -> None:
    run = drawn(1, 400, 3, 0.5, 1.0)
    for order in ORDERS:
        assert optimistic(relation(order, run.multicasts), run.sequence).largest < 60


FIGURE = Arrivals(
    "figure 1",
    # ins(x) of a; upd(y) and del(x) of b; scroll and upd(y) of c. Before del(x), b had delivered ins(x) and scroll; before its
    # upd(y), c that of b.
    Multicasts([0, 1, 1, 2, 2], [0, 0, 0b01011, 0, 0b01010], [0b00100, 0b10000, 0b00001, 0, 0b00010]),
    [(0, 0), (1, 1), (2, 3), (1, 0), (1, 3), (1, 2), (0, 1), (0, 2), (0, 3), (2, 1), (2, 4), (0, 4), (1, 4), (2, 2), (2, 0)],
)


def test_the_shared_document_of_figure_1() -> None:
    found = {one.order: one for one in compare(FIGURE)}
    # c delivers del(x) before ins(x), which happened before it: they conflict. a delivers del(x) before scroll: they do not.
    assert {order: one.belongs for order, one in found.items()} == {
        "fifo": True, "causal": False, "total": False, "semantic_fifo": True, "semantic_causal": False, "semantic_total": False,
    }  # fmt: skip
    conflicts, output = outputs("semantic_causal", FIGURE)
    assert by_site(output) == [[0, 1, 2, 3, 4], [1, 0, 3, 2, 4], [3, 1, 4, 0, 2]]  # only c's del(x) waits, for ins(x)
    assert found["semantic_causal"].delay == (15, 2, 2, 1, 1)
    _, output = outputs("causal", FIGURE)
    assert by_site(output)[0] == [0, 1, 3, 2, 4]  # at a del(x) waits for scroll too
    assert found["causal"].delay == (15, 8, 3 + 2, 2, 2)
    assert by_site(outputs("semantic_total", FIGURE)[1]) == by_site(outputs("semantic_causal", FIGURE)[1])
    assert [one.aborted for one in found.values()][3:] == [0, 1, 1]
    assert optimistic(conflicts, FIGURE.sequence).aborted == [0]


def test_the_degree_is_the_length_less_the_common_prefix() -> None:
    assert degree("abcd", "abdc") == 2
    assert degree("abcd", "abcd") == 0
    assert degree("abcd", "bacd") == 4
    fifo = Multicasts([0, 0, 1], [0, 1, 0], [0b111] * 3)
    arrivals = [(0, 2), (0, 1), (0, 0)]
    found = schedule(relation("fifo", fifo), arrivals)
    assert [(message, after) for _, message, after in found] == [(2, 0), (0, 2), (1, 2)]
    assert delay(arrivals, found) == (3, 2, 2, 1, 1)


def simulated(order: str, receives: bool = True) -> list[Any]:
    """Three members at which the same message arrives at very different times."""
    links = [{"from": ["a"], "to": ["c"], "latency": {"kind": "uniform", "min_ms": 20.0, "max_ms": 60.0}}]
    phases = [{"items": [item], "interval_ms": 18.0, "start_ms": 1000.0, "stop_ms": 1100.0} for item in "xyz"]
    run = {"members": ["a", "b", "c"], "duration_ms": 1600.0, "order": order, "trace_receives": receives, "workload": phases}
    latency = {"kind": "uniform", "min_ms": 1.0, "max_ms": 5.0}
    return list(Simulation(parse_scenario({**run, "network": {"latency": latency, "links": links}})).run().rows)


@pytest.mark.parametrize("order", ["causal", "single_phase"])
def test_recorded_arrivals(order: str) -> None:
    rows = simulated(order)
    (run,) = recorded(rows, conflicts_from({"by": "item"}))
    sent = sorted((row["origin"], row["number"]) for row in rows if row["kind"] == "send")
    assert len(run.multicasts.senders) == len(sent) > 40
    assert len(run.sequence) == 3 * len(sent)
    assert run.left_out == 0
    found = {one.order: one for one in compare(run)}
    assert found["fifo"].belongs  # links keep the order of a sender's messages
    assert found["total"].delay.waited > found["semantic_total"].delay.waited > 0
    if order == "causal":  # the protocol is the scheduler
        assert found["causal"].delay.held > found["semantic_causal"].delay.held > 0
        delivered = [
            [(r["origin"], r["number"]) for r in rows if r["kind"] == "deliver" and r["process"][0] == site] for site in "abc"
        ]
        assert [[sent[message] for message in mine] for mine in by_site(outputs("causal", run)[1])] == delivered


def test_what_did_not_arrive_everywhere_is_left_out() -> None:
    rows = simulated("fifo")
    lost = next(row for row in rows if row["kind"] == "receive")
    (run,) = recorded([row for row in rows if row is not lost])
    assert run.left_out == 1
    assert len(run.sequence) == 3 * len(run.multicasts.senders)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trace, relation_file = tmp_path / "trace.jsonl", tmp_path / "conflicts.toml"
    relation_file.write_text('by = "item"')
    trace.write_text("\n".join(json.dumps(row) for row in simulated("causal")))
    monkeypatch.setattr(sys, "argv", ["schedulers", str(trace), "--conflicts", str(relation_file)])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert "messages" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == list(ORDERS)
    trace.write_text("\n".join(json.dumps(row) for row in simulated("causal", receives=False)))
    with pytest.raises(SystemExit, match="no receive rows: write the trace with trace_receives"):
        main()
    with pytest.raises(TraceFormatError):
        recorded(simulated("causal", receives=False))


def test_the_page_is_what_the_command_makes(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("semantic-classes.md", "semantic-classes.svg"):
        assert (tmp_path / name).read_text("utf-8") == (DOCS / name).read_text("utf-8"), f"make docs/{name} again"
