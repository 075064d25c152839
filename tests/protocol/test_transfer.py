"""State transfer, rule by rule: whose state counts, what comes in which order, what a peer's nonsense does."""

from __future__ import annotations

from typing import Any

import pytest

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.events import (
    DeliveryBatch,
    SnapshotWanted,
    StateLost,
    StateProgress,
    StateReceived,
    Upcall,
    ViewInstalled,
)
from isotone.model.ids import ViewId
from isotone.model.records import Cohort, Differs, Have, Loose, Offer, Piece, Plan, Share, Want
from isotone.model.settings import MS, EndpointConfig, Limits
from isotone.model.view import Ordering, View
from isotone.protocol.transfer.decide import NONE, OWN, WHOLE, Decision, decide
from isotone.protocol.transfer.transfer import Transfer

LIMITS = Limits(state_chunk_bytes=4, state_bytes=1000, state_backlog_bytes=200)
OLD, OTHER, NEW, NEXT = (ViewId(3, "a#1"), ViewId(3, "d#1"), ViewId(4, "a#1"), ViewId(5, "a#1"))


def view(number: ViewId, members: str) -> View:
    return View(number, tuple(f"{name}#1" for name in members), Ordering())


def plan(cohorts: dict[ViewId, str], shares: dict[str, Share]) -> Plan:
    groups = [Cohort(ended, [], [f"{name}#1" for name in names], [], [], []) for ended, names in cohorts.items()]
    return Plan(NEW, groups, [f"{name}#1" for name in sorted(shares)], [shares[name] for name in sorted(shares)])


def whole(*cuts: ViewId) -> Share:
    return Share(WHOLE, list(cuts))


class TestDecide:
    """Everything that follows from the plan."""

    def test_all_begin_together(self) -> None:
        found = decide(plan({}, {"a": Share(NONE, []), "b": Share(NONE, [])}), view(NEW, "ab"))
        assert found == Decision(("a#1", "b#1"), frozenset(), (), (), {})

    def test_a_newcomer_gets_the_state_of_two_members_in_turn(self) -> None:
        found = decide(plan({OLD: "abc"}, {"a": whole(), "b": whole(), "c": whole(), "d": Share(NONE, [])}), view(NEW, "abcd"))
        assert found.heirs == ("a#1", "b#1", "c#1")
        assert found.needers == ("d#1",)
        assert found.sources == ("b#1", "c#1")  # view 4: the work goes round

    def test_the_larger_component_wins_and_then_the_later_view(self) -> None:
        shares = {name: whole() for name in "abcde"}
        assert decide(plan({OLD: "ab", OTHER: "cde"}, shares), view(NEW, "abcde")).heirs == ("c#1", "d#1", "e#1")
        del shares["e"]
        found = decide(plan({OLD: "ab", OTHER: "cd"}, shares), view(NEW, "abcd"))
        assert found.heirs == ("c#1", "d#1")
        assert found.needers == ("a#1", "b#1")

    def test_only_members_that_have_the_state_count(self) -> None:
        shares = {"a": whole(), "b": whole(), "c": Share(NONE, [OTHER]), "d": whole(), "e": Share(NONE, [OTHER])}
        assert decide(plan({OLD: "ab", OTHER: "cde"}, shares), view(NEW, "abcde")).heirs == ("a#1", "b#1")

    def test_who_leaves_counts_for_nothing(self) -> None:
        shares = {"a": whole(), "b": whole(), "c": whole()}
        found = decide(plan({OLD: "ab", OTHER: "c"}, shares), view(NEW, "c"))
        assert found.heirs == ("c#1",)

    def test_a_transfer_goes_on_where_its_snapshot_is(self) -> None:
        shares = {"a": whole(OLD), "b": whole(), "c": Share(NONE, [OLD]), "d": Share(NONE, [])}
        found = decide(plan({OLD: "abc"}, shares), view(NEW, "abcd"))
        assert found.kept == {"c#1": ("a#1",)}
        assert found.needers == ("d#1",)

    def test_a_transfer_from_another_component_does_not_go_on(self) -> None:
        shares = {"a": whole(OTHER), "b": whole(), "c": Share(NONE, [OTHER])}
        found = decide(plan({OLD: "ab", OTHER: "c"}, shares), view(NEW, "abc"))
        assert found.kept == {}
        assert found.needers == ("c#1",)

    def test_without_the_groups_state_the_first_that_has_one_of_its_own_counts(self) -> None:
        shares = {"a": Share(NONE, [OLD]), "b": Share(OWN, [OLD]), "c": Share(OWN, [OLD])}
        found = decide(plan({OLD: "abc"}, shares), view(NEW, "abc"))
        assert (found.heirs, found.branch, found.needers) == (("b#1",), frozenset(), ("a#1", "c#1"))

    def test_who_takes_no_part_is_left_alone(self) -> None:
        found = decide(plan({OLD: "ab"}, {"b": whole()}), view(NEW, "abc"))
        assert (found.heirs, found.needers, found.sources) == (("b#1",), (), ())


