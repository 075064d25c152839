"""Consensus with one thing wrong, each a way to decide twice, what nobody proposed, or never. The swarm has to catch all."""

from isotone.protocol.membership.consensus import ACCEPTED, NONE, PROMISE, Ballot, Consensus


class PromiseNotKept(Consensus[str]):
    """An acceptor accepts below the ballot that it promised."""

    def _accept(self, number, value):
        self._promised = max(self._promised, number)
        self._accepted = number
        self._value = value
        return Ballot(ACCEPTED, number)


class PromiseLowered(Consensus[str]):
    """An acceptor promises any ballot, also one below the last."""

    def _promise(self, number):
        self._promised = number
        return Ballot(PROMISE, number, self._accepted, self._value)


class MajorityTooSmall(Consensus[str]):
    """Half of the members decide."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.majority = max(1, self.count // 2)


class OwnValueKept(Consensus[str]):
    """A proposer with a value of its own sends that, whatever was accepted before."""

    def _count(self, sender, answer, now):
        if self._asking and self._own is not None:
            answer = Ballot(answer.phase, answer.number)
        super()._count(sender, answer, now)


class LastInsteadOfHighest(Consensus[str]):
    """A proposer adopts the accepted value that it heard last, not that of the highest ballot."""

    def _count(self, sender, answer, now):
        if self._asking and answer.accepted != NONE:
            self._highest = NONE
        super()._count(sender, answer, now)


class AcceptedForgotten(Consensus[str]):
    """A promise does not tell what was accepted."""

    def _promise(self, number):
        answer = super()._promise(number)
        return answer and Ballot(PROMISE, number)


class NumbersShared(Consensus[str]):
    """Ballot numbers do not contain the proposer's rank."""

    def _begin(self, now):
        rank, self.rank = self.rank, 0
        super()._begin(now)
        self.rank = rank
        self._answers = {rank}

    def _check(self, sender, message):
        pass


class AnswersCountedTwice(Consensus[str]):
    """A repeated answer counts again."""

    def _count(self, sender, answer, now):
        copies = sum(1 for key in self._answers if key % self.count == sender)
        super()._count(sender + copies * self.count, answer, now)


class OldAnswersCount(Consensus[str]):
    """An answer to an earlier ballot of one's own counts for the current one."""

    def receive(self, sender, message, now):
        if message.phase in (PROMISE, ACCEPTED) and self._number != NONE:
            message = Ballot(message.phase, self._number, min(message.accepted, self._number), message.value)
        super().receive(sender, message, now)


class AcceptedIsDecided(Consensus[str]):
    """An acceptor takes what it accepts for decided."""

    def _accept(self, number, value):
        answer = super()._accept(number, value)
        if answer is not None and self._number == NONE:
            self._decide(value)
        return answer


class NeverAgain(Consensus[str]):
    """A proposer that was outbid or not heard does not try again."""

    def wake(self, now):
        self._wake_at = None


class AnswererForgotten(Consensus[str]):
    """Who only answered never asks what came of it."""

    def _answer(self, sender, question, answer, now):
        before = self._wake_at
        super()._answer(sender, question, answer, now)
        self._wake_at = before


MUTANTS = [
    PromiseNotKept, PromiseLowered, MajorityTooSmall, OwnValueKept, LastInsteadOfHighest, AcceptedForgotten, NumbersShared,
    AnswersCountedTwice, OldAnswersCount, AcceptedIsDecided, NeverAgain, AnswererForgotten,
]  # fmt: skip
