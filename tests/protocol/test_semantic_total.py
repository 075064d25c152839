"""`semantic_total`, record by record: what may pass and what may not, leads and jumps, the end of a view, and any schedule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotone.model.columns import Column, column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.protocol.semantic import casting, leads, passing, waiting
from isotone.protocol.semantic.leads import LENGTH, Numbers
from isotone.protocol.semantic.shapes import Shapes
from tests.protocol.total_bench import Message, Total, learning_at_once, told

__all__ = ["learning_at_once"]
BY_ITEM = Conflicts.by_item()
COUNTER = Conflicts.by_operation({"update": ["update", "increment", "decrement"], "increment": [], "decrement": []})
"""The paper's operations on one item (§4.2): no equivalence, since increment and decrement commute."""
EDITOR = Conflicts.by_both(
    {one: ["insert", "update", "delete"] for one in ("insert", "update", "delete")}, {"scroll": ["scroll"]}
)
NEIGHBOURS = Conflicts.by_predicate(
    "tests.total.neighbours",
    lambda type_a, items_a, type_b, items_b: (
        items_a is None or items_b is None or any(abs(ord(a) - ord(b)) <= 1 for a in items_a for b in items_b)
    ),
)
INC: Message = ("increment", None)
DEC: Message = ("decrement", None)
UPD: Message = ("update", None)


def item(*names: str) -> tuple[None, tuple[str, ...]]:
    return None, names


def led(conflicts: Conflicts | None, *usual: list[Message]) -> Total:
    """A group in which every site leads, and gives no truces; its repertoire is what it has sent, each of its list."""
    run = Total(len(usual), conflicts)
    for site in run.sites:
        site.orderer.leader._counts.usual = site.orderer.leader._counts.familiar = lambda *least: []
    for _ in range(8 * len(usual)):
        for rank, messages in enumerate(usual):
            for message in messages:
                run.send(rank, message)
        run.settle()
    for site in run.sites:
        lead_now(run, site.rank)
        lead = site.orderer.leader.lead
        assert lead.end > max(site.orderer.lcv)
        of = site.orderer.shapes.of
        assert set(lead.shapes.all) == {of(1, Column([type_]), Column([items])) for type_, items in usual[site.rank]}
    return run


def lead_now(run: Total, rank: int) -> None:
    """A site leads, whether or not that is worth while."""
    leader = run.sites[rank].orderer.leader
    leader.wanted = leader.stirred = True
    run.study(rank)
    run.settle()


def eager(count: int, conflicts: Conflicts | None) -> Total:
    """A group whose sites lead without having watched first."""
    run = Total(count, conflicts)
    for site in run.sites:
        site.orderer.leader._wait = site.orderer.leader._trial = 0
    return run


def peaceful(count: int, conflicts: Conflicts | None) -> Total:
    """A group whose sites give truces, and no leads."""
    run = Total(count, conflicts)
    for site in run.sites:
        site.orderer.leader._wait = site.orderer.leader._trial = 1 << 40
    return run


# What may pass and what may not


def test_a_chain_through_a_message_that_commutes() -> None:
    """m1 on A, then m2 on B, then m3 on A: who has m2 but not m1 does not deliver m3, its sender no more than others."""
    run = led(BY_ITEM, [item("a")], [item("b")], [item("c")])
    done = [len(run.order(rank)) for rank in range(3)]
    run.send(0, item("a"))
    run.pass_all(0, 1)
    run.send(1, item("b"))
    run.pass_all(1, 2)
    assert len(run.order(2)) == done[2]  # m2 knows of m1, which is not here
    run.send(2, item("a"))
    for way in ((2, 1), (1, 2), (2, 1)):
        run.pass_all(*way)
    m1, m2, m3 = ((rank, len(run.sites[rank].stream)) for rank in range(3))
    assert m3 not in run.order(2)
    assert m3 not in run.order(1)
    run.settle()
    for rank in range(3):
        assert run.order(rank)[done[rank] :].index(m1) < run.order(rank)[done[rank] :].index(m3)
        assert set(run.order(rank)[done[rank] :]) == {m1, m2, m3}
    run.check(range(3))