class Epoch:
    """As much of a view as state transfer looks at."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.frozen = False


class Host:
    """Collects what is sent, handed up and counted."""

    def __init__(self) -> None:
        self.epoch: Any = None
        self.sent: list[tuple[str, Loose]] = []
        self.upcalls: list[Upcall] = []
        self.counters: dict[str, int] = {}

    def send(self, peer: str, record: Loose) -> None:
        self.sent.append((peer, record))

    def emit(self, upcall: Upcall) -> None:
        self.upcalls.append(upcall)

    def count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    def wants(self) -> list[Want]:
        found = [record for _, record in self.sent if isinstance(record, Want)]
        self.sent = [(peer, record) for peer, record in self.sent if not isinstance(record, Want)]
        return found


class Process:
    """One process's state transfer. `enter` installs a view."""

    def __init__(self, name: str, limits: Limits = LIMITS) -> None:
        self.host = Host()
        self.now = 0
        self.transfer = Transfer(EndpointConfig(f"{name}#1", limits=limits), self.host)

    def enter(self, view: View, plan: Plan) -> list[Upcall]:
        self.host.epoch = Epoch(view)
        self.host.upcalls.clear()
        self.transfer.install(ViewInstalled(view, None, ()), plan, self.now)
        return list(self.host.upcalls)

    def get(self, peer: str, record: Any) -> list[Upcall]:
        self.host.upcalls.clear()
        self.transfer.handle(peer, record, self.now)
        return list(self.host.upcalls)

    def answer(self, data: bytes, peer: str) -> list[Upcall]:
        """Pieces of `data` for everything asked, and again, until nothing is asked."""
        upcalls: list[Upcall] = []
        while wants := self.host.wants():
            for want in wants:
                piece = Piece(want.cut, want.attempt, want.offset, data[want.offset : want.offset + want.count])
                upcalls += self.get(peer, piece)
        return upcalls


def delivery(in_view: View, number: int = 1, size: int = 1) -> DeliveryBatch:
    return DeliveryBatch(in_view, "a#1", number, [b"x" * size], (number,), "agreed")


NEWCOMER = plan({OLD: "ab"}, {"a": whole(), "b": whole(), "c": Share(NONE, [])})
VIEW = view(NEW, "abc")


def newcomer() -> Process:
    process = Process("c")
    assert process.enter(VIEW, NEWCOMER) == [ViewInstalled(VIEW, None, ()), StateProgress(VIEW, None, 0, 0)]
    return process


def test_the_state_and_then_what_was_held_back() -> None:
    c = newcomer()
    c.transfer.hand_up(delivery(VIEW))
    assert c.get("a#1", Offer(NEW, 10, "")) == [StateProgress(VIEW, "a#1", 0, 10)]
    assert c.answer(b"0123456789", "a#1")[-2:] == [StateReceived(VIEW, "a#1", b"0123456789"), delivery(VIEW)]
    assert c.transfer.whole
    assert ("a#1", Have(NEW)) in c.host.sent
    c.transfer.hand_up(delivery(VIEW, 2))
    assert c.host.upcalls[-1] == delivery(VIEW, 2)


def test_an_empty_state_comes_with_its_offer() -> None:
    c = newcomer()
    assert c.get("a#1", Offer(NEW, 0, ""))[-1] == StateReceived(VIEW, "a#1", b"")


