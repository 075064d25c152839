"""Paper 000, §6.2 and §7: latency and evenness of `atop` where some members are slow, against All-Ack and a causal order.

`atop_points` has the loads; here is what is made of their results.
"""

import json
from collections.abc import Sequence
from typing import Final

from isotone.report.markup import Markup, tag
from isotone.reproduce import criteria, measures
from isotone.reproduce.atop_live import LIVE_NOTE, live_intervals
from isotone.reproduce.atop_points import (
    D_MS,
    DEFAULT_POLICY,
    FIXED_MS,
    LOADS,
    MEMBERS,
    ORDERS,
    POLICIES,
    SLOTS,
    TURNS,
    intervals,
    points,
)
from isotone.reproduce.parts import Claim, Paper, Part, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, columns, lines, short, side_by_side, steps

PAPER: Final = Paper(
    "000",
    "Gregory V. Chockler, Nabil Huleihel, Danny Dolev",
    "An Adaptive Totally Ordered Multicast Protocol that Tolerates Partitions",
    "PODC 1998",
    ("atop", "all_ack", "causal"),
)


def _ms(value: float) -> str:
    return f"{short(value)} ms"


def series_of(results: Results, stops: Sequence[float], column: str = "mean_ms") -> dict[str, list[float]]:
    """The first series: a value per interval, for each order."""
    return {order: [results.mean(f"{order} {stop:g}", column) for stop in stops] for order in ORDERS}


def first_series(results: Results, quick: bool, live: Results | None) -> Section:
    """Latency against the slow members' interval; live processes in the same plots."""
    stops = intervals(quick)
    found = series_of(results, stops)
    told = ", simulated" if live else ""
    curves = [Series(name + told, _over(stops, found[order]), paint) for order, (name, paint) in ORDERS.items()]
    near = [
        Series(name + told, _over(stops, [v / D_MS for v in found[order]]), paint)
        for order, (name, paint) in ORDERS.items()
        if order != "all_ack"
    ]
    predicted = [0.75 * stop + D_MS for stop in stops]
    reference = Series("¾ of the interval: three slow members wait for each other", _over(stops, predicted), 7, dashed=True)
    claims = []
    notes = []
    if live is not None:
        live_stops = live_intervals(quick)
        measured = series_of(live, live_stops)
        delays = [live.mean(f"causal {stop:g}", "remote_ms") for stop in live_stops]
        claims = _live_claims(live_stops, measured, delays)
        for order, (name, paint) in ORDERS.items():
            curves.append(Series(f"{name}, live", _over(live_stops, measured[order]), paint, live=True))
            if order != "all_ack":
                ratios = [v / d for v, d in zip(measured[order], delays, strict=True)]
                near.append(Series(f"{name}, live", _over(live_stops, ratios), paint, live=True))
        notes = [
            tag(
                "p",
                tag("b", "Simulated and live. "),
                LIVE_NOTE,
                f" D was {_ms(min(delays))} to {_ms(max(delays))} there and is {_ms(D_MS)} in the simulator. All-Ack waits "
                f"for the "
                "next message of the slow members, so its milliseconds compare directly; for the others the second figure "
                "divides "
                "each by its own D. The live runs are shorter: "
                "the adaptive order has less time to learn the pace of the slow members.",
                class_="note",
            )
        ]
    x = Axis("interval of the slow members, s", log=True, ticks=[stop / 1000 for stop in stops])
    plot = lines(
        "Mean latency, send to deliver",
        [*curves[: len(ORDERS)], reference, *curves[len(ORDERS) :]],
        x,
        Axis("mean latency, ms", log=True),
    )
    close = lines("The same without All-Ack, in units of the delay D", near, x, Axis("mean latency / D"))
    limits = [1.1 * (causal + D_MS) for causal in found["causal"]]
    simulated = []
    for order in SLOTS:
        judged = criteria.at_most(found[order], limits, "at every interval at most (causal + D) + 10 %")
        worst = max(range(len(stops)), key=lambda i: found[order][i] / found["causal"][i])
        simulated.append(
            Claim(
                f"After adaptation {ORDERS[order][0]} is near the causal order, the best that any order can do.",
                "slightly greater, no number",
                f"{_ms(min(found[order]))} to {_ms(max(found[order]))}, causal {_ms(found['causal'][worst])}; "
                f"at most {found[order][worst] / found['causal'][worst]:.2f} times causal",
                judged.criterion,
                judged.holds,
                remark="What is left above causal is one more delay for each message whose sender was not expected next.",
            )
        )
    judged = criteria.flat(found["even"], 0.2, "mean of atop")
    spread = f"{_ms(found['even'][0])} at {_ms(stops[0])}, {_ms(found['even'][-1])} at {_ms(stops[-1])}"
    skips = [results.count(f"even {stop:g}", "multicasts_skip") for stop in (stops[0], stops[-1])]
    simulated.append(
        Claim(
            "The latency of atop does not depend on the slowest member.",
            "unlike All-Ack's",
            spread,
            judged.criterion,
            judged.holds,
            remark=f"The price does: {skips[0]:.2f} skips per message at the shortest interval, {skips[1]:.2f} at the longest.",
        )
    )
    factor = 0.5 * stops[-1] / stops[0]
    judged = criteria.grows(found["all_ack"], factor, "mean of All-Ack")
    simulated.append(
        Claim(
            "The latency of All-Ack grows with the slow members' interval.",
            "steadily, from one experiment to the next",
            f"{_ms(found['all_ack'][0])} at {_ms(stops[0])}, {_ms(found['all_ack'][-1])} at {_ms(stops[-1])}",
            judged.criterion,
            judged.holds,
        )
    )
    setup = (
        "Six members, 50-byte messages, about 10, 10 and 20 messages a second and three slow members; links of 0.8 to 1.2 ms "
        f"(D = {D_MS:g} ms). "
        "Mean over all deliveries at all members, the sender's own among them, of messages sent after the first third of "
        "the run."
    )
    says = (
        "The slow members send more and more rarely. The adaptive order stays slightly above the causal multicast below it, "
        "which is taken for the "
        "best achievable; the symmetric order without adaptation takes longer in each experiment."
    )
    title = "Series 1: the slow members get slower"
    return Section(title, "§6.2.1, first series", says, setup, [plot, close], [*simulated, *claims], notes)


