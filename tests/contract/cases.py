"""What the contract is asked of: every registered orderer with every combination of its options, at every delivery level.

An orderer that is registered later is held to the contract without a line here, unless its order is extrinsic
(PROTOCOLS §3): then it may hand messages back when a view ends without the member that orders, and says so below.

A semantic order is asked twice: without a relation (with its default options), when everything conflicts and it has to keep
what the plain order keeps, and with one that is no equivalence, over messages with several items.

And every orderer is asked as one that a group has switched to, each from another one, by all strategies in turn.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from isotone.model.conflicts import Conflicts
from isotone.model.switch import STRATEGIES, Strategy, Switch
from isotone.model.view import LEVELS, Level, Ordering
from isotone.protocol.ordering import registry

K = 2
EXTRINSIC = {"sequencer", "two_phase", "token"}
PROVING = {"token"}  # whose own records prove who holds what, without reports
FOR_DEMONSTRATION = {("sequencer", "fallback", "classical")}  # contradicts itself on purpose; the checks flag it


ACCOUNTS = Conflicts.by_both(
    {"update": ["update", "increment", "decrement"], "increment": [], "decrement": []}, always={"audit": ["audit"]}
)
_TYPES = (*ACCOUNTS.types, None)
_ITEMS = ([], ["x"], ["y"], ["x", "y"], ["y", "z"], ["z"], None)


class Case(NamedTuple):
    """One way to run a group."""

    order: str
    level: Level
    options: tuple[tuple[str, int | str | bool], ...]
    conflicts: Conflicts | None = None
    begins: str = ""
    """The order that the group begins with, if it is to switch from it."""
    strategy: Strategy = "stop"

    def __str__(self) -> str:
        related = ["related"] if self.conflicts is not None else []
        begins = [self.begins, self.strategy] if self.begins else []
        return "-".join([*begins, self.order, *(str(value) for _, value in self.options), *related, self.level])

    def described(self, process: str, number: int) -> tuple[str | None, list[str] | None]:
        """Type and items of a message, where a relation looks at them; most name both."""
        if self.conflicts is None:
            return None, None
        place = 7 * number + 3 * ord(process[0])
        return _TYPES[place % len(_TYPES)], _ITEMS[place // 3 % len(_ITEMS)]

    @property
    def ordering(self) -> Ordering:
        """The setting that selects it."""
        return Ordering(self.order, self.level, K if self.level == "k" else 1, dict(self.options), self.conflicts)

    @property
    def first(self) -> Ordering:
        """What the group begins with."""
        if not self.begins:
            return self.ordering
        return Ordering(self.begins, conflicts=self.conflicts)

    @property
    def switch(self) -> Switch:
        """How it comes to the order of the case."""
        return Switch(self.ordering, self.strategy, fresh=True)

    @property
    def total(self) -> bool:
        """Whether messages have positions, and all members deliver in their order; with a relation, those that conflict."""
        return registry.find(self.order).total

    @property
    def one_order(self) -> bool:
        """Whether all members deliver everything in one order."""
        return self.total and self.conflicts is None

    @property
    def intrinsic(self) -> bool:
        """Whether a message carries all that fixes its place, so that none is ever handed back."""
        return self.order not in EXTRINSIC

    def need(self, members: int) -> int:
        """How many members must hold a message before it is delivered with the level that was asked for."""
        return {"agreed": 1, "k": min(K, members), "safe": members}[self.level]


def _cases() -> list[Case]:
    result = []
    for order in registry.names():
        options = registry.find(order).options
        for values in product(*options.values()):
            chosen = tuple(zip(options, values, strict=True))
            relations: tuple[Conflicts | None, ...] = (None,)
            if registry.find(order).semantic:
                by_default = all(value == options[name][0] for name, value in chosen)
                relations = (None, ACCOUNTS) if by_default else (ACCOUNTS,)
            if not any((order, name, value) in FOR_DEMONSTRATION for name, value in chosen):
                result += [Case(order, level, chosen, relation) for relation in relations for level in LEVELS]
    return result


def _nested() -> list[Case]:
    """Every order with its default options, within a view that began with another order; with a relation, with a semantic one."""
    result: list[Case] = []
    for relation in (None, ACCOUNTS):
        orders = [order for order in registry.names() if relation is None or registry.find(order).semantic]
        for i, order in enumerate(orders):
            begins = orders[i - 1]
            total = registry.find(order).total and registry.find(begins).total
            strategy = STRATEGIES[i % len(STRATEGIES)] if total else "stop"
            options = tuple((name, values[0]) for name, values in registry.find(order).options.items())
            result += [Case(order, level, options, relation, begins, strategy) for level in ("agreed", "safe")]
    return result


CASES = _cases() + _nested()
EVERY_ORDER = [case for case in CASES if case.level == "agreed"]
"""For what does not depend on the level."""
ABOVE_AGREED = [case for case in CASES if case.level != "agreed"]
"""For what only the higher levels promise."""
BY_REPORTS = [case for case in ABOVE_AGREED if case.order not in PROVING]
"""For what only reports tell."""
SAFE = [case for case in CASES if case.level == "safe"]
EXTRINSIC_SAFE = [case for case in SAFE if not case.intrinsic and case.order != "two_phase"]
"""Where the first member orders all messages; in `two_phase` each sender does (tests/protocol/test_two_phase.py)."""
SAFE_BY_REPORTS = [case for case in BY_REPORTS if case.level == "safe"]
