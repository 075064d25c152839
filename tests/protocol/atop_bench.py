"""Records of `atop` by hand, for one orderer on the bench."""

from __future__ import annotations

from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.atop.distribution import Slots
from isotone.protocol.ordering.atop.mechanism import Atop
from tests.protocol.orderer_bench import Bench, make

MESSAGES, FIRST, SKIP, DUMMY, POLICY = range(5)


def site(rank: int, count: int, owners: list[int] | None = None, **options: int | str | bool) -> tuple[Atop, Bench]:
    """An orderer that adapts only when told to; `owners` replaces the sequence of the default distribution."""
    options.setdefault("policy", "none")
    orderer, bench = make("atop", rank, count, **options)
    assert isinstance(orderer, Atop)
    if owners is not None:
        orderer.ordering._slots = slots = Slots(owners, count)
        orderer.bounds = [slots.slot(member, 0) for member in range(count)]
        orderer.own = orderer.bounds[rank]
    return orderer, bench


def message(seq: int, dist: int, index: int, *past: int) -> Cast:
    return Cast(seq, MESSAGES, [dist, index, *past], seq, [b"x"])


def first(seq: int, dist: int, index: int, weights: tuple[int, ...], *past: int) -> Cast:
    return Cast(seq, FIRST, [dist, index, *weights, *past], seq, [b"x"])


def skip(dist: int, index: int) -> Direct:
    return Direct(SKIP, [dist, index])


def dummy(dist: int, index: int, weights: tuple[int, ...]) -> Direct:
    return Direct(DUMMY, [dist, index, *weights])


def ids(bench: Bench) -> list[tuple[int, int]]:
    """(sender, seq) of what was delivered."""
    return [(sender, cast.seq) for sender, cast, _, _ in bench.delivered]


def positions(bench: Bench) -> list[tuple[int, ...] | None]:
    return [position for _, _, position, _ in bench.delivered]
