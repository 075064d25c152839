"""What witnesses say: every edge, the shortest cycle and chain, the run, and what sub-histories hold."""

from isotone.pipeline.oracle import Edge, Expectation, Witness, check_history, sub_history
from tests.pipeline.oracle_text import history


def witness_of(text: str, check: str) -> Witness:
    [result] = check_history(history(text), [check]).checks
    assert result.witness is not None
    return result.witness


def test_cycle_witness_names_every_edge() -> None:
    text = """
        a: [1a abc] +1 a1 b1 ~ [2a a] .
        b: [1a abc] +1 b1 c1 ~ [2b b] .
        c: [1a abc] +1 c1 a1 ~ [2c c] .
    """
    witness = witness_of(text, "total_global")
    assert set(witness.edges) == {
        Edge("a#1:1", "b#1:1", "a#1", "a#1 delivers a#1:1 before b#1:1"),
        Edge("b#1:1", "c#1:1", "b#1", "b#1 delivers b#1:1 before c#1:1"),
        Edge("c#1:1", "a#1:1", "c#1", "c#1 delivers c#1:1 before a#1:1"),
    }
    assert witness.text == "a cycle of 3 messages: " + "; ".join(edge.why for edge in witness.edges)
    assert set(witness.processes) == {"a#1", "b#1", "c#1"}
    assert set(witness.messages) == {("a#1", 1), ("b#1", 1), ("c#1", 1)}


def test_shortest_cycle_wins() -> None:
    # a long cycle over a1 b1 c1 d1 and a short one over c1 d1: the short one is shown
    text = """
        a: +1 a1 b1
        b: +1 b1 c1 d1
        c: +1 d1 c1
        d: +1 d1 a1
    """
    assert set(witness_of(text, "total_global").messages) == {("c#1", 1), ("d#1", 1)}


def test_shortest_cycle_of_all_knots_wins() -> None:
    # a knot of three whose shortest cycle has three, and a larger one (four messages) with a cycle of two
    text = """
        a: +1 +2 a1 b1 a2 b2 c2 d2
        b: +1 +2 b1 c1 b2 a2
        c: +1 +2 c1 a1 d2 c2
        d: +2 d2 b2
    """
    assert len(witness_of(text, "total_global").messages) == 2


def test_shortest_causal_chain_wins() -> None:
    # a1 -> b1 -> c1 and a1 -> c1 directly: the direct step is shown
    text = """
        a: +1 a1
        b: a1 +1 b1
        c: a1 b1 +1 c1
        d: c1 a1
    """
    witness = witness_of(text, "causal")
    assert [edge.why for edge in witness.edges] == [
        "c#1 delivered a#1:1 before it sent c#1:1",
        "d#1 delivers c#1:1 before a#1:1",
    ]
    assert (set(witness.processes), set(witness.messages)) == ({"c#1", "d#1"}, {("a#1", 1), ("c#1", 1)})


def test_shortest_chain_of_all_late_deliveries_wins() -> None:
    # d breaks the chain a1 -> b1 -> c1, e a direct step
    text = """
        a: +1 a1
        b: a1 +1
        c: b1 +1
        d: c1 a1
        e: b1 a1
    """
    assert set(witness_of(text, "causal").messages) == {("a#1", 1), ("b#1", 1)}


def test_two_knots_are_counted() -> None:
    text = """
        a: +1 +2 a1 b1 a2 b2
        b: +1 +2 b1 a1 b2 a2
    """
    [result] = check_history(history(text), ["total_global"]).checks
    assert result.violations == 2


def test_sub_history_has_messages_sends_and_frames() -> None:
    text = """
        a: start [1a abc] +1 a1 +2 a2 b1 .
        b: start [1a abc] +1 b1 a2 a1 .
        c: start [1a abc] a1 a2 b1 .
    """
    rows = history(text)
    found = list(sub_history(rows, witness_of(text, "fifo")))
    assert [(row["process"], row["kind"], row.get("number")) for row in found] == [
        ("a#1", "send", 1),
        ("a#1", "send", 2),
        ("b#1", "start", None),
        ("b#1", "view", None),
        ("b#1", "deliver", 2),
        ("b#1", "deliver", 1),
        ("b#1", "stop", None),
    ]


def test_sub_history_is_of_one_run() -> None:
    good, bad = "a: +1 +2 a1 a2", "a: +1 +2 a2 a1"
    rows = history(good, run="one") + history(bad, run="two")
    [result] = check_history(rows, ["fifo"]).checks
    assert result.witness is not None
    found = list(sub_history(rows, result.witness))
    assert {row["run"] for row in found} == {"two"}
    assert check_history(found, ["fifo"]).verdict == "violated"


def test_a_violated_run_has_the_witness_not_an_undecided_one() -> None:
    rows = history("a: +1", run="one") + history("a: +1 +2 a2 a1", run="two")
    [result] = check_history(rows, ["fifo"]).checks
    assert (result.verdict, str(result.witness)) == ("violated", "run two: a#1 delivers a#1:2 before a#1:1")


def test_a_third_process_shows_that_it_was_early_enough() -> None:
    # c crashed, but its delivery at 10 shows that b, which stops at 60, had time; a's own came too late for that
    text = """
        a: [1a abc] =5 +1 =90 a1 .
        b: [1a abc] =60 .
        c: [1a abc] =10 a1 x
    """
    rows = history(text)
    expected = Expectation(settle_ns=20)
    [result] = check_history(rows, ["agreement"], expected=expected).checks
    assert result.witness is not None
    assert set(result.witness.processes) == {"a#1", "b#1", "c#1"}
    assert check_history(list(sub_history(rows, result.witness)), ["agreement"], expected=expected).verdict == "violated"


def test_leaver_settles() -> None:
    text = """
        a: [1a ab] +1 =40 a1 =90 .
        b: [1a ab] =50 .
    """
    assert check_history(history(text), ["agreement"]).verdict == "violated"
    assert check_history(history(text), ["agreement"], expected=Expectation(settle_ns=20)).verdict == "ok"