def test_an_offer_may_come_before_the_view() -> None:
    c = Process("c")
    c.get("a#1", Offer(NEW, 3, ""))
    c.enter(VIEW, NEWCOMER)
    assert c.answer(b"abc", "a#1")[-1] == StateReceived(VIEW, "a#1", b"abc")


def test_pieces_may_come_in_any_order_and_twice() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 10, ""))
    wants = c.host.wants()
    assert [want.offset for want in wants] == [0, 4]
    for want in (wants[1], wants[1], wants[0], wants[0]):
        c.get("a#1", Piece(NEW, want.attempt, want.offset, b"0123456789"[want.offset : want.offset + want.count]))
    assert c.answer(b"0123456789", "a#1")[-1] == StateReceived(VIEW, "a#1", b"0123456789")


def test_what_does_not_come_is_asked_for_again() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 3, ""))
    first = c.host.wants()
    deadline = c.transfer.deadline()
    assert deadline is not None
    c.now = deadline
    c.transfer.wake(c.now)
    assert c.host.wants() == first


def half_way() -> Process:
    """Five of ten bytes have come from a; then a is gone, and b has offered as well."""
    c = newcomer()
    c.get("a#1", Offer(NEW, 10, ""))
    c.get("b#1", Offer(NEW, 10, ""))
    first = c.host.wants()[0]
    c.get("a#1", Piece(NEW, first.attempt, 0, b"0123"))
    c.host.wants()
    c.transfer.hand_up(delivery(VIEW))
    kept = plan({NEW: "bc"}, {"b": whole(NEW), "c": Share(NONE, [NEW])})
    after = view(NEXT, "bc")
    assert c.enter(after, kept) == [StateProgress(VIEW, "b#1", 4, 10)]
    return c


def test_a_transfer_goes_on_at_another_provider() -> None:
    c = half_way()
    wants = c.host.wants()
    assert [(want.offset, want.base, len(want.digest)) for want in wants] == [(4, 4, 16), (8, 4, 16)]
    c.host.sent += [("b#1", want) for want in wants]
    upcalls = c.answer(b"0123456789", "b#1")
    after = view(NEXT, "bc")
    assert upcalls[-3:] == [StateReceived(VIEW, "b#1", b"0123456789"), delivery(VIEW), ViewInstalled(after, None, ())]


def test_another_provider_with_other_bytes_begins_again() -> None:
    c = half_way()
    want = c.host.wants()[0]
    c.get("b#1", Differs(NEW, want.attempt))
    assert c.answer(b"abcdefghij", "b#1")[-3] == StateReceived(VIEW, "b#1", b"abcdefghij")


def test_late_pieces_of_an_earlier_attempt_are_ignored() -> None:
    c = half_way()
    wants = c.host.wants()
    c.get("a#1", Piece(NEW, wants[0].attempt - 1, 4, b"XXXX"))
    c.get("b#1", Piece(NEW, wants[0].attempt - 1, 4, b"XXXX"))
    c.get("b#1", Differs(NEW, wants[0].attempt - 1))
    c.host.sent += [("b#1", want) for want in wants]
    assert c.answer(b"0123456789", "b#1")[-3] == StateReceived(VIEW, "b#1", b"0123456789")


def test_without_its_sources_it_fetches_the_state_of_the_next_view() -> None:
    c = newcomer()
    c.transfer.hand_up(delivery(VIEW))
    later = view(NEXT, "cd")
    upcalls = c.enter(later, plan({NEW: "cd"}, {"c": Share(NONE, [NEW]), "d": whole()}))
    assert upcalls == [ViewInstalled(later, None, ()), StateProgress(later, None, 0, 0)]  # the delivery is in that state
    c.get("d#1", Offer(NEXT, 1, ""))
    assert c.answer(b"s", "d#1")[-1] == StateReceived(later, "d#1", b"s")
    assert c.get("a#1", Offer(NEW, 10, "")) == []
    assert c.host.sent[-1] == ("a#1", Have(NEW))


def test_alone_without_a_state_it_begins_anew() -> None:
    c = newcomer()
    c.transfer.hand_up(delivery(VIEW))
    alone = view(NEXT, "c")
    upcalls = c.enter(alone, plan({NEW: "c"}, {"c": Share(NONE, [NEW])}))
    assert [type(upcall) for upcall in upcalls] == [StateLost, ViewInstalled]
    assert isinstance(upcalls[0], StateLost)
    assert upcalls[0].outcome == "anew"
    assert c.transfer.whole