def _over(stops: Sequence[float], values: Sequence[float]) -> list[tuple[float, float | None]]:
    return [(stop / 1000, value) for stop, value in zip(stops, values, strict=True)]


def _live_claims(stops: Sequence[float], found: dict[str, list[float]], delays: Sequence[float]) -> list[Claim]:
    """The same criteria for live processes, each against the delay that was measured beside it."""
    limits = [1.1 * (causal + delay) for causal, delay in zip(found["causal"], delays, strict=True)]
    claims = []
    for order in SLOTS:
        judged = criteria.at_most(found[order], limits, "at every interval at most (causal + D) + 10 %, both measured live")
        worst = max(range(len(stops)), key=lambda i: found[order][i] / found["causal"][i])
        claims.append(
            Claim(
                f"On live processes too {ORDERS[order][0]} is near the causal order.",
                "slightly greater, no number",
                f"{_ms(min(found[order]))} to {_ms(max(found[order]))}; at most "
                f"{found[order][worst] / found['causal'][worst]:.2f} times causal ({_ms(found['causal'][worst])})",
                judged.criterion,
                judged.holds,
                "Processes of four groups share the cores of one machine; a process that is not scheduled answers late.",
            )
        )
    if len(stops) > 1:
        judged = criteria.grows(found["all_ack"], 0.5 * stops[-1] / stops[0], "mean of All-Ack")
        claims.append(
            Claim(
                "On live processes too the latency of All-Ack grows with the slow members' interval.",
                "steadily, from one experiment to the next",
                f"{_ms(found['all_ack'][0])} at {_ms(stops[0])}, {_ms(found['all_ack'][-1])} at {_ms(stops[-1])}",
                judged.criterion,
                judged.holds,
            )
        )
    return claims


