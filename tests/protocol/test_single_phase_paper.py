"""The worked examples of paper 003, message by message and vector by vector.

The scripts follow the words of §4.4 (Figure 2) and §5 (Figure 3); the drawings are derived from them. `G s t` is an operation
of site s with timestamp t, `A s t` an acknowledgement. Each line is one step at one site: what happens, then LCV, PMQ, what is
executed, and what is multicast.
"""

from __future__ import annotations

import itertools

import pytest

from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.single_phase import SinglePhase
from tests.protocol.orderer_bench import Bench, batch, make

FIGURE_2 = """
site 0: send           | LCV 1 0 0 | PMQ          | executes G01     | multicasts G01
site 0: receive G11    | LCV 1 1 0 | PMQ          | executes G11     | multicasts A01
site 0: receive A11    | LCV 1 1 0 | PMQ          | executes         | multicasts
site 0: receive A21    | LCV 1 1 1 | PMQ          | executes         | multicasts
site 0: receive A21    | LCV 1 1 1 | PMQ          | executes         | multicasts
site 1: send           | LCV 0 1 0 | PMQ G11      | executes         | multicasts G11
site 1: receive G01    | LCV 1 1 0 | PMQ          | executes G01 G11 | multicasts A11
site 1: receive A01    | LCV 1 1 0 | PMQ          | executes         | multicasts
site 1: receive A21    | LCV 1 1 1 | PMQ          | executes         | multicasts
site 1: receive A21    | LCV 1 1 1 | PMQ          | executes         | multicasts
site 2: receive G11    | LCV 0 1 1 | PMQ G11      | executes         | multicasts A21
site 2: receive G01    | LCV 1 1 1 | PMQ          | executes G01 G11 | multicasts A21
site 2: receive A11    | LCV 1 1 1 | PMQ          | executes         | multicasts
site 2: receive A01    | LCV 1 1 1 | PMQ          | executes         | multicasts
"""

FIGURE_3 = """
site 0: send           | LCV 1 0 0 | PMQ          | executes G01     | multicasts G01
site 0: receive G11    | LCV 1 1 0 | PMQ          | executes G11     | multicasts
site 1: send           | LCV 0 1 0 | PMQ G11      | executes         | multicasts G11
site 1: receive G01    | LCV 1 1 0 | PMQ          | executes G01 G11 | multicasts
site 2: receive G11    | LCV 0 1 1 | PMQ G11      | executes         | multicasts
site 2: receive G01    | LCV 1 1 1 | PMQ          | executes G01 G11 | multicasts
site 1: send           | LCV 1 2 0 | PMQ G12      | executes         | multicasts G12
site 0: receive G12    | LCV 2 2 0 | PMQ G12      | executes         | multicasts A02
site 2: receive G12    | LCV 1 2 2 | PMQ G12      | executes         | multicasts A22
site 0: receive A22    | LCV 2 2 2 | PMQ          | executes G12     | multicasts
site 1: receive A02    | LCV 2 2 0 | PMQ G12      | executes         | multicasts
site 1: receive A22    | LCV 2 2 2 | PMQ          | executes G12     | multicasts
site 2: receive A02    | LCV 2 2 2 | PMQ          | executes G12     | multicasts
"""


class Site:
    """A site of the paper: an orderer and what it has said so far."""

    def __init__(self, rank: int, protocol: int) -> None:
        orderer, self.bench = make("single_phase", rank, 3, protocol=protocol)
        assert isinstance(orderer, SinglePhase)
        self.orderer = orderer
        self.rank = rank
        self._seen = (0, 0, 0)

    def news(self) -> tuple[str, str]:
        """What was executed and multicast since the last call."""
        bench: Bench = self.bench
        delivered, casts, directs = self._seen
        executed = [f"G{sender}{cast.stamp[0]}" for sender, cast, _, _ in bench.delivered[delivered:]]
        sent = [f"G{self.rank}{cast.stamp[0]}" for cast in bench.casts[casts:]]
        sent += [f"A{self.rank}{record.stamp[0]}" for _, record in bench.directs[directs:]]
        self._seen = (len(bench.delivered), len(bench.casts), len(bench.directs))
        return " ".join(executed), " ".join(sent)