def test_a_merged_component_falls_back_on_its_own_state_if_the_other_one_vanishes() -> None:
    c = Process("c")
    old = view(OTHER, "c")
    c.enter(old, plan({}, {"c": Share(NONE, [])}))
    assert c.transfer.share() == whole()
    merged = plan({OLD: "ab", OTHER: "c"}, {"a": whole(), "b": whole(), "c": whole()})
    assert StateProgress(VIEW, None, 0, 0) in c.enter(VIEW, merged)
    c.transfer.hand_up(delivery(VIEW))
    assert c.transfer.share() == Share(OWN, [NEW])
    upcalls = c.enter(view(NEXT, "c"), plan({NEW: "c"}, {"c": c.transfer.share()}))
    assert [type(upcall) for upcall in upcalls] == [StateLost, DeliveryBatch, ViewInstalled]
    assert c.transfer.whole


def test_a_state_that_comes_while_the_view_is_frozen_waits_for_the_next() -> None:
    """The proposer was told that it is missing: all may have agreed to begin anew."""
    c = newcomer()
    c.get("a#1", Offer(NEW, 3, ""))
    told = c.transfer.share()
    c.host.epoch.frozen = True
    assert not any(isinstance(upcall, StateReceived) for upcall in c.answer(b"abc", "a#1"))
    assert not c.transfer.whole
    upcalls = c.enter(view(NEXT, "cd"), plan({NEW: "c"}, {"c": told, "d": Share(NONE, [])}))
    assert [type(upcall) for upcall in upcalls] == [StateLost, ViewInstalled]


def test_a_state_that_came_while_the_view_was_frozen_is_told_to_the_next_proposer() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 3, ""))
    c.host.epoch.frozen = True
    c.answer(b"abc", "a#1")
    assert c.transfer.share() == whole()
    upcalls = c.enter(view(NEXT, "cd"), plan({NEW: "c"}, {"c": whole(), "d": Share(NONE, [])}))
    assert [type(upcall) for upcall in upcalls] == [StateReceived, ViewInstalled, SnapshotWanted]


def test_all_sources_fail_and_another_view_is_wanted() -> None:
    c = newcomer()
    assert c.get("a#1", Offer(NEW, 0, "out of order")) == []
    (lost,) = c.get("b#1", Offer(NEW, 0, "out of memory"))
    assert isinstance(lost, StateLost)
    assert lost.outcome == "waiting"
    assert "out of order" in lost.reason
    assert "b#1: out of memory" in lost.reason
    c.transfer.hand_up(delivery(VIEW))
    assert not c.transfer.full
    assert c.transfer.share() == Share(NONE, [])
    assert not c.transfer.wants_view(0)
    assert c.transfer.wants_view(10_000 * MS)


def test_too_much_held_back_makes_the_senders_wait() -> None:
    c = newcomer()
    c.transfer.hand_up(delivery(VIEW, size=300))
    assert c.transfer.full
    c.get("a#1", Offer(NEW, 1, ""))
    c.answer(b"s", "a#1")
    assert not c.transfer.full


def test_a_state_above_the_limit_is_not_fetched() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 1001, ""))
    assert c.host.wants() == []
    (lost,) = c.get("b#1", Offer(NEW, 1 << 60, ""))
    assert isinstance(lost, StateLost)
    assert "state_bytes" in lost.reason


def test_a_claimed_size_costs_no_memory() -> None:
    c = Process("c", Limits(state_bytes=1 << 60))
    c.enter(VIEW, NEWCOMER)
    c.get("a#1", Offer(NEW, 1 << 59, ""))
    assert len(c.host.wants()) <= 16


@pytest.mark.parametrize("data", [b"", b"012", b"01234"])
def test_a_piece_of_another_length_than_asked_for(data: bytes) -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 10, ""))
    attempt = c.host.wants()[0].attempt
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        c.get("a#1", Piece(NEW, attempt, 0, data))


