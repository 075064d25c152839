"""The oracle on random histories: clean ones are ok, faults are noticed, and witnesses show what they claim."""

from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from isotone.pipeline.oracle import CHECKS, CheckResult, Expectation, Report, Witness, check_history, sub_history
from isotone.trace.schema import MESSAGE_KINDS
from tests.pipeline.faults import FAULTS, broken, broken_histories
from tests.pipeline.generate import ORDERS, RELATIONS, Generated, clean, clean_histories

SEEDS = 150


def judge(case: Generated, checks: list[str] | None = None) -> Report:
    return check_history(case.rows, checks or list(CHECKS), expected=Expectation(conflicts=case.conflicts))


def told(report: Report) -> list[tuple[str, str]]:
    return [(check.name, str(check.witness)) for check in report.checks if check.verdict == "violated"]


@pytest.mark.parametrize("order", ORDERS)
def test_clean_histories_are_ok(order: str) -> None:
    decided: dict[str, int] = dict.fromkeys(CHECKS, 0)
    for seed in range(SEEDS):
        case = clean(Random(seed), order)
        report = judge(case, case.promised)
        assert told(report) == [], f"clean(Random({seed}), {order!r})"
        for check in report.checks:
            decided[check.name] += check.verdict == "ok"
    never = {name for name in case.promised if decided[name] < SEEDS // 10}
    assert never <= {"position", "switching"} - ({"position", "switching"} if order == "switching" else set())


def test_default_choice_is_what_is_promised() -> None:
    for seed in range(SEEDS):
        case = clean(Random(seed))
        report = check_history(
            case.rows, expected=Expectation(conflicts=case.conflicts if case.conflicts.by != "everything" else None)
        )
        assert told(report) == [], seed


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_noticed(fault: str) -> None:
    certain = 0
    for seed in range(2 * SEEDS):
        found = broken(Random(seed), fault)
        if found is None:
            continue
        case, must = found
        report = judge(case)
        certain += bool(must)
        if must:
            assert must & set(report.violated()), (seed, fault, must, report.violated())
        for check in report.checks:
            if check.verdict == "violated":
                assert_real(case, check)
    assert certain >= 10 or fault == "cut_out"


def assert_real(case: Generated, check: CheckResult) -> None:
    """The rows of the witness alone are violated too."""
    witness = check.witness
    assert witness is not None
    assert witness.processes
    assert witness.edges
    again = recheck(case, check.name, witness)
    assert again == "violated", (check.name, witness, again)


def recheck(case: Generated, name: str, witness: Witness) -> str:
    rows = list(sub_history(case.rows, witness))
    [result] = check_history(rows, [name], expected=Expectation(conflicts=case.conflicts)).checks
    return result.verdict


def assert_smallest(case: Generated, check: CheckResult) -> None:
    """Leaving out messages of the witness leaves no violation."""
    witness = check.witness
    assert witness is not None
    for one in witness.messages:
        some = tuple(message for message in witness.messages if message != one)
        less = Witness(witness.text, witness.processes, some)
        assert recheck(case, check.name, less) != "violated", (check.name, witness, some)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_witnesses_are_smallest(fault: str) -> None:
    for seed in range(SEEDS // 2):
        found = broken(Random(seed), fault)
        if found is not None:
            for check in judge(found[0]).checks:
                if check.verdict == "violated" and check.name != "liveness":
                    assert_smallest(found[0], check)


def test_an_order_held_to_a_stronger_one_gives_real_and_smallest_witnesses() -> None:
    """Fifo histories of which most deliveries are lost break causal and total order in long ways."""
    checks = ["causal", "total_pairwise", "total_global", "position", "semantic_causal", "semantic_total"]
    lengths: dict[str, set[int]] = {name: set() for name in checks}
    for seed in range(8 * SEEDS):
        random = Random(seed)
        case = clean(random, "fifo" if seed % 2 else "semantic_fifo", views=0, most=25)
        case.rows = [row for row in case.rows if row["kind"] != "deliver" or random.random() < 0.4]
        for check in judge(case, checks).checks:
            if check.verdict == "violated":
                assert check.witness is not None
                assert_real(case, check)
                assert_smallest(case, check)
                lengths[check.name].add(len(check.witness.messages))
    assert all(lengths[name] >= {2, 3} for name in checks if name not in ("total_pairwise", "position")), lengths


def scattered(random: Random) -> Generated:
    """Everybody delivers a few messages in any order: long cycles and chains."""
    conflicts = random.choice(RELATIONS)
    names = [f"{letter}#1" for letter in "abcdefg"[: random.randint(4, 7)]]
    sent: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    had: dict[str, list[int]] = {name: [] for name in names}
    places = random.sample(range(20), 20)
    for step in range(random.randint(10, 30)):
        name = random.choice(names)
        open_to = [index for index in range(len(sent)) if index not in had[name] and sent[index]["origin"] != name]
        if open_to and len(had[name]) < 2 and random.random() < 0.8:
            index = random.choice(open_to)
            had[name].append(index)
            about = {**sent[index], "kind": "deliver"}
            if random.random() < 0.7:
                about["position"] = (places[index],)
        elif not any(row["origin"] == name for row in sent):
            items = random.sample("xyz", random.randint(1, 2))
            about = {"origin": name, "number": 1, "kind": "send", "type": random.choice("uid"), "items": items}
            sent.append(about)
        else:
            continue
        rows.append({"process": name, "step": step, "time": step, **about})
    return Generated(rows, "", conflicts, [])


def test_no_smaller_set_of_messages_of_the_history_is_violated() -> None:
    """By brute force over all sets of messages of small histories."""
    checks = ["integrity", "fifo", "causal", "total_pairwise", "total_global", "position", "reliable_fifo"]
    checks += ["semantic_fifo", "semantic_causal", "semantic_total", "switching", "duplication"]
    larger = dict.fromkeys(checks, 0)
    for seed in range(12 * SEEDS):
        random = Random(seed)
        if seed % 3:
            case = scattered(random)
        else:
            case = clean(random, ("fifo", "semantic_fifo", "switching", "sequencer")[seed // 3 % 4], views=1, most=10)
            case.rows = (FAULTS[random.choice(("swap", "positions", "drop"))](case, random) or (case.rows, set()))[0]
        messages = sorted({(row["origin"], row["number"]) for row in case.rows if row["kind"] in MESSAGE_KINDS})
        if len(messages) > 7:
            continue
        processes = tuple({row["process"] for row in case.rows})
        for check in judge(case, checks).checks:
            if check.verdict == "violated":
                assert_real(case, check)
                assert check.witness is not None
                larger[check.name] += len(check.witness.messages) > 2
                for some in combinations(messages, len(check.witness.messages) - 1):
                    less = Witness("", processes, some)
                    assert recheck(case, check.name, less) != "violated", (seed, check.name, check.witness, some)
    assert all(larger[name] for name in ("causal", "total_global", "semantic_causal", "semantic_total")), larger


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(clean_histories())
def test_clean(case: Generated) -> None:
    assert told(judge(case, case.promised)) == []


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(broken_histories())
def test_broken(found: tuple[Generated, set[str]]) -> None:
    case, must = found
    report = judge(case)
    assert not must or must & set(report.violated())
    for check in report.checks:
        if check.verdict == "violated":
            assert_real(case, check)


def test_sub_history_holds_only_what_the_witness_names() -> None:
    found = broken(Random(3), "payload", "sequencer")
    assert found is not None
    case, _ = found
    [check] = judge(case, ["integrity"]).checks
    assert check.witness is not None
    rows = list(sub_history(case.rows, check.witness))
    assert {(row["origin"], row["number"]) for row in rows if row["kind"] in MESSAGE_KINDS} == set(check.witness.messages)
    assert {row["process"] for row in rows if row["kind"] not in MESSAGE_KINDS} == set(check.witness.processes)
