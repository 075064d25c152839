"""Paper 003, §4.3 and §5: latency and acknowledgements of the single-phase order, against a coordinator and two phases.

Latency is from the receipt to the moment at which a message is stable at another member, as the paper defines it; also from the
send. Acknowledgements are counted once (a network that multicasts) and once per receiver (point to point).
"""

from typing import Any, Final

from isotone.reproduce import criteria, measures
from isotone.reproduce.parts import Claim, Paper, Parameters, Part, Results, Section
from isotone.reproduce.plots import HALF, Axis, Series, columns, lines, short, side_by_side

PAPER: Final = Paper(
    "003",
    "Chengzheng Sun, Piyush Maheshwari",
    "A Single Phase Protocol for Total and Causal Ordering of Group Operations in Distributed Systems",
    "Journal of Computing and Information 2(1), 1996",
    ("single_phase", "sequencer", "two_phase"),
)
START_MS: Final = 1_500.0
D_MS: Final = 10.0
MEMBERS: Final = 5
PROTOCOLS: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "p1": ("Protocol 1", {"order": "single_phase", "options.protocol": 1}, 0),
    "p2": ("Protocol 2", {"order": "single_phase", "options.idle": "silent"}, 2),
    "gathered": ("gathered", {"order": "single_phase", "options.acks": "gathered"}, 3),
    "sequencer": ("coordinator", {"order": "sequencer"}, 1),
    "two_phase": ("two phases", {"order": "two_phase"}, 5),
}
EVENNESS: Final = {"even": "all send evenly", "skewed": "four of five from one member", "one": "one member sends"}
ACKS: Final = {
    "p1": ("ack",),
    "p2": ("ack",),
    "gathered": ("ack", "gathered"),
    "sequencer": ("order",),
    "two_phase": ("proposal", "final"),
}
"""The control records of each protocol, as the trace names them."""


def loads(quick: bool) -> list[float]:
    """Messages per delay D, of all members together."""
    return [0.1, 10.0] if quick else [0.05, 0.2, 1.0, 5.0, 20.0]


def _names(members: int) -> list[str]:
    return [f"n{rank}" for rank in range(members)]


def _workload(evenness: str, per_delay: float, members: int, messages: int) -> tuple[list[dict[str, Any]], float]:
    """The phases, and when they end."""
    gap = D_MS / per_delay
    stop = START_MS + gap * messages
    common = {"kind": "poisson", "start_ms": START_MS, "stop_ms": stop}
    middle = f"n{members // 2}"
    others = [name for name in _names(members) if name != middle]
    if evenness == "even":
        return [{**common, "interval_ms": gap * members}], stop
    one = {**common, "members": [middle], "interval_ms": gap if evenness == "one" else gap / 0.8}
    rest = {**common, "members": others, "interval_ms": gap * len(others) / 0.2}
    return ([one] if evenness == "one" else [one, rest]), stop


def _point(protocol: str, evenness: str, per_delay: float, quick: bool, members: int = MEMBERS) -> dict[str, Any]:
    phases, stop = _workload(evenness, per_delay, members, 120 if quick else 500)
    return {"members": _names(members), **PROTOCOLS[protocol][1], "workload": phases, "duration_ms": stop + 500}


def _unequal() -> list[dict[str, Any]]:
    """A delay of its own for every direction, from 3 to 30 ms."""
    names = _names(MEMBERS)
    return [
        {"from": one, "to": other, "latency": {"kind": "constant", "ms": 3.0 + (i * 7 + j * 11 + i * j * 5) % 28}}
        for i, one in enumerate(names)
        for j, other in enumerate(names)
        if i != j
    ]


UNEQUAL: Final = (0.1, 1.0)
NETWORKS: Final = {"multicast": "multicast", "node": "point to point"}
WIDE: Final = 16
WIDE_PROTOCOLS: Final = ("p1", "p2", "gathered", "sequencer")


