"""Paper 001, §4: what k-resiliency costs in latency (Figure 4), and what two levels of membership save when members are volatile.

Figure 4 is the time from the send to the *first* delivery anywhere, on up to 64 machines on Fast Ethernet. The paper does not say
how its broadcasts travelled, so both networks are simulated: point to point, where a node sends N - 1 copies one after the
other through its only interface, and multicast, where it sends one.

The paper has no numbers for its two levels; the comparison here is with one level at either extreme: a detector that
is as aggressive as the soft threshold and changes the view, and one that is as patient as the hard threshold.
"""

from math import ceil, hypot, sqrt
from typing import Any, Final

from isotone.report.markup import Child, Markup, table, tag
from isotone.reproduce import criteria, measures
from isotone.reproduce.parts import Claim, Paper, Parameters, Part, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, lines, short, side_by_side

PAPER: Final = Paper(
    "001",
    "Luiz Angelo Steffenel, Manuele Kirsch Pinheiro, Yolande Berbers",
    "Total Order Broadcast on Pervasive Systems",
    "ACM Symposium on Applied Computing, 2008",
    ("token",),
)
START_MS: Final = 3_000.0
DELAY_MS: Final = 0.1
BITS: Final = 100_000_000
NETWORKS: Final = {"node": "point to point", "multicast": "multicast"}
STABLE: Final = ("s1", "s2", "s3", "s4")
VOLATILE: Final = ("v1", "v2", "v3", "v4")
LEVELS: Final = {
    "two": ("two levels (150 ms soft, 5 s hard)", {"soft_ms": 150.0, "hard_ms": 5_000.0, "closed_ms": 5_000.0}, 0),
    "eager": ("one level, 150 ms", {"soft_ms": 150.0, "hard_ms": 150.0, "closed_ms": 150.0}, 1),
    "patient": ("one level, 5 s", {"soft_ms": 5_000.0, "hard_ms": 5_000.0, "closed_ms": 5_000.0}, 2),
}
OUT_MS: Final = 600.0
"""How long a volatile member is out of reach."""


def sizes(quick: bool) -> list[int]:
    """How many members."""
    return [4, 16] if quick else [4, 8, 16, 32, 64]


def powers(members: int) -> list[int]:
    """1, 2, 4, … up to the number of members."""
    return [1 << power for power in range(members.bit_length()) if 1 << power <= members]


def _names(members: int) -> list[str]:
    return [f"n{rank:02}" for rank in range(members)]


def _figure(members: int, k: int, interface: str, quick: bool) -> dict[str, Any]:
    messages = 60 if quick else 150 if members <= 16 else 80 if members <= 32 else 40
    length = 100.0 * messages  # ten a second, of all members together
    return {
        "members": _names(members),
        "order": "token",
        "level": "k",
        "k": k,
        "duration_ms": START_MS + length + 1_500,
        "timing": {"heartbeat_ms": 1_000.0, "soft_ms": 4_000.0, "hard_ms": 9_000.0, "retransmit_ms": 400.0},
        "network.bandwidth_bps": BITS,
        "network.interface": interface,
        "workload": [
            {
                "kind": "poisson",
                "interval_ms": 100.0 * members,
                "start_ms": START_MS,
                "stop_ms": START_MS + length,
                "size_min": 1_000,
                "size_max": 1_000,
            }
        ],
    }


def rates(quick: bool) -> list[int]:
    """How often a volatile member is out of reach, per minute."""
    return [6, 20] if quick else [3, 6, 12, 20, 30]


def _absences(per_minute: int, quick: bool) -> list[list[float]]:
    """When each volatile member goes out of reach."""
    length, every = _length(quick), 60_000.0 / per_minute
    result = []
    for place in range(len(VOLATILE)):
        first = START_MS + 500 + every * place / len(VOLATILE)
        count = max(0, ceil((START_MS + length - OUT_MS - first) / every))
        result.append([first + every * turn for turn in range(count)])
    return result


def _length(quick: bool) -> float:
    return 9_000.0 if quick else 40_000.0


