"""Paper 002, §7: how many phases each order takes, and what semantics gain in the protocols.

`semantic_points` has the runs. What is said about the classes of histories is in `semantic_schedulers`; `semantic_classes`
computes it.
"""

import itertools
from typing import Final

from isotone.pipeline.schedulers import phases
from isotone.protocol.ordering import registry
from isotone.reproduce import criteria, measures
from isotone.reproduce import semantic_points as points_of
from isotone.reproduce.parts import Claim, Paper, Part, Results, Section
from isotone.reproduce.plots import HALF, Axis, columns, short, side_by_side
from isotone.reproduce.semantic_classes import compute
from isotone.reproduce.semantic_points import MEMBERS, NETWORKS, PAIRS, PER_SECOND
from isotone.reproduce.semantic_schedulers import PAINT, containment, delay

PAPER: Final = Paper(
    "002",
    "P. A. Jensen, N. R. Soparkar, A. G. Mathur",
    "Characterizing Multicast Orderings using Concurrency Control Theory",
    "University of Michigan, in the 1990s",
    ("semantic_total", "semantic_causal", "semantic_fifo"),
)


def message_phases(results: Results) -> Section:
    """§7.1: how many messages have to follow each other."""

    def rounds(load: str, protocol: str, column: str) -> float:
        return results.mean(f"{load} {protocol}", column) / phases.DELAY_MS

    def records(load: str, protocol: str) -> float:
        kinds = set(registry.find(protocol).packets.values())
        return sum(results.count(f"{load} {protocol}", f"records_{kind}") for kind in kinds)

    protocols = list(phases.PROTOCOLS)
    shown = [
        ("alone, best place of the sender", [rounds("alone", one, "reach_min_ms") for one in protocols], 0),
        ("alone, worst", [rounds("alone", one, "reach_max_ms") for one in protocols], 1),
        ("busy, mean", [rounds("busy", one, "reach_mean_ms") for one in protocols], 2),
    ]
    costs = [(load, [records(load, one) for one in protocols], place) for place, load in enumerate(points_of.LOADS)]
    claims = []
    single = [rounds(load, one, "reach_max_ms") for load in points_of.LOADS for one in ("fifo", "causal")]
    judged = criteria.within(single, 0.999, 1.001, "the last delivery is one delay after the send, alone and busy")
    claims.append(
        Claim(
            "FIFO and causal order take one phase.",
            "one",
            f"at most {short(max(single))} delays, alone and busy",
            judged.criterion,
            judged.holds,
        )
    )
    two = rounds("alone", "sequencer", "reach_max_ms")
    judged = criteria.within(
        [two], 1.999, 2.001, "two delays with a coordinator that gives numbers, when the sender is not the coordinator"
    )
    claims.append(
        Claim(
            "Total order takes two: one for the timestamp that fixes the place, and one to distribute it.",
            "two",
            f"sequencer {short(two)} delays; two_phase {short(rounds('alone', 'two_phase', 'reach_max_ms'))}",
            judged.criterion,
            judged.holds,
        )
    )
    best = rounds("busy", "single_phase", "reach_mean_ms")
    judged = criteria.at_least([best], [2.0], "no total order takes less than two delays, in no load")
    claims.append(
        Claim(
            "Fewer than two phases are impossible for a total order.",
            "“not possible to do any better”",
            f"single_phase takes {best:.2f} delays in a busy group and "
            f"{short(rounds('alone', 'single_phase', 'reach_max_ms'))} alone",
            judged.criterion,
            judged.holds,
            "When all members send, the next message of each says what an acknowledgement would (paper 003): one delay, and "
            f"{short(records('busy', 'single_phase'))} control records per message. Alone, "
            f"{short(records('alone', 'single_phase'))} "
            "acknowledgements per message are the second phase.",
        )
    )
    setup = (
        f"{phases.MEMBERS} members, every packet takes {phases.DELAY_MS:g} ms and computing no time. Alone: one "
        "message, long after the one "
        "before it. Busy: all members send all the time. The time from a send to the last delivery, in delays; control "
        "records of the "
        "orderer per message, one for each receiver."
    )
    says = (
        "A message that carries its own timestamp needs one phase, which is enough for FIFO and causal order. A total "
        "order needs a second "
        "one, to ask for the timestamp, and nothing can do with less."
    )
    figures = [
        side_by_side(
            columns("Phases", protocols, shown, Axis("delays from the send to the last delivery"), HALF),
            columns("Control records", protocols, costs, Axis("records per message"), HALF),
        )
    ]
    return Section("Message phases", "§7.1", says, setup, figures, claims)