def points(quick: bool) -> dict[str, Parameters]:
    """All runs."""
    found: dict[str, Parameters] = {}
    for protocol in PROTOCOLS:
        for evenness in EVENNESS:
            for load in loads(quick):
                found[f"{protocol} {evenness} {load:g}"] = _point(protocol, evenness, load, quick)
        for load in UNEQUAL:
            found[f"{protocol} unequal {load:g}"] = {**_point(protocol, "even", load, quick), "network.links": _unequal()}
    for protocol in WIDE_PROTOCOLS:
        for interface in NETWORKS:
            wide = _point(protocol, "even", 1.0, quick, WIDE)
            wires = {
                "network.latency": {"kind": "constant", "ms": 1.0},
                "network.bandwidth_bps": 10_000_000,
                "network.interface": interface,
            }
            found[f"{protocol} wide {interface}"] = {**wide, **wires}
    return found


# --- what is made of it --------------------------------------------------------------------------------------------


def _all(results: Results, protocol: str, quick: bool, column: str, how: str = "mean") -> list[float]:
    read = {"mean": results.mean, "largest": results.largest, "smallest": results.smallest}[how]
    return [read(f"{protocol} {evenness} {load:g}", column) for evenness in EVENNESS for load in loads(quick)]


def _control(results: Results, protocol: str, point: str, what: str) -> float:
    """Control records per message, `multicasts` or `records`."""
    return sum(results.count(f"{protocol} {point}", f"{what}_{kind}") for kind in ACKS[protocol])


def latency(results: Results, quick: bool) -> Section:
    """From the receipt to stability."""
    claims = []
    for protocol in ("p1", "p2"):
        high, low = (
            _all(results, protocol, quick, "held_max_ms", "largest"),
            _all(results, protocol, quick, "held_min_ms", "smallest"),
        )
        judged = criteria.within([*low, *high], 0, D_MS, "every message at every other member, under every load: from 0 to D")
        name = PROTOCOLS[protocol][0]
        claims.append(
            Claim(
                f"{name}: from the receipt a message is stable within one delay, if all delays are equal.",
                "[0, D]",
                f"[{min(low) / D_MS:.2f} D, {max(high) / D_MS:.2f} D]",
                judged.criterion,
                judged.holds,
            )
        )
    over = [results.largest(f"{protocol} unequal {load:g}", "held_over_ms") for protocol in ("p1", "p2") for load in UNEQUAL]
    judged = criteria.at_most(over, [1e-6] * len(over), "no message at any member beyond max over k of d(i,k) + d(k,j) − d(i,j)")
    longest = results.largest(f"p2 unequal {UNEQUAL[0]:g}", "longest_ms")
    most = max(results.largest(f"p2 unequal {load:g}", "held_max_ms") for load in UNEQUAL)
    claims.append(
        Claim(
            "With unequal delays the bound is the longest way round through a third member.",
            "not considered",
            f"never beyond it; longest wait {short(most)} ms",
            judged.criterion,
            judged.holds,
        )
    )
    judged = criteria.at_most([most], [longest], "with unequal delays too, every message at every other member at most D")
    claims.append(
        Claim(
            "One delay is the bound also when delays are unequal and D is the largest of them.",
            "[0, D], D the largest delay of any pair",
            f"longest wait {short(most)} ms with delays up to {short(longest)} ms",
            judged.criterion,
            judged.holds,
            "An acknowledgement reaches j by way of k: d(i,k) + d(k,j) after the send, up to 2 D, while the message itself may "
            "have "
            "come to j after much less than D. The wait from the receipt is then longer than D; from the send it is still at "
            "most 2 D.",
        )
    )
    totals = [*_all(results, "p1", quick, "total_max_ms", "largest"), *_all(results, "p2", quick, "total_max_ms", "largest")]
    judged = criteria.at_most(totals, [2 * D_MS] * len(totals), "every message at every other member at most 2 D after its send")
    claims.append(
        Claim(
            "From the send a message is stable within two delays.",
            "follows from [0, D]",
            f"at most {max(totals) / D_MS:.2f} D",
            judged.criterion,
            judged.holds,
        )
    )
    phases = _all(results, "two_phase", quick, "held_min_ms", "smallest")
    judged = criteria.at_least(
        phases, [2 * D_MS] * len(phases), "every message at every other member at least 2 D after its receipt"
    )
    claims.append(
        Claim(
            "Two phases take at least two delays from the receipt.",
            "at least 2 D",
            f"at least {min(phases) / D_MS:.2f} D",
            judged.criterion,
            judged.holds,
        )
    )
    plots = [
        _plot(results, quick, evenness, "held_mean_ms", "mean time from receipt to delivery / D", 1 / D_MS)
        for evenness in ("even", "one")
    ]
    says = (
        "The place of a message is fixed when it is sent; what remains is to know that nothing smaller can come. That takes no "
        "time at the best and one delay at the worst, "
        "where protocols that first agree on a number take two."
    )
    setup = (
        f"Five members, every link takes D = {D_MS:g} ms; messages at random, so many per delay; or a delay of its own, 3 "
        "to 30 ms, for every direction."
    )
    return Section("Latency", "§4.3", says, setup, [side_by_side(*plots)], claims)


