"""Plain times of `semantic_total`: while nobody has promised anything, what a cast is counts for nothing; it is learned later."""

from __future__ import annotations

from random import Random

import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.records import Cast, Direct
from isotone.protocol.semantic import casting, leads
from isotone.protocol.semantic.leads import LATEST, LENGTH, VAIN, Leader
from isotone.protocol.semantic.shapes import Shapes
from tests.protocol.total_bench import Message, Total

BY_ITEM = Conflicts.by_item()
COUNTER = Conflicts.by_operation({"update": ["update", "increment"], "increment": []})
TYPES = Conflicts.by_operation({"ordered": ["ordered"], "free": []})
PREDICATE = Conflicts.by_predicate("tests.plain.always", lambda type_a, items_a, type_b, items_b: True)
UPD: Message = ("update", None)
INC: Message = ("increment", None)


def item(*names: str) -> Message:
    return None, names


def number_of(run: Total, rank: int, sender: int, message: Message) -> int | None:
    """The number that a site has for a shape in a stream."""
    type_, items = message
    site = run.sites[rank].orderer
    shape = site.shapes.of(1, None if type_ is None else Column([type_]), None if items is None else Column([tuple(items)]))
    return site.appeared[sender].number(shape)


def lead(run: Total, rank: int, patch: pytest.MonkeyPatch) -> None:
    """A site promises, whatever it has learned."""
    patch.setattr(Leader, "_wanted_by_others", lambda self, named: True)
    orderer = run._step(rank).orderer
    orderer.leader.wanted = orderer.leader.stirred = True
    run.study(rank)


def test_in_plain_times_shapes_are_not_made() -> None:
    run = Total(2, BY_ITEM)
    for one in run.sites:
        one.orderer.leader.room = LATEST  # nothing has been worth a promise for a while
    run.send(0, item("a"))
    run.settle()
    for one in run.sites:
        assert one.orderer.plain
        assert one.orderer.log == [(0, 1, ("a",), False)]
        assert not one.orderer.shapes.known
    assert run.order(0) == run.order(1) == [(0, 1)]
    run.check(range(2))


def test_plain_casts_are_delivered_by_their_keys_when_the_clocks_are_past_them() -> None:
    run = Total(3, BY_ITEM)
    run.send(2, item("x"))
    run.send(0, item("y"))
    run.pass_all(2, 1)
    assert run.order(1) == []  # p0 may send something before it
    run.pass_all(0, 1)
    assert run.order(1) == [(0, 1), (2, 1)]
    run.settle()
    assert all(run.order(rank) == [(0, 1), (2, 1)] for rank in range(3))
    run.check(range(3))


def test_a_promise_comes_while_casts_wait() -> None:
    """What waits in the heap becomes queues by shape, and what the promise covers goes."""
    run = Total(3, BY_ITEM)
    run.send(0, item("a"))
    run.send(0, item("b"))
    run.pass_all(0, 1)
    run.pass_all(1, 2)  # a clock, and nothing of p0
    run.pass_on(0, 2, 2)
    site = run.sites[2].orderer
    waiting = [entry[2].seq for entry in sorted(site.heap)]
    run.ways[1, 2].insert(0, Direct(2, [site.lcv[1], site.lcv[1] + LENGTH]))  # p1 leads, and sends nothing
    done = len(run.order(2))
    run.pass_on(1, 2)
    assert not site.plain
    assert not site.heap
    assert site.promised
    assert [seq for _, seq in run.order(2)[done:]] == waiting  # p0's clock is past its own
    assert number_of(run, 2, 0, item("a")) == 1
    assert number_of(run, 2, 0, item("b")) == 2


def test_what_is_not_ready_waits_when_plain_times_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """p0 leads with its item. What p1 sends is covered by that, but knows of a cast of p0 that p2 does not have."""
    run = Total(3, BY_ITEM)
    run.send(0, item("a"))
    run.settle()
    lead(run, 0, monkeypatch)
    run.send(0, item("a"))
    run.pass_all(0, 1)
    run.send(1, item("b"))
    run.send(1, item("c"))
    run.pass_all(1, 2)
    site = run.sites[2].orderer
    assert site.plain
    assert len(site.heap) == 2
    run.pass_on(0, 2)
    assert not site.plain
    assert site.late == 2
    assert site.ready == [1, 0, 0]
    assert run.order(2) == [(0, 1)]
    run.pass_on(0, 2)
    assert site.late == 0
    assert site.ready == [2, 2, 0]
    run.settle()
    assert all(sorted(run.order(rank)) == [(0, 1), (0, 2), (1, 1), (1, 2)] for rank in range(3))
    run.check(range(3))


