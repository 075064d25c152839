"""Paper 002, §4 and §7.2: which order allows which histories, and how much a scheduler for it has to delay."""

from typing import Final

from isotone.pipeline.schedulers.classes import ORDERS
from isotone.pipeline.schedulers.hasse import ALL, svg
from isotone.pipeline.schedulers.page import inside
from isotone.report.markup import Child, Markup, table, tag
from isotone.reproduce import criteria
from isotone.reproduce.parts import Claim, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, columns, lines, side_by_side
from isotone.reproduce.semantic_classes import AT_DELAY, AT_SHARE, LENGTH, SITES, Classes

PLAIN: Final = ("fifo", "causal", "total")
PAINT: Final = {
    "fifo": 0,
    "causal": 1,
    "total": 2,
    "semantic_fifo": 3,
    "semantic_causal": 4,
    "semantic_total": 5,
    "single_phase": 2,
}


def _classes(results: Results) -> Classes:
    found: Classes = results.computed
    return found


def containment(results: Results) -> Section:
    """Figures 4 and 5: how the classes contain each other."""
    counted = _classes(results).counted
    largest = max(counted, key=lambda one: one.total)
    names = [f"{one.messages} × {one.sites}" for one in counted]
    heights = [(order, [100 * one.size(order) / one.total for one in counted], PAINT[order]) for order in ORDERS]
    contained = inside(counted)
    captions = {order: f"{largest.size(order) / largest.total:.1%} of {largest.messages} × {largest.sites}" for order in ORDERS}
    picture = Markup(svg(contained, {**captions, ALL: f"{largest.total:,}"}))
    claims = []
    outside = [sum(one.beyond(order, f"semantic_{order}") for one in counted) for order in PLAIN]
    judged = criteria.within(outside, 0, 0, "no history is in the class of a plain order and not in that of its semantic kin")
    sizes = {order: sum(one.size(order) for one in counted) for order in ORDERS}
    claims.append(
        Claim(
            "Each semantic order allows all that its plain one allows, and more.",
            "plain orders are special cases (§4.2); superior (§7.2)",
            "; ".join(f"{order} {sizes[order]:,}, semantic {sizes[f'semantic_{order}']:,}" for order in PLAIN),
            judged.criterion,
            judged.holds and all(sizes[f"semantic_{order}"] > sizes[order] for order in PLAIN),
        )
    )
    gap, wrong = (sum(one.beyond(*pair) for one in counted) for pair in (("fifo", "causal"), ("causal", "fifo")))
    judged = criteria.at_least(
        [one.size("causal") for one in counted],
        [one.size("fifo") for one in counted],
        "the causal class is the larger in every bound",
    )
    claims.append(
        Claim(
            "A scheduler for causal order is better than one for FIFO order: its class is larger.",
            "“would be better” (§7.2)",
            f"{sizes['fifo']:,} histories are FIFO, {sizes['causal']:,} causal; {gap:,} FIFO and not causal, {wrong:,} "
            "causal and "
            "not FIFO",
            judged.criterion,
            judged.holds,
            "It is the other way round: the FIFO class contains the causal one in every bound. Causal delivery implies "
            "FIFO delivery, "
            "as the paper itself says in §4.1, so it forbids more.",
        )
    )
    apart = [
        f"{one} and {two}"
        for index, one in enumerate(PLAIN)
        for two in PLAIN[index + 1 :]
        if two not in contained[one] and one not in contained[two]
    ]
    both = sum(one.size("causal", "total") for one in counted)
    judged = criteria.within(
        [len(apart)], 2, 2, "total and fifo, and total and causal, do not contain each other; fifo and causal do"
    )
    claims.append(
        Claim(
            "Total order alone is neither stronger nor weaker than FIFO or causal order.",
            "a figure of three classes (Figure 5)",
            f"apart: {', '.join(apart) or 'none'}; {both:,} of {sizes['total']:,} total histories are causal too",
            judged.criterion,
            judged.holds and not any("fifo and causal" in text for text in apart),
            remark="Here total order asks only for the same order everywhere. The protocols of this library keep "
            "causal order with it.",
        )
    )
    head = ["in … not in", *ORDERS]
    rows: list[list[Child]] = [
        [one, *("–" if one == two else f"{largest.beyond(one, two):,}" for two in ORDERS)] for one in ORDERS
    ]
    said = f"How many are in the class of the row and not in that of the column, at {names[counted.index(largest)]}:"
    setup = (
        f"All complete histories of so many messages × sites ({', '.join(names)}), each with every symmetric conflict "
        "relation among "
        f"its messages: {sum(one.total for one in counted):,}. A history is in a class if its precedence graph is acyclic. "
        "In the picture a line leads from a class up to the next larger one that contains it in every bound."
    )
    says = (
        "An order is a class of allowed histories. The more it allows, the less a scheduler has to delay, and the "
        "better it is. "
        "Semantic orders allow more than plain ones; the paper's figures show how the classes contain each other."
    )
    figures = [
        columns("Histories in each class", names, heights, Axis("% of all histories, each with every relation")),
        tag("div", tag("h4", "Figures 4 and 5: which class contains which"), picture, class_="plot", style="max-width:700px"),
    ]
    notes = [tag("div", tag("p", said, class_="note"), table(head, rows, "differences of the classes"))]
    return Section("Containment of the classes", "§4, §7.2, Figures 4 and 5", says, setup, figures, claims, notes)