def test_increments_and_decrements_are_delivered_when_they_come() -> None:
    run = led(COUNTER, *[[INC, DEC]] * 3)
    for message in (INC, DEC):
        run.send(0, message)
        assert run.order(0)[-1] == (0, len(run.sites[0].stream))
        run.pass_on(0, 2)
        assert run.order(2)[-1] == (0, len(run.sites[0].stream))
    assert not run.ways[2, 1]  # nobody has to acknowledge
    run.settle()
    run.check(range(3))


def test_an_increment_passes_one_that_is_late_and_no_update() -> None:
    run = led(COUNTER, *[[INC]] * 3)
    first, second = run.send(0, INC), run.send(1, INC)
    run.pass_on(1, 2)
    assert run.order(2)[-1] == (1, second[0].seq)
    assert first[0].stamp[0] == second[0].stamp[0]  # it would have been the first
    run.settle()
    (update,) = run.send(0, UPD)
    run.pass_all(0, 2)
    run.pass_all(0, 1)
    (after,) = run.send(1, INC)
    run.pass_all(1, 2)
    assert run.order(2)[-1] == (0, update.seq)  # all others have told their clocks
    run.settle()  # p0 might send another update: it has to acknowledge
    assert run.order(2)[-1] == (1, after.seq)
    run.check(range(3))


def test_an_update_that_waits_holds_a_later_increment_back() -> None:
    run = led(COUNTER, *[[INC]] * 4)
    (update,) = run.send(0, UPD)
    run.pass_all(0, 1)
    run.pass_all(0, 2)
    (after,) = run.send(1, INC)
    run.pass_all(1, 2)
    done = run.order(2)
    assert (0, update.seq) not in done  # p3 has not acknowledged it
    assert (1, after.seq) not in done
    run.settle()
    assert run.order(2)[-2:] == [(0, update.seq), (1, after.seq)]
    run.check(range(4))


def test_several_items() -> None:
    run = led(BY_ITEM, [item("x", "y")], [item("v")], [])
    done = len(run.order(2))
    (xy,), (yz,), (z,) = run.send(0, item("x", "y")), run.send(1, item("y", "z")), run.send(1, item("w"))
    run.pass_on(1, 2, 2)
    assert run.order(2)[done:] == []  # both jumped: no lead reaches them
    run.settle()
    places = run.order(2)[done:]
    assert places.index((0, xy.seq)) < places.index((1, yz.seq))
    assert (1, z.seq) in places
    run.check(range(3))


def test_messages_of_one_turn_part_if_they_commute() -> None:
    run = Total(2, COUNTER)
    casts = run.send(0, INC, DEC, INC, UPD, INC)
    assert [cast.types and cast.types.values for cast in casts] == [["increment", "decrement"], ["update"], ["increment"]]
    assert [cast.number for cast in casts] == [1, 4, 5]
    run.settle()
    run.check(range(2))


def test_a_large_batch_parts_only_while_nothing_of_its_sender_waits() -> None:
    run = Total(2, TYPES)
    mixed = [FREE, ORDERED] * 40
    (free, ordered) = run.send(1, *mixed)
    assert run.order(1) == [(1, 1)]  # the ordered ones wait
    (whole,) = run.send(1, *mixed)
    assert len(run.send(1, FREE, ORDERED)) == 2  # few are looked at one by one all the same
    assert [cast.types and cast.types.values for cast in (free, ordered, whole)] == [["free"], ["ordered"], ["free", "ordered"]]
    run.settle()
    assert len(run.send(1, *mixed)) == 2
    run.settle()
    run.check(range(2))


def test_without_a_relation_it_is_single_phase() -> None:
    run = Total(3, None)
    for turn in range(60):
        run.send(turn * 7 % 3, (None, None))
        for way in run.waiting()[turn % 2 :: 2]:
            run.pass_on(*way)
    run.settle()
    assert run.order(0) == run.order(1) == run.order(2)
    positions = [position for _, _, position, _ in run.sites[0].delivered if position is not None]
    assert positions == sorted(positions)
    run.check(range(3))


# Leads, message by message