def latency(results: Results, quick: bool) -> Section:
    """What semantics gain in the protocols, over the share of messages that conflict."""
    shares = points_of.shares(quick)
    orders = [order for pair in PAIRS.items() for order in pair]
    mean = {
        (network, order): [results.mean(f"{network} {order} {share:g}", "mean_ms") for share in shares]
        for network in NETWORKS
        for order in orders
    }

    def ratio(network: str, order: str) -> list[float]:
        return [one / other for one, other in zip(mean[network, order], mean[network, PAIRS[order]], strict=True)]

    groups = [f"{share:.0%}" for share in shares]
    plots = [
        columns(
            f"Mean latency, {words}",
            groups,
            [(order, mean[network, order], PAINT[order]) for order in orders],
            Axis("ms from the send to the delivery, at all members, over the share of messages that conflict"),
        )
        for network, words in NETWORKS.items()
    ]

    def told(network: str, order: str) -> str:
        return ", ".join(f"{group} {value:.2f}" for group, value in zip(groups, ratio(network, order), strict=True))

    claims = []
    for network, words in NETWORKS.items():
        found = mean[network, "semantic_total"]
        rising = all(later >= 0.95 * earlier for earlier, later in itertools.pairwise(found))
        little = [value for value, share in zip(ratio(network, "semantic_total"), shares, strict=True) if share <= 0.1]
        judged = criteria.at_most(little, [0.75] * len(little), "")
        claims.append(
            Claim(
                f"The fewer messages conflict, the earlier semantic_total delivers ({words}).",
                "superior, not measured",
                f"times single_phase: {told(network, 'semantic_total')}",
                "rises with the share, but for 5 %, and up to 10 % at most three quarters of single_phase's mean latency",
                rising and judged.holds,
            )
        )
    most = [ratio(network, order)[-1] for network in NETWORKS for order in PAIRS]
    judged = criteria.at_most(
        most, [1.1] * len(most), "where everything conflicts at most 10 % above the plain order, in both networks"
    )
    claims.append(
        Claim(
            "When everything conflicts, a semantic order costs no more than the plain one.",
            "plain orders are special cases",
            "; ".join(f"{order} at 100%: " + ", ".join(f"{ratio(n, order)[-1]:.3f} ({n})" for n in NETWORKS) for order in PAIRS),
            judged.criterion,
            judged.holds,
            "An order that sends other records meets other losses: semantic_total sends "
            f"{results.count(f'lossy semantic_total {shares[-1]:g}', 'multicasts_lead'):.2f} promises (leads) per "
            "message besides its "
            "acknowledgements, and each of them can be lost.",
        )
    )
    free = [share for share in shares if share < 1]
    quickly = {
        network: [
            results.mean(f"{network} semantic_total {share:g}", "free_ms")
            / results.mean(f"{network} causal {share:g}", "free_ms")
            for share in free
        ]
        for network in NETWORKS
    }
    acks = {
        network: [results.count(f"{network} semantic_total {share:g}", "multicasts_ack") for share in free]
        for network in NETWORKS
    }
    for network, words in NETWORKS.items():
        judged = criteria.at_most(
            quickly[network], [1.1] * len(free), "at every share at most 10 % above the same messages in causal order"
        )
        claims.append(
            Claim(
                "In semantic_total a message that conflicts with nothing waits for no order: it takes as long as in "
                f"causal order ({words}).",
                "may commute with everything",
                "times causal: "
                + ", ".join(f"{share:.0%} {value:.2f}" for share, value in zip(free, quickly[network], strict=True)),
                judged.criterion,
                judged.holds,
                "Acknowledgements travel in the same streams, though nobody waits for those of such messages: "
                + ", ".join(f"{share:.0%} {value:.2f}" for share, value in zip(free, acks[network], strict=True))
                + " multicasts per message, none in causal order. A reading that fits, not measured by itself: one that is lost "
                "holds up the messages that its sender sends after it; one that arrives tells early that a message before it is "
                "missing.",
            )
        )
    weak = ("semantic_causal", "semantic_fifo")
    same = criteria.within([value for order in weak for value in ratio("steady", order)], 0.97, 1.03, "")
    few = [value for order in weak for value, share in zip(ratio("lossy", order), shares, strict=True) if share <= 0.1]
    less = criteria.at_most(few, [0.9] * len(few), "")
    claims.append(
        Claim(
            "semantic_causal and semantic_fifo gain where packets are lost or pass each other, and only there.",
            "superior, not measured",
            "; ".join(
                f"{order}, times {PAIRS[order]}: steady {told('steady', order)}, lossy {told('lossy', order)}" for order in weak
            ),
            "within 3 % of the plain order over steady links, at least 10 % below it with losses where at most 10 % conflict",
            same.holds and less.holds,
            remark="Links keep the order of a sender's packets. So over links that lose nothing a FIFO order never "
            "waits, and a causal one "
            "only when a message is overtaken by the answer to it.",
        )
    )
    setup = (
        f"{MEMBERS} members, delays of 30 to 50 ms; all send at random, {PER_SECOND:g} messages a second all together. "
        "A share of them conflicts "
        "with each other, the "
        "rest with nothing. Mean over all deliveries of messages sent after the first third of the run. semantic_total "
        "is built on "
        "single_phase and compared with it."
    )
    says = (
        "Messages that commute need no common order, so an order that knows conflicts can deliver them earlier. The "
        "paper gives no "
        "measurements; these are of the protocols of this library."
    )
    return Section("Latency over the share of conflicts", "§4.2, beyond the paper", says, setup, plots, claims)


def sections(results: Results, quick: bool, live: Results | None = None) -> list[Section]:
    """What the report shows."""
    return [containment(results), delay(results), message_phases(results), latency(results, quick)]


PART: Final = Part(
    "semantic",
    PAPER,
    points_of.SCENARIO,
    points_of.points,
    lambda quick: 1 if quick else 2,
    (measures.latency, measures.reach, measures.by_type, measures.control),
    sections,
    compute,
)
