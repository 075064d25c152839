"""Paper 000: the worked example of §4.2, and the conditions of Figures 3-6, each with what breaks when it is dropped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isotone.model.errors import InvariantViolation
from isotone.model.records import Cast
from isotone.model.settings import SECOND
from isotone.model.view import Ordering
from isotone.protocol.epoch import Epoch
from isotone.protocol.flush import Flush
from isotone.protocol.ordering.atop.mechanism import Atop
from tests.protocol.atop_bench import dummy, first, ids, message, positions, site, skip
from tests.protocol.bag import Bag
from tests.protocol.orderer_bench import batch

P, Q, R = range(3)
EXAMPLE = [P, Q, P, Q, P, P, R, P]  # §4.2: "the sequence starts with p, q, p, q, p, p, r, p"
NEW = 3  # distribution 1 of p
WEIGHTS = (1, 2, 3)
Dropped = Callable[[str, bool], None]


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> Dropped:
    """Replace a condition by a constant."""
    return lambda name, value: monkeypatch.setattr(Atop, name, lambda self: value)


# The example


def test_the_example_of_section_4_2() -> None:
    """All of r's view of it: whatever arrives first, the slots are filled p, q, p, q, p, p, r, p."""
    orderer, bench = site(R, 3, EXAMPLE)
    orderer.submit(batch(b"r"), 0)
    assert ids(bench) == []
    orderer.accept(Q, [message(1, 0, 0), message(2, 0, 1)], 0)
    assert ids(bench) == []  # the first slot is reserved for p
    orderer.accept(P, [message(1, 0, 0)], 0)
    assert ids(bench) == [(P, 1), (Q, 1)]  # the third slot is p's again
    orderer.accept(P, [message(i, 0, i - 1) for i in range(2, 6)], 0)
    assert ids(bench) == [(P, 1), (Q, 1), (P, 2), (Q, 2), (P, 3), (P, 4), (R, 1), (P, 5)]
    assert positions(bench) == [(0, 0, slot) for slot in range(8)]


def test_a_turn_is_skipped_if_the_owners_next_message_is_tagged_otherwise() -> None:
    """q's only message is of the next distribution, so its two slots in this one are skipped, and consume their numbers."""
    orderer, bench = site(R, 3, EXAMPLE)
    orderer.submit(batch(b"r"), 0)
    orderer.accept(P, [message(i, 0, i - 1) for i in range(1, 6)], 0)
    assert ids(bench) == [(P, 1)]
    orderer.accept(Q, [first(1, NEW, 0, WEIGHTS)], 0)
    assert ids(bench) == [(P, 1), (P, 2), (P, 3), (P, 4), (R, 1), (P, 5)]
    assert positions(bench) == [(0, 0, slot) for slot in (0, 2, 4, 5, 6, 7)]


def test_a_turn_is_skipped_if_the_view_ends_and_the_owner_sent_nothing() -> None:
    orderer, bench = site(R, 3, EXAMPLE)
    orderer.accept(P, [message(1, 0, 0), message(2, 0, 1), message(3, 0, 2)], 0)
    orderer.accept(Q, [message(1, 0, 0)], 0)
    assert ids(bench) == [(P, 1), (Q, 1), (P, 2)]
    orderer.conclude(frozenset({P, R}), 0)
    assert ids(bench) == [(P, 1), (Q, 1), (P, 2), (P, 3)]
    assert positions(bench)[-1] == (0, 0, 4)


# Two sites get the same records in different orders; each figure's conditions keep them from contradicting each other.
# The rotation is p, q, r; p and q send, the site r gives its own slots up when it is asked.


def deliver_all(*arrivals: Callable[[Atop], None]) -> list[tuple[int, int]]:
    """What r delivers when the records come in this order; own slots are given up at the end of each turn."""
    orderer, bench = site(R, 3)
    for arrival in arrivals:
        arrival(orderer)
        orderer.turn(0)
    return ids(bench)


def p_sends(orderer: Atop) -> None:
    orderer.accept(P, [message(1, 0, 0), message(2, 0, 1)], 0)


def q_sends(orderer: Atop) -> None:
    orderer.accept(Q, [message(1, 0, 0)], 0)


def q_moves_on(orderer: Atop) -> None:
    orderer.accept(Q, [first(2, NEW, 0, WEIGHTS)], 0)


def p_moves_on(orderer: Atop) -> None:
    orderer.direct(P, dummy(NEW, 0, WEIGHTS), 0)


ALL = [p_sends, q_sends, p_moves_on, q_moves_on]
OTHERWISE = [q_sends, q_moves_on, p_sends, p_moves_on]
EXPECTED = [(P, 1), (Q, 1), (P, 2), (Q, 2)]


def test_both_arrivals_give_one_order() -> None:
    assert deliver_all(*ALL) == deliver_all(*OTHERWISE) == EXPECTED


def test_figure_4_1_messages_of_the_ordering_distribution_are_left(dropped: Dropped) -> None:
    """Otherwise the distribution would change under messages that belong to it."""
    dropped("_is_tagged", False)
    with pytest.raises(InvariantViolation, match="does not increase"):
        deliver_all(p_sends)


def test_figures_4_2_5_1_6_3_there_is_a_message(dropped: Dropped) -> None:
    """Otherwise the smallest distribution of no messages would be asked for."""
    dropped("_is_pending", True)
    with pytest.raises(IndexError):
        deliver_all(*ALL)