def _plot(results: Results, quick: bool, evenness: str, column: str, label: str, scale: float) -> Any:
    stops = loads(quick)
    series = [
        Series(name, [(load, results.mean(f"{protocol} {evenness} {load:g}", column) * scale) for load in stops], paint)
        for protocol, (name, _, paint) in PROTOCOLS.items()
    ]
    x = Axis("messages per delay D, all members together", log=True, ticks=stops)
    return lines(EVENNESS[evenness].capitalize(), series, x, Axis(label), HALF)


def acknowledgements(results: Results, quick: bool) -> Section:
    """How many, against load and evenness."""
    stops, n = loads(quick), MEMBERS
    keys = [f"{evenness} {load:g}" for evenness in EVENNESS for load in stops]
    claims = []
    for what, most, words, network in (
        ("multicasts", n - 1, "[0, N − 1]", "a network that multicasts"),
        ("records", (n - 1) ** 2, "[0, (N − 1)²]", "point to point"),
    ):
        found = [_control(results, "p2", key, what) for key in keys]
        judged = criteria.within(found, 0, most, f"acknowledgements per message from 0 to {most} under every load")
        claims.append(
            Claim(
                f"Protocol 2 needs few acknowledgements ({network}).",
                f"{words} = [0, {most}] for N = {n}",
                f"{min(found):.2f} to {max(found):.2f}",
                judged.criterion,
                judged.holds,
            )
        )
    even = [_control(results, "p2", f"even {load:g}", "multicasts") for load in stops]
    judged = criteria.falls(even, 4, "number of acknowledgements per message under even load")
    claims.append(
        Claim(
            "The heavier and the more even the load, the fewer acknowledgements.",
            "may approach 0",
            ", ".join(f"{short(load)} per D: {value:.2f}" for load, value in zip(stops, even, strict=True)),
            judged.criterion,
            judged.holds,
        )
    )
    waits = [results.mean(f"p2 even {load:g}", "held_mean_ms") / D_MS for load in stops]
    judged = criteria.falls(waits, 2, "mean latency from the receipt under even load")
    claims.append(
        Claim(
            "The heavier and the more even the load, the shorter the latency.",
            "may approach 0",
            ", ".join(f"{short(load)} per D: {value:.2f} D" for load, value in zip(stops, waits, strict=True)),
            judged.criterion,
            judged.holds,
            "A message is stable when something later has come from every member. Under a heavier load the others' next "
            "messages do come sooner, but what "
            "they send before they have seen this one may carry a smaller timestamp: clocks drift apart while messages are "
            "under way, and a member whose clock is "
            "behind can only speak for this message after it has received it, one delay later.",
        )
    )
    busy = f"{stops[-1]:g}"
    uneven = [_control(results, "p2", f"{evenness} {busy}", "multicasts") for evenness in EVENNESS]
    rises = criteria.grows(uneven, 1.5, "number of acknowledgements per message, from even to skewed to one sender")
    claims.append(
        Claim(
            "Uneven load needs more of them, at the worst N − 1.",
            f"may approach N − 1 = {n - 1}",
            ", ".join(f"{words}: {value:.2f}" for words, value in zip(EVENNESS.values(), uneven, strict=True))
            + f" ({short(stops[-1])} messages per D)",
            rises.criterion,
            rises.holds,
        )
    )
    plots = []
    for evenness in ("even", "one"):
        series = [
            Series(name, [(load, _control(results, protocol, f"{evenness} {load:g}", "multicasts")) for load in stops], paint)
            for protocol, (name, _, paint) in PROTOCOLS.items()
            if protocol in ("p1", "p2")
        ]
        series.append(Series("N − 1", [(load, n - 1) for load in stops], 7, dashed=True))
        x = Axis("messages per delay D, all members together", log=True, ticks=stops)
        plots.append(lines(EVENNESS[evenness].capitalize(), series, x, Axis("acknowledgements (multicast) per message"), HALF))
    says = (
        "Protocol 1 acknowledges every message; Protocol 2 only where the acknowledgement is needed. So traffic takes the "
        "place of acknowledgements: with much and even traffic there is "
        "almost none."
    )
    setup = f"As above, N = {n}. An acknowledgement counts once, or once for each receiver."
    return Section("Acknowledgements", "§5", says, setup, [side_by_side(*plots)], claims)


