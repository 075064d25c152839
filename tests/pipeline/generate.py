"""Random histories that are right by construction, for every order, with everything that checks look at.

An abstract group is played: views, partitions, merges, joins, leaves and crashes; messages are sent and delivered by
rules that keep the order promised. `clean(random)` is fast and plain; `clean_histories()` is the same for Hypothesis, which then
chooses (and shrinks) every random decision. `tests.pipeline.faults` breaks such histories in one place.

Invariants: times are of one virtual clock and differ in every row; the last view holds all that are left, who deliver
everything in it and stop.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from isotone.model.conflicts import Conflicts, conflicts_from

Row = dict[str, Any]
Message = tuple[str, int]

ORDERS = ("sequencer", "total_bare", "causal", "fifo", "semantic_fifo", "semantic_causal", "semantic_total", "switching")
"""`total_bare` is a total order without positions and without a name for its protocol."""
RELATIONS = (
    Conflicts(),
    conflicts_from({"by": "item"}),
    conflicts_from({"by": "operation", "operations": {"u": ["u", "i", "d"], "i": [], "d": []}}),
    conflicts_from({"by": "both", "operations": {"u": ["u", "i", "d"], "i": [], "d": ["d"]}, "always": {"i": ["d"]}}),
)


@dataclass(slots=True)
class Generated:
    """A history and what it promises."""

    rows: list[Row]
    order: str
    conflicts: Conflicts
    promised: list[str]
    """Checks that must be ok."""


@dataclass(slots=True)
class _View:
    epoch: int
    proposer: str
    members: list[str]
    sequence: list[Message] = field(default_factory=list)
    """All that is sent in it, in the order of time: the total order."""
    holders: dict[Message, set[str]] = field(default_factory=dict)
    safe: set[Message] = field(default_factory=set)
    cut: int | None = None
    """Where the second instance begins in the sequence."""


@dataclass(slots=True)
class _Process:
    name: str
    view: _View
    rows: list[Row] = field(default_factory=list)
    sent: int = 0
    delivered: list[Message] = field(default_factory=list)
    """In the view installed."""
    known: set[Message] = field(default_factory=set)
    """The causal past of the next message it sends."""
    switched: bool = False


class _Play:
    def __init__(self, random: Random, order: str | None = None, run: str = "") -> None:
        self.random = random
        self.run = run
        self.order = order or random.choice(ORDERS)
        self.conflicts = random.choice(RELATIONS) if self.order.startswith("semantic") else Conflicts()
        self.level = random.choice(("agreed", "agreed", "k", "safe"))
        self.k = random.randint(1, 3)
        self.receives = random.random() < 0.6
        self.clock = "virtual" if random.random() < 0.8 else "monotonic"
        self.time = 0
        self.epoch = 0
        self.everyone: list[_Process] = []
        self.alive: list[_Process] = []
        self.past: dict[Message, set[Message]] = {}
        self.about: dict[Message, Row] = {}
        self.faulty = False

    # --- rows ------------------------------------------------------------------------------------------------------

    def write(self, process: _Process, kind: str, view: _View | None = None, **columns: Any) -> None:
        self.time += self.random.randint(1, 3)
        row: Row = {"process": process.name, "step": len(process.rows) + 1, "time": self.time, "kind": kind, **columns}
        if self.run:
            row["run"] = self.run
        if view is not None:
            row |= {"view_epoch": view.epoch, "view_proposer": view.proposer}
        process.rows.append(row)

    def protocol(self, view: _View, place: int = 0) -> Row:
        if self.order == "total_bare":
            return {}
        if self.order == "switching":
            return {"protocol": "sequencer" if view.cut is None or place < view.cut else "single_phase"}
        return {"protocol": self.order}

    # --- messages --------------------------------------------------------------------------------------------------

    def send(self, process: _Process) -> None:
        process.sent += 1
        message = (process.name, process.sent)
        about: Row = {"origin": process.name, "number": process.sent, "digest": self.random.randint(1, 10**9), "size": 8}
        if self.conflicts.by != "everything":
            if self.random.random() < 0.95:
                about["type"] = self.random.choice("uid")
            about["items"] = tuple(sorted(self.random.sample(("x", "y", "z"), self.random.choice((1, 1, 2)))))
        self.about[message] = about
        self.past[message] = set(process.known)
        process.known.add(message)
        view = process.view
        view.sequence.append(message)
        view.holders[message] = {process.name}
        self.write(process, "send", view, **about)

    def receive(self, process: _Process, message: Message) -> None:
        process.view.holders[message].add(process.name)
        if self.receives:
            about = {"origin": message[0], "number": message[1], "peer": message[0]}
            self.write(process, "receive", process.view, **about)

    def conflict(self, one: Message, two: Message) -> bool:
        first, second = self.about[one], self.about[two]
        return self.conflicts.conflict(first.get("type"), first.get("items"), second.get("type"), second.get("items"))

    def before(self, message: Message, view: _View) -> list[Message]:
        """What must be delivered before a message, of its own view."""
        place = view.sequence.index(message)
        earlier = view.sequence[:place]
        if self.order.endswith("fifo"):
            earlier = [other for other in earlier if other[0] == message[0]]
        elif self.order.endswith("causal"):
            earlier = [other for other in earlier if other in self.past[message]]
        return [other for other in earlier if self.conflict(other, message)]

    def ready(self, process: _Process) -> list[Message]:
        view = process.view
        had = set(process.delivered)
        return [m for m in view.sequence if m not in had and had.issuperset(self.before(m, view))]

    def deliver(self, process: _Process, message: Message, transitional: bool = False) -> None:
        view = process.view
        if process.name not in view.holders[message]:
            self.receive(process, message)
        level: Row = {"level": "agreed"}
        if self.level != "agreed" and not transitional:
            wanted = len(view.members) if self.level == "safe" else min(self.k, len(view.members))
            here = [other for other in self.alive if other.view is view]
            for other in self.random.sample(here, len(here)):
                if len(view.holders[message]) < wanted and other.name not in view.holders[message]:
                    self.receive(other, message)
            level = {"level": self.level, "k": self.k} if self.level == "k" else {"level": "safe"}
            if self.level == "safe":
                view.safe.add(message)
        place = view.sequence.index(message)
        self.switch(process, place)
        columns = {**self.about[message], **level, **self.protocol(view, place)}
        if self.order in ("sequencer", "semantic_total", "switching"):
            columns["position"] = (int(view.cut is not None and place >= view.cut), place)
        process.delivered.append(message)
        process.known |= self.past[message] | {message}
        self.write(process, "deliver", view, **columns)

    def switch(self, process: _Process, place: int) -> None:
        view = process.view
        if view.cut is not None and place >= view.cut and not process.switched:
            process.switched = True
            detail = {"strategy": "dual", "phase": "done", "from": "sequencer", "to": "single_phase"}
            self.write(process, "switch", view, protocol="single_phase", detail=detail)

    # --- views -----------------------------------------------------------------------------------------------------

    def install(self, names: list[str], processes: list[_Process]) -> None:
        self.epoch += self.random.randint(0, 1) if self.epoch else 1
        ids = [(process.view.epoch, process.view.proposer) for process in processes]
        proposer = min(names)
        if max(ids) >= (self.epoch, proposer):
            self.epoch = max(ids)[0] + 1
        view = _View(self.epoch, proposer, sorted(names))
        if self.order == "switching" and self.random.random() < 0.7:
            view.cut = self.random.randint(0, 4)
        for process in processes:
            process.view, process.delivered, process.switched = view, [], False
            level: Row = {"level": self.level} if self.level != "k" else {"level": "k", "k": self.k}
            self.write(process, "view", view, members=tuple(view.members), **self.protocol(view), **level)

    def traffic(self, most: int) -> None:
        for _ in range(self.random.randint(0, most)):
            process = self.random.choice(self.alive)
            action = self.random.random()
            if action < 0.35:
                self.send(process)
            elif action < 0.5 and process.view.sequence:
                message = self.random.choice(process.view.sequence)
                if process.name not in process.view.holders[message]:
                    self.receive(process, message)
            elif possible := self.ready(process):
                self.deliver(process, self.random.choice(possible))

    def conclude(self, cohort: list[_Process]) -> None:
        """End a view for those that go on together: they deliver the same set, and senders get back what is left."""
        view = cohort[0].view
        for process in cohort:
            self.write(process, "transitional", view, members=tuple(sorted(p.name for p in cohort)))
        wanted = view.safe.union(*(process.delivered for process in cohort))
        if self.order in ("sequencer", "total_bare", "switching"):  # a prefix
            most = max((view.sequence.index(message) + 1 for message in wanted), default=0)
            wanted = set(view.sequence[: self.random.randint(most, len(view.sequence))])
        else:
            for message in view.sequence:
                if self.random.random() < 0.8 and wanted.issuperset(self.before(message, view)):
                    wanted.add(message)
        self.finish(cohort, wanted, transitional=True)
        for process in cohort:
            for message in view.sequence:
                if message[0] == process.name and message not in wanted:
                    self.write(process, "returned", view, **self.about[message])

    def finish(self, cohort: list[_Process], wanted: set[Message], transitional: bool) -> None:
        for process in cohort:
            while left := [message for message in self.ready(process) if message in wanted]:
                self.deliver(process, self.random.choice(left), transitional)

    def change(self) -> None:
        """Crash, leave, split, merge, join: then new views."""
        random = self.random
        if len(self.alive) > 2 and random.random() < 0.3:
            gone = self.alive.pop(random.randrange(len(self.alive)))
            if random.random() < 0.6:
                self.write(gone, "crash", gone.view)  # otherwise it is killed, and its trace just ends
        if len(self.alive) > 1 and random.random() < 0.3:
            self.fault(self.alive[0])
        part_of = {process.name: random.randint(0, 1) if self.faulty else 0 for process in self.alive}
        leaver = random.choice(self.alive) if len(self.alive) > 2 and random.random() < 0.2 else None
        cohorts: dict[tuple[int, int], list[_Process]] = {}
        for process in self.alive:
            cohorts.setdefault((id(process.view), part_of[process.name]), []).append(process)
        for cohort in cohorts.values():
            self.conclude(cohort)
        if leaver is not None:
            self.alive.remove(leaver)
            self.write(leaver, "stop", leaver.view)
        for part in (0, 1):
            processes = [process for process in self.alive if part_of.get(process.name) == part]
            if part == 0 and processes and len(self.everyone) < 6 and random.random() < 0.3:
                processes.append(self.join())
            if processes:
                self.install([process.name for process in processes], processes)

    def fault(self, process: _Process) -> None:
        self.faulty = not self.faulty
        self.write(process, "fault" if self.faulty else "heal", detail={"link": "all"})

    def join(self) -> _Process:
        process = _Process(f"{'abcdef'[len(self.everyone)]}#1", _View(0, "", []))
        self.everyone.append(process)
        self.alive.append(process)
        self.write(process, "start", detail={"clock": self.clock})
        return process

    def run_to_the_end(self, views: int, most: int) -> None:
        first = [self.join() for _ in range(self.random.randint(2, 4))]
        self.install([process.name for process in first], first)
        for _ in range(self.random.randint(0, views)):
            self.traffic(most)
            self.change()
        self.traffic(most)
        if self.faulty:
            self.fault(self.alive[0])
        views_now = {id(process.view): process.view for process in self.alive}
        names = sorted(process.name for process in self.alive)
        if any(view.members != names for view in views_now.values()):
            for view in views_now.values():
                self.conclude([process for process in self.alive if process.view is view])
            self.install(names, self.alive)
            self.traffic(most)
        self.finish(self.alive, set(self.alive[0].view.sequence), transitional=False)
        for process in self.alive:
            self.write(process, "stop", process.view)


def clean(random: Random, order: str | None = None, *, run: str = "", views: int = 3, most: int = 14) -> Generated:
    """A history that keeps all it promises."""
    play = _Play(random, order, run)
    play.run_to_the_end(views, most)
    rows = [row for process in play.everyone for row in process.rows]
    return Generated(rows, play.order, play.conflicts, promised(play.order))


def promised(order: str) -> list[str]:
    """The checks that histories of an order must pass."""
    always = ["integrity", "duplication", "view_identity", "view_monotony", "self_inclusion", "initial_view", "sending_view"]
    always += ["same_view", "sender_in_view", "virtual_synchrony", "agreement", "validity", "uniform", "liveness", "resilience"]
    always += ["switching"]
    fifo = ["fifo", "reliable_fifo", "semantic_fifo"]
    causal = [*fifo, "causal", "semantic_causal"]
    orders = {
        "fifo": fifo,
        "causal": causal,
        "semantic_fifo": ["semantic_fifo"],
        "semantic_causal": ["semantic_fifo", "semantic_causal"],
        "semantic_total": ["semantic_fifo", "semantic_causal", "semantic_total"],
    }
    return always + orders.get(order, [*causal, "total_pairwise", "total_global", "semantic_total", "position"])


def clean_histories(order: str | None = None) -> st.SearchStrategy[Generated]:
    """The same for Hypothesis."""
    return st.randoms(use_true_random=False).map(lambda random: clean(random, order, views=2, most=10))