def test_figure_4_3_everybody_has_left_the_ordering_distribution(dropped: Dropped) -> None:
    """Otherwise q's message of the next distribution overtakes p's of this one, which are still on their way."""
    arrivals = [lambda orderer: orderer.accept(Q, [first(1, NEW, 0, WEIGHTS)], 0), p_sends, p_moves_on]
    assert deliver_all(*arrivals) == [(P, 1), (P, 2), (Q, 1)]
    dropped("_have_all_left", True)
    assert deliver_all(*arrivals[:1]) == [(Q, 1)]
    with pytest.raises(InvariantViolation, match="does not increase"):
        deliver_all(*arrivals)


def test_figure_4_3_as_printed_overlooks_dummies(monkeypatch: pytest.MonkeyPatch) -> None:
    """p's dummy of distribution 3 is not pending, so "beyond the last distribution" is not enough: q's 4 would come first."""

    def as_printed(self: Atop) -> bool:
        return min(self.dist) > self.ordering.id

    def run() -> list[tuple[int, int]]:
        orderer, bench = site(R, 3)
        orderer.direct(P, dummy(NEW, 0, WEIGHTS), 0)
        orderer.turn(0)
        orderer.accept(Q, [first(1, NEW + 1, 1, WEIGHTS)], 0)
        orderer.turn(0)
        orderer.accept(P, [first(1, NEW, 0, WEIGHTS)], 0)
        orderer.direct(P, dummy(NEW + 1, 9, WEIGHTS), 0)
        orderer.turn(0)
        return ids(bench)

    assert run() == [(P, 1), (Q, 1)]
    monkeypatch.setattr(Atop, "_have_all_left", as_printed)
    assert run() == [(Q, 1)]  # p's message is of a distribution that is over


def test_figure_5_2_the_message_is_tagged_with_the_ordering_distribution(dropped: Dropped) -> None:
    """Otherwise q's message of the next distribution takes a slot of this one, at the site that has it early."""
    dropped("_is_tagged", True)
    with pytest.raises(InvariantViolation, match="passed already"):
        deliver_all(*OTHERWISE)


def test_figures_5_3_5_4_it_is_the_owners_turn(dropped: Dropped) -> None:
    """Otherwise messages are delivered as they come."""
    dropped("_is_in_turn", True)
    assert deliver_all(*ALL)[:2] == [(P, 1), (P, 2)]
    assert deliver_all(*OTHERWISE)[:2] == [(Q, 1), (P, 1)]


def test_figure_6_1_no_message_that_is_here_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise everything that has been given up is passed over, with the messages in between."""
    monkeypatch.setattr(Atop, "_skip_to", lambda self: min(self.bounds))
    orderer, bench = site(R, 3)
    orderer.accept(P, [message(1, 0, 1)], 0)
    orderer.direct(Q, skip(0, 5), 0)
    with pytest.raises(InvariantViolation, match="passed already"):
        orderer.turn(0)
    monkeypatch.undo()
    orderer, bench = site(R, 3)
    orderer.accept(P, [message(1, 0, 1)], 0)
    orderer.direct(Q, skip(0, 5), 0)
    orderer.turn(0)
    assert ids(bench) == [(P, 1)]


def test_figure_6_2_it_is_certain_that_the_owner_has_none(dropped: Dropped) -> None:
    """Otherwise a message that is late is delivered after those that follow it."""
    dropped("_is_given_up", True)
    assert deliver_all(p_sends) == [(P, 1), (P, 2)]
    with pytest.raises(InvariantViolation, match="passed already"):
        deliver_all(p_sends, q_sends)


# Figure 3, the end of a view


def end_of_a_view() -> tuple[Bag, set[str]]:
    """c crashes when two of its messages have reached b alone and wait there for a's slots; what is violated then."""
    bag = Bag(3, Ordering("atop"))
    assert bag.settle()
    bag.run(SECOND // 10)
    bag.submit("c#1", 1)
    bag.submit("c#1", 1)
    bag.packets = [entry for entry in bag.packets if entry[1] == "b#1" and entry[0] == "c#1"]
    while bag.packets:
        bag.deliver(0)
        bag.packets = [entry for entry in bag.packets if entry[1] == "b#1" and entry[0] == "c#1"]
    bag.crash("c#1")
    bag.settle()
    return bag, set(bag.report().violated())


def test_at_the_end_of_a_view_all_have_the_rest() -> None:
    bag, violated = end_of_a_view()
    assert violated == set()
    assert bag.received["a#1"] == bag.received["b#1"] == [("c#1", 1), ("c#1", 2)]


def test_figure_3_1_the_view_has_come_with_all_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise b ends the view with c's messages, and a without."""
    conclude = Epoch.conclude

    def as_it_is(self: Epoch, cohort: object, now: int) -> None:
        cohort.target = list(self.held)  # type: ignore[attr-defined]
        conclude(self, cohort, now)  # type: ignore[arg-type]

    monkeypatch.setattr(Flush, "complete", lambda self, target: True)
    monkeypatch.setattr(Epoch, "relay", lambda self, process, cohort: None)
    monkeypatch.setattr(Epoch, "conclude", as_it_is)
    _, violated = end_of_a_view()
    assert violated & {"virtual_synchrony", "agreement"}


def test_figure_3_2_nothing_is_pending_when_the_next_view_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise messages that everybody has are lost."""

    def leave_it(self: Atop, present: frozenset[int], now: int) -> list[Cast]:
        return []

    monkeypatch.setattr(Atop, "conclude", leave_it)
    bag, _ = end_of_a_view()
    assert bag.received["a#1"] == bag.received["b#1"] == []


def test_the_bench_is_quiet() -> None:
    """Nobody sends, so nobody says anything."""
    orderer, bench = site(P, 3)
    orderer.turn(0)
    assert bench.directs == []
    assert bench.casts == []