def nearness(results: Results) -> Section:
    """What stands between atop and the causal order: slots, order of sending, policy."""
    names = [*TURNS, "at random"]
    keys = [*names, f"{FIXED_MS:g}"]
    groups = ["slot order", "other order", "random", "§6.2"]
    shown = [
        (name, [results.mean(f"{order} {key}", "remote_ms") / D_MS for key in keys], paint)
        for order, (name, paint) in ORDERS.items()
        if order != "all_ack"
    ]
    skips = [
        (name, [results.count(f"{order} {key}", "multicasts_skip") for key in keys], paint)
        for order, (name, paint) in ORDERS.items()
        if order in SLOTS
    ]
    even, causal = shown[0][1], shown[2][1]

    def key_of(slots: str, policy: str) -> str:
        return f"{slots} {FIXED_MS:g}" if policy == DEFAULT_POLICY else f"{slots} {policy}"

    by_policy = [
        (ORDERS[slots][0], [results.mean(key_of(slots, policy), "remote_ms") / D_MS for policy in POLICIES], ORDERS[slots][1])
        for slots in SLOTS
    ]
    policy_skips = [
        (ORDERS[slots][0], [results.count(key_of(slots, policy), "multicasts_skip") for policy in POLICIES], ORDERS[slots][1])
        for slots in SLOTS
    ]
    claims = []
    for place, words in enumerate(("in the order of their slots", "in another fixed order")):
        judged = criteria.at_most([even[place]], [1.1 * causal[place]], "at most 10 % above causal, at the other members")
        claims.append(
            Claim(
                f"When members send {words}, atop takes one delay, as the causal order does.",
                "the aim of adapting (§4)" if place == 0 else "implied by “close to causal”",
                f"{even[place]:.2f} D, causal {causal[place]:.2f} D",
                judged.criterion,
                judged.holds,
            )
        )
    judged = criteria.at_most([even[2]], [1.1 * causal[2]], "at most 10 % above causal, at the other members")
    claims.append(
        Claim(
            "It does so also when they send at random.",
            "not said; its senders were steady",
            f"{even[2]:.2f} D, causal {causal[2]:.2f} D",
            judged.criterion,
            judged.holds,
            "Nobody can foresee who sends next. A message before whose slot others still have theirs waits until they have "
            "heard "
            f"of it and given those up: one more delay, for {even[2] / causal[2] - 1:.0%} of the messages.",
        )
    )
    adaptive = [value for _, values, _ in by_policy for policy, value in zip(POLICIES, values, strict=True) if policy != "none"]
    plain = [values[POLICIES.index("none")] for _, values, _ in by_policy]
    judged = criteria.at_most(
        adaptive,
        [1.1 * causal[3]] * len(adaptive),
        "at most 10 % above causal with both slot sequences and every policy that adapts",
    )
    claims.append(
        Claim(
            "Every policy that adapts brings atop near the causal order.",
            "one policy measured",
            f"{min(adaptive):.2f} to {max(adaptive):.2f} D; without adaptation {min(plain):.2f} to {max(plain):.2f} D",
            judged.criterion,
            judged.holds,
        )
    )
    says = (
        "The paper gives no numbers for how much is left above the causal order, nor for random against even slots. Weights "
        "fix how many "
        "slots a member has, not in which order members come to send; so the policies here also guess who sends next, by "
        "the gaps "
        "between each member's messages, and the others give up their slots before its next one ahead of time."
    )
    setup = (
        "Above: the three quick members alone, at 10, 10 and 20 messages a second, periodically in the order of the even "
        "slots and "
        "in another order; all six at random; and the load of §6.2, slow members "
        f"every {FIXED_MS / 1000:g} s. Below: the load of §6.2 with every policy (none never adapts and never guesses). "
        f"Latency at the other "
        "members; a skip is a record by which a member gives slots up."
    )
    latency, price = Axis("mean latency / D"), Axis("skips (multicast) per message")
    figures = [
        side_by_side(
            columns("Latency at the other members", groups, shown, latency, HALF),
            columns("Skips per message", groups, skips, price, HALF),
        ),
        side_by_side(
            columns("Latency by policy", POLICIES, by_policy, latency, HALF),
            columns("Skips by policy", POLICIES, policy_skips, price, HALF),
        ),
    ]
    return Section("How near to the causal order", "beyond the paper", says, setup, figures, claims)


