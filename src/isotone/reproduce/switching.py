"""Paper 004, §4 and §5: what switching costs in throughput, for each strategy.

`switching_points` has the runs and `switching_measures` what is measured; here is what is made of their results, and in
`switching_flow`, how a switch disturbs the flow.
"""

from collections.abc import Sequence
from typing import Final

from isotone.report.markup import Child, Markup, table, tag
from isotone.reproduce import criteria
from isotone.reproduce import switching_points as points_of
from isotone.reproduce.parts import Claim, Paper, Part, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, lines, short, side_by_side
from isotone.reproduce.switching_flow import PAINT, disturbance, gaps
from isotone.reproduce.switching_live import live_section
from isotone.reproduce.switching_measures import around, throughput
from isotone.reproduce.switching_points import (
    BITS,
    CAPACITY,
    DELAY_MS,
    LIMITS,
    MEMBERS,
    ORDER,
    PERIOD_MS,
    SIZE,
    STRATEGIES,
    TIMING,
)

PAPER: Final = Paper(
    "004",
    "José Mocito, Luís Rodrigues",
    "Run-Time Switching Between Total Order Algorithms",
    "Euro-Par 2006",
    ("switching",),
)
KNEE: Final = 400.0
"""Where the paper's adaptive protocol stops growing, in messages a second."""
NETWORKS: Final = {"node": "one interface per node", "multicast": "a switch that multicasts", "pair": "a wire per pair"}
FOLLOWS: Final = 0.97
"""Of the throughput without switches: what counts as keeping up with it."""


def _knee(rates: Sequence[float], plain: Sequence[float], switched: Sequence[float]) -> float:
    """The largest rate up to which switching keeps up with not switching."""
    found = 0.0
    for rate, one, other in zip(rates, plain, switched, strict=True):
        if other < FOLLOWS * one:
            break
        found = rate
    return found


def _per(value: float) -> str:
    return f"{short(round(value))}/s"


