"""Paper 004, §4.2: how a switch disturbs the flow of deliveries, in time (Figures 4 to 9) and against rate and delay."""

import json
from typing import Any, Final

from isotone.report.markup import Markup
from isotone.reproduce import criteria
from isotone.reproduce import switching_points as points_of
from isotone.reproduce.parts import Claim, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, lines, needles, side_by_side, steps
from isotone.reproduce.switching_measures import TICK_NS
from isotone.reproduce.switching_points import CALM_PERIOD_MS, CALM_RATE, CAPACITY, DELAY_MS

PAINT: Final = {"none": 3, "dual": 0, "dual_ids": 2, "stop": 1, "rabp": 4}


def _lines_of(results: Results, strategy: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(results.rows(f"calm {strategy} {CALM_RATE}")[0]["shown"])
    return shown


def disturbance(results: Results, quick: bool) -> Section:
    """Figures 4 to 9: latency, inter-arrival times and deliveries per 10 ms, dual and RABP."""
    pair = {"dual": "Adaptive TO (dual)", "rabp": "RABP"}
    shown = {strategy: _lines_of(results, strategy) for strategy in pair}
    tick_ms = TICK_NS // 1_000_000
    took = {s: list(zip(one["at"], one["took"], strict=True)) for s, one in shown.items()}
    between = {s: [(b, b - a) for a, b in zip(one["at"], one["at"][1:], strict=False)] for s, one in shown.items()}
    tops = [max(v for one in curves.values() for _, v in one) for curves in (took, between)]
    top = max(value for one in shown.values() for value in one["ticks"])
    rows: list[list[Markup]] = [[], [], []]
    for place, (strategy, name) in enumerate(pair.items()):
        bands = [(begin, end) for begin, end in shown[strategy]["switches"]]
        paint = PAINT[strategy]
        title = f"Figure {4 + place}: latency, {name}"
        rows[0].append(needles(title, "one delivery", took[strategy], paint, "ms", "latency, ms", bands, tops[0]))
        title = f"Figure {6 + place}: inter-arrival time, {name}"
        up = "ms since the delivery before"
        rows[1].append(needles(title, "between two deliveries", between[strategy], paint, "ms", up, bands, tops[1]))
        ticks = [(begin / tick_ms, end / tick_ms) for begin, end in bands]
        curve = [("deliveries", shown[strategy]["ticks"], paint)]
        label = f"deliveries per {tick_ms} ms"
        rows[2].append(
            steps(f"Figure {8 + place}: delivery rate, {name}", curve, f"ticks of {tick_ms} ms", label, HALF, ticks, top)
        )

    def of(strategy: str, column: str) -> float:
        return results.mean(f"calm {strategy} {CALM_RATE}", column)

    claims = []
    judged = criteria.flat([of(strategy, "calm_latency_ms") for strategy in pair], 0.05, "mean latency between switches")
    claims.append(
        Claim(
            "Between switches both strategies perform alike.",
            "similar during the remaining time",
            f"dual {of('dual', 'calm_latency_ms'):.2f} ms, rabp {of('rabp', 'calm_latency_ms'):.2f} ms",
            judged.criterion,
            judged.holds,
        )
    )
    closing = (
        f"Of the {of('dual', 'gap_ms'):.1f} ms without a delivery, {of('dual', 'closing_ms'):.1f} ms lie between the "
        "cut and its passing: "
        "everybody says that it has reached the cut, and then that it knows that all have, so that a partition in "
        "between cannot tear the "
        "group into some that go on with the old order and some with the new one. The paper's algorithm does not have "
        "this step, and its "
        f"model no partitions. What is left, {max(0.0, of('dual', 'gap_ms') - of('dual', 'closing_ms')):.1f} ms, is "
        "less than or about the "
        f"{of('dual', 'calm_gap_ms'):.1f} ms between switches. With doubled payloads in the queue before them, these "
        "casts take longer in "
        "dual than in rabp, which sends less."
    )
    for strategy in ("dual", "dual_ids"):
        words = "" if strategy == "dual" else " with payloads in one order only"
        judged = criteria.at_most(
            [of(strategy, "spike_ms"), of(strategy, "gap_ms")],
            [of("rabp", "spike_ms"), of("rabp", "gap_ms")],
            f"both the highest latency and the longest gap around a switch, on average, at most those of rabp ({strategy})",
        )
        claims.append(
            Claim(
                f"A switch{words} disturbs the flow less than RABP does.",
                "spikes of latency and gaps for RABP (Figures 4 to 7)",
                f"{strategy}: latency up to {of(strategy, 'spike_ms'):.1f} ms, gap {of(strategy, 'gap_ms'):.1f} ms; rabp: "
                f"{of('rabp', 'spike_ms'):.1f} ms, {of('rabp', 'gap_ms'):.1f} ms; between switches "
                f"{of('dual', 'calm_gap_ms'):.1f} ms",
                judged.criterion,
                judged.holds,
                closing if strategy == "dual" else "",
            )
        )
    for strategy in ("dual", "dual_ids"):
        judged = criteria.at_least(
            [of(strategy, "low")],
            [0.5 * of(strategy, "calm_low")],
            "the emptiest tick around a switch at least half as full as between",
        )
        claims.append(
            Claim(
                f"The rate of delivery is sustained during a switch with {strategy}.",
                "a sustained delivery rate (Figure 8)",
                f"{of(strategy, 'low'):.1f} deliveries in the emptiest tick, {of(strategy, 'high'):.1f} in the fullest; "
                f"{of(strategy, 'calm_low'):.1f} to {of(strategy, 'calm_high'):.1f} between switches",
                judged.criterion,
                judged.holds,
                f"The flow pauses for {of(strategy, 'gap_ms'):.1f} ms, most of a tick of {tick_ms} ms, and comes in "
                "one go then; "
                "see above for why.",
            )
        )
    judged = criteria.at_least(
        [of("rabp", "gap_ms")], [2 * of("rabp", "calm_gap_ms")], "the gap at least twice that between switches"
    )
    claims.append(
        Claim(
            "RABP leaves a gap in the flow.",
            "some delay is imposed (Figures 5 and 7)",
            f"gap {of('rabp', 'gap_ms'):.1f} ms against {of('rabp', 'calm_gap_ms'):.1f} ms between switches",
            judged.criterion,
            judged.holds,
        )
    )
    longest = points_of.delays(quick)[-1]
    far = {column: results.mean(f"delay rabp {longest:g}", column) for column in ("low", "high", "calm_high")}
    judged = criteria.at_least(
        [far["high"]],
        [1.5 * far["calm_high"]],
        f"the fullest tick at least half as full again as between, links of {longest:g} ms",
    )
    claims.append(
        Claim(
            "What RABP held up comes in a burst.",
            "Figure 9",
            f"links of {longest:g} ms: {far['low']:.1f} to {far['high']:.1f} deliveries per tick, at most "
            f"{far['calm_high']:.1f} between "
            f"switches; links of {DELAY_MS:g} ms: {of('rabp', 'low'):.1f} to {of('rabp', 'high'):.1f}",
            judged.criterion,
            judged.holds,
            remark=f"With links of {DELAY_MS:g} ms the gap is shorter than a tick of {tick_ms} ms, and shows only "
            "where it meets two.",
        )
    )
    setup = (
        f"As before, {CALM_RATE} messages a second of each member, a switch every {CALM_PERIOD_MS:g} ms. The figures "
        "show 1.2 s at one "
        "member, all that it delivers; switches are shaded, from the delivery of the request until the new order is in "
        "force. Numbers are "
        "means over all switches and members, from 10 ms before a switch to 60 ms after it. Latency is from the "
        "hand-in to the delivery."
    )
    says = (
        "RABP cuts where the first special message is and sends again what was not delivered by then, so the flow "
        "waits for a while, and "
        "what waited comes in a burst. The adaptive protocol delivers all the time."
    )
    figures = [side_by_side(*row) for row in rows]
    return Section("Around a switch: dual and RABP", "§4.2, Figures 4 to 9", says, setup, figures, claims)


def gaps(results: Results, quick: bool) -> Section:
    """How the gap around a switch depends on the rate and on the delay."""
    strategies = ("dual", "dual_ids", "rabp", "stop")
    rates, delays = points_of.calm_rates(quick), points_of.delays(quick)

    def key(strategy: str, delay_ms: float) -> str:
        return f"calm {strategy} {CALM_RATE}" if delay_ms == DELAY_MS else f"delay {strategy} {delay_ms:g}"

    by_rate = {s: [results.mean(f"calm {s} {rate}", "gap_ms") for rate in rates] for s in strategies}
    by_delay = {s: [results.mean(key(s, delay), "gap_ms") for delay in delays] for s in strategies}
    closing = {s: [results.mean(key(s, delay), "closing_ms") for delay in delays] for s in ("dual", "dual_ids")}
    left = lines(
        f"Longest time without a delivery, links of {DELAY_MS:g} ms",
        [Series(s, list(zip(rates, by_rate[s], strict=True)), PAINT[s]) for s in strategies],
        Axis("messages sent a second, by each member", ticks=rates),
        Axis("ms, mean over switches and members", log=True),
        HALF,
    )
    right = lines(
        f"The same at {CALM_RATE}/s",
        [Series(s, list(zip(delays, by_delay[s], strict=True)), PAINT[s]) for s in strategies],
        Axis("delay of a link, ms", log=True, ticks=delays),
        Axis("ms, mean over switches and members", log=True),
        HALF,
    )
    claims = []
    calm = criteria.at_most(by_rate["dual_ids"], by_rate["rabp"], "")
    slow = criteria.at_most(by_delay["dual_ids"], by_delay["rabp"], "")
    claims.append(
        Claim(
            "dual_ids leaves a shorter gap than RABP at every rate and every delay.",
            "not measured",
            "; ".join(
                f"{delay:g} ms: {one:.1f} against {other:.1f} ms"
                for delay, one, other in zip(delays, by_delay["dual_ids"], by_delay["rabp"], strict=True)
            ),
            "the mean gap at most that of rabp in every run",
            calm.holds and slow.holds,
        )
    )
    judged = criteria.at_most(
        [by_delay["dual"][-1]], [by_delay["rabp"][-1]], f"the mean gap at most that of rabp, at {delays[-1]:g} ms"
    )
    claims.append(
        Claim(
            "Where delays outweigh queues, dual leaves a shorter gap than RABP.",
            "a sustained delivery rate; no delay is given",
            "; ".join(
                f"{delay:g} ms: {one:.1f} against {other:.1f} ms"
                for delay, one, other in zip(delays, by_delay["dual"], by_delay["rabp"], strict=True)
            ),
            judged.criterion,
            judged.holds,
            "At this delay the doubled payloads that the casts of the switch queue behind still weigh more.",
        )
    )
    judged = criteria.at_most(
        [gap - wait for gap, wait in zip(by_delay["dual"], closing["dual"], strict=True)],
        [0.5 * gap for gap in by_delay["dual"]],
        "at every delay at least half of the gap of dual lies between the cut and its passing",
    )
    claims.append(
        Claim(
            "The gap of dual is the time that it takes to know that all have reached the cut.",
            "no such step: the flow never stops",
            "; ".join(
                f"{d:g} ms: {wait:.1f} of {gap:.1f} ms"
                for d, wait, gap in zip(delays, closing["dual"], by_delay["dual"], strict=True)
            ),
            judged.criterion,
            judged.holds,
        )
    )
    says = "What the gap around a switch depends on: the traffic that its casts queue behind, and the delay of the links."
    setup = (
        f"As before, with other rates (links of {DELAY_MS:g} ms) and other delays ({CALM_RATE} messages a second of "
        "each member). "
        "Dual sends twice the traffic during a switch; twice "
        f"{rates[-1]}/s is more than the {CAPACITY['node']:.0f}/s that the links carry."
    )
    return Section("The gap against rate and delay", "beyond the paper", says, setup, [side_by_side(left, right)], claims)