def second_series(results: Results) -> Section:
    """Figures 7 and 8."""
    variance = {order: results.mean(f"{order} {FIXED_MS:g}", "tick_variance") for order in ORDERS}
    mean = {order: results.mean(f"{order} {FIXED_MS:g}", "tick_mean") for order in ORDERS}
    sent = results.mean(f"even {FIXED_MS:g}", "tick_sent_mean")
    sent_variance = results.mean(f"even {FIXED_MS:g}", "tick_sent_variance")
    seven: list[Markup] = []
    eight: list[Markup] = []
    for order in ("even", "all_ack"):
        row = results.rows(f"{order} {FIXED_MS:g}")[0]
        name = ORDERS[order][0]
        delivered, sends = json.loads(row["tick_deliveries"]), json.loads(row["tick_sends"])
        per_second = [sum(delivered[place : place + 10]) for place in range(0, len(delivered) - 9, 10)]
        seven.append(
            steps(
                f"Figure 7{'a' if order == 'even' else 'b'}: {name}",
                [(f"deliveries, {name}", per_second, ORDERS[order][1])],
                "seconds",
                "deliveries per second",
            )
        )
        curves = [(f"deliveries, {name}", delivered, ORDERS[order][1]), ("sends", sends, 5)]
        eight.append(steps(f"Figure 8{'a' if order == 'even' else 'b'}: {name}", curves, "ticks of 100 ms", "messages per tick"))
    claims = []
    for order in ("even", "random"):
        ratio = variance["all_ack"] / max(variance[order], 1e-12)
        judged = criteria.at_least([ratio], [10.0], "variance of deliveries per tick at least 10 times smaller than All-Ack's")
        claims.append(
            Claim(
                f"The delivery rate of {ORDERS[order][0]} varies far less than All-Ack's.",
                "much greater for All-Ack (Figure 7)",
                f"{variance[order]:.3g} against {variance['all_ack']:.3g}: {ratio:,.0f} times smaller",
                judged.criterion,
                judged.holds,
            )
        )
    judged = criteria.within(
        list(mean.values()), 0.95 * sent, 1.05 * sent, "the mean number of deliveries per tick within 5 % of that of sends"
    )
    claims.append(
        Claim(
            "Whatever the order, messages are delivered at the rate at which they are sent, on the average.",
            "close to the transmission rate",
            ", ".join(f"{ORDERS[order][0]} {10 * mean[order]:.2f}/s" for order in ORDERS) + f"; sent {10 * sent:.2f}/s",
            judged.criterion,
            judged.holds,
        )
    )
    judged = criteria.at_most(
        [variance["even"]], [1.5 * sent_variance + 0.02], "variance of deliveries at most 1.5 times that of sends, + 0.02"
    )
    claims.append(
        Claim(
            "After adaptation atop delivers as evenly as the sender sends.",
            "almost constant (Figure 8a)",
            f"variance per tick {variance['even']:.3g}, of sends {sent_variance:.3g}",
            judged.criterion,
            judged.holds,
        )
    )
    setup = (
        f"As before, the slow members send every {FIXED_MS / 1000:g} s. Messages of one member that sends about 10 a second, "
        "as another member delivers them; "
        "ticks of 100 ms after the first third of the run. Variances are means over the receivers and seeds."
    )
    says = (
        "All-Ack stands still until the slowest member's next message and then delivers everything at once. The adaptive order "
        "delivers at nearly the constant "
        "rate at which the member sends."
    )
    figures = [side_by_side(*seven), side_by_side(*eight)]
    return Section("Series 2: evenness of the delivery", "§6.2.1, Figures 7 and 8", says, setup, figures, claims)