def test_a_lead_and_a_jump() -> None:
    run = eager(2, COUNTER)
    (one,) = run.send(1, INC)
    assert one.stamp == [1]
    assert run.order(1) == []
    run.pass_on(1, 0)  # p0 has sent nothing: it leads with an empty repertoire, which tells its clock too
    assert told(run.pass_on(0, 1)) == [("lead", [1, 1 + LENGTH])]
    assert run.order(0) == run.order(1) == [(1, 1)]
    run.now += 3_000_000_000
    (two,) = run.send(1, INC)
    assert run.order(1)[-1] == (1, 2)  # at once, at its sender too
    run.pass_on(1, 0)
    assert run.order(0)[-1] == (1, 2)
    assert run.waiting() == []
    (jump,) = run.send(0, UPD)
    assert (two.stamp, jump.stamp) == ([2], [2 + LENGTH, 1, 2])
    assert "jumps" in run.sites[0].notes
    assert run.order(0)[-1] == (1, 2)
    assert run.pass_on(0, 1) == [jump]  # an update conflicts with what p1 sends: it must acknowledge
    assert told(run.pass_on(1, 0)) == [("ack", [2 + LENGTH])]
    assert run.order(0) == run.order(1) == [(1, 1), (1, 2), (0, 1)]
    run.check(range(2))


def test_a_lead_names_what_its_sender_sends() -> None:
    run = eager(2, BY_ITEM)
    run.send(1, item("b"))
    run.send(1, item("a"))
    run.settle()
    run.send(0, item("c"))
    run.pass_on(0, 1)
    assert told(run.pass_on(1, 0))[0][1][2:] == [1, 2]  # in the order of their appearance
    run.settle()
    end = run.sites[1].orderer.leader.lead.end
    (usual,) = run.send(1, item("b"))
    assert usual.stamp[0] < end
    (unusual,) = run.send(1, item("c"))
    assert unusual.stamp[0] == end + 1
    run.settle()
    run.check(range(2))


def test_a_lead_is_renewed_half_way_and_only_if_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leads, "LENGTH", 16)
    run = eager(2, COUNTER)
    said = []
    for _ in range(40):
        run.now += 3_000_000_000
        run.send(0, INC)
        run.pass_on(0, 1)
        said += told(run.ways[1, 0])
        run.settle()
    assert [what for what, _ in said] == ["lead"] * 5
    assert [stamp for _, stamp in said] == [[1, 17], [10, 26], [19, 35], [28, 44], [37, 53]]
    assert run.order(1)[-1] == (0, 40)
    run.check(range(2))


def test_after_a_jump_leads_are_given_again_with_the_acknowledgement() -> None:
    run = led(COUNTER, *[[INC]] * 3)
    run.send(0, INC)  # what is not used is not given again
    run.settle()
    for rank in (1, 2):
        run.sites[rank].orderer.leader._wait = 0
    run.send(0, UPD)
    run.pass_on(0, 1)
    run.pass_on(0, 2)
    for rank in (1, 2):
        what, stamp = told(run.ways[rank, 0])[-1]
        assert what == "lead"
        assert stamp[:2] == [run.sites[0].stream[-1].stamp[0], run.sites[0].stream[-1].stamp[0] + LENGTH]
    run.settle()
    run.check(range(3))


def seldom(run: Total) -> None:
    """p2 sends updates, but so seldom that it leads without them."""
    for _ in range(5):
        run.send(2, UPD)
        run.settle()
        for _ in range(60):
            run.send(0, INC)
            run.settle()
    lead_now(run, 2)
    for _ in range(20):  # many that are covered: when it is jumped over, the next lead comes at once
        run.send(0, INC)
        run.settle()


def test_a_shape_that_is_sent_seldom_leaves_the_repertoire() -> None:
    run = led(COUNTER, *[[INC]] * 3)
    seldom(run)
    lead = run.sites[2].orderer.leader.lead
    assert [shape.descriptions for shape in lead.shapes.all] == [(("decrement", None),)]  # or increment
    (update,) = run.send(2, UPD)
    assert "jumps" in run.sites[2].notes
    assert told(run.ways[2, 0])[-1][0] == "lead"
    (after,) = run.send(0, INC)
    run.settle()
    assert run.order(1).index((2, update.seq)) - run.order(1).index((0, after.seq)) in (1, -1)
    run.check(range(3))


