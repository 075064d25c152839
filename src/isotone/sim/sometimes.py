"""Rare states that a swarm must reach now and then: if one never occurs, the swarm does not test what it claims to.

Some are counted by the endpoints themselves, some are read from the rows of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from isotone.sim import switch_states
from isotone.sim.process import Process
from isotone.sim.switch_states import SwitchStates
from isotone.trace.schema import Row

CRASH_DURING_FLUSH = "crash during a flush"
MERGE_OF_THREE = "merge of three components"
LATE_RETRANSMISSION = "retransmission just after a view change"
WITHDRAWN = "suspicion withdrawn"
RELAYED = "message recovered from a third member"
SUPERSEDED = "view change superseded by another"
RETURNED = "message returned to its sender"
CORE_CHANGED = "core changed without a view change"
VOID = "hop declared void"
FETCHED = "message fetched from a third member in an open view"
TOO_OLD = "external member expelled"

SWITCHED = "switch to another orderer"
SWITCH_REFUSED = "switch refused"
SWITCH_CUT = "view ended behind the cut of a switch"
SWITCH_STAYED = "view ended before the cut of a switch"
SWITCH_UNSURE = "view ended at the cut of a switch, unsure of the others"

BLOCKED = "member blocked without a majority"
EXPELLED = "member expelled"
ADOPTED = "own proposal given up for another's decision"
SECOND_HAND = "decision heard from a third member"
DUEL = "proposers of one consensus outbid each other"
LOST = "majority lost for good"

PASSED = "message passed by a later one that commutes with it"
OVERTAKEN = "message delivered from behind a gap"
SURVIVED = "message recovered without those before it, which nobody has"

COUNTED = {
    "retransmissions_first_second_of_view": LATE_RETRANSMISSION,
    "suspicions_withdrawn": WITHDRAWN,
    "relays_received": RELAYED,
    "changes_superseded": SUPERSEDED,
    "core_changes": CORE_CHANGED,
    "void_hops": VOID,
    "casts_fetched": FETCHED,
    "externals_expelled": TOO_OLD,
    "switches": SWITCHED,
    "switches_refused": SWITCH_REFUSED,
    "switches_cut_at_the_end": SWITCH_CUT,
    "switches_ended_by_a_view": SWITCH_STAYED,
    "switches_unsure_at_the_end": SWITCH_UNSURE,
    "blocked": BLOCKED,
    "expelled": EXPELLED,
    "decisions_adopted": ADOPTED,
    "decisions_second_hand": SECOND_HAND,
    "duels": DUEL,
    "casts_early": OVERTAKEN,
    "casts_early_common": SURVIVED,
}
"""Counters of endpoints, and the states they stand for."""

STATES = (
    CRASH_DURING_FLUSH, MERGE_OF_THREE, LATE_RETRANSMISSION, WITHDRAWN, RELAYED, SUPERSEDED, RETURNED, CORE_CHANGED, VOID,
    FETCHED, TOO_OLD,
)  # fmt: skip
SWITCHES = (SWITCHED, SWITCH_REFUSED, SWITCH_CUT, SWITCH_STAYED, SWITCH_UNSURE, *switch_states.STATES)
"""States that only occur where switches are drawn."""
PRIMARY = (BLOCKED, EXPELLED, ADOPTED, SECOND_HAND, DUEL, LOST)
"""States that only primary membership has; it has no merges."""
SEMANTIC = (PASSED, OVERTAKEN, SURVIVED)
"""States that only semantic orders have; the last two, those that take casts early."""


def sometimes(
    rows: Sequence[Row], processes: Sequence[Process], primary: bool = False, semantic: bool = False, switches: bool = False
) -> dict[str, int]:
    """How often each state occurred in one run."""
    counts = dict.fromkeys((*STATES, *SWITCHES, *PRIMARY, *SEMANTIC), 0)
    for process in processes:
        counters: dict[str, int] = getattr(process.endpoint, "counters", {})
        for name, state in COUNTED.items():
            counts[state] += counters.get(name, 0)
        counts[RETURNED] += process.returned
    _from_rows(rows, counts, semantic)
    if switches:
        states = SwitchStates()
        for row in rows:
            states.take(row)
        states.ends(processes)
        counts |= states.counts
    unknown = {
        *((MERGE_OF_THREE, switch_states.MERGED) if primary else PRIMARY),
        *(() if semantic else SEMANTIC),
        *(() if switches else SWITCHES),
    }
    return {state: count for state, count in counts.items() if state not in unknown}


class _Passing:
    """Counts messages that are delivered after one that they precede: by number, position or (not for fifo) the sender's past."""

    def __init__(self) -> None:
        self.count = 0
        self._past: dict[tuple[str, int], dict[str, int]] = {}  # what the sender had sent and delivered before a message
        self._known: dict[str, dict[str, int]] = {}  # per process, what precedes anything that it has delivered
        self._last: dict[str, tuple[int, str, tuple[int, ...]]] = {}  # per process, the largest place

    def take(self, row: Row) -> None:
        process, key = row["process"], (row["origin"], row["number"])
        known = self._known.setdefault(process, {})
        if row["kind"] == "send":
            self._past[key] = dict(known)
            return
        passed = known.get(key[0], 0) > key[1]
        if "position" in row:
            place = (row["view_epoch"], row["view_proposer"], tuple(row["position"]))
            passed |= place < self._last.get(process, place)
            self._last[process] = max(place, self._last.get(process, place))
        self.count += passed
        past = {} if "fifo" in row["protocol"] else self._past.get(key, {})
        for origin, number in (*past.items(), key):
            known[origin] = max(number, known.get(origin, 0))


def _from_rows(rows: Iterable[Row], counts: dict[str, int], semantic: bool) -> None:
    """Walk the rows in the order of time, with each process's view and whether its flush is open."""
    view_of: dict[str, tuple[int, str]] = {}
    flushing: set[str] = set()
    merged: dict[tuple[int, str], set[tuple[int, str]]] = {}
    passing = _Passing()
    for row in rows:
        process, kind = row["process"], row["kind"]
        if semantic and kind in ("send", "deliver"):
            passing.take(row)
        if kind == "flush":
            flushing.add(process)
        elif kind == "view":
            view = (row["view_epoch"], row["view_proposer"])
            origin = view_of.get(process)
            if origin is not None:
                sources = merged.setdefault(view, set())
                if origin not in sources:
                    sources.add(origin)
                    counts[MERGE_OF_THREE] += len(sources) == 3
            view_of[process] = view
            flushing.discard(process)
        elif kind == "crash":
            view_then = view_of.get(process)
            if process in flushing or (view_then and any(view_of.get(other) == view_then for other in flushing)):
                counts[CRASH_DURING_FLUSH] += 1
        if kind in ("crash", "stop"):
            flushing.discard(process)
            view_of.pop(process, None)
    counts[PASSED] = passing.count
