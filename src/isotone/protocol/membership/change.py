"""One round of a view change, as its proposer and its participants keep it.

Stages at the proposer: *collect* (states of all participants) → *recover* (each cohort equalises what it holds) →
*install*, in primary membership after a consensus (*decide*).
A round is superseded by any larger one; nobody acts on a smaller one after promising a larger.
"""

from __future__ import annotations

from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Cohort, Install, Plan, State, Vote

COLLECT = "collect"
RECOVER = "recover"
DECIDE = "decide"


class Change:
    """A round in progress at one process."""

    def __init__(self, round_: ViewId, participants: tuple[ProcessId, ...], mine: bool, now: int, resend_at: int) -> None:
        self.round = round_
        self.participants = participants
        self.mine = mine
        self.stage = COLLECT
        self.stage_began = now
        self.touched = now
        self.resend_at = resend_at
        self.states: dict[ProcessId, State] = {}
        self.ready: set[ProcessId] = set()
        self.plan: Plan | None = None
        self.cohort: Cohort | None = None
        self.planned = False
        self.is_ready = False

    def missing(self) -> list[ProcessId]:
        """Whose answer the proposer waits for in the current stage."""
        have = self.states if self.stage == COLLECT else self.ready
        return [process for process in self.participants if process not in have]


class Farewell:
    """After installing, the proposer repeats the view to those that have not confirmed it."""

    def __init__(self, install: Install | Vote, round_: ViewId, waiting: set[ProcessId], resend_at: int, until: int) -> None:
        self.install = install
        self.round = round_
        self.waiting = waiting
        self.resend_at = resend_at
        self.until = until