def test_the_first_lead_waits_until_it_would_have_covered_enough() -> None:
    """At the start of a view nobody knows what a member sends: a lead would soon be jumped over."""
    run = Total(2, COUNTER)
    site = run.sites[1]
    for _ in range(6):
        run.send(0, INC)
        run.settle()
        assert "leads" not in site.notes
    run.send(0, INC)
    run.pass_on(0, 1)
    assert told(run.ways[1, 0]) == [("lead", [7, 7 + LENGTH])]
    run.settle()
    run.check(range(2))


def test_patience_grows_with_what_is_under_way() -> None:
    run = Total(2, COUNTER)
    for _ in range(40):
        run.send(0, UPD)
    site = run.sites[0].orderer
    assert site.undelivered == 39  # nothing can come before the first
    assert 6 < site.leader.patience < 40
    run.settle()
    assert site.undelivered == 0
    run.check(range(2))


def test_a_lead_keeps_what_it_has_promised_though_it_is_worth_less() -> None:
    """More is under way than when it was given: a shape that was left out as rare is not, but the lead lies ahead still."""
    run = led(COUNTER, *[[INC]] * 3)
    seldom(run)
    leader = run.sites[2].orderer.leader
    assert [shape.descriptions for shape in leader.lead.shapes.all] == [(("decrement", None),)]  # or increment
    leader.patience, leader.wanted = 1_000, True
    assert leader.announce(run.sites[2].orderer.lcv[2]) is not None
    assert [shape.descriptions for shape in leader.lead.shapes.all] == [(("decrement", None),)]  # or increment


def test_silent_members_lead_without_a_relation_too() -> None:
    run = eager(4, None)
    run.send(2, (None, None))
    run.settle()
    run.now += 3_000_000_000
    run.send(2, (None, None))
    assert run.order(2)[-1] == (2, 2)
    run.settle()
    assert sum("acks" in site.notes for site in run.sites) == 0
    run.check(range(4))


def test_numbers_are_not_given_twice() -> None:
    shapes, numbers = Shapes(BY_ITEM), Numbers()
    kept = [shapes.of(1, None, Column([(str(number),)])) for number in range(300)]
    for shape in kept:
        numbers.see(shape)
    assert numbers.shape(300) is kept[299]
    assert numbers.shape(300 - 256) is None
    numbers.see(kept[0])
    assert numbers.number(kept[0]) == 301
    assert numbers.shape(1) is None


# Free casts and wild ones

TYPES = Conflicts.by_operation({"ordered": ["ordered"], "free": []})
FREE: Message = ("free", None)
ORDERED: Message = ("ordered", None)
WILD: Message = (None, None)
NEXT = 1 << casting.BLOCK


def test_a_type_that_conflicts_with_nothing_is_delivered_when_it_comes_from_the_first() -> None:
    run = Total(3, TYPES)
    run.send(2, ORDERED)  # waits for everybody
    (free,) = run.send(2, FREE)
    assert run.order(2) == [(2, free.seq)]
    run.pass_on(2, 0, 2)
    assert run.order(0) == [(2, free.seq)]
    run.settle()
    run.send(1, FREE)
    run.pass_all(1, 0)
    assert not run.ways[0, 1]  # nobody acknowledges it, and nobody has led
    assert "leads" not in run.sites[0].notes
    run.settle()
    run.check(range(3))