def overhead(results: Results, quick: bool) -> Section:
    """Figures 2 and 3: throughput against the send rate."""
    rates = points_of.rates(quick)
    found = {
        s: [results.mean(f"figure {s} {rate}", "throughput") for rate in rates] for s in ("none", "dual", "dual_ids", "stop")
    }
    share = {s: [results.mean(f"figure {s} {rate}", "switching") for rate in rates] for s in found}
    x, y = Axis("messages sent a second, by each member", ticks=rates), Axis("messages delivered a second, of each member")

    def drawn(title: str, strategies: Sequence[str]) -> Markup:
        series = [Series(STRATEGIES[s], list(zip(rates, found[s], strict=True)), PAINT[s]) for s in strategies]
        sent = Series("as many as are sent", [(rates[0], rates[0]), (rates[-1], rates[-1])], 7, dashed=True)
        return lines(title, [*series, sent], x, y, HALF)

    claims = []
    knee = _knee(rates, found["none"], found["dual"])
    fits = [place for place, rate in enumerate(rates) if 2 * rate <= CAPACITY["node"]]
    judged = criteria.at_least(
        [found["dual"][place] for place in fits],
        [FOLLOWS * found["none"][place] for place in fits],
        f"at least {FOLLOWS:.0%} of the throughput without switches, at every rate of which the links carry twice as much",
    )
    claims.append(
        Claim(
            "As long as the links can carry the doubled traffic, switching costs no throughput.",
            f"the same up to about {KNEE:g}/s",
            f"the same up to {_per(knee)}; the links carry {_per(CAPACITY['node'])}, doubled {_per(CAPACITY['node'] / 2)}",
            judged.criterion,
            judged.holds and bool(fits),
        )
    )
    over = [place for place, rate in enumerate(rates) if rate > 0.9 * CAPACITY["node"]]
    level = sum(found["dual"][place] for place in over) / len(over)
    steady = criteria.flat([found["dual"][place] for place in over], 0.15, "dual above the knee")
    lower = criteria.at_most([found["dual"][-1]], [0.75 * found["none"][-1]], "")
    claims.append(
        Claim(
            "Above that dual levels off, while the throughput without switches goes on growing.",
            f"levels off at about {KNEE:g}/s",
            f"dual {_per(max(found['dual']))} at best, {_per(level)} when the links are full; without switches "
            f"{_per(found['none'][-1])}",
            f"{steady.criterion}, where rates fill the links, and at the largest rate at most 75 % of what no switch reaches",
            steady.holds and lower.holds,
            remark=f"When the links are full, a switch takes longer, since its casts queue behind the doubled traffic, and "
            f"{share['dual'][-1]:.0%} of the time is spent in one. The level lies between half of what the links carry, "
            f"{_per(CAPACITY['node'] / 2)} (always switching), and all of it; where, depends on the period.",
        )
    )
    judged = criteria.within(
        [level / KNEE, max(found["dual"]) / KNEE],
        0.75,
        1.25,
        f"the level and the best throughput of dual within 25 % of {KNEE:g}/s",
    )
    claims.append(
        Claim(
            f"The level is about {KNEE:g} messages a second.",
            f"about {KNEE:g}/s; neither period nor delay nor what it counts is given",
            f"{_per(level)} of each member, {_per(max(found['dual']))} at best",
            judged.criterion,
            judged.holds,
            remark="Order, period and delay are ours, chosen after trial runs in which they brought the level near this number. "
            "So it says that a plausible setting gives it, no more; the next figure shows how far other periods and links move "
            "it.",
        )
    )
    judged = criteria.at_least(
        found["dual_ids"],
        [0.95 * value for value in found["none"]],
        "at every rate at least 95 % of the throughput without switches",
    )
    worst = min(range(len(rates)), key=lambda place: found["dual_ids"][place] / found["none"][place])
    claims.append(
        Claim(
            "With payloads in one of the two orders only (dual_ids), switching costs no throughput at any rate.",
            "the curves overlap",
            f"at worst {found['dual_ids'][worst] / found['none'][worst]:.1%} of no switch, at {_per(rates[worst])}",
            judged.criterion,
            judged.holds,
        )
    )
    for strategy, words in (("dual", "the adaptive protocol"), ("dual_ids", "the optimised one")):
        judged = criteria.at_most(
            found["stop"], [0.995 * value for value in found[strategy]], f"at every rate at least 0.5 % below {strategy}"
        )
        above = [rate for rate, one, other in zip(rates, found["stop"], found[strategy], strict=True) if one > other]
        where = f"; above it at {', '.join(map(_per, above))}" if above else ""
        pairs = ", ".join(
            f"{short(round(one))} : {short(round(other))}" for one, other in zip(found["stop"], found[strategy], strict=True)
        )
        claims.append(
            Claim(
                f"Stopping the flow has less throughput than {words} ({strategy}), at every rate.",
                "always performs better than stop (Figure 3)",
                f"stop : {strategy} = {pairs}{where}",
                judged.criterion,
                judged.holds,
                f"Senders stand still {share['stop'][0]:.1%} of the time at {_per(rates[0])} and {share['stop'][-1]:.1%} at "
                f"{_per(rates[-1])}; sending everything twice costs up to half of the throughput. So stop is behind "
                "dual only as "
                "long as the links have room for the doubled traffic; a stop that is behind at every rate must take "
                "longer than "
                "this one.",
            )
        )
    setup = (
        f"{len(MEMBERS)} members, {'400' if quick else '5,000'} messages of {SIZE:,} bytes from each, links of "
        f"{DELAY_MS:g} ms; each "
        f"node has one interface of {BITS // 1_000_000} Mbit/s, through which the copies for the four others leave one "
        "after another. "
        f"The order is {ORDER}, and every {PERIOD_MS:g} ms a switch to a fresh instance of it (one that is asked for "
        "during a switch is refused). "
        "A sender hands in its next message an interval after the last one was taken, and does not catch up. "
        "Throughput: deliveries at "
        "a member from the first send to its last delivery, divided by five; mean of the members."
    )
    says = (
        "During a switch all messages are sent through both algorithms. As long as the links have room for that, "
        "nobody notices; "
        "beyond, the throughput stagnates. Sending the payload through one of them only avoids it. A protocol that "
        "stops the flow is "
        "worse at every rate."
    )
    figures = [
        side_by_side(
            drawn("Figure 2: no switch, dual, dual_ids", ("none", "dual", "dual_ids")),
            drawn("Figure 3: dual and stop", ("dual", "stop")),
        )
    ]
    return Section("Throughput against the send rate", "§4.1, §4.2, §5, Figures 2 and 3", says, setup, figures, claims)