def beyond(results: Results, quick: bool) -> Section:
    """§7: loads and networks for which the paper suggests other policies."""
    loads = ["changing", "wan"] if quick else [*LOADS]
    groups = [LOADS[load] for load in loads]
    near = [
        (policy, [results.mean(f"{load} {policy}", "mean_ms") / results.mean(f"{load} None", "mean_ms") for load in loads], place)
        for place, policy in enumerate(POLICIES)
    ]
    moves = [
        (policy, [results.count(f"{load} {policy}", "multicasts_dummy") * 1_000 for load in loads], place)
        for place, policy in enumerate(POLICIES)
    ]
    ratio = {(policy, load): values[place] for policy, values, _ in near for place, load in enumerate(loads)}
    dummies = {(policy, load): values[place] for policy, values, _ in moves for place, load in enumerate(loads)}
    claims = []

    skips = {(policy, load): results.count(f"{load} {policy}", "multicasts_skip") for policy in POLICIES for load in loads}

    def compare(says: str, one: str, other: str, load: str, what: dict[tuple[str, str], float], unit: str, why: str) -> None:
        judged = criteria.at_most(
            [what[one, load]], [1.02 * what[other, load]], f"{one} at most {other} + 2 %, with {LOADS[load]}"
        )
        text = f"{one} {what[one, load]:.3g}, {other} {what[other, load]:.3g} {unit}"
        costs = "; ".join(
            f"{policy}: {dummies[policy, load]:.3g} dummies per 1,000 messages, {skips[policy, load]:.2f} skips per message"
            for policy in (one, other)
        )
        claims.append(Claim(says, "suggested, not measured", text, judged.criterion, judged.holds, f"{why} {costs}."))

    times = "times causal"
    compare(
        "Adapting pays under rates that change.", "bookkeeper", "none", "changing", ratio, times,
        "Without adaptation slots are given up on demand only.",
    )  # fmt: skip
    compare(
        "In a wide-area network the member whose round trips vary least is the better book-keeper.",
        "least_variance", "bookkeeper", "wan", ratio, times,
        "Weights are shares of messages, and every member counts the same ones: who counts them matters less than how often "
        "the distribution changes while the role moves.",
    )  # fmt: skip
    compare(
        "Patterns that the application declares are recognised as well as counted ones.",
        "patterns", "bookkeeper", "changing", ratio, times,
        "The nearest declared pattern is a coarser weight than the count.",
    )  # fmt: skip
    if not quick:
        compare(
            "A member that comes and goes changes the distribution less often with back-off.",
            "backoff", "bookkeeper", "coming", dummies, "dummies per 1,000 messages",
            "Pauses are forgotten before the next one.",
        )  # fmt: skip
    says = (
        "The paper ends with loads and networks that it did not measure, and with policies for them: another choice of the "
        "book-keeper in wide-area networks, "
        "back-off for members that pause, patterns that the application declares."
    )
    setup = (
        "The load of §6.2 with slow members every 3 s and even slots; but quick and slow members exchange their roles four "
        "times; or the quickest member sends 6 s of 12 (with a window of 60 messages); "
        "or its process is stopped 300 ms of every 3 s; or links of 40 ms, those of the member of rank 0 20 to 140 ms. "
        "A dummy says that a member has moved to another distribution: five per change."
    )
    figures = [
        columns("Mean latency, in units of the causal order's", groups, near, Axis("times causal")),
        columns("Changes of the distribution", groups, moves, Axis("dummies (multicast) per 1,000 messages")),
    ]
    return Section("Other loads, other policies", "§7, beyond the paper", says, setup, figures, claims)


def sections(results: Results, quick: bool, live: Results | None = None) -> list[Section]:
    """What the report shows."""
    return [first_series(results, quick, live), second_series(results), nearness(results), beyond(results, quick)]


PART: Final = Part(
    "atop",
    PAPER,
    {
        "name": "atop",
        "members": [*MEMBERS],
        "duration_ms": 10_000.0,
        "order": "causal",
        "network": {"latency": {"kind": "uniform", "min_ms": 0.8, "max_ms": 1.2}},
    },
    points,
    lambda quick: 1 if quick else 2,
    (measures.latency, measures.ticks, measures.control),
    sections,
)