def test_numbers_are_alike_at_all_members_though_they_learned_at_other_times(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Total(3, BY_ITEM)
    for index in range(5):
        run.send(0, item(f"{index % 4}"))
        run.pass_all(0, 1)  # p2 hears later
    run.settle()
    assert any(site.orderer.log for site in run.sites)
    lead(run, 0, monkeypatch)
    assert not run.sites[0].orderer.plain
    given = [record for record in run.ways[0, 1] if isinstance(record, Direct) and record.kind == 2]
    assert len(given) == 1
    run.settle()
    for rank in range(3):
        assert [number_of(run, rank, 0, item(f"{index}")) for index in range(4)] == [1, 2, 3, 4]
        assert run.sites[rank].orderer.leads[0].end == given[0].stamp[1]
    run.check(range(3))


def test_plain_times_return_when_all_promises_are_over() -> None:
    run = Total(2, COUNTER)
    for _ in range(40):
        run.send(0, INC)
        run.send(1, INC)
        run.settle()
    sites = [site.orderer for site in run.sites]
    assert not any(site.plain for site in sites)
    run.send(0, UPD)  # jumps, and ends the promises of both
    run.settle()
    for site in sites:
        site.leader._wait = site.leader._trial = 1 << 40
    for _ in range(3):
        run.send(0, UPD)
        run.send(1, UPD)
        run.settle()
    for site in sites:
        assert site.plain == (site.mrmt >= max(site.leader.lead.end, site.leader.truce.end) and not site.promised)
    run.check(range(2))


def test_who_may_still_be_bound_by_an_own_promise_is_not_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Total(2, BY_ITEM)
    run.send(0, item("a"))
    run.settle()
    lead(run, 1, monkeypatch)
    site = run.sites[1].orderer
    assert site.leader.lead.end > site.mrmt
    for _ in range(3):
        run.study(1)
        assert not site.plain
    site.leader.lead.end = site.mrmt
    run.study(1)
    assert site.plain


@pytest.mark.parametrize(
    ("relation", "cast"),
    [
        (COUNTER, Cast(1, 0, [1], 1, [b"x"], Column(["unknown"]))),
        (COUNTER, Cast(1, 0, [1], 1, [b"x", b"y"], Column(["update", "unknown"], b"\0\1"))),
        (BY_ITEM, Cast(1, 0, [1], 1, [b"x"], None, Column([("",)]))),
        (BY_ITEM, Cast(1, 0, [1], 1, [b"x"], None, Column([("a", "")]))),
        (TYPES, Cast(1, 0, [1], 1, [b"x"], Column(["unknown"]))),
        (COUNTER, Cast(1, 0, [], 1, [b"x"], Column(["update"]))),
        (COUNTER, Cast(1, 0, [1, 0], 1, [b"x"], Column(["update"]))),
        (COUNTER, Cast(1, 0, [1, 7, 1], 1, [b"x"], Column(["update"]))),
    ],
)
def test_what_is_refused_at_other_times_is_refused_in_plain_times(relation: Conflicts, cast: Cast) -> None:
    """All or none: nothing of it is left, neither in the heap nor in the log."""
    good = Cast(1, 0, [1], 1, [b"x"], Column(["update" if relation is COUNTER else "ordered"]), Column([("a",)]))
    bad = Cast(2, 0, [stamp + (i == 0) for i, stamp in enumerate(cast.stamp)], 2, cast.payloads, cast.types, cast.items)
    for casts in ([cast], [good, bad]):
        for plain in (True, False):
            site = Total(2, relation).sites[1].orderer
            site.plain = site.simple = plain
            with pytest.raises(RemoteProtocolError):
                site.accept(0, casts, 0)
            assert (site.undelivered, site.heap, site.log, site.lcv) == (0, [], [], [0, 0])


def test_a_predicate_is_asked_about_each_cast() -> None:
    """It is the application's, and may fail: there are no plain times."""
    run = Total(2, PREDICATE)
    assert not run.sites[0].orderer.plain
    run.send(0, item("a"))
    run.settle()
    assert not any(site.orderer.plain for site in run.sites)


def test_a_view_ends_in_plain_times() -> None:
    """p1 and p2 go on without p0: what depends on a cast that neither has is left out."""
    run = Total(3, BY_ITEM)
    run.send(1, item("z"))
    run.send(0, item("a"))
    run.send(0, item("b"))
    run.pass_on(0, 1, 1)
    lost = run.send(0, item("c"))
    knows = run.send(1, item("d"))
    run.arrived[1][0] = 1
    assert run.sites[1].orderer.plain
    run.end((1, 2))
    for rank in (1, 2):
        assert (0, lost[0].seq) not in run.order(rank)
        assert run.order(rank) == [(1, 1), (0, 1), (1, knows[0].seq)] or run.order(rank) == [(0, 1), (1, 1), (1, knows[0].seq)]
    assert run.order(1) == run.order(2)
    run.check((1, 2))


def test_what_is_said_about_a_switch_is_one_with_everything() -> None:
    """It has no number and no shape of its own, in plain times and when they end."""
    run = Total(2, BY_ITEM)
    site = run.sites[1].orderer
    site.accept(0, [Cast(1, 0, [1], 0, [b"switch"]), Cast(2, 0, [2], 1, [b"x"], None, Column([("a",)]))], 0)
    assert site.plain
    assert site.log[0][2] is site.shapes.whole
    site.direct(0, Direct(2, [2, 2 + LENGTH]), 0)
    assert {entry[2].seq: queue.shape is site.shapes.whole for queue in site.queues.of.values() for entry in queue.entries} == {
        1: True, 2: False,
    }  # fmt: skip
    assert site.appeared[0].newest == 1  # of the other one


def test_free_casts_pass_in_plain_times_and_a_wild_one_ends_them() -> None:
    run = Total(3, TYPES)
    site = run.sites[1].orderer
    run.send(2, ("ordered", None))
    run.send(2, ("free", None))
    run.pass_on(2, 1, 2)
    assert site.plain
    assert run.order(1) == [(2, 2)]  # the ordered one waits for p0
    run.send(0, (None, None))
    run.pass_all(0, 1)
    assert not site.plain
    run.settle()
    assert not any(one.orderer.plain for one in run.sites)
    assert all(len(run.order(rank)) == 3 for rank in range(3))
    run.check(range(3))


def test_a_free_cast_that_is_not_ready_ends_plain_times() -> None:
    run = Total(3, TYPES)
    run.send(0, ("free", None))
    run.pass_all(0, 1)
    run.send(1, ("free", None))
    run.pass_all(1, 2)
    assert not run.sites[2].orderer.plain
    assert run.order(2) == []
    run.settle()
    assert run.order(2) == [(0, 1), (1, 1)]
    assert run.sites[2].orderer.plain  # nothing waits any more
    run.check(range(3))


def test_a_free_cast_waits_for_what_earlier_casts_of_its_sender_know_of() -> None:
    run = Total(3, TYPES)
    run.send(0, ("free", None))
    run.pass_all(0, 1)
    run.send(1, ("ordered", None))
    run.send(1, ("free", None))  # says nothing of p0 that the other one has not said
    run.pass_all(1, 2)
    assert run.order(2) == []
    assert not run.sites[2].orderer.plain
    run.settle()
    assert sorted(run.order(2)) == [(0, 1), (1, 1), (1, 2)]
    run.check(range(3))


def test_the_log_is_bounded() -> None:
    run = Total(3, BY_ITEM)
    for index in range(300):
        run.send(0, item(f"{index}"))
        run.pass_on(0, 1)  # p1 hears nothing of p2: all of them wait
        assert len(run.sites[1].orderer.log) <= LATEST
    assert run.sites[1].orderer.undelivered > 200


@pytest.mark.parametrize("seed", range(40))
def test_any_schedule_with_promises_coming_and_going(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites that learn now and then, and promises so short that plain times begin and end all the time."""
    rng = Random(seed)
    monkeypatch.setattr(leads, "LENGTH", rng.choice([2, 6, 20]))
    monkeypatch.setattr(casting, "PATIENCE", 1)
    relation = rng.choice([BY_ITEM, COUNTER, TYPES, None])
    kinds: list[Message] = {id(BY_ITEM): [item("a"), item("b"), item("a", "c")], id(COUNTER): [UPD, INC, INC, INC]}.get(
        id(relation), [("free", None), ("ordered", None), ("free", None), (None, None)] if relation else [(None, None)]
    )
    count = rng.choice([2, 3, 4])
    run = Total(count, relation)
    folds = 0
    for _ in range(150):
        before = [site.orderer.plain for site in run.sites]
        if rng.random() < 0.3:
            usual = rng.randrange(count)
            run.send(usual, *[rng.choice(kinds) if rng.random() < 0.3 else kinds[usual % len(kinds)]] * rng.choice([1, 1, 2]))
        elif ways := run.waiting():
            run.pass_on(*rng.choice(ways))
        folds += sum(one != site.orderer.plain for one, site in zip(before, run.sites, strict=True))
    if rng.random() < 0.5:
        run.settle()
        assert len({len(run.order(rank)) for rank in range(count)}) == 1
    together = range(rng.choice([0, 1]), count)
    run.end(together)
    run.check(together)
    assert folds or relation is None or relation is TYPES


def test_after_a_crowd_members_learn_anew() -> None:
    """Many mixed casts at a time, for which leads are not worth while; then one at a time."""
    run = Total(3, COUNTER)
    for site in run.sites:
        site.orderer.leader._trial = site.orderer.leader._wait = 1_000
    for _ in range(40):
        for rank in range(3):
            for _ in range(4):
                run.send(rank, UPD, INC)
        run.settle()
    for site in run.sites:
        assert site.orderer.crowded
        assert site.orderer.plain
        assert site.orderer.leader._trial == 1_000
        site.notes.clear()
    for index in range(40):
        run.send(index % 3, INC)
        run.settle()
    for site in run.sites:
        assert not site.orderer.crowded
        assert site.orderer.leader._trial < 100
        assert "truces" in site.notes
    run.check(range(3))


def test_a_crowd_that_promises_let_go_is_no_reason_to_forget() -> None:
    run = Total(3, COUNTER)
    for _ in range(30):
        for rank in range(3):
            run.send(rank, INC)
        run.settle()
    for site in run.sites:
        assert site.orderer.promised
        site.orderer.crowd, site.orderer.crowded = 40, True
        site.orderer.leader._trial = 77
    for index in range(20):
        run.send(index % 3, INC)
        run.settle()
    for site in run.sites:
        assert not site.orderer.crowded
        assert site.orderer.leader._trial == 77
    run.check(range(3))


def test_promises_that_cover_nothing_any_more_are_given_up() -> None:
    """They would keep everybody from plain times for thousands of timestamps."""
    run = Total(3, BY_ITEM)
    for turn in range(40):
        for rank in range(3):
            run.send(rank, item(f"of {rank}"))
            if turn % 3 == rank:
                run.send(rank, item(f"once {turn} {rank}"))
        run.settle()
    assert all(site.orderer.promised and not site.orderer.plain for site in run.sites)
    before = max(run.sites[0].orderer.lcv)
    for index in range(3 * VAIN):  # all send the same now, which nobody spares
        run.send(index % 3, item("shared"))
        run.settle()
    assert max(run.sites[0].orderer.lcv) > before + 1_000
    assert all(site.orderer.plain for site in run.sites)
    run.check(range(3))


def test_the_shape_of_one_item_is_told_by_it() -> None:
    shapes = Shapes(BY_ITEM)
    assert shapes.glance(1, None, Column([("a",)])) == ("a",)
    assert shapes.glance(1, None, Column([("a", "b")])) is shapes.of(1, None, Column([("b", "a")]))
    assert shapes.glance(1, None, None) is shapes.of(1, None, None)
    counter = Shapes(COUNTER)
    assert counter.glance(1, Column(["update"]), None) is counter.of(1, Column(["update"]), None)


def test_large_batches_say_nothing_of_how_rare_an_own_kind_is() -> None:
    """Its own casts of that kind were in large batches too; it gave truces that it broke with the next message."""
    run = Total(3, BY_ITEM)
    mixed = [item(f"x{index}") for index in range(70)]
    run.send(0, item("x1"))
    run.settle()
    leader = run.sites[0].orderer.leader
    for _ in range(40):
        for rank in range(3):
            run.send(rank, *mixed)
        run.settle()
    leader.learn()
    shape = run.sites[0].orderer.shapes.of(1, None, Column([("x1",)]))
    assert not leader._own[shape].rare(leader.patience)
    for _ in range(40):
        run.send(1, item("x1"))
        run.settle()
    leader.learn()
    assert leader._own[shape].rare(leader.patience)
    run.check(range(3))