def _volatile(level: str, per_minute: int, kind: str, quick: bool) -> dict[str, Any]:
    """Volatile members are cut off for a while, one after another; or leave and come back as new processes."""
    length = _length(quick)
    members = [*STABLE, *VOLATILE]
    faults: list[dict[str, Any]] = []
    for name, times in zip(VOLATILE, _absences(per_minute, quick), strict=True):
        others = [other for other in members if other != name]
        for at in times:
            if kind == "flap":
                faults.append({"kind": "cut", "at_ms": at, "from": name, "to": others, "both": True})
                faults.append({"kind": "heal", "at_ms": at + OUT_MS, "from": name, "to": others})
                faults.append({"kind": "heal", "at_ms": at + OUT_MS, "from": others, "to": name})
            else:
                faults.append({"kind": "leave", "at_ms": at, "who": name})
                faults.append({"kind": "join", "at_ms": at + OUT_MS, "who": name})
    phase = {"kind": "poisson", "interval_ms": 200.0, "start_ms": START_MS, "stop_ms": START_MS + length}
    return {
        "members": members,
        "order": "token",
        "level": "k",
        "k": 2,
        "duration_ms": START_MS + length + (3_000 if quick else 8_000),
        "timing": {"heartbeat_ms": 50.0, **LEVELS[level][1]},
        "network.latency": {"kind": "uniform", "min_ms": 0.8, "max_ms": 1.2},
        "workload": [{**phase, "size_min": 1_000, "size_max": 1_000}],
        "faults": faults,
    }


def points(quick: bool) -> dict[str, Parameters]:
    """All runs."""
    found: dict[str, Parameters] = {}
    for interface in NETWORKS:
        for members in sizes(quick):
            for k in powers(members):
                found[f"{interface} {members} {k}"] = _figure(members, k, interface, quick)
    for per_minute in rates(quick):
        for level in LEVELS:
            found[f"flap {level} {per_minute}"] = _volatile(level, per_minute, "flap", quick)
    for per_minute in rates(quick)[:2]:
        for level in ("two", "eager"):
            found[f"churn {level} {per_minute}"] = _volatile(level, per_minute, "churn", quick)
    return found


# --- what is made of it --------------------------------------------------------------------------------------------


def figure_4(results: Results, quick: bool) -> Section:
    """Latency against the number of members, a line for each k."""
    every = sizes(quick)
    ks = powers(every[-1])
    value = {
        (interface, members, k): results.mean(f"{interface} {members} {k}", "first_ms")
        for interface in NETWORKS
        for members in every
        for k in powers(members)
    }
    plots = []
    for interface, words in NETWORKS.items():
        series = [
            Series(f"k = {k}", [(members, value[interface, members, k]) for members in every if k <= members], place)
            for place, k in enumerate(ks)
        ]
        series.append(Series("k = N", [(members, value[interface, members, members]) for members in every], 7, dashed=True))
        x, y = Axis("members", log=True, ticks=every), Axis("mean time to the first delivery, ms", log=True)
        plots.append(lines(f"Figure 4, {words}", series, x, y, HALF))
    biggest = every[-1]
    claims = []
    for interface, words in NETWORKS.items():
        found = [value[interface, biggest, k] for k in ks]
        judged = criteria.grows(found, 3, "time to the first delivery")
        text = ", ".join(f"k = {k}: {short(each)} ms" for k, each in zip(ks, found, strict=True))
        claims.append(
            Claim(
                f"With {biggest} members, the latency grows with k ({words}).",
                "a figure, no table",
                text,
                judged.criterion,
                judged.holds,
            )
        )
    fixed = [k for k in ks if k <= every[0]]
    ratio = {
        interface: max(value[interface, biggest, k] / value[interface, every[0], k] for k in fixed) for interface in NETWORKS
    }
    full = {interface: value[interface, biggest, biggest] / value[interface, every[0], every[0]] for interface in NETWORKS}
    judged = criteria.at_most(
        [ratio["multicast"]],
        [1.5],
        f"with multicast, latency at {biggest} members at most 1.5 times that at {every[0]}, for each k up to {fixed[-1]}",
    )
    claims.append(
        Claim(
            "Limiting k bounds the latency, however many members there are.",
            "by limiting k the latency is bounded",
            f"k up to {fixed[-1]}, {every[0]} to {biggest} members: at most × {ratio['multicast']:.2f}; k = N: × "
            f"{full['multicast']:.1f}",
            judged.criterion,
            judged.holds,
        )
    )
    judged = criteria.at_least(
        [ratio["node"]],
        [1.2],
        f"point to point, for some k up to {fixed[-1]}, latency at {biggest} members at least 1.2 times that at {every[0]}",
    )
    claims.append(
        Claim(
            "For a given k there is some overhead that grows with the number of members.",
            "observed; called a hint on the share of the work",
            f"× {ratio['node']:.2f} point to point, × {ratio['multicast']:.2f} with multicast",
            judged.criterion,
            judged.holds,
            remark="It is the copies: a node that sends N − 1 copies of 1 kB through one 100 Mbit/s interface takes 86 µs each. "
            "With multicast it vanishes.",
        )
    )
    setup = (
        "1 kB messages, ten a second of all members together, a Poisson process; links of 0.1 ms, interfaces of 100 Mbit/s. "
        "Time from the send to the first delivery anywhere, "
        "messages after the first third of the run."
    )
    says = (
        "A message may be delivered when k members hold it, which the token proves on its way: the more members must hold it, "
        "the later. Limiting k bounds the "
        "latency of a large group; more members add some overhead."
    )
    return Section("Latency and k", "§4.2, Figure 4", says, setup, [side_by_side(*plots)], claims, [_certainty(results, every)])


