"""A wish to order the messages of a group in another way from now on (paper 004)."""

from __future__ import annotations

from typing import Literal

import msgspec

from isotone.model.errors import unknown
from isotone.model.view import Ordering

Strategy = Literal["dual_ids", "dual", "rabp", "stop"]
STRATEGIES: tuple[Strategy, ...] = ("dual_ids", "dual", "rabp", "stop")
Rule = Literal["all", "majority"]
RULES: tuple[Rule, ...] = ("all", "majority")


class Switch(msgspec.Struct, frozen=True, array_like=True):
    """What is to be in force, and how to get there. `rule` says whose flags make the cut of `dual` and `dual_ids`.

    What is in force already is refused, unless a `fresh` instance of it is asked for.
    """

    ordering: Ordering
    strategy: Strategy = "dual_ids"
    rule: Rule = "all"
    fresh: bool = False


def check_names(strategy: str, rule: str) -> None:
    """Raise `ConfigError` for a strategy or a rule that is none."""
    if strategy not in STRATEGIES:
        raise unknown("strategy", strategy, STRATEGIES)
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