@pytest.mark.parametrize("message", [FREE, INC], ids=["free", "covered"])
def test_what_nobody_waits_for_is_acknowledged_later(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one that conflicts finds the clocks where they would be in `single_phase`."""
    monkeypatch.setattr(casting, "BUSY", 0)  # free ones move the clock
    run = Total(3, TYPES) if message is FREE else led(COUNTER, [INC], [], [INC])
    for _ in range(3):
        (cast,) = run.send(2, message)
        run.pass_on(2, 0)
        site = run.sites[0].orderer
        assert run.order(0)[-1] == (2, cast.seq)
        assert not run.ways[0, 2]
        assert site.deadline() == run.now  # once the turn is over
        site.wake(run.now)
        run._turn(0)
        assert told(run.ways[0, 2]) == [("ack", cast.stamp[:1])]
        assert site.deadline() is None
        run.settle()
    run.check(range(3))


def test_the_first_wild_cast_goes_to_the_next_block_and_the_second_does_not() -> None:
    run = Total(3, TYPES)
    run.send(1, FREE)
    (wild,) = run.send(0, WILD)
    assert wild.stamp[0] == NEXT
    (again,) = run.send(0, WILD)
    assert again.stamp[0] == NEXT + 1
    run.settle()
    (other,) = run.send(1, WILD)
    assert other.stamp[0] == 2 * NEXT
    run.settle()
    assert run.order(0) == run.order(1) == run.order(2)
    run.check(range(3))


def test_a_free_cast_waits_for_whoever_may_send_a_wild_one_before_it() -> None:
    """p1 has moved to the block of p0's wild cast, p2 has not: its own first wild cast may come before what p1 sends now."""
    run = Total(3, TYPES)
    run.send(0, WILD)
    run.pass_all(0, 1)
    (free,) = run.send(1, FREE)
    (wild,) = run.send(2, WILD)
    assert wild.stamp[0] == NEXT < free.stamp[0]
    assert (1, free.seq) not in run.order(1)
    run.pass_all(1, 2)
    run.settle()
    for rank in range(3):
        assert run.order(rank).index((2, wild.seq)) < run.order(rank).index((1, free.seq))
    run.check(range(3))


def test_a_free_cast_waits_for_whoever_has_sent_a_wild_one_already() -> None:
    """Nothing else waits where it comes; but p0 need not go to another block any more to send something before it."""
    run = Total(3, TYPES)
    run.send(0, WILD)
    run.settle()
    (wild,) = run.send(0, WILD)
    (free,) = run.send(1, FREE)
    run.pass_all(1, 2)
    assert run.order(1) == run.order(2) == [(0, 1)]
    assert wild.stamp[0] == free.stamp[0]
    run.settle()
    assert run.order(0) == run.order(1) == run.order(2) == [(0, 1), (0, wild.seq), (1, free.seq)]
    run.check(range(3))


def test_a_free_cast_is_not_delivered_before_its_past() -> None:
    run = Total(3, TYPES)
    (one,) = run.send(0, FREE)
    run.pass_all(0, 1)
    (two,) = run.send(1, FREE)
    run.pass_all(1, 2)
    assert run.order(2) == []
    run.settle()
    assert run.order(2) == [(0, one.seq), (1, two.seq)]
    run.check(range(3))


def test_a_free_cast_waits_for_a_wild_one_that_is_here() -> None:
    run = Total(3, TYPES)
    run.send(2, WILD)
    run.settle()
    run.send(2, WILD)
    run.send(2, FREE)
    run.pass_all(2, 0)
    assert run.order(0) == [(2, 1)]
    run.settle()
    for rank in range(3):
        assert run.order(rank) == [(2, 1), (2, 2), (2, 3)]
    run.check(range(3))


def test_a_lead_does_not_cover_a_wild_cast_where_there_are_free_types() -> None:
    """Whoever leads may send a free cast at any time."""
    run = eager(2, TYPES)
    run.send(0, ORDERED)
    run.settle()
    lead = run.sites[1].orderer.leader.lead
    assert lead.end > 0
    shapes = run.sites[1].orderer.shapes
    assert lead.covers(shapes.of(1, Column(["ordered"]), None))
    assert not lead.covers(shapes.whole)
    assert not lead.covers(shapes.of(1, Column([None]), None))
    (free,) = run.send(1, FREE)
    assert free.stamp[0] < lead.end
    (wild,) = run.send(0, WILD)
    assert (0, wild.seq) not in run.order(0)
    run.settle()
    run.check(range(2))


def test_a_lead_that_covers_wild_casts_parts_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """p0 has sent a wild cast before, so the next takes no new block; p1 and p2 lead, with nothing in their repertoire."""
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(leads.Lead, "covers", lambda self, shape: self.shapes.clear_of(shape))
        run = eager(3, TYPES)
        for message in (WILD, ORDERED, ORDERED):
            run.send(0, message)
            run.settle()
        assert all(run.sites[rank].orderer.leader.lead.end > 0 for rank in (1, 2))
        (free,) = run.send(1, FREE)
        (wild,) = run.send(0, WILD)
        (wild,) = run.send(0, WILD)
        run.pass_all(0, 2)
        assert ((0, wild.seq) in run.order(2)) == broken
        run.settle()
        assert free.stamp[0] < wild.stamp[0]
        orders = [run.order(rank).index((1, free.seq)) < run.order(rank).index((0, wild.seq)) for rank in range(3)]
        assert (orders == [True, True, True]) != broken


def test_a_first_wild_cast_in_a_block_that_was_told_is_refused() -> None:
    site = Total(2, TYPES).sites[1].orderer
    with pytest.raises(RemoteProtocolError, match="first wild cast at 5, in the block of 0"):
        site.accept(0, [Cast(1, 0, [5], 1, [b"x"])], 0)
    site.accept(0, [Cast(1, 0, [NEXT], 1, [b"x"]), Cast(2, 0, [NEXT + 1], 2, [b"x"])], 0)


# What a peer must not do


def _cast(seq: int, stamp: list[int], *types: str) -> Cast:
    return Cast(seq, 0, stamp, seq, [b"x"] * len(types), column(types), None)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (_cast(1, [], "increment"), "do not increase"),
        (_cast(1, [0], "increment"), "do not increase"),
        (_cast(1, [1, 5, 1], "increment"), "depends on cast 1 of rank 5"),
        (_cast(1, [1, -1, 1], "increment"), "depends on cast 1 of rank -1"),
        (_cast(1, [1, 0, 9], "increment"), "depends on cast 9 of rank 0"),  # itself
        (_cast(1, [1, 1, 7], "increment"), "depends on cast 7 of rank 1"),  # which this site has not sent
        (_cast(1, [1, 1, -7], "increment"), "depends on cast -7 of rank 1"),
        (_cast(1, [1, 0], "increment"), "are not pairs"),
        (_cast(1, [1], "increase"), "none of this group"),
        (Direct(1, [1, 2]), "malformed acknowledgement"),
        (Direct(4, [1]), "malformed acknowledgement"),
        (Direct(2, [1]), "malformed lead"),
        (Direct(2, [5, 4]), "malformed lead"),
        (Direct(2, [1, 9, 1]), "malformed lead"),
    ],
)
def test_nonsense_is_refused(record: Cast | Direct, why: str) -> None:
    site = Total(2, COUNTER).sites[1].orderer
    with pytest.raises(RemoteProtocolError, match=why):
        site.accept(0, [record], 0) if isinstance(record, Cast) else site.direct(0, record, 0)
    assert site.lcv == [0, 0]
    assert not site.undelivered
    assert not site.queues.of