def sharing(results: Results, quick: bool) -> Section:
    """Where the knee lies: how links are shared, and how often it switches."""
    rates = {"node": points_of.rates(quick)}
    rates |= {interface: points_of.link_rates(interface, quick) for interface in ("multicast", "pair")}
    found: dict[tuple[str, str], list[float]] = {}
    for interface, mine in rates.items():
        prefix = "figure" if interface == "node" else interface
        for strategy in ("none", "dual"):
            found[interface, strategy] = [results.mean(f"{prefix} {strategy} {rate}", "throughput") for rate in mine]
    series = []
    for paint, (interface, words) in enumerate(NETWORKS.items()):
        for strategy in ("none", "dual"):
            points = [
                (rate / CAPACITY[interface], value / CAPACITY[interface])
                for rate, value in zip(rates[interface], found[interface, strategy], strict=True)
            ]
            series.append(Series(f"{words}, {STRATEGIES[strategy]}", points, paint if strategy == "dual" else paint + 5))
    x, y = Axis("sent, as a share of what the links carry"), Axis("delivered, as a share of what the links carry")
    often = sorted([*points_of.periods(quick), PERIOD_MS])
    largest = points_of.rates(quick)[-1]

    def at(period_ms: float, column: str) -> float:
        return results.mean(f"figure dual {largest}" if period_ms == PERIOD_MS else f"period {period_ms:g}", column)

    level = [at(period_ms, "throughput") for period_ms in often]
    half = CAPACITY["node"] / 2
    periodic = lines(
        f"dual at {_per(largest)}, which fills the links",
        [
            Series("dual", list(zip(often, level, strict=True)), PAINT["dual"]),
            Series("half of what the links carry", [(often[0], half), (often[-1], half)], 7, dashed=True),
        ],
        Axis("ms between two switches", log=True, ticks=often),
        Axis("messages delivered a second, of each member"),
        HALF,
    )
    levels = {interface: found[interface, "dual"][-1] for interface in NETWORKS}
    rows: list[list[Child]] = [
        [words, short(round(CAPACITY[i])), short(round(max(found[i, "none"]))), short(round(max(found[i, "dual"]))),
         short(round(levels[i])), short(_knee(rates[i], found[i, "none"], found[i, "dual"]))]
        for i, words in NETWORKS.items()
    ]  # fmt: skip
    head = ["links", "carry", "no switch, best", "dual, best", "dual, at the largest rate", "dual keeps up to"]
    judged = criteria.within(
        [levels[interface] / CAPACITY[interface] for interface in NETWORKS],
        0.45,
        0.75,
        "in every network dual ends between 45 % and 75 % of what the links carry",
    )
    claims = [
        Claim(
            "Where dual levels off is a share of what the narrowest wire carries, however links are shared.",
            "bandwidth is exhausted by the double traffic",
            "; ".join(f"{words}: {levels[i] / CAPACITY[i]:.0%} of {_per(CAPACITY[i])}" for i, words in NETWORKS.items()),
            judged.criterion,
            judged.holds,
        )
    ]
    near = {interface: abs(value - KNEE) / KNEE for interface, value in levels.items()}
    shared = criteria.at_most([near["node"], near["multicast"]], [0.25, 0.25], "")
    apart = criteria.at_least([near["pair"]], [0.5], "")
    claims.append(
        Claim(
            f"The paper's {KNEE:g}/s fits one interface per node, not a wire for each pair.",
            "“all nodes are connected to each other by 100 Mbps bi-directional links”",
            ", ".join(f"{words} {_per(levels[i])}" for i, words in NETWORKS.items()),
            f"within 25 % of {KNEE:g}/s with one interface per node and with multicast, more than 50 % off with a wire per pair",
            shared.holds and apart.holds,
        )
    )
    judged = criteria.at_least(
        [level[-1] / level[0]], [1.1], f"every {often[-1]:g} ms at least 10 % more throughput than every {often[0]:g} ms"
    )
    claims.append(
        Claim(
            "The more rarely it switches, the higher the level.",
            "“periodically”, no period",
            ", ".join(f"every {period:g} ms {_per(value)}" for period, value in zip(often, level, strict=True)),
            judged.criterion,
            judged.holds,
        )
    )
    says = (
        "The paper's nodes are connected to each other by 100 Mbit/s links. Whether copies for different nodes share a "
        "wire decides where "
        "the knee lies, and so does how much of the time a switch is under way."
    )
    setup = (
        f"As before, {'300' if quick else '1,500'} messages from each member. One interface per node: four copies of a "
        "message leave one "
        "after another. A switch that multicasts: a message leaves once, and those of four others queue at each "
        "receiver's port. A wire "
        "per pair and direction: copies do not queue for each other."
    )
    notes = [tag("div", tag("p", "Messages a second of each member:", class_="note"), table(head, rows, "links and levels"))]
    figures = [side_by_side(lines("Throughput where links are shared otherwise", series, x, y, HALF), periodic)]
    return Section("Where the knee lies", "beyond the paper", says, setup, figures, claims, notes)


def sections(results: Results, quick: bool, live: Results | None = None) -> list[Section]:
    """What the report shows."""
    found = [overhead(results, quick), sharing(results, quick), disturbance(results, quick), gaps(results, quick)]
    return found if live is None else [*found, live_section(results, quick, live)]


PART: Final = Part(
    "switching",
    PAPER,
    {
        "name": "switching",
        "members": [*MEMBERS],
        "duration_ms": 10_000.0,
        "order": ORDER,
        "limits": dict(LIMITS),
        "timing": dict(TIMING),
        "network": {"latency": {"kind": "constant", "ms": DELAY_MS}, "bandwidth_bps": BITS, "interface": "node"},
    },
    points_of.points,
    lambda _: 1,
    (throughput, around),
    sections,
)
