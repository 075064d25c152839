"""Pure functions of a view change: who can be together, what each cohort must recover, which ordering the merged view has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId, ViewId, incarnation_of, name_of
from isotone.model.records import Cohort, Place, Share, State
from isotone.model.view import Ordering


def clique(first: ProcessId, others: Iterable[ProcessId], suspects: Mapping[ProcessId, frozenset[ProcessId]]) -> list[ProcessId]:
    """The processes that can be in a view with `first`: nobody kept suspects another one kept. Greedy, in the given order."""
    kept = [first]
    for process in others:
        if process == first:
            continue
        doubts = suspects.get(process, frozenset())
        if not any(other in doubts or process in suspects.get(other, frozenset()) for other in kept):
            kept.append(process)
    return sorted(kept)


def newest(processes: Iterable[ProcessId]) -> set[ProcessId]:
    """The processes without those whose name also occurs with a later incarnation."""
    latest: dict[str, int] = {}
    every = sorted(processes)
    for process in every:
        latest[name_of(process)] = max(latest.get(name_of(process), 0), incarnation_of(process))
    return {process for process in every if incarnation_of(process) == latest[name_of(process)]}


def cohorts(states: Mapping[ProcessId, State]) -> list[Cohort]:
    """Group the participants by the view they come from and fix the common set of each group.

    Of each sender, the common set has as many casts as the member that holds most; that member (the first of them)
    passes them on. And it has what anybody has delivered beyond that.
    """
    groups: dict[ViewId, list[ProcessId]] = {}
    for process in sorted(states):
        view = states[process].view
        if view is not None:
            groups.setdefault(view, []).append(process)
    result = []
    for view in sorted(groups):
        present = groups[view]
        members = states[present[0]].members
        held = [states[process].held for process in present]
        target = [max(column) for column in zip(*held, strict=True)]
        holders = [
            next(process for process, row in zip(present, held, strict=True) if row[sender] == target[sender])
            for sender in range(len(members))
        ]
        ahead = [states[process].early for process in present]
        early = beyond(target, ahead)
        reports = [states[process].report for process in present if states[process].report]
        delivered = [max(column) for column in zip(*reports, strict=True)]
        result.append(Cohort(view, members, present, target, holders, held, early, ahead if early else [], delivered))
    return result


def beyond(target: Sequence[int], ahead: Iterable[Iterable[Place]]) -> list[Place]:
    """The casts that were delivered early by anybody and are not among the first `target[r]` of each sender."""
    return sorted({(rank, seq) for places in ahead for rank, seq in places if seq > target[rank]})


def shares(states: Mapping[ProcessId, State]) -> tuple[list[ProcessId], list[Share]]:
    """What each participant has of the application's state, of those that take part in its transfer."""
    found = [(process, share) for process in sorted(states) if (share := states[process].share) is not None]
    return [process for process, _ in found], [share for _, share in found]


def check_state(process: ProcessId, state: State, others: Iterable[State]) -> None:
    """Raise `RemoteProtocolError` unless a participant's state is possible beside those of the others."""
    if state.view is None:
        return
    fits = process in state.members and len(state.held) == len(state.members)
    fits = fits and all(seq > state.held[rank] for rank, seq in state.early)
    fits = fits and len(state.report) in (0, len(state.members))
    fits = fits and all(delivered <= held for delivered, held in zip(state.report, state.held, strict=False))
    if not fits or any(other.view == state.view and other.members != state.members for other in others):
        raise RemoteProtocolError(f"{process} reports a state that does not fit view {state.view}")


def check_cohort(
    me: ProcessId,
    cohort: Cohort,
    members: Sequence[ProcessId],
    held: Sequence[int],
    ordered: Sequence[int],
    ahead: Sequence[Place],
    report: Sequence[int],
) -> None:
    """Raise `RemoteProtocolError` unless `cohort` can be the one that this process belongs to.

    `held` is what the process holds, `ordered` what its orderer has taken, `ahead` what it has delivered beyond a gap: the
    common set has to contain that; and what is said of all deliveries, those of the own `report`.
    """
    present = cohort.present
    rows_fit = len(cohort.held) == len(present) and all(len(row) == len(members) for row in cohort.held)
    rows_fit = rows_fit and len(cohort.ahead) in (0, len(present))
    if (
        tuple(cohort.members) != tuple(members)
        or sorted(set(present)) != sorted(present)
        or not set(present) <= set(members)
        or not rows_fit
        or len(cohort.holders) != len(members)
        or cohort.target != [max(column) for column in zip(*cohort.held, strict=True)]
        or cohort.early != beyond(cohort.target, cohort.ahead)
        or len(cohort.delivered) not in (0, len(members))
        or any(delivered > target for delivered, target in zip(cohort.delivered, cohort.target, strict=False))
    ):
        raise RemoteProtocolError(f"the plan's cohort of {cohort.view} does not fit that view")
    own = cohort.held[present.index(me)]
    for rank, holder in enumerate(cohort.holders):
        if not ordered[rank] <= own[rank] <= held[rank] or (holder == me and cohort.target[rank] > held[rank]):
            raise RemoteProtocolError(f"the plan's cohort of {cohort.view} says something else of {me} than it reported")
    mine = [(rank, seq) for rank, seq in ahead if seq > own[rank]]
    if cohort.ahead[present.index(me)] != mine if cohort.ahead else beyond(cohort.target, [mine]):
        raise RemoteProtocolError(f"the plan's cohort of {cohort.view} is not true of the early casts of {me}")
    if report and (not cohort.delivered or any(one > most for one, most in zip(report, cohort.delivered, strict=True))):
        raise RemoteProtocolError(f"the plan's cohort of {cohort.view} is not true of what {me} has delivered")


def choose_ordering(states: Mapping[ProcessId, State]) -> Ordering:
    """The ordering of the next view: that of the largest cohort, then of the latest view; without views, the first process's.

    Within a cohort that of who is furthest in switching.
    """

    def weight(process: ProcessId) -> tuple[int, ViewId, int, ProcessId]:
        state = states[process]
        view = state.view
        if view is None:
            return (0, ViewId(0, ""), 0, process)
        return (sum(1 for other in states.values() if other.view == view), view, state.switches, process)

    if all(state.view is None for state in states.values()):
        return states[min(states)].ordering
    return states[max(states, key=weight)].ordering