def test_of_a_run_with_nonsense_nothing_is_taken() -> None:
    site = Total(2, COUNTER).sites[1].orderer
    for wrong in (_cast(2, [1], "increment"), _cast(2, [2, 1], "increment"), _cast(2, [2], "increase")):
        with pytest.raises(RemoteProtocolError):
            site.accept(0, [_cast(1, [1], "increment"), wrong], 0)
        assert (site.lcv, site.undelivered) == ([0, 0], 0)


@pytest.mark.parametrize("known", [True, False])
def test_a_broken_promise_is_refused(known: bool) -> None:
    """On the short way for types that came before, and on the other."""
    site = Total(2, COUNTER).sites[1].orderer
    if known:
        site.shapes.of(1, Column(["update"]), None)
    site.accept(0, [_cast(1, [1], "increment")], 0)
    site.direct(0, Direct(2, [1, 100, 1]), 0)
    site.accept(0, [_cast(2, [2], "increment")], 0)
    with pytest.raises(RemoteProtocolError, match="has promised up to 100 what it breaks at 3"):
        site.accept(0, [_cast(3, [3], "update")], 0)
    assert site.received.delivered[0] == 2
    site.accept(0, [_cast(3, [101], "update")], 0)


def test_a_promise_is_not_taken_back() -> None:
    site = Total(2, COUNTER).sites[1].orderer
    site.accept(0, [_cast(1, [1], "increment"), _cast(2, [2], "update")], 0)
    site.direct(0, Direct(2, [2, 100, 1]), 0)
    with pytest.raises(RemoteProtocolError, match="takes back"):
        site.direct(0, Direct(2, [3, 120, 1, 2]), 0)
    site.direct(0, Direct(2, [100, 200, 1, 2]), 0)


# The end of a view


