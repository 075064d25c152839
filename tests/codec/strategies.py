"""Packets and their parts, as Hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from isotone.model import records as r
from isotone.model.columns import described
from isotone.model.conflicts import Conflicts
from isotone.model.ids import ViewId
from isotone.model.view import Ordering, View

names = st.text("abcXYZ019_.-", min_size=1, max_size=8)
processes = st.builds(lambda name, n: f"{name}#{n}", names, st.integers(1, 10**13))
counters = st.integers(0, 2**62 - 1)
stamps = st.lists(st.integers(-(2**40), 2**62 - 1), max_size=5)
view_ids = st.builds(ViewId, counters, st.one_of(st.just(""), processes))
texts = st.text(max_size=20)
ranks = st.lists(counters, max_size=5)
payloads = st.lists(st.binary(max_size=300), max_size=6)


@st.composite
def casts(draw: st.DrawFn) -> r.Cast:
    messages = draw(payloads)
    n = len(messages)
    types = draw(st.none() | st.lists(st.none() | texts, min_size=n, max_size=n))
    items = draw(st.none() | st.lists(st.none() | st.lists(texts, max_size=3), min_size=n, max_size=n))
    columns = described(n, types, items) if n else (None, None)
    seq = draw(st.integers(1, 2**62 - 1))
    return r.Cast(seq, draw(st.integers(0, 40)), draw(stamps), draw(counters), messages, *columns)


@st.composite
def places(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    who = draw(st.lists(processes, max_size=4))
    return who, draw(st.lists(texts, min_size=len(who), max_size=len(who)))


words = st.sampled_from(["insert", "update", "delete", "scroll"])
tables = st.dictionaries(words, st.lists(words, max_size=3), max_size=3).map(
    lambda table: {**{word: [] for others in table.values() for word in others}, "read": [], **table}
)
relations = st.one_of(
    st.builds(Conflicts),
    st.builds(Conflicts.by_item),
    st.builds(Conflicts.by_operation, tables),
    st.builds(Conflicts.by_both, tables, tables),
    st.builds(lambda name, version: Conflicts("predicate", name=name, version=version), names, texts),
)
orderings = st.builds(
    Ordering,
    texts,
    st.sampled_from(["agreed", "k", "safe"]),
    st.integers(1, 9),
    st.dictionaries(texts, st.one_of(st.booleans(), st.integers(-9, 2**40), texts), max_size=3),
    st.none() | relations,
    texts,
)
members = st.lists(processes, min_size=1, max_size=5, unique=True).map(lambda who: tuple(sorted(who)))
views = st.builds(View, view_ids, members, orderings)
sequenced = st.one_of(
    casts(),
    st.builds(r.Direct, st.integers(0, 40), stamps),
    st.builds(r.Relay, st.integers(0, 99), casts()),
)


def early(members: int) -> st.SearchStrategy[list[r.Place]]:
    """Casts of so many members, sorted."""
    if not members:
        return st.just([])
    return st.lists(st.tuples(st.integers(0, members - 1), st.integers(1, 2**62 - 1)), max_size=4, unique=True).map(sorted)


@st.composite
def cohorts_of(draw: st.DrawFn) -> r.Cohort:
    who, present = draw(st.lists(processes, max_size=3)), draw(st.lists(processes, max_size=3))
    common = draw(early(len(who))) if present else []
    ahead = draw(st.lists(early(len(who)), max_size=3))
    holders, held = draw(st.lists(processes, max_size=3)), draw(st.lists(ranks, max_size=3))
    return r.Cohort(draw(view_ids), who, present, draw(ranks), holders, held, common, ahead, draw(ranks))


@st.composite
def states(draw: st.DrawFn) -> r.State:
    who = draw(st.lists(processes, max_size=3))
    said = draw(ranks), draw(ranks), draw(st.booleans()), draw(orderings), draw(st.none() | shares)
    return r.State(draw(view_ids), draw(st.none() | view_ids), who, *said, draw(early(len(who))), draw(counters))


cohorts = cohorts_of()


@st.composite
def probes(draw: st.DrawFn) -> r.Probe:
    who, where = draw(places())
    flags = [draw(st.booleans()) for _ in range(3)]
    return r.Probe(draw(texts), draw(st.none() | view_ids), draw(view_ids), who, who, where, *flags)


@st.composite
def installs(draw: st.DrawFn) -> r.Install:
    view = draw(views)
    n = len(view.members)
    return r.Install(draw(view_ids), view, draw(st.lists(texts, min_size=n, max_size=n)))


@st.composite
def heartbeats(draw: st.DrawFn) -> r.Heartbeat:
    suspects = draw(st.lists(processes, max_size=3))
    flags = draw(st.booleans()), draw(st.booleans())
    return r.Heartbeat(draw(view_ids), draw(view_ids), draw(ranks), draw(st.integers(0, 9)), *flags, suspects)


shares = st.builds(r.Share, st.integers(0, 2), st.lists(view_ids, max_size=2))


@st.composite
def decisions(draw: st.DrawFn) -> r.Decision:
    view = draw(views)
    n = len(view.members)
    addresses = draw(st.lists(texts, min_size=n, max_size=n))
    who = draw(st.lists(processes, max_size=3))
    found = draw(st.lists(shares, min_size=len(who), max_size=len(who)))
    return r.Decision(draw(view_ids), view, addresses, draw(st.none() | cohorts), who, found)


@st.composite
def plans(draw: st.DrawFn) -> r.Plan:
    who = draw(st.lists(processes, max_size=3))
    n = len(who)
    found = draw(st.lists(shares, min_size=n, max_size=n))
    return r.Plan(draw(view_ids), draw(st.lists(cohorts, max_size=2)), who, found)


loose = st.one_of(
    heartbeats(),
    st.builds(r.Vote, view_ids, st.integers(0, 5), counters, st.integers(-1, 2**62 - 1), st.none() | decisions()),
    st.builds(r.Charter, st.lists(names, max_size=4), st.none() | relations),
    st.builds(r.Echo, counters, st.none() | st.builds(r.Seen, counters, counters, counters)),
    probes(),
    st.builds(lambda round_, at: r.Propose(round_, *at), view_ids, places()),
    st.builds(r.Reject, view_ids, view_ids),
    states(),
    plans(),
    st.builds(r.Ready, view_ids),
    installs(),
    st.builds(r.Installed, view_ids),
    st.builds(r.Refuse, texts, st.booleans()),
    st.builds(r.Offer, view_ids, counters, texts),
    st.builds(r.Want, view_ids, counters, counters, counters, counters, st.binary(max_size=16)),
    st.builds(r.Piece, view_ids, counters, counters, st.binary(max_size=300)),
    st.builds(r.Differs, view_ids, counters),
    st.builds(r.Have, view_ids),
)
packets = st.builds(
    r.Packet,
    counters,
    st.one_of(st.just(""), processes),
    st.integers(0, 2**60),
    counters,
    st.lists(sequenced, max_size=4),
    st.lists(loose, max_size=4),
)