def _certainty(results: Results, every: list[int]) -> Markup:
    """How well the means of the points are known: few messages where there are many members."""

    def error(point: str) -> float:
        return results.mean(point, "first_deviation_ms") / sqrt(max(1.0, results.mean(point, "first_count")))

    told = []
    for members in (every[0], every[-1]):
        points = [f"{interface} {members} {k}" for interface in NETWORKS for k in powers(members)]
        fewest = min(results.mean(point, "first_count") for point in points)
        worst = max(error(point) / results.mean(point, "first_ms") for point in points)
        told.append(f"with {members} members {fewest:.0f} messages, standard error at most {worst:.0%} of the mean")
    vague = []
    for interface, words in NETWORKS.items():
        for k in powers(every[-1])[:-1]:
            one, other = f"{interface} {every[-1]} {k}", f"{interface} {every[-1]} {2 * k}"
            if results.mean(other, "first_ms") - results.mean(one, "first_ms") < hypot(error(one), error(other)):
                vague.append(f"{words}, k = {k} and {2 * k}")
    last = f" With {every[-1]} members neighbouring lines are further apart than that"
    last += f", but for these, which the runs do not tell apart: {'; '.join(vague)}." if vague else ", all of them."
    return tag("p", tag("b", "How certain. "), f"A point is the mean of one run: {'; '.join(told)}.", last, class_="note")


