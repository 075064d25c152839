"""The page docs/semantic-classes.md: containment, degree of delay, aborts and message phases, all computed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

from isotone.pipeline.schedulers.arrivals import drawn
from isotone.pipeline.schedulers.classes import ORDERS
from isotone.pipeline.schedulers.compare import Compared, compare
from isotone.pipeline.schedulers.containment import Counted, count
from isotone.pipeline.schedulers.hasse import ALL, svg
from isotone.pipeline.schedulers.phases import DELAY_MS, MEMBERS, PROTOCOLS, phases

NAME: Final = "semantic-classes"
BOUNDS: Final = ((2, 2), (2, 3), (3, 2), (3, 3), (4, 2))
SAMPLES: Final = 300
LENGTH, SITES = 12, 4
DELAYS: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
SHARES: Final = (0.0, 0.01, 0.1, 0.5, 1.0)
_AT: Final = 0.3
_WIDTH: Final = 128


def write(directory: Path) -> None:
    """Write the page and its picture."""
    counted = [count(*bound) for bound in BOUNDS]
    (directory / f"{NAME}.svg").write_text(picture(counted), encoding="utf-8")
    (directory / f"{NAME}.md").write_text(page(counted), encoding="utf-8")


def inside(counted: Sequence[Counted]) -> dict[str, list[str]]:
    """Per class, those that contain it in every bound."""
    found = {one: [two for two in ORDERS if one != two and not any(c.beyond(one, two) for c in counted)] for one in ORDERS}
    return {**{one: [*larger, ALL] for one, larger in found.items()}, ALL: []}


def picture(counted: Sequence[Counted]) -> str:
    """The containment, with how much of all histories each class is at 3 messages and 3 sites."""
    at = next(c for c in counted if (c.messages, c.sites) == (3, 3))
    captions = {order: f"{at.size(order) / at.total:.1%} of 3 × 3" for order in ORDERS}
    return svg(inside(counted), {**captions, ALL: f"{at.total:,} of 3 × 3"})


def page(counted: Sequence[Counted]) -> str:
    """The whole page."""
    return "\n".join([*_preface(), *_containment(counted), *_samples(), *_phases()]).rstrip() + "\n"


def _preface() -> list[str]:
    return [
        "# The classes of histories",
        "",
        *_text("""Made by `python -m isotone.pipeline.schedulers --page docs`; the same command makes the same page. Paper
            002 (Jensen, Soparkar, Mathur) compares orders by the *class* of histories that each allows (§5), and by how much
            a scheduler for that class has to delay what arrives (§7). Here both are computed. What the classes are, for one
            site and for all, is in `isotone.pipeline.schedulers.classes`; how the schedulers work, and why their delay is
            minimal, in `minimal` and `optimistic` beside it. To apply them to your own traces (written with
            `trace_receives`): `python -m isotone.pipeline.schedulers TRACE… --conflicts FILE`."""),
        *_text("""A history is in the class of an order if its precedence graph is acyclic. `total` here means just that
            all sites deliver in the same order; the protocols for total order keep causal order too. Conflicts are those of
            the semantic orders; plain orders do not look at them."""),
    ]


def _containment(counted: Sequence[Counted]) -> list[str]:
    largest = counted[-1]
    both = ("causal", "total"), ("semantic_causal", "semantic_total")
    return [
        "## Containment (Figures 4 and 5)",
        "",
        *_text("""Counted are all complete histories of so many messages × sites, each with every symmetric conflict
            relation among its messages."""),
        *_table(
            ["class", *(f"{c.messages} × {c.sites}" for c in counted)],
            [
                ["histories", *(f"{c.histories:,}" for c in counted)],
                ["with a relation", *(f"{c.total:,}" for c in counted)],
                *([f"`{order}`", *(f"{c.size(order):,}" for c in counted)] for order in ORDERS),
                *([" and ".join(f"`{order}`" for order in pair), *(f"{c.size(*pair):,}" for c in counted)] for pair in both),
            ],
        ),
        f"![Which class contains which]({NAME}.svg)",
        "",
        *_text(f"""How many are in the class of the row and not in that of the column, at {largest.messages} ×
            {largest.sites}. 0 means that the column contains the row; a line of the picture says that it does so in every
            bound."""),
        *_table(
            ["in … not in", *(f"`{order}`" for order in ORDERS)],
            [[f"`{one}`", *("–" if one == two else f"{largest.beyond(one, two):,}" for two in ORDERS)] for one in ORDERS],
        ),
        *_verdicts(counted),
        *_patterns(counted),
    ]


def _verdicts(counted: Sequence[Counted]) -> list[str]:
    """What the paper says, and what the counts say."""
    small, large = sum(c.size("causal") for c in counted), sum(c.size("fifo") for c in counted)
    gap, wrong = sum(c.beyond("fifo", "causal") for c in counted), sum(c.beyond("causal", "fifo") for c in counted)
    semantic = all(not c.beyond(order, f"semantic_{order}") for c in counted for order in ("fifo", "causal", "total"))
    contained = inside(counted)
    apart = [
        f"`{one}` and `{two}`"
        for index, one in enumerate(ORDERS)
        for two in ORDERS[index + 1 :]
        if two not in contained[one] and one not in contained[two]
    ]
    return [
        *_text(f"""The paper calls a scheduler for causal order better than one for fifo order (§7.2): **{
            _holds(gap < wrong)
        }**. By its own measure the larger class is the better one, and of the histories of all bounds {large:,} are
            fifo and {small:,} are causal; {gap:,} are fifo and not causal, {wrong:,} are causal and not fifo. §4.1 says the
            same: causal delivery implies fifo delivery."""),
        *_text(f"""It calls semantic schedulers superior to the plain ones (§7.2): **{_holds(semantic)}**
            ({"each" if semantic else "not every"} semantic class contains its plain one)."""),
        *_text(f"Neither contains the other: {', '.join(apart)}."),
    ]


def _patterns(counted: Sequence[Counted]) -> list[str]:
    """Every combination of classes that occurs, with an example."""
    largest = counted[-1]
    rows = []
    for pattern, number in sorted(largest.by_pattern.items(), key=lambda entry: -entry[1]):
        example = next(c.examples[pattern] for c in counted if pattern in c.examples)
        marks = ["●" if pattern >> place & 1 else "" for place in range(len(ORDERS))]
        rows.append([f"`{example}`", *marks, f"{number:,}"])
    return [
        *_text(f"""Every combination of classes that occurs, with how many there are at {largest.messages} ×
            {largest.sites} and an example from the smallest bound that has one. `a: +a1 a1 b1` is a site that sends its first
            message, delivers it, and then delivers the first of b."""),
        *_table(["example", *(f"`{order}`" for order in ORDERS), "number"], rows),
    ]


def _samples() -> list[str]:
    delays = {f"{delay:g}": _runs(delay, 0.5) for delay in DELAYS}
    shares = {f"{share:.0%}": _runs(_AT, share) for share in SHARES}
    conflicting = "share that conflicts"
    return [
        "## Degree of delay (§7.2)",
        "",
        *_text(f"""Beyond the bound, by sampling: {LENGTH} messages at {SITES} sites, {SAMPLES} random runs per column.
            Sends follow each other at random, one per unit of time on average; each packet takes a random time, so that
            packets pass each other the more, the longer they take. Half of the messages conflict with each other, half with
            nothing. Share of the runs that are in the class as they arrive:"""),
        *_by_column("mean delay of a packet", delays, lambda found: f"{sum(one.belongs for one in found) / len(found):.0%}"),
        *_text("""The degree of delay d(x, S(x)) of the minimal scheduler S, as a share of the deliveries: it counts all
            that follows the first delivery that had to wait, at any site. For fifo and causal order, plain or semantic, each
            site decides alone. For total order the schedulers of all sites see each other at once, which no protocol can."""),
        *_by_column("mean delay of a packet", delays, lambda found: _share(found, lambda one: one.delay.degree)),
        f"Over the share of conflicting messages, with a mean delay of {_AT}: the degree of delay,",
        "",
        *_by_column(conflicting, shares, lambda found: _share(found, lambda one: one.delay.degree)),
        "and the deliveries that had to wait, which is a finer measure:",
        "",
        *_by_column(conflicting, shares, lambda found: _share(found, lambda one: one.delay.held)),
        "## Aborts instead of delays (§7.3)",
        "",
        *_text("""The optimistic scheduler delivers everything as it arrives and aborts a message whose delivery would
            close a cycle of the precedence graph. Messages aborted, of all messages, on the same runs:"""),
        *_by_column(conflicting, shares, lambda found: f"{sum(one.aborted for one in found) / len(found) / LENGTH:.1%}"),
    ]


def _runs(delay: float, conflicting: float) -> list[list[Compared]]:
    return [compare(drawn(seed, LENGTH, SITES, delay, conflicting)) for seed in range(SAMPLES)]


def _phases() -> list[str]:
    found = [phases(protocol) for protocol in PROTOCOLS]
    single = next(one for one in found if one.protocol == "single_phase")
    verdict = (
        """In a busy group `single_phase` (paper 003) delivers after one delay and without any record of its own, since the
        others' next messages say what an acknowledgement would: two phases are not the least for a total order."""
        if single.busy < 1.1 and not single.records_busy
        else "No total order measured here needs less than two."
    )
    return [
        "## Message phases (§7.1)",
        "",
        *_text(f"""The paper: one phase for fifo and causal order, two for total order, and fewer are impossible. Counted
            in simulated runs of the protocols: {MEMBERS} members, every packet takes {DELAY_MS:g} ms, computing takes no
            time; how many packets have to follow each other from the send of a message to its last delivery. *Alone*: no
            other message is under way. *Busy*: all members send all the time."""),
        *_table(
            ["protocol", "alone", "busy", "control records alone", "busy"],
            [
                [
                    f"`{one.protocol}`",
                    f"{one.least}" if one.least == one.most else f"{one.least} to {one.most}",
                    f"{one.busy:.2f}",
                    f"{one.records:.1f}",
                    f"{one.records_busy:.1f}",
                ]
                for one in found
            ],
        ),
        *_text(f"""Control records are those of the orderer per message, one for each receiver. The paper's second phase
            of a total order is the number that `sequencer` gives. {verdict}"""),
    ]


def _text(words: str) -> list[str]:
    """A paragraph."""
    return [fill(" ".join(words.split()), _WIDTH, break_long_words=False, break_on_hyphens=False), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = "| --- " + "| ---: " * (len(head) - 1) + "|"
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
    return [first, line, *others, ""]


def _by_column(what: str, cells: Mapping[str, list[list[Compared]]], show: Callable[[list[Compared]], str]) -> list[str]:
    return _table(
        [what, *cells],
        [[f"`{order}`", *(show([run[index] for run in runs]) for runs in cells.values())] for index, order in enumerate(ORDERS)],
    )


def _share(found: list[Compared], of: Callable[[Compared], int]) -> str:
    return f"{sum(of(one) for one in found) / sum(one.delay.messages for one in found):.1%}"


def _holds(holds: bool) -> str:
    return "holds" if holds else "does not hold"