def test_what_knows_of_a_lost_cast_is_not_delivered_where_it_is_lost() -> None:
    run = led(BY_ITEM, [item("a")], [item("b")], [])
    lost = run.send(0, item("a"))
    run.pass_on(0, 1)
    knowing = run.send(1, item("b"))
    run.pass_all(1, 2)
    assert (1, knowing[0].seq) not in run.order(2)
    run.end([2])
    assert (1, knowing[0].seq) not in run.order(2)
    run.end([0, 1])
    assert run.order(1)[-2:] == [(0, lost[0].seq), (1, knowing[0].seq)]
    run.check([0, 1])


def test_a_cast_that_is_delivered_without_what_its_sender_knew_parts_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule (a) is for the end of the view. Here p2 drops it; who goes on with it cannot deliver what it has delivered."""
    for broken in (False, True):
        run = led(BY_ITEM, [item("a")], [item("b")], [], [])
        run.send(0, item("a"))
        run.pass_on(0, 1)
        (knowing,) = run.send(1, item("b"))
        if broken:
            site = run.sites[2].orderer
            monkeypatch.setattr(site, "_find_ready", lambda site=site, seq=knowing.seq: site.ready.__setitem__(1, seq))
        run.pass_all(1, 2)
        assert ((1, knowing.seq) in run.order(2)) == broken
        run.end([2, 3])
        assert ((1, knowing.seq) in run.order(2)) == broken
        assert (1, knowing.seq) not in run.order(3)


def test_safe_asks_for_what_the_sender_knew() -> None:
    run = Total(3, BY_ITEM, level="safe")
    run.send(0, item("a"))
    run.pass_all(0, 1)
    run.send(1, item("b"))
    run.settle()
    evidence = {(sender, cast.seq): evidence for sender, cast, _, evidence in run.sites[2].delivered}
    assert evidence == {(0, 1): (), (1, 1): (0, 1)}


# Any schedule

RELATIONS = {"types": TYPES, "counter": COUNTER, "item": BY_ITEM, "editor": EDITOR, "neighbours": NEIGHBOURS, "everything": None}
NAMES = {"types": TYPES.types, "counter": COUNTER.types, "editor": EDITOR.types}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_schedule(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RELATIONS)))
    types = st.sampled_from(NAMES[name]) if name in NAMES else st.none()
    untyped = st.none() if data.draw(st.booleans()) else types
    items = st.none() | st.lists(st.sampled_from("abcde"), max_size=2, unique=True)
    message = st.tuples(types | untyped, items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leads, "LENGTH", data.draw(st.sampled_from([2, 4, 16])))
        patch.setattr(casting, "PATIENCE", data.draw(st.integers(0, 1)))
        patch.setattr(casting, "BUSY", data.draw(st.sampled_from([0, 300, 1 << 40])))
        block = data.draw(st.sampled_from([2, 5, 32]))
        patch.setattr(casting, "BLOCK", block)
        patch.setattr(passing, "BLOCK", block)
        patch.setattr(waiting, "_ROOM", data.draw(st.sampled_from([1, 32])))
        make = data.draw(st.sampled_from([Total, eager, peaceful]))
        run = make(data.draw(st.integers(2, 4)), RELATIONS[name])
        for _ in range(data.draw(st.integers(0, 60))):
            ways = run.waiting()
            if ways and data.draw(st.integers(0, 3)):
                way = data.draw(st.sampled_from(ways))
                run.pass_on(*way, data.draw(st.integers(1, len(run.ways[way]))))
            else:
                sender = data.draw(st.integers(0, len(run.sites) - 1))
                run.send(sender, *data.draw(st.lists(message, min_size=1, max_size=3)))
        everybody = range(len(run.sites))
        if data.draw(st.booleans()):
            run.settle()
            sent = sorted((rank, cast.seq) for rank in everybody for cast in run.sites[rank].stream)
            assert [sorted(run.order(rank)) for rank in everybody] == [sent] * len(run.sites)
            run.check(everybody)
        else:
            one = data.draw(st.sets(st.sampled_from(everybody)))
            for component in (sorted(one), [rank for rank in everybody if rank not in one]):
                if component:
                    run.end(component)
            run.check()
            for component in (sorted(one), [rank for rank in everybody if rank not in one]):
                assert len({tuple(sorted(run.order(rank))) for rank in component}) <= 1