def two_levels(results: Results, quick: bool) -> Section:
    """Volatile members, with two levels and with one."""
    every = rates(quick)

    def of(level: str, column: str) -> list[float]:
        return [results.count(f"flap {level} {rate}", column) for rate in every]

    def drawn(title: str, column: str, label: str) -> Markup:
        series = [
            Series(name, list(zip(every, of(level, column), strict=True)), paint) for level, (name, _, paint) in LEVELS.items()
        ]
        return lines(title, series, Axis("disconnections of each volatile member, per minute", ticks=every), Axis(label), HALF)

    views = {level: of(level, "views") for level in LEVELS}
    missed = {level: of(level, "missed") for level in LEVELS}
    gaps = {level: of(level, "gap_ms") for level in LEVELS}
    absences = [sum(map(len, _absences(rate, quick))) for rate in every]
    records = {level: [value / many for value, many in zip(of(level, "records"), absences, strict=True)] for level in LEVELS}
    volume = {level: [value / many / 1000 for value, many in zip(of(level, "bytes"), absences, strict=True)] for level in LEVELS}

    def shown(values: dict[str, list[float]], unit: str) -> str:
        return "; ".join(
            f"{LEVELS[level][0]}: {', '.join(short(value) for value in found)}{unit}" for level, found in values.items()
        )

    claims = []
    judged = criteria.within(views["two"], 0, 0, "no view change at any rate with two levels, and some with one eager level")
    claims.append(
        Claim(
            "Volatile members cause no view change; the eager detector alone causes many.",
            "drastically fewer events that trigger a view, no number",
            shown(views, " views"),
            judged.criterion,
            judged.holds and min(views["eager"]) > 0,
        )
    )
    judged = criteria.within(missed["two"], 0, 0, "no message missed with two levels, some with one eager level")
    claims.append(
        Claim(
            "Who returns after a short absence gets all that it missed; who was excluded has lost it.",
            "external members fetch what they lack; excluded ones start anew",
            shown(missed, " messages missed"),
            judged.criterion,
            judged.holds and min(missed["eager"]) > 0,
        )
    )
    judged = criteria.at_most(
        gaps["two"],
        [0.75 * gap for gap in gaps["patient"]],
        "the longest gap between deliveries at a stable member at least a quarter shorter than with one patient level",
    )
    claims.append(
        Claim(
            "A suspected member does not hold up the token: a patient detector alone would let it.",
            "suspected members leave the ring at once",
            shown(gaps, " ms"),
            judged.criterion,
            judged.holds,
            f"A core keeps a majority of the view, here {(len(STABLE) + len(VOLATILE)) // 2 + 1} of "
            f"{len(STABLE) + len(VOLATILE)}. Where so many are away at once that no others may be outside, the next one that is "
            "out of reach stays in the ring until one of them is back: the longest gaps end with such a change of the core.",
            remark="The token waits for a member that is out of reach until it is suspected; that takes 150 ms instead of its "
            f"whole absence of {OUT_MS:g} ms.",
        )
    )
    judged = criteria.at_most(
        records["two"], records["eager"], "control records per absence at most those of one eager level, at every rate"
    )
    pair = ("two", "eager")
    claims.append(
        Claim(
            "Two changes of the core (out and back) cost less than two changes of the view.",
            "lighter: no exchange of messages",
            shown({level: records[level] for level in pair}, " records per absence")
            + "; "
            + shown({level: volume[level] for level in pair}, " kB"),
            judged.criterion,
            judged.holds,
            "Each change of the core freezes the ring with a cast of everybody to everybody and decides by consensus, "
            "5 (N − 1) records; and who comes back fetches what it missed. A view of a partitionable group is proposed by one "
            "member and answered by "
            "the others, with fewer records, and who was away gets nothing of what it missed. What two levels save is the "
            "views, "
            "the loss and the new start, not records.",
        )
    )
    figures = [
        side_by_side(
            drawn("Views after the first", "views", "views installed"),
            drawn("What returning members missed", "missed", "messages missed, all volatile members"),
        ),
        side_by_side(drawn("Longest gap at a stable member", "gap_ms", "ms without a delivery"), _records(every, records)),
    ]
    says = (
        "A member that is suspected early leaves the ring of the token and stays in the group: it gets all messages, fetches "
        "what it lacks and comes back. Only a patient "
        "second detector excludes members. So the group keeps going, and short disconnections cost nobody its state."
    )
    setup = (
        f"Four stable and four volatile members; each volatile one is out of reach for {OUT_MS:g} ms again and again, one "
        "after another. Everybody sends 5 messages a second of 1 kB; "
        "k = 2, links of 1 ms, heartbeats every 50 ms. A message is missed by a member if no incarnation of it delivers it."
    )
    return Section(
        "Volatile members: two levels against one",
        "§4, §4.1, beyond the paper",
        says,
        setup,
        figures,
        claims,
        [_churn(results, quick)],
    )


def _records(every: list[int], records: dict[str, list[float]]) -> Markup:
    series = [
        Series(LEVELS[level][0], list(zip(every, values, strict=True)), LEVELS[level][2]) for level, values in records.items()
    ]
    x = Axis("disconnections of each volatile member, per minute", ticks=every)
    return lines("Control records", series, x, Axis("control records per absence, without heartbeats and tokens"), HALF)


def _churn(results: Results, quick: bool) -> Markup:
    rows: list[list[Child]] = []
    for rate in rates(quick)[:2]:
        for level in ("two", "eager"):
            key = f"churn {level} {rate}"
            found = [short(results.count(key, column)) for column in ("views", "gap_ms", "returned")]
            rows.append([LEVELS[level][0], f"{rate}", *found])
    said = "Members that leave on purpose and join as new processes change the view with one level and with two alike:"
    head = ["membership", "leaves of each volatile member per minute", "views", "longest gap, ms", "messages that came back"]
    return tag("div", tag("p", said, class_="note"), table(head, rows, "members that leave and join"))


def sections(results: Results, quick: bool, live: Results | None = None) -> list[Section]:
    """What the report shows."""
    return [figure_4(results, quick), two_levels(results, quick)]


PART: Final = Part(
    "token",
    PAPER,
    {
        "name": "token",
        "members": [*STABLE, *VOLATILE],
        "duration_ms": 10_000.0,
        "order": "token",
        "network": {"latency": {"kind": "constant", "ms": DELAY_MS}},
    },
    points,
    lambda _: 1,
    (measures.latency, measures.volatile),
    sections,
)
