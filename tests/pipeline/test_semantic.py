"""The semantic checks against brute force on small random histories, and their errors."""

from itertools import combinations, permutations
from random import Random
from typing import Any

import pytest

from isotone.model.conflicts import Conflicts, conflicts_from
from isotone.model.errors import ConfigError
from isotone.pipeline.oracle import Expectation, check_history
from tests.pipeline.generate import RELATIONS
from tests.pipeline.oracle_text import history

Row = dict[str, Any]
Message = tuple[str, int]
NAMES = ("a#1", "b#1", "c#1", "d#1")


def scramble(random: Random) -> list[Row]:
    """Anyone delivers anything, in any order, any time after it was sent; types and items as they come."""
    rows: list[Row] = []
    about: dict[Message, Row] = {}
    had: dict[str, set[Message]] = {name: set() for name in NAMES}
    for step in range(random.randint(4, 20)):
        name = random.choice(NAMES)
        open_to = [message for message in about if message not in had[name]]
        if open_to and random.random() < 0.65:
            message = random.choice(open_to)
            had[name].add(message)
            rows.append({**about[message], "process": name, "step": step, "kind": "deliver"})
        elif len(about) < 6:
            number = 1 + sum(origin == name for origin, _ in about)
            row: Row = {"origin": name, "number": number}
            if random.random() < 0.9:
                row["type"] = random.choice("uid")
            if random.random() < 0.9:
                row["items"] = random.sample("xyz", random.randint(0, 2))
            about[name, number] = row
            rows.append({**row, "process": name, "step": step, "kind": "send"})
    return rows


class Brute:
    """The definitions, word by word."""

    def __init__(self, rows: list[Row], relation: Conflicts) -> None:
        self.relation = relation
        self.about = {(row["origin"], row["number"]): row for row in rows}
        self.orders: dict[str, list[Message]] = {name: [] for name in NAMES}
        self.past: dict[Message, set[Message]] = {}
        known: dict[str, set[Message]] = {name: set() for name in NAMES}
        for row in rows:
            message = (row["origin"], row["number"])
            if row["kind"] == "send":
                self.past[message] = set(known[row["process"]])
            else:
                self.orders[row["process"]].append(message)
                known[row["process"]] |= self.past[message]
            known[row["process"]].add(message)

    def conflict(self, one: Message, two: Message) -> bool:
        a, b = self.about[one], self.about[two]
        return self.relation.conflict(a.get("type"), a.get("items"), b.get("type"), b.get("items"))

    def pairs(self) -> list[tuple[Message, Message]]:
        """Conflicting pairs, the first delivered before the second by some process."""
        return [pair for order in self.orders.values() for pair in combinations(order, 2) if self.conflict(*pair)]

    def fifo(self) -> bool:
        return all(one[0] != two[0] or one[1] < two[1] for one, two in self.pairs())

    def causal(self) -> bool:
        return all(two not in self.past[one] for one, two in self.pairs())

    def shortest_cycle(self) -> int:
        edges = set(self.pairs())
        for length in range(2, len(self.about) + 1):
            for cycle in permutations(self.about, length):
                if all((cycle[i - 1], cycle[i]) in edges for i in range(length)):
                    return length
        return 0


@pytest.mark.parametrize("relation", RELATIONS, ids=[relation.by for relation in RELATIONS])
def test_against_the_definitions(relation: Conflicts) -> None:
    lengths: set[int] = set()
    for seed in range(500):
        rows = scramble(Random(seed))
        if not any(row["kind"] == "deliver" for row in rows):
            continue
        brute = Brute(rows, relation)
        cycle = brute.shortest_cycle()
        expected = {"semantic_fifo": brute.fifo(), "semantic_causal": brute.causal(), "semantic_total": cycle == 0}
        report = check_history(rows, list(expected), expected=Expectation(conflicts=relation))
        assert {check.name: check.verdict == "ok" for check in report.checks} == expected, seed
        if cycle:
            witness = report.checks[2].witness
            assert witness is not None
            assert len(witness.messages) == cycle, seed
            lengths.add(cycle)
    assert max(lengths) > 2


def test_without_a_relation_they_are_the_plain_checks() -> None:
    plain = {"semantic_fifo": "fifo", "semantic_causal": "causal", "semantic_total": "total_global"}
    for seed in range(300):
        rows = scramble(Random(seed))
        report = check_history(rows, [*plain, *plain.values()])
        verdicts = {check.name: check.verdict for check in report.checks}
        assert all(verdicts[name] == verdicts[other] for name, other in plain.items()), seed


COUNTER = conflicts_from({"by": "operation", "operations": {"update": ["update"], "increment": []}})


def test_undeclared_type_names_the_message_and_the_nearest_type() -> None:
    rows = history("a: +1:update +2:updat a1 a2")
    with pytest.raises(ConfigError, match=r"message a#1:2: unknown message type 'updat': did you mean 'update'\?"):
        check_history(rows, ["semantic_fifo"], expected=Expectation(conflicts=COUNTER))


def test_item_without_a_name_names_the_message() -> None:
    rows: list[Row] = [{"process": "a#1", "step": 1, "kind": "deliver", "origin": "a#1", "number": 1, "items": [""]}]
    with pytest.raises(ConfigError, match="message a#1:1: an item of a message has no name"):
        check_history(rows, ["semantic_total"], expected=Expectation(conflicts=conflicts_from({"by": "item"})))


def test_type_of_a_message_whose_send_is_not_recorded_is_that_of_its_delivery() -> None:
    about = [{"origin": "z#1", "number": number, "type": "increment"} for number in (1, 2)]
    rows = [
        {"process": name, "step": step, "kind": "deliver", **about[index]}
        for name, order in (("a#1", (0, 1)), ("b#1", (1, 0)))
        for step, index in enumerate(order)
    ]
    assert check_history(rows, ["semantic_total"], expected=Expectation(conflicts=COUNTER)).verdict == "ok"
    assert check_history(rows, ["semantic_total"]).verdict == "violated"
