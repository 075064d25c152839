"""The kernels on whole runs, each against the definition on small random input."""

import random
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from isotone.pipeline.kernels import causal, order, semantic, single
from isotone.pipeline.kernels.compact import Compact, assemble, part_of
from isotone.pipeline.kernels.load import Columns, Rejects, load
from isotone.pipeline.oracle import check_history
from isotone.pipeline.oracle.total import leftover
from isotone.pipeline.plan import make_plan
from isotone.trace.columns import table_of_rows
from tests.pipeline.generate import RELATIONS

LETTERS = "abcd"
Rows = list[dict[str, Any]]


def columns(path: Path, rows: Rows) -> Columns:
    file = path / "rows.parquet"
    pq.write_table(table_of_rows(rows), file)
    return load(make_plan([str(file)]).sources, Rejects(), every_column=True)


def compact(path: Path, rows: Rows, more: tuple[str, ...] = ()) -> Compact:
    names = sorted({row["process"] for row in rows})
    parts = [part_of(columns(path, [row for row in rows if row["process"] == name]), more) for name in names]
    return assemble([part for part in parts if part is not None], names)


def random_run(chance: random.Random) -> Rows:
    """Everybody sends; everybody delivers what was sent by then, in any order, perhaps not all."""
    rows: Rows = []
    sent: list[tuple[str, int]] = []
    had: dict[str, list[tuple[str, int]]] = {letter: [] for letter in LETTERS}
    for step in range(chance.randint(4, 40)):
        who = chance.choice(LETTERS)
        left = [message for message in sent if message not in had[who]]
        event: dict[str, Any] = {"process": f"{who}#1", "step": step}
        if left and chance.random() < 0.7:
            message = chance.choice(left[:2]) if chance.random() < 0.9 else chance.choice(left)
            had[who].append(message)
            event["kind"] = "deliver"
        else:
            message = (who, 1 + sum(origin == who for origin, _ in sent))
            sent.append(message)
            event["kind"] = "send"
        rows.append({**event, "origin": f"{message[0]}#1", "number": message[1]})
    return rows


@pytest.mark.parametrize("seed", range(150))
def test_orders_against_the_oracle(tmp_path: Path, seed: int) -> None:
    """A kernel finds messages exactly if the oracle finds a violation, and the rows about them show it again."""
    rows = random_run(random.Random(seed))
    run = compact(tmp_path, rows)
    kernels = {"fifo": single.fifo, "causal": causal.causal, "total_pairwise": order.total_pairwise}
    for name, kernel in {**kernels, "total_global": order.total_global}.items():
        [expected] = check_history(rows, [name]).checks
        found = kernel(run)
        assert bool(found) == (expected.verdict == "violated"), name
        if found:
            some = [row for row in rows if (row["origin"], row["number"]) in found]
            assert check_history(some, [name]).verdict == "violated", name


def test_the_certificate_of_causal_order_is_used_and_right(tmp_path: Path) -> None:
    """It never certifies what is violated, and it does certify histories in which all deliver everything in one order."""
    certified = 0
    for seed in range(300):
        rows = random_run(random.Random(seed))
        if causal.certified(compact(tmp_path, rows)):
            assert check_history(rows, ["causal"]).verdict != "violated"
            certified += 1
    assert certified > 5
    rows = [{"process": "a#1", "step": n, "kind": "send", "origin": "a#1", "number": n} for n in range(1, 9)]
    rows += [
        {"process": f"{p}#1", "step": 100 + n, "kind": "deliver", "origin": "a#1", "number": n}
        for p in "abc"
        for n in range(1, 9)
    ]
    assert causal.certified(compact(tmp_path, rows))


def test_islands_hold_every_cycle() -> None:
    chance = random.Random(5)
    for _ in range(400):
        messages = list(range(chance.randint(2, 12)))
        chains = []
        for _ in range(chance.randint(1, 5)):
            chain = [message for message in messages if chance.random() < 0.8]
            for _ in range(chance.choice((0, 0, 1, 3))):
                if len(chain) > 1:
                    at = chance.randrange(len(chain) - 1)
                    chain[at], chain[at + 1] = chain[at + 1], chain[at]
            chains.append(chain)
        arrays = [np.array(chain, dtype=np.int32) for chain in chains]
        islands = order._islands(arrays, len(messages))
        found = any(leftover([chain.tolist() for chain in island]) for island in islands)
        assert found == bool(leftover(chains))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.by)
def test_marks_say_what_conflicts(relation: Any) -> None:
    """Two messages conflict exactly if one asks for a mark that the other leaves."""
    items = [None, (), ("x",), ("y",), ("x", "y")]
    for one, two in combinations(list(product([None, "u", "i", "d"], items)), 2):
        meet = not set(semantic._asks(relation, *one)).isdisjoint(semantic._leaves(relation, *two))
        assert meet == relation.conflict(*one, *two), (one, two)
        assert meet == (not set(semantic._asks(relation, *two)).isdisjoint(semantic._leaves(relation, *one)))


def test_numbers_far_apart(tmp_path: Path) -> None:
    """Message ids are dense whatever the numbers are."""
    numbers = [1, 2, 10**15, 7, -(10**12)]
    rows = [{"process": "a#1", "step": s, "kind": "deliver", "origin": "z#1", "number": n} for s, n in enumerate(numbers)]
    run = compact(tmp_path, rows)
    assert sorted(run.message(index)[1] for index in range(len(run.origin))) == sorted(numbers)
    assert set(single.fifo(run)) == {("z#1", 10**15), ("z#1", 7)}
