"""The clever checks against brute force on small random histories."""

from itertools import combinations, permutations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.pipeline.oracle import check_history
from isotone.pipeline.oracle.history import index_runs
from isotone.pipeline.oracle.total import leftover, shortest_cycle

LETTERS = "abcd"
Message = tuple[str, int]


@st.composite
def delivery_orders(draw: st.DrawFn) -> list[list[int]]:
    messages = list(range(draw(st.integers(2, 6))))
    return [draw(st.permutations(messages))[: draw(st.integers(0, len(messages)))] for _ in range(draw(st.integers(1, 4)))]


def rows_of_orders(orders: list[list[int]]) -> list[dict[str, Any]]:
    return [
        {"process": f"{LETTERS[i]}#1", "step": step, "kind": "deliver", "origin": "z#1", "number": message}
        for i, order in enumerate(orders)
        for step, message in enumerate(order)
    ]


def edges(orders: list[list[int]]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {}
    for order in orders:
        for first, second in combinations(order, 2):
            after.setdefault(first, set()).add(second)
    return after


def has_cycle(after: dict[int, set[int]]) -> bool:
    """Depth first: is some message reachable from itself?"""

    def reaches(start: int, goal: int, seen: set[int]) -> bool:
        return any(node == goal or (node not in seen and reaches(node, goal, seen | {node})) for node in after.get(start, ()))

    return any(reaches(message, message, set()) for message in after)


def shortest_length(orders: list[list[int]]) -> int:
    after = edges(orders)
    for length in range(2, len(after) + 1):
        for cycle in permutations(after, length):
            if all(cycle[(i + 1) % length] in after[cycle[i]] for i in range(length)):
                return length
    return 0


@settings(max_examples=300, deadline=None)
@given(delivery_orders())
def test_total_global_against_depth_first_search(orders: list[list[int]]) -> None:
    rows = rows_of_orders(orders)
    expected = has_cycle(edges(orders))
    if rows:
        assert check_history(rows, ["total_global"]).verdict == ("violated" if expected else "ok")
    assert bool(leftover(orders)) == expected
    if expected:
        cycle = shortest_cycle(leftover(orders))
        assert len(cycle) == shortest_length(orders)
        for (message, _), (following, _) in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert following in edges(orders)[message]


@settings(max_examples=300, deadline=None)
@given(delivery_orders())
def test_total_pairwise_against_all_pairs(orders: list[list[int]]) -> None:
    rows = rows_of_orders(orders)
    swapped = any(
        (first, second) in set(combinations(other, 2))
        for one in orders
        for second, first in combinations(one, 2)
        for other in orders
    )
    if rows:
        assert check_history(rows, ["total_pairwise"]).verdict == ("violated" if swapped else "ok")


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, str, Message]]:
    """Steps of an execution in which a message may be delivered by anyone, in any order, any time after it was sent."""
    steps: list[tuple[str, str, Message]] = []
    sent: list[Message] = []
    had: dict[str, set[Message]] = {letter: set() for letter in LETTERS}
    for _ in range(draw(st.integers(2, 16))):
        who = draw(st.sampled_from(LETTERS))
        open_to = [message for message in sent if message not in had[who]]
        if draw(st.booleans()) and open_to:
            message = draw(st.sampled_from(open_to))
            had[who].add(message)
            steps.append((who, "deliver", message))
        else:
            message = (who, 1 + sum(other[0] == who for other in sent))
            sent.append(message)
            steps.append((who, "send", message))
    return steps


def causal_past(steps: list[tuple[str, str, Message]]) -> dict[Message, set[Message]]:
    """By the definition: what the sender had sent or delivered before, closed transitively."""
    past: dict[Message, set[Message]] = {}
    for index, (who, kind, message) in enumerate(steps):
        if kind == "send":
            direct = {other for by, _, other in steps[:index] if by == who}
            past[message] = direct.union(*(past[other] for other in direct))
    return past


def rows_of_run(steps: list[tuple[str, str, Message]]) -> list[dict[str, Any]]:
    return [
        {"process": f"{who}#1", "step": step, "kind": kind, "origin": f"{message[0]}#1", "number": message[1]}
        for step, (who, kind, message) in enumerate(steps)
    ]


def late_deliveries(steps: list[tuple[str, str, Message]]) -> int:
    past = causal_past(steps)
    count = 0
    for letter in LETTERS:
        order = [message for who, kind, message in steps if who == letter and kind == "deliver"]
        count += sum(any(message in past[early] for early in order[:i]) for i, message in enumerate(order))
    return count


@settings(max_examples=400, deadline=None)
@given(runs())
def test_causal_against_transitive_closure(steps: list[tuple[str, str, Message]]) -> None:
    rows = rows_of_run(steps)
    if not any(kind == "deliver" for _, kind, _ in steps):
        return
    late = late_deliveries(steps)
    [result] = check_history(rows, ["causal"]).checks
    assert (result.verdict, result.violations) == ("violated" if late else "ok", late)
    assert (result.witness is not None) == bool(late)


@settings(max_examples=300, deadline=None)
@given(runs(), st.data())
def test_position_against_all_pairs(steps: list[tuple[str, str, Message]], data: st.DataObject) -> None:
    """Every message gets a random place, the same everywhere: wrong if two share it, or if an order contradicts it."""
    delivered = sorted({message for _, kind, message in steps if kind == "deliver"})
    if not delivered:
        return
    place = {message: data.draw(st.integers(0, 12)) for message in delivered}
    rows = [
        {**row, "position": (place[message],)} if row["kind"] == "deliver" else row
        for row, (_, _, message) in zip(rows_of_run(steps), steps, strict=True)
    ]
    past = causal_past(steps)
    wrong = len(set(place.values())) < len(place)
    wrong |= any(place[m] >= place[n] for n in delivered for m in past[n] if m in place)
    for letter in LETTERS:
        order = [place[message] for who, kind, message in steps if who == letter and kind == "deliver"]
        wrong |= order != sorted(order)
    assert check_history(rows, ["position"]).verdict == ("violated" if wrong else "ok")


@settings(max_examples=100, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_replay_respects_happened_before(steps: list[tuple[str, str, Message]], random: Any) -> None:
    rows = rows_of_run(steps)
    random.shuffle(rows)
    [history] = index_runs(rows)
    placed, premature = history.replay()
    assert premature == []
    assert len(placed) == len(steps)
    sent: set[int] = set()
    for _, event in placed:
        if event & 1:
            sent.add(event >> 1)
        else:
            assert event >> 1 in sent
