"""The switching experiment of paper 004 on live processes, and what is made of it: both curves in one plot.

Five processes of one machine send as in the simulated runs and are switched as often, one run after the other. There is no link
of 100 Mbit/s between them: what bounds them is the processor.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from isotone.report.markup import tag
from isotone.reproduce import criteria, measures
from isotone.reproduce import switching_points as points_of
from isotone.reproduce.live import LiveRun, Sending
from isotone.reproduce.parts import Claim, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, lines, short, side_by_side
from isotone.reproduce.switching_flow import PAINT
from isotone.reproduce.switching_measures import around, throughput
from isotone.reproduce.switching_points import (
    CALM_PERIOD_MS,
    CALM_RATE,
    DELAY_MS,
    LIMITS,
    MEMBERS,
    ORDER,
    PERIOD_MS,
    SIZE,
    STRATEGIES,
)

SECONDS: Final = 3.0
CALM_SECONDS: Final = 5.0
SWITCHED: Final = ("none", "dual", "dual_ids", "stop")
AROUND: Final = ("dual", "dual_ids", "rabp", "stop")
DELAY: Final = "delay"
"""The run that measures the delay: the same load under the causal order."""


def live_rates(quick: bool) -> list[int]:
    """Messages a second of each member."""
    return [200] if quick else [100, 400, 700]


def live_runs(quick: bool) -> list[list[LiveRun]]:
    """Batches of one run each: they would take the processor from each other."""
    runs = [_run(DELAY, "causal", CALM_RATE, SECONDS, "none", PERIOD_MS)]
    for rate in live_rates(quick):
        runs += [_run(f"figure {one} {rate}", ORDER, rate, SECONDS, one, PERIOD_MS) for one in SWITCHED]
    if not quick:
        runs += [_run(f"calm {one} {CALM_RATE}", ORDER, CALM_RATE, CALM_SECONDS, one, CALM_PERIOD_MS) for one in AROUND]
    return [[one] for one in runs]


def _run(name: str, order: str, rate: int, seconds: float, strategy: str, period_ms: float) -> LiveRun:
    sending = {member: Sending(1 / rate, (place * 0.37 + 0.1) % 1, seconds, SIZE) for place, member in enumerate(MEMBERS)}
    switches = {} if strategy == "none" else {"strategy": strategy, "period_s": period_ms / 1000}
    return LiveRun(name, order, sending, measured, limits=LIMITS, switches=switches)


def measured(table: Any) -> dict[str, Any]:
    """What the simulated runs are measured by, as far as it is used here."""
    found = {**throughput(table), **around(table), **measures.latency(table)}
    return {key: found[key] for key in ("throughput", "switches", "gap_ms", "calm_gap_ms", "remote_ms") if key in found}


def live_section(results: Results, quick: bool, live: Results) -> Section:
    """Throughput and gaps of both."""
    rates, live_at = points_of.rates(quick), live_rates(quick)
    found = {s: [results.mean(f"figure {s} {rate}", "throughput") for rate in rates] for s in SWITCHED}
    seen = {s: [live.mean(f"figure {s} {rate}", "throughput") for rate in live_at] for s in SWITCHED}
    delay = live.mean(DELAY, "remote_ms")
    series = [Series(f"{STRATEGIES[s]}, simulated", _over(rates, found[s]), PAINT[s]) for s in SWITCHED]
    series += [Series(f"{STRATEGIES[s]}, live", _over(live_at, seen[s]), PAINT[s], live=True) for s in SWITCHED]
    flow = lines(
        "Throughput against the send rate",
        series,
        Axis("messages sent a second, by each member", ticks=rates),
        Axis("messages delivered a second, of each member"),
        HALF if not quick else HALF * 2,
    )
    claims = [_keeps_up(s, live_at, seen) for s in ("dual", "dual_ids")]
    figures = [flow]
    if not quick:
        delays = points_of.delays(quick)
        gaps = [
            Series(f"{s}, simulated", _over(delays, [_simulated(results, s, one) for one in delays]), PAINT[s]) for s in AROUND
        ]
        own = {s: live.mean(f"calm {s} {CALM_RATE}", "gap_ms") for s in AROUND}
        gaps += [Series(f"{s}, live", [(delay, own[s])], PAINT[s], live=True) for s in AROUND]
        figures = [
            side_by_side(
                flow,
                lines(
                    "Longest time without a delivery around a switch",
                    gaps,
                    Axis("delay of a link, ms", log=True, ticks=delays),
                    Axis("ms, mean over switches and members", log=True),
                    HALF,
                ),
            )
        ]
        claims.append(_gap(own, live))
    says = (
        "The paper measures real machines. Here the same load and the same switches run on live processes of one machine, "
        "beside the "
        "simulated curves."
    )
    setup = (
        f"{len(MEMBERS)} processes on loopback, messages of {SIZE:,} bytes, {SECONDS:g} s of sending for each point (the "
        f"first figure, a "
        f"switch every {PERIOD_MS:g} ms) or {CALM_SECONDS:g} s (the second, {CALM_RATE}/s and a switch every "
        f"{CALM_PERIOD_MS:g} ms), one run "
        "after another. Diamonds are live."
    )
    note = tag(
        "p",
        tag("b", "What differs. "),
        f"There are no links of 100 Mbit/s between live processes: loopback carries all that five processes on this machine "
        f"can "
        "produce, so the live points do not bend where the simulated links are full; the processor is their bound. The "
        "delay is what "
        f"the causal order takes to the other members at {CALM_RATE}/s, {short(delay)} ms, simulated {DELAY_MS:g} ms; in "
        f"the second figure the live "
        "points stand at it.",
        class_="note",
    )
    return Section("On live processes", "§4, simulated and live", says, setup, figures, claims, [note])


def _over(places: Sequence[float], values: Sequence[float]) -> list[tuple[float, float | None]]:
    return list(zip(places, values, strict=True))


def _simulated(results: Results, strategy: str, delay_ms: float) -> float:
    point = f"calm {strategy} {CALM_RATE}" if delay_ms == DELAY_MS else f"delay {strategy} {delay_ms:g}"
    return results.mean(point, "gap_ms")


def _keeps_up(strategy: str, rates: Sequence[int], seen: dict[str, list[float]]) -> Claim:
    shares = [one / other for one, other in zip(seen[strategy], seen["none"], strict=True)]
    judged = criteria.at_least(shares, [0.95] * len(shares), "at every rate at least 95 % of the throughput without switches")
    return Claim(
        f"Where links are no bound, switching with {strategy} costs no throughput.",
        "the same as long as the network has room",
        ", ".join(f"{share:.1%} at {rate}/s" for rate, share in zip(rates, shares, strict=True)),
        judged.criterion,
        judged.holds,
        "The processors are the bound then: casts of two orders are worked on during a switch.",
    )


def _gap(own: dict[str, float], live: Results) -> Claim:
    judged = criteria.at_most([own["dual"], own["dual_ids"]], [own["rabp"]] * 2, "the mean gap at most that of rabp")
    calm = fmean(live.mean(f"calm {s} {CALM_RATE}", "calm_gap_ms") for s in AROUND)
    told = ", ".join(f"{s} {own[s]:.1f} ms" for s in AROUND)
    return Claim(
        "On live processes a switch with dual or dual_ids leaves a shorter gap than RABP.",
        "a sustained rate against gaps (Figures 6 to 9)",
        f"{told}; {calm:.1f} ms between switches",
        judged.criterion,
        judged.holds,
        "On one machine a delay is short, and the gap is the time that processes take to work through what a switch asks of "
        "them: rounds "
        "in which all say that they have reached the cut, which RABP does not have.",
    )