def compared(results: Results, quick: bool) -> Section:
    """Messages per operation, of all protocols, and the scheme for point-to-point networks."""
    stops, n = loads(quick), MEMBERS
    groups = [f"{words}, {short(load)} per D" for words in ("even", "one sender") for load in (stops[0], stops[-1])]
    keys = [f"{evenness} {load:g}" for evenness in ("even", "one") for load in (stops[0], stops[-1])]
    records = {protocol: [n - 1 + _control(results, protocol, key, "records") for key in keys] for protocol in PROTOCOLS}
    multicasts = {protocol: [1 + _control(results, protocol, key, "multicasts") for key in keys] for protocol in PROTOCOLS}
    sends = {protocol: [results.mean(f"{protocol} {key}", "remote_ms") / D_MS for key in keys] for protocol in PROTOCOLS}

    def drawn(title: str, values: dict[str, list[float]], label: str) -> Any:
        return columns(
            title,
            groups,
            [(PROTOCOLS[protocol][0], found, PROTOCOLS[protocol][2]) for protocol, found in values.items()],
            Axis(label),
        )

    claims = []
    every = [f"{evenness} {load:g}" for evenness in EVENNESS for load in stops]
    gathered = [_control(results, "gathered", key, "records") for key in every]
    printed = [_control(results, "p2", key, "records") for key in every]
    judged = criteria.at_most(
        gathered, [2 * n - 3] * len(gathered), f"at most 2 N − 3 = {2 * n - 3} control records per message under every load"
    )
    fewer = sum(one <= other for one, other in zip(gathered, printed, strict=True))
    claims.append(
        Claim(
            "Gathering acknowledgements at one member saves packets in point-to-point networks.",
            "announced as future work",
            f"{min(gathered):.2f} to {max(gathered):.2f} per message, Protocol 2 {min(printed):.2f} to {max(printed):.2f}; "
            f"fewer in {fewer} of {len(gathered)} loads",
            judged.criterion,
            judged.holds,
        )
    )
    totals = [results.largest(f"gathered {key}", "total_max_ms") for key in every]
    judged = criteria.at_most(totals, [3 * D_MS] * len(totals), "every message at every other member at most 3 D after its send")
    claims.append(
        Claim(
            "It costs at most one delay more.",
            "—",
            f"at most {max(totals) / D_MS:.2f} D from the send",
            judged.criterion,
            judged.holds,
        )
    )
    central = {protocol: [_control(results, protocol, key, "records") for key in every] for protocol in PROTOCOLS}
    others = [min(central[protocol][place] for protocol in ("p1", "p2", "two_phase")) for place in range(len(every))]
    judged = criteria.at_most(
        central["sequencer"],
        others,
        "fewest control records of the coordinator, Protocols 1 and 2, and two phases, under every load",
    )
    claims.append(
        Claim(
            "A coordinator needs the fewest messages.",
            "called its main advantage (§1)",
            ", ".join(f"{PROTOCOLS[protocol][0]} {min(found):.2f} to {max(found):.2f}" for protocol, found in central.items()),
            judged.criterion,
            judged.holds,
            "Under a heavy and even load messages acknowledge each other: then Protocol 2 needs fewer than the N − 1 records "
            "by which the "
            "coordinator tells everybody the number of a message.",
        )
    )
    quickest = [results.mean(f"p2 even {load:g}", "remote_ms") for load in stops]
    coordinator = [results.mean(f"sequencer even {load:g}", "remote_ms") for load in stops]
    judged = criteria.at_most(
        quickest, coordinator, "mean latency of Protocol 2 under even load at most the coordinator's, at every load"
    )
    claims.append(
        Claim(
            "The single phase is at least as quick as a coordinator.",
            "not compared; the coordinator may become a bottleneck",
            "; ".join(
                f"{short(load)} per D: {a / D_MS:.2f} D against {b / D_MS:.2f} D"
                for load, a, b in zip(stops, quickest, coordinator, strict=True)
            ),
            judged.criterion,
            judged.holds,
            "Here a member sends its message to everybody at once and the coordinator only the number: a message is known "
            "where it is "
            "numbered after one delay, and one of the coordinator itself takes one delay everywhere, so the mean stays below 2 "
            "D whatever the load. "
            "Protocol 2 comes near 2 D in a quiet group and is quicker only where traffic is dense.",
        )
    )
    wide = {
        (protocol, interface): results.mean(f"{protocol} wide {interface}", "remote_ms")
        for protocol in WIDE_PROTOCOLS
        for interface in NETWORKS
    }
    names = [PROTOCOLS[protocol][0] for protocol in WIDE_PROTOCOLS]
    busy = columns(
        f"{WIDE} members, links of 1 ms, interfaces of 10 Mbit/s, 100 messages a second",
        names,
        [
            (words, [wide[protocol, interface] for protocol in WIDE_PROTOCOLS], place)
            for place, (interface, words) in enumerate(NETWORKS.items())
        ],
        Axis("mean latency from the send, ms"),
    )
    saved = wide["p2", "node"] - wide["p2", "multicast"]
    judged = criteria.at_least([saved], [0.0], "Protocol 2 not slower with multicast than point to point, on the same interfaces")
    claims.append(
        Claim(
            "Acknowledgements that are multicast ask for a network that multicasts.",
            "(N − 1)² packets otherwise",
            f"Protocol 2 {wide['p2', 'node']:.2f} ms point to point, {wide['p2', 'multicast']:.2f} ms with multicast; gathered "
            f"{wide['gathered', 'node']:.2f} ms point to point",
            judged.criterion,
            judged.holds,
        )
    )
    says = (
        "A coordinator numbers every message: few messages, two steps, one member that does all the work. Two phases ask "
        "everybody and then tell everybody. The single phase "
        "lies between, and the paper plans a scheme for networks without multicast; here it is the option gathered."
    )
    setup = (
        "Control records and the message itself, each counted once per receiver, or once if the network multicasts; "
        "latency at the other members."
    )
    figures = [
        drawn("Packets per message, point to point", records, "packets per message"),
        drawn("Multicasts per message", multicasts, "multicasts and single packets per message"),
        drawn("Latency from the send", sends, "mean latency / D"),
        busy,
    ]
    return Section("Against a coordinator and two phases", "§1, §5, §6", says, setup, figures, claims)


def sections(results: Results, quick: bool, live: Results | None = None) -> list[Section]:
    """What the report shows."""
    return [latency(results, quick), acknowledgements(results, quick), compared(results, quick)]


PART: Final = Part(
    "single-phase",
    PAPER,
    {
        "name": "single-phase",
        "members": _names(MEMBERS),
        "duration_ms": 10_000.0,
        "order": "single_phase",
        "trace_receives": True,
        "network": {"latency": {"kind": "constant", "ms": D_MS}},
    },
    points,
    lambda _: 1,
    (measures.latency, measures.control, measures.held),
    sections,
)
