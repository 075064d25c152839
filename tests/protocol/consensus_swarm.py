"""A small simulator for consensus alone: members, a bad network, crashes, and the judge of what they decide.

Until `_HEAL` messages are lost, repeated, delayed and so reordered, members crash and (as newcomers, which do not vote) restart;
then the network is good. Everything follows from the seed. `judge` is the list of broken properties.
"""

import heapq
from random import Random

from isotone.model.errors import GroupError, InvariantViolation
from isotone.protocol.membership.consensus import DECIDE, PHASES, Ballot, Consensus

_HEAL = 1_500
_END = 60_000


class Run:
    """One run of one seed."""

    def __init__(self, seed: int, make: type[Consensus[str]] = Consensus, restarts_vote: bool = False) -> None:
        rand = self.rand = Random(seed)
        self.make = make
        self.restarts_vote = restarts_vote
        self.seed = seed
        self.count = rand.choice((1, 2, 3, 3, 3, 4, 5, 5, 7))
        self.retry = rand.choice((1, 5, 20))
        self.loss = [rand.choice((0.0, 0.0, 0.1, 0.3, 0.6)) for _ in PHASES]
        self.loss[DECIDE] = rand.choice((0.0, 0.5, 0.99))  # a decision that nobody hears of is the hard case
        self.repeat = rand.choice((0.0, 0.1, 0.4))
        self.slow = rand.choice((2, 10, 60, 400))
        self.cut = {(a, b) for a in range(self.count) for b in range(self.count) if rand.random() < rand.choice((0, 0, 0.3))}
        self.members = [make(rank, self.count, self.retry, seed) for rank in range(self.count)]
        self.alive = [True] * self.count
        self.lost = [False] * self.count  # crashed at least once: no member any more
        self.touched: set[int] = set()
        self.proposed: dict[int, str] = {}
        self.decided: list[str | None] = [None] * self.count
        self.broken: list[str] = []
        self.queue: list[tuple[int, int, tuple[object, ...]]] = []
        self.number = 0
        self.now = 0
        self.draw()

    def draw(self) -> None:
        rand = self.rand
        for rank in rand.sample(range(self.count), rand.randint(1, self.count)):
            for _ in range(rand.choice((1, 1, 2))):
                self.at(rand.randrange(rand.choice((3, 300, _HEAL))), "propose", rank)
        crashes = rand.choice((0, 0, 1, (self.count - 1) // 2, (self.count - 1) // 2, self.count))
        for rank in rand.sample(range(self.count), min(crashes, self.count)):
            time = rand.randrange(rand.choice((50, 400, _HEAL)))
            self.at(time, "crash", rank)
            if rand.random() < 0.7:
                self.at(time + rand.randrange(1, 60), "restart", rank)

    def at(self, time: int, what: str, *arguments: object) -> None:
        self.number += 1
        heapq.heappush(self.queue, (time, self.number, (what, *arguments)))

    def run(self) -> list[str]:
        while self.queue and not self.broken:
            self.now, _, (what, *arguments) = heapq.heappop(self.queue)
            if self.now > _END:
                break
            try:
                getattr(self, "do_" + str(what))(*arguments)
            except (GroupError, InvariantViolation) as error:
                self.broken.append(f"integrity: {error}")
        return self.broken or self.judge()

    def do_propose(self, rank: int) -> None:
        if self.alive[rank]:
            value = f"value {self.number} of {rank}"
            self.proposed[self.number] = value
            self.touched.add(rank)
            self.members[rank].propose(value, self.now)
            self.flush(rank)

    def do_crash(self, rank: int) -> None:
        self.alive[rank] = False
        self.lost[rank] = True

    def do_restart(self, rank: int) -> None:
        if self.restarts_vote:
            self.members[rank] = self.make(rank, self.count, self.retry, self.seed)
            self.alive[rank] = True
            self.decided[rank] = None

    def do_wake(self, rank: int) -> None:
        deadline = self.members[rank].deadline()
        if self.alive[rank] and deadline is not None and deadline <= self.now:
            self.members[rank].wake(self.now)
            self.flush(rank)

    def do_deliver(self, sender: int, rank: int, message: Ballot[str]) -> None:
        if self.alive[rank]:
            self.touched.add(rank)
            self.members[rank].receive(sender, message, self.now)
            self.flush(rank)

    def flush(self, rank: int) -> None:
        member = self.members[rank]
        for to, message in member.take():
            for other in range(self.count) if to is None else (to,):
                if other != rank:
                    self.send(rank, other, message)
        deadline = member.deadline()
        if deadline is not None:
            self.at(max(deadline, self.now + 1), "wake", rank)
        self.look(rank)

    def send(self, rank: int, other: int, message: Ballot[str]) -> None:
        rand = self.rand
        if self.now >= _HEAL:
            self.at(self.now + rand.randint(1, 10), "deliver", rank, other, message)
            return
        if rand.random() < self.loss[message.phase] or ((rank, other) in self.cut and rand.random() < 0.9):
            return
        for _ in range(2 if rand.random() < self.repeat else 1):
            self.at(self.now + rand.randint(1, self.slow), "deliver", rank, other, message)

    def look(self, rank: int) -> None:
        value = self.members[rank].decided
        if value == self.decided[rank]:
            return
        if self.decided[rank] is not None:
            self.broken.append(f"integrity: {rank} decided {self.decided[rank]}, then {value}")
        self.decided[rank] = value
        if value not in self.proposed.values():
            self.broken.append(f"validity: {rank} decided {value}, which nobody proposed")
        if len({decision for decision in self.decided if decision is not None}) > 1:
            self.broken.append(f"agreement: {self.decided}")

    def judge(self) -> list[str]:
        """At the end: who took part has decided, if a majority lived and one of it proposed."""
        living = [rank for rank in range(self.count) if not self.lost[rank]]
        wanted = any(self.members[rank]._own is not None for rank in living) or any(self.decided[rank] for rank in living)
        if 2 * len(living) <= self.count or not wanted:
            return []
        return [f"termination: {rank} took part and decided nothing" for rank in living if self.waits(rank)]

    def waits(self, rank: int) -> bool:
        return rank in self.touched and self.decided[rank] is None


def failures(first: int, count: int, make: type[Consensus[str]] = Consensus, restarts_vote: bool = False) -> list[str]:
    """What the seeds from `first` break, each with its seed; stops at the first that breaks something."""
    for seed in range(first, first + count):
        broken = Run(seed, make, restarts_vote).run()
        if broken:
            return [f"seed {seed}: {text}" for text in broken]
    return []