def play(script: str, protocol: int) -> list[Site]:
    sites = [Site(rank, protocol) for rank in range(3)]
    sequence = [0, 0, 0]
    casts: dict[str, Cast] = {}
    for line in script.strip().splitlines():
        event, lcv, pmq, executes, multicasts = (part.strip() for part in line.split("|"))
        site = sites[int(event[5])]
        action = event.split(": ")[1]
        if action == "send":
            site.orderer.submit(batch(b"op"), 0)
        else:
            kind, sender, ts = action.split()[1]
            if kind == "G":
                name = f"G{sender}{ts}"
                if name not in casts:
                    sequence[int(sender)] += 1
                    casts[name] = Cast(sequence[int(sender)], 0, [int(ts)], 1, [b"op"])
                site.orderer.accept(int(sender), [casts[name]], 0)
            else:
                site.orderer.direct(int(sender), Direct(1, [int(ts)]), 0)
        site.orderer.turn(0)
        executed, sent = site.news()
        pending = " ".join(f"G{sender}{cast.stamp[0]}" for _, sender, cast in sorted(site.orderer.pmq))
        assert " ".join(map(str, site.orderer.lcv)) == lcv.removeprefix("LCV").strip(), line
        assert pending == pmq.removeprefix("PMQ").strip(), line
        assert executed == executes.removeprefix("executes").strip(), line
        assert sent == multicasts.removeprefix("multicasts").strip(), line
    return sites


def test_figure_2_the_basic_protocol() -> None:
    play(FIGURE_2, protocol=1)


def test_figure_3_the_optimised_protocol() -> None:
    sites = play(FIGURE_3, protocol=2)
    # "at the end of the scenario, the values in LCV, MRMT, and PMQ are the same for all sites"
    assert [site.orderer.lcv for site in sites] == [[2, 2, 2]] * 3
    assert [site.orderer.mrmt for site in sites] == [2, 2, 2]
    assert [site.orderer.pmq for site in sites] == [[], [], []]


def test_the_scripts_can_fail() -> None:
    with pytest.raises(AssertionError):
        play(FIGURE_2, protocol=2)  # Protocol 2 sends none of the acknowledgements of Figure 2
    with pytest.raises(AssertionError):
        play(FIGURE_3.replace("LCV 2 2 0", "LCV 2 2 1"), protocol=2)


@pytest.mark.parametrize("sites", ["static", "dynamic"])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_the_horizon_is_definition_8(sites: str, count: int) -> None:
    """The one comparison with the horizon says what the two conditions of Definition 8 say, for every small clock vector."""
    orderer, _ = make("single_phase", 0, count, sites=sites)
    assert isinstance(orderer, SinglePhase)

    def f(site: int, ts: int) -> int:
        return (site + ts) % count if sites == "dynamic" else site

    vectors = itertools.product(range(4), repeat=count) if count <= 5 else [(i % 4,) * count for i in range(4)]
    for vector in vectors:
        for site, clock in enumerate(vector):
            orderer._clock(site, clock)
        horizon = min(orderer.next_keys)
        for sender, ts in itertools.product(range(count), range(1, 5)):
            if vector[sender] < ts:
                continue  # a pending message's timestamp is known of its sender
            others = [i for i in range(count) if i != sender]
            # "for i < m.site" compares sites at the message's timestamp; the next timestamp that i may use is LCV[i] + 1
            definition_8 = all(ts <= vector[i] if f(i, ts) < f(sender, ts) else ts <= vector[i] + 1 for i in others)
            assert (orderer._key(ts, sender) < horizon) == definition_8, (vector, sender, ts)


def test_acknowledgements_stay_within_the_papers_bounds() -> None:
    """A single operation costs at most N-1 multicast acknowledgements, and none from sites that have just spoken (§5)."""
    sites = [make("single_phase", rank, 4) for rank in range(4)]
    sites[3][0].submit(batch(b"x"), 0)
    cast = sites[3][1].casts[0]
    for orderer, _ in sites[:3]:
        orderer.accept(3, [cast], 0)
        orderer.turn(0)
    assert [len(bench.directs) for _, bench in sites] == [1, 1, 1, 0]
    orderer, bench = make("single_phase", 1, 4)
    orderer.submit(batch(b"y"), 0)
    orderer.accept(3, [cast], 0)
    orderer.turn(0)
    assert bench.directs == []