def delay(results: Results) -> Section:
    """§7.2: the degree of delay of the minimal schedulers, and §7.3: aborts."""
    found = _classes(results)
    delays, shares = list(found.by_delay), list(found.by_share)

    def drawn(title: str, curves: dict[float, dict[str, dict[str, float]]], measure: str, x: Axis, label: str) -> Markup:
        scale = 100 if x.label.endswith("%") else 1
        series = [
            Series(order, [(stop * scale, 100 * curves[stop][order][measure]) for stop in curves], PAINT[order])
            for order in ORDERS
        ]
        return lines(title, series, x, Axis(label), HALF)

    by_delay = Axis("mean delay of a packet, in times between two sends", log=True, ticks=delays)
    by_share = Axis("messages that conflict, %", ticks=[100 * share for share in shares if share != 0.01])

    def at(order: str) -> list[float]:
        return [found.by_delay[stop][order]["degree"] for stop in delays]

    claims = []
    judged = criteria.at_most(
        at("causal"), at("fifo"), "the causal scheduler delays at most as much as the FIFO scheduler, at every delay"
    )
    claims.append(
        Claim(
            "A causal scheduler delays less than a FIFO scheduler.",
            "“would be better” (§7.2)",
            ", ".join(f"{a:.1%} : {b:.1%}" for a, b in zip(at("causal"), at("fifo"), strict=True)) + " (causal : FIFO)",
            judged.criterion,
            judged.holds,
            "By the paper's own measure the FIFO scheduler is the better one at every delay: what it holds back, the "
            "causal one does too.",
        )
    )
    pairs = [(found.by_delay[stop], order) for stop in delays for order in PLAIN]
    pairs += [(found.by_share[stop], order) for stop in shares for order in PLAIN]
    judged = criteria.at_most(
        [point[f"semantic_{order}"]["degree"] for point, order in pairs],
        [point[order]["degree"] for point, order in pairs],
        "the degree of delay of each semantic scheduler at most that of its plain one, at every delay and share",
    )
    middle = found.by_delay[AT_DELAY]
    claims.append(
        Claim(
            "Semantic schedulers delay less than plain ones.",
            "superior (§7.2)",
            "; ".join(
                f"{order} {middle[order]['degree']:.1%}, semantic {middle[f'semantic_{order}']['degree']:.1%}" for order in PLAIN
            )
            + f" (delay {AT_DELAY:g}, {AT_SHARE:.0%} conflict)",
            judged.criterion,
            judged.holds,
        )
    )
    ends = [found.by_share[shares[0]][f"semantic_{order}"]["degree"] for order in PLAIN]
    ends += [
        found.by_share[shares[-1]][f"semantic_{order}"]["degree"] - found.by_share[shares[-1]][order]["degree"] for order in PLAIN
    ]
    judged = criteria.within(ends, 0, 0, "no delay where nothing conflicts, and that of the plain order where everything does")
    claims.append(
        Claim(
            "Without conflicts nothing is delayed; when everything conflicts, a semantic order is the plain one.",
            "plain orders are special cases (§4.2)",
            "; ".join(
                f"semantic_{order} {found.by_share[shares[0]][f'semantic_{order}']['degree']:.1%} to "
                f"{found.by_share[shares[-1]][f'semantic_{order}']['degree']:.1%}"
                for order in PLAIN
            ),
            judged.criterion,
            judged.holds,
        )
    )
    aborts, held = ({order: found.by_share[1.0][order][measure] for order in PLAIN} for measure in ("aborted", "held"))
    judged = criteria.at_least(
        list(aborts.values()),
        list(held.values()),
        "with all conflicting, the share of messages aborted exceeds that of deliveries held",
    )
    claims.append(
        Claim(
            "Aborting a message instead of waiting is inefficient.",
            "“may be highly inefficient” (§7.3)",
            "; ".join(
                f"{order}: {aborts[order]:.1%} of the messages aborted, {held[order]:.1%} of the deliveries held"
                for order in PLAIN
            ),
            judged.criterion,
            judged.holds,
        )
    )
    setup = (
        f"{found.samples} random runs per point, {LENGTH} messages at {SITES} sites: sends follow each other at "
        "random, one per unit of time "
        f"on average, and each packet takes a random time of its own. Left: {AT_SHARE:.0%} of the messages conflict "
        "with each other, the "
        f"others with nothing. Right and below: packets take {AT_DELAY:g} on average. d(x, y) is the length of the "
        "arrivals less that of the "
        "prefix that is delivered as it arrives; the schedulers are minimal, and those of total order see all sites at once."
    )
    says = (
        "The degree of delay of a scheduler is how much of what arrives it has to deliver otherwise. A scheduler may "
        "also abort messages "
        "instead of delaying them: it tests the precedence graph, and whatever would close a cycle is given up."
    )
    figures = [
        side_by_side(
            drawn("Degree of delay", found.by_delay, "degree", by_delay, "d(x, S(x)), % of the deliveries"),
            drawn("Degree of delay over conflicts", found.by_share, "degree", by_share, "d(x, S(x)), % of the deliveries"),
        ),
        side_by_side(
            drawn("Deliveries held back", found.by_share, "held", by_share, "% of the deliveries"),
            drawn("Aborts instead of delays", found.by_share, "aborted", by_share, "% of the messages"),
        ),
    ]
    return Section("Degree of delay", "§7.2, §7.3", says, setup, figures, claims)