def test_pieces_that_were_not_asked_for_are_ignored() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 10, ""))
    attempt = c.host.wants()[0].attempt
    for offset in (1, 8, 1 << 61):
        assert c.get("a#1", Piece(NEW, attempt, offset, b"0123")) == []
    assert c.get("z#1", Piece(NEW, attempt, 0, b"0123")) == []
    assert c.transfer.incoming is not None
    assert c.transfer.incoming.received == 0


def test_a_snapshot_does_not_change_its_size() -> None:
    c = newcomer()
    c.get("a#1", Offer(NEW, 10, ""))
    with pytest.raises(RemoteProtocolError, match="size"):
        c.get("a#1", Offer(NEW, 11, ""))


class TestProvider:
    """The giving side."""

    def provider(self) -> Process:
        a = Process("a")
        a.enter(view(OLD, "a"), plan({}, {"a": Share(NONE, [])}))
        upcalls = a.enter(view(NEW, "ac"), plan({OLD: "a"}, {"a": whole(), "c": Share(NONE, [])}))
        assert upcalls[-1] == SnapshotWanted(view(NEW, "ac"))
        return a

    def test_a_snapshot_is_offered_again_until_nobody_needs_it(self) -> None:
        a = self.provider()
        a.transfer.snapshots.provide(NEW, b"0123456789", "", 0)
        assert a.host.sent == [("c#1", Offer(NEW, 10, ""))]
        deadline = a.transfer.deadline()
        assert deadline is not None
        a.transfer.wake(deadline)
        assert len(a.host.sent) == 2
        assert a.transfer.share() == whole(NEW)
        a.get("c#1", Have(NEW))
        assert a.transfer.deadline() is None
        assert a.transfer.share() == whole()
        a.transfer.snapshots.provide(NEW, b"late", "", 0)  # nobody needs it: nothing happens
        assert len(a.host.sent) == 2

    def test_who_is_gone_needs_nothing(self) -> None:
        a = self.provider()
        a.transfer.snapshots.provide(NEW, b"0123456789", "", 0)
        a.enter(view(NEXT, "a"), plan({NEW: "a"}, {"a": whole(NEW)}))
        assert a.transfer.share() == whole()

    def test_a_piece(self) -> None:
        a = self.provider()
        a.get("c#1", Want(NEW, 1, 0, 4, 0, b""))  # before there is a snapshot
        a.transfer.snapshots.provide(NEW, b"0123456789", "", 0)
        a.host.sent.clear()
        a.get("c#1", Want(NEW, 1, 4, 4, 0, b""))
        a.get("b#1", Want(NEW, 1, 4, 4, 0, b""))  # not one that needs it
        assert a.host.sent == [("c#1", Piece(NEW, 1, 4, b"4567"))]

    def test_who_has_other_bytes_is_told(self) -> None:
        a = self.provider()
        a.transfer.snapshots.provide(NEW, b"0123456789", "", 0)
        a.host.sent.clear()
        a.get("c#1", Want(NEW, 2, 4, 4, 4, b"x" * 16))
        assert a.host.sent == [("c#1", Differs(NEW, 2))]

    @pytest.mark.parametrize(
        "want",
        [
            Want(NEW, 1, 8, 4, 0, b""),
            Want(NEW, 1, 1 << 61, 1, 0, b""),
            Want(NEW, 1, 0, 0, 0, b""),
            Want(NEW, 1, 0, 1 << 40, 0, b""),
            Want(NEW, 1, 4, 4, 8, b"x" * 16),
            Want(NEW, 1, 4, 4, 4, b"short"),
        ],
    )
    def test_nonsense(self, want: Want) -> None:
        a = self.provider()
        a.transfer.snapshots.provide(NEW, b"0123456789", "", 0)
        with pytest.raises(RemoteProtocolError, match="does not have"):
            a.get("c#1", want)

    def test_a_snapshot_above_the_limit_is_a_problem(self) -> None:
        a = self.provider()
        a.transfer.snapshots.provide(NEW, bytes(1001), "", 0)
        (_, offer) = a.host.sent[0]
        assert isinstance(offer, Offer)
        assert "state_bytes" in offer.problem


def test_pieces_are_bounded() -> None:
    with pytest.raises(ConfigError, match="state_chunk_bytes"):
        Limits(state_chunk_bytes=2 * 1024 * 1024)
